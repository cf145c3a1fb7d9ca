"""The explorer and the questions of notebook 03."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, series, styled
from packbook.n03_nnls_packing.figures import draw_misses
from packbook.n03_nnls_packing.runs import about, published_result, solve
from packbook.questions import Questions
from packbook.shared.above import draw_above
from packbook.shared.histograms import choice_of_lengths, in_blocks, sets_to_explore, shown_name
from packlib.packing import plan

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet-pairs")
BLOCKS = 64  # to which the explorer rounds lengths, so that least squares takes no time
PATIENCE = 20  # seconds for one plan, far more than any set of the workbook needs


class WeightExplorer(Explorer):
    """Show what a weight and a cutoff of NNLSHP leave over, and how many packs it then makes.

    Args:
        dataset: chosen at first.
        own: lengths of a data set of the reader's own.
        slots: its maximum length.
    """

    title = "What do the weights buy?"
    shown_controls = ("weight", "depth")

    def __init__(
        self, dataset: str = "wikipedia", own: Sequence[int] = (5, 5, 5, 5, 3, 3, 2, 2, 2, 1), slots: int = 8
    ) -> None:
        self.dataset = dataset
        sets = sets_to_explore(dataset, EXPLORED, own, slots)
        self.grids = {name: in_blocks(histogram, BLOCKS) for name, histogram in sets.items()}
        super().__init__()

    def controls(self):
        return {
            "dataset": choice_of_lengths(self.grids, self.dataset),
            "depth": choice("Depth limit", [2, 3, 4], 3),
            "cutoff": slider("Cutoff, in blocks", 0, 32, value=8),
            "weight": choice("Weight up to it", [0.01, 0.03, 0.09, 0.3, 1.0], 0.09),
        }

    @styled()
    def draw(self, dataset: str, depth: int, cutoff: int, weight: float) -> tuple[Figure, str]:
        grid = self.grids[dataset]
        best = plan(grid, max_sequences_per_pack=depth, time_limit=PATIENCE)
        left_over, empty, published_packs = published_result(grid, depth, solve(grid, depth, cutoff, weight))
        nnlshp = plan(grid, method="nnlshp", max_sequences_per_pack=depth, cutoff=cutoff, weight=weight)
        lpfhp = plan(grid, method="lpfhp", max_sequences_per_pack=depth)
        packs = {
            "as published": published_packs,
            "NNLSHP": nnlshp.num_packs,
            "LPFHP": lpfhp.num_packs,
            "optimal": best.num_packs,
        }
        above = {way: number - best.lower_bound for way, number in packs.items()}
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        left.axvspan(0.5, cutoff + 0.5, color="#eeeeee")
        draw_misses(left, left_over, empty)
        left.set(xlabel="blocks; shaded up to the cutoff", title=f"{about(left_over.sum())} left over")
        looks = [{**series("nnlshp"), "markerfacecolor": "white"}]  # as published
        looks += [series(method) for method in ("nnlshp", "lpfhp", "optimal")]
        draw_above(right, above, looks, about)
        right.set_title(f"Depth limit {depth}")
        listed = ", ".join(f"{way} {about(number)}" for way, number in above.items())
        return fig, (
            f"{shown_name(grid)} in {grid.max_length} blocks, depth limit {depth}, weight {weight:g} up to length "
            f"{cutoff}. Sequences without a place: {about(left_over.sum())}; places without a sequence: "
            f"{about(empty.sum())}. Packs above the lower bound: {listed}."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
