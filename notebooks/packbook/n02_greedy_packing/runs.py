"""What notebook 02 computes: packs one sequence at a time, and our counts beside the published ones."""

import heapq
from collections.abc import Iterator, Sequence

from packlib.lengths import LengthHistogram
from packlib.packing import Method
from packlib.packing.greedy import OpenPacks

EIGHT, SLOTS = (9, 7, 6, 5, 4, 3, 2, 2), 10  # the sequences that are packed by hand
SEVEN = (11, 8, 7, 5, 4, 3, 2)  # in packs of twenty slots: the least space needs one more than completing rows
GREEDY_RULES: tuple[Method, ...] = ("spfhp", "lpfhp")

# Krell and others (2021): {depth limit: packs by SPFHP, packs by LPFHP}
PUBLISHED_PACKS: dict[str, dict] = {
    "wikipedia": {
        1: (16_279_552, 16_279_552), 2: (10_101_683, 10_099_081), 3: (9_094_695, 9_090_154),
        4: (8_658_996, 8_657_119), 8: (8_224_673, 8_207_569), 12: (8_166_708, 8_149_619),
        16: (8_166_708, 8_140_006), None: (8_166_708, 8_138_483),
    },
    "squad": {2: (45_335, None), 3: (40_711, 40_631), None: (40_711, 40_631)},
}  # fmt: skip


Pack = tuple[int, ...]  # lengths, in the order they were put in


def one_by_one(lengths: Sequence[int], max_length: int, rule: str, depth: int | None = None) -> Iterator[list[Pack]]:
    """Yield the packs after each sequence, from long to short; packs stand in the order they were opened.

    The rules are "lpfhp", "spfhp", and "worst_fit": SPFHP without a histogram, one sequence at a time.
    """
    lengths, packs = sorted(lengths, reverse=True), OpenPacks(depth or float("inf"))
    for i, length in enumerate(lengths):
        if rule == "worst_fit" or i == 0 or length < lengths[i - 1]:
            scanned = max_length  # SPFHP goes down the spaces once for all sequences of a length
        space = packs.smallest(length) if rule == "lpfhp" else packs.largest(scanned)
        fits = space >= length
        scanned = space if fits else 0
        ids, space = (packs.take(space)[0], space) if fits else ((), max_length)
        packs.put(space - length, (*ids, i), 1)
        yield [tuple(lengths[j] for j in pack) for pack in sorted(pack for pack, _ in packs.equal_packs())]


def worst_fit_packs(histogram: LengthHistogram) -> int:
    """Count the packs of worst-fit-decreasing: each sequence goes into the pack with the most space."""
    spaces: list[int] = []  # of the packs, negative, since a heap gives the smallest
    for length in histogram.expand()[::-1].tolist():
        if spaces and -spaces[0] >= length:
            heapq.heapreplace(spaces, spaces[0] + length)
        else:
            heapq.heappush(spaces, length - histogram.max_length)
    return len(spaces)


def in_words(packs: Sequence[Pack]) -> str:
    """Return the packs in words: "9 | 7 + 3 | 6 + 4"."""
    return " | ".join(" + ".join(map(str, pack)) for pack in packs)


def newest(packs: Sequence[Pack], before: Sequence[Pack]) -> int:
    """Return the pack that took the last sequence."""
    return next((i for i, pack in enumerate(before) if packs[i] != pack), len(before))
