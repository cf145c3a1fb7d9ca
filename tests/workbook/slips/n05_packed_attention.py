"""Answers to the exercises of notebook 05 that its checkers must refuse, by the slip."""

import torch

from packlib.workbook.chapters.n05_packed_attention.lesson import bounds, who_hears_whom, window_mask

SLIPS = {
    "bounds": {
        "does not see where a pack ends": lambda packs: bounds([[s for pack in packs for s in pack]]),
        "drops the padding": lambda packs: bounds([[s for s in pack if s] for pack in packs]),
    },
    "next_tokens": {
        "over the border": lambda tokens, ids: [
            new if s and t else -100 for new, s, t in zip([*tokens[1:], 0], ids, [*ids[1:], 0], strict=True)
        ],
        "predicts padding": lambda tokens, ids: [
            new if s == t else -100 for new, s, t in zip([*tokens[1:], 0], ids, [*ids[1:], -1], strict=True)
        ],
    },
    "window_mask": {
        "the window alone": lambda ids, window: window_mask(torch.ones_like(ids), window),
        "one slot too far": lambda ids, window: window_mask(ids, window + 1),
    },
    "who_hears_whom": {
        "only neighbors": lambda layer, ids: [(a, b) for a, b in who_hears_whom(layer, ids) if abs(a - b) == 1],
        "confuses listener and source": lambda layer, ids: sorted((b, a) for a, b in who_hears_whom(layer, ids)),
    },
}
