"""Where in a batch each sequence is, found by its content: nothing that a collator says of it is believed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

MASK, POSITIONS = "attention_mask", "position_ids"


@dataclass(frozen=True)
class Piece:
    """Tokens of one sequence that lie side by side in a batch."""

    sequence: int
    slots: np.ndarray  # among all slots of the batch
    offsets: np.ndarray  # in the sequence


def owners(ids: Tensor, pieces: Sequence[Piece]) -> np.ndarray:
    """Return the number of the piece in each slot, and -1 on padding; shape (rows, T)."""
    owner = np.full(ids.numel(), -1)
    for number, piece in enumerate(pieces):
        owner[piece.slots] = number
    return owner.reshape(-1, ids.shape[-1])


def has_slots(value: Any, ids: Tensor) -> bool:
    """Return True if a field of a batch has a value for each slot."""
    return isinstance(value, Tensor) and value.shape == ids.shape


def is_mask(value: Any, ids: Tensor) -> bool:
    """Return True if a field says for each pair of slots if one may look at the other."""
    return isinstance(value, Tensor) and value.dim() > 1 and tuple(value.shape[-2:]) == (ids.shape[-1],) * 2


def restarting(ids: Tensor, pieces: Sequence[Piece], start: int = 0) -> Tensor:
    """Return the position ids that each piece has alone, and `start` on padding; shape of `ids`."""
    positions = torch.full_like(ids, start).flatten()
    for piece in pieces:
        positions[piece.slots] = torch.arange(start, start + len(piece.slots), device=ids.device)
    return positions.view_as(ids)


def locate(ids: np.ndarray, sequences: Sequence[np.ndarray]) -> list[Piece]:
    """Find the pieces in `ids`, shape (…, T): whole sequences first, then what was cut off, then copies.

    Tokens that were replaced, as masking does, are found by their neighbors.
    """
    width, flat = ids.shape[-1], ids.ravel()
    order = np.argsort(flat, kind="stable")
    free, pieces = np.ones(len(flat), bool), list[Piece]()

    def claim(index: int, wanted: np.ndarray, least: float) -> bool:
        """Take the longest line of free slots that hold the `wanted` places of a sequence, if it has `least`."""
        offsets, content = np.flatnonzero(wanted), sequences[index]
        low, high = (np.searchsorted(flat, content[offsets], side, sorter=order) for side in ("left", "right"))
        slots = np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)] or [order[:0]])
        offsets = np.repeat(offsets, high - low)
        slots, offsets = slots[free[slots]], offsets[free[slots]]
        if not len(slots):
            return False
        lines, of, counts = np.unique(
            np.stack([slots // width, slots - offsets]), axis=1, return_inverse=True, return_counts=True
        )
        slots_in_line = slots[of.ravel() == counts.argmax()]
        start = lines[1, counts.argmax()]
        line = np.arange(slots_in_line.min(), slots_in_line.max() + 1)
        line = line[free[line] & wanted[line - start]]
        if len(slots_in_line) < least:
            return False
        free[line], wanted[line - start] = False, False
        pieces.append(Piece(index, line, line - start))
        return True

    missing = [np.ones(len(content), bool) for content in sequences]
    by_length = sorted(range(len(sequences)), key=lambda index: -len(sequences[index]))
    for index in by_length:  # as they are, before another that begins with the same prompt is taken for them
        claim(index, missing[index], len(sequences[index]))
    for index in by_length:
        if missing[index].all():
            claim(index, missing[index], (len(sequences[index]) + 1) // 2)
    for index in by_length:  # of which most tokens were replaced
        if missing[index].all():
            claim(index, missing[index], min(2, len(sequences[index])))
    for at, piece in enumerate(pieces):  # ends that were replaced: free, and not the padding at the end of the row
        start, row = piece.slots[0] - piece.offsets[0], piece.slots[0] // width
        line = np.arange(max(start, row * width), min(start + len(missing[piece.sequence]), (row + 1) * width))
        last = (row + 1) * width - 1
        more = line[free[line] & ~(free[last] & (flat[line] == flat[last]))]
        slots = np.sort(np.concatenate([piece.slots, more]))
        free[more], missing[piece.sequence][more - start] = False, False
        pieces[at] = Piece(piece.sequence, slots, slots - start)
    for index in by_length:
        while missing[index].sum() > 1 and claim(index, missing[index], 2):
            pass
    for index in by_length:
        while len(sequences[index]) > 2 and claim(
            index, np.ones(len(sequences[index]), bool), 0.7 * len(sequences[index])
        ):
            pass
    return sorted(pieces, key=lambda piece: piece.slots[0])
