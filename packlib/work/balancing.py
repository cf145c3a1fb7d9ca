"""Equal tokens are unequal work: a schedule in which ranks wait little longer for the slowest than they must."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from packlib.arrays import map_arrays, save_arrays
from packlib.checks import depth_limit, number, whole_number
from packlib.lengths.counting import as_integers, as_lengths
from packlib.packing.packs import Packs
from packlib.reading import naming
from packlib.work.cost import Work, check_packs_and_work, squares_of

_ARRAYS = ("sample_ids", "offsets", "lengths_used", "squares")
_NUMBERS = ("max_length", "ranks", "packs_per_rank", "max_sequences_per_pack")
_MANY = 40  # random parts of a pack, tried as exchanges where nothing simpler helps
_CLOSE = 1.002  # times its bound: a schedule so close needs no spare packs
_POOL = 1024  # steps that exchange sequences with one another, at most
_EVEN = 0.0035  # of the mean tokens of a step: how near to it exchanges try to bring all
_LOOPS = "the loops of balance", 20
_SPARE = 0.01  # packs more than given, as a share


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Packs):
    """Packs in the order of training: step by step, in each step rank by rank, `packs_per_rank` packs for each.

    Attributes:
        squares: the sum of squared lengths in each pack; int64, shape (number of packs,).
        bounds: work that the slowest rank of each step has at least, whoever deals the step's sequences to its packs;
            float64, shape (steps,).
        ranks, packs_per_rank: every rank has so many packs in every step.
        work: what a pack costs.
        max_sequences_per_pack: the depth limit, or None.
    """

    squares: np.ndarray
    bounds: np.ndarray
    ranks: int
    packs_per_rank: int
    work: Work
    max_sequences_per_pack: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_packs_and_work(self, self.work)
        depth_limit(self.max_sequences_per_pack)
        vars(self)["squares"] = as_integers(self.squares, "square")
        vars(self)["bounds"] = np.atleast_1d(np.asarray(self.bounds, np.float64))
        if len(self) % (whole_number("ranks", self.ranks, 1) * whole_number("packs_per_rank", self.packs_per_rank, 1)):
            raise ValueError(f"{len(self)} packs do not make whole steps of {self.ranks} × {self.packs_per_rank}.")
        if len(self.squares) != len(self) or (self.squares < self.lengths_used).any():
            raise ValueError(f"squares must have {len(self)} entries, each at least the tokens of its pack.")
        if len(self.bounds) != self.steps or not (np.isfinite(self.bounds) & (self.bounds > 0)).all():
            raise ValueError(f"bounds must have {self.steps} entries, all above 0 and finite.")

    @property
    def steps(self) -> int:
        return len(self) // (self.ranks * self.packs_per_rank)

    def work_of_ranks(self) -> np.ndarray:
        """The work of each rank in each step; float64, shape (steps, ranks)."""
        return self.work.total(self.lengths_used, self.squares).reshape(self.steps, self.ranks, -1).sum(axis=2)

    @property
    def tokens(self) -> np.ndarray:
        """Tokens in each step; int64, shape (steps,)."""
        return self.lengths_used.reshape(self.steps, -1).sum(axis=1, dtype=np.int64)

    @property
    def slowest(self) -> float:
        """The sum over steps of the slowest rank's work: how long training takes."""
        return float(self.work_of_ranks().max(axis=1).sum())

    @property
    def mean(self) -> float:
        """The sum over steps of the mean rank's work: no schedule of these sequences on so many ranks is faster."""
        return float(self.work_of_ranks().mean(axis=1).sum())

    @property
    def lower_bound(self) -> float:
        """No schedule that gives each step these sequences, in packs that keep the cap, is faster."""
        return float(self.bounds.sum())

    @property
    def waiting(self) -> float:
        """The share of the time that the average rank waits for the slowest."""
        return waiting(self.work_of_ranks())

    def verify(self, lengths: Iterable[int] | None = None) -> Self:
        """Check the schedule, by itself or against the lengths it was made for, and return it.

        Every sequence is in exactly one pack, no pack is over the cap or the depth limit, every rank has as many packs
        in every step, squares and bounds are right, and no step is below its bound.

        Raises:
            ValueError: with the first thing that is wrong.
        """
        self.__post_init__()
        if lengths is None:
            return self
        lengths = as_lengths(lengths)
        if len(self.sample_ids) != len(lengths):
            raise ValueError(f"The schedule has {len(self.sample_ids)} sequences; there are {len(lengths)}.")
        deepest, limit = int(np.diff(self.offsets).max()), self.max_sequences_per_pack
        if limit is not None and deepest > limit:
            raise ValueError(f"A pack holds {deepest} sequences; the depth limit is {limit}.")
        if not np.array_equal(squares_of(self, lengths), self.squares):
            raise ValueError("The squares of the schedule are not those of its sequences.")
        if not np.array_equal(_bounds(self, lengths), self.bounds):
            raise ValueError("The bounds of the schedule do not follow from its sequences.")
        if (self.work_of_ranks().max(axis=1) < self.bounds * (1 - 1e-12)).any():
            raise ValueError("A step of the schedule is below its bound.")
        return self

    def save(self, path: str | os.PathLike) -> None:
        """Write the schedule to one file, which is whole or not there."""
        arrays = {name: np.atleast_1d(getattr(self, name) or 0) for name in _NUMBERS}  # 0 is no depth limit
        arrays |= {name: getattr(self, name) for name in _ARRAYS}
        costs = np.array([self.work.per_token, self.work.per_square], np.float64)  # a file holds integers only
        floats = {"bounds": self.bounds.view(np.int64), "work": costs.view(np.int64)}
        save_arrays(path, "Schedule", arrays | floats)

    @classmethod
    def load(cls, path: str | os.PathLike, verify: bool = True) -> "Schedule":
        """Map a file that `save` wrote; arguments and errors as in `Packs.load`.

        `Schedule.verify` then tells whether the schedule is one of these lengths.
        """
        with naming(path, "whole file of a schedule") as file:
            found: dict = {**map_arrays(file, "Schedule", (*_ARRAYS, *_NUMBERS, "bounds", "work"), verify=verify)}
            found |= {name: found[name].item() for name in _NUMBERS}
            found |= {name: found[name].view("<f8") for name in ("bounds", "work")}
            limit, work = found["max_sequences_per_pack"] or None, Work(*found["work"].tolist())
            return cls(**found | {"max_sequences_per_pack": limit, "work": work})

    def __repr__(self) -> str:
        return (
            f"Schedule({self.steps:,} steps of {self.ranks} ranks × {self.packs_per_rank} packs of {self.max_length}: "
            f"the slowest rank has {self.slowest / self.mean:.3f} times the mean work, at most "
            f"{self.slowest / self.lower_bound - 1:.1%} above the bound)"
        )


def balance(
    packs: Packs, lengths: Iterable[int], ranks: int, packs_per_rank: int = 1, *, work: Work,
    max_sequences_per_pack: int | None = None, spare: float | None = None, seed: int = 0,
) -> Schedule:  # fmt: skip
    """Deal the sequences of `packs` to steps and ranks, so that all ranks of a step have about equal work.

    The packs are dealt to steps and ranks at random, as a `PackBatchSampler` deals them. If they do not make whole
    steps, as many as needed are cut first. Steps then exchange sequences until the tokens of each are near the mean,
    within 1 % of it in all settings that are tested. From there on sequences change places within their step only, so
    that its slowest rank has less work.

    A step thus has the mix of lengths of a random deal of the given packs, apart from what cuts and the exchanges
    between steps change. They change more where the given packs are unequally full, as under a tight depth limit.

    >>> lengths = [8, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2]
    >>> packs = Packs(range(11), [0, 1, 3, 5, 7, 11], [8] * 5, max_length=8)
    >>> made = balance(packs, lengths, ranks=2, work=Work(10, 1))
    >>> made.verify(lengths).steps, len(made)
    (3, 6)

    Args:
        packs: who shares a pack today; their `max_length` is the cap.
        lengths: the tokens of every sample, those that the packs were made from.
        ranks, packs_per_rank: every rank trains on so many packs in every step.
        work: what a pack costs, see `Work`.
        max_sequences_per_pack: the depth limit, or None.
        spare: packs more than those given, as a share, in whole steps: room for sequences to change places, but perhaps
            more steps. With None there are no more, or 0.01 where that is faster.
        seed: of the random deal; the schedule depends on nothing else, so every process makes the same.

    Raises:
        TypeError, ValueError: naming the argument that is wrong; the packs are not changed.
    """
    check_packs_and_work(packs, work)
    ranks, packs_per_rank = whole_number("ranks", ranks, 1), whole_number("packs_per_rank", packs_per_rank, 1)
    seed, step = whole_number("seed", seed, 0), ranks * packs_per_rank
    lengths, limit = as_lengths(lengths), depth_limit(max_sequences_per_pack)
    if step > len(packs):
        raise ValueError(f"ranks × packs_per_rank must be at most {len(packs)}, the number of packs, not {step}.")
    if limit is not None and (deepest := int(np.diff(packs.offsets).max())) > limit:
        raise ValueError(f"max_sequences_per_pack must be at least {deepest}, as the packs have, not {limit}.")
    total = work.total(packs.lengths_used, squares_of(packs, lengths)).sum()
    if not np.isfinite(total):
        raise ValueError(f"The work of all packs must be finite, not {total}: choose a larger unit.")
    few, least = len(packs.sample_ids), -(-len(packs) // step)
    share = _SPARE if spare is None else number("spare", spare, at_least=0, at_most=1)
    most = int(len(packs) * (1 + share)) // step
    most = max(least, min(most, few // step) if spare is None else most)
    if most * step > few:
        raise ValueError(f"{most} steps of {step} packs need as many sequences, and there are {few}.")
    made: list[Schedule] = []
    for steps in sorted({least if spare is None else most, most}):
        if not made or made[0].slowest > _CLOSE * made[0].lower_bound:
            made.append(_schedule(packs, lengths, steps, ranks, packs_per_rank, work, limit, seed, steps == most))
    return min(made, key=lambda schedule: schedule.slowest)


def _schedule(
    packs: Packs, lengths: np.ndarray, steps: int, ranks: int, of_a_rank: int, work: Work, limit: int | None, seed: int,
    last: bool,
) -> Schedule:  # fmt: skip
    from packlib.packing.compiled import announced
    from packlib.work.balancing_loops import even_out, level_steps  # here, since Numba takes a while to import

    step, cap, most_sequences = ranks * of_a_rank, packs.max_length, min(limit or len(lengths), len(lengths))
    rng, costs = np.random.default_rng([seed, 0]), (float(work.per_token), float(work.per_square))
    ids, pack_of = packs.sample_ids, _deal(packs, steps * step, ranks, of_a_rank, rng)
    each, pool = lengths[ids].astype(np.int64), -(-steps // -(-steps // _POOL))  # steps, about as many in each pool
    starts, each, ids, pack_of = _by_part(pack_of // (pool * step), each, ids, pack_of)
    with announced(*_LOOPS):
        level_steps(each, pack_of, starts, pool, step, cap, most_sequences, _EVEN, rng)
    starts, each, ids, pack_of = _by_part(pack_of // step, each, ids, pack_of)
    with announced(*_LOOPS):
        bounds = even_out(each, pack_of, starts, ranks, of_a_rank, cap, most_sequences, *costs, rng, _MANY * last)
    order = np.argsort(pack_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pack_of))])
    used, squares = (np.add.reduceat(values[order], offsets[:-1]) for values in (each, each**2))
    return Schedule._of(
        sample_ids=ids[order], offsets=offsets, lengths_used=used, max_length=cap, squares=squares, bounds=bounds,
        ranks=ranks, packs_per_rank=of_a_rank, work=work, max_sequences_per_pack=limit,
    )  # fmt: skip


def _deal(packs: Packs, count: int, ranks: int, of_a_rank: int, rng: np.random.Generator) -> np.ndarray:
    """The place of each sample id's pack when the packs are cut into `count` and dealt at random."""
    step, place = np.divmod(np.argsort(rng.permutation(count)), ranks * of_a_rank)
    inside = np.delete(np.arange(len(packs.sample_ids)), packs.offsets[:-1])  # where a pack could be cut
    offsets = np.sort(np.append(packs.offsets, rng.choice(inside, count - len(packs), replace=False)))
    place = step * ranks * of_a_rank + place % ranks * of_a_rank + place // ranks  # as a PackBatchSampler deals
    return np.repeat(place, np.diff(offsets))


def _by_part(part: np.ndarray, lengths: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """Where each part begins, and the last ends, if sorted; then all arrays by part, in each part longest first."""
    top = int(lengths.max())
    order = np.argsort(part * (top + 1) + (top - lengths), kind="stable")
    return np.concatenate([[0], np.cumsum(np.bincount(part))]), lengths[order], *(array[order] for array in others)


def _bounds(made: Schedule, lengths: np.ndarray) -> np.ndarray:
    from packlib.packing.compiled import announced
    from packlib.work.balancing_loops import bounds

    each = lengths[made.sample_ids].astype(np.int64)
    step = np.repeat(np.arange(made.steps), np.diff(made.offsets[:: made.ranks * made.packs_per_rank]))
    starts, each = _by_part(step, each)
    work = float(made.work.per_token), float(made.work.per_square)
    with announced(*_LOOPS):
        return bounds(each, starts, made.ranks, made.packs_per_rank, made.max_length, *work)


def waiting(steps: np.ndarray) -> float:
    """The share of the time that the average rank waits for the slowest.

    >>> waiting(np.array([[4, 2], [4, 2]]))
    0.25

    Args:
        steps: the work of each rank in each step, shape (steps, ranks); that of a schedule is `work_of_ranks()`.
    """
    share = 1 - steps.mean(axis=1).sum() / steps.max(axis=1).sum()
    return max(0.0, float(share))  # equal works may differ by a rounding
