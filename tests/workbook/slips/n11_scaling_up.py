"""Answers to the exercises of notebook 11 that its checkers must refuse, by the slip."""

import math

from packlib.workbook.chapters.n11_scaling_up.lesson import FASTER, PUBLISHED, round_at_random

SLIPS = {
    "loss_weights": {
        "all the same": lambda counts: [1.0 for _ in counts],
        "forgets that ranks are averaged": lambda counts: [count / sum(counts) for count in counts],
        "only the number of ranks": lambda counts: [float(len(counts)) for _ in counts],
    },
    "round_at_random": {
        "to the nearest": lambda value, spacing, draw: round(value / spacing) * spacing,
        "up when it should go down": lambda value, spacing, draw: round_at_random(value, spacing, 1 - draw),
        "a coin": lambda value, spacing, draw: (math.floor(value / spacing) + (draw < 0.5)) * spacing,
        "cuts digits off": lambda value, spacing, draw: (
            (int(value / spacing) + (draw < value / spacing - int(value / spacing))) * spacing
        ),
    },
    "faster_pod": {
        "the published pod": PUBLISHED,
        "even stages alone": PUBLISHED | {"layout": (6, 6, 6, 6)},
        "too few layers": FASTER | {"layout": (3, 7, 7)},
        "does not fit": PUBLISHED | {"recompute": False},
        "accumulates too long": FASTER | {"micro_batch": 2, "gradient_accumulation_steps": 2048},
        "a smaller batch": FASTER | {"micro_batch": 2},
    },
}
