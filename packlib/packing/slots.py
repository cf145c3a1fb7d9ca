"""Fill planned slots with real sequences."""

import numpy as np

from packlib.packing.greedy import Strategy


def fill_slots(strategies: list[Strategy], counts: np.ndarray) -> tuple[list[Strategy], np.ndarray]:
    """Put sequences into the slots of `strategies`; a slot without a sequence of its length takes a shorter one.

    The slots are filled from long to short. A slot that no sequence wants any more becomes padding, and a pack of
    such slots alone is not opened.

    Args:
        strategies: pairs of slot lengths and how many packs have them; they may overrun the counts.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).

    Returns:
        The strategies as filled, and the counts of the sequences that found no slot.
    """
    left = counts.tolist()
    waiting: list[list] = [[] for _ in left]  # waiting[k]: packs whose longest open slot has length k
    for slots, packs in strategies:
        if packs:
            slots = tuple(sorted(slots, reverse=True))
            waiting[slots[0]].append(((), slots, packs))
    filled = []

    def put_back(taken: tuple[int, ...], slots: tuple[int, ...], packs: int) -> None:
        if slots:
            waiting[slots[0]].append((taken, slots, packs))
        elif taken:
            filled.append((taken, packs))

    for length in range(len(left) - 1, 0, -1):
        shorter = None
        while waiting[length]:
            taken, slots, packs = waiting[length].pop()
            now = min(packs, left[length])
            if now:
                left[length] -= now
                put_back((*taken, length), slots[1:], now)
            if packs > now:
                if shorter is None:
                    shorter = next((other for other in range(length - 1, 0, -1) if left[other]), 0)
                slots = tuple(sorted(slots[1:] + ((shorter,) if shorter else ()), reverse=True))
                put_back(taken, slots, packs - now)
    return filled, np.array(left)
