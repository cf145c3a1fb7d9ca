"""Load batches of equally many tokens: a batch sampler that is even across ranks, known ahead, and resumable."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from packlib.batches.collation import collate
from packlib.batches.loader import EpochSampler, PackLoader
from packlib.batches.masking import MlmMasking
from packlib.batches.token_budget import TokenBatches, batch_by_tokens
from packlib.batches.tokens import TokenStore
from packlib.checks import flag, whole_number
from packlib.lengths.counting import as_lengths


class MicroBatch(list):
    """The sample ids of one micro-batch: a list of integers, that also knows what is to be made of them.

    Attributes:
        epoch: the pass through the data that it belongs to.
        rows, width: its shape, in sequences and tokens.
        update_size: samples of the whole update, over all ranks and micro-batches: what a learning rate is scaled by.
    """

    def __init__(self, samples: Iterable[int], epoch: int, rows: int, width: int, update_size: int) -> None:
        super().__init__(samples)
        self.epoch, self.rows, self.width, self.update_size = epoch, rows, width, update_size


class TokenBatchSampler(EpochSampler):
    """A `batch_sampler` for torch's `DataLoader`: batches by tokens, even across ranks.

    An update is ranks × accumulation micro-batches in turn, dealt to the ranks in turn; each rank gets as many, and
    each sample comes once (but for `drop_last`). As with torch's `DistributedSampler`, say `set_epoch` before each
    pass; a `PackLoader` does so itself.

    Args:
        lengths: tokens of each sample.
        max_tokens: the budget of a micro-batch.
        gradient_accumulation_steps: micro-batches of one rank behind an update.
        same_shape: all micro-batches of an update get one shape, as pipelines want it.
        shuffle: put the updates in another order each epoch, which leaves sorted batches as full as they are.
        seed: of all that is random, with the epoch.
        ranks, rank: by default those of torch.distributed; 1 and 0 without it.
        options: `min_batch`, `max_batch`, `order`, `drop_last`, `count_padding`, `difficulty` of `batch_by_tokens`.
            A random order is another in each epoch, and so may be what `min_batch` can be kept in and what `drop_last`
            drops.
    """

    depends_on = ("max_tokens", "gradient_accumulation_steps", "same_shape", "shuffle", "seed", "ranks")

    def __init__(
        self,
        lengths: Iterable[int],
        max_tokens: int,
        gradient_accumulation_steps: int = 1,
        same_shape: bool = False,
        shuffle: bool = False,
        seed: int = 0,
        ranks: int | None = None,
        rank: int | None = None,
        **options: Any,
    ):
        super().__init__(seed, shuffle, ranks, rank)
        self.gradient_accumulation_steps = whole_number("gradient_accumulation_steps", gradient_accumulation_steps, 1)
        self.lengths, self.max_tokens, self.options = as_lengths(lengths), max_tokens, options
        self.same_shape = flag("same_shape", same_shape)
        self._planned: tuple[int, TokenBatches] | None = None
        self.batches()  # what is wrong is said now

    def batches(self) -> TokenBatches:
        """The micro-batches of this epoch, those of all ranks, before the updates are shuffled."""
        if self._planned is None or self._planned[0] != self.epoch:
            even = "same_shape_every" if self.same_shape else "num_batches_multiple_of"
            options: dict[str, Any] = {even: self.ranks * self.gradient_accumulation_steps, **self.options}
            made = batch_by_tokens(self.lengths, self.max_tokens, seed=(self.seed, self.epoch), **options)
            self._planned = self.epoch, made
        return self._planned[1]

    def _updates(self) -> np.ndarray:
        """The updates of this epoch, as they come: their micro-batches, shape (updates, steps, ranks)."""
        micro_batches = np.arange(len(self.batches())).reshape(-1, self.gradient_accumulation_steps, self.ranks)
        if self.shuffle:
            return np.random.default_rng([self.seed, self.epoch, 1]).permutation(micro_batches)
        return micro_batches

    @property
    def update_sizes(self) -> np.ndarray:
        """Samples of each update of this epoch, over all ranks; int64, shape (updates,)."""
        return self.batches().sizes[self._updates()].sum((1, 2))

    def __len__(self) -> int:
        """Micro-batches of this rank in this epoch."""
        return len(self.batches()) // self.ranks

    def __iter__(self) -> Iterator[MicroBatch]:
        epoch, batches, first, self.start = self.epoch, self.batches(), self.start, 0
        sizes = np.repeat(self.update_sizes, self.gradient_accumulation_steps).tolist()
        mine = self._updates()[:, :, self.rank].ravel().tolist()
        for number in range(first, len(mine)):
            at, self.done = mine[number], number + 1
            shape = int(batches.rows[at]), int(batches.widths[at])
            yield MicroBatch(batches[at].tolist(), epoch, *shape, sizes[number])

    def setting(self) -> dict:
        plain = {name: value for name, value in self.options.items() if name != "difficulty"}
        size = {"samples": len(self.lengths), "tokens": int(self.lengths.sum(dtype=np.int64))}
        return {**super().setting(), **plain, **size}


@dataclass(eq=False)
class PaddedSamples(Dataset):
    """Fetches a whole `MicroBatch` at once, padded to its shape.

    Attributes:
        dataset: a `TokenStore`, or any map-style data set; without `pad` one of mappings with `input_ids` and,
            where there are some, the other columns of `TokenStore.from_samples`.
        pad: what makes a batch of `(samples, rows, width)`, a list of samples and the shape; by default a
            `PackedBatch` with a sequence a row, where blank rows hold padding only.
        masking: draws the tokens to predict, without `pad`; None leaves the tokens alone.
        pad_id: the token that fills what is left.
    """

    dataset: Any
    pad: Callable[[list, int, int], Any] | None = None
    masking: MlmMasking | None = None
    pad_id: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, batch: MicroBatch) -> Any:
        if self.pad is not None:
            return self.pad([self.dataset[i] for i in batch], batch.rows, batch.width)
        sequences = TokenStore.of(self.dataset, batch)
        if self.masking is not None:
            sequences = self.masking(sequences, batch.epoch)
        blank = batch.rows - len(batch)
        return collate(sequences, [1] * len(batch), batch.width, pad_id=self.pad_id, blank_packs=blank)


def token_loader(
    dataset: Any,
    sampler: TokenBatchSampler,
    pad: Callable[[list, int, int], Any] | None = None,
    masking: MlmMasking | None = None,
    pad_id: int = 0,
    **options: Any,
) -> PackLoader:
    """A loader of the sampler's micro-batches, padded to their shapes; each pass is one epoch.

    Args:
        pad, masking, pad_id: as in `PaddedSamples`.
        options: passed on to `torch.utils.data.DataLoader` (`num_workers`, `pin_memory`, …).
    """
    samples = PaddedSamples(dataset, pad, masking, pad_id)
    if len(samples) != len(sampler.lengths):
        raise ValueError(f"The sampler has {len(sampler.lengths)} lengths for {len(samples)} samples.")
    return PackLoader(samples, sampler, _as_it_is, **options)


def _as_it_is(batch: Any) -> Any:
    return batch
