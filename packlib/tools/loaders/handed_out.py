"""What all ranks were handed out in an epoch, counted, and what it is compared with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from packlib.tools.loaders.passes import OnePass
from packlib.tools.loaders.sequence_names import SequenceNames

Steps = list[tuple[int, ...]]


@dataclass(frozen=True)
class Epoch:
    """One epoch of all ranks.

    Attributes:
        name: such as "epoch 0".
        passes: what each rank was handed out.
    """

    name: str
    passes: list[OnePass]

    @property
    def ended(self) -> bool:
        """Return True if every rank reached the end of the epoch."""
        return all(one.ended for one in self.passes)

    @property
    def orders(self) -> list[Steps]:
        """The sequences of each step, by rank."""
        return [one.steps for one in self.passes]

    @property
    def per_step(self) -> int:
        """The most sequences of a step of all ranks."""
        return sum(max(map(len, one.steps), default=0) for one in self.passes)


def flat(steps: Iterable[tuple[int, ...]]) -> list[int]:
    """Return the sequences of some steps in their order."""
    return [number for step in steps for number in step]


def counted(orders: Iterable[Steps]) -> Counter[int]:
    """Count each sequence in the steps of all ranks."""
    return Counter(number for steps in orders for step in steps for number in step)


@dataclass
class Reference:
    """The sequences that an epoch should have, and how often.

    Attributes:
        sentence: what that is taken from.
        expected: by number of a sequence, how often an epoch should have it.
        whole: whether the reference is known as a whole, and not up to a limit of steps.
        from_source: whether a source was given.
        alias: for sequences that are no whole ones of the source, the one that they are made from.
        repeated: how often one rank alone is handed out every sequence, if that is more than once.
        half_known: whether the two epochs of the reference have less than half of their sequences in common.
    """

    sentence: str
    expected: Counter[int]
    whole: bool
    from_source: bool
    alias: dict[int, int] = field(default_factory=dict)
    repeated: int = 1
    half_known: bool = False

    def counts(self, orders: Iterable[Steps]) -> Counter[int]:
        """Count each sequence of the reference in the steps, with the sequences that are made from it."""
        found: Counter[int] = Counter()
        for number, times in counted(orders).items():
            found[self.alias.get(number, number)] += times
        return found

    def positions(self, names: SequenceNames) -> list[int]:
        """Return the numbers of its sequences, in the order of the source or as they came."""
        return sorted(self.expected, key=lambda number: names.rows.get(number, number))

    def seen(self, orders: Iterable[Steps], names: SequenceNames) -> np.ndarray:
        """Return how often each sequence of the reference was handed out, in the reference's order."""
        found = self.counts(orders)
        return np.array([found[number] for number in self.positions(names)], np.int64)


def of_one_rank(epochs: Sequence[Epoch]) -> Reference:
    """Return the union of what one rank alone is handed out in these epochs."""
    each = [counted(epoch.orders) for epoch in epochs]
    expected: Counter[int] = Counter()
    for one in each:
        expected |= one
    times = set(expected.values())
    repeated = times.pop() if len(times) == 1 and len(expected) > 3 else 1
    common, least = (each[0] & each[1]).total(), min(one.total() for one in each)
    size = f"{len(expected):,} different sequences"
    whole = all(epoch.ended for epoch in epochs)
    limit = "" if whole else ", which did not end within the limit of steps"
    return Reference(
        f"Compared with what make(0, 1, epoch) hands out, one rank for all, in epochs 0 and 1{limit}: {size}.",
        Counter({number: count // repeated for number, count in expected.items()}),
        whole,
        from_source=False,
        repeated=repeated,
        half_known=whole and common < least / 2,
    )


def of_source(rows: Sequence[int], names: SequenceNames, before: int) -> Reference:
    """Return the sequences of a source.

    Args:
        rows: the number of the sequence of each row.
        before: how many different sequences the loader had handed out before the source was read.
    """
    for row, number in enumerate(rows):
        names.rows.setdefault(number, row)
    expected = Counter(rows)
    made = _made_from(names, [number for number in range(before) if number not in expected], expected)
    said = f"Compared with the source: {len(rows):,} sequences, {len(expected):,} of them different."
    return Reference(said, expected, True, from_source=True, alias=made)


def _made_from(names: SequenceNames, unknown: list[int], expected: Counter[int]) -> dict[int, int]:
    """Find for each unknown sequence the one of the source that it begins, or to which a token was added."""
    if not unknown or names.first[unknown[0]].name is not None:
        return {}
    by_begin: dict[tuple[int, ...], list[int]] = {}
    for number in expected:
        by_begin.setdefault(tuple(names.first[number].tokens[:4].tolist()), []).append(number)
    found = {}
    for number in unknown:
        tokens = names.first[number].tokens
        for part in (tokens, tokens[1:], tokens[:-1], tokens[1:-1]):
            longer = [
                other
                for other in by_begin.get(tuple(part[:4].tolist()), ())
                if len(part) and np.array_equal(names.first[other].tokens[: len(part)], part)
            ]
            if len(longer) == 1 and (len(part) == len(tokens) or len(names.first[longer[0]].tokens) == len(part)):
                found[number] = longer[0]
                break
    return found
