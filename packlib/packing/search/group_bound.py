"""How few rows can hold groups of answers that share a prompt: a lower bound, by prices of parts of groups.

A row holds parts of groups: of each, the shared tokens once and some of the branches. Give every part a price by its
tokens. As in `bound.py`, the value of a row is the sum of the prices of what it holds. Each group is cut into parts
somehow, and its parts together cost at least as much as those of its cheapest cut. The rows have the value of all parts
together, and no row has more than the best possible row. So there are at least as many rows as the prices of the
cheapest cuts, added up and divided by the value of the best row. A second part costs the shared tokens once more, which
is what makes this stronger than the sum of all tokens.

The cheapest cuts are found in a larger world, so that they can only come out cheaper: branches may be cut anywhere, but
each part holds as many tokens as the shortest branch. A price depends on the level of a part, its tokens in units
rounded down; the value of the best row is a knapsack over levels (`knapsack.py`). All are integers, so that no rounding
error makes the bound false.

Good prices come from a linear program, whose dual they are: as few rows as possible, fractions allowed, so that rows
have a place for every part, and each group is cut in some way. It is solved by column generation: knapsacks propose
rows, and cheapest cuts propose cuts (Gilmore and Gomory 1961, with two kinds of columns).
"""

from collections.abc import Iterator

import numpy as np

from packlib.packing.search.bound import PRICE_OF_A_PACK
from packlib.packing.search.columns import generate_columns
from packlib.packing.search.knapsack import NOT_FOR_SALE, Knapsack, solve_knapsack
from packlib.packing.search.master import MasterProblem

_LEVELS = 512  # of a row, at most
_SAMPLE = 256  # groups that the linear program looks at; its prices then hold for all
_ROUNDS, _CLOSE = 100, 0.9995  # of the linear program at most; and the share of its optimum that is good enough
_TENTHS_OF_CENTER = 7, 4, 0  # in prices that are tried, see `generate_columns`
_LEAST_GAIN = PRICE_OF_A_PACK >> 28  # a row must be worth so much more than it costs
_AT_ONCE = 1024  # groups that are cut at once
_PARTS = 256  # of a group, at most
_WORK = 10**9  # additions of all cuts, after which the search for prices ends
_NEVER = 1 << 61  # the price of parts that do not exist: above all prices, and two of them fit in 64 bits


class _Groups:
    """Groups, and the levels of parts of them.

    A part with t tokens, the shared ones among them, has the level t // unit. So a part of a level holds at most
    `(level + 1) * unit - 1` tokens.

    Attributes:
        tokens: the arguments of `group_bound` as rows; int64, shape (4, groups).
        shared, branches, shortest, num_branches: these rows; each int64, shape (groups,).
        unit: the tokens of a level.
        levels: the level of a part that fills a row; others are from 0 up to it.
        steps: additions so far.
    """

    def __init__(self, tokens: np.ndarray, max_length: int) -> None:
        self.tokens = tokens
        self.shared, self.branches, self.shortest, self.num_branches = tokens
        self.max_length = max_length
        self.steps = 0
        self.unit = -(-max_length // _LEVELS)
        self.levels = max_length // self.unit

    def some(self, which: slice | np.ndarray) -> "_Groups":
        """Return some of the groups, by their indices."""
        return _Groups(self.tokens[:, which], self.max_length)

    def cheapest_cuts(self, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the cheapest cut of each group.

        Levels are added to a table from high to low. Once the lowest level that holds the shortest branch of a group
        has been added, the cheapest cut of that group is read off.

        For example, a group shares 4 tokens, and has three branches of 3 tokens. One row of 10 tokens cannot hold it.
        If a part costs 1 for each of its tokens, a cheapest cut has parts of 8 and 9 tokens. Each has the 4 shared
        ones. The 9 tokens of the branches are cut anywhere.

        >>> import numpy as np
        >>> from packlib.packing.search.group_bound import _Groups
        >>> shared, branches, shortest, num_branches = [4], [9], [3], [3]
        >>> groups = _Groups(np.array([shared, branches, shortest, num_branches]), max_length=10)
        >>> cut_prices, parts = groups.cheapest_cuts(prices=np.arange(11))
        >>> cut_prices, np.flatnonzero(parts[0])
        (array([17]), array([8, 9]))

        Args:
            prices: what a part costs, by its level; int64, shape (levels + 1,), ascending.

        Returns:
            The price of each group's cheapest cut, int64, shape (groups,); and how many parts of each level it has,
            int64, shape (groups, levels + 1).
        """
        num_groups = len(self.shared)
        lowest = np.minimum((self.shared + self.shortest) // self.unit, self.levels)
        most_parts = self._most_parts(prices, lowest)
        needed = self._heights_needed(most_parts)
        table = _CheapestParts(int(most_parts.max()), int(needed.max()))
        cut_prices = np.empty(num_groups, np.int64)
        parts = np.zeros((num_groups, self.levels + 1), np.int64)
        self.steps += table.least.size * (self.levels + 1)
        for level in range(self.levels, int(lowest.min()) - 1, -1):
            table.add(level, prices[level])
            for group in np.flatnonzero(lowest == level).tolist():
                needed_by_number = needed[group, : most_parts[group] + 1]
                cut_prices[group], levels_of_parts = table.cheapest(needed_by_number)
                for level_of_part in levels_of_parts:
                    parts[group, level_of_part] += 1
        return cut_prices, parts

    def _height_needed(self, number: int) -> np.ndarray:
        """Return for each group the height that its parts need together, if it is cut into `number` parts.

        The height of a part is its level plus 1. A part of height h holds at most `h * unit - 1` tokens, and the shared
        tokens are among them. So the branches fit into k parts whose heights together, times `unit`, are at least
        `branches + k * (shared + 1)`.

        Returns:
            int64, shape (groups,).
        """
        return -(-(self.branches + number * (self.shared + 1)) // self.unit)  # minus a floor rounds up

    def _heights_needed(self, most_parts: np.ndarray) -> np.ndarray:
        """Return for each group the height that 0, 1, … parts of it need together, as the table of parts is asked.

        Args:
            most_parts: for each group; more parts are not asked for, and their entries are 0.

        Returns:
            int64, shape (groups, most parts of any group + 1).
        """
        numbers = np.arange(int(most_parts.max()) + 1)
        needed = np.stack([self._height_needed(number) for number in numbers.tolist()], axis=1)
        needed[numbers > most_parts[:, None]] = 0
        highest = numbers * (self.levels + 1)  # of so many parts together
        return np.minimum(needed, highest + 1)  # more is as much out of reach, and would only make the table larger

    def _most_parts(self, prices: np.ndarray, lowest: np.ndarray) -> np.ndarray:
        """Count the most parts that a cheapest cut of each group can have; int64, shape (groups,).

        It has at most one part for each branch, and at most as many as hold everything at the lowest level. Each part
        costs at least the price of the lowest level. All together cost at most as much as the cheapest cut into equal
        parts. So their number is at most this price divided by that of the lowest level, unless the latter is 0.

        Args:
            prices: as of `cheapest_cuts`.
            lowest: the lowest level that a part of each group can have; int64, shape (groups,).
        """
        branch_tokens_at_lowest = (lowest + 1) * self.unit - 1 - self.shared  # of a part
        parts_at_lowest = -(-self.branches // branch_tokens_at_lowest)
        most_parts = np.minimum(self.num_branches, parts_at_lowest)
        least_price = prices[lowest]  # of a part
        affordable = self._price_of_equal_parts(prices, lowest, most_parts) // np.maximum(1, least_price)
        most_affordable = np.minimum(most_parts, np.maximum(1, affordable))
        return np.where(least_price > 0, most_affordable, most_parts)

    def _price_of_equal_parts(self, prices: np.ndarray, lowest: np.ndarray, most_parts: np.ndarray) -> np.ndarray:
        """Return the price of the cheapest cut of each group into parts of one level; int64, shape (groups,).

        Args:
            prices, lowest: as of `_most_parts`.
            most_parts: for each group; where no cut into so many parts or fewer is possible, the price is `_NEVER`.
        """
        cheapest = np.full(len(most_parts), _NEVER)
        for number in range(1, int(most_parts.max()) + 1):
            height = -(-self._height_needed(number) // number)  # of each part
            level = np.maximum(height - 1, lowest)
            is_possible = (level <= self.levels) & (number <= most_parts)
            price = number * prices[level[is_possible]]
            cheapest[is_possible] = np.minimum(cheapest[is_possible], price)
        return cheapest


class _CheapestParts:
    """The least price of k parts that together reach a height, by dynamic programming: a knapsack that must be filled.

    Attributes:
        least: `least[k, h]` is the least price of k parts of the levels added so far whose heights (level plus 1) are
            together at least h; int64, shape (most parts + 1, most height + 1).
    """

    def __init__(self, most_parts: int, most_height: int) -> None:
        self.least = np.full((most_parts + 1, most_height + 1), _NEVER)
        self.least[0, 0] = 0
        self._level_of_one = np.zeros(self.least.shape, np.int64)  # the level of one of the k parts

    def add(self, level: int, price: int) -> None:
        """Allow parts of a level, any number of them, each at this price."""
        height = level + 1
        columns = self.least.shape[1]
        enough = -(-(columns - 1) // height)  # so many parts of this level reach every height
        for k in range(1, min(enough, len(self.least) - 1) + 1):
            # one part of this level, and k - 1 others that reach the remaining height, or 0
            price_of_others = np.append(np.full(height, self.least[k - 1, 0]), self.least[k - 1])[:columns]
            price_of_all = price_of_others + price
            is_less = price_of_all < self.least[k]
            np.copyto(self.least[k], price_of_all, where=is_less)
            np.copyto(self._level_of_one[k], level, where=is_less)

    def cheapest(self, needed: np.ndarray) -> tuple[int, Iterator[int]]:
        """Find the cheapest parts, one or more, that reach `needed[k]` if there are k of them.

        Returns:
            Their price together, and their levels.
        """
        numbers = np.arange(1, len(needed))
        price_by_number = self.least[numbers, needed[numbers]]
        best = int(price_by_number.argmin())
        number = int(numbers[best])
        return price_by_number[best], self.levels_of(number, int(needed[number]))

    def levels_of(self, number: int, height: int) -> Iterator[int]:
        """Yield the levels of the cheapest parts, `number` of them, that reach a height."""
        for k in range(number, 0, -1):
            level = int(self._level_of_one[k, height])
            yield level
            height = max(0, height - (level + 1))


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
    by_tokens = np.argsort(shared + branches, kind="stable")
    num_groups = len(by_tokens)
    num_in_sample = min(num_groups, _SAMPLE)
    spread_evenly = (np.arange(num_in_sample) * num_groups + num_groups // 2) // num_in_sample
    prices = _good_prices(groups.some(by_tokens[spread_evenly]))
    price_of_all_groups = 0
    for first in range(0, num_groups, _AT_ONCE):
        cut_prices, _ = groups.some(slice(first, first + _AT_ONCE)).cheapest_cuts(prices)
        price_of_all_groups += sum(cut_prices.tolist())  # in Python's integers, which do not overflow
    return -(-price_of_all_groups // _knapsack_of_rows(prices).best)  # minus a floor rounds up


def _knapsack_of_rows(prices: np.ndarray) -> Knapsack:
    """Find the most valuable rows: a part of level v takes v of a row's `levels`, and level 0 costs nothing."""
    return solve_knapsack(np.append(NOT_FOR_SALE, prices[1:]), None)


def _good_prices(groups: _Groups) -> np.ndarray:
    """Find prices of the levels that prove many rows for these groups: the best that column generation comes to."""
    search = _PriceSearch(groups)
    generate_columns(search.solutions(), lambda: search.center, search.add_columns, _TENTHS_OF_CENTER)
    return search.center


class _PriceSearch:
    """The search for prices of levels by column generation.

    Attributes:
        groups: those that the linear program cuts.
        levels: all levels, from 0 up; int64.
        center: the prices that prove most so far; int64, same shape.
    """

    def __init__(self, groups: _Groups) -> None:
        self.groups, self.levels = groups, np.arange(groups.levels + 1)
        self.center = self.levels * (PRICE_OF_A_PACK // groups.levels)
        self._master = _Master(groups)
        self._proven = 0.0  # rows that the center proves, a fraction
        self._is_first_round = True

    def solutions(self) -> Iterator[np.ndarray]:
        """Yield the prices to look between: at first the center alone, since the program has no rows yet."""
        yield self.center
        self._is_first_round = False
        no_sequences = np.zeros(self.groups.levels + 1, np.int64)  # only cuts take places
        for _ in range(_ROUNDS - 1):
            if self.groups.steps > _WORK:
                return
            self._master.solve(no_sequences)
            if self._proven > _CLOSE * self._master.objective:
                return
            prices_of_levels = self._master.prices[: self.groups.levels]  # from level 1 up; those of groups follow
            yield np.append(0, np.maximum.accumulate(prices_of_levels))

    def add_columns(self, prices: np.ndarray, solution_prices: np.ndarray) -> int:
        """Add the best rows at `prices` that help at those of the solution, and the cheapest cuts at `prices`.

        Returns:
            How many rows and cuts were new.
        """
        knapsack = _knapsack_of_rows(prices)
        cut_prices, parts = self.groups.cheapest_cuts(prices)
        proven = float(cut_prices.sum(dtype=float)) / max(knapsack.best, 1)
        if proven > self._proven:
            self._proven = proven
            self.center = (prices * (PRICE_OF_A_PACK / knapsack.best)).astype(np.int64)
        price_of = solution_prices.tolist()
        rows = [
            row
            for row in knapsack.packs_with(self.levels[1:])
            if self._is_first_round
            or sum(price_of[level] * copies for level, copies in row) > PRICE_OF_A_PACK + _LEAST_GAIN
        ]
        return self._master.add(rows) + self._master.add_cuts(parts)


class _Master(MasterProblem):
    """The linear program over rows and cuts.

    It has a row for each level from 1 up, and then one for each group. A row of the packing gives places at its levels,
    as a strategy of `MasterProblem` does. A cut takes the places of its parts, and counts 1 for its group, which needs
    1 in all.
    """

    def __init__(self, groups: _Groups) -> None:
        super().__init__(np.append(0, np.ones(groups.levels, np.int64)))
        n = groups.tokens.shape[1]
        empty = np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0)
        self._highs.addRows(n, np.ones(n), np.full(n, np.inf), 0, *empty)
        self.cuts: set[tuple[int, bytes]] = set()

    def add_cuts(self, parts: np.ndarray) -> int:
        """Add those cuts that are new, of one for each group; return how many were.

        Args:
            parts: how many parts of each level each cut has; int64, shape (groups, levels + 1).
        """
        starts, rows, values = list[int](), list[int](), list[int]()
        for group, by_level in enumerate(parts):
            cut = group, by_level.tobytes()
            if cut not in self.cuts:
                self.cuts.add(cut)
                starts.append(len(rows))
                from_level_1 = by_level[1:]
                level_rows = np.flatnonzero(from_level_1)
                rows += [*level_rows.tolist(), len(self.lengths) + group]
                values += [*(-from_level_1[level_rows]).tolist(), 1]
        self._add_columns(0.0, starts, rows, values)
        return len(starts)
