"""The segments of a packed batch, who may look at whom, and the batch as a model reads it that does not know them."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from torch import Tensor

from packbook.figures import INK, OKABE_ITO, PADDING
from packlib.batches import PackedBatch
from packlib.model.attention import allowed_pairs

OWN, STRANGER = OKABE_ITO[0], OKABE_ITO[1]  # pairs within a sequence, pairs across
FEW = 32  # slots, of which each pair can be crossed


def spans(segment_ids: Tensor) -> list[tuple[str, int, int]]:
    """Name, first slot and end of each segment of one pack: A, B, C, …, and "pad"."""
    ids, counts = segment_ids.unique_consecutive(return_counts=True)
    stops = counts.cumsum(0).tolist()
    names = [chr(64 + i) if i else "pad" for i in ids.tolist()]
    return [(name, end - count, end) for name, end, count in zip(names, stops, counts.tolist(), strict=True)]


def name_segments(ax: Axes, segment_ids: Tensor) -> None:
    """Name the rows and columns of a picture of pairs after the segments; no name stands on its neighbor."""
    parts = spans(segment_ids)
    middles = [(start + end - 1) / 2 for _, start, end in parts]
    spacing = min(np.diff(middles), default=len(segment_ids)) / len(segment_ids)
    names = [name if end - start >= len(segment_ids) / 30 else "" for name, start, end in parts]
    size = {"fontsize": 10} if spacing < 1 / 18 else {}
    ax.set_xticks(middles, names, **size)
    ax.set_yticks(middles, names, **size)
    ax.tick_params(length=0)


def draw_mask(ax: Axes, segment_ids: Tensor, allowed: Tensor, title: str) -> None:
    """Draw which query (row) may look at which key (column): of one color within a sequence, of another to a stranger.

    In a pack of `FEW` slots strangers are crossed, too.
    """
    in_one_segment = allowed_pairs(segment_ids[None])[0]
    real = (segment_ids > 0)[:, None] & (segment_ids > 0)[None]
    strangers = allowed & ~in_one_segment
    picture = np.full((*allowed.shape, 3), to_rgb("#f4f4f4"))
    picture[(allowed & in_one_segment & real).numpy()] = to_rgb(OWN)
    picture[strangers.numpy()] = to_rgb(STRANGER)
    picture[(allowed & in_one_segment & ~real).numpy()] = to_rgb(PADDING)
    ax.imshow(picture)
    if len(segment_ids) <= FEW:
        rows, columns = strangers.nonzero().numpy().T
        ax.plot(columns, rows, color="white", marker="x", markersize=4, linestyle="", markeredgewidth=1)
    for _, start, _ in spans(segment_ids)[1:]:
        ax.axhline(start - 0.5, color=INK, linestyle="-", linewidth=1)
        ax.axvline(start - 0.5, color=INK, linestyle="-", linewidth=1)
    name_segments(ax, segment_ids)
    ax.set_title(title, fontsize=13)


def spoiled(batch: PackedBatch, mask: bool = True, restart: bool = True) -> dict:
    """Return the batch as a model reads it that lacks the block-diagonal mask, or the restart of positions."""
    slots = torch.arange(batch.max_length).expand_as(batch.input_ids)
    return {
        **batch,
        "segment_ids": batch.segment_ids if mask else (batch.segment_ids > 0).long(),  # hides padding only
        "position_ids": batch.position_ids if restart else slots,
    }
