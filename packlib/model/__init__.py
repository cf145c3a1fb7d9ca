"""Models: attention within sequences, packed BERT, and losses that are unpacked again.

Read first `attention.py`: one rule, three masks. `unmodified.py` hands packs to a model of transformers as it is,
`packed.py` is BERT on packs, `losses.py` takes their means.
"""

from typing import TYPE_CHECKING

from packlib.installed import late

if TYPE_CHECKING:
    from packlib.model.attention import BACKENDS, attention_arguments, choose_backend
    from packlib.model.losses import Sums, nsp_accuracy, nsp_loss, per_sequence, token_accuracy, token_loss
    from packlib.model.output import PackedOutput
    from packlib.model.packed import PackedBert
    from packlib.model.prediction import predict
    from packlib.model.unmodified import for_transformers, packed_output
else:  # they load torch
    __getattr__, __dir__ = late(
        __name__,
        {
            "packlib.model.attention": ["BACKENDS", "attention_arguments", "choose_backend"],
            "packlib.model.losses": [
                "Sums",
                "nsp_accuracy",
                "nsp_loss",
                "per_sequence",
                "token_accuracy",
                "token_loss",
            ],
            "packlib.model.output": ["PackedOutput"],
            "packlib.model.packed": ["PackedBert"],
            "packlib.model.prediction": ["predict"],
            "packlib.model.unmodified": ["for_transformers", "packed_output"],
        },
    )
