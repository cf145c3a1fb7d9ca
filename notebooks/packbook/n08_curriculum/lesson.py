"""The explorer and the questions of notebook 08."""

import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice
from packbook.figures import percent
from packbook.n08_curriculum.figures import draw_growth
from packbook.questions import Questions
from packlib.batches import SequenceLengthWarmup


class WarmupExplorer(Explorer):
    """Show the row lengths of a run with a length warm-up, what they save, and how many shapes they make.

    Args:
        duration: of the warm-up at first, as a share of the run.
    """

    title = "What does a length warm-up save?"
    shown_controls = ("duration", "step")

    def __init__(self, duration: float = 0.3) -> None:
        self.durations = sorted({0.1, 0.3, 0.5, 0.7, 0.9, round(float(duration), 2)})
        self.duration = round(float(duration), 2)
        super().__init__()

    def controls(self):
        return {
            "duration": choice(
                "Duration", [(f"{100 * share:.0f} %", share) for share in self.durations], self.duration
            ),
            "shortest": choice("First length", [8, 16, 32, 64], 8),
            "step": choice("Step", [1, 8, 16, 32, 64], 8),
        }

    def draw(self, duration, shortest, step) -> tuple[Figure, str]:
        warmup = SequenceLengthWarmup(duration, shortest, 128, step)
        lengths = [warmup.length(done, 1000) for done in range(1000)]  # of the rows in each update
        fig, alt = draw_growth({duration: lengths})
        num_shapes = len(set(lengths))
        saved = percent(float(1 - np.mean(lengths) / 128))
        return fig, f"First length {shortest}, steps of {step}: {num_shapes} shapes, {saved} of the slots saved. {alt}"


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
