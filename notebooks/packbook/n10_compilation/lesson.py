"""The explorer and the questions of notebook 10."""

from collections.abc import Sequence
from functools import cache

from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.figures import INK, new_figure, percent, series, styled
from packbook.n10_compilation.buckets import (
    Buckets,
    best_choices,
    choose_buckets,
    edges_and_counts,
    padded_to,
)
from packbook.n10_compilation.figures import LOOKS, draw_padding
from packbook.questions import Questions
from packlib.lengths import load
from packlib.packing import plan


class ShapesExplorer(Explorer):
    """Show padding and estimated time to compile for a choice of lengths, with packs for comparison."""

    title = "How many shapes, for how much padding?"
    shown_controls = ("buckets", "method")
    most = 32

    def __init__(self, dataset: str = "wikipedia", seconds: float = 10.0, own: Sequence[int] = (64, 128, 256)) -> None:
        """Explore a data set.

        Args:
            dataset: chosen at first.
            seconds: to compile one graph.
            own: lengths of the reader's own to pad to; the longest of the data is added.
        """
        self.own = sorted(set(map(int, own)))
        if not self.own or self.own[0] < 1:
            raise ValueError(f"own must be whole numbers from 1, not {own!r}.")
        names = dict.fromkeys((dataset, "wikipedia", "squad", "wordnet-pairs", "docstrings"))
        self.histograms = {load(name).name: load(name) for name in names}
        self.first, self.seconds = load(dataset).name, seconds
        plans = {name: plan(histogram, method="lpfhp") for name, histogram in self.histograms.items()}
        self.packed = {name: 1 - packing.efficiency for name, packing in plans.items()}  # share of padding
        self.own_buckets = {}
        for name, histogram in self.histograms.items():
            maximum = histogram.max_length
            shorter = [length for length in self.own if length < maximum]
            self.own_buckets[name] = padded_to(histogram, [*shorter, maximum])
        longest = max(histogram.max_length for histogram in self.histograms.values())
        self.least = -(-longest // 512)  # the finest multiple: the search takes too long for over 512 lengths
        self.curves = cache(self._curves)  # other controls do not change them
        super().__init__()

    def controls(self):
        multiple = 8 * self.least
        most = len(self.curves(self.first, multiple)["optimal"])  # fewer where the data have few lengths
        return {
            "buckets": slider("Number of lengths", 1, most, value=min(4, most)),
            "method": choice("How they are chosen", [(look.name, way) for way, look in LOOKS.items()], "optimal"),
            "multiple": choice("Multiple of", [self.least * times for times in (1, 8, 16, 32)], multiple),
            "dataset": choice("Data set", list(self.histograms), self.first),
        }

    def _curves(self, dataset: str, multiple: int) -> dict[str, list[Buckets]]:
        """Return, for each way to choose lengths, the buckets for 1, 2, … lengths.

        Rounding to a multiple can make some lengths equal, so buckets can have fewer of them.
        """
        histogram = self.histograms[dataset]
        best = best_choices(*edges_and_counts(histogram, multiple), self.most)
        curves = {"optimal": [padded_to(histogram, lengths) for lengths in best]}
        for method in list(LOOKS)[1:]:  # all others
            curves[method] = [choose_buckets(histogram, k, multiple, method) for k in range(1, len(best) + 1)]
        return curves

    def react(self, name):
        if name in ("multiple", "dataset"):
            values = {key: control.value for key, control in self.widgets.items()}
            self.widgets["buckets"].max = len(self.curves(values["dataset"], values["multiple"])["optimal"])

    @styled()
    def draw(self, buckets, method, multiple, dataset) -> tuple[Figure, str]:
        histogram, curves = self.histograms[dataset], self.curves(dataset, multiple)
        chosen, own = curves[method][buckets - 1], self.own_buckets[dataset]
        fig, (left, right) = new_figure(1, 2)
        name_by_line = {}
        for way, look in LOOKS.items():
            style = {**look.style, "marker": "", "linewidth": 3 if way == method else 1.2}
            shapes_and_padding = zip(*map(_point, curves[way]), strict=True)
            (line,) = left.plot(*shapes_and_padding, **style)
            name_by_line[line] = look.name
        left.plot(*_point(chosen), **LOOKS[method].style, markersize=11)
        left.plot(*_point(own), color=INK, marker="*", markersize=13, linestyle="")
        left.annotate("yours", _point(own), (9, 5), textcoords="offset points")
        left.plot(1, 100 * self.packed[dataset], **series("packed"), clip_on=False)
        left.annotate("packed", (1, 100 * self.packed[dataset]), (9, 5), textcoords="offset points")
        # the most padding, with one shape, of any data set, and a margin
        top = 105 * max(histogram.padding_fraction for histogram in self.histograms.values())
        left.set(xlabel="shapes", ylabel="padding, %", xlim=(0, self.most + 1), ylim=(0, top))
        left.legend(name_by_line, name_by_line.values(), loc="upper right")
        shapes = len(chosen.lengths)
        seconds = round(shapes * self.seconds)
        above = left.secondary_xaxis("top", functions=(lambda k: k * self.seconds, lambda s: s / self.seconds))
        above.set_xlabel("seconds to compile (estimate)", fontsize=11)
        draw_padding(right, histogram, chosen)
        right.set(xlabel=f"length in {dataset}, tokens", ylabel="slots: tokens, padding in gray", yticks=[])
        right.set_title(f"{shapes} shape{'s' * (shapes > 1)}: {percent(chosen.padding_fraction)} padding", fontsize=13)
        return fig, (
            f"{dataset} ({histogram.kind}), lengths asked for: {buckets}, multiples of {multiple}, chosen as "
            f"{LOOKS[method].name}: shapes {', '.join(map(str, chosen.lengths))}; "
            f"{percent(chosen.padding_fraction, 2)} padding, about {seconds} s to compile. "
            f"Lengths of your own, {', '.join(map(str, own.lengths))}: {percent(own.padding_fraction, 2)} padding. "
            f"Packed: 1 shape, {percent(self.packed[dataset], 2)} padding."
        )


def _point(buckets: Buckets) -> tuple[int, float]:
    """Return the position of buckets in the picture: shapes, and padding in percent."""
    return len(buckets.lengths), 100 * buckets.padding_fraction


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
