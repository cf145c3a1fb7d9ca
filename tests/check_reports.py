"""Set-ups for `check_packing` after public reports: faults, each with its place, and right ones that look like faults."""

import check_cases as cases
import torch
from check_cases import SEGMENTS, Tiny, dense, make, spoiled
from check_today import long
from torch.nn import functional as F
from transformers import DataCollatorWithFlattening

FLAT = DataCollatorWithFlattening()
EARLIER, ALONE = "isolation from earlier sequences", "same as alone"


def of(*lengths):
    """Sequences of these lengths, with labels for all tokens but the first third."""
    rows = []
    for number, length in enumerate(lengths):
        ids = long(length, seed=number)
        rows.append({"input_ids": ids, "labels": [-100] * (length // 3) + ids[length // 3 :]})
    return rows


MIXED = of(51, 26, 56, 48, 9, 38, 32, 20, 311, 314, 316)  # most are shorter than max_tokens
MANY = of(*[7, 12, 9, 15, 6, 11, 8, 14, 10, 13, 5, 16, 9, 12])  # 8 of them fill one row, and all of them two


def llama(**changes):
    return make("LlamaForCausalLM", **{"max_position_embeddings": 512} | changes)


def rows_joined(rows):
    """Rows of 96 slots, numbered in each row and flattened into one row without an offset."""
    batch = dense(slots=96, **SEGMENTS)(rows)
    return {name: x.reshape(1, -1) for name, x in batch.items()}


class ByLongestRow(Tiny):
    """Each row's loss is divided by the labels of the row that has the most of them."""

    def _loss(self, logits, labels, segments, items):
        each = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
        return each.sum() / ((labels[:, 1:] != -100).sum(1).max() * len(labels))


# The model gets few sequences: what the batch of all has, theirs must have too
FAULTS = {
    "positions clamped at 255": (
        lambda: (llama(), spoiled(FLAT, position_ids=lambda x: x.clamp(max=255)), MIXED), "positions", "up by 1"),
    "positions wrap at 127": (
        lambda: (llama(), spoiled(FLAT, position_ids=lambda x: x % 128), MIXED), "positions", "up by 1"),
    "numbers of segments of two rows flattened": (
        lambda: (Tiny("attention"), rows_joined, MANY), EARLIER, "segment_ids give several"),
    "divided by the longest row": (
        lambda: (ByLongestRow("attention"), dense(slots=96, **SEGMENTS), MANY), "mean", "company"),
    "padding attended in few rows": (
        lambda: (make("BertForMaskedLM", max_position_embeddings=512), lambda rows: cases.padded(rows, ones=True),
                 cases.masked(of(30, 30, 30, 30, 30, 30, 30, 330))), "padding", "padding is attended"),
}  # fmt: skip

RIGHT = {
    "some longer than max_tokens": lambda: (llama(), FLAT, MIXED),
    "two rows of 14 sequences": lambda: (Tiny("attention"), dense(slots=96, **SEGMENTS), MANY),
}
