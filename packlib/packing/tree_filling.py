"""Fill rows with parts of trees, so that little is computed twice.

A row takes some leaves of a tree and all that is above them. The leaves that are left need the nodes above them again.
A row fills a node **for good** if it takes all leaves below it that are left: no other row needs the node. A node that
a row takes for some of these leaves uses slots and is worth nothing, since it is needed again. So the best part of a
tree, for the slots it uses, is the one that fills the most slots for good.

A table finds it: for each number of slots used, the most slots that are filled for good. The table runs through the
nodes in the order of a walk, as that of a knapsack does through its items. Before a node it says what the part may be
so far; behind it, the same with this node taken whole, or with its own slots used and some of its children taken. It
runs on from tree to tree, so that it fills a row with whole trees and parts of trees at once.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from packlib.packing.bit_sets import chosen_for, highest, sums_up_to
from packlib.packing.trees import ROOT

_STEPS = 2048  # of a table, about: slots are counted in units, and rounded up
_NONE = -(1 << 30)  # cannot be reached
_NEARLY = 0.998  # of a row that is full enough: no more is looked for
_PARTLY = 3  # trees that a row may take parts of, beside its first
_WINDOW = 64  # trees that wait for a row at a time
_FLAT_WINDOW = 256  # rows' worth of slots that wait for a row at a time, if all trees are flat
NEAR = 0.01  # rows that are at most so much above the bound are near enough
_FEWEST, _MOST = 2, 8  # rows that are filled anew together
_EMPTIEST_OF = 4  # rows, of which the emptiest is filled anew with others

Row = dict[int, list[int]]  # of each tree that is there the leaves, by their numbers within the tree, ascending


class Tree:
    """One tree: nodes by their numbers in the order of a walk, from 0 for the root.

    Attributes:
        parents, slots: of each node.
        leaves: the nodes without children, ascending.
    """

    def __init__(self, parents: list[int], slots: list[int]) -> None:
        self.parents, self.slots = parents, slots
        has_children = set(parents[1:])
        self.leaves = [node for node in range(len(parents)) if node not in has_children]

    def part(self, leaves: Sequence[int]) -> "Part":
        """Return what a row needs for these leaves (ascending): a tree whose nodes have two children or none."""
        children = dict.fromkeys(leaves, 0)
        for leaf in leaves:
            node = leaf
            while node:
                node = self.parents[node]
                seen = node in children
                children[node] = children.get(node, 0) + 1
                if seen:
                    break
        number_of = dict[int, int]()
        slots = list[int]()
        above = list[int]()
        of_leaf = list[int]()
        for node in sorted(children):
            parent = number_of[self.parents[node]] if node else ROOT
            if node and children[self.parents[node]] == 1:
                number_of[node] = parent  # an only child goes with its parent
                slots[parent] += self.slots[node]
                of_leaf[parent] = node
            else:
                number_of[node] = len(slots)
                slots.append(self.slots[node])
                above.append(parent)
                of_leaf.append(node)
        return Part(above, slots, of_leaf)


class Part:
    """Some leaves of a tree with all that is above them.

    Attributes:
        parents, slots: of each node; an only child is one with its parent.
        node: the number in the tree of the last node that was joined into each; of a leaf, that of the leaf.
        ends: the number behind the last node of the subtree of each node.
        whole: the slots of that subtree.
    """

    def __init__(self, parents: list[int], slots: list[int], node: list[int]) -> None:
        self.parents = parents
        self.slots = slots
        self.node = node
        self.whole = slots.copy()
        self.ends = list(range(1, len(parents) + 1))
        for v in range(len(parents) - 1, 0, -1):
            parent = parents[v]
            self.whole[parent] += self.whole[v]
            self.ends[parent] = max(self.ends[parent], self.ends[v])

    @property
    def size(self) -> int:
        return self.whole[0]

    @property
    def is_flat(self) -> bool:
        """True if all nodes but the root are leaves, as the answers to a prompt are."""
        return not any(self.parents[1:])

    @cached_property
    def branches(self) -> tuple[list[int], list[int]]:
        """Sort the leaves of a flat part from large to small; return their slots, and the leaves."""
        order = sorted(range(1, len(self.slots)), key=self.slots.__getitem__, reverse=True)
        return [self.slots[v] for v in order], [self.node[v] for v in order]

    def leaves(self, v: int = 0) -> list[int]:
        """Return the leaves below a node, by their numbers in the tree."""
        return [self.node[u] for u in range(v, self.ends[v]) if self.ends[u] == u + 1]


class Table:
    """For each number of slots used, the most that are filled for good; and what was taken for that.

    Whole trees alone are sums, exact to the slot, as bits (`bit_sets.py`). The table begins with these sums. In it,
    slots are counted in units and rounded up.

    Args:
        max_length: slots of a row.
        whole: slots of trees that are taken whole or not at all.
        base: slots that are taken already, and filled for good.

    Attributes:
        filled: the table; int32, shape (steps + 1,), where step s is `s * unit` slots.
        best: the most that are filled for good so far.
        work: nodes that the table went through so far, a measure of the time it took.
    """

    def __init__(self, max_length: int, whole: Sequence[int], base: int = 0) -> None:
        self.unit = max(1, max_length // _STEPS)
        self.steps = max_length // self.unit
        self.work = 1
        self._whole = whole
        self._sums = sums_up_to(max_length, whole, 1 << base)
        self.best = highest(self._sums[-1])
        self._added = list[_Added]()

    @cached_property
    def filled(self) -> np.ndarray:
        """Return the sums of whole trees, for each step the largest one that fits; after `add`, with that tree, too."""
        slots = (self.steps + 1) * self.unit
        as_bytes = self._sums[-1].to_bytes(slots // 8 + 1, "little")
        reached = np.unpackbits(np.frombuffer(as_bytes, np.uint8), bitorder="little", count=slots)
        sums = np.where(reached, np.arange(slots, dtype=np.int32), np.int32(_NONE))
        table = np.full(self.steps + 1, _NONE, np.int32)
        table[0] = sums[0]
        table[1:] = sums[1 : 1 + self.steps * self.unit].reshape(self.steps, self.unit).max(1)
        return table

    def add(self, tree: int, part: Part, always: bool = False) -> None:
        """Add a tree, of which the row takes all, some or nothing; or `always` something."""
        before, tables = self.filled, dict[int, _NodeTables]()
        taken = self._through(part, before, tables)
        self.filled = taken if always else np.maximum(before, taken)
        self.best = int(self.filled.max())
        self.work += len(part.slots)
        self._added.append(_Added(tree, part, always, before, tables))

    def read(self) -> tuple[Row, list[int]] | None:
        """Return the leaves that a row with the most slots filled for good takes of added trees, and the whole ones.

        The whole ones are places in `whole`. If nothing fits of a tree that must be there, there is no such row.
        """
        value, row = self.best, Row()
        if value < 0:
            return None
        if self._added:
            step = int(self.filled.argmax())
            for added in reversed(self._added):
                if added.always or added.before[step] != value:
                    leaves, step, value = self._read(added.part, added.tables, step, value)
                    row[added.tree] = sorted(leaves)
        return row, chosen_for(value, self._whole, self._sums)[0]

    def _in_units(self, slots: int) -> int:
        return -(-slots // self.unit)

    def _shifted(self, table: np.ndarray, slots: int, filled: int) -> np.ndarray:
        """Move the table to where so many slots more are used, and some of them are filled for good."""
        used = self._in_units(slots)
        if not used:
            return table + filled
        moved = np.empty_like(table)
        moved[:used] = _NONE
        if used <= self.steps:
            np.add(table[:-used], filled, out=moved[used:])
        return moved

    def _through(self, part: Part, before: np.ndarray, tables: "dict[int, _NodeTables]") -> np.ndarray:
        """Return the table behind a part of which something is taken; and in `tables` how it was at every node."""
        open_nodes = list[int]()  # those above, of which some children were not looked at yet
        for v in range(len(part.slots)):
            if v:
                above = tables[part.parents[v]]
                before = above.none if above.some is None else np.maximum(above.none, above.some)
            whole = self._shifted(before, part.whole[v], part.whole[v])
            if part.ends[v] > v + 1:
                tables[v] = _NodeTables(whole, self._shifted(before, part.slots[v], 0), [], None)
                open_nodes.append(v)
                continue
            tables[v] = _NodeTables(whole, whole, [], None)
            behind, child = whole, v
            while open_nodes:  # a leaf ends; what ends with it ends, too
                above = tables[open_nodes[-1]]
                above.children.append((child, above.some))
                above.some = behind if above.some is None else np.maximum(above.some, behind)
                if part.ends[open_nodes[-1]] > part.ends[v]:
                    break
                child = open_nodes.pop()
                behind = np.maximum(above.whole, above.some)
        return behind

    def _read(self, part: Part, tables: "dict[int, _NodeTables]", step: int, value: int) -> tuple[list[int], int, int]:
        """Return the leaves that led to this value at this step; and the step and the value before them."""
        leaves = list[int]()
        unread = [_Unread(0)]
        while unread:
            reading = unread[-1]
            node_tables = tables[reading.node]
            if reading.left is None and node_tables.whole[step] == value:
                leaves += part.leaves(reading.node)
                step -= self._in_units(part.whole[reading.node])
                value -= part.whole[reading.node]
            elif reading.left == 0:
                step -= self._in_units(part.slots[reading.node])
            else:
                children_left = len(node_tables.children) if reading.left is None else reading.left
                while (before := node_tables.children[children_left - 1][1]) is not None and before[step] == value:
                    children_left -= 1  # this child was not taken
                reading.left = children_left - 1
                unread.append(_Unread(node_tables.children[children_left - 1][0]))
                continue
            unread.pop()
            if unread and tables[unread[-1].node].none[step] == value:
                unread[-1].left = 0  # the child that was read was the first to be taken
        return leaves, step, value


@dataclass
class _Added:
    """A tree that a row may take: the table before it, and the tables at its nodes if it may be taken partly."""

    tree: int
    part: Part
    always: bool
    before: np.ndarray
    tables: "dict[int, _NodeTables]"


@dataclass
class _NodeTables:
    """Tables at a node: taken whole; with its own slots and no child yet; and with one child or more.

    `children` has for each child that was looked at its number, and the table `some` before it.
    """

    whole: np.ndarray
    none: np.ndarray
    children: list[tuple[int, np.ndarray | None]]
    some: np.ndarray | None


@dataclass
class _Unread:
    """A node whose children are read from the last to the first; `left` of them were not read yet."""

    node: int
    left: int | None = None


class Filler:
    """Fills rows of `max_length` slots with trees.

    Attributes:
        work: what all tables took so far; see `Table`.
    """

    def __init__(self, trees: Sequence[Tree], max_length: int) -> None:
        self.trees = trees
        self.max_length = max_length
        self.work = 0

    def used(self, row: Row) -> int:
        return sum(self.trees[tree].part(leaves).size for tree, leaves in row.items())

    def fill(self, pool: dict[int, Part], first: int, rng: random.Random) -> tuple[Row, int]:
        """Take a row out of `pool`: as much of the tree `first` as fits, whole trees, and parts of a few others.

        Return the row and the slots that it uses.
        """
        row = {first: self._as_much_as_fits(first, pool[first])}
        base = self._size(first, row[first], pool[first])
        by_size = sorted((tree for tree in pool if tree != first), key=lambda tree: pool[tree].size, reverse=True)
        free, enough = self.max_length - base, _NEARLY * self.max_length
        fitting = [tree for tree in by_size if pool[tree].size <= free]
        table = Table(self.max_length, [pool[tree].size for tree in fitting], base)
        if all(part.is_flat for part in pool.values()):
            row |= self._flat(pool, by_size, free)
        elif table.best < enough:
            can_be_cut = [tree for tree in by_size if len(pool[tree].slots) > 1 and pool[tree].slots[0] < free]
            partly = rng.sample(can_be_cut, min(_PARTLY, len(can_be_cut)))
            fitting = [tree for tree in fitting if tree not in partly]
            table = Table(self.max_length, [pool[tree].size for tree in fitting], base)
            for tree in partly:
                if table.best >= enough:
                    break
                table.add(tree, pool[tree])
        self.work += table.work
        if len(row) == 1 and (best_part := table.read()):
            row |= best_part[0] | {fitting[at]: pool[fitting[at]].leaves() for at in best_part[1]}
        used = sum(self._size(tree, taken, pool[tree]) for tree, taken in row.items())
        for tree, taken in row.items():
            leaves_left = sorted(set(pool[tree].leaves()) - set(taken))
            if leaves_left:
                pool[tree] = self.trees[tree].part(leaves_left)
            else:
                del pool[tree]
        return row, used

    def _flat(self, pool: dict[int, Part], others: list[int], free: int) -> Row:
        """Choose whole flat trees, and a part of one more, that fill the most of the free slots for good.

        These are sums, exact to the slot, so every tree is tried as the one that is cut.
        """
        whole = [tree for tree in others if pool[tree].size <= free]
        reached = sums_up_to(free, [pool[tree].size for tree in whole])
        filled, row = highest(reached[-1]), Row()
        cut: tuple[int, list[int], list[int], list[int]] | None = None
        for tree in sorted(others, key=lambda tree: pool[tree].slots[0]) if filled < free else ():
            left = free - pool[tree].slots[0]
            if left <= filled:
                break
            branches, _ = pool[tree].branches
            self.work += 1 + len(branches) // 8  # a shift of bits takes far less than a node of a table
            if not branches or branches[-1] > left:
                continue
            if highest(sums_up_to(left, branches, reached[-1])[-1]) <= filled:
                continue
            beside = [other for other in whole if other != tree]
            of_whole = sums_up_to(left, [pool[other].size for other in beside])
            with_part = sums_up_to(left, branches, of_whole[-1])
            if highest(with_part[-1]) > filled:
                filled, cut = highest(with_part[-1]), (tree, beside, of_whole, with_part)
        if cut is not None:
            tree, whole, reached, with_part = cut
            branches, leaves = pool[tree].branches
            held, filled = chosen_for(filled, branches, with_part)
            if held:
                row[tree] = sorted(leaves[at] for at in held)
        for at in chosen_for(filled, [pool[tree].size for tree in whole], reached)[0]:
            row[whole[at]] = pool[whole[at]].leaves()
        return row

    def _size(self, tree: int, leaves: list[int], part: Part) -> int:
        """Return the slots of leaves of a part, which is known if they are all it has."""
        return part.size if len(leaves) == len(part.leaves()) else self.trees[tree].part(leaves).size

    def _as_much_as_fits(self, tree: int, part: Part) -> list[int]:
        """Return the leaves of a part that a row alone would take."""
        if part.size <= self.max_length:
            return part.leaves()
        if part.is_flat:
            branches, leaves = part.branches
            reached = sums_up_to(self.max_length - part.slots[0], branches)
            return sorted(leaves[at] for at in chosen_for(highest(reached[-1]), branches, reached)[0])
        table = Table(self.max_length, [])
        table.add(tree, part, always=True)
        self.work += table.work
        best_part = table.read()
        return best_part[0][tree] if best_part else self._one_by_one(tree, part)

    def _one_by_one(self, tree: int, part: Part) -> list[int]:
        """Return leaves of a part, each if it fits: where rounded up to units no path fits."""
        taken = list[int]()
        for leaf in part.leaves():
            more = sorted([*taken, leaf])
            if self.trees[tree].part(more).size <= self.max_length:
                taken = more
        return taken

    def first_pass(self, rng: random.Random) -> list[Row]:
        """Return the rows, one after the other, each begun with the largest tree of those that wait for a row."""
        queue = list(range(len(self.trees)))
        rng.shuffle(queue)
        pool = dict[int, Part]()
        rows = list[Row]()
        waiting = 0
        is_flat = not any(any(tree.parents[1:]) for tree in self.trees)
        while queue or pool:
            while queue and (waiting < _FLAT_WINDOW * self.max_length if is_flat else len(pool) < _WINDOW):
                tree = queue.pop()
                pool[tree] = self.trees[tree].part(self.trees[tree].leaves)
                waiting += pool[tree].size
            row, used = self.fill(pool, max(pool, key=lambda tree: pool[tree].size), rng)
            rows.append(row)
            waiting -= used
        return rows

    def improve(self, rows: list[Row], fewest: int, tries: int, most_work: int, rng: random.Random) -> list[Row]:
        """Fill a few rows at a time anew, and keep that if they end with as much space in one place, or more."""
        rows = rows.copy()
        spaces = [self.max_length - self.used(row) for row in rows]
        holders = _Holders(rows)
        for _ in range(tries):
            if len(rows) <= (1 + NEAR) * fewest or self.work > most_work:
                break
            chosen = self._some(rows, spaces, holders, rng)
            pool = self._pool([rows[at] for at in chosen])
            filled, new_spaces = list[Row](), list[int]()
            while pool and len(filled) < len(chosen):
                by_chance = {tree: part.size * rng.uniform(0.5, 1) for tree, part in pool.items()}
                row, used = self.fill(pool, max(by_chance, key=by_chance.__getitem__), rng)
                filled.append(row)
                new_spaces.append(self.max_length - used)
            if pool:
                continue
            squares = sum(n * n for n in new_spaces) + (len(chosen) - len(filled)) * self.max_length**2
            if squares < sum(spaces[at] ** 2 for at in chosen):
                continue
            chosen.sort()
            for at, row, space in zip(chosen, filled, new_spaces, strict=False):
                holders.replace(at, rows[at], row)
                rows[at], spaces[at] = row, space
            for at in reversed(chosen[len(filled) :]):  # one row fewer: the last takes its place
                last, space = rows.pop(), spaces.pop()
                holders.replace(len(rows), last, {})
                if at < len(rows):
                    holders.replace(at, rows[at], last)
                    rows[at], spaces[at] = last, space
        return rows

    def _pool(self, rows: Sequence[Row]) -> dict[int, Part]:
        leaves_of = dict[int, list[int]]()
        for row in rows:
            for tree, leaves in row.items():
                leaves_of.setdefault(tree, []).extend(leaves)
        return {tree: self.trees[tree].part(sorted(leaves)) for tree, leaves in leaves_of.items()}

    def _some(self, rows: list[Row], spaces: list[int], holders: "_Holders", rng: random.Random) -> list[int]:
        """Return a few rows: one of the emptier ones, rows that hold more of its trees, and others."""
        drawn = rng.sample(range(len(rows)), min(_EMPTIEST_OF, len(rows)))
        emptiest = max(drawn, key=spaces.__getitem__)
        number = min(len(rows), rng.randint(_FEWEST, _MOST))
        rows_of_its_trees = sorted(set().union(*(holders.of[tree] for tree in rows[emptiest])) - {emptiest})
        chosen = [emptiest, *rng.sample(rows_of_its_trees, min(len(rows_of_its_trees), number - 1, rng.randint(0, 3)))]
        while len(chosen) < number:
            if (at := rng.randrange(len(rows))) not in chosen:
                chosen.append(at)
        return chosen


class _Holders:
    """Rows that hold something of each tree.

    Attributes:
        of: for each tree the numbers of these rows.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.of = dict[int, set[int]]()
        for at, row in enumerate(rows):
            self.replace(at, {}, row)

    def replace(self, at: int, before: Row, after: Row) -> None:
        """Note that row `at` holds other trees than before."""
        for tree in before:
            self.of[tree].discard(at)
        for tree in after:
            self.of.setdefault(tree, set()).add(at)
