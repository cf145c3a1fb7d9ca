"""What notebook 02 computes: packs one sequence at a time, and our counts beside the published ones."""

import heapq
from collections.abc import Iterator, Sequence

from packlib.lengths import LengthHistogram
from packlib.packing import Method
from packlib.packing.greedy import OpenPacks

EIGHT, SLOTS = (9, 7, 6, 5, 4, 3, 2, 2), 10  # lengths that are packed by hand, and the slots of a pack
SEVEN = (11, 8, 7, 5, 4, 3, 2)  # in packs of 20 slots, least space takes one pack more than completing rows
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
    """Yield the packs after each sequence, from long to short; packs are in the order in which they were opened.

    Args:
        rule: "lpfhp", "spfhp", or "worst_fit", which is SPFHP without a histogram: one sequence at a time.
        depth: most sequences in a pack; None or 0 for no limit.
    """
    lengths = sorted(lengths, reverse=True)
    packs = OpenPacks(depth or float("inf"))  # a pack is a tuple of indices of `lengths`
    largest_allowed = max_length  # the most space that SPFHP still looks at
    for i, length in enumerate(lengths):
        is_new_length = i == 0 or length < lengths[i - 1]
        if rule == "worst_fit" or is_new_length:
            largest_allowed = max_length  # SPFHP goes down the spaces once for all sequences of a length
        space = packs.smallest(length) if rule == "lpfhp" else packs.largest(largest_allowed)
        if space >= length:
            pack, _ = packs.take(space)
            largest_allowed = space
        else:
            pack, space = (), max_length  # a new pack
            largest_allowed = 0  # all further sequences of this length open packs, too
        packs.put(space - length, (*pack, i), 1)
        in_order = sorted(pack for pack, _ in packs.equal_packs())  # by their first, longest sequence
        yield [tuple(lengths[j] for j in pack) for pack in in_order]


def worst_fit_packs(histogram: LengthHistogram) -> int:
    """Count the packs of worst-fit-decreasing: each sequence goes into the pack with the most space."""
    negative_spaces: list[int] = []  # of the packs; negative, since the first item of a heap is the smallest
    for length in histogram.expand()[::-1].tolist():  # from long to short
        if negative_spaces and -negative_spaces[0] >= length:
            heapq.heapreplace(negative_spaces, negative_spaces[0] + length)
        else:
            heapq.heappush(negative_spaces, -(histogram.max_length - length))
    return len(negative_spaces)


def in_words(packs: Sequence[Pack]) -> str:
    """Return the packs in words: "9 | 7 + 3 | 6 + 4"."""
    return " | ".join(" + ".join(map(str, pack)) for pack in packs)


def newest(packs: Sequence[Pack], before: Sequence[Pack]) -> int:
    """Return the index of the pack that took the last sequence.

    Args:
        packs: after this sequence.
        before: the packs before it, in the same order.
    """
    new_pack = len(before)
    return next((i for i, pack in enumerate(before) if packs[i] != pack), new_pack)
