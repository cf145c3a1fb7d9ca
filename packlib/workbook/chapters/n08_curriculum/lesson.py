"""Notebook 08: lengths that grow, batches of as many tokens, and rates that follow the batch."""

from matplotlib.figure import Figure

from packlib.batches import batch_by_tokens, scale_learning_rate
from packlib.batches.token_budget import ORDERS
from packlib.batches.variable_rate import RATE_RULES
from packlib.lengths import load
from packlib.workbook.chapters.n08_curriculum.figures import LOOKS, draw_batches
from packlib.workbook.chapters.shared.histograms import sample_lengths
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure, percent

# Figures


class BudgetExplorer(Explorer):
    """Budget, order and rule against the batches and the rate of each."""

    title = "What do batches of equally many tokens look like?"

    def __init__(self, dataset: str = "wordnet-pairs", seed: int = 0) -> None:
        self.lengths = sample_lengths(load(dataset, 128, overlong="truncate"), 160, seed)
        super().__init__()

    def controls(self):
        return {
            "budget": slider("Tokens a batch", 128, 1024, value=384, step=64),
            "order": choice("Order", ORDERS, "random"),
            "rule": choice("Rule for the rate", list(RATE_RULES), "linear"),
        }

    def draw(self, budget, order, rule) -> tuple[Figure, str]:
        batches = batch_by_tokens(self.lengths, budget, order=order)
        sizes, reference = batches.sizes, round(float(batches.sizes.mean()))
        rates = [1000 * scale_learning_rate(1e-3, size, reference, rule) for size in sizes.tolist()]
        fig, (above, below) = new_figure(2, 1, height_ratios=(5, 2), sharex=True)
        draw_batches(above, batches, self.lengths, budget)
        above.set(ylabel="tokens", title=f"{len(batches)} batches, {percent(batches.padding_fraction)} padding")
        below.plot(rates, **{**LOOKS[rule], "marker": ""})
        below.set(ylabel="rate, 10⁻³", xlabel="batch", ylim=(0, None))
        return fig, (
            f"{len(self.lengths)} samples, {order} order, at most {budget} tokens a batch: {len(batches)} batches of "
            f"{sizes.min()} to {sizes.max()} samples, {percent(batches.padding_fraction)} of the slots padding. "
            f"With reference {reference} and rule {rule} the rate is {min(rates):.2f} to {max(rates):.2f} thousandths."
        )  # fmt: skip


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


def _without_the_last(lengths, budget):
    return cut_by_tokens(lengths, budget)[:-1]


def pipeline_updates(lengths, budget):
    """From long to short: the first is the widest, so as many rows as it allows; dealt to four in turn."""
    ids, updates = sorted(range(len(lengths)), key=lambda i: -lengths[i]), []
    while ids:
        rows = min(budget // lengths[ids[0]], len(ids) // 4)
        part, ids = ids[: 4 * rows], ids[4 * rows :]
        updates.append([part[i::4] for i in range(4)])
    return updates


def _small_and_in_order(lengths, budget):
    """Each update has four micro-batches of one row: always right in shape, and full of padding."""
    return [[[i + j] for j in range(4)] for i in range(0, len(lengths), 4)]


def _different_shapes(lengths, budget):
    ids = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [
        [ids[i : i + 1], ids[i + 1 : i + 2], ids[i + 2 : i + 3], ids[i + 3 : i + 8]] for i in range(0, len(ids), 8)
    ]


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
    padding = 1 - sum(lengths) / slots
    return f"{percent(padding)} of the slots are padding; 20 % are allowed." if padding > 0.2 else None


_REAL = (23, 31, 58, 17, 40, 26, 22, 35, 64, 19, 28, 45, 30, 21, 37, 25)  # lengths of sentence pairs
EXERCISES = Exercises([
    Exercise(
        "cut_by_tokens", cut_by_tokens,
        cases=(([5], 5), ([2, 3], 5), ([3, 3], 5), ([1, 1, 4, 5, 2, 3], 5), (list(_REAL), 128)),
        wrong={
            "loses the last batch": _without_the_last,
            "stays below the budget": lambda lengths, budget: cut_by_tokens(lengths, budget - 1),
            "counts samples": lambda lengths, budget: [lengths[i : i + 2] for i in range(0, len(lengths), 2)],
        },
        hint="begin a batch only where the next length does not fit into the last one.",
    ),
    Exercise(
        "update_rates", update_rates,
        cases=(
            ([2], 1, 1, 2, 1e-3), ([10, 4], 1, 1, 2, 1e-3), ([3, 5, 4, 2], 2, 1, 8, 1e-3),
            ([3, 5, 4, 2, 9, 1, 1, 1], 2, 2, 8, 0.5),
        ),
        wrong={
            "a rate for each micro-batch": lambda sizes, ranks, accumulation, reference, rate: [
                rate * size / reference for size in sizes],
            "forgets the ranks": lambda sizes, ranks, accumulation, reference, rate: update_rates(
                sizes, 1, accumulation, reference, rate),
            "the mean of the micro-batches": lambda sizes, ranks, accumulation, reference, rate: [
                r / (ranks * accumulation) for r in update_rates(sizes, ranks, accumulation, reference, rate)],
        },
        hint="an update is ranks × accumulation micro-batches; all their samples count.",
    ),
    Exercise(
        "pipeline_updates", pipeline_updates,
        cases=(([7, 7, 7, 7], 7), ([10, 30, 11, 31, 10, 30, 12, 31], 40), (list(_REAL) * 4, 256)),
        fault=_pipeline_fault,
        wrong={"data set order, one row each": _small_and_in_order, "different shapes": _different_shapes,
               "loses the last update": lambda lengths, budget: pipeline_updates(lengths, budget)[:-1]},
        hint="neighbors in sorted order have about one length.",
    ),
])  # fmt: skip
check = EXERCISES
