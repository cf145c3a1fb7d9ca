"""Notebook 14: documents that are longer than a row, or that stand across the end of one."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice
from packbook.figures import INK, name_rows, new_figure, percent, series
from packbook.n14_whole_documents.figures import draw_rows
from packbook.n14_whole_documents.runs import FIVE, SLOTS, SPOKEN, in_words, under_all_rules
from packbook.questions import Questions, compare
from packlib.packing import CUTTING_RULES, DocumentRows, document_rows, least_cuts
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
        """By documents and slots: the least cuts, and of each rule its rows and what they cut."""
        found = {
            f"{name}-{slots}": {"least": least, "rules": {rule: _plain(made) for rule, made in rules.items()}}
            for (name, slots), (rules, least) in self.cut.items()
        }
        return {"found": found, "lengths": self.sets, "spoken": SPOKEN, "most": self.most}

    def draw(self, documents: str, rule: CuttingRule, slots: int) -> tuple[Figure, str]:
        lengths = self.sets[documents]
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        found, least = self.cut[documents, slots]
        if rule not in found:
            left.set_axis_off()
            left.set_title("No document is left", fontsize=12)
            said = "no document is left"
        else:
            rows = found[rule]
            draw_rows(left, rows, 5)
            cut, lost = rows.cut_documents, rows.lost_tokens
            number = f"{len(rows)} row{'s' * (len(rows) > 1)}"
            left.set_title(f"{number}, {cut} of {len(lengths)} documents cut, {lost} tokens lost", fontsize=12)
            said = f"{in_words(rows)}. {cut} of {len(lengths)} documents are cut, {lost} tokens are lost"
        for at, name in enumerate(CUTTING_RULES):
            style = series("packed") if name == rule else {"color": INK, "marker": "o"}
            if name in found:
                more = found[name].cuts - least
                right.plot(more, at, markersize=9, color=style["color"], marker=style["marker"])
                away, side = (-9, "right") if more < 0 else (9, "left")  # of the line at 0
                place = {"xytext": (away, 0), "textcoords": "offset points", "ha": side, "va": "center"}
                right.annotate(f"{more:+d}", (more, at), **place)
        right.axvline(0, color=INK, lw=1)
        labels = [f"▸ {SPOKEN[name]}" if name == rule else SPOKEN[name] for name in CUTTING_RULES]
        name_rows(right, labels, above=0.7)
        right.set(xlabel="cuts beyond the least", xlim=(-self.most, self.most))
        right.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        others = ", ".join(f"{SPOKEN[name]} {made.cuts}" for name, made in found.items())
        words = f"{documents.capitalize()}, rows of {slots}, {SPOKEN[rule]}: {said}."
        return fig, f"{words} Cuts by rule: {others}; {least} are needed to keep every token."


def _plain(made: DocumentRows) -> dict:
    rows = [row.tolist() for row in made]
    return {
        "rows": rows,
        "slots": made.max_length,
        "cut": made.cut_documents,
        "lost": made.lost_tokens,
        "cuts": made.cuts,
    }


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "five_cut": lambda rows: rows.cut_documents,
        "five_rows": lambda wrapped, split: compare(len(split), len(wrapped), "split", "neither", "wrapped"),
        "lost": lambda rows: 100 * rows.lost_tokens / int(rows.document_lengths.sum()),
        "most_context": lambda sees, said: most_of(sees, within=0.001),
        "after_cut": lambda whole, cut: 100 * (cut / whole - 1),
        "wrapped_loss": lambda difference: difference.verdict,
    },
    reasons={
        "lost": lambda rows: _why_lost(rows.document_lengths, rows.max_length),
    },
)
reveal = QUESTIONS.reveal


def most_of(values: Mapping[str, float], within: float) -> str:
    """The name of the largest value, or "equal" if another is as large but for a share `within`."""
    *_, second, first = sorted(values, key=values.__getitem__)
    return "equal" if values[second] >= (1 - within) * values[first] else first


def _why_lost(lengths: np.ndarray, max_length: int) -> str:
    longer = lengths > max_length
    if not longer.any():
        return "No document is longer than a row."
    held = percent(lengths[longer].sum() / lengths.sum(), 0)
    return f"{percent(longer.mean(), 0)} of the documents are longer than a row, and they hold {held} of all tokens."


# Exercises


def split_pieces(length, slots):
    """The lengths of the pieces that `split` makes of a document, in their order."""
    return [slots] * (length // slots) + [length % slots] * (length % slots > 0)


def wrapped_cuts(lengths, slots):
    """In how many places wrapping cuts the documents."""
    ends, end = set(), 0
    for length in lengths:
        end += length
        ends.add(end)
    return sum(row_end not in ends for row_end in range(slots, end, slots))


PUZZLE = (5, 5, 4, 3, 3, 3, 3, 2, 2, 2)  # 32 tokens: four full rows of eight, which best fit does not find


def cuts_too_many(order):
    """Why wrapping in this order still cuts a document, or None if it cuts none."""
    order = list(order)
    if sorted(order) != sorted(PUZZLE):
        return f"give the lengths {', '.join(map(str, PUZZLE))}, each as often as it is there."
    rows = document_rows(order, SLOTS, "wrapped")
    return f"wrapping makes {rows.cuts} cuts: {in_words(rows)}." if rows.cuts else None


check = Exercises.beside(
    __file__,
    split_pieces,
    wrapped_cuts,
    Exercise("order_without_cuts", [5, 3, 5, 3, 4, 2, 2, 3, 3, 2], fault=cuts_too_many),
)
