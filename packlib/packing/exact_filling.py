"""Exact filling: a greedy method that looks for sequences which fill a pack to the last slot.

Best fit (`greedy.py`) puts each sequence where little space is left; exact filling asks which sequences would leave
none. It fills one pack after the other. Each begins with the longest sequence that is left. Then, until nothing fits,

1. two sequences that fill the space exactly complete the pack; if there are none, three;
2. otherwise the longest sequence that fits goes into the pack, and the question comes up again for the smaller space.

Looking at all pairs takes no loop. The lengths that are left are a set of bits (`bit_sets.py`), and the same lengths
mirrored, `max_length - length`, are another. Shifted to the right by the slots that are used, the mirrored set holds
`space - length`. The AND of both sets therefore holds every length x for which `space - x` is left, too, which is every
pair. With 5 slots free and the lengths 1, 2 and 4:

    lengths       1 2 . 4       bits 1, 2, 4
    5 - lengths   1 . 3 4       bits 5 - 4, 5 - 2, 5 - 1
    both          1 . . 4       1 + 4 = 5

A depth limit makes places scarce as well as slots. Once the sequences left are so short that packs would run out of
places before they run out of slots, a pack takes shorter ones first, as short as still lets the last two fill it.

Filling one pack at a time as full as can be is known as minimum bin slack: Gupta and Ho, A new heuristic algorithm for
the one-dimensional bin-packing problem (Production Planning & Control 10, 1999); with the longest sequence fixed, as
here, Fleszar and Hindi, New heuristics for one-dimensional bin-packing (Computers & Operations Research 29, 2002). They
search all subsets. Here only ones, pairs and triples are tried, which is enough where different lengths are many.
"""

from bisect import bisect_left, bisect_right
from collections import Counter

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.bit_sets import highest, set_of
from packlib.packing.greedy import EqualPacks

_TRIPLES = 40  # lengths that are tried as the longest of three
_NEARLY = 48  # slots that the last two sequences of a pack may leave free
_LONG = 0.9  # share of the longest length left: so long a sequence will be there for each later place of a pack
# Places are scarce while the mean length of the sequences left is at most so many times a place's share of a pack.
_SCARCE, _SCARCE_IF_EVENLY = 1.05, 1.15


def exact_filling(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
    """Fill pack after pack, longest sequence first, to the last slot where one, two or three others can do that.

    A pack is repeated as long as there are sequences for it, so the time depends on the different lengths and not on
    the number of sequences.

    >>> from packlib.packing import plan
    >>> lengths = [6, 5, 4, 3, 3, 3]
    >>> plan(lengths, 12, "lpfhp").strategies
    [(6, 5), (4, 3, 3), (3,)]
    >>> plan(lengths, 12, "exact_filling").strategies
    [(6, 3, 3), (5, 4, 3)]
    """
    return fill_exactly(histogram, max_sequences_per_pack, evenly=False)


def fill_exactly(histogram: LengthHistogram, max_sequences_per_pack: int | None, evenly: bool) -> list[EqualPacks]:
    """Fill packs as `exact_filling` does, with a choice of what a pack takes while places are scarce.

    Args:
        evenly: whether each place then takes the longest sequence up to an equal share of the space; or else the
            shortest one that lets the places after it fill the space.
    """
    sequences_left = _LengthsLeft(histogram)
    limit = min(max_sequences_per_pack or histogram.max_length, histogram.num_sequences)
    largest_ratio = _SCARCE_IF_EVENLY if evenly else _SCARCE
    packs = []
    while sequences_left.sequences:
        scarce = max_sequences_per_pack is not None and sequences_left.has_scarce_places(limit, largest_ratio)
        pack = _fill_pack(sequences_left, limit, scarce, evenly)
        repeats = sequences_left.enough_for(pack)
        sequences_left.take(pack, repeats)
        packs.append((pack, 1 + repeats))
    return packs


def _fill_pack(sequences_left: "_LengthsLeft", limit: int, scarce: bool, evenly: bool) -> tuple[int, ...]:
    """Take a pack out of the sequences that are left: the longest, and what fills the space beside it.

    Args:
        sequences_left: what may be taken.
        limit: sequences that a pack may hold.
        scarce: whether places are scarce, so that shorter sequences come first.
        evenly: as of `fill_exactly`.

    Returns:
        The lengths in the pack.
    """
    pack: tuple[int, ...] = (sequences_left.longest(sequences_left.max_length),)
    sequences_left.take(pack, 1)
    space, places = sequences_left.max_length - pack[0], limit - 1
    while space and places and sequences_left.sequences:
        if scarce and places > 2:  # for the last two, `filling` looks for a pair that fills the space
            chosen = sequences_left.even_share(space, places) if evenly else sequences_left.short_first(space, places)
        else:
            chosen = sequences_left.filling(space, places)
        if not chosen:
            break
        sequences_left.take(chosen, 1)
        pack += chosen
        space -= sum(chosen)
        places -= len(chosen)
    return pack


class _LengthsLeft:
    """The sequences that no pack holds yet. Methods that choose some of them return their lengths, () if none fit.

    Attributes:
        max_length: slots of a pack.
        counts: how many sequences of each length are left; shape (max_length + 1,).
        ascending: the lengths of which a sequence is left.
        lengths: the set of these lengths, as bits.
        mirrored: the set of `max_length - length` for each of these lengths, as bits.
        sequences, tokens: how many are left.
    """

    def __init__(self, histogram: LengthHistogram) -> None:
        self.max_length = histogram.max_length
        self.ascending = histogram.counts.nonzero()[0].tolist()
        self.counts = histogram.counts.tolist()
        self.lengths = set_of(self.ascending, self.max_length + 1)
        self.mirrored = set_of([self.max_length - length for length in self.ascending], self.max_length + 1)
        self.sequences, self.tokens = histogram.num_sequences, histogram.num_tokens

    def take(self, pack: tuple[int, ...], times: int) -> None:
        """Remove the sequences of this many equal packs."""
        if not times:
            return
        for length in pack:
            self.counts[length] -= times
            if not self.counts[length]:
                del self.ascending[bisect_left(self.ascending, length)]
                self.lengths ^= 1 << length
                self.mirrored ^= 1 << (self.max_length - length)
        self.sequences -= len(pack) * times
        self.tokens -= sum(pack) * times

    def enough_for(self, pack: tuple[int, ...]) -> int:
        """Return how many packs equal to this one the sequences left are enough for."""
        return min(self.counts[length] // copies for length, copies in Counter(pack).items())

    def has(self, lengths: tuple[int, ...]) -> bool:
        """Return whether enough sequences are left for all of these lengths together."""
        return all(self.counts[length] >= lengths.count(length) for length in lengths)

    def has_scarce_places(self, limit: int, largest_ratio: float) -> bool:
        """Return whether packs of `limit` sequences would run out of places before they run out of slots.

        They would if the mean length left, tokens / sequences, is at most `largest_ratio` times a place's share of a
        pack, max_length / limit.
        """
        return self.tokens * limit <= largest_ratio * self.max_length * self.sequences

    def longest(self, space: int) -> int:
        """Return the longest length that fits; 0 if none does."""
        fitting = bisect_right(self.ascending, space)
        return self.ascending[fitting - 1] if fitting else 0

    def filling(self, space: int, places: int) -> tuple[int, ...]:
        """Choose the next sequences of a pack: those that fill its space, or else the longest that fits."""
        longest = self.longest(space)
        if not longest:
            return ()
        if longest == space or places == 1:
            return (longest,)
        if 3 * longest < space:  # three cannot fill it yet: take the longest until three can
            copies = min(space // longest - 2, places, self.counts[longest])
            return (longest,) * max(copies, 1)
        filling = self.pair(space)
        if not filling and places > 2:
            filling = self.triple(space)
        if not filling and places == 2:
            filling = self.near_pair(space, longest)
        return filling or (longest,)

    def pair(self, space: int, beside: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Choose two sequences that fill a space exactly, the pair with the longest one.

        Args:
            space: slots that the two fill.
            beside: lengths that are taken together with the two, so that enough must be left for all.

        Returns:
            `beside` and the two lengths.
        """
        in_pairs = self.lengths & (self.mirrored >> (self.max_length - space))  # explained at the top of the file
        while (longer := highest(in_pairs)) * 2 >= space:
            lengths = (*beside, longer, space - longer)
            if self.has(lengths):
                return lengths
            in_pairs ^= 1 << longer  # remove it from the set
        return ()

    def triple(self, space: int) -> tuple[int, ...]:
        """Choose three that fill a space; the longest of them is one of the longest `_TRIPLES` lengths that fit."""
        fitting = bisect_right(self.ascending, space)
        for first in reversed(self.ascending[max(0, fitting - _TRIPLES) : fitting]):
            if first * 3 < space:
                break
            if lengths := self.pair(space - first, (first,)):
                return lengths
        return ()

    def near_pair(self, space: int, longest: int) -> tuple[int, ...]:
        """Choose the last two of a pack, where no two fill its space exactly: those that leave the fewest slots free.

        They must fill more than `longest`, the longest that fits, does alone.
        """
        for tokens in range(space - 1, max(space - _NEARLY, longest), -1):
            if lengths := self.pair(tokens):
                return lengths
        return ()

    def short_first(self, space: int, places: int) -> tuple[int, ...]:
        """Choose the shortest that lets the places after it fill the space, if each of them takes a long sequence."""
        tokens_of_later = int((places - 1) * _LONG * self.longest(self.max_length))
        at_least = max(1, space - tokens_of_later)
        place = bisect_left(self.ascending, at_least)
        fits = place < len(self.ascending) and self.ascending[place] <= space
        return (self.ascending[place],) if fits else self.longest_alone(space)

    def even_share(self, space: int, places: int) -> tuple[int, ...]:
        """Choose the longest that takes at most an equal share of the space, or else the longest that fits."""
        return self.longest_alone(space // places) or self.longest_alone(space)

    def longest_alone(self, space: int) -> tuple[int, ...]:
        """Choose one sequence, the longest that fits."""
        longest = self.longest(space)
        return (longest,) if longest else ()
