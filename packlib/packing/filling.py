"""Fill planned places with real sequences."""

import itertools

import numpy as np

from packlib.packing.greedy import EqualPacks


def fill_places(strategies: list[EqualPacks], counts: np.ndarray) -> tuple[list[EqualPacks], np.ndarray]:
    """Put sequences into the places of `strategies`; a place without a sequence of its length takes a shorter one.

    The places are filled from long to short. A place that no sequence wants any more becomes padding, and a pack of
    such places alone is not opened.

    Args:
        strategies: pairs of place lengths and how many packs have them; they may overrun the counts.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).

    Returns:
        The strategies as filled, and the counts of the sequences that found no place.
    """
    occurring = np.flatnonzero(counts)
    left_by_length = dict(zip(occurring.tolist(), counts[occurring].tolist(), strict=True))
    lengths = sorted(
        {*left_by_length, *itertools.chain.from_iterable(places for places, _ in strategies)}, reverse=True
    )
    # by length: the packs whose longest open place has it, as what they took, their open places, and how many they are
    waiting: dict[int, list[tuple[tuple[int, ...], tuple[int, ...], int]]] = {length: [] for length in lengths}
    filled = list[EqualPacks]()

    def put_back(taken: tuple[int, ...], places: tuple[int, ...], packs: int) -> None:
        if places:
            waiting[places[0]].append((taken, places, packs))
        elif taken:
            filled.append((taken, packs))

    for places, packs in strategies:
        if packs:
            put_back((), tuple(sorted(places, reverse=True)), packs)
    for at, length in enumerate(lengths):
        shorter = None
        while waiting[length]:
            taken, places, packs = waiting[length].pop()
            equal_places = places.count(length)  # deep packs have thousands: all of them at once
            copies_left = left_by_length.get(length, 0)
            full_packs = min(equal_places, copies_left // packs)
            if full_packs:
                left_by_length[length] = copies_left - full_packs * packs
                put_back(taken + (length,) * full_packs, places[full_packs:], packs)
                continue
            if copies_left:
                left_by_length[length] = 0
                put_back((*taken, length), places[1:], copies_left)
            if shorter is None:
                shorter = next(
                    (length_left for length_left in lengths[at + 1 :] if left_by_length.get(length_left)), 0
                )
            places = places[equal_places:] + ((shorter,) * equal_places if shorter else ())
            put_back(taken, tuple(sorted(places, reverse=True)), packs - copies_left)
    counts_left = np.zeros_like(counts)
    counts_left[occurring] = [left_by_length[length] for length in occurring.tolist()]
    return filled, counts_left
