"""Notebook 10: graphs for few shapes."""

from itertools import combinations

from matplotlib.figure import Figure

from packlib.lengths import load
from packlib.packing import plan
from packlib.training.scaling import choose_buckets, waste_curve
from packlib.workbook.chapters.n10_compilation.figures import LOOKS, draw_padding
from packlib.workbook.chapters.n10_compilation.runs import meets_new
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure, percent, series


class ShapesExplorer(Explorer):
    """How many lengths, and which, against padding and an estimate of the time to compile; packs beside them."""

    title = "How many shapes, for how much padding?"
    most = 32

    def __init__(self, dataset: str = "wikipedia", seconds: float = 10.0) -> None:
        """`seconds` to compile one graph."""
        names = dict.fromkeys((dataset, "wikipedia", "squad", "wordnet-pairs", "docstrings"))
        self.histograms = {load(name).name: load(name) for name in names}
        self.first, self.seconds = load(dataset).name, seconds
        plans = {name: plan(histogram, "lpfhp") for name, histogram in self.histograms.items()}
        self.packed = {name: 1 - made.efficiency for name, made in plans.items()}
        self._curves: dict[tuple, dict[str, list[float]]] = {}
        super().__init__()

    def controls(self):
        return {
            "buckets": slider("Number of lengths", 1, self.most, value=4),
            "method": choice("How they are chosen", [(look.name, way) for way, look in LOOKS.items()], "optimal"),
            "multiple": choice("Multiple of", [1, 8, 16, 32], 8),
            "dataset": choice("Data set", list(self.histograms), self.first),
        }

    def curves(self, dataset: str, multiple: int) -> dict[str, list[float]]:
        """Padding in percent by the number of lengths, for each way to choose them; made once."""
        if (dataset, multiple) not in self._curves:
            histogram = self.histograms[dataset]
            best = waste_curve(histogram, self.most, multiple)
            found = {"optimal": (100 * best).tolist()}
            for method in list(LOOKS)[1:]:
                all_k = range(1, len(best) + 1)
                made = (choose_buckets(histogram, k, multiple, method) for k in all_k)
                found[method] = [100 * buckets.padding_fraction for buckets in made]
            self._curves[dataset, multiple] = found
        return self._curves[dataset, multiple]

    def react(self, name):
        if name in ("multiple", "dataset"):
            values = {key: control.value for key, control in self.widgets.items()}
            self.widgets["buckets"].max = len(self.curves(values["dataset"], values["multiple"])["optimal"])

    def draw(self, buckets, method, multiple, dataset) -> tuple[Figure, str]:
        histogram, curves = self.histograms[dataset], self.curves(dataset, multiple)
        chosen = choose_buckets(histogram, buckets, multiple, method)
        fig, (left, right) = new_figure(1, 2)
        lines, number = {}, len(curves["optimal"])
        for way, look in LOOKS.items():
            style = {**look.style, "marker": "", "linewidth": 3 if way == method else 1.2}
            lines[left.plot(range(1, number + 1), curves[way], **style)[0]] = look.name
        left.plot(buckets, curves[method][buckets - 1], **LOOKS[method].style, markersize=11)
        left.plot(1, 100 * self.packed[dataset], **series("packed"), clip_on=False)
        left.annotate("packed", (1, 100 * self.packed[dataset]), (9, 5), textcoords="offset points")
        left.set(xlabel="number of lengths asked for", ylabel="padding, %", ylim=(0, None))
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
            f"Packed: 1 shape, {percent(self.packed[dataset], 2)} padding."
        )


# Exercises


def padded_slots(lengths, edges):
    """Slots of all rows; a row is as long as the first edge that its sequence fits into."""
    return sum(min(edge for edge in edges if edge >= length) for length in lengths)


def best_edges(lengths, k):
    """The edges that give the least slots: each is a length that there is, and the longest is one of them."""
    used = sorted(set(lengths))
    choices = [(*few, used[-1]) for few in combinations(used[:-1], k - 1)]
    return list(min(choices, key=lambda edges: padded_slots(lengths, edges)))


def _edges_fault(got, lengths, k):
    if len(set(got)) != k:
        return f"there must be {k} different edges."
    if max(got) < max(lengths):
        return f"a sequence of {max(lengths)} tokens fits into none."
    slots, least = padded_slots(lengths, got), padded_slots(lengths, best_edges(lengths, k))
    return f"that makes {slots} slots; {least} are possible." if slots > least else None


def warm_order(lengths, ranks):
    """Rounds first, in each of which every rank gets the same length, longest first; the rest as it was."""
    onset = []
    for length in sorted(set(lengths), reverse=True):
        onset += [i for i, other in enumerate(lengths) if other == length][:ranks]
    return onset + [i for i in range(len(lengths)) if i not in onset]


def _order_fault(got, lengths, ranks):
    if sorted(got) != list(range(len(lengths))):
        return "each batch must be there exactly once."
    ordered = [lengths[i] for i in got]
    stalls, fewest = int(meets_new(ordered, ranks).any(axis=0).sum()), len(set(lengths))
    if stalls > fewest:
        return f"some rank compiles in {stalls} of the steps; {fewest} are possible."
    if min(ordered[:ranks]) < max(lengths):
        return "memory must be found first: every rank begins with the longest."
    late = [i for i in range(ranks * fewest, len(got) - 1) if got[i] > got[i + 1]]
    return "after the onset the batches must keep their order." if late else None


_LENGTHS = (3, 5, 5, 6, 9, 10, 17, 18, 18, 24, 40, 41, 64)
EXERCISES = Exercises([
    Exercise(
        "padded_slots", padded_slots,
        cases=(([3], [4]), ([4], [4, 8]), ([3, 5, 9], [4, 16]), ([5, 1, 8, 16, 9], [8, 12, 16]),
               (list(_LENGTHS), [8, 24, 64])),
        wrong={
            "a length that fits exactly goes one further": lambda lengths, edges: sum(
                min((edge for edge in edges if edge > length), default=edges[-1]) for length in lengths),
            "counts only the padding": lambda lengths, edges: padded_slots(lengths, edges) - sum(lengths),
            "all to the longest": lambda lengths, edges: len(lengths) * edges[-1],
        },
        hint="a sequence goes to the first edge that is not shorter than it is.",
    ),
    Exercise(
        "best_edges", best_edges,
        cases=(([7], 1), ([1, 2, 9], 2), ([2, 2, 2, 8, 9], 2), ([1, 5, 6, 7, 20], 3), (list(_LENGTHS), 4)),
        fault=_edges_fault,
        wrong={
            "equal steps": lambda lengths, k: [-(-max(lengths) * i // k) for i in range(1, k + 1)],
            "as many sequences in each": lambda lengths, k: [
                sorted(lengths)[-(-len(lengths) * i // k) - 1] for i in range(1, k + 1)],
            "the most frequent lengths": lambda lengths, k: sorted(
                sorted(set(lengths), key=lambda length: -lengths.count(length))[:k]),
        },
        hint="for few lengths you can try all; only a length that there is can be an edge of the best choice.",
    ),
    Exercise(
        "warm_order", warm_order,
        cases=(([8], 1), ([8, 16], 1), ([8, 8, 16, 16], 2), ([8, 16, 8, 24, 16, 24, 8, 8, 16], 2),
               ([24, 8, 8, 16, 8, 16, 24, 8, 24, 16, 8, 8], 3)),
        fault=_order_fault,
        wrong={
            "as they come": lambda lengths, ranks: list(range(len(lengths))),
            "sorted as a whole": lambda lengths, ranks: sorted(range(len(lengths)), key=lambda i: -lengths[i]),
            "one of each at the start": lambda lengths, ranks: warm_order(lengths, 1),
            "shortest first": lambda lengths, ranks: sorted(range(len(lengths)), key=lengths.__getitem__),
        },
        hint="take `ranks` batches of the longest length, then of the next; what is left follows as it was.",
    ),
])  # fmt: skip
check = EXERCISES
