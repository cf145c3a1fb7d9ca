"""The segments of a packed batch, pictures of which slot may look at which, and batches that a model reads wrongly."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from torch import Tensor

from packbook.figures import INK, OKABE_ITO, PADDING
from packlib.batches import PackedBatch
from packlib.model.attention import allowed_pairs

OWN, STRANGER = OKABE_ITO[0], OKABE_ITO[1]  # colors of pairs within a sequence, and across sequences
FEW = 32  # slots of a pack up to which a cross on each pair can be seen


def spans(segment_ids: Tensor) -> list[tuple[str, int, int]]:
    """Return name, first slot and end of each segment of one pack: A, B, C, … for 1, 2, 3, …, and "pad" for 0."""
    ids, counts = segment_ids.unique_consecutive(return_counts=True)
    ends = counts.cumsum(0).tolist()
    names = [chr(ord("A") + segment_id - 1) if segment_id else "pad" for segment_id in ids.tolist()]
    return [(name, end - count, end) for name, end, count in zip(names, ends, counts.tolist(), strict=True)]


def name_segments(ax: Axes, segment_ids: Tensor) -> None:
    """Name the rows and columns of a picture of pairs after the segments; names do not overlap."""
    slots = len(segment_ids)
    segments = spans(segment_ids)
    middles = [(start + end - 1) / 2 for _, start, end in segments]
    spacing = min(np.diff(middles), default=slots) / slots  # the least between two names, as a share of the axis
    names = [name if end - start >= slots / 30 else "" for name, start, end in segments]
    size = {"fontsize": 10} if spacing < 1 / 18 else {}
    ax.set_xticks(middles, names, **size)
    ax.set_yticks(middles, names, **size)
    ax.tick_params(length=0)


def draw_mask(ax: Axes, segment_ids: Tensor, allowed: Tensor, title: str) -> None:
    """Draw which query (row) may look at which key (column), in one color within a sequence and another one across.

    In a pack of at most `FEW` slots the pairs across sequences are crossed, too.

    Args:
        segment_ids: shape (slots,).
        allowed: bool, shape (slots, slots).
    """
    same_segment = allowed_pairs(segment_ids[None])[0]
    both_tokens = (segment_ids > 0)[:, None] & (segment_ids > 0)[None]
    across = allowed & ~same_segment
    picture = np.full((*allowed.shape, 3), to_rgb("#f4f4f4"))
    picture[(allowed & same_segment & both_tokens).numpy()] = to_rgb(OWN)
    picture[across.numpy()] = to_rgb(STRANGER)
    picture[(allowed & same_segment & ~both_tokens).numpy()] = to_rgb(PADDING)
    ax.imshow(picture)
    if len(segment_ids) <= FEW:
        rows, columns = across.nonzero().numpy().T
        ax.plot(columns, rows, color="white", marker="x", markersize=4, linestyle="", markeredgewidth=1)
    for _, start, _ in spans(segment_ids)[1:]:
        ax.axhline(start - 0.5, color=INK, linestyle="-", linewidth=1)
        ax.axvline(start - 0.5, color=INK, linestyle="-", linewidth=1)
    name_segments(ax, segment_ids)
    ax.set_title(title, fontsize=13)


def spoiled(batch: PackedBatch, mask: bool = True, restart: bool = True) -> dict:
    """Return the fields of a batch for a model that lacks the block-diagonal mask, or the restart of positions.

    Args:
        mask: whether sequences are kept apart; otherwise only padding is.
        restart: whether positions restart in each sequence; otherwise they run on.
    """
    running_positions = torch.arange(batch.max_length).expand_as(batch.input_ids)
    one_segment = (batch.segment_ids > 0).long()
    return {
        **batch,
        "segment_ids": batch.segment_ids if mask else one_segment,
        "position_ids": batch.position_ids if restart else running_positions,
    }
