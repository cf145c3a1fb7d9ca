"""Notebook 08: lengths that grow, batches of as many tokens, and rates that follow the batch."""

import math
from collections.abc import Sequence

import numpy as np
from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, percent
from packbook.n08_curriculum.figures import LOOKS, draw_batches
from packbook.questions import Questions, compare
from packbook.shared.histograms import sample_lengths, shown_name
from packbook.shared.recorded_runs import interval
from packlib.batches import batch_by_tokens, scale_learning_rate
from packlib.batches.token_budget import ORDERS
from packlib.batches.variable_rate import RATE_RULES
from packlib.lengths import LengthHistogram, load


class BudgetExplorer(Explorer):
    """Budget, order and rule against the batches and the rate of each."""

    title = "What do batches of equally many tokens look like?"
    shown_controls = ("budget", "order")

    def __init__(self, dataset: str = "wordnet-pairs", seed: int = 0, own: Sequence[int] = (30, 5, 90)) -> None:
        histogram = load(dataset, 128, overlong="truncate")
        self.name, self.samples = shown_name(histogram), sample_lengths(histogram, 160, seed)
        self.own = LengthHistogram.from_lengths(own, 128).expand()
        super().__init__()

    def controls(self):
        return {
            "mine": Checkbox(False, description="Your own lengths"),
            "budget": slider("Tokens a batch", 128, 1024, value=384, step=64),
            "order": choice("Order", [("as in the data" if o == "dataset" else o, o) for o in ORDERS], "random"),
            "rule": choice(
                "Rule for the rate", [("linear", "linear"), ("square root", "sqrt"), ("none", "none")], "linear"
            ),
        }

    def draw(self, mine, budget, order, rule) -> tuple[Figure, str]:
        lengths = "your own" if mine else self.name
        samples = self.own if mine else self.samples
        batches = batch_by_tokens(samples, budget, order=order)
        sizes, reference = batches.sizes, max(1, round(float(batches.sizes.mean())))
        rates = [1000 * scale_learning_rate(1e-3, size, reference, rule) for size in sizes.tolist()]
        made = f"{len(batches):,} batch{'es' * (len(batches) > 1)}"
        fig, (above, below) = new_figure(2, 1, height_ratios=(5, 2), sharex=True)
        draw_batches(above, batches, samples, budget)
        above.set(ylabel="tokens", title=f"{made}, {percent(batches.padding_fraction)} padding")
        below.plot(rates, **LOOKS[rule], clip_on=False)
        below.set(ylabel="rate, 10⁻³", xlabel="batch", ylim=(0, None))
        return fig, (
            f"{len(samples):,} samples, {lengths}, {order} order, at most {budget:,} tokens a batch: {made} "
            f"of {sizes.min()} to {sizes.max()} samples, {percent(batches.padding_fraction)} of the slots "
            f"padding. With reference {reference} and rule {rule} the rate is {min(rates):.2f} to {max(rates):.2f} "
            "thousandths."
        )


def _rules_lose(ended: dict[str, np.ndarray]) -> str:
    """By how much each rule is above none in ascending order, and a possible reason."""
    less = " and ".join(
        f"{interval(ended[f'ascending, {rule}'] - ended['ascending, none'])} with {rule}"
        for rule in RATE_RULES
        if rule != "none"
    )
    return (
        f"The loss less that of none is {less}. A possible reason: a budget of tokens gives every update about as many "
        "bytes. One of many short functions has hardly less noise than one of few long ones, and needs no other rate."
    )


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "rarity": lambda before, after: compare(after, before, "fall", "stay", "rise", within=0.1),
        "saved": lambda share: round(100 * share, 1),
        "padding": lambda mixed, ordered: round(100 * mixed.padding_fraction, 1),
        "best_rate": lambda best: best["0.3, truncated"],
        "rule": lambda ended: min(RATE_RULES, key=lambda rule: ended[f"ascending, {rule}"].mean()),
        "shapes": lambda cost: round(100 * cost["random"], 1),
        "fewest": lambda slots: min(slots, key=slots.get),
    },
    reasons={
        "fair": lambda share: (
            f"After as many updates, or rows, the run with the warm-up has seen {percent(share, 0)} of the tokens. Li "
            "and others stop both runs after as many tokens, and let the rate fall by tokens too."
        ),
        "rule": _rules_lose,
        "padding": lambda mixed, ordered: (
            "The longest sample of a batch sets the width of all. Sorted, neighbors are about as long as each other, "
            f"and {percent(ordered.padding_fraction)} of the slots are padding."
        ),
        "shapes": lambda cost: (
            f"In ascending order it is {percent(cost['ascending'])}, because neighbors are alike anyway."
        ),
        "fewest": lambda slots: "Slots: " + ", ".join(f"{how} {number:,}" for how, number in slots.items()) + ".",
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises


def cut_by_tokens(lengths, budget):
    """Lists of lengths, in order, each as long as the budget allows. No length is above the budget."""
    batches = []
    for length in lengths:
        if not batches or sum(batches[-1]) + length > budget:
            batches.append([])
        batches[-1].append(length)
    return batches


def update_rates(sizes, ranks, accumulation, reference, rate):
    """The linear rate of each update; `sizes` are the samples of all micro-batches in turn."""
    every = ranks * accumulation
    return [rate * sum(sizes[i : i + every]) / reference for i in range(0, len(sizes), every)]


def length_due(done, total, duration, lengths):
    """The length when `done` of `total` updates are over: all but the last share the warm-up equally."""
    warmup = round(duration * total)
    if done >= warmup:
        return lengths[-1]
    return lengths[(len(lengths) - 1) * done // warmup]


def pipeline_updates(lengths, budget):
    """From long to short: the first is the widest, so as many rows as it allows; dealt to four in turn."""
    ids, updates = sorted(range(len(lengths)), key=lambda i: -lengths[i]), []
    while ids:
        rows = min(budget // lengths[ids[0]], len(ids) // 4)
        part, ids = ids[: 4 * rows], ids[4 * rows :]
        updates.append([part[i::4] for i in range(4)])
    return updates


def _pipeline_fault(got, lengths, budget):
    used = sorted(i for update in got for part in update for i in part)
    if used != list(range(len(lengths))):
        return "each sample must be there exactly once."
    slots = 0
    for number, update in enumerate(got, 1):
        rows = {len(part) for part in update}
        if len(update) != 4 or len(rows) != 1:
            return f"update {number} must have four micro-batches with as many rows each."
        size = rows.pop() * max(lengths[i] for part in update for i in part)
        if size > budget:
            return f"the micro-batches of update {number} have {size} slots; the budget is {budget}."
        slots += 4 * size
    enough = math.ceil(sum(lengths) / (4 * budget))
    if len(got) > enough:
        return f"it makes {len(got)} updates, and {enough} have room for all samples."
    padding = 1 - sum(lengths) / slots
    return f"{percent(padding)} of the slots are padding; 20 % are allowed." if padding > 0.2 else None


_PUBLIC = list(range(8, 1025, 8))  # the lengths of the public warm-up
check = Exercises.beside(
    __file__,
    cut_by_tokens,
    update_rates,
    Exercise(
        "length_due",
        length_due,
        cases=(
            (0, 10, 0.0, [8, 16]),
            (0, 10, 0.5, [8, 16]),
            (5, 10, 0.5, [8, 16]),
            (4, 10, 0.5, [8, 16, 24]),
            *((done, 100, 0.3, _PUBLIC) for done in (0, 1, 29, 30)),
            *((done, 1000, 0.3, _PUBLIC) for done in (0, 2, 3, 253, 254, 299, 300, 999)),
            *((done, 99, 0.3, _PUBLIC) for done in (15, 29, 30)),  # 0.3 × 99 is not whole
        ),
    ),
    Exercise("pipeline_updates", pipeline_updates, fault=_pipeline_fault),
)
