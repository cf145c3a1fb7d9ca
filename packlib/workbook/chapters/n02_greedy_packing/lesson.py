"""Notebook 02: greedy packing by hand, on a histogram and on a stream."""

from collections.abc import Sequence
from functools import partial

import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.workbook.chapters.n02_greedy_packing.runs import newest, one_by_one, told
from packlib.workbook.chapters.shared.histograms import shown_name
from packlib.workbook.chapters.shared.packs import draw_packs
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure, percent
from packlib.workbook.questions import Question, Questions

WAYS = {"worst_fit": "most space, one by one", "spfhp": "SPFHP, all copies at once", "lpfhp": "LPFHP, least space"}
EIGHT, SLOTS = (9, 7, 6, 5, 4, 3, 2, 2), 10  # the sequences that are packed by hand


class StepByStep(Explorer):
    """Three ways beside each other, one sequence at a time."""

    title = "Which pack takes the next sequence?"
    telling = ("lengths", "step")

    def __init__(
        self,
        dataset: str = "wikipedia",
        depth: int | None = None,
        seed: int = 0,
        own: Sequence[int] = (4, 4, 3, 3, 3, 3),
        slots: int = SLOTS,
    ):
        histogram, rng = load(dataset), np.random.default_rng(seed)
        share = histogram.counts / histogram.num_sequences
        drawn = rng.choice(len(share), 8, p=share).tolist()
        self.sets = {
            "the eight above": (EIGHT, SLOTS),
            "four threes": ((3, 3, 3, 3), SLOTS),
            "your own": (LengthHistogram.from_lengths(own, slots).expand().tolist(), slots),
            f"eight of {shown_name(histogram)}": (drawn, histogram.max_length),
        }
        self.depth = depth if depth in range(1, 6) else 0
        super().__init__()

    def controls(self):
        return {
            "lengths": choice("Sequences", self.sets, "four threes"),
            "depth": choice("Depth limit", [("none", 0), *((str(d), d) for d in range(1, 6))], self.depth),
            "step": slider("Sequences placed", 0, 4, value=4),
        }

    def row(self, name, control):
        """The steps get a play button below their slider."""
        if name != "step":
            return super().row(name, control)
        self.player = widgets.Play(interval=1500, tooltip="Play the steps")
        for trait in ("max", "min", "value"):  # it takes them over from the slider
            widgets.link((control, trait), (self.player, trait))
        return widgets.VBox([control, widgets.HBox([widgets.Label("Play the steps:"), self.player])])

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
            ax.set_title(f"{way}\n{len(packs)} packs, {percent(full, 0)} full", fontsize=12)
            words.append(f"{way[0].upper()}{way[1:]}: {told(packs) or 'no pack yet'}; {percent(full)} full.")
        waiting = ", ".join(map(str, sequences[step:])) or "none"
        fig.suptitle(f"Waiting: {waiting}", x=0.02, ha="left")
        return fig, " ".join(words)


QUESTIONS = Questions(
    first_rule=Question(
        "How many packs does the rule of the most space fill with the eight?",
        unit="packs",
        truth=lambda packs: len(packs),
        why="The first four open packs, because no two of them fit together. The 4, the 3 and a 2 then go to the "
        "emptiest pack each. Every pack is left with one slot, so there is no room for the last 2.",
    ),
    better_rule=Question(
        "Which choice needs fewer packs for the eight: most space, least space or neither?",
        truth=lambda most, least: (
            "neither" if len(most) == len(least) else "least space" if len(least) < len(most) else "most space"
        ),
        why="The least space fills packs up and keeps the large spaces, so there is room at the end.",
        choices={
            "most space": "Place 4, 3, 2 and 2 again: each pack is left with one slot that nothing can use.",
            "least space": "",
            "neither": "They start in the same way, but the 4 already goes elsewhere.",
        },
    ),
    four_threes=Question(
        "How many packs of ten does SPFHP fill with four sequences of 3?",
        unit="packs",
        truth=lambda packs: packs,
        why="No pack is open when the four are placed, so each copy opens its own. One at a time, the first pack "
        "would take three of them.",
    ),
    strategies=Question(
        "How many strategies does SPFHP's plan have?",
        unit="strategies",
        by_factor=True,
        truth=lambda strategies, lengths: strategies,
        why=lambda strategies, lengths: (
            f"Placing a length splits at most one group of equal packs, so each of the {lengths} lengths adds at most "
            "one strategy."
        ),
    ),
    depth_two=Question(
        "If at most two sequences may share a pack, how full are Wikipedia's packs, in percent?",
        unit="%",
        truth=lambda efficiency, full: 100 * efficiency,
        why=lambda efficiency, full: (
            f"Sequences of full length take {percent(full, 0)} of the packs. Most of the others have room for a third."
        ),
    ),
    cause=Question(
        "What costs SPFHP so many packs of definitions: most space, all copies at once, or short sentences?",
        truth=lambda one_by_one, spfhp, lpfhp: (
            "most space" if one_by_one - lpfhp > spfhp - one_by_one else "all copies at once"
        ),
        why=lambda one_by_one, spfhp, lpfhp: (
            f"One sequence at a time, the most space needs {one_by_one:,} packs and LPFHP {lpfhp:,}; SPFHP fills "
            f"{spfhp:,}, because each copy that finds no space opens a pack, in the hope that shorter ones fill it."
        ),
        choices={
            "most space": "Compare with the same choice made one sequence at a time.",
            "all copies at once": "Compare with the same choice made one sequence at a time.",
            "short sentences": "LPFHP packs the same sentences.",
        },
    ),
    next_fit=Question(
        "How full does next-fit leave Wikipedia's packs, in percent?",
        unit="%",
        truth=lambda efficiency: 100 * efficiency,
        why="A pack is closed by a sequence that is too long for it, however much space is left.",
    ),
    stream_or_chunks=Question(
        "With the larger memory, which needs fewer packs: stream, chunks or neither?",
        truth=lambda winner: winner[max(winner)],
        why=lambda winner: (
            "A chunk is sorted before it is packed, but each starts anew and leaves a few packs half empty. A stream "
            "goes on, but has to place a sequence before it knows what comes. With room for "
            f"{min(winner)} packs: {winner[min(winner)]}."
        ),
        choices={
            "stream": "A larger window hardly helps the stream.",
            "chunks": "The larger the chunks, the better; these are too small.",
            "neither": "With so much room the numbers differ.",
        },
    ),
    depth_three=Question(
        "At depth 3, how full does a stream packer leave Wikipedia's packs, in percent?",
        unit="%",
        truth=lambda efficiency: 100 * efficiency,
        why="In random order, long and short sequences meet. From long to short, LPFHP finds a perfect partner for "
        "each long one, and only short ones are left: three of 45 tokens are all that a pack may then hold.",
    ),
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


def _place(spaces, length, copies, slots, choose=max):
    """A learner's loop: one copy at a time, into new packs too."""
    spaces = list(spaces)
    for _ in range(copies):
        able = [space for space in spaces if space >= length] or spaces.append(slots) or [slots]
        spaces[spaces.index(choose(able))] -= length
    return sorted(spaces)


def _loop(lengths, max_length, depth, choose=min):
    """A learner's loop: in the order given, `choose` picks the pack by its space."""
    packs = []
    for length in lengths:
        able = [p for p in packs if sum(p) + length <= max_length and len(p) < depth]
        choose(able, key=lambda p: -sum(p), default=packs).append(length if able else [length])
    return len(packs)


def not_fooled(lengths):
    """Why `lengths` do not make LPFHP take a pack too many, or None if they do."""
    lengths = list(lengths)
    if not 1 <= len(lengths) <= 8 or not set(lengths) <= set(range(1, SLOTS + 1)):
        return f"give one to eight whole lengths from 1 to {SLOTS}."
    histogram = LengthHistogram.from_lengths(lengths, SLOTS)
    greedy, best = plan(histogram, method="lpfhp").num_packs, plan(histogram, method="optimal").num_packs
    return None if greedy > best else f"packs by LPFHP: {greedy}; packs of the best packing: {best}."


EXERCISES = Exercises(
    [
        Exercise(
            "tightest_space",
            tightest_space,
            cases=(([], 3), ([4], 3), ([2], 3), ([3], 3), ([5, 4, 7], 3), ([1, 2, 6, 3, 6], 4)),
            wrong={
                "the most space": lambda spaces, length: max([s for s in spaces if s >= length], default=0),
                "wants a slot to spare": lambda spaces, length: min([s for s in spaces if s > length], default=0),
                "forgets that it must fit": lambda spaces, length: min(spaces, default=0),
                "the first that takes it": lambda spaces, length: next((s for s in spaces if s >= length), 0),
            },
            hint="first keep the spaces that are large enough, then take the smallest of them.",
            level=1,
            minutes=5,
        ),
        Exercise(
            "place_copies",
            place_copies,
            cases=(
                ([], 3, 1, 10), ([5], 3, 1, 10), ([], 3, 4, 10), ([4, 6], 3, 2, 10), ([4, 6], 3, 5, 10),
                ([7, 2, 9], 3, 6, 10), ([20, 11], 6, 8, 32),
            ),
            wrong={
                "one at a time": _place,
                "the least space": partial(_place, choose=min),
                "one copy a pack": lambda spaces, length, copies, slots: sorted(
                    [s - length * (i < copies) for i, s in enumerate(sorted(spaces, reverse=True)) if s >= length]
                    + [slots - length] * max(0, copies - len(spaces))
                ),
                "forgets the new packs": lambda spaces, *given: place_copies(spaces, *given)[: len(spaces)],
            },
            hint="an old pack takes copies as long as it is the emptiest that has room. A new pack takes one copy of "
            "this length, so keep the new packs in a list of their own until all copies are placed.",
            level=2,
            minutes=15,
        ),
        Exercise(
            "lpfhp_packs",
            lpfhp_packs,
            cases=(
                ([3], 4, 1), ([1, 3], 4, 2), ([1, 1], 4, 1), ([2, 1, 3, 2], 4, 4), ([2, 1, 1, 3, 1], 4, 2),
                (list(EIGHT), SLOTS, 8), (list(EIGHT), SLOTS, 2), ([8, 5, 5, 4, 4, 3, 3, 2, 1, 1], 12, 3),
                ([14, 10, 6, 5, 3, 2, 2], 14, 9),
            ),
            wrong={
                "shortest pack first": lambda x, top, depth: _loop(sorted(x, reverse=True), top, depth, max),
                "takes them as they come": _loop,
                "from short to long": lambda x, top, depth: _loop(sorted(x), top, depth),
                "forgets the depth limit": lambda x, top, depth: lpfhp_packs(x, top, 99),
                "the area bound": lambda x, top, depth: -(-sum(x) // top),
                "the first pack with room": lambda x, top, depth: _loop(
                    sorted(x, reverse=True), top, depth, lambda able, key, default: next(iter(able), default)
                ),
            },
            hint="from long to short, into the pack with the least space that has room and is below the depth limit.",
            level=2,
            minutes=10,
        ),
        Exercise(
            "fools_lpfhp",
            [4, 4, 3, 3, 3, 3],
            fault=not_fooled,
            wrong={
                "fools SPFHP alone": list(EIGHT),
                "full packs": [5, 5, 5, 5],
                "too many": [4, 4, 3, 3, 3, 3] * 2,
                "too long": [11, 4, 4, 3, 3, 3],
            },
            hint="two packs that are exactly full are a good start: which of their lengths would LPFHP join instead?",
            level=3,
            minutes=15,
        ),
    ]
)  # fmt: skip
check = EXERCISES
