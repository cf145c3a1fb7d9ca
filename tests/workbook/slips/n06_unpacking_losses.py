"""Answers to the exercises of notebook 06 that its checkers must refuse, by the slip."""

import torch

from packlib.workbook.chapters.n06_unpacking_losses.lesson import sequence_mean, unpack


def _border_before(values, slots, starts):
    """The first slot of a sequence counts for the one before."""
    sequence = (torch.searchsorted(starts, slots) - 1).clamp(min=0)
    zeros = torch.zeros(len(starts), dtype=values.dtype)
    return zeros.index_add(0, sequence, values), zeros.index_add(0, sequence, torch.ones_like(values))


def _mean(values):
    return sum(values) / len(values)


SLIPS = {
    "sequence_mean": {
        "over tokens": lambda packs: _mean([x for pack in packs for losses in pack for x in losses]),
        "means of sequences, then of packs": lambda packs: _mean([sequence_mean([pack]) for pack in packs]),
        "counts sequences with nothing to predict": lambda packs: (
            sum(_mean(losses) for pack in packs for losses in pack if losses) / sum(map(len, packs))
        ),
    },
    "loss_factor": {
        "forgets that replicas are averaged": lambda counts: 1 / sum(map(sum, counts)),
        "averages the steps too": lambda counts: len(counts) * len(counts[0]) / sum(map(sum, counts)),
    },
    "unpack": {
        "the border belongs to the sequence before": _border_before,
        "leaves out who has nothing to predict": lambda *x: tuple(p[unpack(*x)[1] > 0] for p in unpack(*x)),
    },
    "broken_trainer": {
        "all suspects": ["tokens", "isolation", "padding", "positions", "labels", "mean", "accumulation"],
        "no suspect": ["attention", "positions", "mean", "accumulation"],
    },
}
