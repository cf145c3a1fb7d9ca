"""The explorer and the questions of notebook 00."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, percent, styled
from packbook.guesses import said
from packbook.n00_tour.figures import draw_rows
from packbook.questions import Questions
from packbook.shared.glosses import wordnet_texts
from packlib.arguments import shown, whole_number
from packlib.packing import plan

MOST = 80  # texts, which still have rows high enough to be seen


class RowsExplorer(Explorer):
    """Show the same texts padded and packed, for a number of texts, a row length and a depth limit.

    Args:
        lengths: of the texts, in tokens, at most `MOST` of them; by default those of WordNet's first definitions.
    """

    title = "What do padding and packing make of these texts?"
    shown_controls = ("slots", "depth")

    def __init__(self, lengths: Sequence[int] | None = None) -> None:
        all_lengths = wordnet_texts().definition_tokens if lengths is None else lengths
        try:
            self.lengths = np.array([whole_number("lengths", length, 1) for length in list(all_lengths)[:MOST]])
        except (TypeError, ValueError):
            self.lengths = np.array([])  # refused below
        if not len(self.lengths):
            wanted = "lengths must be whole numbers from 1, at least one of them, not"
            raise ValueError(f"{wanted} {shown(lengths)}.")
        super().__init__()

    def controls(self):
        return {
            "texts": slider("Texts", 1, len(self.lengths), value=min(32, len(self.lengths))),
            "slots": choice("Slots in a row", (16, 24, 32, 48, 64, 96, 128, 192, 256), 64),
            "depth": choice("Texts in a pack", [("any number", 0), *((f"at most {d}", d) for d in range(1, 9))], 0),
        }

    @styled()
    def draw(self, texts: int, slots: int, depth: int) -> tuple[Figure, str]:
        lengths = np.minimum(self.lengths[:texts], slots)
        num_cut = int((self.lengths[:texts] > slots).sum())
        best = plan(lengths, slots, method="optimal", max_sequences_per_pack=depth or None)
        rows_by_form: dict[str, Sequence] = {
            "padded": [[i] for i in range(texts)],
            "packed": list(best.assign(lengths)),
        }
        fig, axes = new_figure(1, 2, sharey=True)
        for ax, (form, rows) in zip(axes, rows_by_form.items(), strict=True):
            draw_rows(ax, rows, lengths, slots, texts)
            empty = 1 - lengths.sum() / (len(rows) * slots)
            ax.set_title(f"{form}: {said(len(rows), 'rows')}, {percent(empty, 0)} empty")
        limit = f"at most {depth} in a pack" if depth else "any number in a pack"
        return fig, (
            f"{said(texts, 'texts')} in rows of {slots} slots, {limit}. Padded: {said(texts, 'rows')}, "
            f"{percent(1 - lengths.sum() / texts / slots)} empty. Packed: {said(best.num_packs, 'rows')}, "
            f"{percent(1 - best.efficiency)} empty: {best.packing_factor:.2f} texts in an average row. "
            f"{num_cut or 'None'} of the texts had to be cut."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
