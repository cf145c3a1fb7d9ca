"""Greedy packing of a histogram: shortest-pack-first (SPFHP) and longest-pack-first (LPFHP).

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027), section 3.1.
Both go through the lengths from long to short and handle all sequences of a length at once, so their time depends
on the maximum length and not on the number of sequences.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from packlib.lengths.histogram import LengthHistogram

EqualPacks = tuple[tuple[int, ...], int]  # the lengths in each pack, and how many such packs


def number_of_packs(strategies: list[EqualPacks]) -> int:
    """Count the packs of all strategies."""
    return sum(packs for _, packs in strategies)


@dataclass
class OpenPacks:
    """Packs while they are filled, as groups of equal packs.

    Attributes:
        limit: the depth limit; infinity for none.
        groups: for each space that is left in a pack, the groups of open packs with this space, newest last.
        spaces: the keys of `groups`, ascending.
        closed: the packs that take no more sequences.
    """

    limit: float
    groups: dict[int, list[EqualPacks]] = field(default_factory=dict)
    spaces: list[int] = field(default_factory=list)
    closed: list[EqualPacks] = field(default_factory=list)

    def put(self, space: int, lengths: tuple[int, ...], count: int) -> None:
        """Add `count` equal packs; full ones and those at the depth limit are closed."""
        if space == 0 or len(lengths) >= self.limit:
            self.closed.append((lengths, count))
        else:
            if space not in self.groups:
                self.groups[space] = []
                insort(self.spaces, space)
            self.groups[space].append((lengths, count))

    def take(self, space: int) -> EqualPacks:
        """Remove the newest group with `space` left."""
        stack = self.groups[space]
        newest = stack.pop()
        if not stack:
            del self.groups[space], self.spaces[bisect_left(self.spaces, space)]
        return newest

    def largest(self, at_most: int) -> int:
        """Return the largest space up to `at_most` that an open pack has, or 0 if there is none."""
        num_spaces = bisect_right(self.spaces, at_most)
        return self.spaces[num_spaces - 1] if num_spaces else 0

    def smallest(self, at_least: int) -> int:
        """Return the smallest space from `at_least` up that an open pack has, or 0 if there is none."""
        place = bisect_left(self.spaces, at_least)
        return self.spaces[place] if place < len(self.spaces) else 0

    def still_open(self) -> list[tuple[int, EqualPacks]]:
        """List the open groups, each with its space; empty packs, with which `spread_evenly` begins, are left out."""
        groups = ((space, group) for space, stack in self.groups.items() for group in stack)
        return [(space, (lengths, count)) for space, (lengths, count) in groups if lengths]

    def equal_packs(self) -> list[EqualPacks]:
        """List all packs that hold a sequence, the closed and the open ones."""
        return self.closed + [group for _, group in self.still_open()]


def from_long_to_short(histogram: LengthHistogram) -> Iterator[tuple[int, int]]:
    """Yield the pairs (length, number of sequences) that occur, longest first."""
    long_to_short = histogram.counts.nonzero()[0][::-1]
    return zip(long_to_short.tolist(), histogram.counts[long_to_short].tolist(), strict=True)


def spfhp(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
    """Pack shortest-pack-first: each sequence goes into the emptiest pack, the one with the most space left.

    For each length there is one scan of the packs, from the most space to the least. Each pack that it reaches takes
    one sequence of this length. The pack then has less space, so the same scan may reach it again and put in one more.
    Sequences that find no pack in the scan open packs of one sequence each, even where such a pack has room for two:
    four sequences of 2 tokens in rows of 8 make four packs. Shorter sequences may join them, in later scans.
    """
    packs = OpenPacks(max_sequences_per_pack or float("inf"))
    for length, sequences in from_long_to_short(histogram):
        _into_the_emptiest(packs, length, sequences, histogram.max_length)
    return packs.equal_packs()


def spread_evenly(
    histogram: LengthHistogram, max_sequences_per_pack: int | None, empty_packs: int
) -> list[EqualPacks]:
    """Pack as SPFHP, but begin with some empty packs: they fill evenly, which suits a tight depth limit."""
    packs = OpenPacks(max_sequences_per_pack or float("inf"))
    if empty_packs:
        packs.put(histogram.max_length, (), empty_packs)
    for length, sequences in from_long_to_short(histogram):
        _into_the_emptiest(packs, length, sequences, histogram.max_length)
    return packs.equal_packs()


def _into_the_emptiest(packs: OpenPacks, length: int, sequences: int, max_length: int) -> None:
    """Put each sequence into the pack that is the emptiest by then, while one fits; the others open new packs.

    Args:
        packs: the open packs.
        length, sequences: so many sequences have this length.
        max_length: slots of a pack.
    """
    space = packs.largest(max_length)
    while sequences and space >= length:
        lengths, count = packs.take(space)
        packs_filled = min(count, sequences)
        if packs_filled < count:
            packs.put(space, lengths, count - packs_filled)
        packs.put(space - length, (*lengths, length), packs_filled)
        sequences -= packs_filled
        space = packs.largest(space)  # the emptiest by now: no pack has more space than the last one had
    if sequences:
        packs.put(max_length - length, (length,), sequences)


def lpfhp(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
    """Pack longest-pack-first: each length goes into the packs with the least space that takes it (best fit).

    As many copies as fit go into a pack at once. This is best-fit-decreasing, many packs at a time.
    """
    packs = OpenPacks(max_sequences_per_pack or float("inf"))
    for length, sequences in from_long_to_short(histogram):
        best_fit(packs, length, sequences, histogram.max_length)
    return packs.equal_packs()


def best_fit(packs: OpenPacks, length: int, sequences: int, max_length: int) -> None:
    """Put sequences of a length into the packs with the least space that takes one, the remaining ones into new packs.

    Args:
        packs: the open packs.
        length, sequences: so many sequences have this length.
        max_length: slots of a pack.
    """
    limit = int(min(packs.limit, max_length))  # no pack takes more sequences than tokens
    while sequences and (space := packs.smallest(length)):
        lengths, count = packs.take(space)
        copies = min(space // length, limit - len(lengths), sequences)  # into each pack
        packs_filled = min(count, sequences // copies)
        if packs_filled < count:
            packs.put(space, lengths, count - packs_filled)
        packs.put(space - copies * length, lengths + (length,) * copies, packs_filled)
        sequences -= copies * packs_filled
    if sequences:
        copies = min(max_length // length, limit)
        new_packs, remainder = divmod(sequences, copies)
        if new_packs:
            packs.put(max_length - copies * length, (length,) * copies, new_packs)
        if remainder:
            packs.put(max_length - remainder * length, (length,) * remainder, 1)
