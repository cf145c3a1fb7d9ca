"""Answers to the exercises of notebook 00 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n00_tour.lesson import NINE, ROW, first_fit, strangers


def _next_fit(lengths, max_length):
    packs = [[]]
    for length in lengths:
        if sum(packs[-1]) + length > max_length:
            packs.append([])
        packs[-1].append(length)
    return packs


SLIPS = {
    "three_rows": {
        "from long to short": first_fit(NINE, ROW),
        "cuts a text in two": [[12, 8, 4], [11, 7, 6], [10, 9, 3, 2]],
    },
    "strangers": {
        "the share of the pairs that are allowed": lambda lengths: 1 - strangers(lengths),
        "leaves out the pairs of a token with itself": lambda lengths: (
            1 - sum(n * (n - 1) for n in lengths) / max(1, sum(lengths) * (sum(lengths) - 1))
        ),
    },
    "my_packs": {
        "only looks at the last row": _next_fit,
        "each length once": lambda lengths, max_length: first_fit(set(lengths), max_length),
    },
}
