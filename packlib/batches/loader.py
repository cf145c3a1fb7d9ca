"""Load packs: a data set of packs, a sampler that shuffles by epoch, a loader that resumes in mid-epoch."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import DataLoader, Dataset, Sampler

from packlib.batches.batch import PackedBatch
from packlib.batches.collate import PackingCollator
from packlib.batches.tokens import TokenStore
from packlib.checks import whole_number
from packlib.lengths import LengthHistogram
from packlib.packing.assign import Packs


def pack_lengths(
    lengths: Sequence[int],
    max_length: int,
    method: str = "lpfhp",
    max_sequences_per_pack: int | None = None,
    seed: int | None = None,
) -> Packs:
    """Plan and assign in one call: packs for sequences of these `lengths` (depth 1 leaves them unpacked)."""
    from packlib.packing import assign, plan

    histogram = LengthHistogram.from_lengths(lengths, max_length)
    return assign(plan(histogram, method, max_sequences_per_pack=max_sequences_per_pack), lengths, seed)


class PackDataset(Dataset):
    """Item `i` is pack `i`: its epoch and its sequences, as `PackingCollator` takes them.

    Args:
        dataset: the samples: a `TokenStore`, or any map-style data set of mappings with `input_ids` and,
            where there are some, `token_type_ids` and `label`.
        packs: which samples share a pack.

    `dataset[epoch, i]` says the epoch with the index, which reaches workers that live on through epochs;
    `dataset[i]` takes the epoch of `set_epoch`, which `transformers.Trainer` calls.
    """

    def __init__(self, dataset, packs: Packs):
        if len(packs.sample_ids) and int(packs.sample_ids.max()) >= len(dataset):
            raise ValueError(
                f"The packs hold sample {packs.sample_ids.max()}; the data set has {len(dataset)} samples."
            )
        self.dataset, self.packs, self.epoch = dataset, packs, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = whole_number("epoch", epoch, 0)

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, index: int | tuple[int, int]) -> tuple[int, TokenStore]:
        epoch, index = index if isinstance(index, tuple) else (self.epoch, index)
        ids = self.packs[index]
        if isinstance(self.dataset, TokenStore):
            return epoch, self.dataset.take(ids)
        return epoch, TokenStore.from_samples([self.dataset[int(i)] for i in ids], ids)


class PackSampler(Sampler):
    """Batches of (epoch, pack) in an order that the seed and the epoch give; starts at batch `start`."""

    def __init__(
        self, num_packs: int, batch_size: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
    ):
        self.num_packs = whole_number("the number of packs", num_packs, 1)
        self.batch_size = whole_number("batch_size", batch_size, 1)
        self.seed = whole_number("seed", seed, 0)
        self.shuffle, self.drop_last = shuffle, drop_last
        if drop_last and batch_size > num_packs:
            raise ValueError(f"{num_packs} packs fill no batch of {batch_size}, and drop_last leaves none.")
        self.epoch = self.start = 0

    def __len__(self) -> int:
        return self.num_packs // self.batch_size if self.drop_last else -(-self.num_packs // self.batch_size)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, start = self.epoch, self.start
        order = np.arange(self.num_packs)
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(self.num_packs)
        for batch in range(start, len(self)):
            packs = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield [(epoch, pack) for pack in packs.tolist()]


class PackLoader(DataLoader):
    """A `DataLoader` of packed batches: each pass through it is one epoch, shuffled by seed and epoch.

    `state_dict()` says what was handed out so far, whatever workers have prefetched; a loader that loads it
    goes on with the next batch, identical to what an uninterrupted one would give. Breaking off a pass and
    starting another begins the same epoch again.
    """

    def __init__(self, packs: PackDataset, sampler: PackSampler, collator: PackingCollator, **options):
        super().__init__(packs, batch_sampler=sampler, collate_fn=collator, **options)
        self.epoch = 0
        self._done = 0  # batches of this epoch that were handed out
        self._start = 0  # where the next pass begins: after `load_state_dict` in mid-epoch

    def __iter__(self) -> Iterator[PackedBatch]:
        sampler = self.batch_sampler
        self._done, self._start = self._start, 0
        sampler.epoch, sampler.start = self.epoch, self._done
        for batch in super().__iter__():
            self._done += 1
            if self._done == len(sampler):  # the last one: what is saved from here on begins the next epoch
                self.epoch, self._done = self.epoch + 1, 0
            yield batch

    def _setting(self) -> dict:
        sampler = self.batch_sampler
        return {
            name: getattr(sampler, name)
            for name in ("num_packs", "batch_size", "seed", "shuffle", "drop_last")
        }

    def state_dict(self) -> dict:
        """The epoch, the batches of it that were handed out, and what the order depends on."""
        return {"epoch": self.epoch, "batches_done": self._done, **self._setting()}

    def load_state_dict(self, state: dict) -> None:
        """Go on from `state` at the next pass.

        Raises:
            ValueError: if the state is of a loader with other packs, batch size or shuffling.
        """
        for name, value in self._setting().items():
            if state.get(name) != value:
                raise ValueError(
                    f"The state is of a loader with {name} {state.get(name)}; this one has {value}."
                )
        self.epoch = whole_number("epoch", state["epoch"], 0)
        self._done = self._start = whole_number("batches_done", state["batches_done"], 0, len(self) - 1)


def pack_loader(
    dataset,
    packs: Packs,
    collator: PackingCollator | None = None,
    batch_size: int = 16,
    *,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    **options,
) -> PackLoader:
    """A loader of `batch_size` packs a batch.

    Args:
        dataset: a `TokenStore`, or any map-style data set (see `PackDataset`).
        packs: which samples share a pack.
        collator: by default one without masking, at the packs' maximum length.
        seed, shuffle: the order of the packs, another one each epoch.
        drop_last: leave out an incomplete last batch (another one each epoch).
        options: passed on to `torch.utils.data.DataLoader` (`num_workers`, `pin_memory`, …).
    """
    collator = PackingCollator(packs.max_length) if collator is None else collator
    if collator.max_length < int(packs.lengths_used.max()):
        raise ValueError(
            f"The collator makes packs of {collator.max_length} tokens; "
            f"the fullest pack holds {packs.lengths_used.max()}."
        )
    sampler = PackSampler(len(packs), batch_size, seed, shuffle, drop_last)
    return PackLoader(PackDataset(dataset, packs), sampler, collator, **options)
