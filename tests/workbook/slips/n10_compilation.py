"""Answers to the exercises of notebook 10 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n10_compilation.lesson import padded_slots, warm_order
from packlib.workbook.chapters.n10_compilation.runs import onset


def _without_padding(lengths, ranks):
    """The onset of the notebook, which leaves lengths with few batches as they are."""
    return [(i, lengths[i]) for i in onset(lengths, ranks)]


SLIPS = {
    "padded_slots": {
        "a length that fits exactly goes one further": lambda lengths, edges: sum(
            min((edge for edge in edges if edge > length), default=edges[-1]) for length in lengths
        ),
        "counts only the padding": lambda lengths, edges: padded_slots(lengths, edges) - sum(lengths),
        "all to the longest": lambda lengths, edges: len(lengths) * edges[-1],
    },
    "warm_order": {
        "as they come": lambda lengths, ranks: list(enumerate(lengths)),
        "the onset above, without padding": _without_padding,
        "all to the longest": lambda lengths, ranks: [(i, max(lengths)) for i in range(len(lengths))],
        "pads only its own, and not what was padded to it": lambda lengths, ranks: [
            (i, min((n for n in lengths if n >= length and lengths.count(n) >= ranks), default=max(lengths)))
            for i, length in _without_padding(lengths, ranks)
        ],
        "one of each at the start": lambda lengths, ranks: warm_order(lengths, 1),
        "shortest first": lambda lengths, ranks: sorted(warm_order(lengths, ranks), key=lambda pair: pair[1]),
    },
    "best_edges": {
        "equal steps": lambda lengths, k: [-(-max(lengths) * i // k) for i in range(1, k + 1)],
        "as many sequences in each": lambda lengths, k: [
            sorted(lengths)[-(-len(lengths) * i // k) - 1] for i in range(1, k + 1)
        ],
        "the most frequent lengths": lambda lengths, k: sorted(
            sorted(set(lengths), key=lambda length: -lengths.count(length))[:k]
        ),
    },
}
