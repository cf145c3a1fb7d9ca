"""From easy to hard on many ranks: each gets its part of a curriculum, even or simple."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch.distributed as dist
from torch.utils.data import Sampler

from packlib.arguments import flag, one_of, sized, whole_number
from packlib.batches.difficulty import Samples, difficulties
from packlib.collectives import Collectives
from packlib.distributed.sorting import exact_sort, interleave, sort_rows

Curriculum = Literal["global", "local"]
CURRICULA: tuple[Curriculum, ...] = get_args(Curriculum)


class DistributedCurriculumSampler(Sampler[int]):
    """The ids of this rank's samples, in ascending order of difficulty.

    A curriculum is two steps, and their order is the difference:

    - "global": sort all samples, then deal them out in turn. At each step all ranks have about the same difficulty, and
      together they go through one order that does not depend on how many they are.
    - "local": deal the samples out in turn, then each rank sorts its own. Simple, but ranks with harder samples keep
      the others waiting, and what is learned when depends on the number of ranks.

    Samples of equal difficulty come in an order that the seed and the epoch give. Making a sampler, `set_epoch` and
    `load_state_dict` are collective: every rank of the group calls them. Without a process group there is one rank.

    Args:
        dataset: a map-style data set, the same on every rank; each rank reads a share of it to score it.
        difficulty: a function from a sample to its score, or the scores of all samples; whole numbers, or floats
            without NaN. If one is a float, all count as float64. By default the length: `dataset.lengths` if there is
            such, else the number of a sample's `input_ids`.
        curriculum: "global" or "local".
        drop_last: where the samples do not go round, leave out the hardest; otherwise a rank that is short repeats its
            last.

    Attributes:
        order: this rank's samples in the current epoch; int64, shape (len(sampler),).

    Raises:
        RankError: the same on every rank, if an argument is wrong on one (alone, its TypeError or ValueError).
    """

    def __init__(
        self,
        dataset: Samples,
        difficulty: Callable[[Any], float] | Sequence[float] | np.ndarray | None = None,
        curriculum: Curriculum = "global",
        *,
        seed: int = 0,
        drop_last: bool = False,
        group: dist.ProcessGroup | None = None,
    ):
        self._ranks = Collectives(group)
        rank, size = self._ranks.rank, self._ranks.size
        with self._ranks.agree_on_errors():
            self.curriculum = one_of("curriculum", curriculum, CURRICULA)
            self.seed = whole_number("seed", seed, 0)
            self.drop_last = flag("drop_last", drop_last)
            num_samples = sized("dataset", dataset)
            self.num_samples = whole_number(f"the number of samples for {size} ranks", num_samples, size)
        self._ranks.check_same(**self._setting())
        share = range(self.num_samples * rank // size, self.num_samples * (rank + 1) // size)
        with self._ranks.agree_on_errors():
            scores = difficulties(dataset, difficulty, share)
        if self._ranks.sum(np.array([scores.dtype.kind == "f"], np.int64)).any():
            scores = _ordered_bits(scores.astype(np.float64))
        self._share = share  # the samples that this rank scored
        self._keys = scores  # int64, shape (len(share),)
        self.epoch = -1  # none yet
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Begin another epoch; does nothing within the current one."""
        with self._ranks.agree_on_errors():
            epoch = whole_number("epoch", epoch, 0)
        self._ranks.check_same(epoch=epoch)
        if epoch == self.epoch:
            return
        # a row for each sample that this rank scored: its score, a draw that orders ties, and its id
        draws = np.random.PCG64([self.seed, epoch]).advance(self._share.start)  # as if one rank drew for all
        ties = (draws.random_raw(len(self._share)) >> 32).astype(np.int64)
        rows = np.stack([self._keys, ties, np.arange(self._share.start, self._share.stop)], axis=1)
        if self.curriculum == "global":
            rows = interleave(exact_sort(rows, self._ranks.group).rows, self._ranks.group)
        else:
            rows = sort_rows(interleave(rows, self._ranks.group))
        ids = rows[: len(self), 2]
        missing = len(self) - len(ids)
        self.order = np.pad(ids, (0, missing), "edge")  # a rank that is short repeats its last
        self.epoch = epoch
        self._start = 0  # samples that the next pass leaves out
        self._done = 0  # samples of this epoch that were handed out

    def __len__(self) -> int:
        size = self._ranks.size
        return self.num_samples // size if self.drop_last else -(-self.num_samples // size)

    def __iter__(self) -> Iterator[int]:
        self._done = self._start
        self._start = 0  # the pass after this one is a whole one
        for sample in self.order[self._done :]:
            self._done += 1
            yield int(sample)

    def _setting(self) -> dict:
        """Return what must be the same on all ranks, and in a saved state, by name."""
        return {name: getattr(self, name) for name in ("num_samples", "seed", "curriculum", "drop_last")}

    def state_dict(self, done: int | None = None) -> dict:
        """Return the place in the current epoch, for all ranks.

        Args:
            done: how many of its samples each rank has trained on; by default those that this sampler handed out,
                which are more if a `DataLoader`'s workers fetch ahead.
        """
        done = self._done if done is None else whole_number("done", done, 0, len(self))
        size = self._ranks.size
        samples_done = self.num_samples if done == len(self) else done * size
        return {"epoch": self.epoch, "samples_done": samples_done, "world_size": size, **self._setting()}

    def load_state_dict(self, state: dict) -> None:
        """Go on from `state` at the next pass; a global curriculum may go on with another number of ranks.

        Raises:
            RankError: if the state is of another curriculum, or its samples cannot be shared out among these ranks
                (alone, a ValueError).
        """
        size = self._ranks.size
        setting = self._setting() | ({"world_size": size} if self.curriculum == "local" else {})
        with self._ranks.agree_on_errors():
            for name, value in setting.items():
                if state.get(name) != value:
                    raise ValueError(f"The state is of a sampler with {name} {state.get(name)}; this one has {value}.")
            done = whole_number("samples_done", state["samples_done"], 0, self.num_samples)
            if done < self.num_samples and done % size:
                raise ValueError(f"{size} ranks cannot go on after {done} samples, which is no multiple of {size}.")
        self.set_epoch(state["epoch"])
        self._start = self._done = len(self) if done == self.num_samples else done // size


def _ordered_bits(scores: np.ndarray) -> np.ndarray:
    """Map float64 to int64 so that the order stays, exactly: the bits, turned over under the sign where it is set."""
    bits = (scores + 0.0).view(np.int64)  # + 0.0 makes -0.0 equal to 0.0
    return bits ^ (bits >> 63 & np.iinfo(np.int64).max)
