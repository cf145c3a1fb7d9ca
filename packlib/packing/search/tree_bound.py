"""How few rows can hold trees: a lower bound, by the copies of nodes that no packing avoids.

Let a node have D slots from the root through itself, in rows of T. A row that holds it has at most T - D slots for what
is below it. If what is below takes S slots in all rows together, the node stands in n rows, where n is at least
S / (T - D), rounded up. S itself counts copies: it is the sum over the children of their own slots, as often as they
stand in rows, and of what is below them. So the copies that no packing avoids are counted from the leaves up. All slots
of all nodes, as often as they stand in rows, divided by T are a bound.

A tree is also a group: the root's slots are shared, and a branch is whatever stands below the root. `group_bound.py`
proves a bound from three numbers of each group: its shared slots, those of all branches together, and those of the
shortest branch. It holds for trees, if what is below the root counts its copies too.
"""

from dataclasses import dataclass

import numpy as np

from packlib.packing.search.group_bound import group_bound
from packlib.packing.trees import ROOT, Trees


@dataclass(frozen=True)
class Copies:
    """Copies that no packing avoids.

    Attributes:
        rows: for each node, how many rows it stands in at least; int64, shape (number of nodes,).
        below: slots that are at least used by what is below it, in all rows together; same shape.
    """

    rows: np.ndarray
    below: np.ndarray


def forced_copies(trees: Trees, max_length: int) -> Copies:
    """Count in how many rows each node must stand.

    >>> from packlib.packing.search.tree_bound import forced_copies
    >>> from packlib.packing.trees import group_trees
    >>> forced_copies(group_trees([7], [[3, 3, 3]]), max_length=14).rows.tolist()  # 6 shared slots, 3 branches of 4
    [2, 1, 1, 1]

    Args:
        trees: paths of at most `max_length` slots.
        max_length: slots of a row.
    """
    parents, slots = trees.parents.tolist(), trees.slots.tolist()
    space_below = list[int]()  # by node: slots for what is below it, in a row that holds it: T - D at the top
    for parent, own_slots in zip(parents, slots, strict=True):
        space = max_length if parent == ROOT else space_below[parent]
        space_below.append(space - own_slots)
    rows = [1] * len(parents)
    below = [0] * len(parents)
    for node in reversed(range(len(parents))):  # children come after their parents
        if below[node]:
            rows[node] = -(-below[node] // space_below[node])
        if parents[node] != ROOT:
            below[parents[node]] += slots[node] * rows[node] + below[node]
    return Copies(np.array(rows), np.array(below))


def tree_bound(trees: Trees, max_length: int, by_prices: bool = True) -> int:
    """Compute the number of rows that these trees need at least.

    Args:
        trees, max_length: as for `forced_copies`.
        by_prices: whether to look for prices of parts, too, which takes seconds for hundreds of trees.
    """
    copies, slots = forced_copies(trees, max_length), trees.slots
    by_copies = -(-int(slots @ copies.rows) // max_length)
    if not by_prices:
        return by_copies
    # each tree as a group; below, arrays of one entry for each root. A root without children is a branch itself.
    roots = trees.roots
    is_alone = copies.below[roots] == 0
    shared = np.where(is_alone, 0, slots[roots])
    branches = np.where(is_alone, slots[roots], copies.below[roots])
    ends = np.append(roots[1:], len(slots))  # the nodes of a tree are from its root to before the next
    leaves = np.unique(trees.leaves)
    first_leaf, end_of_leaves = np.searchsorted(leaves, roots), np.searchsorted(leaves, ends)
    path_slots = _path_slots(trees)
    leaves_of_trees = [leaves[first:end] for first, end in zip(first_leaf, end_of_leaves, strict=True)]
    shortest = np.array([path_slots[leaves_of_tree].min() for leaves_of_tree in leaves_of_trees]) - shared
    num_branches = end_of_leaves - first_leaf
    return max(by_copies, group_bound(shared, branches, shortest, num_branches, max_length))


def _path_slots(trees: Trees) -> np.ndarray:
    """Count the slots from the root through each node, as a row that holds it has them; int64, shape (nodes,)."""
    path_slots = trees.slots.copy()
    for node, parent in enumerate(trees.parents.tolist()):
        if parent != ROOT:
            path_slots[node] += path_slots[parent]
    return path_slots
