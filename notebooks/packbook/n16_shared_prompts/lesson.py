"""The explorer and the questions of notebook 16."""

import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, styled
from packbook.n16_shared_prompts import figures, runs
from packbook.questions import Questions

_AXES = (50, 100, 200, 380)  # ends of the axis in tokens; few, so that pictures with the same axis can be compared


class SharedTree(Explorer):
    """Show a group's mask, and its tokens with the prompt once and with a prompt for each answer."""

    title = "What does a group save, and who sees whom?"

    def controls(self):
        return {
            "prompt": slider("Tokens of the prompt", 1, 24, 8),
            "answers": slider("Answers", 1, 8, 3),
            "length": slider("Tokens of an answer", 1, 12, 4),
            "tree": widgets.Checkbox(True, description="Tree mask"),
        }

    def data(self):
        """Return no data: the browser draws a group from the controls alone."""
        return {}

    @styled()
    def draw(self, prompt: int, answers: int, length: int, tree: bool) -> tuple[Figure, str]:
        columns = runs.one_row([0] * prompt, [[1 + answer] * length for answer in range(answers)])
        tree_pairs = runs.pairs_of(columns["seen_until"])  # (slots, slots)
        pairs = tree_pairs if tree else np.tril(np.ones_like(tree_pairs))
        tokens_shared, tokens_unshared = len(pairs), answers * (prompt + length)
        ratio = f"{tokens_unshared / tokens_shared:.2f}"
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        figures.draw_tree(left, pairs, runs.branches(columns))
        num_across = int((pairs & ~tree_pairs).sum())
        left.set_title(f"{pairs.sum():,} pairs, {num_across:,} of them between answers", fontsize=12)
        end = next(end for end in _AXES if 1.3 * tokens_unshared <= end)  # there is room for a label behind the bar
        bars = (("prompt once", tokens_shared, figures.ANSWERS[0]), ("a prompt each", tokens_unshared, figures.PROMPT))
        for row, (name, tokens, color) in enumerate(bars):
            right.barh(row, tokens, height=0.6, color=color)
            right.text(tokens + end / 76, row, f"{tokens} tokens", va="center", fontsize=11)
            right.text(end / 190, row - 0.42, name, fontsize=11)
        right.set(yticks=[], xlim=(0, end), ylim=(1.6, -0.8), xlabel="tokens")
        right.set_title(f"a prompt each: {ratio} times as many tokens", fontsize=12)
        mask = "with the tree mask" if tree else "with a causal mask alone"
        group = f"A prompt of {prompt} with {answers} answer{'s' * (answers > 1)} of {length}"
        words = f"{group}, {mask}: {tokens_shared} tokens in place of {tokens_unshared}, which is "
        return fig, f"{words}{ratio} times as many; {num_across} pairs let an answer see another."


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
