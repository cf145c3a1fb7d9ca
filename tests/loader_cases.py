"""Small loaders for the tests of `check_loader`: right ones, and faults after public reports.

The faults of this file were written with the code of the check; those of `loader_later.py` after it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import skip_first_batches
from accelerate.data_loader import prepare_data_loader
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info
from transformers import DataCollatorWithFlattening

from packlib.batches import TokenStore, pack_lengths, pack_loader
from packlib.tools.rows import PackedStream, pack_dataset

COUNT, BATCH = 48, 4


def samples(count: int = COUNT) -> list[dict[str, list[int]]]:
    """Sequences of different tokens and lengths, with labels on the second half of each."""
    made = []
    for at in range(count):
        ids = [200 + at * 20 + place for place in range(3 + at * 7 % 11)]
        made.append({"input_ids": ids, "labels": [-100] * (len(ids) // 2) + ids[len(ids) // 2 :]})
    return made


ROWS = samples()


def padded(rows: list[dict]) -> dict[str, torch.Tensor]:
    """A batch of rows padded to the longest."""
    width = max(len(row["input_ids"]) for row in rows)

    def filled(name: str, fill: int) -> torch.Tensor:
        return torch.tensor([row[name] + [fill] * (width - len(row[name])) for row in rows])

    mask = [[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows]
    return {
        "input_ids": filled("input_ids", 0),
        "labels": filled("labels", -100),
        "attention_mask": torch.tensor(mask),
    }


class Fault(NamedTuple):
    """A loader with a fault, and how the check names it.

    Attributes:
        make: the function that is checked.
        question: what fails.
        cause: words that the cause must have.
        options: of `check_loader`.
    """

    make: Callable[..., Any]
    question: str
    cause: str
    options: dict[str, Any]


# What is right


def distributed(rank, ranks, epoch, rows=ROWS, **options):
    sampler = DistributedSampler(rows, ranks, rank, drop_last=options.get("drop_last", False))
    sampler.set_epoch(epoch)
    return DataLoader(rows, BATCH, sampler=sampler, collate_fn=padded, **options)


def one_process(rank, ranks, epoch):
    generator = torch.Generator().manual_seed(epoch)
    return DataLoader(ROWS, BATCH, shuffle=True, generator=generator, collate_fn=padded)


def skipping(rank, ranks, epoch, state=None):
    """As loops do that count their steps."""
    batches = list(distributed(rank, ranks, epoch))
    return batches[state or 0 :], "steps"


def by_accelerate(rank, ranks, epoch, state=None, rows=ROWS):
    loader = DataLoader(rows, BATCH, shuffle=True, collate_fn=padded)
    made = prepare_data_loader(loader, num_processes=ranks, process_index=rank, use_seedable_sampler=True, data_seed=3)
    made.set_epoch(epoch)
    return skip_first_batches(made, state or 0), "steps"


def by_trainer(rank, ranks, epoch, state=None):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments("out", per_device_train_batch_size=BATCH, use_cpu=True, report_to=[], seed=5)
    arguments.remove_unused_columns = False
    loader = Trainer(torch.nn.Linear(1, 1), arguments, padded, ROWS).get_train_dataloader()
    loader.set_epoch(epoch)
    return skip_first_batches(loader, state or 0), "steps"


class Stream(IterableDataset):
    """Samples shuffled by epoch and shared by ranks and workers."""

    def __init__(self, rank, ranks, epoch, rows=ROWS, share=True, dropped=0):
        self.rank, self.ranks, self.epoch, self.rows, self.share = rank, ranks, epoch, rows, share
        self.dropped = dropped

    def __iter__(self) -> Iterator[dict]:
        order = np.random.default_rng(self.epoch).permutation(len(self.rows))[self.rank :: self.ranks]
        worker = get_worker_info()
        if worker is not None and self.share:
            order = order[worker.id :: worker.num_workers]
        for at in order[: len(order) - self.dropped].tolist():
            yield self.rows[at]


def stream(rank, ranks, epoch, **options):
    workers = options.pop("num_workers", 0)
    return DataLoader(Stream(rank, ranks, epoch, **options), BATCH, num_workers=workers, collate_fn=padded)


def split_by_node(rank, ranks, epoch, state=None, workers=0):
    rows = Dataset.from_list(ROWS).to_iterable_dataset(num_shards=8).shuffle(seed=1, buffer_size=1)
    mine = split_dataset_by_node(rows, rank, ranks)
    mine.set_epoch(epoch)
    if state is not None:
        mine.load_state_dict(state)
    return DataLoader(mine, BATCH, collate_fn=padded, num_workers=workers), mine.state_dict


def ours(rank, ranks, epoch, state=None, **options):
    store = TokenStore.from_samples(ROWS)
    loader = pack_loader(store, pack_lengths(store.lengths, 16), batch_size=2, ranks=ranks, rank=rank, **options)
    loader.set_epoch(epoch)
    if state is not None:
        loader.load_state_dict(state)
    return loader


def ours_of_rows(rank, ranks, epoch, state=None):
    loader = pack_loader(list(pack_dataset(ROWS, 32)), batch_size=2, ranks=ranks, rank=rank)
    loader.set_epoch(epoch)
    if state is not None:
        loader.load_state_dict(state)
    return loader


def packed_stream(rank, ranks, epoch, state=None):
    rows = Dataset.from_list(ROWS).to_iterable_dataset(num_shards=8).shuffle(seed=1, buffer_size=1)
    packs = PackedStream(split_dataset_by_node(rows, rank, ranks), 32)
    packs.set_epoch(epoch)
    if state is not None:
        packs.load_state_dict(state)
    return ([pack] for pack in packs), packs.state_dict


def flattened(rank, ranks, epoch):
    return DataLoader(
        ROWS, BATCH, sampler=distributed(rank, ranks, epoch).sampler, collate_fn=DataCollatorWithFlattening()
    )


def by_trl(rank, ranks, epoch):
    from trl import pack_dataset as trl_pack
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling as TrlCollator

    packed = trl_pack(Dataset.from_list([{"input_ids": row["input_ids"]} for row in ROWS]), 32, "bfd")
    collate = TrlCollator(pad_token_id=0, padding_free=True)
    sampler = DistributedSampler(packed, ranks, rank, drop_last=True)
    sampler.set_epoch(epoch)
    return DataLoader(packed, 2, sampler=sampler, collate_fn=collate)


def endless(rank, ranks, epoch):
    at = 0
    while True:
        yield from distributed(rank, ranks, 100 * epoch + at)
        at += 1


def masked(rank, ranks, epoch):
    """Tokens are masked anew in each epoch, and a column names the samples."""
    draw = np.random.default_rng([epoch, rank])
    for batch in DataLoader(
        [{**row, "id": at} for at, row in enumerate(ROWS)],
        BATCH,
        sampler=distributed(rank, ranks, epoch).sampler,
        collate_fn=lambda rows: {**padded(rows), "id": torch.tensor([row["id"] for row in rows])},
    ):
        masks = torch.from_numpy(draw.random(batch["input_ids"].shape) < 0.3)
        yield {**batch, "input_ids": batch["input_ids"].masked_fill(masks, 103)}


class Positions(torch.utils.data.Sampler):
    """A sampler with a state, as those of StatefulDataLoader."""

    def __init__(self, rank, ranks, epoch):
        self.order = np.random.default_rng(epoch).permutation(COUNT)[rank::ranks].tolist()
        self.done = 0

    def __iter__(self):
        while self.done < len(self.order):
            self.done += 1
            yield self.order[self.done - 1]

    def state_dict(self):
        return {"done": self.done}


def with_sampler_state(rank, ranks, epoch, state=None):
    sampler = Positions(rank, ranks, epoch)
    sampler.done = 0 if state is None else state["done"]
    return DataLoader(ROWS, BATCH, sampler=sampler, collate_fn=padded), sampler.state_dict


def by_stateful_loader(rank, ranks, epoch, state=None, workers=0):
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    sampler = StatefulDistributedSampler(ROWS, ranks, rank)
    sampler.set_epoch(epoch)
    loader = StatefulDataLoader(ROWS, BATCH, sampler=sampler, collate_fn=padded, num_workers=workers)
    if state is not None:
        loader.load_state_dict(state)
    return loader


RIGHT = {
    "torch: DistributedSampler": (distributed, {}),
    "torch: drop_last of an uneven set": (partial(distributed, rows=samples(51), drop_last=True), {}),
    "torch: one process": (one_process, {"ranks": 1}),
    "torch: batches skipped by count": (skipping, {}),
    "torch: a stream shared by two workers": (partial(stream, num_workers=2), {}),
    "torch: a sampler with a state": (with_sampler_state, {}),
    "accelerate: seedable sampler": (by_accelerate, {}),
    "transformers: Trainer": (by_trainer, {"ranks": 1}),
    "transformers: padding-free": (flattened, {"source": ROWS}),
    "trl: packed rows": (by_trl, {}),
    "datasets: split_dataset_by_node": (split_by_node, {}),
    "datasets: two workers, no stop": (lambda rank, ranks, epoch: split_by_node(rank, ranks, epoch, workers=2)[0], {}),
    "packlib: pack_loader": (ours, {"source": ROWS}),
    "packlib: pack_loader of rows": (ours_of_rows, {"source": ROWS}),
    "packlib: PackedStream": (packed_stream, {"ranks": 1}),  # on several ranks it is even by collectives
    "masked anew, with ids": (masked, {"id_column": "id"}),
    "torchdata: StatefulDataLoader": (by_stateful_loader, {}),
    "torchdata: StatefulDataLoader, two workers": (partial(by_stateful_loader, workers=2), {}),
    "an endless stream": (endless, {"steps": 20, "source": ROWS}),
}


# Faults


def epoch_never_set(rank, ranks, epoch):
    return DataLoader(ROWS, BATCH, sampler=DistributedSampler(ROWS, ranks, rank), collate_fn=padded)


def share_for_each(rank, ranks, epoch):
    rows = samples(50)
    mine = rows[rank * 26 : (rank + 1) * 26]
    generator = torch.Generator().manual_seed(epoch)
    return DataLoader(mine, BATCH, shuffle=True, generator=generator, collate_fn=padded, drop_last=False)


def shuffled_and_skipped(rank, ranks, epoch, state=None):
    """The order hangs on the generator of the process, which a new process does not have in the second epoch."""
    batches = list(DataLoader(ROWS, BATCH, shuffle=True, collate_fn=padded))
    return batches[state or 0 :], "steps"


def no_share(rank, ranks, epoch):
    return one_process(rank, ranks, epoch)


def seed_of_the_rank(rank, ranks, epoch):
    order = np.random.default_rng([epoch, rank]).permutation(COUNT)[rank::ranks]
    return DataLoader(ROWS, BATCH, sampler=order.tolist(), collate_fn=padded)


def state_ignored(rank, ranks, epoch, state=None):
    return distributed(rank, ranks, epoch), "steps"


kept: dict[int, Any] = {}


def skipped_each_epoch(rank, ranks, epoch, state=None):
    """The loop keeps the loader that skips."""
    if state is not None:
        kept[rank] = state
    elif epoch == 0:
        kept[rank] = 0
    return list(distributed(rank, ranks, epoch))[kept[rank] :], "steps"


def epoch_reset(rank, ranks, epoch, state=None):
    """What skips makes a new loader, whose epoch is 0."""
    if state is None:
        return distributed(rank, ranks, epoch), "steps"
    return list(distributed(rank, ranks, 0))[state:], "steps"


class CountsFromZero:
    """A loader whose count begins at 0 after a stop."""

    def __init__(self, batches, skip=0):
        self.batches, self.skip, self.done = batches, skip, 0

    def __iter__(self):
        for batch in self.batches[self.skip :]:
            self.done += 1
            yield batch

    def state_dict(self):
        return {"done": self.done}


def second_stop_forgets(rank, ranks, epoch, state=None):
    return CountsFromZero(list(distributed(rank, ranks, epoch)), 0 if state is None else state["done"])


class KeepsItsState:
    """A loader of several epochs; what it has loaded stays where workers persist."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks, self.start, self.done, self.epoch = rank, ranks, 0, 0, 0

    def __iter__(self):
        self.done = self.start
        for batch in list(distributed(self.rank, self.ranks, self.epoch))[self.start :]:
            self.done += 1
            yield batch

    def state_dict(self):
        return {"done": self.done}


def shortened_epochs(rank, ranks, epoch, state=None):
    if state is not None or epoch == 0:
        kept[rank] = KeepsItsState(rank, ranks)
    if state is not None:
        kept[rank].start = state["done"]
    kept[rank].epoch = epoch
    return kept[rank]


class CountsItsEpochs(KeepsItsState):
    """A loader that knows the epoch by the passes that ended."""

    def __iter__(self):
        yield from super().__iter__()
        self.start = 0
        self.epoch += 1


def permutation_twice(rank, ranks, epoch, state=None):
    """The loop finishes the epoch of the stop with another loader, and its own has not seen that it ended."""
    if epoch == 0:
        kept[rank] = CountsItsEpochs(rank, ranks)
    if state is not None:
        kept[rank] = CountsItsEpochs(rank, ranks)
        kept[rank].epoch = epoch
        return list(distributed(rank, ranks, epoch))[state["done"] :]
    return kept[rank]


def rest_of_each_worker(rank, ranks, epoch):
    mine = Stream(rank, ranks, epoch, samples(66))
    return DataLoader(mine, BATCH, num_workers=3, collate_fn=padded, drop_last=True)


FAULTS = {
    "pytorch/pytorch#31771: set_epoch is not called": Fault(epoch_never_set, "order", "set_epoch is not called", {}),
    "roboflow/rf-detr#1507: filled up by repeating": Fault(
        partial(distributed, rows=samples(51)), "once", "filled up by repeating", {"source": samples(51)}
    ),
    "huggingface/datasets#3423: a stream doubled by workers": Fault(
        partial(stream, num_workers=2, share=False), "once", "each worker of a stream reads all", {}
    ),
    "mlcommons/storage#455: shares of different sizes": Fault(share_for_each, "steps", "differ in size", {}),
    "huggingface/accelerate#2016: resumed as if in the first epoch": Fault(
        shuffled_and_skipped, "later stop", "order is that of epoch 0", {"ranks": 1}
    ),
    "pytorch/pytorch#47576: no sampler shares": Fault(no_share, "once", "All ranks are handed out the same", {}),
    "yangkky/distributed_tutorial#5: ranks shuffle differently": Fault(
        seed_of_the_rank, "once", "seed of its own", {}
    ),
    "vllm-project/speculators#603: nothing is skipped": Fault(state_ignored, "stop", "The epoch begins again", {}),
    "allenai/open-instruct#681: skipped in each epoch": Fault(
        skipped_each_epoch, "epoch after a stop", "skipped in the next epoch too", {}
    ),
    "huggingface/accelerate#4071: the epoch is reset": Fault(
        epoch_reset, "later stop", "order is that of epoch 0", {}
    ),
    "KempnerInstitute/KempnerForge#57: the second stop": Fault(second_stop_forgets, "second stop", "too early", {}),
    "huggingface/datasets#7447: epochs shortened after a stop": Fault(
        shortened_epochs, "epoch after a stop", "skipped in the next epoch too", {}
    ),
    "huggingface/accelerate#4233: one permutation twice": Fault(
        permutation_twice, "epoch after a stop", "repeats the order", {}
    ),
    "snowflakedb/ArcticTraining#155: a rest of each worker": Fault(
        rest_of_each_worker, "once", "More is left out", {"source": samples(66)}
    ),
}
