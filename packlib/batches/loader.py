"""Load packs: a data set of packs, and a loader that shuffles by epoch and resumes in mid-epoch."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

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
    """Plan and assign in one call: return packs of sequences with these lengths.

    >>> from packlib.batches import pack_lengths
    >>> pack_lengths([5, 3, 3, 2, 8], max_length=8)
    Packs(3 packs of 8, 5 samples, 87.500 % full)

    Args:
        lengths: the tokens of each sequence.
        max_length: slots of a pack, in tokens.
        method, max_sequences_per_pack: as of `plan`; a depth limit of 1 leaves the sequences unpacked.
        seed: as of `PackingPlan.assign`.
    """
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    best_plan = plan(lengths, max_length, method, max_sequences_per_pack=max_sequences_per_pack, on_interrupt="raise")
    return best_plan.assign(lengths, seed)


class PackDataset(Dataset):
    """Data set whose item `i` is pack `i`: the epoch and the sequences, as `PackingCollator` takes them.

    Args:
        dataset: the samples: a `TokenStore`, or any map-style data set of mappings with `input_ids` and the other
            columns that `TokenStore.from_samples` takes. Without `packs`, the rows of `pack_dataset`.
        packs: which samples share a pack; None for rows, which are packs already.

    An index may be `(epoch, i)`, as samplers give it; in `dataset[i]` the epoch is 0.

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
        sequences = _sequences(self.dataset, self.packs[index].tolist())
        if len(sequences.input_ids) != self.packs.lengths_used[index]:
            _raise_for_other_lengths(index, self.packs, len(sequences.input_ids))
        return epoch, sequences


def _sequences(dataset: Any, ids: list[int]) -> TokenStore:
    """Take the samples with these ids out of a `TokenStore` or another map-style data set."""
    if isinstance(dataset, TokenStore):
        return dataset.take(ids)
    return TokenStore.from_samples([dataset[i] for i in ids], ids)


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
            _raise_for_other_lengths(int(is_other.argmax()), packs, tokens[is_other.argmax()])


def _raise_for_other_lengths(index: int, packs: Packs, tokens: int) -> NoReturn:
    """Raise a ValueError: the samples of pack `index` have so many tokens, and the pack another number."""
    raise ValueError(
        f"The packs were made for other lengths: pack {index} has {packs.lengths_used[index]} tokens, and its "
        f"samples have {tokens}."
    )


class PaddedSamples(Dataset):
    """Data set whose item `epoch, shape` is a batch of `batch_by_tokens`: the epoch, the sequences and the shape.

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
        ids = shape.samples.tolist()
        # a blank batch must have the columns of the others
        sequences = _sequences(self.dataset, ids) if ids else _sequences(self.dataset, [0]).take([])
        return epoch, sequences, shape


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
        collator: its masking, token of padding and static shapes are used; its `max_length`, if it has one, is the
            width of all batches.
    """

    def __init__(self, collator: PackingCollator) -> None:
        self.collator = collator

    def __call__(self, items: list[tuple[int, TokenStore, PaddedShape]]) -> PackedBatch:
        ((epoch, sequences, shape),) = items  # an item is a whole batch, so there is one
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

    `state_dict()` says which batches were handed out so far; batches that workers have only prefetched do not count. A
    loader that loads the state goes on with the next batch, the same that an uninterrupted loader would give. A pass
    that is broken off does not end its epoch: the next pass begins the same epoch again.
    """

    @property
    def epoch(self) -> int:
        """The epoch of the current pass until its last batch is handed out; then that of the next pass."""
        return self.batch_sampler.epoch

    def __iter__(self) -> Iterator[PackedBatch]:
        sampler = self.batch_sampler
        batches_done = sampler.start
        for batch in super().__iter__():
            batches_done += 1
            sampler.done = batches_done  # the sampler itself counts the batches that workers have fetched
            if batches_done == len(sampler):  # the last one: a state that is saved from here on begins the next epoch
                sampler.set_epoch(sampler.epoch + 1)
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass: it starts at the first batch, or where a loaded state of it left off."""
        self.batch_sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the batches of it that this rank was handed out, and what the order depends on."""
        return self.batch_sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on from a state, which may be that of any rank.

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
    """Make a loader of packed batches; under torch.distributed, of this rank's share of the packs (`PackSampler`).

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
        seed: of the order of the packs, or of a schedule's steps, which is another one in each epoch.
        shuffle: False for the order that they have.
        drop_last: leave out an incomplete last batch (other packs in each epoch).
        ranks, rank: by default those of torch.distributed; `ranks=1` gives every rank all packs.
        options: passed on to `torch.utils.data.DataLoader` (`num_workers`, `pin_memory`, …).
    """
    if collator is not None:
        instance("collator", collator, PackingCollator)
    if isinstance(packs, TokenBatches):
        if batch_size is not None:
            raise ValueError(f"batch_size must be left out for batches by tokens, not {shown(batch_size)}.")
        data, collate_fn = _padded_batches(dataset, packs, collator)
        sampler: PackSampler = TokenBatchSampler(packs, seed, shuffle, drop_last, ranks, rank)
        return PackLoader(data, batch_sampler=sampler, collate_fn=collate_fn, **options)
    pack_data = PackDataset(dataset, packs)
    if collator is None:
        collator = PackingCollator(None if packs is None else packs.max_length)
    if packs is not None and collator.max_length is not None:
        fullest = int(packs.lengths_used.max())
        if fullest > collator.max_length:
            raise ValueError(
                f"The collator makes packs of {collator.max_length} tokens; the fullest pack holds {fullest}."
            )
    schedule_or_number = packs if isinstance(packs, Schedule) else len(pack_data)
    sampler = PackSampler(schedule_or_number, batch_size, seed, shuffle, drop_last, ranks, rank)
    return PackLoader(pack_data, batch_sampler=sampler, collate_fn=collator, **options)


def _padded_batches(
    dataset: Any, batches: TokenBatches, collator: PackingCollator | None
) -> tuple[PaddedSamples, PaddingCollator]:
    """Return the data set and the collator for a loader of batches by tokens; arguments as of `pack_loader`."""
    collator = PackingCollator() if collator is None else collator
    largest_width = int(batches.widths.max())
    if collator.max_length is not None and collator.max_length < largest_width:
        raise ValueError(
            f"The collator makes rows of {collator.max_length} tokens; the longest sample has {largest_width}."
        )
    return PaddedSamples(dataset, batches), PaddingCollator(collator)
