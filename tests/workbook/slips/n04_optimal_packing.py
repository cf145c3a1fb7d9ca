"""Answers to the exercises of notebook 04 that its checkers must refuse, by the slip."""

import math

from packlib.workbook.chapters.n04_optimal_packing.lesson import may_use

SLIPS = {
    "simple_bound": {
        "by tokens only": lambda lengths, max_length, depth: math.ceil(sum(lengths) / max_length),
        "rounds down": lambda lengths, max_length, depth: max(sum(lengths) // max_length, len(lengths) // depth),
    },
    "prices": {
        "by the token": {7: 0.7, 6: 0.6, 4: 0.4},
        "forgets a length": {7: 1, 6: 0.5},
    },
    "one_round": {
        "prices by the token": ({7: 7 / 12, 5: 5 / 12, 4: 1 / 3}, (7, 5)),
        "a known pack": ({7: 2 / 3, 5: 1 / 2, 4: 1 / 3}, (4, 4, 4)),
    },
    "may_use": {
        "counts the pack beside the others": lambda pack, counts, prices, best, packs: may_use(
            pack, counts, prices, best, packs + 1
        ),
        "an equal sum is too much": lambda pack, counts, prices, best, packs: may_use(
            pack, counts, prices, best - 1, packs
        ),
    },
}
