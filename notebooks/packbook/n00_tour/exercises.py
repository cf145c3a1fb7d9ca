"""The exercises of notebook 00, in its order."""

from functools import cache

from packbook.exercises import Exercise, Exercises
from packlib.lengths import LengthHistogram
from packlib.packing import plan

NINE, ROW = tuple(range(4, 13)), 24  # lengths of texts and slots of a row: three full rows; greedy rules need four


def first_fit(lengths, max_length):
    """Put texts, from long to short, into the first pack that has room; return packs as lists of lengths."""
    packs = []
    for length in sorted(lengths, reverse=True):
        pack = next((pack for pack in packs if sum(pack) + length <= max_length), None)
        if pack is None:
            packs.append(pack := [])
        pack.append(length)
    return packs


def pack_fault(packs, lengths, max_length, most):
    """Return a sentence with the fault of an answer, packs as lists of lengths; None if it is right.

    Args:
        most: rows that a right answer may take.
    """
    packs = [list(pack) for pack in packs]
    missing = sorted(lengths)  # those that no pack has so far
    if any(isinstance(length, str) for pack in packs for length in pack):
        return "each row must be a list of lengths, such as [12, 8], and no text."
    for length in (length for pack in packs for length in pack):
        if length not in missing:
            return f"{length} is in the packs more often than among the texts."
        missing.remove(length)
    if missing:
        return f"{missing[0]} is left out." if len(missing) == 1 else f"{missing} are left out."
    if too_full := next((pack for pack in packs if sum(pack) > max_length), None):
        return f"{' + '.join(map(str, too_full))} is {sum(too_full)}; a row has {max_length} slots."
    return f"that takes {len(packs)} rows, and {most} would do." if len(packs) > most else None


@cache
def fewest_packs(lengths, max_length):
    """Return the fewest packs for a tuple of lengths."""
    return plan(LengthHistogram.from_lengths(lengths, max_length), method="optimal").num_packs


def near_the_best(packs, lengths, max_length):
    """Return the fault of packs, or None; they may take an eighth more rows than the fewest, as good rules do."""
    fewest = fewest_packs(tuple(lengths), max_length)
    return pack_fault(packs, lengths, max_length, fewest + fewest // 8)


def strangers(lengths):
    """Return the share of all pairs of tokens in a pack that belong to two different texts."""
    return 1 - sum(length**2 for length in lengths) / sum(lengths) ** 2


def draw_pack(rng):
    """Draw the lengths of a pack with one to six texts."""
    return ([rng.randint(1, 12) for _ in range(rng.randint(1, 6))],)


def draw_texts(rng):
    """Draw lengths of a sixth to more than half of a row of 96, for which each good rule comes near the best."""
    while True:
        lengths = [rng.randint(16, 56) for _ in range(rng.randint(2, 40))]
        if not any(near_the_best(packs, lengths, 96) for packs in from_long_to_short(lengths, 96)):
            return lengths, 96


def from_long_to_short(lengths, max_length):
    """Pack by first fit, best fit and worst fit; return the packs of each."""
    rules = (lambda packs: packs[0], lambda packs: max(packs, key=sum), lambda packs: min(packs, key=sum))
    return [in_the_given_order(choose, sorted(lengths, reverse=True), max_length) for choose in rules]


def in_the_given_order(choose, lengths, max_length):
    """Pack texts as they come; `choose` picks among the packs with room."""
    packs = []
    for length in lengths:
        packs_with_room = [pack for pack in packs if sum(pack) + length <= max_length]
        if packs_with_room:
            choose(packs_with_room).append(length)
        else:
            packs.append([length])
    return packs


def into_the_last_row(lengths, max_length):
    """Pack texts as they come into the last row, or into a new one if it has no room."""
    packs = [[]]
    for length in lengths:
        if sum(packs[-1]) + length > max_length:
            packs.append([])
        packs[-1].append(length)
    return packs


check = Exercises(
    [
        Exercise(
            "three_rows",
            [[12, 8, 4], [11, 7, 6], [10, 9, 5]],
            level=1,
            minutes=5,
            fault=lambda packs: pack_fault(packs, NINE, ROW, 3),
            hint="three full rows leave no slot empty. Which two texts can stand beside 12, and which beside 11?",
            slips={
                "12 and 11 together leave a slot that no text can use; put them into two rows.": first_fit(NINE, ROW),
                "a text stays whole: 5 may not become 3 and 2.": [[12, 8, 4], [11, 7, 6], [10, 9, 3, 2]],
            },
        ),
        Exercise(
            "strangers",
            strangers,
            level=2,
            minutes=10,
            draw=draw_pack,
            cases=[([3],), ([1, 1],), ([40, 30, 30, 20, 8],)],
            hint="a text of n tokens has n × n pairs of its own: its block in the picture of the mask.",
            slips={
                "that is the share of the pairs that the mask allows; asked are all others.": (
                    lambda lengths: 1 - strangers(lengths)
                ),
                "a token may look at itself too, so there are t × t pairs, and n × n of a text's own.": (
                    lambda lengths: 1 - sum(n * (n - 1) for n in lengths) / max(1, sum(lengths) * (sum(lengths) - 1))
                ),
            },
        ),
        Exercise(
            "my_packs",
            first_fit,
            level=3,
            minutes=15,
            draw=draw_texts,
            cases=[([3], 8), ([5, 5], 8), ([1, 7, 4, 4], 8)],
            fault=near_the_best,
            hint="keep a list of rows, take the texts from long to short, and look at every row for room.",
            slips={
                "that looks at the last row only; an earlier one may have room.": into_the_last_row,
                "texts of the same length are several texts; each needs its slots.": (
                    lambda lengths, max_length: first_fit(set(lengths), max_length)
                ),
                "long texts are hard to place late: take them first, while there is room.": (
                    lambda lengths, max_length: in_the_given_order(lambda packs: packs[0], lengths, max_length)
                ),
                "the fullest row with room is a good choice, but long texts are hard to place late: take them first.": (
                    lambda lengths, max_length: in_the_given_order(
                        lambda packs: max(packs, key=sum), lengths, max_length
                    )
                ),
            },
        ),
    ]
)
