"""The segments of a packed batch, and the batch as a model reads it that does not know them."""

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from packlib.batches import PackedBatch


def spans(segment_ids: Tensor) -> list[tuple[str, int, int]]:
    """Name, first slot and end of each segment of one pack: A, B, C, …, and "pad"."""
    ids, counts = segment_ids.unique_consecutive(return_counts=True)
    ends = counts.cumsum(0).tolist()
    names = [chr(64 + i) if i else "pad" for i in ids.tolist()]
    return [(name, end - count, end) for name, end, count in zip(names, ends, counts.tolist(), strict=True)]


def name_segments(ax: Axes, segment_ids: Tensor) -> None:
    """Name the rows and columns of a picture of pairs after the segments; no name stands on its neighbor."""
    parts = spans(segment_ids)
    middles = [(start + end - 1) / 2 for _, start, end in parts]
    apart = min(np.diff(middles), default=len(segment_ids)) / len(segment_ids)
    names = [name if end - start >= len(segment_ids) / 30 else "" for name, start, end in parts]
    size = {"fontsize": 10} if apart < 1 / 18 else {}
    ax.set_xticks(middles, names, **size)
    ax.set_yticks(middles, names, **size)
    ax.tick_params(length=0)


def spoiled(batch: PackedBatch, mask: bool = True, restart: bool = True) -> dict:
    """The batch as a model reads it that lacks the block-diagonal mask, or the restart of positions."""
    slots = torch.arange(batch.max_length).expand_as(batch.input_ids)
    return {
        **batch,
        "segment_ids": batch.segment_ids if mask else (batch.segment_ids > 0).long(),  # hides padding only
        "position_ids": batch.position_ids if restart else slots,
    }
