"""The explorer and the questions of notebook 15."""

from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, styled
from packbook.n15_fine_tuning.figures import draw_weights, weights_in_words
from packbook.n15_fine_tuning.runs import GROUPS, LENGTHS, PARTS, WAYS
from packbook.questions import Questions

# the micro-batch, 0 or 1, of each answer, by the answers that are in the first one
SPLITS = {"A, E and F": PARTS, "A alone": (0, 1, 1, 1, 1, 1), "A, B and C": (0, 0, 0, 1, 1, 1)}


class WeightsExplorer(Explorer):
    """Show what each of six answers weighs under the five ways to add up a loss."""

    title = "What does each answer weigh?"

    def controls(self):
        return {
            "length": slider("Tokens of A", 1, 40, LENGTHS[0]),
            "first": choice("First micro-batch", SPLITS, "A, E and F"),
            "constant": slider("Constant", 36, 360, 72, 12),
        }

    def data(self):
        """Return the other answers, what groups and micro-batches they are in, and the ways."""
        return {"lengths": LENGTHS[1:], "groups": GROUPS, "splits": SPLITS, "ways": WAYS}

    @styled()
    def draw(self, length: int, first: str, constant: int) -> tuple[Figure, str]:
        fig, ax = new_figure()
        lengths = (length, *LENGTHS[1:])
        weights_by_way = draw_weights(ax, lengths, GROUPS, SPLITS[first], constant, WAYS)
        shares_of_a = [float(weights[0] / weights.sum()) for weights in weights_by_way.values()]
        tokens = f"{length} token{'s' * (length > 1)}"
        ax.set_title(f"A, of {tokens}, weighs {100 * min(shares_of_a):.0f} to {100 * max(shares_of_a):.0f} %")
        words = f"A has {tokens}; {first} in the first micro-batch; a constant of {constant}. "
        return fig, f"{words}What A to F weigh, {weights_in_words(weights_by_way)}."


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
