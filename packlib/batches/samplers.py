"""Choose the packs of each batch, in an order that follows from a seed and the epoch; stop and go on anywhere in it."""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import Sampler

from packlib.arguments import flag, shown, whole_number
from packlib.batches.token_budget import TokenBatches
from packlib.collectives import Collectives
from packlib.work import Schedule


class PackSampler(Sampler):
    """Batches of (epoch, pack) in an order that the seed and the epoch give.

    All ranks have this one order. A step takes the next `batch_size` × ranks packs of it and assigns them to the ranks
    in turn. Every pack comes once, and all ranks take the same number of steps. The packs of a smaller last step are
    assigned in the same way, so its ranks differ by at most one pack. If it has fewer packs than ranks, the step before
    gives up packs until each rank has one. A `Schedule` keeps its steps, and its windows stay together; the seed and
    the epoch decide only their order.

    Args:
        packs: the number of packs; or a `Schedule`, which has its own batch size and ranks, so that others are refused.
        batch_size: packs in a batch of one rank; by default 16.
        seed: of the order.
        shuffle: False for the order of the packs, in every epoch.
        drop_last: leave out a last step that is not full (other packs in each epoch).
        ranks, rank: by default those of torch.distributed; 1 and 0 without it.

    Attributes:
        epoch: the epoch of the next pass.
        start: number of batches that the next pass skips, since they were handed out; later passes skip none.
        done: number of batches of the epoch that were handed out; with a `PackLoader`, without those that its workers
            fetched ahead.

    Raises:
        TypeError, ValueError: for bad arguments, or if some rank would get no pack in some step.
    """

    def __init__(
        self,
        packs: int | Schedule,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        ranks: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.seed = whole_number("seed", seed, 0)
        self.shuffle = flag("shuffle", shuffle)
        collectives = Collectives()
        self.ranks = whole_number("ranks", collectives.size if ranks is None else ranks, 1)
        rank = (collectives.rank if self.ranks > 1 else 0) if rank is None else rank
        self.rank = whole_number("rank", rank, 0, self.ranks - 1)
        self.drop_last = flag("drop_last", drop_last)
        self.epoch = 0
        self.start = 0
        self.done = 0
        self.schedule = None
        self.window = None
        if isinstance(packs, Schedule):
            self.schedule = packs
            self.window = packs.window
            if batch_size not in (None, packs.packs_per_rank):
                raise ValueError(
                    f"batch_size must be {packs.packs_per_rank}, as the schedule has, not {shown(batch_size)}."
                )
            if self.ranks != packs.ranks:
                raise ValueError(f"ranks must be {packs.ranks}, as the schedule was made for, not {self.ranks}.")
            batch_size = packs.packs_per_rank
            packs = len(packs)
        self.num_packs = whole_number("the number of packs", packs, 1)
        self.batch_size = whole_number("batch_size", 16 if batch_size is None else batch_size, 1)
        self._bounds = self._step_bounds()

    def _step_bounds(self) -> list[int]:
        """Return the position of each step's first pack in the order of an epoch, and the end of the last step."""
        bounds = list(range(0, self.num_packs + 1, self.batch_size * self.ranks))
        num_left = self.num_packs - bounds[-1]  # packs of the last step, if it is not full
        self._refuse_empty_batches(len(bounds) - 1, num_left)
        if num_left and not self.drop_last:
            if num_left < self.ranks:  # the step before leaves packs to the last one, so that each rank has one there
                bounds[-1] -= self.ranks - num_left
            bounds.append(self.num_packs)
        return bounds

    def _refuse_empty_batches(self, full_steps: int, num_left: int) -> None:
        """Raise a ValueError if there would be no step, or one in which a rank has no pack.

        Args:
            full_steps: how many steps are full.
            num_left: packs that remain for a last step.
        """
        if self.drop_last and not full_steps:
            on_ranks = f" on {self.ranks} ranks" if self.ranks > 1 else ""
            raise ValueError(
                f"{self.num_packs} packs fill no batch of {self.batch_size}{on_ranks}, and drop_last leaves none."
            )
        is_short = 0 < num_left < self.ranks and not self.drop_last
        if is_short and (not full_steps or self.batch_size == 1):  # no step before, or none that can leave a pack
            raise ValueError(
                f"{self.num_packs} packs in batches of {self.batch_size} leave some of {self.ranks} ranks without a "
                "pack in the last step: pass drop_last=True, or another batch_size."
            )

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def _batches(self) -> Iterator[list[Any]]:
        """Yield the packs of this rank in each batch of the epoch."""
        rng = np.random.default_rng([self.seed, self.epoch])
        if self.schedule is None:
            packs = rng.permutation(self.num_packs) if self.shuffle else np.arange(self.num_packs)
            for begin, end in pairwise(self._bounds):
                packs_of_step = packs[begin:end]
                yield packs_of_step[self.rank :: self.ranks].tolist()
        else:
            steps = self.schedule.shuffled_steps(rng) if self.shuffle else np.arange(len(self))
            for step in steps.tolist():
                first_pack = (step * self.ranks + self.rank) * self.batch_size
                yield list(range(first_pack, first_pack + self.batch_size))

    def __iter__(self) -> Iterator[list[tuple[int, Any]]]:
        epoch = self.epoch
        batches_done = self.start
        self.start = 0
        for number, packs in enumerate(islice(self._batches(), batches_done, None), start=batches_done + 1):
            self.done = number
            yield [(epoch, pack) for pack in packs]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass: it starts at the first batch, or where a loaded state of it left off."""
        if whole_number("epoch", epoch, 0) != self.epoch:
            self.epoch = epoch
            self.start = 0
            self.done = 0

    def setting(self) -> dict:
        """Return everything that the batches of all ranks depend on, as plain values."""
        names = ("num_packs", "batch_size", "window", "seed", "shuffle", "drop_last", "ranks")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict:
        """Return the epoch, how many of its batches were handed out, and everything that the batches depend on.

        If workers fetch ahead, take the state of the `PackLoader`, which counts the batches that were used.
        """
        if self.done == len(self):  # the epoch is over: go on with the next one
            return {"epoch": self.epoch + 1, "batches_done": 0, **self.setting()}
        return {"epoch": self.epoch, "batches_done": self.done, **self.setting()}

    def load_state_dict(self, state: dict) -> None:
        """Let the next pass go on from a state, which may be that of any rank.

        Raises:
            ValueError: if the state is of other packs or settings.
        """
        for name, value in self.setting().items():
            if state.get(name) != value:
                raise ValueError(f"The state is of a loader with {name} {state.get(name)}; this one has {value}.")
        batches_done = whole_number("batches_done", state["batches_done"], 0, len(self) - 1)
        self.set_epoch(state["epoch"])
        self.done = self.start = batches_done


class PaddedShape(NamedTuple):
    """A batch of one rank, which is padded.

    Attributes:
        samples: the ids of its samples; integers, shape (number of samples,).
        rows: rows of the batch; at least the number of samples, for some may be blank.
        width: slots of a row.
    """

    samples: np.ndarray
    rows: int
    width: int


class TokenBatchSampler(PackSampler):
    """Batches of (epoch, `PaddedShape`) of `batch_by_tokens`, in an order that the seed and the epoch give.

    A step takes one batch for each rank: neighbors, so that its batches are alike if the samples are sorted. Batches
    that have the same shape by `same_shape_every` stay together. The order of the steps is another one in each epoch;
    the samples of a batch stay together. All ranks take the same number of steps. If batches for fewer than all ranks
    remain for a last step, their samples are divided among all ranks; these are other batches in each epoch.

    Args:
        batches: what `batch_by_tokens` returned.
        drop_last: leave out a last step with fewer batches than ranks (other batches in each epoch).
        seed, shuffle, ranks, rank: as in `PackSampler`.

    Raises:
        TypeError, ValueError: for bad arguments, or if some rank would get no sample in the last step.
    """

    def __init__(
        self,
        batches: TokenBatches,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        ranks: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.batches = batches
        super().__init__(len(batches), 1, seed, shuffle, drop_last, ranks, rank)

    def _step_bounds(self) -> list[int]:
        """Return the position of each step's first batch in the order of an epoch, and the end of the last step."""
        full_steps, num_left = divmod(len(self.batches), self.ranks)
        self._refuse_unequal_steps()
        self._refuse_empty_batches(full_steps, num_left)
        bounds = list(range(0, full_steps * self.ranks + 1, self.ranks))
        return bounds if not num_left or self.drop_last else [*bounds, len(self.batches)]

    def _refuse_unequal_steps(self) -> None:
        """Raise a ValueError if a step would have batches of different shapes, though some have the same by request."""
        every = self.batches.same_shape_every
        if every > 1 and every % self.ranks:
            raise ValueError(
                f"ranks must divide same_shape_every {every}, not be {self.ranks}: else a step has batches of "
                "different shapes."
            )

    def _refuse_empty_batches(self, full_steps: int, num_left: int) -> None:
        """Raise a ValueError if there would be no step, or one in which a rank has no sample.

        Args:
            full_steps: how many steps have a batch for each rank.
            num_left: batches that remain for a last step.
        """
        num_batches = len(self.batches)
        if self.drop_last and not full_steps:
            raise ValueError(f"{num_batches} batches fill no step of {self.ranks} ranks, and drop_last leaves none.")
        if not num_left or self.drop_last:
            return
        # the last step may have any `num_left` neighbors, the last and the first batch included: see `_batches`
        sizes_twice = np.concatenate([self.batches.sizes, self.batches.sizes])
        fewest = min(int(sizes_twice[start : start + num_left].sum()) for start in range(num_batches))
        if fewest < self.ranks:
            raise ValueError(
                f"{num_batches} batches leave some of {self.ranks} ranks without a sample in the last step, which may "
                f"have {fewest}: pass drop_last=True, or another max_tokens."
            )

    def _batches(self) -> Iterator[list[PaddedShape]]:
        """Yield the one batch of this rank in each step of the epoch."""
        batches = self.batches
        every = batches.same_shape_every
        neighbors = max(every, self.ranks)  # batches that stay together
        rng = np.random.default_rng([self.seed, self.epoch])
        epoch_order = np.arange(len(batches))
        if self.shuffle:  # begin anywhere and go around, so that other batches are the last in each epoch
            shift = every * int(rng.integers(len(batches) // every))
            epoch_order = np.roll(epoch_order, shift)
        groups = epoch_order[: len(epoch_order) // neighbors * neighbors].reshape(-1, neighbors)
        if self.shuffle:
            groups = rng.permutation(groups)
        for step in groups.reshape(-1, self.ranks):
            batch = int(step[self.rank])
            yield [PaddedShape(batches[batch], int(batches.rows[batch]), int(batches.widths[batch]))]
        last_batches = epoch_order[groups.size :]
        if len(last_batches) and not self.drop_last:
            yield [self._share_of(last_batches)]

    def _share_of(self, last_batches: np.ndarray) -> PaddedShape:
        """Return this rank's share of the samples in the batches of a last step, which are fewer than the ranks."""
        samples = np.concatenate([self.batches[int(batch)] for batch in last_batches])
        share = samples[self.rank :: self.ranks]
        return PaddedShape(share, len(share), int(self.batches.widths[last_batches].max()))

    def setting(self) -> dict:
        """Return everything that the batches of all ranks depend on, as plain values."""
        batches = self.batches
        size = {"samples": len(batches.sample_ids), "tokens": int(batches.tokens.sum())}
        return {**super().setting(), **size, "same_shape_every": batches.same_shape_every}
