"""Notebook 02: greedy packing by hand, on a histogram and on a stream."""

import itertools
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, percent
from packbook.n02_greedy_packing.runs import in_words, newest, one_by_one
from packbook.questions import Questions, compare
from packbook.shared.histograms import sample_lengths, shown_name
from packbook.shared.pack_drawings import draw_packs
from packlib.lengths import LengthHistogram, load
from packlib.packing import plan

WAYS = {"worst_fit": "most space, one by one", "spfhp": "SPFHP, all copies at once", "lpfhp": "LPFHP, least space"}
EIGHT, SLOTS = (9, 7, 6, 5, 4, 3, 2, 2), 10  # the sequences that are packed by hand


class StepByStep(Explorer):
    """Three ways beside each other, one sequence at a time."""

    title = "Which pack takes the next sequence?"

    def __init__(
        self,
        dataset: str = "wikipedia",
        depth: int | None = None,
        seed: int = 0,
        own: Sequence[int] = (4, 4, 3, 3, 3, 3),
        slots: int = SLOTS,
    ):
        histogram = load(dataset)
        self.sets = {
            "the eight above": (EIGHT, SLOTS),
            "four threes": ((3, 3, 3, 3), SLOTS),
            "your own": (LengthHistogram.from_lengths(own, slots).expand().tolist(), slots),
            f"eight of {shown_name(histogram)}": (sample_lengths(histogram, 8, seed).tolist(), histogram.max_length),
        }
        self.depth = depth if depth in range(1, 6) else 0
        super().__init__()

    def controls(self):
        return {
            "lengths": choice("Sequences", self.sets, "four threes"),
            "depth": choice("Depth limit", [("none", 0), *((str(d), d) for d in range(1, 6))], self.depth),
            "step": slider("Sequences placed", 0, 4, value=4),
        }

    def data(self):
        """By sequences and depth limit, for each rule the pack of each sequence, from long to short."""
        placed = {
            name: [[self._packs_of(*of, rule, depth) for rule in WAYS] for depth in range(6)]
            for name, of in self.sets.items()
        }
        sets = {name: [sorted(lengths, reverse=True), slots] for name, (lengths, slots) in self.sets.items()}
        return {"sets": sets, "ways": list(WAYS.values()), "placed": placed}

    @staticmethod
    def _packs_of(lengths: Sequence[int], slots: int, rule: str, depth: int) -> list[int]:
        steps = [[], *one_by_one(lengths, slots, rule, depth)]
        return [newest(after, before) for before, after in itertools.pairwise(steps)]

    def react(self, name):
        if name == "lengths":
            self.widgets["step"].max = len(self.sets[self.widgets["lengths"].value][0])

    def draw(self, lengths: str, depth: int, step: int) -> tuple[Figure, str]:
        sequences, slots = self.sets[lengths]
        sequences = sorted(sequences, reverse=True)
        fig, axes = new_figure(1, 3)
        limit = f"at most {depth} in a pack" if depth else "no depth limit"
        words = [f"{lengths.capitalize()}, packs of {slots}, {limit}, {step} of {len(sequences)} placed."]
        ends = {rule: [[], *one_by_one(sequences, slots, rule, depth)] for rule in WAYS}
        rows = max(5, *(len(steps[-1]) for steps in ends.values()))
        for ax, (rule, way) in zip(axes, WAYS.items(), strict=True):
            packs = ends[rule][step]
            draw_packs(ax, packs, slots, rows, newest(packs, ends[rule][step - 1]) if step else None)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            full = sum(sequences[:step]) / (slots * len(packs)) if packs else 0.0
            number = f"{len(packs)} pack{'s' * (len(packs) != 1)}"
            ax.set_title(f"{way}\n{number}, {percent(full, 0)} full", fontsize=12)
            words.append(f"{way[0].upper()}{way[1:]}: {in_words(packs) or 'no pack yet'}; {percent(full)} full.")
        waiting = ", ".join(map(str, sequences[step:])) or "none"
        fig.suptitle(f"Waiting: {waiting}")
        return fig, " ".join(words)


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "first_rule": lambda packs: len(packs),
        "better_rule": lambda most, least: compare(len(least), len(most), "least space", "neither", "most space"),
        "four_threes": lambda packs: packs,
        "strategies": lambda strategies, lengths: strategies,
        "depth_two": lambda efficiency, full: 100 * efficiency,
        "cause": lambda one_by_one, spfhp, lpfhp: (
            "most space" if one_by_one - lpfhp > spfhp - one_by_one else "all copies at once"
        ),
        "next_fit": lambda efficiency: 100 * efficiency,
        "stream_or_chunks": lambda winner: winner[max(winner)],
        "depth_three": lambda efficiency: 100 * efficiency,
    },
    reasons={
        "stream_or_chunks": lambda winner: (
            "A chunk is sorted before it is packed, but each starts anew and leaves a few packs half empty. A stream "
            "goes on, but has to place a sequence before it knows what comes. With room for "
            f"{min(winner)} packs: {winner[min(winner)]}."
        ),
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises


def tightest_space(spaces, length):
    """The space of the pack that takes `length` under LPFHP; 0 if a new pack must be opened."""
    return min((space for space in spaces if space >= length), default=0)


def place_copies(spaces, length, copies, slots):
    """The spaces after SPFHP placed all `copies` of a length, as a sorted list."""
    spaces, opened = list(spaces), []
    for _ in range(copies):
        widest = max(spaces, default=0)
        if widest >= length:
            spaces[spaces.index(widest)] -= length
        else:
            opened.append(slots - length)  # and no further copy goes there
    return sorted(spaces + opened)


def lpfhp_packs(lengths, max_length, depth):
    """How many packs LPFHP fills when a pack holds at most `depth` sequences."""
    packs = []
    for length in sorted(lengths, reverse=True):
        able = [pack for pack in packs if sum(pack) + length <= max_length and len(pack) < depth]
        if able:
            max(able, key=sum).append(length)
        else:
            packs.append([length])
    return len(packs)


def not_fooled(lengths):
    """Why `lengths` do not make LPFHP take a pack too many, or None if they do."""
    lengths = list(lengths)
    if not 1 <= len(lengths) <= 8 or not set(lengths) <= set(range(1, SLOTS + 1)):
        return f"give one to eight whole lengths from 1 to {SLOTS}."
    histogram = LengthHistogram.from_lengths(lengths, SLOTS)
    greedy, best = plan(histogram, method="lpfhp").num_packs, plan(histogram, method="optimal").num_packs
    return None if greedy > best else f"packs by LPFHP: {greedy}; packs of the best packing: {best}."


check = Exercises.beside(
    __file__,
    tightest_space,
    place_copies,
    lpfhp_packs,
    Exercise("fools_lpfhp", [4, 4, 3, 3, 3, 3], fault=not_fooled),
)
