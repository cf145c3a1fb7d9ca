"""Notebook 09: sort and pack what no rank holds alone."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, percent
from packbook.n09_distributed_sorting.figures import COUNTED, PLAIN
from packbook.n09_distributed_sorting.runs import plain_loads
from packbook.questions import Questions
from packbook.shared.histograms import sample_lengths, shown_name
from packlib.distributed import load_imbalance
from packlib.lengths import LengthHistogram, load


class BucketExplorer(Explorer):
    """Ranks, samples and skew against the rows that each rank ends with.

    Args:
        own: lengths to draw from, as often as they come.
    """

    title = "How many rows does each rank end with?"
    shown_controls = ("offers", "ranks")
    columns = 2
    most = 64

    def __init__(self, dataset: str = "wikipedia", own: Sequence[int] = (5, 5, 5, 1)):
        histogram = load(dataset)
        typed = LengthHistogram.from_lengths(own)
        self.sets = {"made up, a pile at 512": None, "your own": typed, shown_name(histogram): histogram}
        super().__init__()

    def controls(self):
        return {
            "lengths": choice("Lengths", self.sets, "made up, a pile at 512"),
            "skew": slider("Piled up, %", 0, 90, value=25, step=5),
            "ranks": choice("Ranks", [2, 4, 8, 16, 32, 64], 8),
            "each": choice("Samples a rank", [16, 64, 256, 1024], 1024),
            "offers": choice("Lengths offered", [1, 4, 16, 100], 100),
        }

    def draw(self, lengths, skew, ranks, each, offers) -> tuple[Figure, str]:
        rng, histogram = np.random.default_rng(0), self.sets[lengths]
        if histogram is None:
            drawn, longest = rng.integers(1, 513, (self.most, each)), 512
        else:
            drawn, longest = sample_lengths(histogram, (self.most, each), 0), histogram.max_length
        drawn[rng.random(drawn.shape) < skew / 100] = longest
        said = f"{lengths}, {skew} % of them set to length {longest}"
        numbers, wanted, offers = [2**k for k in range(1, 7)], offers, min(offers, each)
        loads = plain_loads(drawn[:ranks], offers)
        curve = [load_imbalance(plain_loads(drawn[:p], offers)) for p in numbers]
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        left.bar(range(ranks), loads / each, color=PLAIN["color"], label="splitters from samples")
        left.axhline(1, **{**COUNTED, "marker": ""}, label="counted cuts")
        left.set_xlabel(f"rank; {offers} of {wanted} lengths offered, {skew} % piled up")
        left.set(ylabel="rows; 1 is a fair share", ylim=(0, ranks))
        left.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
        left.legend(loc="upper left")
        right.loglog(numbers, curve, **PLAIN)
        right.loglog(numbers, np.ones(6), **COUNTED)
        right.axvline(ranks, color="#999999", linestyle=":", zorder=0)
        right.set(xlabel="ranks", ylabel="imbalance", ylim=(0.8, 80))
        right.set_xticks(numbers, numbers)
        right.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        right.minorticks_off()
        uneven = load_imbalance(loads)
        title = f"{loads.max():,} rows on one rank, {loads.min():,} on another: imbalance {uneven:.2f}"
        fig.suptitle(title, fontsize=15)
        return fig, (
            f"{ranks} ranks with {each:,} samples each, {said}; a rank offers "
            f"{offers} length{'s' * (offers > 1)}. The fullest rank ends with {loads.max():,} rows, the emptiest with "
            f"{loads.min():,}: imbalance {uneven:.2f}. With counted cuts all have {each:,}."
        )


_MISSED = (0, "none"), (15, "about 15"), (30, "about 30")

QUESTIONS = Questions.beside(
    __file__,
    truths={
        "local_curriculum": lambda imbalance: round(imbalance, 2),
        "pile": lambda imbalance, spike, jump, ranks: round(imbalance, 2),
        "rounds": lambda rounds, low, high: int(high - low).bit_length(),
        "in_turn": lambda imbalance, ranks, longer: round(imbalance, 2),
        "seconds": lambda seconds: (
            "under a second" if seconds < 1 else "over an hour" if seconds > 3600 else "about a minute"
        ),
        "after_a_stop": lambda missed: min((abs(missed - about), said) for about, said in _MISSED)[1],
    },
    reasons={
        "pile": lambda imbalance, spike, jump, ranks: (
            f"All rows of length {spike} go to one rank: {percent(jump)} in place of {percent(1 / ranks)}."
            if jump > 1 / ranks
            else "The largest pile fits into one rank's fair share. The rest is the error of the samples."
        ),
        "rounds": lambda rounds, low, high: (
            f"Each round halves the lengths that are left. From {low} to {high} there are {high - low + 1}. At "
            f"this cut it took {rounds}."
        ),
        "in_turn": lambda imbalance, ranks, longer: (
            "The number of ranks is odd, so every rank is dealt short and long ones alike."
            if ranks % 2
            else "Some ranks are dealt the short samples and others the long ones, which have "
            f"{longer:.2f} times the average. Sorting within a rank cannot change that."
        ),
        "after_a_stop": lambda missed: (
            f"The new process shuffles as at its start, so it goes on in the order of the first epoch. {missed} of the "
            f"sequences in the rest of that order had come before the stop, and {missed} others never come."
            if missed
            else "The rest of the epoch comes in the order that it had before the stop."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def buckets(lengths, splitters):
    """How many of the lengths each rank gets. What equals a splitter goes behind it."""
    return [sum(sum(s <= x for s in splitters) == rank for x in lengths) for rank in range(len(splitters) + 1)]


def tie_cuts(ties, wanted):
    """`ties[r]` rows of rank r tie at a cut; how many of each go before it, `wanted` in all, in the order of ranks."""
    return [min(max(wanted - sum(ties[:rank]), 0), count) for rank, count in enumerate(ties)]


def uneven_fault(got):
    """Whether 16 lengths, none too often, make plain sample sort give one of 4 ranks at least 7."""
    if len(got) != 16 or any(isinstance(x, bool) or x != int(x) or x < 1 for x in got):
        return "it must be 16 whole numbers of at least 1."
    length, times = Counter(got).most_common(1)[0]
    if times > 4:
        return f"{length} comes {times} times; 4 times is a fair share, and all that is allowed."
    loads = plain_loads(np.array(got, np.int64).reshape(4, 4), samples=4)
    return None if loads.max() >= 7 else f"the ranks end with {', '.join(map(str, loads))} rows; one needs 7."


check = Exercises.beside(
    __file__,
    buckets,
    tie_cuts,
    Exercise("uneven", [1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5], fault=uneven_fault),
)
