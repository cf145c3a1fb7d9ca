"""The packed model: attention within sequences, packed BERT, a causal twin, losses per sequence."""

from packlib.installed import needed_by

with needed_by(__name__):
    from packlib.model.attention import BACKENDS, attention_arguments, choose_backend
    from packlib.model.losses import Sums, nsp_accuracy, nsp_loss, per_sequence, token_accuracy, token_loss
    from packlib.model.packed import Causal, Masked, PackedBert, PackedCausal, PackedOutput
    from packlib.model.prediction import predict

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
