"""Notebook 15: chats and rewarded answers, which of their tokens count, and how much."""

from collections import Counter
from collections.abc import Mapping

from matplotlib.figure import Figure

from packbook.exercises import Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure
from packbook.n15_fine_tuning.figures import draw_weights, weights_in_words
from packbook.n15_fine_tuning.runs import GROUPS, LENGTHS, PARTS, WAYS
from packbook.questions import Questions

# the micro-batch of each answer, by what lies in the first
SPLITS = {"A, E and F": PARTS, "A alone": (0, 1, 1, 1, 1, 1), "A, B and C": (0, 0, 0, 1, 1, 1)}


class WeightsExplorer(Explorer):
    """Six answers under the five ways; the first has any length, and any of them lies in the first micro-batch."""

    title = "What does each answer weigh?"

    def controls(self):
        return {
            "length": slider("Tokens of A", 1, 40, LENGTHS[0]),
            "first": choice("First micro-batch", SPLITS, "A, E and F"),
            "constant": slider("Constant", 36, 360, 72, 12),
        }

    def data(self):
        """The other answers, what groups and micro-batches they are in, and the ways."""
        return {"lengths": LENGTHS[1:], "groups": GROUPS, "splits": SPLITS, "ways": WAYS}

    def draw(self, length: int, first: str, constant: int) -> tuple[Figure, str]:
        fig, ax = new_figure()
        lengths = (length, *LENGTHS[1:])
        found = draw_weights(ax, lengths, GROUPS, SPLITS[first], constant, WAYS)
        alone = {way: float(weights[0] / weights.sum()) for way, weights in found.items()}
        tokens = f"{length} token{'s' * (length > 1)}"
        ax.set_title(f"A, of {tokens}, weighs {100 * min(alone.values()):.0f} to {100 * max(alone.values()):.0f} %")
        words = f"A has {tokens}; {first} in the first micro-batch; a constant of {constant}. "
        return fig, f"{words}What A to F weigh, {weights_in_words(found)}."


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "predicted": lambda chats, rollouts: chats,
        "short_token": lambda a, b: a / b,
        "survives": lambda moved: _survivor(moved),
        "errors": lambda raised: sum(raised.values()),
        "updates": lambda factor: 1000 / factor,
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


def _survivor(moved: Mapping[str, tuple[float, float]]) -> str:
    return min(WAYS[:4], key=lambda way: moved[way][1])


# Exercises


def asked(turns):
    """How many tokens of a chat are predicted; `turns` are pairs of a role and its number of tokens."""
    answers = sum(tokens for role, tokens in turns if role == "assistant")
    return answers - (turns[0][0] == "assistant")  # no slot comes before the first token of a chat


def group_weights(lengths, groups):
    """What one token of each answer weighs in the mean over groups of the mean over the tokens of each."""
    tokens = Counter()
    for length, group in zip(lengths, groups, strict=True):
        tokens[group] += length
    return [1 / (len(tokens) * tokens[group]) for group in groups]


def slot_weights(labels, segments, sequences):
    """What the loss of each slot is multiplied by, so that all micro-batches add up to the mean over sequences."""
    weights = []
    for row, owner in zip(labels, segments, strict=True):
        slots = range(len(row))
        asked = [owner[t] == owner[t + 1] > 0 and row[t + 1] != -100 for t in slots[:-1]] + [False]
        counts = Counter(owner[t] for t in slots if asked[t])
        weights.append([1 / (sequences * counts[owner[t]]) if asked[t] else 0.0 for t in slots])
    return weights


check = Exercises.beside(__file__, asked, group_weights, slot_weights)
