"""Answers to the exercises of notebook 12 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n12_your_dataset.lesson import same_update, smallest_depth

SLIPS = {
    "expected_speedup": {
        "forgets the overhead": lambda slots_now, slots_packed, overhead: slots_now / slots_packed,
        "upside down": lambda slots_now, slots_packed, overhead: slots_packed / slots_now * (1 - overhead),
        "as extra time": lambda slots_now, slots_packed, overhead: slots_now / slots_packed / (1 + overhead),
    },
    "smallest_depth": {
        "the very best": lambda packs, within: smallest_depth(packs, 0),
        "within of the first": lambda packs, within: min(
            d for d in packs if packs[d] <= packs[min(packs)] * (1 + within)
        ),
        "the deepest": lambda packs, within: max(packs),
        "near the packs of the greatest depth": lambda packs, within: min(
            depth for depth, number in packs.items() if number <= packs[max(packs)] * (1 + within)
        ),
        "the first that is good enough": lambda packs, within: next(
            depth for depth, number in packs.items() if number <= min(packs.values()) * (1 + within)
        ),
    },
    "stubborn": {
        "halves": [50] * 10,
        "full rows": [100] * 10,
        "one short": [60] * 9 + [40],
        "too few": [55] * 9,
    },
    "same_update": {
        "forgets the factor": lambda sequences, factor, most: same_update(sequences, 1.0, most),
        "always the largest micro batch": lambda sequences, factor, most: (
            most,
            max(1, round(sequences / factor / most)),
        ),
        "one pack at a time": lambda sequences, factor, most: (1, max(1, round(sequences / factor))),
        "forgets the bound": lambda sequences, factor, most: same_update(sequences, factor, sequences),
    },
}
