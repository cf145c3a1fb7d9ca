"""Answers to the exercises of notebook 13 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n13_balanced_work.lesson import time_in_windows

SLIPS = {
    "pack_work": {
        "squares the whole pack": lambda x, a, b: a * sum(x) + b * sum(x) ** 2,
        "forgets the tokens": lambda x, a, b: b * sum(y * y for y in x),
        "one square": lambda x, a, b: a * sum(x) + b * max(x) ** 2,
    },
    "share_waited": {
        "the mean of the steps' shares": lambda steps: sum(1 - sum(r) / len(r) / max(r) for r in steps) / len(steps),
        "adds up ranks first": lambda steps: (
            1 - sum(map(sum, steps)) / len(steps[0]) / max(sum(r[i] for r in steps) for i in range(len(steps[0])))
        ),
        "compares with the fastest": lambda steps: 1 - sum(map(min, steps)) / sum(map(max, steps)),
    },
    "time_in_windows": {
        "a random deal": lambda works, ranks, window: sum(
            max(works[at : at + ranks]) for at in range(0, len(works), ranks)
        ),
        "sorts all packs": lambda works, ranks, window: time_in_windows(works, ranks, len(works)),
        "the lightest of each step": lambda works, ranks, window: sum(
            sum(sorted(works[at : at + window * ranks])[::ranks]) for at in range(0, len(works), window * ranks)
        ),
        "windows of packs": lambda works, ranks, window: sum(
            sum(sorted(works[at : at + window])[ranks - 1 :: ranks]) for at in range(0, len(works), window)
        ),
        "leaves out the last window": lambda works, ranks, window: time_in_windows(
            works[: len(works) // (window * ranks) * window * ranks], ranks, window
        ),
    },
}
