"""Answers to the exercises of notebook 07 that its checkers must refuse, by the slip."""

import numpy as np

from packlib.workbook.chapters.n07_hyperparameters.lesson import fit_device


def _decay_outside(weights, gradient, rate, decay):
    """The ratio of the gradient's part alone; the decay is added after it."""
    signs, x = np.sign(gradient), np.array(weights)
    return x - rate * ((np.linalg.norm(x) or 1.0) / np.linalg.norm(signs) * signs + decay * x)


def _adamw(weights, gradient, rate, decay):
    return np.array(weights) - rate * (np.sign(gradient) + decay * np.array(weights))


SLIPS = {
    "same_memory": {
        "upside down": lambda beta, before, after: beta ** (before / after),
        "the first order only": lambda beta, before, after: 1 - (1 - beta) * after / before,
    },
    "fit_device": {
        "rounds only the accumulation": lambda target, factor, replicas, most_rows: (
            most_rows,
            max(1, round(target / (most_rows * replicas * factor))),
        ),
        "forgets the factor": lambda target, factor, *device: fit_device(target, 1, *device),
    },
    "first_lamb_step": {
        "AdamW: no trust ratio": _adamw,
        "the decay outside the ratio": _decay_outside,
    },
}
