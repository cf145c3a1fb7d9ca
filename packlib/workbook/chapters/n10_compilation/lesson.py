"""Notebook 10: graphs for few shapes."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.workbook.chapters.n10_compilation.buckets import Buckets, choose_buckets, waste_curve
from packlib.workbook.chapters.n10_compilation.figures import LOOKS, draw_padding
from packlib.workbook.chapters.n10_compilation.runs import meets_new, onset
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, new_figure, percent, series
from packlib.workbook.questions import Questions


class ShapesExplorer(Explorer):
    """How many lengths, and which, against padding and an estimate of the time to compile; packs beside them."""

    title = "How many shapes, for how much padding?"
    telling = ("buckets", "method")
    most = 32

    def __init__(self, dataset: str = "wikipedia", seconds: float = 10.0, own: Sequence[int] = (64, 128, 256)) -> None:
        """`seconds` to compile one graph; `own` lengths to pad to, to which the longest is added."""
        self.own = sorted(set(map(int, own)))
        if not self.own or self.own[0] < 1:
            raise ValueError(f"own must be whole numbers from 1, not {own!r}.")
        names = dict.fromkeys((dataset, "wikipedia", "squad", "wordnet-pairs", "docstrings"))
        self.histograms = {load(name).name: load(name) for name in names}
        self.first, self.seconds = load(dataset).name, seconds
        plans = {name: plan(histogram, method="lpfhp") for name, histogram in self.histograms.items()}
        self.packed = {name: 1 - made.efficiency for name, made in plans.items()}
        self.curves = cache(self._curves)  # a move of another control repeats them
        super().__init__()

    def controls(self):
        return {
            "buckets": slider("Number of lengths", 1, self.most, value=4),
            "method": choice("How they are chosen", [(look.name, way) for way, look in LOOKS.items()], "optimal"),
            "multiple": choice("Multiple of", [1, 8, 16, 32], 8),
            "dataset": choice("Data set", list(self.histograms), self.first),
        }

    def _curves(self, dataset: str, multiple: int) -> dict[str, list[tuple[int, float]]]:
        """For each way to choose lengths, by how many were asked for: how many there are, and the padding in percent.

        Rounding to a multiple makes some of them equal, so there can be fewer than were asked for.
        """
        histogram = self.histograms[dataset]
        best = waste_curve(histogram, self.most, multiple)
        found = {"optimal": list(enumerate((100 * best).tolist(), 1))}
        for method in list(LOOKS)[1:]:
            made = (choose_buckets(histogram, k, multiple, method) for k in range(1, len(best) + 1))
            found[method] = [(len(buckets.lengths), 100 * buckets.padding_fraction) for buckets in made]
        return found

    def react(self, name):
        if name in ("multiple", "dataset"):
            values = {key: control.value for key, control in self.widgets.items()}
            self.widgets["buckets"].max = len(self.curves(values["dataset"], values["multiple"])["optimal"])

    def draw(self, buckets, method, multiple, dataset) -> tuple[Figure, str]:
        histogram, curves = self.histograms[dataset], self.curves(dataset, multiple)
        chosen = choose_buckets(histogram, buckets, multiple, method)
        fig, (left, right) = new_figure(1, 2)
        lines = {}
        for way, look in LOOKS.items():
            style = {**look.style, "marker": "", "linewidth": 3 if way == method else 1.2}
            lines[left.plot(*zip(*curves[way], strict=True), **style)[0]] = look.name
        left.plot(*curves[method][buckets - 1], **LOOKS[method].style, markersize=11)
        typed = padded_to(histogram, self.own)
        left.plot(len(typed.lengths), 100 * typed.padding_fraction, color=INK, marker="*", markersize=13, linestyle="")
        left.annotate("yours", (len(typed.lengths), 100 * typed.padding_fraction), (9, 5), textcoords="offset points")
        left.plot(1, 100 * self.packed[dataset], **series("packed"), clip_on=False)
        left.annotate("packed", (1, 100 * self.packed[dataset]), (9, 5), textcoords="offset points")
        top = 105 * max(one.padding_fraction for one in self.histograms.values())  # with one shape, of any data set
        left.set(xlabel="shapes", ylabel="padding, %", xlim=(0, self.most + 1), ylim=(0, top))
        left.legend(lines, lines.values(), loc="upper right")
        shapes = len(chosen.lengths)
        seconds = round(shapes * self.seconds)
        above = left.secondary_xaxis("top", functions=(lambda k: k * self.seconds, lambda s: s / self.seconds))
        above.set_xlabel("seconds to compile (estimate)", fontsize=11)
        draw_padding(right, histogram, chosen)
        right.set(xlabel=f"length in {dataset}, tokens", ylabel="slots: tokens, padding in gray", yticks=[])
        right.set_title(f"{shapes} shape{'s' * (shapes > 1)}: {percent(chosen.padding_fraction)} padding", fontsize=13)
        return fig, (
            f"{dataset} ({histogram.kind}), {buckets} lengths asked for, multiples of {multiple}, chosen as "
            f"{LOOKS[method].name}: {shapes} shapes {', '.join(map(str, chosen.lengths))}; "
            f"{percent(chosen.padding_fraction, 2)} padding, about {seconds} s to compile. "
            f"Lengths of your own, {', '.join(map(str, typed.lengths))}: {percent(typed.padding_fraction, 2)} padding. "
            f"Packed: 1 shape, {percent(self.packed[dataset], 2)} padding."
        )


def padded_to(histogram: LengthHistogram, lengths: Sequence[int]) -> Buckets:
    """What these lengths cost; the longest of the data is added, and longer ones are left out."""
    top = histogram.max_length
    edges = (*(length for length in lengths if length < top), top)
    used = np.flatnonzero(histogram.counts)
    slots = int(histogram.counts[used] @ np.array(edges)[np.searchsorted(edges, used)])
    return Buckets(edges, histogram.num_tokens, slots, "own", histogram.name)


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "static_graphs": lambda graphs: graphs,
        "automatic": lambda graphs: graphs,
        "limit": lambda ran: len(set(ran)),
        "padding": lambda best, one: 100 * best,
        "stalls": lambda met: int(met.any(axis=0).sum()),
        "ranks": lambda milliseconds: min(milliseconds, key=milliseconds.get),
        "packed_graphs": lambda graphs: "one" if graphs == 1 else "three" if graphs == 3 else "more than three",
        "epochs": lambda seconds, gain: float(f"{seconds / gain:.1g}"),
    },
    reasons={
        "padding": lambda best, one: (
            f"With one length it would be {percent(one)}. Each bucket pads only up to its own length."
        ),
        "stalls": lambda met: (
            f"Each rank compiles {int(met[0].sum())} times, but not in the same steps, and in each of those steps all "
            "others wait."
        ),
        "ranks": lambda milliseconds: (
            f"The medians are {'; '.join(f'{run} {ms:.0f} ms' for run, ms in milliseconds.items())}. It is one "
            "recording, on two ranks that share two cores."
        ),
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises


def padded_slots(lengths, edges):
    """Slots of all rows; a row is as long as the first edge that its sequence fits into."""
    return sum(min(edge for edge in edges if edge >= length) for length in lengths)


def best_edges(lengths, k):
    """k different edges with the least slots: the dynamic program, which keeps the edges beside the slots."""
    edges = sorted(set(lengths))
    below = [0, *(sum(length <= edge for length in lengths) for edge in edges)]
    best = {j: (edge * below[j + 1], [edge]) for j, edge in enumerate(edges)}  # one bucket up to edge j
    for _ in range(k - 1):
        best = {
            j: min(
                (slots + edges[j] * (below[j + 1] - below[i + 1]), [*chosen, edges[j]])
                for i, (slots, chosen) in best.items()
                if i < j
            )
            for j in best
            if j > min(best)
        }
    return best[len(edges) - 1][1]


def _edges_fault(got, lengths, k):
    if len(set(got)) != k:
        return f"there must be {k} different edges."
    if max(got) < max(lengths):
        return f"a sequence of {max(lengths)} tokens fits into none."
    slots, least = padded_slots(lengths, got), padded_slots(lengths, best_edges(lengths, k))
    return f"that makes {slots} slots; {least} are possible." if slots > least else None


def warm_order(lengths, ranks):
    """Rounds first, in each of which every rank gets the same length, longest first; the rest as it was."""
    padded = list(lengths)
    kept = sorted(set(lengths))
    for length, longer in pairwise(kept):
        if padded.count(length) < ranks:
            padded = [longer if other == length else other for other in padded]
    return [(i, padded[i]) for i in onset(padded, ranks)]


def _without_padding(lengths, ranks):
    """The onset of the notebook, which leaves lengths with few batches as they are."""
    return [(i, lengths[i]) for i in onset(lengths, ranks)]


def _order_fault(got, lengths, ranks):
    order, padded = [i for i, _ in got], [length for _, length in got]
    if sorted(order) != list(range(len(lengths))):
        return "each batch must be there exactly once."
    if any(length < lengths[i] or length not in lengths for i, length in got):
        return "each batch must be padded to its own length or to a longer one of those given."
    least = sum(length for _, length in warm_order(lengths, ranks))
    stalls, fewest = int(meets_new(padded, ranks).any(axis=0).sum()), len(set(padded))
    if stalls > fewest:
        return f"some rank compiles in {stalls} of the steps; with these lengths {fewest} are possible."
    for number, at in enumerate(range(0, ranks * fewest, ranks), 1):
        if len(here := set(padded[at : at + ranks])) > 1:
            return (
                f"in step {number} the ranks have batches of {', '.join(map(str, sorted(here)))}, not of one length."
            )
    if sum(padded) > least:
        return f"the batches have {sum(padded)} slots a row in all; {least} are enough."
    if min(padded[:ranks]) < max(lengths):
        return "memory must be found first: every rank begins with the longest."
    late = [i for i in range(ranks * fewest, len(got) - 1) if order[i] > order[i + 1]]
    return "after the onset the batches must keep their order." if late else None


_MANY = [7 * i % 97 + i % 5 + 1 for i in range(120)]  # of far more choices than can be tried
_LENGTHS = (3, 5, 5, 6, 9, 10, 17, 18, 18, 24, 40, 41, 64)
EXERCISES = Exercises.beside(
    __file__,
    Exercise(
        "padded_slots",
        padded_slots,
        wrong={
            "a length that fits exactly goes one further": lambda lengths, edges: sum(
                min((edge for edge in edges if edge > length), default=edges[-1]) for length in lengths
            ),
            "counts only the padding": lambda lengths, edges: padded_slots(lengths, edges) - sum(lengths),
            "all to the longest": lambda lengths, edges: len(lengths) * edges[-1],
        },
    ),
    Exercise(
        "warm_order",
        warm_order,
        wrong={
            "as they come": lambda lengths, ranks: list(enumerate(lengths)),
            "the onset above, without padding": _without_padding,
            "all to the longest": lambda lengths, ranks: [(i, max(lengths)) for i in range(len(lengths))],
            "pads only its own, and not what was padded to it": lambda lengths, ranks: [
                (i, min((n for n in lengths if n >= length and lengths.count(n) >= ranks), default=max(lengths)))
                for i, length in _without_padding(lengths, ranks)
            ],
            "one of each at the start": lambda lengths, ranks: warm_order(lengths, 1),
            "shortest first": lambda lengths, ranks: sorted(warm_order(lengths, ranks), key=lambda pair: pair[1]),
        },
        fault=_order_fault,
    ),
    Exercise(
        "best_edges",
        best_edges,
        cases=(
            ([7], 1),
            ([1, 2, 9], 2),
            ([2, 2, 2, 8, 9], 2),
            ([1, 5, 6, 7, 20], 3),
            (list(_LENGTHS), 4),
            (_MANY, 12),
        ),
        wrong={
            "equal steps": lambda lengths, k: [-(-max(lengths) * i // k) for i in range(1, k + 1)],
            "as many sequences in each": lambda lengths, k: [
                sorted(lengths)[-(-len(lengths) * i // k) - 1] for i in range(1, k + 1)
            ],
            "the most frequent lengths": lambda lengths, k: sorted(
                sorted(set(lengths), key=lambda length: -lengths.count(length))[:k]
            ),
        },
        fault=_edges_fault,
    ),
)
check = EXERCISES
