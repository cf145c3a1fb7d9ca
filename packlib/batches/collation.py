"""Make a packed batch of sequences: tokens side by side, and the fields by which a model keeps sequences apart."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from packlib.arguments import instance, shown, whole_number
from packlib.batches.batch import IGNORED, PackedBatch
from packlib.batches.flat import row_lengths
from packlib.batches.masking import MlmMasking
from packlib.batches.tokens import TokenStore
from packlib.lengths.counting import INT64_MAX, as_int64


def collate(
    sequences: TokenStore,
    sizes: Sequence[int] | np.ndarray,
    max_length: int,
    *,
    pad_id: int = 0,
    sequence_places: int | None = None,
    blank_packs: int = 0,
) -> PackedBatch:
    """Put `sequences` into a packed batch: the first `sizes[0]` into pack 0, the next `sizes[1]` into pack 1, …

    >>> from packlib.batches import TokenStore, collate
    >>> store = TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}])
    >>> batch = collate(store, sizes=[2], max_length=8)
    >>> batch.input_ids.tolist(), batch.segment_ids.tolist()
    ([[7, 8, 9, 4, 5, 0, 0, 0]], [[1, 1, 1, 2, 2, 0, 0, 0]])

    Args:
        sequences: what the packs hold.
        sizes: number of sequences in each pack, each at least 1.
        max_length: slots of a pack, in tokens; the T of the batch.
        pad_id: the token of padding.
        sequence_places: the length of the per-sequence arrays, for static shapes; by default there are no
            empty places.
        blank_packs: how many packs of padding alone follow the others, where batches must have the same shape.

    Raises:
        TypeError, ValueError: naming an argument of another kind; if there is neither a sequence nor a blank pack, if
            there are more sequences than `sequence_places`, if the sizes do not add up to them, or if a pack is over
            `max_length`.
    """
    lengths = instance("sequences", sequences, TokenStore).lengths
    sizes = as_int64(sizes, "Size")
    max_length = whole_number("max_length", max_length, 1)
    pad_id = whole_number("pad_id", pad_id, 0, INT64_MAX)
    blank_packs = whole_number("blank_packs", blank_packs, 0)
    if sequence_places is not None:
        sequence_places = whole_number("sequence_places", sequence_places, 1)
    _refuse_other_packs(lengths, sizes, max_length, sequence_places, blank_packs)

    first_of_pack = np.cumsum(sizes) - sizes  # number of each pack's first sequence
    tokens_before = np.cumsum(lengths) - lengths  # tokens of all sequences before each
    padding_before = (
        np.arange(len(sizes)) * max_length - tokens_before[first_of_pack]
    )  # slots of padding before a pack
    starts = tokens_before + np.repeat(padding_before, sizes)  # slot of each sequence's first token
    positions = np.arange(lengths.sum()) - np.repeat(tokens_before, lengths)
    slots = positions + np.repeat(starts, lengths)  # where each token goes among the B·T slots
    segments = np.arange(len(lengths)) - np.repeat(first_of_pack, sizes) + 1  # 1 for the first sequence of a pack
    num_packs = len(sizes) + blank_packs

    def by_token(values: np.ndarray, fill: int) -> Tensor:
        """Put a value for each token into its slot; shape (B, T)."""
        values_of_slots = np.full(num_packs * max_length, fill, np.int64)
        values_of_slots[slots] = values
        return torch.from_numpy(values_of_slots.reshape(num_packs, max_length))

    def by_sequence(values: np.ndarray, fill: int) -> Tensor:
        """Put a value for each sequence before the empty places; shape (S,)."""
        values_of_places = np.full(sequence_places or len(lengths), fill, np.int64)
        values_of_places[: len(lengths)] = values
        return torch.from_numpy(values_of_places)

    return PackedBatch._of(  # the store was checked when it was made
        input_ids=by_token(sequences.input_ids, pad_id),
        segment_ids=by_token(np.repeat(segments, lengths), 0),
        position_ids=by_token(positions, 0),
        token_type_ids=by_token(sequences.token_type_ids, 0),
        labels=None if sequences.labels is None else by_token(sequences.labels, IGNORED),
        sequence_starts=by_sequence(starts, num_packs * max_length),
        sequence_labels=by_sequence(sequences.sequence_labels, IGNORED),
        sample_ids=by_sequence(sequences.sample_ids, -1),
        num_sequences=len(lengths),
        useful_tokens=len(positions),
    )


def _refuse_other_packs(
    lengths: np.ndarray, sizes: np.ndarray, max_length: int, sequence_places: int | None, blank_packs: int
) -> None:
    """Raise a ValueError if the arguments of `collate` do not go together: number, sizes, lengths or places."""
    if len(lengths) == 0 and not blank_packs:
        raise ValueError("A batch needs at least one sequence; this one has none.")
    if (sizes < 1).any() or sizes.sum() != len(lengths):
        raise ValueError(f"The sizes {sizes.tolist()} do not deal out {len(lengths)} sequences to packs.")
    tokens_of_packs = np.add.reduceat(lengths, np.cumsum(sizes) - sizes)
    if tokens_of_packs.max(initial=0) > max_length:
        fullest = int(tokens_of_packs.argmax())
        raise ValueError(
            f"Pack {fullest} of the batch holds {tokens_of_packs[fullest]} tokens; the maximum is {max_length}."
        )
    if sequence_places is not None and len(lengths) > sequence_places:
        raise ValueError(f"The batch holds {len(lengths)} sequences; there are places for {sequence_places}.")


def pad(batch: PackedBatch, max_length: int | None = None, pad_id: int = 0) -> PackedBatch:
    """Unpack a batch: the same sequences in the same order, one per row, padded to `max_length`.

    The tokens have the same order too: for an output x of each batch, `x[batch.segment_ids > 0]` can be compared.

    >>> from packlib.batches import TokenStore, collate, pad
    >>> store = TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}])
    >>> pad(collate(store, [2], max_length=8), max_length=4).input_ids.tolist()
    [[7, 8, 9, 0], [4, 5, 0, 0]]

    Args:
        batch: the packs.
        max_length: slots of a row; by default those of a pack.
        pad_id: the token of padding.
    """
    device = instance("batch", batch, PackedBatch).input_ids.device
    batch = batch.to("cpu")
    is_token = (batch.segment_ids > 0).numpy()
    count = batch.num_sequences
    names = ("input_ids", "token_type_ids", "labels")
    tokens = {name: batch[name].numpy()[is_token] for name in names if name in batch}
    sequences = TokenStore(
        **tokens,
        offsets=np.concatenate([[0], np.cumsum(batch.lengths.numpy())]),
        sequence_labels=batch.sequence_labels.numpy()[:count],
        sample_ids=batch.sample_ids.numpy()[:count],
    )
    max_length = batch.input_ids.shape[1] if max_length is None else max_length
    return collate(sequences, [1] * count, max_length, pad_id=pad_id).to(device)


@dataclass(frozen=True)
class PackingCollator:
    """A `collate_fn` for packs: rows of `pack_dataset`, or (epoch, sequences of the pack) as `PackDataset` gives them.

    It works in a `DataLoader` and in its workers. A row must say where its sequences end, by `seq_lengths` or by
    `position_ids` that restart. Of its other columns, `input_ids`, `labels` and `token_type_ids` are read. Columns with
    one value for each sequence are left out. Any other column with a value for each token is refused by name, since no
    model reads it: a mask of losses, for example, would be ignored, and must be written as labels of -100.

    >>> from packlib.batches import PackingCollator, TokenStore
    >>> PackingCollator()([{"input_ids": [7, 8, 9, 4, 5], "seq_lengths": [3, 2]}])
    PackedBatch(1 pack of 5, 2 sequences, 5 useful tokens, 100.0 % full, on cpu)
    >>> store = TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}, {"input_ids": [6]}])
    >>> PackingCollator(max_length=8)([(0, store.take([0, 1])), (0, store.take([2]))])
    PackedBatch(2 packs of 8, 3 sequences, 6 useful tokens, 37.5 % full, on cpu)

    Attributes:
        max_length: slots of a pack, in tokens; None for as many as the fullest pack of the batch holds.
        masking: chooses the tokens to predict; None for a causal model, or to leave the tokens alone. It must be None
            for rows: it depends on which sample a sequence is, and rows do not say.
        pad_id: the token of padding.
        max_sequences_per_pack: for static shapes only: per-sequence arrays have this many places for each pack of the
            batch. For WordNet at 128 take 8 and an optimal plan of depth 8, which needs no more packs than one
            without a limit.
        max_predictions_per_pack: for static shapes only: refuse a batch with more masked tokens a pack on average than
            this; set the model's argument of the same name to the same number.

    Raises:
        ValueError: naming the column, or what a row does not say.
    """

    max_length: int | None = None
    masking: MlmMasking | None = None
    pad_id: int = 0
    max_sequences_per_pack: int | None = None
    max_predictions_per_pack: int | None = None

    def __post_init__(self) -> None:
        whole_number("pad_id", self.pad_id, 0, INT64_MAX)
        if self.masking is not None and not callable(self.masking):
            raise TypeError(f"masking must be an MlmMasking, not {shown(self.masking)}.")
        for name in ("max_length", "max_sequences_per_pack", "max_predictions_per_pack"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)

    def __call__(self, packs: Sequence[tuple[int, TokenStore | Mapping[str, Any]] | Mapping[str, Any]]) -> PackedBatch:
        """Make a batch of packs: rows, or pairs of an epoch and the sequences or the row of a pack."""
        if not packs:
            raise ValueError("A batch needs at least one pack; this one has none.")
        stores = list[TokenStore]()
        epochs = list[int]()
        num_sequences = 0
        for pack in packs:
            epoch, sequences = pack if isinstance(pack, tuple) else (0, pack)
            if not isinstance(sequences, TokenStore):
                if self.masking is not None:
                    raise ValueError("masking must be None for rows, which do not say which sample a sequence is.")
                sequences = _sequences_of(sequences, num_sequences)
            stores.append(sequences)
            epochs.append(epoch)
            num_sequences += len(sequences)
        sizes = list(map(len, stores))
        joined = TokenStore.concatenate(stores)
        if self.masking is not None:
            joined = self._masked(joined, np.repeat(epochs, sizes), len(packs))
        places = None if self.max_sequences_per_pack is None else self.max_sequences_per_pack * len(packs)
        slots = max(len(store.input_ids) for store in stores) if self.max_length is None else self.max_length
        return collate(joined, sizes, slots, pad_id=self.pad_id, sequence_places=places)

    def _masked(self, sequences: TokenStore, epochs: np.ndarray, num_packs: int) -> TokenStore:
        """Return the sequences masked; raise a ValueError if more tokens are masked than packs have places for.

        Args:
            sequences: of all packs of the batch.
            epochs: one for each sequence.
            num_packs: packs of the batch.
        """
        masking: Any = self.masking
        masked_sequences = masking(sequences, epochs)
        if not isinstance(masking, MlmMasking):  # a function of the user's own may return anything
            masked_sequences = replace(instance("What masking returns", masked_sequences, TokenStore))  # checks it
        num_masked = np.count_nonzero(masked_sequences.labels != IGNORED)
        places_for_masked = (self.max_predictions_per_pack or math.inf) * num_packs
        if num_masked > places_for_masked:
            raise ValueError(
                f"The batch has {num_masked} masked tokens; {num_packs} packs have places for {places_for_masked}."
            )
        return masked_sequences


def _sequences_of(row: Mapping[str, Any], first_number: int) -> TokenStore:
    """Return the sequences of a row of `pack_dataset`, numbered from `first_number` on."""
    lengths = row_lengths(row)
    columns = {name: np.asarray(row[name]) for name in ("input_ids", "labels", "token_type_ids") if name in row}
    return TokenStore(
        **{"token_type_ids": np.zeros(len(row["input_ids"]), np.uint8), **columns},
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        sequence_labels=np.full(len(lengths), IGNORED),
        sample_ids=np.arange(first_number, first_number + len(lengths)),
    )
