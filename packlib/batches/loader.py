"""Load packs: a data set of packs, and a loader that shuffles by epoch and resumes in mid-epoch."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset

from packlib.arguments import instance, shown, sized, whole_number
from packlib.batches.batch import PackedBatch
from packlib.batches.collation import PackingCollator, collate
from packlib.batches.samplers import PackSampler, PaddedShape, TokenBatchSampler
from packlib.batches.token_budget import TokenBatches
from packlib.batches.tokens import TokenStore
from packlib.lengths.counting import MAX_LENGTH
from packlib.packing import Method, Packs, plan
from packlib.work import Schedule


def pack_lengths(
    lengths: Iterable[int],
    max_length: int,
    method: Method = "auto",
    max_sequences_per_pack: int | None = None,
    seed: int | None = None,
) -> Packs:
    """Plan and assign in one call: packs for sequences of these `lengths` (depth 1 leaves them unpacked).

    >>> from packlib.batches import pack_lengths
    >>> pack_lengths([5, 3, 3, 2, 8], max_length=8)
    Packs(3 packs of 8, 5 samples, 87.500 % full)
    """
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    best = plan(lengths, max_length, method, max_sequences_per_pack=max_sequences_per_pack, on_interrupt="raise")
    return best.assign(lengths, seed)


class PackDataset(Dataset):
    """Item `i` is pack `i`: its epoch and its sequences, as `PackingCollator` takes them.

    Args:
        dataset: the samples: a `TokenStore`, or any map-style data set of mappings with `input_ids` and the other
            columns that `TokenStore.from_samples` takes. Without `packs` the rows of `pack_dataset`.
        packs: which samples share a pack.

    `dataset[epoch, i]` says the epoch with the index, as the samplers do; in `dataset[i]` it is 0.

    Raises:
        TypeError, ValueError: if the packs were made for other samples.
    """

    def __init__(self, dataset: Any, packs: Packs | None = None) -> None:
        num_samples = sized("dataset", dataset)
        if packs is not None:
            _refuse_packs_of_others(packs, dataset, num_samples)
        self.dataset = dataset
        self.packs = packs

    def __len__(self) -> int:
        return len(self.dataset if self.packs is None else self.packs)

    def __getitem__(self, index: int | tuple[int, int]) -> tuple[int, TokenStore | Mapping[str, Any]]:
        epoch, index = index if isinstance(index, tuple) else (0, index)
        if self.packs is None:
            return epoch, self.dataset[index]
        data, ids = self.dataset, self.packs[index].tolist()
        is_store = isinstance(data, TokenStore)
        sequences = data.take(ids) if is_store else TokenStore.from_samples([data[i] for i in ids], ids)
        if len(sequences.input_ids) != self.packs.lengths_used[index]:
            _refuse_other_samples(index, self.packs, len(sequences.input_ids))
        return epoch, sequences


def _refuse_packs_of_others(packs: Any, dataset: Any, num_samples: int) -> None:
    """Raise an error unless packs hold samples of this data set, each with its number of tokens."""
    if not isinstance(packs, Packs):
        raise TypeError(f"packs must be Packs, not {shown(packs)}.")
    if len(packs.sample_ids) and (last_sample := int(packs.sample_ids.max())) >= num_samples:
        raise ValueError(f"The packs hold sample {last_sample}; the data set has {num_samples} samples.")
    if isinstance(dataset, TokenStore):
        tokens = np.add.reduceat(dataset.lengths[packs.sample_ids], packs.offsets[:-1])
        is_other = tokens != packs.lengths_used
        if is_other.any():
            _refuse_other_samples(int(is_other.argmax()), packs, tokens[is_other.argmax()])


def _refuse_other_samples(index: int, packs: Packs, tokens: int) -> None:
    raise ValueError(
        f"The packs were made for other lengths: pack {index} has {packs.lengths_used[index]} tokens, and its "
        f"samples have {tokens}."
    )


class PaddedSamples(Dataset):
    """Item `epoch, shape` is a batch of `batch_by_tokens`: its epoch, its sequences and its shape.

    Args:
        dataset: the samples, as `PackDataset` takes them.
        batches: which samples share a batch.

    Raises:
        TypeError, ValueError: if the batches were made for other samples.
    """

    def __init__(self, dataset: Any, batches: TokenBatches) -> None:
        _refuse_batches_of_others(batches, dataset, sized("dataset", dataset))
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: tuple[int, PaddedShape]) -> tuple[int, TokenStore, PaddedShape]:
        epoch, shape = index
        data, ids = self.dataset, shape.samples.tolist()
        if isinstance(data, TokenStore):
            return epoch, data.take(ids), shape
        if not ids:  # a blank batch has the columns of the others
            return epoch, TokenStore.from_samples([data[0]]).take([]), shape
        return epoch, TokenStore.from_samples([data[i] for i in ids], ids), shape


def _refuse_batches_of_others(batches: TokenBatches, dataset: Any, num_samples: int) -> None:
    """Raise a ValueError unless batches hold the samples of this data set, each with its number of tokens."""
    if len(batches.sample_ids) != num_samples:
        raise ValueError(f"The batches hold {len(batches.sample_ids)} samples; the data set has {num_samples}.")
    if isinstance(dataset, TokenStore):
        tokens_before = np.concatenate([[0], np.cumsum(dataset.lengths[batches.sample_ids], dtype=np.int64)])
        tokens = np.diff(tokens_before[batches.offsets])
        is_other = tokens != batches.tokens
        if is_other.any():
            at = int(is_other.argmax())
            raise ValueError(
                f"The batches were made for other lengths: batch {at} has {batches.tokens[at]} tokens, and its "
                f"samples have {tokens[at]}."
            )


class PaddingCollator:
    """A `collate_fn` for the items of `PaddedSamples`: one sequence a row, padded to the shape of the batch.

    Args:
        collator: whose masking, token of padding and static shapes are taken; its `max_length`, if it has one, is the
            width of all batches.
    """

    def __init__(self, collator: PackingCollator) -> None:
        self.collator = collator

    def __call__(self, items: list[tuple[int, TokenStore, PaddedShape]]) -> PackedBatch:
        ((epoch, sequences, shape),) = items
        if self.collator.masking is not None:
            sequences = self.collator.masking(sequences, epoch)
        width = shape.width if self.collator.max_length is None else self.collator.max_length
        count = len(sequences)
        return collate(
            sequences,
            [1] * count,
            width,
            pad_id=self.collator.pad_id,
            sequence_places=shape.rows if shape.rows > count else None,
            blank_packs=shape.rows - count,
        )


class PackLoader(DataLoader):
    """A `DataLoader` of packed batches: each pass through it is one epoch, shuffled by seed and epoch.

    `state_dict()` says what was handed out so far, whatever workers have prefetched; a loader that loads it
    goes on with the next batch, identical to what an uninterrupted one would give. Breaking off a pass and
    starting another begins the same epoch again.
    """

    @property
    def epoch(self) -> int:
        """The epoch of the next pass, or of this one until its last batch is handed out."""
        return self.batch_sampler.epoch

    def __iter__(self) -> Iterator[PackedBatch]:
        sampler = self.batch_sampler
        done = sampler.start
        for batch in super().__iter__():
            sampler.done = done = done + 1  # not what workers have fetched
            if done == len(sampler):  # the last one: what is saved from here on begins the next epoch
                sampler.set_epoch(sampler.epoch + 1)
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass: it starts at the first batch, or where a loaded state of it left off."""
        self.batch_sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the batches of it that this rank was handed out, and what the order depends on."""
        return self.batch_sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, of any rank, at the next pass.

        Raises:
            ValueError: if the state is of a loader with other packs, batch size, ranks or shuffling.
        """
        self.batch_sampler.load_state_dict(state)


def pack_loader(
    dataset: Any,
    packs: Packs | TokenBatches | None = None,
    collator: PackingCollator | None = None,
    batch_size: int | None = None,
    *,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    ranks: int | None = None,
    rank: int | None = None,
    **options: Any,
) -> PackLoader:
    """Make a loader of `batch_size` packs a batch; under torch.distributed, of this rank's share (`PackSampler`).

    >>> from packlib.batches import TokenStore, pack_lengths, pack_loader
    >>> store = TokenStore.from_samples([{"input_ids": [7] * length} for length in (5, 3, 3, 2, 8)])
    >>> loader = pack_loader(store, pack_lengths(store.lengths, max_length=8), batch_size=3)
    >>> next(iter(loader))
    PackedBatch(3 packs of 8, 5 sequences, 21 useful tokens, 87.5 % full, on cpu)

    Batches by tokens are loaded by the same call, one sequence a row, each batch padded to its own width:

    >>> from packlib.batches import batch_by_tokens
    >>> batches = batch_by_tokens(store.lengths, max_tokens=12, order="ascending")
    >>> [tuple(batch.input_ids.shape) for batch in pack_loader(store, batches, shuffle=False)]
    [(3, 3), (1, 5), (1, 8)]

    Args:
        dataset: a `TokenStore`, or any map-style data set (see `PackDataset`); or the rows of `pack_dataset`.
        packs: which samples share a pack; a `Schedule` keeps its steps, and has its own batch size. Or the batches of
            `batch_by_tokens`, of which each rank gets one a step (`TokenBatchSampler`). None for rows.
        collator: by default one without masking, at the packs' maximum length.
        batch_size: packs of a batch; by default 16.
        seed, shuffle: the order of the packs, or of a schedule's steps, another one each epoch.
        drop_last: leave out an incomplete last batch (another one each epoch).
        ranks, rank: by default those of torch.distributed; `ranks=1` gives every rank all packs.
        options: passed on to `torch.utils.data.DataLoader` (`num_workers`, `pin_memory`, …).
    """
    if collator is not None:
        instance("collator", collator, PackingCollator)
    if isinstance(packs, TokenBatches):
        return _token_loader(dataset, packs, collator, batch_size, (seed, shuffle, drop_last, ranks, rank), options)
    data = PackDataset(dataset, packs)
    if collator is None:
        collator = PackingCollator(None if packs is None else packs.max_length)
    if packs is not None and (top := collator.max_length) and top < (fullest := int(packs.lengths_used.max())):
        raise ValueError(f"The collator makes packs of {top} tokens; the fullest pack holds {fullest}.")
    order = packs if isinstance(packs, Schedule) else len(data)
    sampler = PackSampler(order, batch_size, seed, shuffle, drop_last, ranks, rank)
    return PackLoader(data, batch_sampler=sampler, collate_fn=collator, **options)


def _token_loader(
    dataset: Any,
    batches: TokenBatches,
    collator: PackingCollator | None,
    batch_size: int | None,
    order: tuple[int, bool, bool, int | None, int | None],
    options: dict[str, Any],
) -> PackLoader:
    """Return a loader of the batches of `batch_by_tokens`; `order` are seed, shuffle, drop_last, ranks and rank."""
    if batch_size is not None:
        raise ValueError(f"batch_size must be left out for batches by tokens, not {shown(batch_size)}.")
    collator = PackingCollator() if collator is None else collator
    if (top := collator.max_length) and top < (longest := int(batches.widths.max())):
        raise ValueError(f"The collator makes rows of {top} tokens; the longest sample has {longest}.")
    data = PaddedSamples(dataset, batches)
    sampler = TokenBatchSampler(batches, *order)
    return PackLoader(data, batch_sampler=sampler, collate_fn=PaddingCollator(collator), **options)
