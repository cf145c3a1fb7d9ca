"""Notebook 05: attention that keeps the sequences of a pack apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from ipywidgets import Checkbox
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import pad

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer
from packbook.figures import INK, new_figure, percent
from packbook.n05_packed_attention.runs import attended, carried, convolved, hidden_states
from packbook.questions import Questions, compare
from packbook.shared.segments import STRANGER, draw_mask, spans, spoiled
from packbook.shared.small_models import small_bert, small_gpt
from packlib.batches import PackedBatch
from packlib.checks import shown, whole_number
from packlib.model.attention import allowed_pairs, reset_positions


class LeakExplorer(Explorer):
    """Direction, mask and positions against what each sequence's answers become."""

    title = "What reaches a sequence from outside?"
    shown_controls = ("mask", "restart")

    def __init__(self, lengths: Sequence[int] = (6, 4, 3)):
        try:
            self.lengths = [whole_number("lengths", length, 1) for length in lengths]
        except (TypeError, ValueError):
            self.lengths = []
        if not self.lengths or sum(self.lengths) > 32:
            raise ValueError(f"lengths must be whole numbers from 1, 32 tokens at most in all, not {shown(lengths)}.")
        self.models = {False: small_bert(), True: small_gpt()}
        super().__init__()

    def controls(self):
        return {
            "mask": Checkbox(True, description="The mask is block-diagonal"),
            "restart": Checkbox(False, description="Positions restart"),
            "causal": Checkbox(False, description="The model is causal"),
        }

    def draw(self, mask: bool, restart: bool, causal: bool) -> tuple[Figure, str]:
        lengths, real = self.lengths, sum(self.lengths)
        ids = torch.repeat_interleave(torch.arange(1, len(lengths) + 1), torch.tensor(lengths))
        ids = pad(ids, (0, 2))[None]
        tokens = (5 + 37 * torch.arange(real + 2))[None] * (ids > 0)
        batch, model = PackedBatch(input_ids=tokens, segment_ids=ids), self.models[causal]
        fields = spoiled(batch, mask, restart)
        with torch.no_grad():
            right, got = (
                hidden_states(model, tokens, some["segment_ids"], some["position_ids"]) for some in (batch, fields)
            )
        change = ((got - right).norm(dim=-1) / right.norm(dim=-1))[0].numpy().round(9)[:real]
        allowed = allowed_pairs(fields["segment_ids"], causal)[0]
        outside, top = int((allowed & ~allowed_pairs(ids)[0]).sum()), max(100 * change.max(), 100)

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
        )


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "strangers": lambda own, pairs: compare(2 * own, pairs, "two strangers", "half and half", "one sequence"),
        "empty_row": lambda value: str(value),
        "positions_move": lambda moved: bool(moved.any()),
        "worst_fault": lambda accuracy: (
            "the same for both"
            if abs(accuracy["no mask"] - accuracy["positions run on"]) < 0.02
            else min(("no mask", "positions that run on"), key=lambda name: accuracy[name.replace("that ", "")])
        ),
        "share_of_scores": lambda share: "the weights" if share < 0.5 else "the scores and sums",
        "grows": lambda growth: max(growth, key=growth.get),
    },
    reasons={
        "share_of_scores": lambda share: (
            f"Scores and sums have {percent(share, 0)}. They grow with T, the weights do not: at 8,192 it is "
            f"{percent(8192 / (6 * 768 + 8192), 0)}, so masked-out work matters in long packs."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def bounds(packs):
    """Where each segment begins when all packs are laid end to end, and the number of slots at the end."""
    starts, slots = [], 0
    for pack in packs:
        starts += [slots + i for i, s in enumerate(pack) if i == 0 or s != pack[i - 1]]
        slots += len(pack)
    return [*starts, slots]


def next_tokens(input_ids, segment_ids):
    """What each slot of a causal model is to predict: the next token of its own sequence, else -100."""
    following = zip(input_ids[1:], segment_ids[1:], segment_ids, strict=False)
    return [token if new == old and old > 0 else -100 for token, new, old in following] + [-100]


def window_mask(segment_ids, window):
    """True where a query (row) may look at a key (column): own sequence, not ahead, fewer than `window` slots back."""
    slots = torch.arange(len(segment_ids))
    back = slots[:, None] - slots
    return (segment_ids[:, None] == segment_ids) & (back >= 0) & (back < window)


def who_sees_whom(layer, segment_ids):
    """All pairs (receiver, source) of different sequences for which the source's inputs move the receiver's outputs."""
    found, x = set(), torch.linspace(1, 2, len(segment_ids), dtype=torch.float64)
    before = layer(x)
    for source in segment_ids.unique().tolist():
        moved = layer(torch.where(segment_ids == source, x + 1, x)) != before
        found |= {(receiver, source) for receiver in segment_ids[moved].tolist()}
    return sorted((receiver, source) for receiver, source in found if receiver != source and receiver and source)


@dataclass(frozen=True)
class Layer:
    """A layer with a name that a checker can print."""

    name: str
    run: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        return self.run(x)

    def __repr__(self) -> str:
        return self.name


def _layers(ids: Tensor) -> list[tuple[Layer, Tensor]]:
    """Layers that keep the sequences of `ids` apart, and some that do not, from simple to hard."""
    own = allowed_pairs(ids[None])[0]
    window = window_mask(torch.ones_like(ids), 3)
    positions = reset_positions(ids[None])[0]
    return [
        (Layer(name, run), ids)
        for name, run in (
            ("twice", lambda x: 2 * x),
            ("block_diagonal_attention", partial(attended, mask=own)),
            ("state", carried),
            ("convolution", convolved),
            ("sliding_window", partial(attended, mask=window)),
            ("padding_mask", partial(attended, mask=(ids > 0).expand(len(ids), -1))),
            ("positions_run_on", lambda x: attended(x + torch.arange(len(x)), own)),
            ("counts_slots_of_its_own", lambda x: x * (1 + positions)),
        )
    ]


def _ids(*ids):
    return torch.tensor(ids)


check = Exercises.beside(
    __file__,
    bounds,
    next_tokens,
    Exercise(
        "window_mask",
        window_mask,
        cases=(
            (_ids(1), 1),
            (_ids(1, 1), 1),
            (_ids(1, 1, 1), 2),
            (_ids(1, 1, 2, 2), 3),
            (_ids(1, 1, 1, 2, 2, 0), 2),
            (_ids(1, 1, 1, 1, 1, 2, 2), 4),
        ),
    ),
    Exercise(
        "who_sees_whom",
        who_sees_whom,
        cases=tuple(_layers(_ids(1, 1, 2, 2, 2, 3, 3))) + tuple(_layers(_ids(1, 1, 1, 2, 3, 3, 0))[3:6]),
    ),
)
