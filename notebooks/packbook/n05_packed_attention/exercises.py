"""The exercises of notebook 05, in its order."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from packbook.exercises import Exercise, Exercises
from packbook.n05_packed_attention.runs import attended, carried, convolved
from packlib.model.attention import allowed_pairs, reset_positions


def bounds(packs):
    """Find where each segment begins when all packs are laid end to end; the number of slots comes last."""
    starts, slots = [], 0
    for pack in packs:
        starts += [slots + i for i, s in enumerate(pack) if i == 0 or s != pack[i - 1]]
        slots += len(pack)
    return [*starts, slots]


def draw_ids(rng):
    """Draw the segment ids of one pack of up to four segments: 1, 1, 2, …, often with padding after them."""
    ids = [number for number in range(1, rng.randint(1, 4) + 1) for _ in range(rng.randint(1, 3))]
    return ids + [0] * rng.choice((0, 0, 1, 2))


def draw_packs(rng):
    """Draw the segment ids of one to three packs with the same number of slots, as in a batch."""
    packs, slots = [], rng.randint(1, 6)
    for _ in range(rng.randint(1, 3)):
        first = rng.choice((slots, rng.randint(1, slots)))  # often one sequence fills the pack
        second = rng.randint(0, slots - first)
        packs.append([1] * first + [2] * second + [0] * (slots - first - second))
    return (packs,)


def bounds_of_each_pack(packs):
    """Find the bounds within each pack, as if slots were counted from 0 in each."""
    return [bound for pack in packs for bound in bounds([pack])[:-1]] + [sum(map(len, packs))]


def next_tokens(input_ids, segment_ids):
    """Return what each slot of a causal model is to predict: the next token of its own sequence, else -100."""
    following = zip(input_ids[1:], segment_ids[1:], segment_ids, strict=False)
    return [token if new == old and old > 0 else -100 for token, new, old in following] + [-100]


def draw_tokens_and_ids(rng):
    """Draw the tokens of a pack, 0 for padding, and their segment ids."""
    segment_ids = draw_ids(rng)
    return [rng.randint(3, 99) if segment else 0 for segment in segment_ids], segment_ids


def padding_predicts_padding(input_ids, segment_ids):
    """Return the next tokens as if padding were a sequence."""
    following = zip(input_ids[1:], segment_ids[1:], segment_ids, strict=False)
    return [token if new == old else -100 for token, new, old in following] + [-100]


def across_the_borders(input_ids, segment_ids):
    """Return the next tokens as if the pack were one sequence."""
    following = zip(input_ids[1:], segment_ids[1:], strict=True)
    return [token if new > 0 else -100 for token, new in following] + [-100]


def the_token_itself(input_ids, segment_ids):
    """Return the labels that transformers takes, which shifts them: a slot has the token itself."""
    before = [0, *segment_ids]
    tokens_and_ids = zip(input_ids, segment_ids, before, strict=False)
    return [token if new == old and new > 0 else -100 for token, new, old in tokens_and_ids]


def window_mask(segment_ids, window):
    """Mark the keys (columns) of each query (row): own sequence, not ahead, fewer than `window` slots back."""
    slots = torch.arange(len(segment_ids))
    back = slots[:, None] - slots
    return (segment_ids[:, None] == segment_ids) & (back >= 0) & (back < window)


def draw_ids_and_window(rng):
    """Draw the segment ids of a pack, and a window in slots."""
    return torch.tensor(draw_ids(rng)), rng.randint(1, 4)


def both_ways(segment_ids, window):
    """Mark the keys of each query in a window to both sides."""
    mask = window_mask(segment_ids, window)
    return mask | mask.T


def who_sees_whom(layer, segment_ids):
    """Find all pairs (receiver, source) of sequences where the source's inputs move the receiver's outputs."""
    pairs, x = set(), torch.linspace(1, 2, len(segment_ids), dtype=torch.float64)
    before = layer(x)
    for source in segment_ids.unique().tolist():
        moved = layer(torch.where(segment_ids == source, x + 1, x)) != before
        pairs |= {(receiver, source) for receiver in segment_ids[moved].tolist()}
    return sorted((receiver, source) for receiver, source in pairs if receiver != source and receiver and source)


@dataclass(frozen=True)
class Layer:
    """A layer with a name that a checker can print."""

    name: str
    run: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        return self.run(x if x.is_floating_point() else x.double())  # answers may try whole numbers

    def __repr__(self) -> str:
        return self.name


def attended_to_a_part(x: Tensor, mask: Tensor) -> Tensor:
    """Return the attention to a twentieth of `x`, so that no weight rounds to 0 for inputs such as 0, 1, 2, …"""
    return attended(x / 20, mask)


def layers_for(ids: Tensor) -> list[Layer]:
    """Return layers that keep the sequences of the segment `ids` apart, and layers that leak, from simple to hard."""
    same_segment = allowed_pairs(ids[None])[0]
    window = window_mask(torch.ones_like(ids), 3)
    positions = reset_positions(ids[None])[0]
    return [
        Layer("twice", lambda x: 2 * x),
        Layer("block_diagonal_attention", partial(attended_to_a_part, mask=same_segment)),
        Layer("state", carried),
        Layer("convolution", convolved),
        Layer("sliding_window", partial(attended_to_a_part, mask=window)),
        Layer("padding_mask", partial(attended_to_a_part, mask=(ids > 0).expand(len(ids), -1))),
        Layer("positions_run_on", lambda x: attended_to_a_part(x + torch.arange(len(x)), same_segment)),
        Layer("counts_slots_of_its_own", lambda x: x * (1 + positions)),
    ]


def draw_layer_and_ids(rng):
    """Draw the segment ids of a pack, and one of the layers for them."""
    ids = torch.tensor(draw_ids(rng))
    return rng.choice(layers_for(ids)), ids


def padding_too(layer, segment_ids):
    """Return the pairs as if padding, 0, were a sequence."""
    moved = who_sees_whom(layer, segment_ids + 1)
    return [(receiver - 1, source - 1) for receiver, source in moved]


THREE = torch.tensor([1, 1, 2, 2, 2, 3, 3])  # segment ids of three sequences

check = Exercises(
    [
        Exercise(
            "bounds",
            bounds,
            level=1,
            minutes=10,
            draw=draw_packs,
            cases=[([[1]],), ([[1, 1, 2]],), ([[1, 2, 0]],), ([[1, 1], [1, 1]],)],
            hint="a segment begins where the id differs from the slot before, and at the start of every pack.",
            slips={
                "every pack begins a segment, also where its first id is the last one of the pack before.": (
                    lambda packs: bounds([[s for pack in packs for s in pack]])
                ),
                "padding takes slots too: it stays, as a segment of its own.": (
                    lambda packs: bounds([[s for s in pack if s] for pack in packs])
                ),
                "the packs lie end to end, so the slots of the packs before count too.": bounds_of_each_pack,
                "the last number is missing: how many slots there are in all.": lambda packs: bounds(packs)[:-1],
            },
        ),
        Exercise(
            "next_tokens",
            next_tokens,
            level=2,
            minutes=10,
            draw=draw_tokens_and_ids,
            cases=[([7], [1]), ([7, 8], [1, 1]), ([7, 8], [1, 2]), ([7, 8, 9, 4, 0], [1, 1, 1, 2, 0])],
            hint="compare the segment id of a slot with that of the slot after it; padding predicts nothing.",
            slips={
                "padding predicts nothing, also not more padding.": padding_predicts_padding,
                "the last token of a sequence would then predict the first of the next.": across_the_borders,
                "those are labels before the shift; asked is the token after each slot.": the_token_itself,
            },
        ),
        Exercise(
            "window_mask",
            window_mask,
            level=2,
            minutes=15,
            draw=draw_ids_and_window,
            cases=[(torch.tensor([1]), 1), (torch.tensor([1, 1]), 1), (torch.tensor([1, 1, 2, 2]), 3)],
            hint="three conditions joined by &: equal segment ids, query - key at least 0, and less than the window.",
            slips={
                "the window joins the mask of the sequences and does not replace it.": (
                    lambda segment_ids, window: window_mask(torch.ones_like(segment_ids), window)
                ),
                "the query's own slot is one of the `window` slots.": (
                    lambda segment_ids, window: window_mask(segment_ids, window + 1)
                ),
                "a causal model does not look ahead.": both_ways,
                "a query looks at its own slot too.": (
                    lambda segment_ids, window: (
                        window_mask(segment_ids, window) & ~torch.eye(len(segment_ids), dtype=torch.bool)
                    )
                ),
            },
        ),
        Exercise(
            "who_sees_whom",
            who_sees_whom,
            level=3,
            minutes=20,
            draw=draw_layer_and_ids,
            cases=[(layer, THREE) for layer in layers_for(THREE)],
            hint="run the layer again with the inputs of one sequence changed, and see whose outputs move.",
            slips={
                "a layer can reach farther than the next sequence.": (
                    lambda layer, segment_ids: [
                        (a, b) for a, b in who_sees_whom(layer, segment_ids) if abs(a - b) == 1
                    ]
                ),
                "the receiver comes first: whose outputs move; then the source, whose inputs were changed.": (
                    lambda layer, segment_ids: sorted((b, a) for a, b in who_sees_whom(layer, segment_ids))
                ),
                "padding, 0, is no sequence.": padding_too,
            },
        ),
    ]
)
