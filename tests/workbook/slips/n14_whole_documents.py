"""Answers to the exercises of notebook 14 that its checkers must refuse, by the slip."""

from packlib.packing import document_rows, least_cuts
from packlib.workbook.chapters.n14_whole_documents.lesson import PUZZLE, split_pieces

SLIPS = {
    "split_pieces": {
        "an empty rest": lambda length, slots: [slots] * (length // slots) + [length % slots],
        "forgets the rest": lambda length, slots: [slots] * (length // slots),
        "halves": lambda length, slots: [length] if length <= slots else [length // 2, length - length // 2],
        "the rest first": lambda length, slots: split_pieces(length, slots)[::-1],
    },
    "wrapped_cuts": {
        "every row's end": lambda lengths, slots: (sum(lengths) - 1) // slots,
        "documents, not places": lambda lengths, slots: document_rows(lengths, slots, "wrapped").cut_documents,
        "only what is too long": least_cuts,
        "documents that are too long": lambda lengths, slots: sum(n > slots for n in lengths),
    },
    "order_without_cuts": {
        "from long to short": sorted(PUZZLE, reverse=True),
        "from short to long": sorted(PUZZLE),
        "leaves some out": [5, 3, 5, 3, 4, 2, 2],
        "as best fit packs": [5, 3, 5, 3, 4, 3, 3, 2, 2, 2],
    },
}
