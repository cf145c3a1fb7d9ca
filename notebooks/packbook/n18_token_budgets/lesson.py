"""The explorer and the questions of notebook 18."""

from collections.abc import Sequence

from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, percent, styled
from packbook.n18_token_budgets.figures import LOOKS, draw_batches
from packbook.questions import Questions
from packbook.shared.histograms import sample_lengths, shown_name
from packbook.shared.spans import span
from packlib.batches import batch_by_tokens, scale_learning_rate
from packlib.batches.token_budget import ORDERS
from packlib.lengths import LengthHistogram, load


class BudgetExplorer(Explorer):
    """Show the batches that a token budget makes, and the learning rate of each under a rule.

    Args:
        dataset: from which 160 lengths are drawn at random.
        own: lengths of the reader's own.
    """

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
            "order": choice(
                "Order", [("as in the data" if name == "dataset" else name, name) for name in ORDERS], "random"
            ),
            "rule": choice(
                "Rule for the rate", [("linear", "linear"), ("square root", "sqrt"), ("none", "none")], "linear"
            ),
        }

    @styled()
    def draw(self, mine, budget, order, rule) -> tuple[Figure, str]:
        lengths = "your own" if mine else self.name
        samples = self.own if mine else self.samples
        batches = batch_by_tokens(samples, budget, order=order)
        sizes = batches.sizes  # samples of each batch
        reference = max(1, round(float(sizes.mean())))
        rates = [1000 * scale_learning_rate(1e-3, size, reference, rule) for size in sizes.tolist()]  # thousandths
        num_batches = f"{len(batches):,} batch{'es' * (len(batches) > 1)}"
        fig, (above, below) = new_figure(2, 1, height_ratios=(5, 2), sharex=True)
        draw_batches(above, batches, samples, budget)
        above.set(ylabel="tokens", title=f"{num_batches}, {percent(batches.padding_fraction)} padding")
        below.plot(rates, **LOOKS[rule], clip_on=False)
        below.set(ylabel="rate, 10⁻³", xlabel="batch", ylim=(0, None))
        return fig, (
            f"{len(samples):,} samples, {lengths}, {order} order, at most {budget:,} tokens a batch: {num_batches} "
            f"with {span(sizes)} samples each, {percent(batches.padding_fraction)} of the slots "
            f"padding. With reference {reference} and rule {rule} the rate is {span(rates, 2)} "
            "thousandths."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
