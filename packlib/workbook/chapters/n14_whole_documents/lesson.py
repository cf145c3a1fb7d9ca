"""Notebook 14: documents that are longer than a row, or that stand across the end of one."""

import math
from collections.abc import Sequence

import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packlib.packing import CUTTING_RULES, document_rows, least_cuts
from packlib.workbook.chapters.n14_whole_documents.figures import draw_rows
from packlib.workbook.chapters.n14_whole_documents.runs import FIVE, SLOTS, SPOKEN, told, under_all_rules
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import INK, new_figure, percent, series
from packlib.workbook.questions import Question, Questions


class CutDocuments(Explorer):
    """A few documents in rows, by any rule, and how many cuts each rule makes beyond the fewest."""

    title = "What does a rule do to these documents?"
    telling = ("rule", "slots")

    def __init__(self, own: Sequence[int] = (5, 5, 5, 5, 5, 5, 5)):
        self.sets = {
            "the five above": FIVE,
            "all equal": (5,) * 7,
            "one is long": (33, 3, 3, 3, 3),
            "your own": tuple(own),
        }
        super().__init__()

    def controls(self):
        look = {"style": {"description_width": "11em", "button_width": "9em"}, "layout": {"max_width": "98%"}}
        names = [(spoken, rule) for rule, spoken in SPOKEN.items()]
        return {
            "documents": choice("Documents", self.sets, "the five above"),
            "rule": widgets.ToggleButtons(options=names, value="wrapped", description="Rule", **look),
            "slots": choice("Slots in a row", (4, 8, 16, 32, 64), SLOTS),
        }

    def draw(self, documents: str, rule: str, slots: int) -> tuple[Figure, str]:
        lengths = self.sets[documents]
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        found, least = under_all_rules(lengths, slots), least_cuts(lengths, slots)
        if rule not in found:
            left.set_axis_off()
            left.set_title("No document is left", fontsize=12)
            said = "no document is left"
        else:
            rows = found[rule]
            draw_rows(left, rows, 5)
            cut, lost = rows.cut_documents, rows.lost_tokens
            left.set_title(f"{len(rows)} rows, {cut} of {len(lengths)} documents cut, {lost} tokens lost", fontsize=12)
            said = f"{told(rows)}. {cut} of {len(lengths)} documents are cut, {lost} tokens are lost"
        for at, name in enumerate(CUTTING_RULES):
            style = series("packed") if name == rule else {"color": INK, "marker": "o"}
            if name in found:
                more = found[name].cuts - least
                right.plot(more, at, markersize=9, color=style["color"], marker=style["marker"])
                right.annotate(f"{more:+d}", (more, at), xytext=(0, 9), textcoords="offset points", ha="center")
        right.axvline(0, color=INK, lw=1)
        labels = [f"▸ {SPOKEN[name]}" if name == rule else SPOKEN[name] for name in CUTTING_RULES]
        right.set_yticks(range(len(labels)), labels)
        right.set(ylim=(len(labels) - 0.5, -0.7), xlabel="cuts beyond the least")
        right.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        right.margins(x=0.25)
        others = ", ".join(f"{SPOKEN[name]} {made.cuts}" for name, made in found.items())
        words = f"{documents.capitalize()}, rows of {slots}, {SPOKEN[rule]}: {said}."
        return fig, f"{words} Cuts by rule: {others}; {least} are needed to keep every token."


QUESTIONS = Questions(
    five_cut=Question(
        "How many of the five documents does wrapping cut?",
        unit="documents",
        truth=lambda rows: rows.cut_documents,
        why="Rows end after 8, 16 and 24 tokens, and no document ends at any of these places. The first, the second "
        "and the third document are cut once each.",
    ),
    five_rows=Question(
        "Which way needs fewer rows for the five: wrapped, split or neither?",
        truth=lambda wrapped, split: (
            "neither" if len(wrapped) == len(split) else "split" if len(split) < len(wrapped) else "wrapped"
        ),
        why="The document of 14 becomes 8 and 6, and then 8 | 7 | 6 + 2 | 5 + 3 are four rows. Fewer cannot hold 31 "
        "tokens.",
        choices={
            "wrapped": "Pack the pieces once more: the 2 fits beside the 6, and the 3 beside the 5.",
            "split": "Wrapping leaves slots empty only at the very end, so no way can need fewer rows.",
            "neither": "",
        },
    ),
    lost=Question(
        "What share of all tokens does truncating lose, in percent?",
        unit="%",
        truth=lambda rows: 100 * rows.lost_tokens / int(rows.document_lengths.sum()),
        why=lambda rows: _why_lost(rows.document_lengths, rows.max_length),
    ),
    most_context=Question(
        "Of the three rules that lose nothing, under which does a token see the most: wrapped, split or powers of two?",
        truth=lambda sees: max(sees, key=sees.get),
        why="A token of a piece of n tokens sees (n − 1) / 2 on average, so the mean grows with the sum of n². Full "
        "rows and one rest have the largest sum of squares that pieces of a document can have: every other way to cut "
        "takes tokens from a longer piece and gives them to a shorter one.",
        choices={
            "wrapped": "Wrapping also cuts documents that would fit, and each cut makes two shorter pieces of one.",
            "split": "",
            "powers of two": "Its rests are cut again and again.",
        },
    ),
    after_cut=Question(
        "With p = 0.9, how much larger is the loss on the first token after the cut, in percent?",
        unit="%",
        limits=(0, math.inf),
        truth=lambda whole, cut: 100 * (cut / whole - 1),
        why="The model takes what it sees for one of the later tokens. It therefore trusts it less than it should: it "
        "expects the same token again with probability p² + q² = 0.82 instead of 0.9.",
    ),
    fades=Question(
        "Which handicap fades faster with the tokens that follow, that of a weak tie (p = 0.6) or that of a strong tie "
        "(p = 0.9)?",
        truth=lambda left: min(left, key=left.get),
        why=lambda left: (
            "Tokens that follow a strong tie repeat what was cut off, so a few of them are enough to infer it. Ten "
            f"tokens after the cut, {percent(left['weak'], 0)} of the first handicap is left with the weak tie, and "
            f"{percent(left['strong'], 0)} with the strong one."
        ),
        choices={
            "weak": "It is the smaller handicap at first, but each following token says little about what was cut off.",
            "strong": "",
        },
    ),
    wrapped_loss=Question(
        "Where does the held-out loss of wrapping end, against splitting, both with the mask: lower, higher or cannot "
        "be told?",
        truth=lambda difference: difference.verdict,
        why=lambda difference: f"The difference is {difference}, with an interval of 95 %.",
        choices={
            "lower": "Some seeds say so, and others say the opposite.",
            "higher": "Some seeds say so, and others say the opposite.",
            "cannot be told": "",
        },
    ),
)
reveal = QUESTIONS.reveal


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
    return f"wrapping makes {rows.cuts} cuts: {told(rows)}." if rows.cuts else None


EXERCISES = Exercises(
    [
        Exercise(
            "split_pieces",
            split_pieces,
            cases=((1, 4), (4, 4), (5, 4), (8, 4), (14, 8), (25, 8), (3, 1)),
            wrong={
                "an empty rest": lambda length, slots: [slots] * (length // slots) + [length % slots],
                "forgets the rest": lambda length, slots: [slots] * (length // slots),
                "halves": lambda length, slots: [length] if length <= slots else [length // 2, length - length // 2],
                "the rest first": lambda length, slots: split_pieces(length, slots)[::-1],
            },
            hint="`length // slots` rows are full; there is a rest only if `length % slots` is not 0.",
            level=1,
            minutes=5,
        ),
        Exercise(
            "wrapped_cuts",
            wrapped_cuts,
            cases=(
                ([3], 4), ([4], 4), ([5], 4), ([4, 4], 4), ([3, 2], 4), ([3, 3, 2], 4), ([9], 4), (list(FIVE), SLOTS),
                ([2, 6, 8, 1], 8), ([1] * 9, 4),
            ),
            wrong={
                "every row's end": lambda lengths, slots: (sum(lengths) - 1) // slots,
                "documents, not places": lambda lengths, slots: document_rows(lengths, slots, "wrapped").cut_documents,
                "only what is too long": least_cuts,
                "documents that are too long": lambda lengths, slots: sum(n > slots for n in lengths),
            },
            hint="a row ends after every `slots` tokens; it cuts unless a document ends at the same place.",
            level=2,
            minutes=10,
        ),
        Exercise(
            "order_without_cuts",
            [5, 3, 5, 3, 4, 2, 2, 3, 3, 2],
            fault=cuts_too_many,
            wrong={
                "from long to short": sorted(PUZZLE, reverse=True),
                "from short to long": sorted(PUZZLE),
                "leaves some out": [5, 3, 5, 3, 4, 2, 2],
                "as best fit packs": [5, 3, 5, 3, 4, 3, 3, 2, 2, 2],
            },
            hint="wrapping cuts nothing if the documents between two row ends fill a row exactly.",
            level=3,
            minutes=15,
        ),
    ]
)  # fmt: skip
check = EXERCISES
