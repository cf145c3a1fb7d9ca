"""Answers to the exercises of notebook 03 that its checkers must refuse, by the slip."""

from collections import Counter

from packlib.workbook.chapters.n03_nnls_packing.lesson import column, filled_lengths, rounded_packs


def _rounded(counts, strategies, x):
    """A learner's sum: empty places are set off against sequences without one."""
    repeats = list(map(round, x))
    places = sum(len(s) * n for s, n in zip(strategies, repeats, strict=True))
    return sum(repeats) + max(0, sum(counts) - places)


SLIPS = {
    "column": {
        "forgets that a length can come twice": lambda lengths, max_length: column([*{*lengths}], max_length),
        "has a row for length 0": lambda lengths, max_length: [0, *column(lengths, max_length)],
    },
    "fewest_pairs": {
        "two in every pack": lambda lengths, max_length: -(-len(lengths) // 2),
        "the larger of both bounds": lambda lengths, max_length: max(
            -(-len(lengths) // 2), -(-sum(lengths) // max_length)
        ),
    },
    "rounded_packs": {
        "rounds down": lambda counts, strategies, x: rounded_packs(counts, strategies, [t // 1 for t in x]),
        "forgets what is left over": lambda counts, strategies, x: sum(map(round, x)),
        "puts any sequence into an empty place": _rounded,
    },
    "filled_lengths": {
        "the exact length only": lambda places, lengths: sorted(
            (Counter(places) & Counter(lengths)).elements(), reverse=True
        ),
        "from short to long": lambda places, lengths: filled_lengths(places, lengths)[::-1],
    },
}
