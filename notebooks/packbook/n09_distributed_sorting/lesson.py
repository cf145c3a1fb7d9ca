"""The explorer and the questions of notebook 09."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, styled
from packbook.n09_distributed_sorting.figures import COUNTED, PLAIN
from packbook.n09_distributed_sorting.runs import plain_loads
from packbook.questions import Questions
from packbook.shared.histograms import sample_lengths, shown_name
from packlib.distributed import load_imbalance
from packlib.lengths import LengthHistogram, load


class BucketExplorer(Explorer):
    """Show how many rows each rank ends with when ranks sort by splitters from samples, and by counted cuts.

    Args:
        dataset: whose lengths can be drawn from.
        own: lengths of the reader's own to draw from; one that comes twice is drawn twice as often.
    """

    title = "How many rows does each rank end with?"
    shown_controls = ("offers", "ranks")
    columns = 2
    most = 64  # ranks

    def __init__(self, dataset: str = "wikipedia", own: Sequence[int] = (5, 5, 5, 1)):
        histogram = load(dataset)
        own_histogram = LengthHistogram.from_lengths(own)
        self.sets = {"made up, a pile at 512": None, "your own": own_histogram, shown_name(histogram): histogram}
        super().__init__()

    def controls(self):
        return {
            "lengths": choice("Lengths", self.sets, "made up, a pile at 512"),
            "skew": slider("Piled up, %", 0, 90, value=25, step=5),
            "ranks": choice("Ranks", [2, 4, 8, 16, 32, 64], 8),
            "each": choice("Samples a rank", [16, 64, 256, 1024], 1024),
            "offers": choice("Lengths offered", [1, 4, 16, 100], 100),
        }

    @styled()
    def draw(self, lengths, skew, ranks, each, offers) -> tuple[Figure, str]:
        rng, histogram = np.random.default_rng(0), self.sets[lengths]
        if histogram is None:
            drawn, longest = rng.integers(1, 513, (self.most, each)), 512  # lengths, shape (ranks, samples)
        else:
            drawn, longest = sample_lengths(histogram, (self.most, each), 0), histogram.max_length
        drawn[rng.random(drawn.shape) < skew / 100] = longest
        samples = f"{lengths}, {skew} % of them set to length {longest}"
        numbers_of_ranks = [2**k for k in range(1, 7)]
        possible_offers = min(offers, each)
        loads = plain_loads(drawn[:ranks], possible_offers)
        imbalances = [load_imbalance(plain_loads(drawn[:number], possible_offers)) for number in numbers_of_ranks]
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        left.bar(range(ranks), loads / each, color=PLAIN["color"], label="splitters from samples")
        left.axhline(1, **{**COUNTED, "marker": ""}, label="counted cuts")
        left.set_xlabel(f"rank; {possible_offers} of {offers} lengths offered, {skew} % piled up")
        left.set(ylabel="rows; 1 is a fair share", ylim=(0, ranks))
        left.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
        left.legend(loc="upper left")
        right.loglog(numbers_of_ranks, imbalances, **PLAIN)
        right.loglog(numbers_of_ranks, np.ones(len(numbers_of_ranks)), **COUNTED)
        right.axvline(ranks, color="#999999", linestyle=":", zorder=0)
        right.set(xlabel="ranks", ylabel="imbalance", ylim=(0.8, 80))
        right.set_xticks(numbers_of_ranks, numbers_of_ranks)
        right.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        right.minorticks_off()
        imbalance = load_imbalance(loads)
        title = f"{loads.max():,} rows on one rank, {loads.min():,} on another: imbalance {imbalance:.2f}"
        fig.suptitle(title, fontsize=15)
        return fig, (
            f"{ranks} ranks with {each:,} samples each, {samples}; a rank offers "
            f"{possible_offers} length{'s' * (possible_offers > 1)}. The fullest rank ends with {loads.max():,} rows, "
            f"the emptiest with {loads.min():,}: imbalance {imbalance:.2f}. With counted cuts all have {each:,}."
        )


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
