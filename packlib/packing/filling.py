"""Fill planned places with real sequences."""

import itertools
from typing import NamedTuple

import numpy as np

from packlib.packing.greedy import EqualPacks


class _HalfFilled(NamedTuple):
    """Equal packs while their places are filled.

    Attributes:
        lengths: of the sequences in each pack.
        places: the lengths of the places that are still open in each pack, longest first.
        packs: how many such packs.
    """

    lengths: tuple[int, ...]
    places: tuple[int, ...]
    packs: int


def fill_places(strategies: list[EqualPacks], counts: np.ndarray) -> tuple[list[EqualPacks], np.ndarray]:
    """Put sequences into the places of `strategies`; a place without a sequence of its length takes a shorter one.

    The places are filled from long to short. A place for which no sequence is left becomes padding, and a pack of such
    places alone is not opened.

    >>> import numpy as np
    >>> from packlib.packing.filling import fill_places
    >>> filled, counts_left = fill_places([((5, 3), 2)], counts=np.array([0, 0, 0, 2, 1, 1]))
    >>> filled, counts_left.tolist()
    ([((4, 3), 1), ((5, 3), 1)], [0, 0, 0, 0, 0, 0])

    Args:
        strategies: pairs of place lengths and how many packs have them; they may have more places than sequences.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).

    Returns:
        The strategies as filled, and the counts of the sequences that found no place.
    """
    occurring = np.flatnonzero(counts)
    sequences_left = dict(zip(occurring.tolist(), counts[occurring].tolist(), strict=True))  # by length
    place_lengths = itertools.chain.from_iterable(places for places, _ in strategies)
    long_to_short = sorted({*sequences_left, *place_lengths}, reverse=True)
    by_longest_place: dict[int, list[_HalfFilled]] = {length: [] for length in long_to_short}
    filled = list[EqualPacks]()

    def put_back(lengths: tuple[int, ...], places: tuple[int, ...], packs: int) -> None:
        """Add equal packs to those with the same longest place, or to the filled ones if no place is open."""
        if places:
            by_longest_place[places[0]].append(_HalfFilled(lengths, places, packs))
        elif lengths:
            filled.append((lengths, packs))

    for places, packs in strategies:
        if packs:
            put_back((), tuple(sorted(places, reverse=True)), packs)
    for at, length in enumerate(long_to_short):
        next_shorter = None  # the next length of which a sequence is left; 0 if there is none
        while by_longest_place[length]:
            lengths, places, packs = by_longest_place[length].pop()
            equal_places = places.count(length)  # deep packs have thousands: all of them at once
            copies_left = sequences_left.get(length, 0)
            copies_each = min(equal_places, copies_left // packs)
            if copies_each:  # enough for every pack
                sequences_left[length] = copies_left - copies_each * packs
                put_back(lengths + (length,) * copies_each, places[copies_each:], packs)
                continue
            if copies_left:  # a copy for some of the packs
                sequences_left[length] = 0
                put_back((*lengths, length), places[1:], copies_left)
            # the other packs have no copy: their places of this length become places of the next shorter one
            if next_shorter is None:
                shorter = (other for other in long_to_short[at + 1 :] if sequences_left.get(other))
                next_shorter = next(shorter, 0)
            places = places[equal_places:] + ((next_shorter,) * equal_places if next_shorter else ())
            put_back(lengths, tuple(sorted(places, reverse=True)), packs - copies_left)
    counts_left = np.zeros_like(counts)
    counts_left[occurring] = [sequences_left[length] for length in occurring.tolist()]
    return filled, counts_left
