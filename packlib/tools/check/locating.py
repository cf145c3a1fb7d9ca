"""Where in a batch each sequence is, found by its content: nothing that a collator says of it is believed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

MASK, POSITIONS = "attention_mask", "position_ids"
_COPIED = 0.7  # of a sequence's tokens that a copy of it has at least


@dataclass(frozen=True)
class Piece:
    """Tokens of one sequence that are next to each other in a row of a batch.

    Attributes:
        sequence: the index of the sequence.
        slots: of the tokens among all slots of the batch, shape (tokens,).
        offsets: of the same tokens in the sequence, shape (tokens,).

    For `ids` [[5, 6, 7, 8, 9, 0]], of which the last is padding, the sequence [7, 8, 9] with index 1 is
    Piece(1, [2, 3, 4], [0, 1, 2]).
    """

    sequence: int
    slots: np.ndarray
    offsets: np.ndarray


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
    search = _Search(ids, sequences)
    longest_first = sorted(range(len(sequences)), key=lambda index: -len(sequences[index]))
    for index in longest_first:  # as they are, before another that begins with the same prompt is taken for them
        search.claim(index, search.missing[index], len(sequences[index]))
    for index in longest_first:  # that were cut, before one of them is taken to go on in the next by an equal token
        if search.missing[index].all():
            search.claim(index, search.missing[index], (len(sequences[index]) + 1) // 2, unbroken=True)
    for index in longest_first:
        if search.missing[index].all():
            search.claim(index, search.missing[index], (len(sequences[index]) + 1) // 2)
    for index in longest_first:  # of which most tokens were replaced
        if search.missing[index].all():
            search.claim(index, search.missing[index], min(2, len(sequences[index])))
    search.claim_replaced_ends()
    for index in longest_first:  # what was cut off, of two tokens or more
        while search.missing[index].sum() > 1 and search.claim(index, search.missing[index], 2):
            pass
    for index in longest_first:  # copies
        length = len(sequences[index])
        while length > 2 and search.claim(index, np.ones(length, bool), _COPIED * length):
            pass
    return sorted(search.pieces, key=lambda piece: piece.slots[0])


class _Search:
    """A search for sequences in a batch: the pieces that were found, and what is left.

    Attributes:
        width: slots of a row.
        flat: the tokens of all rows.
        order: the slots, sorted by their tokens.
        free: which slots are in no piece, shape (slots,).
        missing: for each sequence, which of its tokens are in no piece, shape (tokens,).
        pieces: those that were found.
    """

    def __init__(self, ids: np.ndarray, sequences: Sequence[np.ndarray]) -> None:
        self.sequences = sequences
        self.width = ids.shape[-1]
        self.flat = ids.ravel()
        self.order = np.argsort(self.flat, kind="stable")
        self.free = np.ones(len(self.flat), bool)
        self.missing = [np.ones(len(content), bool) for content in sequences]
        self.pieces = list[Piece]()

    def claim(self, index: int, unclaimed: np.ndarray, minimum: float, unbroken: bool = False) -> bool:
        """Make a piece of the longest line of free slots that hold tokens of a sequence, if it has `minimum` slots.

        A line is in one row, and its tokens are as far apart as they are in the sequence. Slots between them with other
        tokens belong to the piece: these were replaced.

        Args:
            index: of the sequence.
            unclaimed: which tokens of the sequence the piece may have; those that it gets are set to False.
            unbroken: whether none of the tokens between may be replaced.

        Returns:
            Whether there is such a line.
        """
        slots, offsets = self._free_slots_with(self.sequences[index], np.flatnonzero(unclaimed))
        if not len(slots):
            return False
        # slots of a line have the same row, and the same slot at which the sequence would begin
        lines, line_of, counts = np.unique(
            np.stack([slots // self.width, slots - offsets]), axis=1, return_inverse=True, return_counts=True
        )
        longest = counts.argmax()
        slots_in_line = slots[line_of.ravel() == longest]
        if unbroken:
            breaks = np.flatnonzero(np.diff(slots_in_line) != 1) + 1
            slots_in_line = max(np.split(slots_in_line, breaks), key=len)
        if len(slots_in_line) < minimum:
            return False
        start = lines[1, longest]
        line = np.arange(slots_in_line.min(), slots_in_line.max() + 1)  # with tokens between that were replaced
        line = line[self.free[line] & unclaimed[line - start]]
        self.free[line] = False
        unclaimed[line - start] = False
        self.pieces.append(Piece(index, line, line - start))
        return True

    def _free_slots_with(self, content: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the free slots that hold the tokens at some offsets of a sequence; the slots, and the offset of each."""
        begins, ends = (np.searchsorted(self.flat, content[offsets], side, sorter=self.order)
                        for side in ("left", "right"))  # fmt: skip
        slots_of_offsets = [self.order[begin:end] for begin, end in zip(begins, ends, strict=True)]
        slots = np.concatenate([self.order[:0], *slots_of_offsets])
        offsets = np.repeat(offsets, ends - begins)
        is_free = self.free[slots]
        return slots[is_free], offsets[is_free]

    def claim_replaced_ends(self) -> None:
        """Add to each piece the ends that were replaced: free slots where the rest of its sequence would be.

        Free slots with the token that ends the row are padding, if the last slot of the row is free as well.
        """
        for number, piece in enumerate(self.pieces):
            start = piece.slots[0] - piece.offsets[0]  # the slot at which the whole sequence would begin
            row_begin = piece.slots[0] // self.width * self.width
            row_end = row_begin + self.width
            length = len(self.missing[piece.sequence])
            line = np.arange(max(start, row_begin), min(start + length, row_end))
            is_padding = self.free[row_end - 1] & (self.flat[line] == self.flat[row_end - 1])
            replaced_ends = line[self.free[line] & ~is_padding]
            slots = np.sort(np.concatenate([piece.slots, replaced_ends]))
            self.free[replaced_ends] = False
            self.missing[piece.sequence][replaced_ends - start] = False
            self.pieces[number] = Piece(piece.sequence, slots, slots - start)
