"""From a loader's batches to the micro-batches of each update, with an even number of sequences if wanted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from packlib.arguments import number, shown, whole_number
from packlib.batches import PackedBatch, PackLoader


def take_packs(batch: PackedBatch, start: int, stop: int) -> PackedBatch:
    """Take packs `start` to `stop` of a batch on the CPU; empty places of the per-sequence arrays are left out."""
    # the pack of each sequence; an empty place has a number after the last pack
    pack_of = batch.sequence_starts // batch.max_length
    is_taken = (pack_of >= start) & (pack_of < min(stop, batch.num_packs))
    # a tensor has either a row for each pack or an entry for each sequence
    return PackedBatch({name: v[start:stop] if v.dim() == 2 else v[is_taken] for name, v in _tensors(batch).items()})


def join_packs(batches: Sequence[PackedBatch]) -> PackedBatch:
    """Join the packs of all `batches` into one batch; they have packs of one length and no empty places."""
    return PackedBatch({name: torch.cat([batch[name] for batch in batches]) for name in _tensors(batches[0])})


def _tensors(batch: PackedBatch) -> dict[str, Tensor]:
    """Return the tensors of a batch but for where sequences start, which a `PackedBatch` finds by itself."""
    return {name: v for name, v in batch.items() if isinstance(v, Tensor) and name != "sequence_starts"}


class UpdateStream:
    """Endless updates from a loader, each a list of micro-batches; the epochs run into each other.

    Without a `target`, an update has `gradient_accumulation_steps` micro-batches. Packs hold different numbers of
    sequences, and so do these updates. With a `target`, an update ends at the pack that keeps the run closest to
    `target` sequences an update, in mid-batch if need be; the rest of the batch begins the next update. If no pack
    holds more than `target` sequences, every update misses the target by at most the sequences of the deepest pack, and
    the error does not add up. Updates with a target come in micro-batches of the loader's size, the last one shorter,
    and have no empty places, so their shapes are not static.

    Args:
        loader: batches of packs, again and again; a `PackLoader` if the state is to be saved.
        gradient_accumulation_steps: micro-batches in an update, without a target.
        target: sequences in an update, on average; at least 1.
    """

    def __init__(self, loader: PackLoader, gradient_accumulation_steps: int, target: float | None = None) -> None:
        if not isinstance(loader, Iterable) or isinstance(loader, (str, Mapping)):
            raise TypeError(f"loader must be a PackLoader, or a list of PackedBatch, not {shown(loader)}.")
        self.loader = loader
        self.target = None if target is None else number("target", target, at_least=1)
        self.gradient_accumulation_steps = whole_number("gradient_accumulation_steps", gradient_accumulation_steps, 1)
        self._batches: Iterator[PackedBatch] = iter(())
        self._ahead = 0.0  # sequences handed out so far, less the target of as many updates
        self._rest: PackedBatch | None = None  # the packs of the last batch that no update has taken

    def __iter__(self) -> "UpdateStream":
        return self

    def __next__(self) -> list[PackedBatch]:
        """Return the micro-batches of the next update."""
        if self.target is None:
            return [self._next_batch() for _ in range(self.gradient_accumulation_steps)]
        wanted = self.target - self._ahead  # sequences of this update
        sequences_taken = 0
        packs_per_batch = 0
        parts = list[PackedBatch]()
        # batch after batch is taken whole, until one leaves a remainder or there are enough sequences
        while not parts or (self._rest is None and sequences_taken < wanted):
            batch = self._next_batch() if self._rest is None else self._rest
            num_packs = batch.num_packs
            sequences = batch.segment_ids.amax(1)  # of each pack
            # a pack is taken if that comes closer to what is wanted than to end before it: if its middle is below
            ends = sequences_taken + sequences.cumsum(0)
            twice_middles = 2 * ends - sequences
            num_taken = int((twice_middles < 2 * wanted).sum())
            if not parts:
                num_taken = max(num_taken, 1)  # an update has a pack
            self._rest = take_packs(batch, num_taken, num_packs) if num_taken < num_packs else None
            if num_taken:
                parts.append(take_packs(batch, 0, num_taken))
                sequences_taken = int(ends[num_taken - 1])
                packs_per_batch = max(packs_per_batch, num_packs)
        self._ahead += sequences_taken - self.target
        all_packs = join_packs(parts)
        starts = range(0, all_packs.num_packs, packs_per_batch)
        return [take_packs(all_packs, start, start + packs_per_batch) for start in starts]

    def _next_batch(self) -> PackedBatch:
        """Return the loader's next batch; after its last one the loader begins again."""
        with torch.random.fork_rng(devices=[]):  # a loader draws seeds: the model's dropout must not see it
            batch = next(self._batches, None)
            if batch is None:
                self._batches = iter(self.loader)
                batch = next(self._batches, None)
        if batch is None:
            raise ValueError("The loader has no batch.")
        if not isinstance(batch, PackedBatch):
            raise TypeError(f"The loader must give batches of the class PackedBatch, not {shown(batch)}.")
        return batch

    def state_dict(self) -> dict:
        """Return the place of the stream: the loader's state, and the remainder of its last batch."""
        rest = None if self._rest is None else dict(self._rest)
        return {"loader": self.loader.state_dict(), "ahead": self._ahead, "rest": rest}

    def load_state_dict(self, state: dict) -> None:
        """Go on from `state`."""
        self.loader.load_state_dict(state["loader"])
        self._batches, self._ahead = iter(()), state["ahead"]
        self._rest = None if state["rest"] is None else PackedBatch(state["rest"])
