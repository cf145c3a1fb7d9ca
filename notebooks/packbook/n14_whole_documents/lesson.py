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
    """A few documents in rows, by any rule, and how many cuts each rule makes beyond the fewest."""

    title = "What does a rule do to these documents?"

    def __init__(self, own: Sequence[int] = (9, 7, 5, 3, 3, 2)):
        self.sets = {
            "the five above": FIVE,
            "all equal": (5,) * 7,
            "one is long": (33, 3, 3, 3, 3),
            "your own": tuple(own),
        }
        self.cut = {
            (name, slots): (under_all_rules(lengths, slots), least_cuts(lengths, slots))
            for name, lengths in self.sets.items()
            for slots in ROWS
        }
        farthest = max(abs(made.cuts - least) for found, least in self.cut.values() for made in found.values())
        self.most = 1.3 * max(1, farthest)
        super().__init__()

    def controls(self):
        return {
            "documents": choice("Documents", self.sets, "the five above"),
            "rule": choice("Rule", [(spoken, rule) for rule, spoken in SPOKEN.items()], "wrapped"),
            "slots": choice("Slots in a row", ROWS, SLOTS),
        }

    def data(self):
        """Return, by documents and slots, the least cuts, and of each rule its rows and what they cut."""
        found = {
            f"{name}-{slots}": {"least": least, "rules": {rule: _plain(made) for rule, made in rules.items()}}
            for (name, slots), (rules, least) in self.cut.items()
        }
        return {"found": found, "lengths": self.sets, "spoken": SPOKEN, "most": self.most}

    @styled()
    def draw(self, documents: str, rule: CuttingRule, slots: int) -> tuple[Figure, str]:
        lengths = self.sets[documents]
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        found, least = self.cut[documents, slots]
        if rule not in found:
            left.set_axis_off()
            left.set_title("No document is left", fontsize=12)
            result = "no document is left"
        else:
            rows = found[rule]
            draw_rows(left, rows, 5)
            cut, lost = rows.cut_documents, rows.lost_tokens
            number = f"{len(rows)} row{'s' * (len(rows) > 1)}"
            left.set_title(f"{number}, {cut} of {len(lengths)} documents cut, {lost} tokens lost", fontsize=12)
            result = f"{in_words(rows)}. {cut} of {len(lengths)} documents are cut, {lost} tokens are lost"
        for at, name in enumerate(CUTTING_RULES):
            style = series("packed") if name == rule else {"color": INK, "marker": "o"}
            if name in found:
                more = found[name].cuts - least
                right.plot(more, at, markersize=9, color=style["color"], marker=style["marker"])
                away, side = (-9, "right") if more < 0 else (9, "left")  # of the line at 0
                place = {"xytext": (away, 0), "textcoords": "offset points", "ha": side, "va": "center"}
                right.annotate(f"{more:+d}".replace("+0", "0").replace("-", "−"), (more, at), **place)
        right.axvline(0, color=INK, lw=1)
        labels = [f"▸ {SPOKEN[name]}" if name == rule else SPOKEN[name] for name in CUTTING_RULES]
        name_rows(right, labels, above=0.7)
        right.set(xlabel="cuts beyond the least", xlim=(-self.most, self.most))
        right.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        others = ", ".join(f"{SPOKEN[name]} {made.cuts}" for name, made in found.items())
        words = f"{documents.capitalize()}, rows of {slots}, {SPOKEN[rule]}: {result}."
        return fig, f"{words} Cuts by rule: {others}; the fewest that keep every token: {least}."


def _plain(made: DocumentRows) -> dict:
    rows = [row.tolist() for row in made]
    return {
        "rows": rows,
        "slots": made.max_length,
        "cut": made.cut_documents,
        "lost": made.lost_tokens,
        "cuts": made.cuts,
    }


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
