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
from packlib.lengths.counting import as_int64

ROOT = -1  # the parent of a node without one


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of sequences: nodes in the order of a walk, each before what is below it, tree after tree.

    Attributes:
        parents: of each node, the node above it, -1 for a root; int64, shape (number of nodes,).
        tokens: of each node; same shape.
        leaves: for each sequence, a leaf on whose path it stands: a sequence that ends before a leaf, because it is the
            beginning of another, stands in the same row as that one; int64, shape (number of sequences,).
        lengths: tokens of each sequence; same shape.
    """

    parents: np.ndarray
    tokens: np.ndarray
    leaves: np.ndarray
    lengths: np.ndarray

    @cached_property
    def slots(self) -> np.ndarray:
        """Slots that each node takes in a row where it stands; int64, shape (number of nodes,)."""
        is_root, is_leaf = self.parents == ROOT, np.ones(len(self.parents), bool)
        is_leaf[self.parents[~is_root]] = False
        return self.tokens + is_leaf - is_root

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
    >>> found = shared_trees([[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]], groups=[0, 0, 0])
    >>> found.parents.tolist(), found.tokens.tolist(), found.leaves.tolist()
    ([-1, 0, 1, 1, 0], [2, 1, 1, 2, 1], [2, 3, 4])

    Args:
        sequences: the tokens of each sequence, 1 or more.
        groups: for each sequence the name or number of its group.
        apart: for each sequence a value for each token, such as its old log-probability or its route through experts.
            Tokens are shared only where these are equal, too.

    Raises:
        TypeError, ValueError: naming the sequence that is wrong.
    """
    tokens_of = _checked(sequences)
    members: dict[Hashable, list[int]] = {}
    if not isinstance(groups, Iterable) or isinstance(groups, (str, bytes)):
        raise TypeError(f"groups must be a list with a name for each sequence, not {shown(groups)}.")
    names = list(groups)
    if len(names) != len(tokens_of):
        raise ValueError(f"groups must have {len(tokens_of)} entries, one for each sequence, not {len(names)}.")
    for at, name in enumerate(names):
        if not isinstance(name, Hashable):
            raise TypeError(f"groups must be names or numbers: that of sequence {at} is {shown(name)}.")
        members.setdefault(name, []).append(at)
    keys = tokens_of if apart is None else _keys(tokens_of, apart)
    building = _Building()
    for sequences_of_group in members.values():
        building.add_group(sequences_of_group, [keys[at].tolist() for at in sequences_of_group])
    return building.finished(np.array([*map(len, tokens_of)]))


def group_trees(prompts: Iterable[int], answers: Iterable[Iterable[int]]) -> Trees:
    """Return the trees of prompts with answers that share nothing else, from their numbers of tokens alone.

    >>> from packlib.packing.trees import group_trees
    >>> found = group_trees([5, 3], [[2, 1], [4]])
    >>> found.parents.tolist(), found.tokens.tolist(), found.lengths.tolist()
    ([-1, 0, 0, -1], [5, 2, 1, 7], [7, 6, 7])

    Args:
        prompts: tokens of each group's prompt, 1 or more.
        answers: for each group the tokens of each of its answers, 1 or more. They are the sequences, in this order.

    Raises:
        TypeError, ValueError: naming the group that is wrong.
    """
    prompt_lengths = as_int64(prompts, "Prompt")
    if not isinstance(answers, Iterable):
        raise TypeError(f"answers must have a list of lengths for each group, not {answers!r}.")
    answers_of = [
        as_int64(answer_lengths, "Answer", f"position {{}} of group {group}".format)
        for group, answer_lengths in enumerate(answers)
    ]
    if not len(prompt_lengths) or len(prompt_lengths) != len(answers_of):
        raise ValueError(
            f"prompts and answers must have one entry for each group, not {len(prompt_lengths)} and {len(answers_of)}."
        )
    parents, tokens, leaves = list[int](), list[int](), list[int]()
    for group, (prompt, answer_lengths) in enumerate(zip(prompt_lengths.tolist(), answers_of, strict=True)):
        if prompt < 1:
            raise ValueError(f"The prompt of group {group} must have at least 1 token, not {prompt}.")
        if not len(answer_lengths) or answer_lengths.min() < 1:
            shortest = f"one of {answer_lengths.min()} tokens" if len(answer_lengths) else "none"
            raise ValueError(f"Group {group} must have answers of at least 1 token, not {shortest}.")
        root = len(parents)
        if len(answer_lengths) == 1:
            parents = [*parents, ROOT]
            tokens = [*tokens, prompt + int(answer_lengths[0])]
            leaves = [*leaves, root]
            continue
        parents += [ROOT, *[root] * len(answer_lengths)]
        tokens += [prompt, *answer_lengths.tolist()]
        leaves += range(root + 1, len(parents))
    lengths = np.concatenate(
        [prompt + answer_lengths for prompt, answer_lengths in zip(prompt_lengths, answers_of, strict=True)]
    )
    return Trees(np.array(parents), np.array(tokens), np.array(leaves), lengths)


def _checked(sequences: Sequence[Iterable[int]]) -> list[np.ndarray]:
    if not isinstance(sequences, Iterable) or isinstance(sequences, (str, bytes)):
        raise TypeError(f"sequences must be a list of token lists, not {sequences!r}.")
    arrays = [
        as_int64(tokens, "Token", f"position {{}} of sequence {at}".format) for at, tokens in enumerate(sequences)
    ]
    if not arrays:
        raise ValueError("sequences must hold at least one sequence; there is none.")
    for at, tokens in enumerate(arrays):
        if not len(tokens):
            raise ValueError(f"Sequence {at} must have at least 1 token, not 0.")
    return arrays


def _keys(sequences: list[np.ndarray], apart: Sequence[Iterable[Any]]) -> list[np.ndarray]:
    """Return a number for each token, the same only where both the token and its value in `apart` are the same."""
    if sized("apart", apart) != len(sequences):
        raise ValueError(f"apart must have {len(sequences)} entries, one for each sequence, not {len(apart)}.")
    numbers: dict[tuple, int] = {}
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
        keys.append(np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs]))
    return keys


def _comparable(value: Any) -> Hashable:
    if isinstance(value, (list, np.ndarray)):
        return tuple(map(_comparable, value))
    value = value.item() if hasattr(value, "item") else value
    return object() if value != value else value  # NaN is equal to nothing


class _Building:
    """Nodes of trees while sequences come in, in alphabetical order, group after group.

    A node has its first token and the one behind its last as places in the sequences that run through it.
    """

    def __init__(self) -> None:
        self.begins = list[int]()
        self.ends = list[int]()
        self.parents = list[int]()
        self.sequences = list[list[int]]()  # that end in each node
        self.firsts = list[int]()  # the first sequence that runs through each node

    def add_group(self, members: list[int], tokens: list[list[int]]) -> None:
        """Add the sequences `members`, whose tokens these are."""
        path = list[int]()  # the path of the sequence before
        tokens_before: list[int] = []
        for at in sorted(range(len(members)), key=tokens.__getitem__):
            its_tokens, sequence = tokens[at], members[at]
            common = _common(tokens_before, its_tokens)
            while path and self.begins[path[-1]] >= common:
                path.pop()
            if path and common < self.ends[path[-1]]:
                path[-1] = self._upper_half(path[-1], common)
            for node in path:
                self.firsts[node] = min(self.firsts[node], sequence)
            if path and common == len(its_tokens):  # the same as the one before
                self.sequences[path[-1]].append(sequence)
            else:
                path.append(self._new(common, len(its_tokens), path[-1] if path else ROOT, sequence))
                self.sequences[-1].append(sequence)
            tokens_before = its_tokens

    def _new(self, begin: int, end: int, parent: int, first: int) -> int:
        self.begins.append(begin)
        self.ends.append(end)
        self.parents.append(parent)
        self.sequences.append([])
        self.firsts.append(first)
        return len(self.begins) - 1

    def _upper_half(self, node: int, end: int) -> int:
        """Cut a node in two; return its first half, which the children of neither know yet."""
        upper = self._new(self.begins[node], end, self.parents[node], self.firsts[node])
        self.begins[node], self.parents[node] = end, upper
        return upper

    def finished(self, lengths: np.ndarray) -> Trees:
        """Put the nodes in the order of a walk, those with earlier sequences first; join a node to an only child."""
        children: list[list[int]] = [[] for _ in self.parents]
        roots = list[int]()
        for node, parent in enumerate(self.parents):
            (roots if parent == ROOT else children[parent]).append(node)
        parents, tokens = list[int](), list[int]()
        leaves = np.empty(len(lengths), np.int64)
        waiting = [(root, ROOT) for root in sorted(roots, key=self.firsts.__getitem__, reverse=True)]
        carried = list[int]()  # sequences that ended on the way, and stand on the path of the next leaf
        while waiting:
            node, parent = waiting.pop()
            begin = self.begins[node]
            carried += self.sequences[node]
            while len(children[node]) == 1:
                node = children[node][0]
                carried += self.sequences[node]
            parents.append(parent)
            tokens.append(self.ends[node] - begin)
            if not children[node]:
                leaves[carried] = len(parents) - 1
                carried = []
            new_number = len(parents) - 1
            waiting += [(c, new_number) for c in sorted(children[node], key=self.firsts.__getitem__, reverse=True)]
        return Trees(np.array(parents), np.array(tokens), leaves, lengths)


def _common(one: list[int], other: list[int]) -> int:
    """Return the number of tokens that two sequences begin with alike."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most  # they agree in the first `low` tokens, and not in the first `high`
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
