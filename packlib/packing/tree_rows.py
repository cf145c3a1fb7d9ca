"""Rows of trees: what sequences share is computed once in each row, in few rows, with a bound.

`trees.py` finds what sequences share, `tree_filling.py` fills rows with parts of trees, and `search/tree_bound.py`
proves how few rows there can be. The largest tree that is left goes into a row first, with whole trees and parts of
trees beside it. Then a few rows at a time are emptied and filled again. The new rows are kept if they leave at least as
much of the space in one place.
"""

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from packlib.arguments import instance, whole_number
from packlib.lengths.counting import MAX_LENGTH
from packlib.packing.ragged import Ragged
from packlib.packing.search.tree_bound import tree_bound
from packlib.packing.tree_filling import NEAR, Filler, Row, Tree
from packlib.packing.trees import ROOT, Trees, shared_trees

_MOST_WORK = 2_400_000  # nodes that tables go through at most while rows are filled again: about a minute


@dataclass(frozen=True, eq=False, repr=False)
class TreeRows(Ragged):
    """Which sequences are in which row: row `i` holds `sequences[offsets[i]:offsets[i + 1]]`, what they share once.

    `rows[i]` is row i: the numbers of its sequences; int64, shape (number of its sequences,). Sequences that share
    tokens are next to each other, in the order of their tree.

    >>> from packlib.packing import pack_trees
    >>> prompt, answers = [1, 2, 3], [[4, 5], [6, 7], [8]]
    >>> sequences = [*(prompt + answer for answer in answers), [9, 9]]
    >>> rows = pack_trees(sequences, groups=["a", "a", "a", "b"], max_length=12)
    >>> rows[0].tolist(), rows.tokens, rows.unshared_tokens
    ([0, 1, 2, 3], 12, 16)

    Attributes:
        sequences: the numbers of all sequences, row after row; int64, shape (number of sequences,).
        offsets: int64, shape (number of rows + 1,).
        trees: what the sequences share, see `packlib.packing.trees`.
        max_length: slots of a row.
        lower_bound: the proven minimum of rows for these trees.
    """

    sequences: np.ndarray
    offsets: np.ndarray
    trees: Trees
    max_length: int
    lower_bound: int
    _nouns = "row", "rows"

    def __getitem__(self, index: int) -> np.ndarray:
        return self.sequences[self._row(index)]

    def nodes(self, index: int) -> list[int]:
        """Return the nodes of `trees` that row `index` holds, in the order of the walk."""
        nodes = set[int]()
        parents = self.trees.parents
        for leaf in self.trees.leaves[self[index]].tolist():
            while leaf != ROOT and leaf not in nodes:
                nodes.add(leaf)
                leaf = int(parents[leaf])
        return sorted(nodes)

    @cached_property
    def lengths_used(self) -> np.ndarray:
        """Tokens in each row; int64, shape (number of rows,)."""
        slots = self.trees.slots
        return np.array([slots[self.nodes(row)].sum() for row in range(len(self))])

    @property
    def tokens(self) -> int:
        """Tokens in all rows."""
        return int(self.lengths_used.sum())

    @property
    def unshared_tokens(self) -> int:
        """Tokens of all sequences, each alone."""
        return int(self.trees.lengths.sum())

    @property
    def repeated_tokens(self) -> int:
        """Tokens that are in more than one row, counted from the second row on: each row with a part repeats them."""
        return self.tokens - int(self.trees.slots.sum())

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return self.tokens / (len(self) * self.max_length)

    @property
    def split_trees(self) -> int:
        """Trees of which several rows hold something."""
        row_of = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        tree_of = np.searchsorted(self.trees.roots, self.trees.leaves[self.sequences], side="right")
        tree_and_row = np.unique(np.stack([tree_of, row_of]), axis=1)
        _, rows_of_tree = np.unique(tree_and_row[0], return_counts=True)
        return int((rows_of_tree > 1).sum())

    def mask_bytes(self, bytes_each: int = 4) -> int:
        """Return the bytes of a mask with an entry of `bytes_each` bytes for each pair of tokens of the longest row."""
        return int(self.lengths_used.max()) ** 2 * bytes_each

    def verify(self, sequences: Sequence[Iterable[int]] | None = None) -> "TreeRows":
        """Check that no row is too long and each sequence is in one row; return the rows.

        Args:
            sequences: the tokens of each sequence, to check that what is shared is the same in all that share it.

        Raises:
            ValueError: with the first thing that is wrong.
        """
        tokens = self.lengths_used
        if tokens.max() > self.max_length:
            raise ValueError(f"Row {tokens.argmax()} holds {tokens.max()} tokens; the maximum is {self.max_length}.")
        num_sequences = len(self.trees.lengths)
        times = np.bincount(self.sequences, minlength=num_sequences)
        if len(times) > num_sequences:
            raise ValueError(
                f"The rows hold sequence {len(times) - 1}; the last one in the trees is {num_sequences - 1}."
            )
        if (times != 1).any():
            at = int((times != 1).argmax())
            raise ValueError(f"Sequence {at} must be in the rows once; it is there {times[at]} times.")
        if sequences is not None:
            self._verify_tokens([np.asarray(tokens) for tokens in sequences])
        return self

    def _verify_tokens(self, sequences: list[np.ndarray]) -> None:
        """Raise a ValueError unless these sequences have the lengths of the trees, and share what the trees share."""
        if len(sequences) != len(self.trees.lengths):
            raise ValueError(f"The rows hold {len(self.trees.lengths)} sequences, not {len(sequences)}.")
        tokens_of: dict[int, np.ndarray] = {}  # by node
        # long sequences first: one that ends within a node has only the first of the node's tokens
        for sequence in np.argsort(-self.trees.lengths, kind="stable").tolist():
            tokens = sequences[sequence]
            begin = 0
            for node in self.trees.path(int(self.trees.leaves[sequence])):
                its_tokens = tokens[begin : begin + int(self.trees.tokens[node])]
                tokens_of_node = tokens_of.setdefault(node, its_tokens)
                if not np.array_equal(its_tokens, tokens_of_node[: len(its_tokens)]):
                    raise ValueError(
                        f"Sequence {sequence} does not have the tokens that its tree has from {begin} on."
                    )
                begin += int(self.trees.tokens[node])
            if len(tokens) != self.trees.lengths[sequence] or len(tokens) > begin:
                raise ValueError(
                    f"Sequence {sequence} has {len(tokens)} tokens, not the {self.trees.lengths[sequence]} of its tree."
                )

    def __repr__(self) -> str:
        return (
            f"TreeRows({len(self.sequences):,} sequences of {len(self.trees.roots):,} trees in {len(self):,} rows of "
            f"{self.max_length}, at least {self.lower_bound:,} needed, {self.split_trees:,} of the trees in several "
            f"rows, {self.tokens:,} tokens instead of {self.unshared_tokens:,} with nothing shared)"
        )


def pack_trees(
    sequences: Sequence[Iterable[int]],
    groups: Iterable[Hashable],
    max_length: int,
    *,
    apart: Sequence[Iterable[Any]] | None = None,
    tries: int = 20,
    seed: int = 0,
) -> TreeRows:
    """Lay sequences into few rows, in each of which what sequences of a group share is there once.

    In each group, the sequences that begin with the same tokens share them. A tree that is too large for a row is cut
    where that costs least, and so is a tree whose parts fill rows better. Each row with a part of a tree repeats what
    is above the part.

    >>> from packlib.packing import pack_trees
    >>> system, question = [1, 2, 3, 4], [5, 6]
    >>> chat = [system + question + [7, 8], system + question + [9], system + [10, 11]]
    >>> rows = pack_trees(chat, groups=[0, 0, 0], max_length=16)
    >>> [row.tolist() for row in rows], rows.lengths_used.tolist(), rows.lower_bound
    ([[0, 1, 2]], [13], 1)

    Args:
        sequences: the tokens of each sequence, 1 to `max_length`.
        groups: for each sequence the name or number of its group; nothing is shared between groups.
        max_length: slots of a row; the top of `packlib.packing.trees` says how many slots a tree takes.
        apart: for each sequence a value for each token, such as its old log-probability or its route through experts.
            Tokens are shared only where these are equal, too.
        tries: attempts to fill a few rows again, for each row of the first pass; they end early when the rows are
            within 1 % of the bound, and after about a minute. With 0 the first pass is the result, and `lower_bound`
            rests on forced copies alone: that takes a fraction of a second for hundreds of trees.
        seed: of the order in which trees are considered for a row, and of the choice of rows that are filled again.

    Raises:
        TypeError, ValueError: naming the argument or the sequence that is wrong.
    """
    max_length, tries, seed = _checked_options(max_length, tries, seed)
    return pack_tree_lengths(shared_trees(sequences, groups, apart), max_length, tries=tries, seed=seed)


def pack_tree_lengths(trees: Trees, max_length: int, *, tries: int = 20, seed: int = 0) -> TreeRows:
    """Lay trees of which only the numbers of tokens are known into few rows, as `pack_trees` does.

    >>> from packlib.packing import group_trees, pack_tree_lengths
    >>> rows = pack_tree_lengths(group_trees([5, 3], [[2, 2, 2], [4, 1]]), max_length=14)
    >>> [row.tolist() for row in rows], rows.lengths_used.tolist()
    ([[0, 1, 2], [3, 4]], [13, 9])

    Args:
        trees: from `group_trees`, or made by hand.
        max_length, tries, seed: as for `pack_trees`.
    """
    instance("trees", trees, Trees)
    max_length, tries, seed = _checked_options(max_length, tries, seed)
    longest = int(trees.lengths.argmax())
    if trees.lengths[longest] > max_length:
        raise ValueError(
            f"max_length must be at least {trees.lengths[longest]}, the tokens of sequence {longest}, not {max_length}."
        )
    filler = Filler(_single_trees(trees), max_length)
    rows = filler.first_pass(random.Random(seed))
    bound = tree_bound(trees, max_length, by_prices=False)
    if tries and len(rows) > (1 + NEAR) * bound:
        bound = tree_bound(trees, max_length)  # slower, and often higher
    rows = filler.improve(rows, bound, tries * len(rows), _MOST_WORK, random.Random(seed))
    sequences_of_rows = _sequences_of_rows(rows, trees)
    offsets = np.cumsum([0, *map(len, sequences_of_rows)])
    return TreeRows(np.concatenate(sequences_of_rows), offsets, trees, max_length, bound).verify()


def _sequences_of_rows(rows: Sequence[Row], trees: Trees) -> list[list[int]]:
    """Return for each row the numbers of its sequences, in the order of their leaves."""
    sequences_of_leaf: dict[int, list[int]] = {}
    for sequence, leaf in enumerate(trees.leaves.tolist()):
        sequences_of_leaf.setdefault(leaf, []).append(sequence)
    roots = trees.roots.tolist()
    sequences_of_rows = []
    for row in rows:
        # a row numbers the leaves of each tree from its root
        leaves = sorted(roots[tree] + leaf for tree, leaves_of_tree in row.items() for leaf in leaves_of_tree)
        sequences_of_rows.append([sequence for leaf in leaves for sequence in sequences_of_leaf[leaf]])
    return sequences_of_rows


def _checked_options(max_length: int, tries: int, seed: int) -> tuple[int, int, int]:
    """Return these arguments of `pack_trees`, or raise a TypeError or ValueError that names the one that is wrong."""
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    return max_length, whole_number("tries", tries, 0), whole_number("seed", seed, 0)


def _single_trees(trees: Trees) -> list[Tree]:
    """Return each tree by itself, with nodes counted from its own root."""
    parents, slots = trees.parents.tolist(), trees.slots.tolist()
    roots = trees.roots.tolist()
    single_trees = []
    for root, end in zip(roots, [*roots[1:], len(parents)], strict=True):
        own_parents = [ROOT, *(parent - root for parent in parents[root + 1 : end])]
        single_trees.append(Tree(own_parents, slots[root:end]))
    return single_trees
