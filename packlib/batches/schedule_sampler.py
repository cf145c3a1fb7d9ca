"""A sampler that keeps the steps of a balanced schedule together."""

from collections.abc import Iterator

import numpy as np

from packlib.batches.epoch_sampler import EpochSampler
from packlib.checks import shown
from packlib.packing.packs import Schedule


class ScheduleSampler(EpochSampler):
    """The steps of a `Schedule` in an order that the seed and the epoch give, windows whole: this rank's packs of each.

    Args:
        batch_size: packs of a rank in each step, which the schedule knows; another number is refused.
        ranks, rank: by default those of torch.distributed; there must be as many as the schedule was made for.

    Raises:
        TypeError, ValueError: for bad arguments, or other numbers than the schedule's.
    """

    depends_on = ("num_packs", "batch_size", "window", "seed", "shuffle", "ranks")

    def __init__(
        self,
        schedule: Schedule,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        ranks: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(seed, shuffle, ranks, rank)
        if not isinstance(schedule, Schedule):
            raise TypeError(f"schedule must be a Schedule, not {shown(schedule)}.")
        self.num_packs, self.batch_size, self.window = len(schedule), schedule.packs_per_rank, schedule.window
        self._schedule = schedule
        if batch_size not in (None, self.batch_size):
            raise ValueError(f"batch_size must be {self.batch_size}, as the schedule has, not {shown(batch_size)}.")
        if self.ranks != schedule.ranks:
            raise ValueError(f"ranks must be {schedule.ranks}, as the schedule was made for, not {self.ranks}.")

    def __len__(self) -> int:
        return self.num_packs // (self.batch_size * self.ranks)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, first, self.start = self.epoch, self.start, 0
        order = np.arange(len(self))
        if self.shuffle:
            order = self._schedule.shuffled_steps(np.random.default_rng([self.seed, epoch]))
        for done, step in enumerate(order[first:].tolist(), start=first + 1):
            self.done = done
            pack = (step * self.ranks + self.rank) * self.batch_size
            yield [(epoch, pack + i) for i in range(self.batch_size)]
