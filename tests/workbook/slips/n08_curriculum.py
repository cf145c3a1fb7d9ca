"""Answers to the exercises of notebook 08 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n08_curriculum.lesson import cut_by_tokens, update_rates


def _different_shapes(lengths, budget):
    ids = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [
        [ids[i : i + 1], ids[i + 1 : i + 2], ids[i + 2 : i + 3], ids[i + 3 : i + 8]] for i in range(0, len(ids), 8)
    ]


def _small_and_sorted(lengths, budget):
    """Hardly any padding, and as many updates as there can be: the budget is not used."""
    ids = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [[[i] for i in ids[at : at + 4]] for at in range(0, len(ids), 4)]


def _not_whole(done, total, duration, lengths):
    """Without the `round` that makes the updates of the warm-up a whole number."""
    warmup = duration * total
    return lengths[-1] if done >= warmup else lengths[int((len(lengths) - 1) * done / warmup)]


def _public_rule(done, total, duration, lengths):
    every = max(1, int(total * duration) // (len(lengths) - 1))  # without max, short runs divide by zero
    return lengths[min(len(lengths) - 1, done // every)]


SLIPS = {
    "cut_by_tokens": {
        "loses the last batch": lambda lengths, budget: cut_by_tokens(lengths, budget)[:-1],
        "stays below the budget": lambda lengths, budget: cut_by_tokens(lengths, budget - 1),
    },
    "update_rates": {
        "forgets the ranks": lambda sizes, ranks, accumulation, reference, rate: update_rates(
            sizes, 1, accumulation, reference, rate
        ),
        "the mean of the micro-batches": lambda sizes, ranks, accumulation, reference, rate: [
            r / (ranks * accumulation) for r in update_rates(sizes, ranks, accumulation, reference, rate)
        ],
    },
    "length_due": {
        "the public rule": _public_rule,
        "no rounding": _not_whole,
    },
    "pipeline_updates": {
        "sorted, one row each": _small_and_sorted,
        "different shapes": _different_shapes,
    },
}
