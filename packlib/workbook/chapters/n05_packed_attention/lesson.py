"""Notebook 05: attention that keeps the sequences of a pack apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from ipywidgets import Checkbox
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import pad

from packlib.batches import PackedBatch
from packlib.model.attention import allowed_pairs, reset_positions
from packlib.workbook.chapters.n05_packed_attention.figures import STRANGER, draw_mask
from packlib.workbook.chapters.n05_packed_attention.runs import attended, carried, convolved, hidden_states
from packlib.workbook.chapters.shared.segments import spans, spoiled
from packlib.workbook.chapters.shared.small_models import small_bert, small_gpt
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer
from packlib.workbook.figures import INK, new_figure, percent
from packlib.workbook.questions import Question, Questions


class LeakExplorer(Explorer):
    """Direction, mask and positions against what each sequence's answers become."""

    title = "What reaches a sequence from outside?"
    telling = ("mask", "restart")

    def __init__(self, lengths: Sequence[int] = (6, 4, 3)):
        self.lengths = list(map(int, lengths))
        if not self.lengths or min(self.lengths) < 1 or sum(self.lengths) > 32:
            raise ValueError(f"lengths must be whole numbers from 1, 32 tokens at most in all, not {lengths!r}.")
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


QUESTIONS = Questions(
    strangers=Question(
        "With the padding mask, do most pairs of real tokens join one sequence, two strangers, or is it half and half?",
        truth=lambda own, pairs: (
            "half and half" if 2 * own == pairs else "one sequence" if 2 * own > pairs else "two strangers"
        ),
        why=lambda own, pairs: (
            f"Pairs grow with the square of the length: 9² + 7² + 5² = {own} of the 21² = {pairs} pairs lie within a "
            "sequence."
        ),
        choices={
            "one sequence": "Add up the squares of the three lengths, and compare with the square of their sum.",
            "two strangers": "Add up the squares of the three lengths, and compare with the square of their sum.",
            "half and half": "That would need two sequences of equal length.",
        },
    ),
    empty_row=Question(
        "What would the softmax of that row be: 0, 1, or nan?",
        truth=lambda value: str(value),
        why="It divides 0 by 0. One nan spreads to the loss, so no row of a mask should be empty.",
        choices={
            "0": "The weights of a softmax add up to 1, so they cannot all be 0.",
            "1": "The weights add up to 1 as long as one of the scores is finite.",
            "nan": "",
        },
    ),
    attention_leak=Question(
        "With the padding mask only, how much of the attention of an average token goes to strangers, in percent?",
        unit="%",
        truth=lambda leaked: 100 * leaked,
        why="The softmax does not know whose a token is. Five of the six sequences are strangers, and if all six were "
        "looked at alike, these five would get 83 %.",
    ),
    positions_move=Question(
        "Can one sequence move another's loss then: yes or no?",
        truth=lambda moved: bool(moved.any()),
        why="Only what a token may look at can move it, and positions open no way to a stranger.",
    ),
    worst_fault=Question(
        "Which fault costs the trained model more accuracy: no mask, positions that run on, or the same for both?",
        truth=lambda accuracy: (
            "the same for both"
            if accuracy["no mask"] == accuracy["positions run on"]
            else min(("no mask", "positions that run on"), key=lambda name: accuracy[name.replace("that ", "")])
        ),
        why=lambda accuracy: (
            "This model needs the sequence's own words, and without the mask it reads those of strangers. Positions "
            "tell it which of the two words is due; far into a pack it meets positions that it has never trained on. "
            "A model that needs positions for more than that may lose more."
        ),
        choices={
            "no mask": "Think of what is lost: with positions that run on it still reads its own words.",
            "positions that run on": "Think of what is lost: with positions that run on it still reads its own words.",
            "the same for both": "Of what the model needs, one fault takes the words, the other the places.",
        },
    ),
    most_leaks=Question(
        "Which joins the most pairs of strangers in our pack: the window, the convolution, or the state?",
        truth=lambda crossed: f"the {max(('window', 'convolution', 'state'), key=crossed.get)}",
        why=lambda crossed: (
            f"The window joins {crossed['window']} pairs, the convolution {crossed['convolution']}, and the state "
            f"{crossed['state']}. The first two reach few slots over a border; the state carries all before it."
        ),
        choices={
            "the window": "It reaches three slots over a border, and no further.",
            "the convolution": "It reaches one slot over a border, on either side.",
            "the state": "",
        },
    ),
    share_of_scores=Question(
        "At T = 512, which part has more multiplications: the weights, the scores and sums, or neither?",
        truth=lambda share: "the weights" if share < 0.5 else "the scores and sums",
        why=lambda share: (
            f"Scores and sums have {percent(share, 0)}. They grow with T, the weights do not: at 8,192 it is "
            f"{percent(8192 / (6 * 768 + 8192), 0)}, so masked-out work matters in long packs."
        ),
        choices={
            "the weights": "",
            "the scores and sums": "Compare 12 d with 2 T for d = 768.",
            "neither": "They are equal at T = 6 d, which is 4,608.",
        },
    ),
    pairs=Question(
        "The definitions of WordNet in packs of 128: how many pairs does a dense mask compute for one that is needed?",
        unit="pairs",
        truth=lambda ratio: round(ratio, 1),
        why="The definitions are short, so each pack holds many, and each is a small block.",
    ),
    grows=Question(
        "Which of these grows when the same tokens stand in longer rows: the dense mask, the segment ids, or the "
        "bounds?",
        truth=lambda growth: max(growth, key=growth.get),
        why=lambda growth: (
            "B × T is fixed, so B × T × T grows with T. At 8,192 slots it is "
            f"{growth['the dense mask']:.0f} times as large as at 128."
        ),
        choices={
            "the dense mask": "",
            "the segment ids": "There is one for each slot, and the number of slots stays.",
            "the bounds": "There is one for each sequence, and the number of sequences stays.",
        },
    ),
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


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


def who_hears_whom(layer, segment_ids):
    """All pairs (listener, source) of different sequences for which the source's inputs move the listener's outputs."""
    found, x = set(), torch.linspace(1, 2, len(segment_ids), dtype=torch.float64)
    before = layer(x)
    for source in segment_ids.unique().tolist():
        moved = layer(torch.where(segment_ids == source, x + 1, x)) != before
        found |= {(listener, source) for listener in segment_ids[moved].tolist()}
    return sorted((listener, source) for listener, source in found if listener != source and listener and source)


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


def _hears(layer, ids, move=1.0, neighbors=False, flip=False):
    """Learners' slips: each token moved by a factor, only sequences side by side, or listener and source confused."""
    pairs = (
        who_hears_whom(layer, ids) if move else [(a, b) for a in ids.unique().tolist() for b in ids.unique().tolist()]
    )
    pairs = [pair for pair in pairs if 0 not in pair and pair[0] != pair[1]]
    if neighbors:
        pairs = [(a, b) for a, b in pairs if abs(a - b) == 1]
    return sorted((b, a) if flip else (a, b) for a, b in pairs)


def _ids(*ids):
    return torch.tensor(ids)


EXERCISES = Exercises([
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
        level=1, minutes=10,
    ),
    Exercise(
        "next_tokens", next_tokens,
        cases=(([7], [1]), ([7, 8], [1, 1]), ([7, 8], [1, 2]), ([7, 8, 9, 4, 0], [1, 1, 1, 2, 0]),
               ([5, 6, 7, 8, 9, 0, 0], [1, 1, 2, 2, 2, 0, 0])),
        wrong={
            "over the border": lambda tokens, ids: [
                new if s and t else -100 for new, s, t in zip([*tokens[1:], 0], ids, [*ids[1:], 0], strict=True)
            ],
            "the token itself": lambda tokens, ids: [x if s else -100 for x, s in zip(tokens, ids, strict=True)],
            "predicts padding": lambda tokens, ids: [
                new if s == t else -100 for new, s, t in zip([*tokens[1:], 0], ids, [*ids[1:], -1], strict=True)
            ],
        },
        hint="compare the segment id of a slot with that of the slot after it; padding predicts nothing.",
        level=2, minutes=10,
    ),
    Exercise(
        "window_mask", window_mask,
        cases=((_ids(1), 1), (_ids(1, 1), 1), (_ids(1, 1, 1), 2), (_ids(1, 1, 2, 2), 3), (_ids(1, 1, 1, 2, 2, 0), 2),
               (_ids(1, 1, 1, 1, 1, 2, 2), 4)),
        wrong={
            "the window alone": lambda ids, window: window_mask(torch.ones_like(ids), window),
            "the sequence alone": lambda ids, window: window_mask(ids, len(ids)),
            "one slot too far": lambda ids, window: window_mask(ids, window + 1),
            "looks ahead": lambda ids, window: window_mask(ids, window).T,
        },
        hint="three conditions joined by &: equal segment ids, query - key at least 0, and less than the window.",
        level=2, minutes=15,
    ),
    Exercise(
        "who_hears_whom", who_hears_whom,
        cases=tuple(_layers(_ids(1, 1, 2, 2, 2, 3, 3))) + tuple(_layers(_ids(1, 1, 1, 2, 3, 3, 0))[3:6]),
        wrong={
            "only neighbors": partial(_hears, neighbors=True),
            "confuses listener and source": partial(_hears, flip=True),
            "everybody hears everybody": partial(_hears, move=0.0),
            "nobody hears anybody": lambda layer, ids: [],
        },
        hint="run the layer again with the inputs of one sequence changed, and see whose outputs move.",
        level=3, minutes=20,
    ),
])  # fmt: skip
check = EXERCISES
