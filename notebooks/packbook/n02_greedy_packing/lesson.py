"""The explorer and the questions of notebook 02."""

import itertools
from collections.abc import Sequence

from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.n02_greedy_packing import figures
from packbook.n02_greedy_packing.runs import EIGHT, SLOTS, newest, one_by_one
from packbook.questions import Questions
from packbook.shared.histograms import sample_lengths, shown_name
from packlib.lengths import LengthHistogram, load


class StepByStep(Explorer):
    """Show the packs of three greedy rules next to each other, one sequence at a time.

    Args:
        dataset: from which eight sequences are drawn at random.
        depth: the depth limit at first; one above 5, or None, is no limit here.
        own: lengths of the reader's own.
        slots: of a pack for these lengths.
    """

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
        """Return the sequences, the rules, and in `placed` the pack that takes each sequence, from long to short.

        `placed` is indexed by the name of the sequences, the depth limit (0 is none), the rule and the sequence.
        """
        sets, placed = {}, {}
        for name, (lengths, slots) in self.sets.items():
            sets[name] = [sorted(lengths, reverse=True), slots]
            placed[name] = [
                [self._packs_of(lengths, slots, rule, depth) for rule in figures.WAYS] for depth in range(6)
            ]
        return {"sets": sets, "ways": list(figures.WAYS.values()), "placed": placed}

    @staticmethod
    def _packs_of(lengths: Sequence[int], slots: int, rule: str, depth: int) -> list[int]:
        """Return the index of the pack that takes each sequence, from long to short."""
        steps = [[], *one_by_one(lengths, slots, rule, depth)]
        return [newest(after, before) for before, after in itertools.pairwise(steps)]

    def react(self, name):
        if name == "lengths":
            self.widgets["step"].max = len(self.sets[self.widgets["lengths"].value][0])

    def draw(self, lengths: str, depth: int, step: int) -> tuple[Figure, str]:
        unordered, slots = self.sets[lengths]
        sequences = sorted(unordered, reverse=True)
        steps = {rule: [[], *one_by_one(sequences, slots, rule, depth)] for rule in figures.WAYS}
        limit = f"at most {depth} in a pack" if depth else "no depth limit"
        fig, sentences = figures.draw_ways(steps, sequences, slots, step)
        setting = f"{lengths.capitalize()}, packs of {slots}, {limit}, {step} of {len(sequences)} placed."
        return fig, " ".join([setting, *sentences])


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
