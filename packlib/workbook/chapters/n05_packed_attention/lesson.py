"""Notebook 05: attention that keeps the sequences of a pack apart."""

import numpy as np
import torch
from matplotlib.figure import Figure
from torch.nn.functional import pad

from packlib.batches import PackedBatch
from packlib.model.attention import allowed_pairs
from packlib.workbook.chapters.n05_packed_attention.figures import STRANGER, draw_mask
from packlib.workbook.chapters.shared.segments import spans, spoiled
from packlib.workbook.chapters.shared.small_models import small_bert, small_gpt
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, new_figure, percent


class LeakExplorer(Explorer):
    """Lengths, direction, mask and positions against what each sequence's answers become."""

    title = "What reaches a sequence from outside?"

    def __init__(self):
        self.models = {False: small_bert(), True: small_gpt()}
        super().__init__()

    def controls(self):
        return {
            "first": slider("Tokens of A", 1, 8, value=6),
            "second": slider("Tokens of B", 1, 8, value=4),
            "third": slider("Tokens of C (0: none)", 0, 8, value=3),
            "causal": choice("Attention", [("bidirectional", False), ("causal", True)], False),
            "mask": choice("Mask", [("within each sequence", True), ("padding only", False)], False),
            "restart": choice("Positions", [("restart", True), ("run on", False)], True),
        }

    def draw(self, first, second, third, causal, mask, restart) -> tuple[Figure, str]:
        lengths = [n for n in (first, second, third) if n]
        real = sum(lengths)
        ids = torch.repeat_interleave(torch.arange(1, len(lengths) + 1), torch.tensor(lengths))
        ids = pad(ids, (0, 2))[None]
        tokens = (5 + 37 * torch.arange(real + 2))[None] * (ids > 0)
        batch, model = PackedBatch(input_ids=tokens, segment_ids=ids), self.models[causal]
        fields = spoiled(batch, mask, restart)
        inputs = {"input_ids": tokens, **({} if causal else {"token_type_ids": batch.token_type_ids})}
        with torch.no_grad():
            right = model.encode(ids, batch.position_ids, **inputs)
            got = model.encode(fields["segment_ids"], fields["position_ids"], **inputs)
        change = ((got - right).norm(dim=-1) / right.norm(dim=-1))[0].numpy().round(9)[:real]
        allowed = allowed_pairs(fields["segment_ids"], causal)[0]
        outside, top = int((allowed & ~allowed_pairs(ids)[0]).sum()), max(100 * change.max(), 1)

        fig, (left, axis) = new_figure(1, 2, width_ratios=(3, 4))
        draw_mask(left, ids[0], allowed, f"{outside} pairs of strangers")
        axis.bar(range(real), 100 * change, color=STRANGER)
        worst = {}
        for name, start, end in spans(ids[0])[: len(lengths)]:
            worst[name] = percent(change[start:end].max(), 0)
            axis.axvline(end - 0.5, color=INK, linestyle="-", linewidth=1)
            axis.text((start + end - 1) / 2, 1.03 * top, f"{name}: {worst[name]}", ha="center", fontsize=11)
        axis.set_xticks(range(real), fields["position_ids"][0, :real].tolist(), fontsize=10)
        axis.set(xlabel="position of the token", ylabel="change of its answer, %", ylim=(0, 1.12 * top))
        axis.set_title("Not as if alone" if change.any() else "As if alone")
        return fig, (
            f"Sequences of {', '.join(map(str, lengths))} tokens, {'causal' if causal else 'bidirectional'}, "
            f"mask {'within each sequence' if mask else 'of padding only'}, "
            f"positions {'restart' if restart else 'run on'}: {int(allowed.sum())} pairs allowed, "
            f"{outside} of them between strangers. Largest change of an answer: "
            f"{', '.join(f'{name} {change}' for name, change in worst.items())}."
        )  # fmt: skip


# Exercises


def positions(segment_ids):
    """The place of each token in its own sequence: [1, 1, 2, 2, 2, 0] to [0, 1, 0, 1, 2, 0]."""
    return [0 if not s else segment_ids[:i].count(s) for i, s in enumerate(segment_ids)]


def may_look(segment_ids, causal):
    """Rows of True and False: may query (row) look at key (column)? Padding counts as one more sequence."""
    slots = range(len(segment_ids))
    return [[segment_ids[q] == segment_ids[k] and (k <= q or not causal) for k in slots] for q in slots]


def bounds(packs):
    """Where each segment begins when all packs are laid end to end, and the number of slots at the end."""
    starts, slots = [], 0
    for pack in packs:
        starts += [slots + i for i, s in enumerate(pack) if i == 0 or s != pack[i - 1]]
        slots += len(pack)
    return [*starts, slots]


EXERCISES = Exercises([
    Exercise(
        "positions", positions,
        cases=(([1],), ([1, 1],), ([1, 2],), ([1, 1, 2, 2, 2, 0],), ([1, 2, 2, 3, 3, 3, 0, 0],)),
        wrong={
            "runs on": lambda segment_ids: [i if s else 0 for i, s in enumerate(segment_ids)],
            "starts at 1": lambda segment_ids: [position + 1 for position in positions(segment_ids)],
            "counts the padding": lambda segment_ids: [segment_ids[:i].count(s) for i, s in enumerate(segment_ids)],
        },
        hint="count the earlier slots with the same segment id.",
    ),
    Exercise(
        "may_look", may_look,
        cases=(([1], False), ([1, 2], False), ([1, 1], True), ([1, 0], False), ([1, 1, 2, 2, 2, 0, 0], True)),
        wrong={
            "the padding mask": lambda segment_ids, causal: [[s > 0 for s in segment_ids]] * len(segment_ids),
            "forgets causal": lambda segment_ids, causal: may_look(segment_ids, False),
            "looks ahead": lambda segment_ids, causal: np.transpose(may_look(segment_ids, causal)).tolist(),
            "empty rows for padding": lambda segment_ids, causal: [
                [ok and s > 0 for ok in row]
                for s, row in zip(segment_ids, may_look(segment_ids, causal), strict=True)
            ],
        },
        hint="two slots see each other if their segment ids are equal; causal also asks that the key is not later.",
    ),
    Exercise(
        "bounds", bounds,
        cases=(([[1]],), ([[1, 1, 2]],), ([[1, 2, 0]],), ([[1, 1], [1, 1]],), ([[1, 2, 2], [1, 1, 0], [1, 0, 0]],)),
        wrong={
            "lengths, not bounds": lambda packs: np.diff(bounds(packs)).tolist(),
            "forgets the end": lambda packs: bounds(packs)[:-1],
            "does not see where a pack ends": lambda packs: bounds([[s for pack in packs for s in pack]]),
            "drops the padding": lambda packs: bounds([[s for s in pack if s] for pack in packs]),
        },
        hint="a segment begins where the id differs from the slot before, and at the start of every pack.",
    ),
])  # fmt: skip
check = EXERCISES
