"""Greedy packing of a histogram: shortest-pack-first (SPFHP) and longest-pack-first (LPFHP).

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027), section 3.1.
Both go through the lengths from long to short and handle all sequences of a length at once, so their time depends
on the maximum length and not on the number of sequences.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from packlib.lengths.histogram import LengthHistogram

Group = tuple[tuple[int, ...], int]  # equal packs: the lengths in each, and how many they are


class Spaces:
    """A set of whole numbers from 1 up that finds the next one in two steps.

    Its members are bits of integers of 512 bits, and which of these have a bit set are the bits of one more.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, int] = defaultdict(int)
        self._used = 0

    def add(self, space: int) -> None:
        self._blocks[space >> 9] |= 1 << (space & 511)
        self._used |= 1 << (space >> 9)

    def remove(self, space: int) -> None:
        self._blocks[space >> 9] ^= 1 << (space & 511)
        if not self._blocks[space >> 9]:
            self._used ^= 1 << (space >> 9)

    def largest(self, at_most: int) -> int:
        """The largest member up to `at_most`, or 0 if there is none."""
        block = at_most >> 9
        bits = self._blocks[block] & ((2 << (at_most & 511)) - 1)
        if not bits:
            block = (self._used & ((1 << block) - 1)).bit_length() - 1
            bits = self._blocks[block] if block >= 0 else 0
        return (block << 9) + bits.bit_length() - 1 if bits else 0

    def smallest(self, at_least: int) -> int:
        """The smallest member from `at_least` up, or 0 if there is none."""
        bits = self._blocks[at_least >> 9] >> (at_least & 511)
        if not bits:
            block = (at_least >> 9) + 1
            used = self._used >> block
            if not used:
                return 0
            at_least = (block + (used & -used).bit_length() - 1) << 9
            bits = self._blocks[at_least >> 9]
        return at_least + (bits & -bits).bit_length() - 1


@dataclass
class OpenPacks:
    """Groups of equal packs, by the space that is left in them, newest last."""

    limit: float
    groups: dict[int, list[Group]] = field(default_factory=lambda: defaultdict(list))
    spaces: Spaces = field(default_factory=Spaces)
    closed: list[Group] = field(default_factory=list)

    def put(self, space: int, lengths: tuple[int, ...], count: int) -> None:
        """Add `count` equal packs; full ones and those at the depth limit are closed."""
        if space == 0 or len(lengths) >= self.limit:
            self.closed.append((lengths, count))
        else:
            self.groups[space].append((lengths, count))
            self.spaces.add(space)

    def take(self, space: int) -> Group:
        """Remove the newest group with `space` left."""
        stack = self.groups[space]
        newest = stack.pop()
        if not stack:
            self.spaces.remove(space)
        return newest

    def still_open(self) -> list[tuple[int, Group]]:
        """The groups that have a sequence and take more, each with its space."""
        return [(space, group) for space, stack in self.groups.items() for group in stack if group[0]]

    def equal_packs(self) -> list[Group]:
        return self.closed + [group for _, group in self.still_open()]


def from_long_to_short(histogram: LengthHistogram) -> Iterator[tuple[int, int]]:
    """The pairs (length, number of sequences) that occur, longest first."""
    used = histogram.counts.nonzero()[0][::-1]
    return zip(used.tolist(), histogram.counts[used].tolist(), strict=True)


def spfhp(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """Shortest-pack-first: each length goes into the packs with the most space.

    The spaces are scanned from the largest down, once for each length, so a pack that took a copy can be met again
    further down. What finds no space opens packs of one sequence.
    """
    return spread_evenly(histogram, max_sequences_per_pack, 0)


def spread_evenly(histogram: LengthHistogram, max_sequences_per_pack: int | None, empty_packs: int) -> list[Group]:
    """SPFHP with so many empty packs from the start: they fill evenly, which suits a tight depth limit."""
    top, packs = histogram.max_length, OpenPacks(max_sequences_per_pack or float("inf"))
    if empty_packs:
        packs.put(top, (), empty_packs)
    for length, n in from_long_to_short(histogram):
        space = packs.spaces.largest(top)
        while n and space >= length:
            lengths, group = packs.take(space)
            filled = min(group, n)
            if filled < group:
                packs.put(space, lengths, group - filled)
            packs.put(space - length, (*lengths, length), filled)
            n -= filled
            space = packs.spaces.largest(space)
        if n:
            packs.put(top - length, (length,), n)
    return packs.equal_packs()


def lpfhp(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """Longest-pack-first: each length goes into the packs with the least space that takes it (best fit).

    As many copies as fit go into a pack at once. This is best-fit-decreasing, many packs at a time.
    """
    packs = OpenPacks(max_sequences_per_pack or histogram.num_sequences)
    for length, n in from_long_to_short(histogram):
        best_fit(packs, length, n, histogram.max_length)
    return packs.equal_packs()


def best_fit(packs: OpenPacks, length: int, n: int, top: int) -> None:
    """Put `n` sequences of a length into the packs with the least space that takes them, and into new ones of `top`."""
    limit = int(min(packs.limit, top))  # no pack takes more sequences than tokens
    while n and (space := packs.spaces.smallest(length)):
        lengths, group = packs.take(space)
        copies = min(space // length, limit - len(lengths), n)
        filled = min(group, n // copies)
        if filled < group:
            packs.put(space, lengths, group - filled)
        packs.put(space - copies * length, lengths + (length,) * copies, filled)
        n -= copies * filled
    if n:
        copies = min(top // length, limit)
        new, rest = divmod(n, copies)
        if new:
            packs.put(top - copies * length, (length,) * copies, new)
        if rest:
            packs.put(top - rest * length, (length,) * rest, 1)
