"""What all ranks were handed out in an epoch, counted, and what it is compared with.

A sequence is known by its number in `SequenceNames`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from packlib.tools.loaders.passes import OnePass
from packlib.tools.loaders.sequence_names import SequenceNames

_FEW = 3  # different sequences; with so few, equal counts may be chance
_BEGIN = 4  # first tokens by which candidates are looked up
Steps = list[tuple[int, ...]]  # of one rank: the numbers of the sequences in each batch


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
        return all(rank_pass.ended for rank_pass in self.passes)

    @property
    def orders(self) -> list[Steps]:
        """The sequences of each step, by rank."""
        return [rank_pass.steps for rank_pass in self.passes]

    @property
    def per_step(self) -> int:
        """The most sequences that all ranks together are handed out in a step."""
        return sum(max(map(len, rank_pass.steps), default=0) for rank_pass in self.passes)


def flat(steps: Iterable[tuple[int, ...]]) -> list[int]:
    """Return the sequences of some steps in their order."""
    return [number for step in steps for number in step]


def counted(orders: Iterable[Steps]) -> Counter[int]:
    """Return how often each sequence comes in the steps of all ranks."""
    return Counter(number for steps in orders for step in steps for number in step)


@dataclass
class Reference:
    """The sequences that an epoch should have, and how often.

    Attributes:
        sentence: what the reference is taken from, for the report.
        expected: by number of a sequence, how often an epoch should have it.
        whole: whether the reference has all sequences, and not those up to a limit of steps.
        from_source: whether it is taken from a source, and not from epochs of one rank alone.
        alias: for sequences that were cut or lengthened, the sequence of the source that they were made from.
        repeated: how often one rank alone is handed out each sequence in an epoch; 1 if not all come equally often.
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
        """Return how often each sequence comes in the steps; one that was made from another counts as that one."""
        counts: Counter[int] = Counter()
        for number, times in counted(orders).items():
            counts[self.alias.get(number, number)] += times
        return counts

    def numbers(self, names: SequenceNames) -> list[int]:
        """Return the numbers of its sequences, in the order of the source, or as they first came."""
        return sorted(self.expected, key=lambda number: names.rows.get(number, number))

    def seen(self, orders: Iterable[Steps], names: SequenceNames) -> np.ndarray:
        """Return how often each sequence came in the steps, in the order of `numbers`; int64, shape (sequences,)."""
        counts = self.counts(orders)
        return np.array([counts[number] for number in self.numbers(names)], np.int64)


def of_one_rank(epochs: Sequence[Epoch]) -> Reference:
    """Return a reference of all sequences that one rank alone is handed out in epochs 0 and 1."""
    counts_by_epoch = [counted(epoch.orders) for epoch in epochs]
    expected: Counter[int] = Counter()
    for counts in counts_by_epoch:
        expected |= counts  # the larger count of both epochs, since one may leave some out
    distinct_counts = set(expected.values())
    repeated = distinct_counts.pop() if len(distinct_counts) == 1 and len(expected) > _FEW else 1
    in_both = (counts_by_epoch[0] & counts_by_epoch[1]).total()
    in_smaller = min(counts.total() for counts in counts_by_epoch)
    size = f"{len(expected):,} different sequences"
    all_ended = all(epoch.ended for epoch in epochs)
    limit = "" if all_ended else ", which did not end within the limit of steps"
    return Reference(
        f"Compared with what make(0, 1, epoch) hands out, one rank for all, in epochs 0 and 1{limit}: {size}.",
        Counter({number: count // repeated for number, count in expected.items()}),
        all_ended,
        from_source=False,
        repeated=repeated,
        half_known=all_ended and in_both < in_smaller / 2,
    )


def of_source(rows: Sequence[int], names: SequenceNames, before: int) -> Reference:
    """Return a reference of all sequences of a source.

    Args:
        rows: the number of the sequence in each row.
        before: how many different sequences the loader had handed out before the source was read; they have the
            numbers below this.
    """
    for row, number in enumerate(rows):
        names.rows.setdefault(number, row)
    expected = Counter(rows)
    made_from = _made_from(names, [number for number in range(before) if number not in expected], expected)
    sentence = f"Compared with the source: {len(rows):,} sequences, {len(expected):,} of them different."
    return Reference(sentence, expected, True, from_source=True, alias=made_from)


def _made_from(names: SequenceNames, unknown: list[int], expected: Counter[int]) -> dict[int, int]:
    """Return, for sequences that are not in the source, the sequence of the source that they were made from.

    A loader may cut a sequence, or add a token at one end or both, such as a mark. A sequence for which there is no
    such origin, or for which there are several, is left out.

    Args:
        unknown: the numbers of the sequences that are not in the source.
        expected: those of the source.
    """
    if not unknown or names.first[unknown[0]].name is not None:  # names tell without tokens
        return {}
    by_begin: dict[tuple[int, ...], list[int]] = {}  # by the first tokens, to compare few candidates
    for number in expected:
        by_begin.setdefault(tuple(names.first[number].tokens[:_BEGIN].tolist()), []).append(number)
    made_from = {}
    for number in unknown:
        tokens = names.first[number].tokens
        for part in (tokens, tokens[1:], tokens[:-1], tokens[1:-1]):  # without the tokens that may have been added
            origins = [
                candidate
                for candidate in by_begin.get(tuple(part[:_BEGIN].tolist()), ())
                if len(part) and np.array_equal(names.first[candidate].tokens[: len(part)], part)
            ]
            is_cut = len(part) == len(tokens)
            if len(origins) == 1 and (is_cut or len(names.first[origins[0]].tokens) == len(part)):
                made_from[number] = origins[0]
                break
    return made_from
