"""Fill rows with parts of trees, so that little is computed twice.

A row takes some leaves of a tree and all nodes above them. The other leaves are in other rows, which need nodes above
them again. A row fills a node **for good** if it takes all leaves below the node that are in no row yet: then no later
row needs the node. A node that a row takes for some of these leaves only uses slots and is worth nothing, since it is
needed again. So the best part of a tree, for the slots it uses, is the one that fills the most slots for good.

A table finds it: for each number of slots used, it has the most slots that are filled for good. As the table of a
knapsack is built item by item, this one is built node by node, in the order of a walk. The table before a node covers
the choices among earlier nodes. After the node's subtree, the table covers each of these choices with the subtree taken
whole, or with the node's own slots and something of some of its children. The table goes on from tree to tree, so that
it fills a row with whole trees and parts of trees at once.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from packlib.packing.bit_sets import chosen_for, highest, sums_up_to
from packlib.packing.trees import ROOT

_STEPS = 2048  # entries of a table, about: in longer rows a step is a unit of several slots, and sizes are rounded up
_NONE = -(1 << 30)  # entry of a table for a number of slots that no choice of nodes uses
_NEARLY = 0.998  # share of a row's slots: once so many are filled for good, no more parts are tried
_PARTLY = 3  # trees that a row may take parts of, beside its first
_WINDOW = 64  # trees that wait for a row at a time
_FLAT_WINDOW = 256  # rows' worth of slots that wait for a row at a time, if all trees are flat
NEAR = 0.01  # of the bound: if no more rows than that are above it, the search ends
_FEWEST, _MOST = 2, 8  # rows that are emptied and filled again together
_EMPTIEST_OF = 4  # rows that are drawn by chance; the emptiest of them is filled again, with others

# What is in a row: for each of its trees the leaves that it takes, by their numbers in the tree, ascending
Row = dict[int, list[int]]


class Tree:
    """One tree: nodes by their numbers in the order of a walk, from 0 for the root.

    Attributes:
        parents: for each node, the node above it; `ROOT` for node 0.
        slots: for each node, the slots that it takes in a row.
        leaves: the nodes without children, ascending.
    """

    def __init__(self, parents: list[int], slots: list[int]) -> None:
        self.parents = parents
        self.slots = slots
        has_children = set(parents[1:])
        self.leaves = [node for node in range(len(parents)) if node not in has_children]

    def part(self, leaves: Sequence[int]) -> "Part":
        """Return what a row needs for these leaves (ascending): they and all nodes above them.

        An only child is joined to its parent, so that each node of the part has no child, or at least two.

        >>> from packlib.packing.tree_filling import Tree
        >>> tree = Tree(parents=[-1, 0, 1, 1, 0], slots=[10, 4, 1, 2, 3])
        >>> part = tree.part([2, 4])
        >>> part.parents, part.slots, part.tree_nodes
        ([-1, 0, 0], [10, 5, 3], [0, 2, 4])
        """
        num_children = self._children_above(leaves)
        part_node_of = dict[int, int]()  # by node of the tree
        parents = list[int]()
        slots = list[int]()
        tree_nodes = list[int]()
        for node in sorted(num_children):
            is_root = node == 0
            parent = ROOT if is_root else part_node_of[self.parents[node]]
            if not is_root and num_children[self.parents[node]] == 1:
                part_node_of[node] = parent
                slots[parent] += self.slots[node]
                tree_nodes[parent] = node
            else:
                part_node_of[node] = len(slots)
                parents.append(parent)
                slots.append(self.slots[node])
                tree_nodes.append(node)
        return Part(parents, slots, tree_nodes)

    def _children_above(self, leaves: Sequence[int]) -> dict[int, int]:
        """Count for these leaves and each node above them its children among these nodes."""
        num_children = dict.fromkeys(leaves, 0)
        for leaf in leaves:
            node = leaf
            while node != 0:
                parent = self.parents[node]
                was_reached = parent in num_children
                num_children[parent] = num_children.get(parent, 0) + 1
                if was_reached:
                    break  # the nodes above it were counted on the way up from an earlier leaf
                node = parent
        return num_children


class Part:
    """Some leaves of a tree with all that is above them, as a tree of its own.

    Attributes:
        parents: for each node of the part, the node of the part above it; `ROOT` for node 0.
        slots: for each node, the slots that it takes in a row, those of only children joined to it included.
        tree_nodes: for each node, its number in the tree; that of the lowest one if nodes were joined.
        ends: for each node, the number that follows the last node of its subtree. Node v is a leaf if this is v + 1.
        subtree_slots: for each node, the slots of its whole subtree.
    """

    def __init__(self, parents: list[int], slots: list[int], tree_nodes: list[int]) -> None:
        self.parents = parents
        self.slots = slots
        self.tree_nodes = tree_nodes
        self.subtree_slots = slots.copy()
        self.ends = list(range(1, len(parents) + 1))
        for v in range(len(parents) - 1, 0, -1):  # children before their parents
            parent = parents[v]
            self.subtree_slots[parent] += self.subtree_slots[v]
            self.ends[parent] = max(self.ends[parent], self.ends[v])

    @property
    def size(self) -> int:
        """Slots of the whole part."""
        return self.subtree_slots[0]

    @property
    def is_flat(self) -> bool:
        """True if all nodes but the root are leaves, as the answers to a prompt are."""
        return not any(self.parents[1:])

    @cached_property
    def branches(self) -> tuple[list[int], list[int]]:
        """Sort the leaves of a flat part from large to small; return their slots, and their numbers in the tree."""
        large_to_small = sorted(range(1, len(self.slots)), key=self.slots.__getitem__, reverse=True)
        return [self.slots[v] for v in large_to_small], [self.tree_nodes[v] for v in large_to_small]

    def is_leaf(self, v: int) -> bool:
        """Return whether node v of the part has no children."""
        return self.ends[v] == v + 1

    def leaves(self, v: int = 0) -> list[int]:
        """Return the leaves in the subtree of node v, by their numbers in the tree."""
        return [self.tree_nodes[u] for u in range(v, self.ends[v]) if self.is_leaf(u)]


class Table:
    """For each number of slots used, the most slots that are filled for good; and what was taken for that.

    Trees that are taken whole or not at all only add up: their sums are exact to the slot, as bits (`bit_sets.py`).
    The table begins with these sums. In it, slots are counted in units and rounded up.

    A row of 6 slots cannot hold all of a tree with 2 slots at its root and two leaves of 3 and 4 slots. With the larger
    leaf it uses 6 slots, of which 4 are filled for good: the root is needed again.

    >>> from packlib.packing.tree_filling import Table, Tree
    >>> tree = Tree(parents=[-1, 0, 0], slots=[2, 3, 4])
    >>> table = Table(max_length=6, whole_trees={})
    >>> table.add(0, tree.part([1, 2]))
    >>> table.filled.clip(-1).tolist()  # -1 where no choice of nodes uses that number of slots
    [0, -1, -1, -1, -1, 3, 4]
    >>> table.best, table.read()
    (4, {0: [2]})

    Args:
        max_length: slots of a row.
        whole_trees: by tree, what is taken whole or not at all.
        slots_taken: slots of the row that are taken already, and filled for good.

    Attributes:
        filled: the table; int32, shape (steps + 1,): entry s is for `s * unit` slots used.
        best: the most slots that are filled for good so far.
        work: nodes that the table went through so far, a measure of the time it took.
    """

    def __init__(self, max_length: int, whole_trees: Mapping[int, Part], slots_taken: int = 0) -> None:
        self.unit = max(1, max_length // _STEPS)
        self.steps = max_length // self.unit
        self.work = 1
        self._whole_trees = whole_trees
        self._whole_sizes = [part.size for part in whole_trees.values()]
        self._sums = sums_up_to(max_length, self._whole_sizes, start=1 << slots_taken)
        self.best = highest(self._sums[-1])
        self._added = list[_Added]()

    @cached_property
    def filled(self) -> np.ndarray:
        """Return for each step the largest sum of whole trees that fits; `add` replaces it by the table with a tree."""
        slots = (self.steps + 1) * self.unit
        as_bytes = self._sums[-1].to_bytes(slots // 8 + 1, "little")
        is_sum = np.unpackbits(np.frombuffer(as_bytes, np.uint8), bitorder="little", count=slots)
        sums = np.where(is_sum, np.arange(slots, dtype=np.int32), np.int32(_NONE))
        table = np.full(self.steps + 1, _NONE, np.int32)
        table[0] = sums[0]
        # a sum is rounded up to whole steps: step s gets the sums from (s - 1) * unit + 1 to s * unit
        table[1:] = sums[1 : 1 + self.steps * self.unit].reshape(self.steps, self.unit).max(1)
        return table

    def add(self, tree: int, part: Part, always: bool = False) -> None:
        """Add a tree, of which the row takes all, some or nothing; if `always`, it takes all or some."""
        before = self.filled
        added = _Added(tree, part, always, before)
        with_part = self._with_part(part, before, added.node_tables)
        self.filled = with_part if always else np.maximum(before, with_part)
        self.best = int(self.filled.max())
        self.work += len(part.slots)
        self._added.append(added)

    def read(self) -> Row | None:
        """Return what a row with the most slots filled for good takes, of added and of whole trees.

        If nothing fits of a tree that must be there, no such row exists, and the result is None.
        """
        filled = self.best
        if filled < 0:
            return None
        row = Row()
        if self._added:
            step = int(self.filled.argmax())
            for added in reversed(self._added):
                is_taken = added.always or added.before[step] != filled
                if is_taken:
                    leaves, step, filled = self._read_part(added, step, filled)
                    row[added.tree] = sorted(leaves)
        trees = list(self._whole_trees)
        for place in chosen_for(filled, self._whole_sizes, self._sums)[0]:
            row[trees[place]] = self._whole_trees[trees[place]].leaves()
        return row

    def _in_units(self, slots: int) -> int:
        """Return how many steps of the table so many slots take, rounded up."""
        return -(-slots // self.unit)

    def _shifted(self, table: np.ndarray, slots: int, filled: int) -> np.ndarray:
        """Return the table after `slots` more slots are used, of which `filled` are filled for good."""
        steps = self._in_units(slots)
        if not steps:
            return table + filled
        moved = np.empty_like(table)
        moved[:steps] = _NONE
        if steps <= self.steps:
            np.add(table[:-steps], filled, out=moved[steps:])
        return moved

    def _with_part(self, part: Part, before: np.ndarray, node_tables: "dict[int, _NodeTables]") -> np.ndarray:
        """Return the table after a part of which something is taken; add the tables at each node to `node_tables`.

        A walk goes through the part and is at each node twice. On the way down, the tables of the node are made from
        the choices before it. On the way up, its subtree is complete, and the tables of its parent get what was found.

        Args:
            part: what may be taken.
            before: the table without the part.
            node_tables: empty; `_read_part` needs what is written here.
        """
        root = 0
        for v in range(len(part.slots)):
            # down to node v
            before_node = before if v == root else node_tables[part.parents[v]].some_or_none
            node_tables[v] = self._tables_at(part, v, before_node)
            # up from v, if it is a leaf, and from each node above it whose last leaf it is
            node = v
            while node != root and part.ends[node] == v + 1:
                parent = part.parents[node]
                node_tables[parent].add_child(node, node_tables[node].whole_or_some)
                node = parent
        return node_tables[root].whole_or_some

    def _tables_at(self, part: Part, v: int, before_node: np.ndarray) -> "_NodeTables":
        """Return the tables at node v of a part, before any of its children; `before_node` is the one before v."""
        whole = self._shifted(before_node, part.subtree_slots[v], part.subtree_slots[v])
        if part.is_leaf(v):
            return _NodeTables(whole, none=whole)  # a leaf is its own subtree
        # with some of its leaves only, the node is needed again: its slots are used, and not filled for good
        none = self._shifted(before_node, part.slots[v], filled=0)
        return _NodeTables(whole, none)

    def _read_part(self, added: "_Added", step: int, filled: int) -> tuple[list[int], int, int]:
        """Return the leaves of an added tree that led to an entry of the table, and the entry before that tree.

        Args:
            added: the tree.
            step, filled: the entry after the tree: `filled` slots are filled for good where `step` steps are used.

        Returns:
            The leaves by their numbers in the tree; and `step` and `filled` of the entry before.
        """
        part, node_tables = added.part, added.node_tables
        leaves = list[int]()
        # from the entry after the tree back to the one before it: each node that was taken gives its slots back
        path = [_NodeToRead(0)]  # from the root down to the node that is read
        while path:
            node = path[-1]
            tables = node_tables[node.number]
            if node.children_to_read is None and tables.whole[step] == filled:  # taken whole
                leaves += part.leaves(node.number)
                step -= self._in_units(part.subtree_slots[node.number])
                filled -= part.subtree_slots[node.number]
            elif node.children_to_read == 0:  # all children were read; its own slots are used, and not filled for good
                step -= self._in_units(part.slots[node.number])
            else:  # some children were taken: the last of those not read yet comes next
                to_read = len(tables.children) if node.children_to_read is None else node.children_to_read
                place = tables.last_taken(to_read, step, filled)
                node.children_to_read = place
                path.append(_NodeToRead(tables.children[place]))
                continue
            path.pop()
            if path and node_tables[path[-1].number].none[step] == filled:
                path[-1].children_to_read = 0  # the entry is the parent's without children: none before this was taken
        return leaves, step, filled


@dataclass
class _NodeTables:
    """Tables at a node, each as `Table.filled`.

    Attributes:
        whole: with the node's whole subtree.
        none: with the node's own slots, and none of its children.
        some: with the node's own slots, and something of at least one child among `children`; None if it has no child
            so far.
        children: the children that were gone through so far.
        before_child: for each of them `some` before it was gone through.
    """

    whole: np.ndarray
    none: np.ndarray
    some: np.ndarray | None = None
    children: list[int] = field(default_factory=list)
    before_child: list[np.ndarray | None] = field(default_factory=list)

    @property
    def some_or_none(self) -> np.ndarray:
        """Table with the node's own slots, and with or without something of its children so far."""
        return self.none if self.some is None else np.maximum(self.none, self.some)

    @property
    def whole_or_some(self) -> np.ndarray:
        """Table with the whole subtree, or with something of at least one child."""
        return self.whole if self.some is None else np.maximum(self.whole, self.some)

    def add_child(self, child: int, with_child: np.ndarray) -> None:
        """Note a child that was gone through, and the table in which something of it is taken."""
        self.children.append(child)
        self.before_child.append(self.some)
        self.some = with_child if self.some is None else np.maximum(self.some, with_child)

    def last_taken(self, num_children: int, step: int, filled: int) -> int:
        """Return the place in `children` of the last one that an entry of `some` takes something of.

        Args:
            num_children: the first so many of `children` were gone through when the entry was made.
            step, filled: the entry.
        """
        place = num_children - 1
        while (before := self.before_child[place]) is not None and before[step] == filled:
            place -= 1  # the entry was there before this child, so it takes nothing of it
        return place


@dataclass
class _Added:
    """A tree that a row may take something of.

    Attributes:
        tree: its number.
        part: what the row may take of it.
        always: whether the row must take something.
        before: the table before the tree.
        node_tables: the tables at each node of `part`.
    """

    tree: int
    part: Part
    always: bool
    before: np.ndarray
    node_tables: dict[int, _NodeTables] = field(default_factory=dict)


@dataclass
class _NodeToRead:
    """A node whose children are read from the last to the first.

    Attributes:
        number: of the node in its part.
        children_to_read: the first so many children are not read yet; None before it is known whether the node was
            taken whole.
    """

    number: int
    children_to_read: int | None = None


Pool = dict[int, Part]  # for each tree that waits for a row, the part of it that is in no row yet


class Filler:
    """Fills rows of `max_length` slots with trees.

    Attributes:
        trees: the trees; other methods name a tree by its place here.
        max_length: slots of a row.
        work: the sum of `Table.work` over all tables so far, a measure of the time they took.
    """

    def __init__(self, trees: Sequence[Tree], max_length: int) -> None:
        self.trees = trees
        self.max_length = max_length
        self.work = 0

    def slots_used(self, row: Row) -> int:
        """Return the slots that a row uses."""
        return sum(self.trees[tree].part(leaves).size for tree, leaves in row.items())

    def fill(self, pool: Pool, first: int, rng: random.Random) -> tuple[Row, int]:
        """Take a row out of `pool`: as much of the tree `first` as fits, whole trees, and parts of a few others.

        Args:
            pool: what may be taken; what the row takes is removed from it.
            first: the tree that the row begins with.
            rng: chooses the trees that may be taken in part.

        Returns:
            The row, and the slots that it uses.
        """
        row = {first: self._as_much_as_fits(first, pool[first])}
        first_slots = self._size(first, row[first], pool[first])
        others = sorted((tree for tree in pool if tree != first), key=lambda tree: pool[tree].size, reverse=True)
        if all(part.is_flat for part in pool.values()):
            row |= self._beside_if_flat(pool, others, self.max_length - first_slots)
        else:
            row |= self._beside(pool, others, first_slots, rng)
        slots_used = sum(self._size(tree, leaves, pool[tree]) for tree, leaves in row.items())
        self._remove(row, pool)
        return row, slots_used

    def _beside(self, pool: Pool, others: list[int], slots_taken: int, rng: random.Random) -> Row:
        """Choose whole trees for the free slots of a row; if they leave some free, parts of a few trees, too.

        Args:
            pool: what may be taken.
            others: the trees that may be taken, from large to small.
            slots_taken: the slots that the row's first tree takes.
            rng: chooses the trees that may be taken in part.
        """
        free = self.max_length - slots_taken
        enough = _NEARLY * self.max_length
        fitting = {tree: pool[tree] for tree in others if pool[tree].size <= free}
        table = Table(self.max_length, fitting, slots_taken)
        if table.best < enough:
            can_be_cut = [tree for tree in others if len(pool[tree].slots) > 1 and pool[tree].slots[0] < free]
            in_part = rng.sample(can_be_cut, min(_PARTLY, len(can_be_cut)))
            whole_only = {tree: part for tree, part in fitting.items() if tree not in in_part}
            table = Table(self.max_length, whole_only, slots_taken)
            for tree in in_part:
                if table.best >= enough:
                    break
                table.add(tree, pool[tree])
        self.work += table.work
        return table.read() or {}

    def _beside_if_flat(self, pool: Pool, others: list[int], free: int) -> Row:
        """Choose whole flat trees, and a part of one more, that fill the most of a row's free slots for good.

        These are sums, exact to the slot, so every tree is tried as the one that is cut.

        Args:
            pool: what may be taken; each part is flat.
            others: the trees that may be taken, from large to small.
            free: slots of the row that its first tree leaves free.
        """
        self.work += 1
        whole = [tree for tree in others if pool[tree].size <= free]
        whole_sums = sums_up_to(free, [pool[tree].size for tree in whole])
        filled = highest(whole_sums[-1])
        best_cut: _Cut | None = None
        for tree in sorted(others, key=lambda tree: pool[tree].slots[0]) if filled < free else ():
            space = free - pool[tree].slots[0]  # what its root leaves; the root itself is not filled for good
            if space <= filled:
                break  # later trees have larger roots
            branches, _ = pool[tree].branches
            self.work += 1 + len(branches) // 8  # a shift of bits takes far less than a node of a table
            if not branches or branches[-1] > space:
                continue
            # these sums may hold the tree twice, whole and cut: if even they reach no more, the tree is of no use
            if highest(sums_up_to(space, branches, whole_sums[-1])[-1]) <= filled:
                continue
            others_whole = [other for other in whole if other != tree]
            other_sums = sums_up_to(space, [pool[other].size for other in others_whole])
            sums = sums_up_to(space, branches, other_sums[-1])
            if highest(sums[-1]) > filled:
                filled = highest(sums[-1])
                best_cut = _Cut(tree, sums, others_whole, other_sums)
        row = Row()
        if best_cut is not None:
            branches, leaves = pool[best_cut.tree].branches
            places, filled = chosen_for(filled, branches, best_cut.sums)
            if places:
                row[best_cut.tree] = sorted(leaves[place] for place in places)
            whole, whole_sums = best_cut.whole, best_cut.whole_sums
        for place in chosen_for(filled, [pool[tree].size for tree in whole], whole_sums)[0]:
            row[whole[place]] = pool[whole[place]].leaves()
        return row

    def _remove(self, row: Row, pool: Pool) -> None:
        """Remove what a row takes from the pool."""
        for tree, leaves in row.items():
            leaves_left = sorted(set(pool[tree].leaves()) - set(leaves))
            if leaves_left:
                pool[tree] = self.trees[tree].part(leaves_left)
            else:
                del pool[tree]

    def _size(self, tree: int, leaves: list[int], part: Part) -> int:
        """Return the slots of some leaves of a part with all that is above them; all leaves take the part's size."""
        return part.size if len(leaves) == len(part.leaves()) else self.trees[tree].part(leaves).size

    def _as_much_as_fits(self, tree: int, part: Part) -> list[int]:
        """Return the leaves of a part of `tree` that a row takes if nothing else is in it."""
        if part.size <= self.max_length:
            return part.leaves()
        if part.is_flat:
            branches, leaves = part.branches
            sums = sums_up_to(self.max_length - part.slots[0], branches)
            return sorted(leaves[place] for place in chosen_for(highest(sums[-1]), branches, sums)[0])
        table = Table(self.max_length, {})
        table.add(tree, part, always=True)
        self.work += table.work
        row = table.read()
        return row[tree] if row else self._one_by_one(tree, part)

    def _one_by_one(self, tree: int, part: Part) -> list[int]:
        """Return leaves of a part, each if it fits beside those before: for a row in which no path fits in units."""
        fitting = list[int]()
        for leaf in part.leaves():
            with_leaf = sorted([*fitting, leaf])
            if self.trees[tree].part(with_leaf).size <= self.max_length:
                fitting = with_leaf
        return fitting

    def first_pass(self, rng: random.Random) -> list[Row]:
        """Return rows with all trees, filled one after the other; each begins with the largest tree in the pool."""
        queue = list(range(len(self.trees)))
        rng.shuffle(queue)
        pool = Pool()
        slots_waiting = 0
        rows = list[Row]()
        all_flat = not any(any(tree.parents[1:]) for tree in self.trees)
        while queue or pool:
            while queue and (slots_waiting < _FLAT_WINDOW * self.max_length if all_flat else len(pool) < _WINDOW):
                tree = queue.pop()
                pool[tree] = self.trees[tree].part(self.trees[tree].leaves)
                slots_waiting += pool[tree].size
            row, slots_used = self.fill(pool, max(pool, key=lambda tree: pool[tree].size), rng)
            rows.append(row)
            slots_waiting -= slots_used
        return rows

    def improve(self, rows: list[Row], bound: int, tries: int, most_work: int, rng: random.Random) -> list[Row]:
        """Empty a few rows at a time and fill them again; keep that if it leaves as much space in one place, or more.

        How much space is in one place is measured by the sum of its squares: of two rows with 10 free slots together,
        10 and 0 count 100, and 5 and 5 count 50. A row that is not needed any more is wholly free.

        Args:
            rows: rows with all trees.
            bound: the proven minimum of rows; within 1 % of it the search ends.
            tries: times that a few rows are filled again, at most.
            most_work: the search ends once `work` is more than this.
            rng: chooses the rows, and the order of their trees.
        """
        rows = rows.copy()
        spaces = [self.max_length - self.slots_used(row) for row in rows]
        holders = _Holders(rows)
        for _ in range(tries):
            if len(rows) <= (1 + NEAR) * bound or self.work > most_work:
                break
            emptied = self._rows_to_empty(rows, spaces, holders, rng)
            new_rows, new_spaces, pool = self._filled_again([rows[at] for at in emptied], rng)
            if pool:
                continue  # they need more rows than before
            wholly_free = len(emptied) - len(new_rows)
            new_squares = sum(space**2 for space in new_spaces) + wholly_free * self.max_length**2
            if new_squares < sum(spaces[at] ** 2 for at in emptied):
                continue
            emptied.sort()
            for at, row, space in zip(emptied, new_rows, new_spaces, strict=False):
                holders.replace(at, rows[at], row)
                rows[at], spaces[at] = row, space
            for at in reversed(emptied[len(new_rows) :]):  # a row fewer: the last of all takes its place
                last_row, last_space = rows.pop(), spaces.pop()
                holders.replace(len(rows), last_row, {})
                if at < len(rows):
                    holders.replace(at, rows[at], last_row)
                    rows[at], spaces[at] = last_row, last_space
        return rows

    def _filled_again(self, rows: Sequence[Row], rng: random.Random) -> tuple[list[Row], list[int], Pool]:
        """Fill at most as many rows as these with what is in them, large trees first, but not strictly.

        Returns:
            The new rows; the free slots of each; and what is in none of them.
        """
        pool = self._pool(rows)
        new_rows, spaces = list[Row](), list[int]()
        while pool and len(new_rows) < len(rows):
            sizes = {tree: part.size * rng.uniform(0.5, 1) for tree, part in pool.items()}
            row, slots_used = self.fill(pool, max(sizes, key=sizes.__getitem__), rng)
            new_rows.append(row)
            spaces.append(self.max_length - slots_used)
        return new_rows, spaces, pool

    def _pool(self, rows: Sequence[Row]) -> Pool:
        """Put what these rows hold together, tree by tree."""
        leaves_of = dict[int, list[int]]()
        for row in rows:
            for tree, leaves in row.items():
                leaves_of.setdefault(tree, []).extend(leaves)
        return {tree: self.trees[tree].part(sorted(leaves)) for tree, leaves in leaves_of.items()}

    def _rows_to_empty(self, rows: list[Row], spaces: list[int], holders: "_Holders", rng: random.Random) -> list[int]:
        """Choose a few rows by their places: one of the emptier ones, up to 3 with more of its trees, and others."""
        drawn = rng.sample(range(len(rows)), min(_EMPTIEST_OF, len(rows)))
        emptiest = max(drawn, key=spaces.__getitem__)
        number = min(len(rows), rng.randint(_FEWEST, _MOST))
        rows_of_its_trees = sorted(set().union(*(holders.of[tree] for tree in rows[emptiest])) - {emptiest})
        chosen = [emptiest, *rng.sample(rows_of_its_trees, min(len(rows_of_its_trees), number - 1, rng.randint(0, 3)))]
        while len(chosen) < number:
            if (at := rng.randrange(len(rows))) not in chosen:
                chosen.append(at)
        return chosen


@dataclass
class _Cut:
    """A flat tree that is taken in part, and what may be taken beside it.

    Attributes:
        tree: the tree that is cut.
        sums: as `sums_up_to` returns them for the tree's leaves, which are added to sums of whole trees.
        whole: other trees, which are taken whole or not at all.
        whole_sums: as `sums_up_to` returns them for these.
    """

    tree: int
    sums: list[int]
    whole: list[int]
    whole_sums: list[int]


class _Holders:
    """Rows that hold something of each tree.

    Attributes:
        of: for each tree the places of these rows.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.of = dict[int, set[int]]()
        for at, row in enumerate(rows):
            self.replace(at, {}, row)

    def replace(self, at: int, before: Row, after: Row) -> None:
        """Note that the row at place `at` was `before` and is now `after`."""
        for tree in before:
            self.of[tree].discard(at)
        for tree in after:
            self.of.setdefault(tree, set()).add(at)
