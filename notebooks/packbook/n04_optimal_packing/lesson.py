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
TOPS = (64, 128, 256, 384, 512)
PATIENCE = 20  # seconds for one plan, far more than any set of the workbook needs


class GapExplorer(Explorer):
    """Data set, maximum length, depth and method, with the gap to the proven bound and the packs most used.

    A plan that takes longer than half a second says how far it is meanwhile.
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
            "max_length": choice("Maximum length", [("its own", 0), *((str(n), n) for n in TOPS)], 0),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in DEPTHS], 3),
            "method": choice("Method", [(label, name) for name, label in METHOD_NAMES.items()], "lpfhp"),
        }

    def plan(self, dataset: str, max_length: int, depth: int, method: Method) -> PackingPlan:
        """Return the plan, from memory if it was made before; a 0 is the data set's own maximum, or no limit."""
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
        best = self.plan(dataset, max_length, depth, "optimal")
        chosen = self.plan(dataset, max_length, depth, method)
        gap, top = chosen.num_packs - best.lower_bound, best.histogram.max_length
        fig, (left, right) = new_figure(1, 2)
        packs = {said: self.plan(dataset, max_length, depth, name).num_packs for name, said in METHOD_NAMES.items()}
        above = {said: number - best.lower_bound for said, number in packs.items()}
        draw_above(left, above, [series(name) for name in METHOD_NAMES], "{:,}".format)
        left.get_yticklabels()[list(METHOD_NAMES).index(method)].set_fontweight("bold")
        left.set_title(f"{METHOD_NAMES[method]}: {gap:,} above", x=-0.2)
        most_used = np.argsort(-chosen.repeats, kind="stable")[:8].tolist()
        shares = [percent(chosen.repeats[s] / chosen.num_packs) for s in most_used]
        draw_packs(right, [chosen.strategies[s] for s in most_used], top, labels=shares)
        right.set_title(f"Most used, {spoken(depth or None)}")
        distance = (
            "the best possible"
            if gap == 0
            else f"at most {gap:,} above the best, {percent(gap / best.lower_bound, 3)}"
        )
        first_lengths = chosen.strategies[most_used[0]][:6]
        packs_made = f"{chosen.num_packs:,} pack{'s' * (chosen.num_packs > 1)}"
        return fig, (
            f"{shown_name(best.histogram)}, maximum {top}, {spoken(depth or None)}: {METHOD_NAMES[method]} makes "
            f"{packs_made}, {distance}; efficiency {percent(chosen.efficiency, 2)}. The pack used most has "
            f"{' + '.join(map(str, first_lengths))}{' + …' if chosen.sizes[most_used[0]] > 6 else ''}."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
