"""The older way: padding is removed before the token-wise blocks and added back around attention.

The batch stays one sequence a row. Linear layers, norms and the feed-forward part see the useful tokens only;
queries, keys and values are put back into padded rows for attention, so that its work stays that of padding.
"""

import inspect

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from packlib.batches import IGNORED, PackedBatch
from packlib.model import PackedBert, attention


def unpadded_hidden(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    """The last hidden states of the useful tokens, shape (useful tokens, d)."""
    useful = batch.segment_ids > 0
    keys = useful[:, None, None]
    embeddings = model.bert.embeddings
    ids = {name: batch[name][useful][None] for name in ("input_ids", "token_type_ids", "position_ids")}
    x = embeddings(**ids)[0]
    for layer in model.bert.encoder.layer:
        this = layer.attention.self
        heads, width = this.num_attention_heads, this.attention_head_size
        padded = []
        for project in (this.query, this.key, this.value):
            rows = x.new_zeros(*useful.shape, heads * width)
            rows[useful] = project(x)
            padded.append(rows.unflatten(-1, (heads, width)).transpose(1, 2))
        dropout = this.dropout.p if model.training else 0.0
        mixed = scaled_dot_product_attention(*padded, attn_mask=keys, dropout_p=dropout)
        x = layer.attention.output(mixed.transpose(1, 2).flatten(2)[useful], x)
        x = layer.output(layer.intermediate(x), x)
    return x


def unpadded_loss(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    x = unpadded_hidden(model, batch)
    labels = batch.labels[batch.segment_ids > 0]
    masked = labels != IGNORED
    firsts = x[batch.lengths.cumsum(0) - batch.lengths]
    nsp = model.cls.seq_relationship(model.bert.pooler(firsts[:, None]))
    mlm = cross_entropy(model.cls.predictions(x[masked]), labels[masked])
    return mlm + cross_entropy(nsp, batch.sequence_labels)


def lines_of_code() -> dict[str, int]:
    """Lines that each way adds to get the hidden states: the packed one needs its mask and its positions."""

    def count(*functions) -> int:
        lines = []
        for function in functions:
            source = inspect.getsource(function).replace(inspect.getdoc(function) or "", "")
            lines += [line for line in source.splitlines() if line.strip(' "')]
        return len(lines)

    packed = count(attention.allowed_pairs, attention.additive_mask, attention.reset_positions)
    return {"padded": 0, "padding removed": count(unpadded_hidden), "packed": packed}
