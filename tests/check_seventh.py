"""A seventh set of set-ups for `check_packing`: faults that seem to have another cause, or one besides their own."""

from copy import deepcopy

import torch
from check_cases import SEGMENTS, OfTorch, dense, sequences
from check_later import LATER
from check_reports import EARLIER, FLAT, SHORT, Uncounted, llama, of


class ScaledByRow(torch.autograd.Function):
    """Gradients that a backward pass divides by their norm over a row, or only so far as to keep a bound."""

    @staticmethod
    def forward(ctx, x, bound):
        ctx.bound = bound
        return x

    @staticmethod
    def backward(ctx, gradient):
        norm = gradient.norm(dim=(1, 2), keepdim=True).clamp(min=1e-12)
        return gradient / (norm if ctx.bound is None else (norm / ctx.bound).clamp(min=1)), None


class Scaled(Uncounted):
    """Gradients of hidden states are normalized over each row, or clipped to a `bound`."""

    def __init__(self, bound=None):
        super().__init__("attention")
        self.bound = bound

    def _attention(self, part, x, segments, same, wrong):
        made = super()._attention(part, ScaledByRow.apply(x, self.bound), segments, same, wrong)
        return ScaledByRow.apply(made, self.bound)


class RowNorm(Uncounted):
    """What attention returns is divided by its root mean square over the row."""

    def __init__(self):
        super().__init__("attention")

    def _attention(self, part, x, segments, same, wrong):
        made = super()._attention(part, x, segments, same, wrong)
        return made / (made.square().mean((1, 2), keepdim=True) + 1e-6).sqrt()


class BothWays(Uncounted):
    """A state that runs over the row, and another that runs back."""

    def __init__(self):
        super().__init__("state", fault="state")

    def _state(self, part, x, segments, same, wrong):
        forth = super()._state(part, x, segments, same, wrong)
        return forth + super()._state(part, x.flip(1), segments.flip(1), same, wrong).flip(1)


def of_a_copy(cleared):
    """A step whose optimizer has a copy of the model; the gradients of the model, or of the copy, are cleared."""
    model = llama()
    copy = deepcopy(model)
    optimizer = torch.optim.SGD(copy.parameters(), lr=0.1)

    def step(model, batches):
        count = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
        (model if cleared == "model" else copy).zero_grad()
        for batch in batches:
            model(**batch, num_items_in_batch=count).loss.backward()
        optimizer.step()
        (model if cleared == "model" else copy).zero_grad()

    return model, FLAT, SHORT, {"step": step}


def cut_to_12():
    """Sequences are cut to 12 tokens, and a token of the next one is where the cut one would have an equal one."""
    rows = of(17, 8, 10, 8, 16, 13)
    rows[5]["input_ids"][3] = rows[4]["input_ids"][15]
    cut = lambda rows: FLAT([{name: values[:12] for name, values in row.items()} for row in rows])  # noqa: E731
    return llama(), cut, rows


FAULTS = {
    "gradients of hidden states are normalized by row": (
        lambda: (Scaled(), dense(**SEGMENTS), SHORT), "mean", "normalized or clipped over a row"),
    "gradients of hidden states are clipped by row": (
        lambda: (Scaled(1e-3), dense(**SEGMENTS), SHORT), "mean", "normalized or clipped over a row"),
    "a root mean square over the row": (
        lambda: (RowNorm(), dense(**SEGMENTS), SHORT), LATER, "statistics (a norm over a row, batch normalization)"),
    "a state in both directions": (
        lambda: (BothWays(), dense(**SEGMENTS), SHORT), EARLIER, "a state or a token shift runs in both directions"),
    "statistics that padding is part of": (
        lambda: (OfTorch(statistics=True).train(), dense(**SEGMENTS, causal=False), sequences()), "padding",
        "takes in padding too"),
    "an optimizer of a copy of the model": (
        lambda: of_a_copy("copy"), "accumulation", "copies of the model's parameters"),
    "an optimizer of a copy of the model, whose own gradients are cleared": (
        lambda: of_a_copy("model"), "accumulation", "copies of the model's parameters"),
    "sequences are cut, and the next holds one of the lost tokens": (
        cut_to_12, "tokens", "sequences are truncated"),
}  # fmt: skip

# What no finding may name as a cause, since it is not true, or not known
UNTRUE = {
    "gradients of hidden states are normalized by row": "leaked target",
    "gradients of hidden states are clipped by row": "leaked target",
    "a root mean square over the row": "^a state across packs|padding is attended",
    "a state in both directions": "^a state across packs|padding is attended",
    "statistics that padding is part of": "padding is attended",
    "an optimizer of a copy of the model": "cleared or detached",
    "an optimizer of a copy of the model, whose own gradients are cleared": "cleared or detached",
    "sequences are cut, and the next holds one of the lost tokens": "document mask|border|labels",
}
