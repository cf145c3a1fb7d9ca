from .attention import BACKENDS, attention_arguments, choose_backend
from .losses import Sums, nsp_accuracy, nsp_loss, per_sequence, token_accuracy, token_loss
from .packed import Causal, Masked, PackedBert, PackedCausal, PackedOutput
from .prediction import predict

__all__ = [
    "BACKENDS",
    "Causal",
    "Masked",
    "PackedBert",
    "PackedCausal",
    "PackedOutput",
    "Sums",
    "attention_arguments",
    "choose_backend",
    "nsp_accuracy",
    "nsp_loss",
    "per_sequence",
    "predict",
    "token_accuracy",
    "token_loss",
]
