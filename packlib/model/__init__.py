"""Models: attention within sequences, packed BERT, and losses that are unpacked again.

Read first `attention.py`: one rule, three masks. `unmodified.py` hands packs to a model of transformers as it is,
`packed.py` is BERT on packs, `losses.py` takes their means.
"""

from packlib.installed import needed_by

with needed_by("packlib.model"):
    from packlib.model.attention import BACKENDS, attention_arguments, choose_backend
    from packlib.model.losses import Sums, nsp_accuracy, nsp_loss, per_sequence, token_accuracy, token_loss
    from packlib.model.output import PackedOutput
    from packlib.model.packed import PackedBert
    from packlib.model.prediction import predict
    from packlib.model.unmodified import for_transformers, packed_output

__all__ = [
    "BACKENDS",
    "PackedBert",
    "PackedOutput",
    "Sums",
    "attention_arguments",
    "choose_backend",
    "for_transformers",
    "nsp_accuracy",
    "nsp_loss",
    "packed_output",
    "per_sequence",
    "predict",
    "token_accuracy",
    "token_loss",
]
