"""Trees of what sequences share: prompts, the turns of a chat, branches of a rollout.

Sequences of one group that begin with the same tokens share them. Laid over one another they form a tree: a node is a
run of tokens, and every sequence is a path from a root. Groups have nothing to do with each other, so a group becomes
one tree, or several if its sequences begin differently:

    1 2 3 4            1 2 ─┬─ 3 ─┬─ 4
    1 2 3 5 6     →         │     └─ 5 6
    1 2 7                   └─ 7

A row holds some paths of a tree, and each node of these paths once. The last token of a node stands at the **head** of
each of its children instead of at the node's own end, because it predicts the first token of every child, and a slot
predicts one token. In a row a root of n tokens therefore takes n - 1 slots, an inner node n and a leaf n + 1; a path
alone takes as many slots as it has tokens. Another row that holds other paths of the same tree repeats what they share.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from packlib.arguments import shown, sized
from packlib.lengths.counting import Place, as_int64

ROOT = -1  # the parent of a node without one


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of sequences: nodes in the order of a walk, each before what is below it, tree after tree.

    Attributes:
        parents: for each node, the node above it, -1 for a root; int64, shape (number of nodes,).
        tokens: for each node, how many tokens it has; same shape.
        leaves: for each sequence, the leaf at the end of a path that holds it; int64, shape (number of sequences,). A
            sequence that is the beginning of another ends before the leaf; both are in the same row.
        lengths: for each sequence, how many tokens it has; shape (number of sequences,).
    """

    parents: np.ndarray
    tokens: np.ndarray
    leaves: np.ndarray
    lengths: np.ndarray

    @cached_property
    def slots(self) -> np.ndarray:
        """Slots that each node takes in each row that holds it; int64, shape (number of nodes,)."""
        is_root = self.parents == ROOT
        is_leaf = np.ones(len(self.parents), bool)
        is_leaf[self.parents[~is_root]] = False
        return self.tokens + is_leaf - is_root  # because heads are with the children, see the top of this file

    @cached_property
    def roots(self) -> np.ndarray:
        """The first node of each tree; int64, ascending."""
        return np.flatnonzero(self.parents == ROOT)

    def path(self, leaf: int) -> list[int]:
        """Return the nodes from the root to a leaf."""
        path = [leaf]
        while self.parents[path[-1]] != ROOT:
            path.append(int(self.parents[path[-1]]))
        return path[::-1]


def shared_trees(
    sequences: Sequence[Iterable[int]], groups: Iterable[Hashable], apart: Sequence[Iterable[Any]] | None = None
) -> Trees:
    """Find what the sequences of each group share, from their beginnings on.

    >>> from packlib.packing.trees import shared_trees
    >>> trees = shared_trees([[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]], groups=[0, 0, 0])
    >>> trees.parents.tolist(), trees.tokens.tolist(), trees.leaves.tolist()
    ([-1, 0, 1, 1, 0], [2, 1, 1, 2, 1], [2, 3, 4])

    Args:
        sequences: the tokens of each sequence, 1 or more.
        groups: for each sequence the name or number of its group.
        apart: for each sequence a value for each token, such as its old log-probability or its route through experts.
            Tokens are shared only where these are equal, too.

    Raises:
        TypeError, ValueError: naming the sequence that is wrong.
    """
    tokens_of = _token_arrays(sequences)
    members_of = _members_of_groups(groups, len(tokens_of))
    keys_of = tokens_of if apart is None else _keys(tokens_of, apart)
    building = _Building()
    for members in members_of.values():
        building.add_group(members, [keys_of[sequence].tolist() for sequence in members])
    return building.finished(np.array([*map(len, tokens_of)]))


def group_trees(prompts: Iterable[int], answers: Iterable[Iterable[int]]) -> Trees:
    """Return the trees of prompts with answers that share nothing else, from their numbers of tokens alone.

    >>> from packlib.packing.trees import group_trees
    >>> trees = group_trees([5, 3], [[2, 1], [4]])
    >>> trees.parents.tolist(), trees.tokens.tolist(), trees.lengths.tolist()
    ([-1, 0, 0, -1], [5, 2, 1, 7], [7, 6, 7])

    Args:
        prompts: tokens of each group's prompt, 1 or more.
        answers: for each group the tokens of each of its answers, 1 or more. They are the sequences, in this order.

    Raises:
        TypeError, ValueError: naming the group that is wrong.
    """
    prompt_lengths, answer_lengths_of = _prompts_and_answers(prompts, answers)
    parents, tokens, leaves = list[int](), list[int](), list[int]()
    lengths = list[int]()
    for prompt, answer_lengths in zip(prompt_lengths, answer_lengths_of, strict=True):
        root = len(parents)
        parents.append(ROOT)
        lengths += [prompt + answer for answer in answer_lengths]
        if len(answer_lengths) == 1:  # nothing is shared: prompt and answer are one node
            tokens.append(lengths[-1])
            leaves.append(root)
        else:
            parents += [root] * len(answer_lengths)
            tokens += [prompt, *answer_lengths]
            leaves += range(root + 1, len(parents))
    return Trees(np.array(parents), np.array(tokens), np.array(leaves), np.array(lengths))


def _prompts_and_answers(
    prompts: Iterable[int], answers: Iterable[Iterable[int]]
) -> tuple[list[int], list[list[int]]]:
    """Return the tokens of each group's prompt, and of its answers, or raise the errors of `group_trees`."""
    prompt_lengths = as_int64(prompts, "Prompt").tolist()
    if not isinstance(answers, Iterable):
        raise TypeError(f"answers must have a list of lengths for each group, not {answers!r}.")
    answer_lengths_of = [
        as_int64(answer_lengths, "Answer", _position_in(f"group {group}")).tolist()
        for group, answer_lengths in enumerate(answers)
    ]
    if not prompt_lengths or len(prompt_lengths) != len(answer_lengths_of):
        raise ValueError(
            f"prompts and answers must have one entry for each group, not {len(prompt_lengths)} and "
            f"{len(answer_lengths_of)}."
        )
    for group, (prompt, answer_lengths) in enumerate(zip(prompt_lengths, answer_lengths_of, strict=True)):
        if prompt < 1:
            raise ValueError(f"The prompt of group {group} must have at least 1 token, not {prompt}.")
        if min(answer_lengths, default=0) < 1:
            shortest = f"one of {min(answer_lengths)} tokens" if answer_lengths else "none"
            raise ValueError(f"Group {group} must have answers of at least 1 token, not {shortest}.")
    return prompt_lengths, answer_lengths_of


def _position_in(owner: str) -> Place:
    """Return a function that makes the words for a place in an error, such as "position 3 of sequence 5"."""
    return lambda index: f"position {index} of {owner}"


def _token_arrays(sequences: Sequence[Iterable[int]]) -> list[np.ndarray]:
    """Return the tokens of each sequence as int64, or raise an error that names the sequence that is wrong."""
    if not isinstance(sequences, Iterable) or isinstance(sequences, (str, bytes)):
        raise TypeError(f"sequences must be a list of token lists, not {sequences!r}.")
    arrays = [as_int64(tokens, "Token", _position_in(f"sequence {at}")) for at, tokens in enumerate(sequences)]
    if not arrays:
        raise ValueError("sequences must hold at least one sequence; there is none.")
    for at, tokens in enumerate(arrays):
        if not len(tokens):
            raise ValueError(f"Sequence {at} must have at least 1 token, not 0.")
    return arrays


def _members_of_groups(groups: Iterable[Hashable], num_sequences: int) -> dict[Hashable, list[int]]:
    """Return the numbers of each group's sequences, by the group's name, or raise an error of `shared_trees`."""
    if not isinstance(groups, Iterable) or isinstance(groups, (str, bytes)):
        raise TypeError(f"groups must be a list with a name for each sequence, not {shown(groups)}.")
    names = list(groups)
    if len(names) != num_sequences:
        raise ValueError(f"groups must have {num_sequences} entries, one for each sequence, not {len(names)}.")
    members_of: dict[Hashable, list[int]] = {}
    for sequence, name in enumerate(names):
        if not isinstance(name, Hashable):
            raise TypeError(f"groups must be names or numbers: that of sequence {sequence} is {shown(name)}.")
        members_of.setdefault(name, []).append(sequence)
    return members_of


def _keys(sequences: list[np.ndarray], apart: Sequence[Iterable[Any]]) -> list[np.ndarray]:
    """Return a number for each token, the same only where both the token and its value in `apart` are the same.

    `apart` is that of `shared_trees`, and so are the errors.
    """
    if sized("apart", apart) != len(sequences):
        raise ValueError(f"apart must have {len(sequences)} entries, one for each sequence, not {len(apart)}.")
    number_of: dict[tuple, int] = {}  # by token and value
    keys = []
    for at, (tokens, values_apart) in enumerate(zip(sequences, apart, strict=True)):
        if not isinstance(values_apart, Iterable):
            raise TypeError(f"apart must have a list of values for sequence {at}, not {shown(values_apart)}.")
        values = values_apart.tolist() if isinstance(values_apart, np.ndarray) else list(values_apart)
        if len(values) != len(tokens):
            raise ValueError(
                f"apart must have {len(tokens)} values for sequence {at}, one for each token, not {len(values)}."
            )
        pairs = zip(tokens.tolist(), map(_comparable, values), strict=True)
        keys.append(np.array([number_of.setdefault(pair, len(number_of)) for pair in pairs]))
    return keys


def _comparable(value: Any) -> Hashable:
    """Return a value that `==` and a dict can compare: lists and arrays become tuples, NumPy's numbers Python's."""
    if isinstance(value, (list, np.ndarray)):
        return tuple(map(_comparable, value))
    value = value.item() if hasattr(value, "item") else value
    return object() if value != value else value  # NaN is equal to nothing


class _Building:
    """Nodes of trees while sequences come in, group after group.

    Attributes:
        begins, ends: for each node, its tokens as positions in the sequences that run through it, `ends` excluded.
        parents: for each node, the node above it, or `ROOT`.
        sequences: for each node, the numbers of the sequences that end in it.
        firsts: for each node, the lowest number of a sequence that runs through it.
    """

    def __init__(self) -> None:
        self.begins = list[int]()
        self.ends = list[int]()
        self.parents = list[int]()
        self.sequences = list[list[int]]()
        self.firsts = list[int]()

    def add_group(self, members: list[int], tokens_of: list[list[int]]) -> None:
        """Add the sequences of a group in the alphabetical order of their tokens.

        In this order, a sequence shares no more tokens with any earlier one than with the one just before it. So its
        path leaves the path of that one, and no node of another path needs a look.

        Args:
            members: the numbers of the sequences.
            tokens_of: the tokens of each, in the order of `members`.
        """
        path = list[int]()  # nodes from the root to the end of the sequence before
        tokens_before: list[int] = []
        for at in sorted(range(len(members)), key=tokens_of.__getitem__):
            sequence, tokens = members[at], tokens_of[at]
            common = _num_common(tokens_before, tokens)
            while path and self.begins[path[-1]] >= common:
                path.pop()
            if path and common < self.ends[path[-1]]:
                path[-1] = self._upper_half(path[-1], common)
            for node in path:
                self.firsts[node] = min(self.firsts[node], sequence)
            is_same = bool(path) and common == len(tokens)  # as the sequence before
            if not is_same:
                path.append(self._new_node(common, len(tokens), path[-1] if path else ROOT, sequence))
            self.sequences[path[-1]].append(sequence)
            tokens_before = tokens

    def _new_node(self, begin: int, end: int, parent: int, first_sequence: int) -> int:
        """Add a node in which no sequence ends so far, and return its number."""
        self.begins.append(begin)
        self.ends.append(end)
        self.parents.append(parent)
        self.sequences.append([])
        self.firsts.append(first_sequence)
        return len(self.begins) - 1

    def _upper_half(self, node: int, end: int) -> int:
        """Cut a node in two at a position of its sequences; return the first half, a new node.

        The second half keeps the number of the node, with its children and the sequences that end in it.
        """
        upper = self._new_node(self.begins[node], end, self.parents[node], self.firsts[node])
        self.begins[node], self.parents[node] = end, upper
        return upper

    def finished(self, lengths: np.ndarray) -> Trees:
        """Put the nodes in the order of a walk, those with earlier sequences first; join a node to an only child.

        Args:
            lengths: tokens of each sequence; shape (number of sequences,).
        """
        children: list[list[int]] = [[] for _ in self.parents]
        roots = list[int]()
        for node, parent in enumerate(self.parents):
            (roots if parent == ROOT else children[parent]).append(node)
        parents, tokens = list[int](), list[int]()
        leaves = np.empty(len(lengths), np.int64)
        late_to_early = sorted(roots, key=self.firsts.__getitem__, reverse=True)
        waiting = [(root, ROOT) for root in late_to_early]  # each with its parent in the walk; the last comes next
        without_leaf = list[int]()  # sequences that ended since the last leaf; the next leaf is below all of them
        while waiting:
            node, parent = waiting.pop()
            begin = self.begins[node]
            without_leaf += self.sequences[node]
            while len(children[node]) == 1:  # one node of the walk has the tokens of both
                node = children[node][0]
                without_leaf += self.sequences[node]
            number = len(parents)
            parents.append(parent)
            tokens.append(self.ends[node] - begin)
            if not children[node]:
                leaves[without_leaf] = number
                without_leaf = []
            late_to_early = sorted(children[node], key=self.firsts.__getitem__, reverse=True)
            waiting += [(child, number) for child in late_to_early]
        return Trees(np.array(parents), np.array(tokens), leaves, lengths)


def _num_common(first: list[int], second: list[int]) -> int:
    """Return how many tokens two sequences begin with in common."""
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:
        return shorter
    low, high = 0, shorter  # they agree in the first `low` tokens, and not in the first `high`
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low
