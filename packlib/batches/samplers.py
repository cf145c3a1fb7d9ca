"""Samplers of packs whose order follows from a seed and the epoch, and that say where they are."""

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

import numpy as np
from torch.utils.data import Sampler

from packlib.checks import flag, shown, whole_number
from packlib.distributed.collectives import Collectives
from packlib.packing import Schedule


class EpochSampler(Sampler):
    """What `PackBatchSampler` and `ScheduleSampler` share: an order that seed and epoch give, and a place in it.

    Attributes:
        epoch: the epoch of the next pass.
        start: the batch that the next pass begins with; the passes after it begin with the first.
        done: batches of the epoch that were handed out; a `PackLoader` leaves out what its workers fetched ahead.
    """

    depends_on: tuple[str, ...]  # the attributes that the batches of all ranks follow from

    def __init__(self, seed: int, shuffle: bool, ranks: int | None, rank: int | None) -> None:
        self.seed, self.shuffle = whole_number("seed", seed, 0), flag("shuffle", shuffle)
        here = Collectives()
        self.ranks = whole_number("ranks", here.size if ranks is None else ranks, 1)
        rank = (here.rank if self.ranks > 1 else 0) if rank is None else rank
        self.rank = whole_number("rank", rank, 0, self.ranks - 1)
        self.epoch = self.start = self.done = 0

    def _batches(self, rng: np.random.Generator | None) -> Iterable[list[int]]:
        """The packs of this rank in each batch of an epoch, shuffled by `rng` or, for None, in order."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, first, self.start = self.epoch, self.start, 0
        batches = self._batches(np.random.default_rng([self.seed, epoch]) if self.shuffle else None)
        for done, packs in enumerate(islice(batches, first, None), start=first + 1):
            self.done = done
            yield [(epoch, pack) for pack in packs]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass; it begins at its start, or where a loaded state of this epoch is."""
        if whole_number("epoch", epoch, 0) != self.epoch:
            self.epoch, self.start, self.done = epoch, 0, 0

    def setting(self) -> dict:
        """What the batches of all ranks depend on, as plain values."""
        return {name: getattr(self, name) for name in self.depends_on}

    def state_dict(self) -> dict:
        """The epoch, the batches of it that this rank was handed out, and what they depend on.

        Workers fetch ahead: with them take the state of the loader, which counts what was used.
        """
        over = self.done == len(self)  # the epoch is done: go on with the next
        return {"epoch": self.epoch + over, "batches_done": 0 if over else self.done, **self.setting()}

    def load_state_dict(self, state: dict, of: str = "sampler") -> None:
        """Go on from `state`, of any rank, at the next pass.

        Raises:
            ValueError: if the state is of other samples or settings.
        """
        for name, value in self.setting().items():
            if state.get(name) != value:
                raise ValueError(f"The state is of a {of} with {name} {state.get(name)}; this one has {value}.")
        done = whole_number("batches_done", state["batches_done"], 0, len(self) - 1)
        self.set_epoch(state["epoch"])
        self.done = self.start = done


class PackBatchSampler(EpochSampler):
    """Batches of (epoch, pack) in an order that the seed and the epoch give; begins with batch `start`.

    On several ranks a step takes `batch_size` packs for each from this one order, and deals them out in turn: every
    pack comes once, and all ranks make as many steps. Where the last step has fewer packs, ranks get one less; if not
    every rank would get one, the step before leaves it some.

    Args:
        batch_size: packs in a batch of one rank.
        drop_last: leave out a last step that is not full (other packs each epoch).
        ranks, rank: by default those of torch.distributed; 1 and 0 without it.

    Raises:
        TypeError, ValueError: for bad arguments, or if some rank would get no pack in some step.
    """

    depends_on = ("num_packs", "batch_size", "seed", "shuffle", "drop_last", "ranks")

    def __init__(
        self,
        num_packs: int,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        ranks: int | None = None,
        rank: int | None = None,
    ):
        super().__init__(seed, shuffle, ranks, rank)
        self.num_packs = whole_number("the number of packs", num_packs, 1)
        self.batch_size, self.drop_last = whole_number("batch_size", batch_size, 1), flag("drop_last", drop_last)
        self._bounds = self._steps()

    def _steps(self) -> list[int]:
        """Where the steps begin in the order of an epoch, and where the last one ends."""
        packs, ranks = self.num_packs, self.ranks
        bounds = list(range(0, packs + 1, self.batch_size * ranks))
        rest = packs - bounds[-1]
        if self.drop_last and len(bounds) == 1:
            on = f" on {ranks} ranks" if ranks > 1 else ""
            raise ValueError(f"{packs} packs fill no batch of {self.batch_size}{on}, and drop_last leaves none.")
        if rest and not self.drop_last:
            if rest < ranks:
                bounds[-1] -= ranks - rest
                if len(bounds) == 1 or self.batch_size == 1:
                    raise ValueError(
                        f"{packs} packs in batches of {self.batch_size} leave some of {ranks} ranks without a pack in "
                        "the last step: pass drop_last=True, or another batch_size."
                    )
            bounds.append(packs)
        return bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def _batches(self, rng: np.random.Generator | None) -> Iterator[list[int]]:
        order = np.arange(self.num_packs) if rng is None else rng.permutation(self.num_packs)
        for begin, end in pairwise(self._bounds):
            yield order[begin:end][self.rank :: self.ranks].tolist()


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

    def _batches(self, rng: np.random.Generator | None) -> Iterator[list[int]]:
        for step in range(len(self)) if rng is None else self._schedule.shuffled_steps(rng).tolist():
            pack = (step * self.ranks + self.rank) * self.batch_size
            yield list(range(pack, pack + self.batch_size))
