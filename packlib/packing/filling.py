"""Fill planned places with real sequences."""

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
    left = counts.tolist()
    waiting: list[list] = [[] for _ in left]  # waiting[k]: packs whose longest open place has length k
    for places, packs in strategies:
        if packs:
            places = tuple(sorted(places, reverse=True))
            waiting[places[0]].append(((), places, packs))
    filled = []

    def put_back(taken: tuple[int, ...], places: tuple[int, ...], packs: int) -> None:
        if places:
            waiting[places[0]].append((taken, places, packs))
        elif taken:
            filled.append((taken, packs))

    for length in range(len(left) - 1, 0, -1):
        shorter = None
        while waiting[length]:
            taken, places, packs = waiting[length].pop()
            same = places.count(length)  # deep packs have thousands: all of them at once
            full = min(same, left[length] // packs)
            if full:
                left[length] -= full * packs
                put_back(taken + (length,) * full, places[full:], packs)
                continue
            now, left[length] = left[length], 0
            if now:
                put_back((*taken, length), places[1:], now)
            if shorter is None:
                shorter = next((other for other in range(length - 1, 0, -1) if left[other]), 0)
            places = places[same:] + ((shorter,) * same if shorter else ())
            put_back(taken, tuple(sorted(places, reverse=True)), packs - now)
    return filled, np.array(left)
