"""The explorer and the questions of notebook 14."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packbook.explorers import Explorer, choice
from packbook.figures import INK, name_rows, new_figure, series, styled
from packbook.n14_whole_documents.figures import draw_rows
from packbook.n14_whole_documents.runs import FIVE, SLOTS, SPOKEN, in_words, under_all_rules
from packbook.questions import Questions
from packlib.packing import CUTTING_RULES, DocumentRows, least_cuts
from packlib.packing.documents import CuttingRule

ROWS = (4, 5, 8, 10, 16, 32, 64)  # slots to choose from


class CutDocuments(Explorer):
    """Show a few documents in rows by a rule, and how many cuts each rule makes beyond the fewest.

    Args:
        own: lengths of documents of the reader's own.
    """

    title = "What does a rule do to these documents?"

    def __init__(self, own: Sequence[int] = (9, 7, 5, 3, 3, 2)):
        self.sets = {
            "the five above": FIVE,
            "all equal": (5,) * 7,
            "one is long": (33, 3, 3, 3, 3),
            "your own": tuple(own),
        }
        self.cut = {}  # by documents and slots, the rows of each rule, and the least cuts
        differences = []
        for name, lengths in self.sets.items():
            for slots in ROWS:
                rows_by_rule, least = under_all_rules(lengths, slots), least_cuts(lengths, slots)
                self.cut[name, slots] = (rows_by_rule, least)
                differences += [abs(rows.cuts - least) for rows in rows_by_rule.values()]
        self.most = 1.3 * max(1, *differences)  # of the axis of cuts, to both sides of 0
        super().__init__()

    def controls(self):
        return {
            "documents": choice("Documents", self.sets, "the five above"),
            "rule": choice("Rule", [(spoken, rule) for rule, spoken in SPOKEN.items()], "wrapped"),
            "slots": choice("Slots in a row", ROWS, SLOTS),
        }

    def data(self):
        """Return in `found`, by documents and slots, the least cuts, and for each rule its rows and what they cut."""
        found = {}
        for (name, slots), (rows_by_rule, least) in self.cut.items():
            rules = {rule: _plain(rows) for rule, rows in rows_by_rule.items()}
            found[f"{name}-{slots}"] = {"least": least, "rules": rules}
        return {"found": found, "lengths": self.sets, "spoken": SPOKEN, "most": self.most}

    @styled()
    def draw(self, documents: str, rule: CuttingRule, slots: int) -> tuple[Figure, str]:
        lengths = self.sets[documents]
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        rows_by_rule, least = self.cut[documents, slots]
        if rule not in rows_by_rule:
            left.set_axis_off()
            left.set_title("No document is left", fontsize=12)
            result = "no document is left"
        else:
            rows = rows_by_rule[rule]
            draw_rows(left, rows, least=5)
            cut, lost = rows.cut_documents, rows.lost_tokens
            number = f"{len(rows)} row{'s' * (len(rows) > 1)}"
            left.set_title(f"{number}, {cut} of {len(lengths)} documents cut, {lost} tokens lost", fontsize=12)
            result = f"{in_words(rows)}. {cut} of {len(lengths)} documents are cut, {lost} tokens are lost"
        for row, name in enumerate(CUTTING_RULES):
            style = series("packed") if name == rule else {"color": INK, "marker": "o"}
            if name in rows_by_rule:
                more = rows_by_rule[name].cuts - least
                right.plot(more, row, markersize=9, color=style["color"], marker=style["marker"])
                offset, side = (-9, "right") if more < 0 else (9, "left")  # away from the line at 0
                place = {"xytext": (offset, 0), "textcoords": "offset points", "ha": side, "va": "center"}
                right.annotate(f"{more:+d}".replace("+0", "0").replace("-", "−"), (more, row), **place)
        right.axvline(0, color=INK, lw=1)
        labels = [f"▸ {SPOKEN[name]}" if name == rule else SPOKEN[name] for name in CUTTING_RULES]
        name_rows(right, labels, above=0.7)
        right.set(xlabel="cuts beyond the least", xlim=(-self.most, self.most))
        right.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        listed = ", ".join(f"{SPOKEN[name]} {rows.cuts}" for name, rows in rows_by_rule.items())
        words = f"{documents.capitalize()}, rows of {slots}, {SPOKEN[rule]}: {result}."
        return fig, f"{words} Cuts by rule: {listed}; the fewest that keep every token: {least}."


def _plain(rows: DocumentRows) -> dict:
    """Return rows as JSON: each has (document, first token, length) of its pieces."""
    return {
        "rows": [row.tolist() for row in rows],
        "slots": rows.max_length,
        "cut": rows.cut_documents,
        "lost": rows.lost_tokens,
        "cuts": rows.cuts,
    }


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
