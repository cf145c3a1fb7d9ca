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
    left = dict(zip(occurring.tolist(), counts[occurring].tolist(), strict=True))
    lengths = sorted({*left, *itertools.chain.from_iterable(places for places, _ in strategies)}, reverse=True)
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
            same = places.count(length)  # deep packs have thousands: all of them at once
            there = left.get(length, 0)
            full = min(same, there // packs)
            if full:
                left[length] = there - full * packs
                put_back(taken + (length,) * full, places[full:], packs)
                continue
            if there:
                left[length] = 0
                put_back((*taken, length), places[1:], there)
            if shorter is None:
                shorter = next((other for other in lengths[at + 1 :] if left.get(other)), 0)
            places = places[same:] + ((shorter,) * same if shorter else ())
            put_back(taken, tuple(sorted(places, reverse=True)), packs - there)
    rest = np.zeros_like(counts)
    rest[occurring] = [left[length] for length in occurring.tolist()]
    return filled, rest
