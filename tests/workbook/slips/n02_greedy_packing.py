"""Answers to the exercises of notebook 02 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n02_greedy_packing.lesson import EIGHT, lpfhp_packs


def _first_fit(lengths, max_length, depth):
    """A learner's loop: the first pack with room, and not the fullest."""
    packs = []
    for length in sorted(lengths, reverse=True):
        able = [pack for pack in packs if sum(pack) + length <= max_length and len(pack) < depth]
        (able[0] if able else packs.append([]) or packs[-1]).append(length)
    return len(packs)


def _place(spaces, length, copies, slots):
    """A learner's loop: one copy at a time, into new packs too."""
    spaces = list(spaces)
    for _ in range(copies):
        able = [space for space in spaces if space >= length] or spaces.append(slots) or [slots]
        spaces[spaces.index(max(able))] -= length
    return sorted(spaces)


SLIPS = {
    "tightest_space": {
        "wants a slot to spare": lambda spaces, length: min([s for s in spaces if s > length], default=0),
        "the first that takes it": lambda spaces, length: next((s for s in spaces if s >= length), 0),
    },
    "place_copies": {
        "one at a time": _place,
        "one copy a pack": lambda spaces, length, copies, slots: sorted(
            [s - length * (i < copies) for i, s in enumerate(sorted(spaces, reverse=True)) if s >= length]
            + [slots - length] * max(0, copies - len(spaces))
        ),
    },
    "lpfhp_packs": {
        "forgets the depth limit": lambda x, top, depth: lpfhp_packs(x, top, 99),
        "the first pack with room": _first_fit,
        "the area bound": lambda x, top, depth: -(-sum(x) // top),
    },
    "fools_lpfhp": {
        "fools SPFHP alone": list(EIGHT),
        "full packs": [5, 5, 5, 5],
        "too many": [4, 4, 3, 3, 3, 3] * 2,
    },
}
