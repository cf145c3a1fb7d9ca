"""Rows for groups of answers that share a prompt: rollouts, pairs of a preference, choices of a question.

A row holds the tokens that the answers of a group share once, and behind them a branch for each answer that is there:

    shared tokens      the prompt without its last token
    a branch           the prompt's last token, and then the answer

The prompt's last token stands at the head of every branch, because it predicts the first token of every answer, and a
slot predicts one token. A prompt of p tokens and n answers of a tokens therefore take p - 1 + n (a + 1) tokens; with
one answer that is p + a, as without sharing. Another row that holds some of the same group repeats the shared tokens.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from packlib.checks import whole_number
from packlib.lengths.counting import MAX_LENGTH, as_int64
from packlib.packing.bit_sets import chosen_for, highest, sums_up_to
from packlib.packing.ragged import Ragged
from packlib.packing.search.group_bound import group_bound

_NEAR = 0.01  # rows that are at most so much above a bound are near enough: no better bound or rows are looked for
_TOGETHER = 10  # rows at most that are filled anew together
_WINDOW = 256  # rows' worth of tokens that wait for a row at a time

Row = dict[int, list[int]]  # of each group that is there the answers, by their number within the group


@dataclass(frozen=True, eq=False, repr=False)
class GroupRows(Ragged[np.ndarray]):
    """Answers in rows: row `i` holds answers `offsets[i]` to `offsets[i + 1]`.

    `rows[i]` is row i as an array of shape (number of its answers, 2): for each the group, and its number within the
    group, both from 0. Answers of a group stand together.

    >>> from packlib.packing import pack_groups
    >>> rows = pack_groups([5, 3], [[2, 2, 2], [4, 1]], max_length=14)
    >>> rows[0].tolist(), rows.tokens, rows.unshared_tokens
    ([[0, 0], [0, 1], [0, 2]], 22, 32)

    Attributes:
        groups, answers: for each answer that was laid, as above; int64, shape (number of answers,).
        lengths: its tokens, without the prompt; same shape.
        offsets: int64, shape (number of rows + 1,).
        prompts: the tokens of each group's prompt; int64, shape (number of groups,).
        max_length: slots of a row.
        lower_bound: no rows for these groups are fewer.
    """

    groups: np.ndarray
    answers: np.ndarray
    lengths: np.ndarray
    offsets: np.ndarray
    prompts: np.ndarray
    max_length: int
    lower_bound: int
    _called = "row", "rows"

    def __getitem__(self, index: int) -> np.ndarray:
        row = self._row(index)
        return np.stack([self.groups[row], self.answers[row]], axis=1)

    @cached_property
    def _copies(self) -> np.ndarray:
        """Whether the shared tokens of its group stand before each answer, rather than before another of its row."""
        first = np.append(True, self.groups[1:] != self.groups[:-1])
        first[self.offsets[:-1]] = True
        return first

    @cached_property
    def lengths_used(self) -> np.ndarray:
        """Tokens in each row; int64, shape (number of rows,)."""
        tokens = self.lengths + 1 + np.where(self._copies, self.prompts[self.groups] - 1, 0)
        return np.add.reduceat(tokens, self.offsets[:-1])

    @property
    def tokens(self) -> int:
        """Tokens in all rows."""
        return int(self.lengths_used.sum())

    @property
    def unshared_tokens(self) -> int:
        """Tokens of all answers, each with a prompt of its own."""
        return int((self.lengths + self.prompts[self.groups]).sum())

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return self.tokens / (len(self) * self.max_length)

    @property
    def split_groups(self) -> int:
        """Groups that stand in more than one row."""
        return int((np.bincount(self.groups[self._copies]) > 1).sum())

    def verify(self) -> "GroupRows":
        """Check from the arrays alone that no row is too long and no answer stands twice; return the rows.

        Raises:
            ValueError: with the first thing that is wrong.
        """
        if (used := self.lengths_used).max() > self.max_length:
            raise ValueError(f"Row {used.argmax()} holds {used.max()} tokens; the maximum is {self.max_length}.")
        order = np.lexsort((self.answers, self.groups))
        groups, answers = self.groups[order], self.answers[order]
        first = np.append(True, groups[1:] != groups[:-1])
        expected = np.arange(len(groups)) - np.maximum.accumulate(np.where(first, np.arange(len(groups)), 0))
        if (wrong := answers != expected).any():
            at = wrong.argmax()
            raise ValueError(f"Answer {expected[at]} of group {groups[at]} does not stand in the rows once.")
        if len(copies := np.unique(groups)) != len(self.prompts):
            raise ValueError(f"The rows hold {len(copies)} groups; there are {len(self.prompts)}.")
        return self

    def __repr__(self) -> str:
        return (
            f"GroupRows({len(self.lengths):,} answers of {len(self.prompts):,} groups in {len(self):,} rows of "
            f"{self.max_length}, at least {self.lower_bound:,} needed, {self.split_groups:,} groups in several rows, "
            f"{self.unshared_tokens / self.tokens:.2f} times fewer tokens than with a prompt for each answer)"
        )


def pack_groups(
    prompts: Iterable[int],
    answers: Iterable[Iterable[int]],
    max_length: int,
    *,
    tries: int = 20,
    seed: int = 0,
) -> GroupRows:
    """Lay groups of answers into few rows; in each row, a prompt stands once for all of its answers in that row.

    Row after row is filled as full as groups can fill it: first with the largest group that is left, then with whole
    groups and at most one group of which some answers stay for later rows. Then a few rows at a time are filled anew in
    another order, and kept so if that leaves more of the space in one place.

    >>> from packlib.packing import pack_groups
    >>> rows = pack_groups([5, 3], [[2, 2, 2], [4, 1]], max_length=14)
    >>> [row.tolist() for row in rows], rows.lengths_used.tolist()
    ([[[0, 0], [0, 1], [0, 2]], [[1, 0], [1, 1]]], [13, 9])

    Args:
        prompts: the tokens of each group's prompt, 1 or more.
        answers: for each group, the tokens of each of its answers, 1 or more; prompt and answer together at most
            `max_length`.
        max_length: slots of a row. How many tokens a group takes is said at the top of `packlib.packing.groups`.
        tries: attempts to fill a few rows anew, for each row of the first pass; they end early when the rows are within
            1 % of the bound. With 0 the first pass is the result, and `lower_bound` rests on sums of tokens alone: that
            takes milliseconds instead of seconds for hundreds of groups.
        seed: of the order in which groups come up for a row, and of the rows that are filled anew.

    Raises:
        TypeError, ValueError: naming the argument or the answer that is wrong.
    """
    top, tries = whole_number("max_length", max_length, 1, MAX_LENGTH), whole_number("tries", tries, 0)
    seed = whole_number("seed", seed, 0)
    lengths = as_int64(prompts, "Prompt")
    if not isinstance(answers, Iterable):
        raise TypeError(f"answers must have a list of lengths for each group, not {answers!r}.")
    each = [as_int64(own, "Answer", f"position {{}} of group {group}".format) for group, own in enumerate(answers)]
    _check(lengths, each, top)
    shared, branches = lengths - 1, [(own + 1).tolist() for own in each]
    all_branches = np.array([sum(own) for own in branches])
    filler = _Filler(shared.tolist(), branches, top)
    rows = filler.first_pass(random.Random(seed))
    fewest_rows = -(-all_branches // (top - shared))  # of each group alone, each with the shared tokens
    least = -(-int((fewest_rows * shared + all_branches).sum()) // top)
    if tries and len(rows) > (1 + _NEAR) * least:
        shortest = np.array([min(own) for own in branches])
        least = max(least, group_bound(shared, all_branches, shortest, np.array([*map(len, each)]), top))
    rows = filler.improve(rows, least, tries * len(rows), random.Random(seed))
    laid = [sorted((group, answer) for group, held in row.items() for answer in held) for row in rows]
    groups, numbers = np.array([pair for row in laid for pair in row]).T
    offsets = np.cumsum([0, *map(len, laid)])
    taken = np.array([each[group][answer] for row in laid for group, answer in row])
    return GroupRows(groups, numbers, taken, offsets, lengths, top, least).verify()


def _check(prompts: np.ndarray, answers: list[np.ndarray], max_length: int) -> None:
    if not len(prompts) or len(prompts) != len(answers):
        raise ValueError(
            f"prompts and answers must have one entry for each group, not {len(prompts)} and {len(answers)}."
        )
    for group, (prompt, own) in enumerate(zip(prompts.tolist(), answers, strict=True)):
        if prompt < 1:
            raise ValueError(f"The prompt of group {group} must have at least 1 token, not {prompt}.")
        if not len(own) or own.min() < 1:
            found = f"one of {own.min()} tokens" if len(own) else "none"
            raise ValueError(f"Group {group} must have answers of at least 1 token, not {found}.")
        if prompt + own.max() > max_length:
            raise ValueError(
                f"max_length must be at least {prompt + own.max()}, the prompt and the longest answer of group "
                f"{group}, not {max_length}."
            )


@dataclass(frozen=True)
class _Filler:
    """Fills rows with groups: the tokens that a group's branches share, and those of each branch."""

    shared: list[int]
    branches: list[list[int]]
    max_length: int

    def tokens(self, row: Row) -> int:
        return sum(self.size(group, held) for group, held in row.items())

    def size(self, group: int, held: Iterable[int]) -> int:
        return self.shared[group] + sum(map(self.branches[group].__getitem__, held))

    def first_pass(self, rng: random.Random) -> list[Row]:
        """Rows, one after the other, each begun with the largest group of those that wait for a row."""
        queue = list(range(len(self.shared)))
        rng.shuffle(queue)
        pool, waiting, rows = Row(), 0, list[Row]()
        while queue or pool:
            while queue and waiting < _WINDOW * self.max_length:
                group = queue.pop()
                pool[group] = self.long_to_short(group, range(len(self.branches[group])))
                waiting += self.size(group, pool[group])
            rows.append(self.fill(pool, max(pool, key=lambda group: self.size(group, pool[group]))))
            waiting -= self.tokens(rows[-1])
        return rows

    def long_to_short(self, group: int, held: Iterable[int]) -> list[int]:
        return sorted(held, key=self.branches[group].__getitem__, reverse=True)

    def fill(self, pool: Row, first: int) -> Row:
        """Take a row out of `pool`, as full as can be: answers of group `first`, whole groups, and part of another.

        The shared tokens of that part do not count as filled, since they are to stand in another row too.
        """
        branches = [self.branches[first][i] for i in pool[first]]
        reached = sums_up_to(self.max_length - self.shared[first], branches)
        held, _ = chosen_for(highest(reached[-1]), branches, reached)
        row = {first: [pool[first][i] for i in held]}
        space = self.max_length - self.tokens(row)
        sizes = {group: self.size(group, own) for group, own in pool.items() if group != first}
        whole = sorted((group for group in sizes if sizes[group] <= space), key=sizes.__getitem__, reverse=True)
        reached = sums_up_to(space, [sizes[group] for group in whole])
        filled, part, taken = highest(reached[-1]), None, Row()
        for group in sorted(sizes, key=self.shared.__getitem__) if filled < space else ():
            left = space - self.shared[group]
            if left <= filled:
                break
            branches = [self.branches[group][i] for i in pool[group]]
            if branches[-1] > left or highest(sums_up_to(left, branches, reached[-1])[-1]) <= filled:
                continue
            others = sums_up_to(left, [sizes[other] for other in whole if other != group])  # without itself, whole
            sums = sums_up_to(left, branches, others[-1])
            if highest(sums[-1]) > filled:
                filled, part, beside, of_part = highest(sums[-1]), group, others, sums
        if part is not None:
            whole, reached = [group for group in whole if group != part], beside
            held, filled = chosen_for(filled, [self.branches[part][i] for i in pool[part]], of_part)
            taken = {part: [pool[part][i] for i in held]} if held else {}
        held, _ = chosen_for(filled, [sizes[group] for group in whole], reached)
        row |= taken | {whole[i]: pool[whole[i]] for i in held}
        for group, own in row.items():
            gone = set(own)
            pool[group] = [answer for answer in pool[group] if answer not in gone]
            if not pool[group]:
                del pool[group]
        return row

    def improve(self, rows: list[Row], fewest: int, tries: int, rng: random.Random) -> list[Row]:
        """Fill a few rows at a time anew, and keep that if they end with as much space in one place, or more."""
        spaces, holders = [self.max_length - self.tokens(row) for row in rows], _holders(rows)
        for _ in range(tries):
            if len(rows) <= (1 + _NEAR) * fewest:
                break
            some = _some(rows, holders, min(len(rows), rng.randint(2, _TOGETHER)), rng)
            pool = Row()
            for at in some:
                for group, held in rows[at].items():
                    pool.setdefault(group, []).extend(held)
            pool = {group: self.long_to_short(group, held) for group, held in pool.items()}
            filled = list[Row]()
            while pool and len(filled) < len(some):
                by_chance = {group: self.size(group, held) * rng.uniform(0.5, 1) for group, held in pool.items()}
                filled.append(self.fill(pool, max(by_chance, key=by_chance.__getitem__)))
            left = [self.max_length - self.tokens(row) for row in filled]
            squares = sum(n * n for n in left) + (len(some) - len(filled)) * self.max_length**2
            if not pool and squares >= sum(spaces[at] ** 2 for at in some):
                for at in sorted(some, reverse=True):
                    del rows[at], spaces[at]
                rows += filled
                spaces += left
                holders = _holders(rows)
        return rows


def _holders(rows: Sequence[Row]) -> dict[int, list[int]]:
    """Which rows hold answers of each group."""
    holders = dict[int, list[int]]()
    for at, row in enumerate(rows):
        for group in row:
            holders.setdefault(group, []).append(at)
    return holders


def _some(rows: Sequence[Row], holders: dict[int, list[int]], number: int, rng: random.Random) -> list[int]:
    """So many of the rows by chance: one, those that hold more of its groups, and others."""
    one = rng.randrange(len(rows))
    kin = sorted({at for group in rows[one] for at in holders[group]} - {one})
    some = [one, *rng.sample(kin, min(len(kin), number - 1))]
    while len(some) < number:
        if (at := rng.randrange(len(rows))) not in some:
            some.append(at)
    return some
