"""Schedules: which rank trains on which packs in which step."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from packlib.arguments import percent, plural, shown, whole_number
from packlib.packing.packs import Packs
from packlib.packing.ragged import ranges
from packlib.work.cost import Work, check_work
from packlib.work.windows import deal_in_windows, in_windows, least_times

_PACKS_AT_ONCE = 1 << 14  # packs that are copied at once, so that they fit into the processor's cache


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Packs):
    """Packs in the order of training: step by step, in each step rank by rank, `packs_per_rank` packs for each.

    Attributes:
        ranks: number of ranks.
        packs_per_rank: packs that each rank has in every step.
        window: number of steps that together have the mix of a random sample of packs; the last window may be smaller.
        work: what a pack costs.
    """

    ranks: int
    packs_per_rank: int
    window: int
    work: Work

    def __post_init__(self) -> None:
        super().__post_init__()
        check_work(self.work)
        for name in ("ranks", "packs_per_rank", "window"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
        if len(self) % (self.ranks * self.packs_per_rank):
            raise ValueError(f"{len(self)} packs do not make whole steps of {self.ranks} × {self.packs_per_rank}.")

    @property
    def steps(self) -> int:
        return len(self) // (self.ranks * self.packs_per_rank)

    @cached_property
    def work_of_ranks(self) -> np.ndarray:
        """The work of each rank in each step; float64, shape (steps, ranks)."""
        return self.work.of(self).reshape(self.steps, self.ranks, -1).sum(axis=2)

    @property
    def slowest(self) -> float:
        """The sum over steps of the slowest rank's work: how long training takes."""
        return float(self.work_of_ranks.max(axis=1).sum())

    @property
    def mean(self) -> float:
        """The sum over steps of the mean work of a rank: a lower bound on `slowest`."""
        return float(self.work_of_ranks.mean(axis=1).sum())

    @property
    def waiting(self) -> float:
        """The share of the time that the average rank waits for the slowest."""
        return max(0.0, 1 - self.mean / self.slowest)  # if all ranks have equal work, rounding may make it negative

    @cached_property
    def lower_bound(self) -> float:
        """A lower bound on `slowest`, over all schedules that leave packs whole and in their windows.

        With one pack a rank, a schedule that `balance` makes takes exactly this long.
        """
        windows = in_windows(self.work.of(self), self.window * self.ranks * self.packs_per_rank)
        return float(sum(least_times(window, self.ranks, self.packs_per_rank).sum() for window in windows))

    def shuffled_steps(self, rng: np.random.Generator) -> np.ndarray:
        """Return the numbers of the steps in a random order, in which the steps of a window stay together.

        The result is int64, shape (steps,).
        """
        window_of = np.arange(self.steps) // min(self.window, self.steps)
        within_window = rng.random(self.steps)
        place_of_window = rng.permutation(window_of[-1] + 1)
        return np.lexsort((within_window, place_of_window[window_of]))  # the last key counts first

    def __repr__(self) -> str:
        steps, ranks = plural(self.steps, "step"), plural(self.ranks, "rank")
        packs = plural(self.packs_per_rank, "pack")
        least_waiting = percent(max(0, 1 - self.mean / self.lower_bound), 2)
        return (
            f"Schedule({steps} of {ranks} × {packs} of {self.max_length}, in windows of "
            f"{self.window}: the average rank waits {percent(self.waiting, 2)} of the time, at least {least_waiting} "
            "in any schedule with these windows)"
        )


def _cut_heaviest(
    packs: Packs, random_order: np.ndarray, pack_works: np.ndarray, cuts: int, last: int, work: Work
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut some of the last packs in two, each between two of its sequences.

    `cuts` times, the heaviest of the last packs that holds several sequences is cut where its parts are most alike. If
    the `last` packs have too few places between two sequences, more packs count as the last.

    Args:
        packs: the packs.
        random_order: their numbers.
        pack_works: the work of each of `packs`.
        cuts: how many packs there are to be more.
        last: how many packs at the end of `random_order` may be cut.
        work: what a pack costs.

    Returns:
        Where each pack starts and ends in `packs.sample_ids`, and its work; each shape (number of packs + cuts,). The
        packs are in the order of `random_order`; the second parts of cut ones follow.
    """
    starts = np.append(packs.offsets[random_order], np.zeros(cuts, packs.offsets.dtype))
    ends = np.append(packs.offsets[1:][random_order], np.zeros(cuts, packs.offsets.dtype))
    works = np.append(pack_works[random_order], np.zeros(cuts, pack_works.dtype))
    places = np.diff(packs.offsets)[random_order] - 1  # places between two sequences of each pack
    first = max(0, len(random_order) - last)  # of the packs that may be cut
    if places[first:].sum() < cuts:
        first = len(random_order) - 1 - int(np.searchsorted(np.cumsum(places[::-1]), cuts))
    for new in range(len(random_order), len(random_order) + cuts):
        has_several = ends[first:new] - starts[first:new] > 1
        heaviest = first + int(np.where(has_several, works[first:new], -1.0).argmax())
        works_up_to = np.cumsum(work.of(packs.lengths[starts[heaviest] : ends[heaviest]]))
        whole_work = works_up_to[-1]
        cut = int(np.abs(works_up_to[:-1] - whole_work / 2).argmin())
        starts[new] = starts[heaviest] + cut + 1
        ends[new] = ends[heaviest]
        works[new] = whole_work - works_up_to[cut]
        ends[heaviest] = starts[new]
        works[heaviest] = works_up_to[cut]
    return starts, ends, works


def balance(
    packs: Packs, ranks: int, packs_per_rank: int = 1, window: int = 8, *, work: Work | None = None, seed: int = 0
) -> Schedule:
    """Assign packs to steps and ranks, so that the ranks of a step have about equal work.

    Packs are shuffled and divided into windows of a few steps. Within a window, packs of similar work go into the same
    step. In a larger window ranks wait less, but its steps differ more: with one pack a rank, each step has packs of
    one kind, while every window keeps the mix of a random sample. Packs stay whole, unless they do not make whole
    steps: then the heaviest packs of the last window are cut, each between two of its sequences.

    >>> import numpy as np
    >>> from packlib import balance, plan
    >>> lengths = np.random.default_rng(0).lognormal(7, 1.3, 4000).clip(1, 32768).astype(int)
    >>> packs = plan(lengths, max_length=32768).assign(lengths)
    >>> for window in (1, 8):
    ...     schedule = balance(packs, ranks=8, window=window)
    ...     print(f"{schedule.waiting:.0%}")
    21%
    4%

    Args:
        packs: the packs.
        ranks: number of ranks.
        packs_per_rank: packs that each rank trains on in every step.
        window: number of steps that share their packs; with 1 each step gets packs at random.
        work: what a pack costs; by default `Work.decoder()`, that of Llama 3 8B's layers.
        seed: of all that is random; with the same arguments, every process makes the same schedule.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    if not isinstance(packs, Packs):
        raise TypeError(f"packs must be Packs, not {shown(packs)}.")
    work = Work.decoder() if work is None else work
    check_work(work)
    ranks = whole_number("ranks", ranks, 1)
    packs_per_rank = whole_number("packs_per_rank", packs_per_rank, 1)
    window = whole_number("window", window, 1)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    packs_per_step = ranks * packs_per_rank
    packs_needed = -(-len(packs) // packs_per_step) * packs_per_step
    cuts = packs_needed - len(packs)
    if packs_needed > len(packs.sample_ids):
        raise ValueError(
            f"ranks × packs_per_rank is {packs_per_step}, and so whole steps need {packs_needed} packs; there are only "
            f"{len(packs.sample_ids)} sequences for them."
        )
    pack_works = work.of(packs)
    total_work = pack_works.sum()
    if not np.isfinite(total_work):
        raise ValueError(f"The work of all packs must be finite, not {total_work}: choose a larger unit.")

    random_order = rng.permutation(len(packs))
    packs_of_last_window = (packs_needed - 1) % (window * packs_per_step) + 1 - cuts
    starts, ends, pack_works = _cut_heaviest(packs, random_order, pack_works, cuts, packs_of_last_window, work)
    training_order = deal_in_windows(pack_works, ranks, packs_per_rank, window, rng).ravel()
    starts = starts[training_order]
    sizes = ends[training_order] - starts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    sample_ids = np.empty_like(packs.sample_ids)
    lengths = np.empty_like(packs.lengths)
    for first in range(0, packs_needed, _PACKS_AT_ONCE):
        chunk = slice(first, first + _PACKS_AT_ONCE)
        read_from = ranges(starts[chunk], sizes[chunk])
        write_to = slice(offsets[first], offsets[first] + len(read_from))
        sample_ids[write_to] = packs.sample_ids[read_from]
        lengths[write_to] = packs.lengths[read_from]
    return Schedule._of(
        sample_ids=sample_ids,
        offsets=offsets,
        lengths=lengths,
        max_length=packs.max_length,
        ranks=ranks,
        packs_per_rank=packs_per_rank,
        window=window,
        work=work,
    )
