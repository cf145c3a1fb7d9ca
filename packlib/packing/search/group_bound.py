"""How few rows can hold groups of answers that share a prompt: a lower bound, by what parts of groups are worth.

A row holds parts of groups: of each, the shared tokens once and some of the branches. Give every part a worth by its
tokens, such that no row is worth more than one row, whatever parts it holds. Each group is cut into parts somehow, and
its parts together are worth at least what the cheapest way to cut it is. All rows together are worth as much as all
parts, so there are at least as many rows as the sum of the cheapest cuts says. A second part costs the shared tokens
once more, which is what makes this stronger than the sum of all tokens.

The cheapest cuts are found in a larger world, so that they can only come out cheaper: branches may be cut anywhere, but
each part holds as many tokens as the shortest branch. A worth depends on the level of a part, its tokens in units
rounded down; what a row is worth at most is a knapsack over levels (`knapsack.py`). All are integers, so that no
rounding error makes the bound false.

Good worths come from a linear program, whose dual they are: as few rows as possible, fractions allowed, so that rows
have a place for every part, and each group is cut in some way. It is solved by column generation: knapsacks propose
rows, and cheapest cuts propose cuts (Gilmore and Gomory 1961, with two kinds of columns).
"""

from collections.abc import Iterator

import numpy as np

from packlib.packing.search.bound import PRICE_OF_A_PACK
from packlib.packing.search.columns import generate_columns
from packlib.packing.search.knapsack import NOT_FOR_SALE, Knapsack, solve_knapsack
from packlib.packing.search.master import MasterProblem

_LEVELS = 512  # of a row
_SAMPLE = 256  # groups that the linear program looks at; its worths then hold for all
_ROUNDS, _CLOSE = 100, 0.9995  # of the linear program at most; and the share of its optimum that is good enough
_SHARES = 7, 4, 0  # tenths of the center in worths that are tried
_SLACK = PRICE_OF_A_PACK >> 28  # a row must be worth so much more than it costs
_AT_ONCE = 1024  # groups that are cut at once
_PARTS = 256  # of a group, at most
_WORK = 10**9  # additions of all cuts, after which the search for worths ends
_NEVER = 1 << 61  # what is worth so much is not there


class _Groups:
    """Groups in tokens: a row each for what their branches share, all of them, the shortest, and how many; int64."""

    def __init__(self, tokens: np.ndarray, max_length: int) -> None:
        self.tokens = tokens
        self.max_length = max_length
        self.steps = 0  # additions so far
        self.unit = -(-max_length // _LEVELS)
        self.levels = max_length // self.unit

    def some(self, which: slice | np.ndarray) -> "_Groups":
        return _Groups(self.tokens[:, which], self.max_length)

    def cheapest_cuts(self, worths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the cheapest cut of each group: its worth (groups,), and its parts by level (groups, levels + 1).

        Args:
            worths: of a part, by its level; int64, shape (levels + 1,), ascending.

        Parts at levels v, w, … hold at most the sum of `(v + 1) unit - 1` tokens, and the shared tokens are in each of
        them. So it matters only how many parts there are and how high their levels are together. Levels are added one
        after the other, from high to low. The cheapest cut of a group is read off once every level that holds its
        shortest branch has been added.
        """
        shared, branches, shortest, _ = self.tokens
        lowest = np.minimum((shared + shortest) // self.unit, self.levels)
        parts = self._most_parts(worths, lowest)
        number = np.arange(int(parts.max()) + 1)
        needed = -(-(branches[:, None] + number * (shared[:, None] + 1)) // self.unit)
        needed[number > parts[:, None]] = 0  # these are not looked at
        needed = np.minimum(needed, number * (self.levels + 1) + 1)  # more than that is out of reach
        # by the number of parts, and the sum of their levels, each plus 1: the least worth, and a level of such parts
        least = np.full((len(number), int(needed.max()) + 1), _NEVER)
        least[0, 0], part = 0, np.zeros(least.shape, np.int64)
        cost, found = np.empty(len(lowest), np.int64), np.zeros((len(lowest), self.levels + 1), np.int64)
        self.steps += least.size * (self.levels + 1)
        for level in range(self.levels, int(lowest.min()) - 1, -1):
            enough = -(-(least.shape[1] - 1) // (level + 1))  # so many parts of such levels hold any group
            for k in number[1 : enough + 1].tolist():
                worth = np.append(np.full(level + 1, least[k - 1, 0]), least[k - 1])[: least.shape[1]] + worths[level]
                better = worth < least[k]
                np.copyto(least[k], worth, where=better)
                np.copyto(part[k], level, where=better)
            for group in np.flatnonzero(lowest == level).tolist():
                by_number = least[number[1 : parts[group] + 1], needed[group, 1 : parts[group] + 1]]
                best = int(by_number.argmin()) + 1
                cost[group], total = by_number[best - 1], int(needed[group, best])
                for k in range(best, 0, -1):
                    one = int(part[k, total])
                    found[group, one] += 1
                    total = max(0, total - one - 1)
        return cost, found

    def _most_parts(self, worths: np.ndarray, lowest: np.ndarray) -> np.ndarray:
        """Count the most parts that a cheapest cut of each group has, if none is below its lowest level; int64.

        There are no more than branches. Parts of the lowest level that hold everything are enough, and so are parts
        that are worth as much as a whole cut into equal parts, unless parts of the lowest level are worth nothing.
        """
        shared, branches, _, most = self.tokens
        parts = np.minimum(most, -(-branches // ((lowest + 1) * self.unit - 1 - shared)))
        cheapest = np.full(len(parts), _NEVER)
        for number in range(1, int(parts.max()) + 1):
            level = -(-(branches + number * (shared + 1)) // (self.unit * number)) - 1
            level = np.maximum(level, lowest)
            fits = (level <= self.levels) & (number <= parts)
            cheapest[fits] = np.minimum(cheapest[fits], number * worths[level[fits]])
        as_much = np.maximum(1, cheapest // np.maximum(1, worths[lowest]))
        return np.where(worths[lowest] > 0, np.minimum(parts, as_much), parts)


def group_bound(
    shared: np.ndarray, branches: np.ndarray, shortest: np.ndarray, most: np.ndarray, max_length: int
) -> int:
    """Compute the number of rows that groups need at least, by the proof above.

    Args:
        shared: tokens that stand once for all branches of a group in a row; int64, shape (groups,).
        branches: tokens of all branches of each group together; same shape.
        shortest: tokens of the shortest branch of each group; same shape.
        most: how many branches each group has; same shape. Where that is over 256, nothing is proven.
        max_length: tokens of a row.
    """
    if most.max() > _PARTS:
        return 0
    groups = _Groups(np.array([shared, branches, shortest, most]), max_length)
    order = np.argsort(shared + branches, kind="stable")
    number = min(len(order), _SAMPLE)
    sample = groups.some(order[(np.arange(number) * len(order) + len(order) // 2) // number])
    worths = _good_worths(sample)
    total = 0
    for first in range(0, len(order), _AT_ONCE):
        total += sum(groups.some(slice(first, first + _AT_ONCE)).cheapest_cuts(worths)[0].tolist())
    return -(-total // _best_row(worths).best)


def _best_row(worths: np.ndarray) -> Knapsack:
    return solve_knapsack(np.append(NOT_FOR_SALE, worths[1:]), None)


def _good_worths(groups: _Groups) -> np.ndarray:
    """Find worths of the levels that prove many rows for these groups: the best that column generation comes to."""
    search = _Worths(groups)
    generate_columns(search.solutions(), lambda: search.center, search.price, _SHARES)
    return search.center


class _Worths:
    """The linear program of rows and cuts, and the worths of levels that prove most so far, the center."""

    def __init__(self, groups: _Groups) -> None:
        self.groups, self.levels = groups, np.arange(groups.levels + 1)
        self.center = self.levels * (PRICE_OF_A_PACK // groups.levels)
        self._master = _Master(groups)
        self._most = 0.0
        self._any_row = True

    def solutions(self) -> Iterator[np.ndarray]:
        """Yield the worths to look between: at first the center alone, since the program has no rows yet."""
        yield self.center
        self._any_row = False
        for _ in range(_ROUNDS - 1):
            if self.groups.steps > _WORK:
                return
            self._master.solve(np.zeros(self.groups.levels + 1, np.int64))
            if self._most > _CLOSE * self._master.objective:
                return
            yield np.append(0, np.maximum.accumulate(self._master.prices[: self.groups.levels]))

    def price(self, worths: np.ndarray, own: np.ndarray) -> int:
        """Add the best rows that are worth more than they cost at the solution's own worths, and the cheapest cuts."""
        knapsack, (cost, parts) = _best_row(worths), self.groups.cheapest_cuts(worths)
        proven = float(cost.sum(dtype=float)) / max(knapsack.best, 1)
        if proven > self._most:
            self._most, self.center = proven, (worths * (PRICE_OF_A_PACK / knapsack.best)).astype(np.int64)
        value = own.tolist()
        rows = [
            row
            for row in knapsack.packs_with(self.levels[1:])
            if self._any_row or sum(value[level] * n for level, n in row) > PRICE_OF_A_PACK + _SLACK
        ]
        return self._master.add(rows) + self._master.add_cuts(parts)


class _Master(MasterProblem):
    """The linear program over rows, as places of levels, and over cuts, which take places; each group is cut once."""

    def __init__(self, groups: _Groups) -> None:
        super().__init__(np.append(0, np.ones(groups.levels, np.int64)))
        n = groups.tokens.shape[1]
        empty = np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0)
        self._highs.addRows(n, np.ones(n), np.full(n, np.inf), 0, *empty)
        self.cuts: set[tuple[int, bytes]] = set()

    def add_cuts(self, parts: np.ndarray) -> int:
        """Add the ways to cut that are new, one for each group; return how many."""
        starts, rows, values = list[int](), list[int](), list[int]()
        for group, by_level in enumerate(parts):
            cut = group, by_level.tobytes()
            if cut not in self.cuts:
                self.cuts.add(cut)
                starts.append(len(rows))
                levels = np.flatnonzero(by_level[1:])
                rows += [*levels.tolist(), len(self.lengths) + group]
                values += [*(-by_level[1:][levels]).tolist(), 1]
        self._add_columns(0.0, starts, rows, values)
        return len(starts)
