"""The explorer and the questions of notebook 04."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice
from packbook.figures import new_figure, percent, series, styled
from packbook.questions import Questions
from packbook.shared.above import draw_above
from packbook.shared.histograms import choice_of_lengths, sets_to_explore, shown_name
from packbook.shared.pack_drawings import draw_packs, spoken
from packlib.arguments import in_html
from packlib.packing import Method, PackingPlan, plan
from packlib.packing.search.progress import Progress

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet", "wordnet-pairs", "uniform")
METHOD_NAMES: dict[Method, str] = dict(unpacked="unpacked", spfhp="SPFHP", lpfhp="LPFHP", optimal="optimal")
DEPTHS = (1, 2, 3, 4, 6, 8, 16, None)
MAX_LENGTHS = (64, 128, 256, 384, 512)
PATIENCE = 20  # seconds for one plan, far more than any set of the workbook needs


class GapExplorer(Explorer):
    """Show how far a method's packs are from the proven bound, and which packs it uses most.

    If the search takes longer than 0.3 seconds, its progress is shown meanwhile.

    Args:
        dataset: chosen at first.
        own: lengths of a data set of the reader's own.
        slots: its maximum length.
    """

    title = "How far from the best?"
    shown_controls = ("depth", "method")

    def __init__(
        self, dataset: str = "wikipedia", own: Sequence[int] = (15, 10, 10, 6, 6, 6, 6), slots: int = 30
    ) -> None:
        self.dataset = dataset
        self.histograms = sets_to_explore(dataset, EXPLORED, own, slots)
        self._plans = dict[tuple, PackingPlan]()
        super().__init__()

    def controls(self):
        return {
            "dataset": choice_of_lengths(self.histograms, self.dataset),
            "max_length": choice("Maximum length", [("its own", 0), *((str(n), n) for n in MAX_LENGTHS)], 0),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in DEPTHS], 3),
            "method": choice("Method", [(label, name) for name, label in METHOD_NAMES.items()], "lpfhp"),
        }

    def plan(self, dataset: str, max_length: int, depth: int, method: Method) -> PackingPlan:
        """Return a plan, from memory if it was made before.

        Args:
            max_length: 0 for the data set's own.
            depth: 0 for no limit.
        """
        key = dataset, max_length, depth, method
        if key not in self._plans:
            histogram = self.histograms[dataset]
            if max_length:
                histogram = histogram.with_max_length(max_length, overlong="truncate")
            options: dict[str, Any] = {"progress": self._report, "time_limit": PATIENCE} if method == "optimal" else {}
            self._plans[key] = plan(histogram, method=method, max_sequences_per_pack=depth or None, **options)
        return self._plans[key]

    def _report(self, now: Progress) -> None:
        """Show how far the search is, in place of the picture."""
        if now.seconds > 0.3:
            self.picture.value = f'<p role="status">{in_html(str(now))} …</p>'

    @styled()
    def draw(self, dataset: str, max_length: int, depth: int, method: Method) -> tuple[Figure, str]:
        limit = spoken(depth or None)  # the control has 0 for no limit
        best = self.plan(dataset, max_length, depth, "optimal")
        chosen = self.plan(dataset, max_length, depth, method)
        gap = chosen.num_packs - best.lower_bound  # packs above the bound
        fig, (left, right) = new_figure(1, 2)
        above = {}
        for name, label in METHOD_NAMES.items():
            above[label] = self.plan(dataset, max_length, depth, name).num_packs - best.lower_bound
        draw_above(left, above, [series(name) for name in METHOD_NAMES], "{:,}".format)
        left.get_yticklabels()[list(METHOD_NAMES).index(method)].set_fontweight("bold")
        left.set_title(f"{METHOD_NAMES[method]}: {gap:,} above", x=-0.2)
        most_used = np.argsort(-chosen.repeats, kind="stable")[:8].tolist()
        shares = [percent(chosen.repeats[strategy] / chosen.num_packs) for strategy in most_used]
        packs = [chosen.strategies[strategy] for strategy in most_used]
        draw_packs(right, packs, best.histogram.max_length, labels=shares)
        right.set_title(f"Most used, {limit}")
        distance = "the best possible"
        if gap > 0:
            distance = f"at most {gap:,} above the best, {percent(gap / best.lower_bound, 3)}"
        first_lengths = chosen.strategies[most_used[0]][:6]
        num_packs = f"{chosen.num_packs:,} pack{'s' * (chosen.num_packs > 1)}"
        setting = f"maximum {best.histogram.max_length}, {limit}"
        return fig, (
            f"{shown_name(best.histogram)}, {setting}: {METHOD_NAMES[method]} makes "
            f"{num_packs}, {distance}; efficiency {percent(chosen.efficiency, 2)}. The pack used most has "
            f"{' + '.join(map(str, first_lengths))}{' + …' if chosen.sizes[most_used[0]] > 6 else ''}."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
