"""Notebook 16: a prompt once for all its answers, and the mask that keeps them apart."""

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, percent
from packbook.n16_shared_prompts import figures, runs
from packbook.questions import Questions
from packlib.model.attention import tree_pairs
from packlib.packing import TreeRows


def pairs_of(columns: dict[str, list[int]]) -> np.ndarray:
    """Which slot of a row sees which; bool, shape (slots, slots)."""
    until, positions = (torch.tensor([columns[name]]) for name in ("seen_until", "position_ids"))
    return tree_pairs(until, positions)[0].numpy()


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
        """Nothing: the tree of a group is its three numbers."""
        return {}

    def draw(self, prompt: int, answers: int, length: int, tree: bool) -> tuple[Figure, str]:
        columns = runs.one_row([0] * prompt, [[1 + at] * length for at in range(answers)])
        right_pairs = pairs_of(columns)
        seen = right_pairs if tree else np.tril(np.ones_like(right_pairs))
        once, each = len(seen), answers * (prompt + length)
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        figures.draw_tree(left, seen, runs.branches(columns))
        strangers = int((seen & ~right_pairs).sum())
        left.set_title(f"{seen.sum():,} pairs, {strangers:,} of them between answers", fontsize=12)
        for at, (name, tokens) in enumerate({"prompt once": once, "a prompt each": each}.items()):
            right.barh(at, tokens, height=0.6, color=figures.PROMPT if at else figures.ANSWERS[0])
            right.text(tokens + 5, at, f"{tokens} tokens", va="center", fontsize=11)
            right.text(2, at - 0.42, name, fontsize=11)
        right.set(yticks=[], xlim=(0, 380), ylim=(1.6, -0.8), xlabel="tokens")
        right.set_title(f"{each / once:.2f} times fewer tokens", fontsize=12)
        mask = "with the tree mask" if tree else "with a causal mask alone"
        group = f"A prompt of {prompt} with {answers} answer{'s' * (answers > 1)} of {length}"
        words = f"{group}, {mask}: {once} tokens in place of {each}, "
        return fig, f"{words}{each / once:.2f} times fewer; {strangers} pairs let an answer see another."


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "group_tokens": lambda columns: len(columns["input_ids"]),
        "first_word": lambda words, first: (
            "the last of the prompt" if words[first - 1] == words[4] else "the last of the first answer"
        ),
        "positions": lambda apart: min(apart, key=apart.get),
        "short_prompts": lambda fewer: fewer,
        "whole_above": lambda counted, rows: 100 * (counted["whole groups"] / rows.lower_bound - 1),
    },
    reasons={
        "positions": lambda apart: (
            "Alone, the second answer follows the prompt. With positions that run on through the row, the losses "
            f"differ by up to {max(apart.values()):.1g} nats from those of the answers alone."
        ),
        "whole_above": lambda counted, rows: _why_split(rows),
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


def _why_split(rows: TreeRows) -> str:
    above = percent(len(rows) / rows.lower_bound - 1)
    if not rows.split_trees:
        return f"Here no group has to be split: rows of whole groups are {above} above the fewest that there can be."
    return (
        "Where groups are large, a row that holds one has little room for another as a whole. Splitting "
        f"{rows.split_trees} of {len(rows.trees.roots)} groups, at the price of the shared tokens once more, leaves "
        f"{above}."
    )


# Exercises


def group_tokens(prompt, answers):
    """The tokens of a row that holds a prompt once, and a head for each answer."""
    return prompt - 1 + sum(length + 1 for length in answers)


def tree_positions(prompt, answers):
    """The position of each slot in the row of one group."""
    positions = list(range(prompt - 1))
    for length in answers:
        positions += range(prompt - 1, prompt + length)
    return positions


def tree_mask(prompt, answers):
    """For each slot of the row of one group, which slots it sees: a list of lists of True and False."""
    branch = [0] * (prompt - 1)
    for number, length in enumerate(answers, 1):
        branch += [number] * (length + 1)
    slots = range(len(branch))
    return [[key <= query and branch[key] in (0, branch[query]) for key in slots] for query in slots]


def mask_fault(got, prompt, answers):
    """What is wrong with a mask of any kind of numbers, or None."""
    right, given = np.array(tree_mask(prompt, answers)), np.asarray(got)
    if given.shape != right.shape:
        return f"a mask of the shape {given.shape}; {right.shape} is expected."
    if not np.isin(given.astype(float), (0, 1)).all():
        return "True or 1 for a slot that is seen, False or 0 for one that is not, and nothing else."
    wrong = np.argwhere(given.astype(bool) != right)
    if not len(wrong):
        return None
    query, key = wrong[0].tolist()
    return f"slot {query} {'must see' if right[query, key] else 'must not see'} slot {key}."


check = Exercises.beside(
    __file__,
    group_tokens,
    tree_positions,
    Exercise("tree_mask", tree_mask, fault=mask_fault),
)
