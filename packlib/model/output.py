"""What a model computes for a batch of packs."""

from dataclasses import dataclass

from torch import Tensor
from transformers.utils import ModelOutput


@dataclass
class PackedOutput(ModelOutput):
    """Outputs of a model for a batch of packs; M predicted tokens, S sequences.

    Attributes:
        loss: scalar: the mean token loss, plus BERT's mean next-sentence loss. Without any label it is 0 from
            `PackedBert` on a `PackedBatch`, and None from a masked model of transformers.
        token_logits: shape (M, vocabulary), of the predicted tokens only.
        token_labels: shape (M,), what they should be; -100 in empty places.
        token_positions: shape (M,), where among the B·T slots they are predicted; -1 in empty places.
        nsp_logits: shape (S, 2), one row a sequence; BERT only.
        pooled: shape (S, d), the pooled first token of each sequence; BERT only.
        hidden: shape (B, T, d), the last hidden states; BERT only.
    """

    loss: Tensor | None = None
    token_logits: Tensor | None = None
    token_labels: Tensor | None = None
    token_positions: Tensor | None = None
    nsp_logits: Tensor | None = None
    pooled: Tensor | None = None
    hidden: Tensor | None = None
