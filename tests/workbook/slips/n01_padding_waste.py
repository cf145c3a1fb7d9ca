"""Answers to the exercises of notebook 01 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n01_padding_waste.lesson import slots_of_batches


def _with_repeats(lengths, batch_size):
    """The formula of the notebook: a sequence may come twice."""
    number = len(lengths)
    chances = [((i + 1) / number) ** batch_size - (i / number) ** batch_size for i in range(number)]
    return sum(length * chance for length, chance in zip(sorted(lengths), chances, strict=True))


SLIPS = {
    "padding_share": {
        "share of tokens": lambda lengths, max_length: sum(lengths) / (len(lengths) * max_length),
        "pads to the longest": lambda lengths, max_length: 1 - sum(lengths) / (len(lengths) * max(lengths)),
    },
    "best_factor": {
        "longest that occurs": lambda counts: (
            max(n for n, c in enumerate(counts) if c) * sum(counts) / sum(n * c for n, c in enumerate(counts))
        ),
        "one slot too many": lambda counts: len(counts) * sum(counts) / sum(n * c for n, c in enumerate(counts)),
    },
    "slots_of_batches": {
        "drops the smaller last batch": lambda lengths, batch_size: slots_of_batches(
            lengths[: len(lengths) // batch_size * batch_size], batch_size
        ),
        "fills up the last batch": lambda lengths, batch_size: sum(
            batch_size * max(lengths[i : i + batch_size]) for i in range(0, len(lengths), batch_size)
        ),
    },
    "mean_width": {
        "lets a sequence come twice": _with_repeats,
        "in the order given": lambda lengths, batch_size: slots_of_batches(lengths, batch_size) / len(lengths),
    },
}
