"""Answers to the exercises of notebook 17 that its checkers must refuse, by the slip."""

import itertools

import numpy as np

from packlib.workbook.chapters.n17_evidence.lesson import choose_seeds, paired_interval, sign_flip_p


def _seeds_without_root(first, second, t):
    low, high = paired_interval(first, second, t)
    middle, half = (low + high) / 2, (high - low) / 2 * len(first) ** 0.5
    return middle - half, middle + half


def _one_sided(differences):
    flipped = [
        sum(sign * d for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= sum(differences) - 1e-12 for one in flipped) / len(flipped)


def _unpaired(first, second, t):
    half = t * ((np.var(first, ddof=1) + np.var(second, ddof=1)) / len(first)) ** 0.5
    mean = np.mean(first) - np.mean(second)
    return float(mean - half), float(mean + half)


def _normal(deviation, wanted, arms, most):
    return next((n for n in range(2, most + 1) if 1.96 * deviation / n**0.5 <= wanted), 0)


SLIPS = {
    "paired_interval": {
        "not in pairs": _unpaired,
        "forgets the root of n": _seeds_without_root,
        "the wrong way round": lambda first, second, t: paired_interval(second, first, t),
        "divides by n": lambda first, second, t: paired_interval(
            first, second, t * ((len(first) - 1) / len(first)) ** 0.5
        ),
    },
    "sign_flip_p": {
        "one side only": _one_sided,
        "leaves out what was observed": lambda differences: sign_flip_p(differences) - 1 / 2 ** len(differences),
        "the share of positive ones": lambda differences: sum(d > 0 for d in differences) / len(differences),
    },
    "choose_seeds": {
        "1.96 for any n": _normal,
        "each interval by itself": lambda deviation, wanted, arms, most: choose_seeds(deviation, wanted, 1, most),
        "one too early": lambda deviation, wanted, arms, most: choose_seeds(deviation, wanted, arms, most - 1),
        "forgets the limit": lambda deviation, wanted, arms, most: choose_seeds(deviation, wanted, arms, 5000),
    },
}
