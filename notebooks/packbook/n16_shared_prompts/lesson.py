"""The explorer and the questions of notebook 16."""

import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, styled
from packbook.n16_shared_prompts import figures, runs
from packbook.questions import Questions

_AXES = (50, 100, 200, 380)  # tokens; few, so that most moves can be compared


class SharedTree(Explorer):
    """A group of any size: its mask, and its tokens with the prompt once and with a prompt for each answer."""

    title = "What does a group save, and who sees whom?"

    def controls(self):
        return {
            "prompt": slider("Tokens of the prompt", 1, 24, 8),
            "answers": slider("Answers", 1, 8, 3),
            "length": slider("Tokens of an answer", 1, 12, 4),
            "tree": widgets.Checkbox(True, description="Tree mask"),
        }

    def data(self):
        """Return nothing: the tree of a group is its three numbers."""
        return {}

    @styled()
    def draw(self, prompt: int, answers: int, length: int, tree: bool) -> tuple[Figure, str]:
        columns = runs.one_row([0] * prompt, [[1 + at] * length for at in range(answers)])
        right_pairs = runs.pairs_of(columns["seen_until"])
        pairs = right_pairs if tree else np.tril(np.ones_like(right_pairs))
        once, each = len(pairs), answers * (prompt + length)
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        figures.draw_tree(left, pairs, runs.branches(columns))
        strangers = int((pairs & ~right_pairs).sum())
        left.set_title(f"{pairs.sum():,} pairs, {strangers:,} of them between answers", fontsize=12)
        most = next(most for most in _AXES if 1.3 * each <= most)  # the rest is room for a label
        for at, (name, tokens) in enumerate({"prompt once": once, "a prompt each": each}.items()):
            right.barh(at, tokens, height=0.6, color=figures.PROMPT if at else figures.ANSWERS[0])
            right.text(tokens + most / 76, at, f"{tokens} tokens", va="center", fontsize=11)
            right.text(most / 190, at - 0.42, name, fontsize=11)
        right.set(yticks=[], xlim=(0, most), ylim=(1.6, -0.8), xlabel="tokens")
        right.set_title(f"a prompt each: {each / once:.2f} times as many tokens", fontsize=12)
        mask = "with the tree mask" if tree else "with a causal mask alone"
        group = f"A prompt of {prompt} with {answers} answer{'s' * (answers > 1)} of {length}"
        words = f"{group}, {mask}: {once} tokens in place of {each}, which is "
        return fig, f"{words}{each / once:.2f} times as many; {strangers} pairs let an answer see another."


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
