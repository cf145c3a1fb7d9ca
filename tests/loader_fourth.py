"""Faults of loaders after public reports, a fourth set; the loaders were written before the check was run on them.

When they were first run, nine of these ten failed the question that they must fail. The stale state passed: the second
stop was tried in the middle of what was left alone, and now also after one step.
"""

from datasets import interleave_datasets
from datasets.arrow_dataset import Dataset
from datasets.distributed import split_dataset_by_node
from loader_cases import BATCH, ROWS, Fault, padded
from loader_later import batches_of, order_of
from torch.utils.data import DataLoader, IterableDataset


def stream(epoch):
    rows = Dataset.from_list(ROWS).to_iterable_dataset(num_shards=8).shuffle(seed=0, buffer_size=8)
    rows.set_epoch(epoch)
    return rows


def loaded(rows):
    return DataLoader(rows, BATCH, collate_fn=padded)


def skipping_cancels_the_split(rank, ranks, epoch):
    """As `skip` of that version does behind `split_dataset_by_node`."""
    return loaded(stream(epoch).skip(1))


def split_twice(rank, ranks, epoch):
    return loaded(split_dataset_by_node(split_dataset_by_node(stream(epoch), rank, ranks), rank, ranks))


def interleaving_cancels_the_split(rank, ranks, epoch):
    return loaded(interleave_datasets([stream(epoch)], probabilities=[1.0], seed=1))


class SteppedInEachBatch(IterableDataset):
    """Each rank takes every n-th row of batches that have one row."""

    def __init__(self, order, rank, ranks):
        self.order, self.rank, self.ranks = order, rank, ranks

    def __iter__(self):
        for at in self.order:
            yield from [ROWS[at]][self.rank :: self.ranks]


def stepped_in_each_batch(rank, ranks, epoch):
    return loaded(SteppedInEachBatch(order_of(0, 1, epoch), rank, ranks))


def the_last_rank_gets_all(rank, ranks, epoch):
    return batches_of(order_of(0, 1, epoch) if rank == ranks - 1 else order_of(rank, ranks, epoch))


class WholeShare(IterableDataset):
    """The share of a rank, whichever worker asks."""

    def __init__(self, order):
        self.order = order

    def __iter__(self):
        yield from (ROWS[at] for at in self.order)


def each_worker_reads_the_share(rank, ranks, epoch):
    return DataLoader(WholeShare(order_of(rank, ranks, epoch)), BATCH, num_workers=2, collate_fn=padded)


class Counting:
    """Batches that say how many were handed out; at the end of an epoch the state begins it again."""

    def __init__(self, rank, ranks, epoch):
        self.place, self.done = (rank, ranks, epoch), 0

    def __iter__(self):
        batches = batches_of(order_of(*self.place))
        start = self.done if self.done < len(batches) else 0
        for number, batch in enumerate(batches[start:], start=start + 1):
            self.done = number
            yield batch

    def state_dict(self):
        return {"place": self.place, "done": self.done}


def begins_again_at_the_end(rank, ranks, epoch, state=None):
    found = Counting(rank, ranks, epoch)
    if state is not None:
        found.place, found.done = state["place"], state["done"]
    return found


def the_state_is_not_saved(rank, ranks, epoch, state=None):
    return Counting(rank, ranks, epoch)


def skipped_before_the_state_is_loaded(rank, ranks, epoch, state=None):
    trained = 0  # as the trainer has it while it makes its loaders
    return batches_of(order_of(rank, ranks, epoch))[trained:], "steps"


class StaleAfterLoading:
    """The workers that have handed out nothing yet still have the state from before the stop."""

    def __init__(self, batches, start):
        self.batches, self.start, self.since = batches, start, 0

    def __iter__(self):
        for batch in self.batches[self.start :]:
            self.since += 1
            yield batch

    def state_dict(self):
        is_fresh = not self.start or self.since >= 2
        return {"done": self.start + self.since if is_fresh else self.start}


def stale_state_soon_after_a_stop(rank, ranks, epoch, state=None):
    return StaleAfterLoading(batches_of(order_of(rank, ranks, epoch)), 0 if state is None else state["done"])


SHARED = {"source": ROWS}
FAULTS = {
    "huggingface/datasets#8568: skipping cancels the split": Fault(
        skipping_cancels_the_split, "once", "All ranks are handed out the same", SHARED
    ),
    "huggingface/datasets#6990: split twice": Fault(split_twice, "once", "left out", SHARED),
    "huggingface/datasets#7868: interleaving cancels the split": Fault(
        interleaving_cancels_the_split, "once", "All ranks are handed out the same", SHARED
    ),
    "huggingface/datasets#8079: other ranks get nothing": Fault(
        stepped_in_each_batch, "steps", "differ in size", SHARED
    ),
    "huggingface/datasets#8438: rank -1 gets all": Fault(the_last_rank_gets_all, "once", "shares overlap", SHARED),
    "huggingface/nanoVLM#203: each worker reads all": Fault(
        each_worker_reads_the_share, "once", "each worker", SHARED
    ),
    "meta-pytorch/data#1439: the end of an epoch begins it again": Fault(
        begins_again_at_the_end, "stop at the end", "begins again", SHARED
    ),
    "KempnerInstitute/KempnerForge#51: the state is not saved": Fault(
        the_state_is_not_saved, "stop", "begins again", SHARED
    ),
    "determined-ai/determined#6708: skipped before the state": Fault(
        skipped_before_the_state_is_loaded, "stop", "begins again", SHARED
    ),
    "meta-pytorch/data#1251: a stale state after a stop": Fault(
        stale_state_soon_after_a_stop, "second stop", "too early", SHARED
    ),
}
