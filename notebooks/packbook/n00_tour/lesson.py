"""Notebook 00: the whole in ten minutes, on real text."""

from collections.abc import Sequence
from random import Random

import numpy as np
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, percent
from packbook.guesses import said
from packbook.n00_tour.figures import draw_rows
from packbook.questions import Questions, compare
from packbook.shared.glosses import wordnet_texts
from packlib.checks import shown, whole_number
from packlib.lengths import LengthHistogram
from packlib.packing import plan


class RowsExplorer(Explorer):
    """How many texts, how long a row: the same texts padded and packed."""

    title = "What do padding and packing make of these texts?"
    shown_controls = ("slots", "depth")

    def __init__(self, lengths: Sequence[int] | None = None) -> None:
        given = wordnet_texts().definition_tokens if lengths is None else lengths
        try:
            self.lengths = np.array([whole_number("lengths", length, 1) for length in list(given)[:80]])
        except (TypeError, ValueError):
            self.lengths = np.array([])
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

    def draw(self, texts: int, slots: int, depth: int) -> tuple[Figure, str]:
        lengths = np.minimum(self.lengths[:texts], slots)
        cut = int((self.lengths[:texts] > slots).sum())
        best = plan(lengths, slots, method="optimal", max_sequences_per_pack=depth or None)
        both: dict[str, Sequence] = {"padded": [[i] for i in range(texts)], "packed": list(best.assign(lengths))}
        fig, axes = new_figure(1, 2, sharey=True)
        for ax, (how, rows) in zip(axes, both.items(), strict=True):
            draw_rows(ax, rows, lengths, slots, texts)
            empty = 1 - lengths.sum() / (len(rows) * slots)
            ax.set_title(f"{how}: {said(len(rows), 'rows')}, {percent(empty, 0)} empty")
        how = f"at most {depth} in a pack" if depth else "any number in a pack"
        return fig, (
            f"{said(texts, 'texts')} in rows of {slots} slots, {how}. Padded: {said(texts, 'rows')}, "
            f"{percent(1 - lengths.sum() / texts / slots)} empty. Packed: {said(best.num_packs, 'rows')}, "
            f"{percent(1 - best.efficiency)} empty: {best.packing_factor:.2f} texts in an average row. "
            f"{cut or 'None'} of the texts had to be cut."
        )


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "waste": lambda share, mean, slots: round(100 * share, 1),
        "rows": lambda rows, tokens, bound, proof: rows,
        "same": lambda padded, packed: compare(packed, padded, "fewer", "same", "more", within=0.01),
        "unmasked": lambda unmasked, masked: compare(unmasked, masked, "fewer", "same", "more", within=0.02),
    },
    reasons={
        "unmasked": lambda unmasked, masked: (
            f"{percent(unmasked, 0)} of the hidden words are right, {percent(masked, 0)} with the mask. "
            + (
                "Every word of the row can be seen, and nothing says which two belong to the sentence."
                if unmasked < masked - 0.02
                else "In so short a race, or with so few sentences in a row, the missing mask does not show."
            )
        ),
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises

NINE, ROW = tuple(range(4, 13)), 24  # three full rows; greedy rules need four


def first_fit(lengths, max_length):
    """Packs as lists of lengths: from long to short, each into the first pack that has room."""
    packs = []
    for length in sorted(lengths, reverse=True):
        pack = next((pack for pack in packs if sum(pack) + length <= max_length), None)
        if pack is None:
            packs.append(pack := [])
        pack.append(length)
    return packs


def pack_fault(packs, lengths, max_length, most):
    """What is wrong with packs as lists of lengths, or None."""
    packs, left = [list(pack) for pack in packs], sorted(lengths)
    if any(isinstance(length, str) for pack in packs for length in pack):
        return "each row must be a list of lengths, such as [12, 8], and no text."
    for length in (length for pack in packs for length in pack):
        if length not in left:
            return f"{length} is in the packs more often than among the texts."
        left.remove(length)
    if left:
        return f"{', '.join(map(str, left))} is left out." if len(left) == 1 else f"{left} are left out."
    if too_full := next((pack for pack in packs if sum(pack) > max_length), None):
        return f"{' + '.join(map(str, too_full))} is {sum(too_full)}; a row has {max_length} slots."
    return f"that takes {len(packs)} rows, and {most} would do." if len(packs) > most else None


def _near_the_best(packs, lengths, max_length):
    fewest = plan(LengthHistogram.from_lengths(lengths, max_length), method="optimal").num_packs
    return pack_fault(packs, lengths, max_length, fewest + fewest // 8)


def _my_cases():
    """Texts and a row, from few to many. Packed in the order given, some need too many rows, also with best fit."""
    rng = Random(18)  # from long to short, first fit, best fit and worst fit pass on all of these
    drawn = [[rng.randint(16, 56) for _ in range(rng.randint(2, 40))] for _ in range(50)]
    return ([3], 8), ([5, 5], 8), ([1, 7, 4, 4], 8), *((lengths, 96) for lengths in sorted(drawn, key=len))


def strangers(lengths):
    """The share of all pairs of tokens in a pack that belong to two different texts."""
    return 1 - sum(length**2 for length in lengths) / sum(lengths) ** 2


check = Exercises.beside(
    __file__,
    Exercise("three_rows", [[12, 8, 4], [11, 7, 6], [10, 9, 5]], fault=lambda packs: pack_fault(packs, NINE, ROW, 3)),
    strangers,
    Exercise("my_packs", first_fit, cases=_my_cases(), fault=_near_the_best),
)
