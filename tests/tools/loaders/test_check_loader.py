"""What `check_loader` reads, counts and says: batches of all shapes, equal sequences, limits, and the command."""

import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import UserDict
from functools import partial

import accelerate.data_loader
import numpy as np
import pandas
import pytest
import torch
from loader_cases import BATCH, COUNT, ROWS, distributed, endless, masked, ours, padded, samples, skipping
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from transformers import BatchEncoding

from packlib import check_loader
from packlib.tools import watched
from packlib.tools.cli import main
from packlib.tools.loaders.batch_sequences import BatchReader
from packlib.tools.loaders.passes import Caller


def tokens_of(batch, id_column=None, look=()):
    reader = BatchReader(id_column)
    reader.look(look)
    return [sequence.tokens.tolist() for sequence in reader.sequences(batch)]


IDS = torch.tensor([[7, 8, 9, 4, 5, 0], [1, 2, 3, 6, 0, 0]])
SEQUENCES = [[7, 8, 9], [4, 5], [1, 2], [3, 6]]
PACKED = {
    "seq_lengths in lists": {"input_ids": IDS, "seq_lengths": [[3, 2], [2, 2]]},
    "cu_seqlens filled up with the last": {"input_ids": IDS, "cu_seqlens": torch.tensor([[0, 3, 5, 5], [0, 2, 4, 4]])},
    "cu_seqlens filled up with -1": {"input_ids": IDS, "cu_seqlens": torch.tensor([[0, 3, 5], [0, 2, 4]])},
    "segment_ids": {"input_ids": IDS, "segment_ids": torch.tensor([[1, 1, 1, 2, 2, 0], [1, 1, 2, 2, 0, 0]])},
    "position_ids and a mask": {
        "input_ids": IDS,
        "position_ids": torch.tensor([[0, 1, 2, 0, 1, 0], [0, 1, 0, 1, 0, 0]]),
        "attention_mask": (IDS > 0).long(),
    },
    "a numbered mask": {"input_ids": IDS, "attention_mask": torch.tensor([[1, 1, 1, 2, 2, 0], [1, 1, 2, 2, 0, 0]])},
    "a numbered mask, padded on the left": {
        "input_ids": IDS.flip(1).flip(1).roll(1, 1) * torch.tensor([[1] * 6, [1] * 6]),
        "attention_mask": torch.tensor([[0, 1, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0]]),
    },
    "flat, with bounds": {
        "input_ids": torch.tensor([[7, 8, 9, 4, 5, 1, 2, 3, 6]]),
        "cu_seq_lens_q": torch.tensor([0, 3, 5, 7, 9]),
    },
    "flat without a row": {
        "input_ids": torch.tensor([7, 8, 9, 4, 5, 1, 2, 3, 6]),
        "position_ids": torch.tensor([0, 1, 2, 0, 1, 0, 1, 0, 1]),
    },
    "rows in a list": [
        {"input_ids": [7, 8, 9, 4, 5], "seq_lengths": [3, 2]},
        {"input_ids": [1, 2, 3, 6], "seq_lengths": [2, 2]},
    ],
    "a mapping that is no dict": UserDict({"input_ids": IDS, "seq_lengths": [[3, 2], [2, 2]]}),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_rows_are_split_at_their_borders(name):
    assert tokens_of(PACKED[name]) == SEQUENCES


PLAIN = {
    "a tensor": (torch.tensor([[5, 6], [7, 8]]), [[5, 6], [7, 8]]),
    "an encoding": (BatchEncoding({"input_ids": IDS, "attention_mask": IDS > 0}), [[7, 8, 9, 4, 5], [1, 2, 3, 6]]),
    "a list of tensors": ([torch.tensor([5, 6]), torch.tensor([7])], [[5, 6], [7]]),
    "a list of lists": ([[5, 6], [7]], [[5, 6], [7]]),
    "columns without names": ([torch.tensor([[5, 6, 0], [7, 0, 0]]), torch.tensor([[1, 1, 0], [1, 0, 0]]),
                               torch.tensor([[5, 6, -100], [7, -100, -100]])], [[5, 6], [7]]),
    "inputs and targets": (({"input_ids": torch.tensor([[5, 6]])}, torch.tensor([1])), [[5, 6]]),
    "padded on the left, without a mask": ({"input_ids": torch.tensor([[0, 0, 5, 6], [1, 2, 3, 4], [0, 0, 0, 7]])},
                                           [[5, 6], [1, 2, 3, 4], [7]]),
    "a mapping in a mapping": ({"text": {"input_ids": torch.tensor([[5, 6]])}, "n": torch.tensor([2])}, [[5, 6]]),
    "another name": ({"tokens": torch.tensor([[5, 6]])}, [[5, 6]]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_rows_of_one_sequence_are_read_without_padding(name):
    batch, expected = PLAIN[name]
    assert tokens_of(batch, look=[batch]) == expected


def test_pairs_are_compared_without_their_padding():
    """As of preferences, whose columns have other widths in each batch."""

    def make(rank, ranks, epoch):
        for batch in distributed(rank, ranks, epoch):
            yield {"chosen_input_ids": batch["input_ids"], "rejected_input_ids": batch["input_ids"] + 1,
                   "chosen_attention_mask": batch["attention_mask"]}  # fmt: skip

    found = check_loader(make)
    assert found.passed and "48 different sequences" in found.reference


def test_labels_come_with_their_sequences():
    reader = BatchReader()
    for batch, expected in (
        (
            [torch.tensor([[5, 6, 0], [7, 8, 0]]), torch.tensor([[-100, 6, -100], [7, -100, -100]])],
            [[-100, 6], [7, -100]],
        ),
        ({"input_ids": torch.tensor([[5, 6]]), "completion_mask": torch.tensor([[0, 1]])}, [[-100, 6]]),
        ([{"input_ids": [5, 6], "prompt_mask": [1, 0]}], [[-100, 6]]),
        ({"input_ids": torch.tensor([[5, 6], [7, 8]]), "labels": torch.tensor([3, 1])}, [[3], [1]]),
        ([{"input_ids": [5, 6], "label": 3}, {"input_ids": [7, 8], "label": 1}], [[3], [1]]),
        ([torch.zeros(2, 3, 3), torch.tensor([3, 1])], [[3], [1]]),
    ):
        reader.look([[torch.tensor([[5, 6, 0, 0], [7, 0, 0, 0]])]])
        assert [one.labels.tolist() for one in reader.sequences(batch)] == expected


def test_padding_without_a_mask_is_seen_by_its_token():
    """Also where a row has none, and where a sequence is longer than the others of the first batches."""
    wide = torch.tensor([[5, 6, 9, 9], [7, 8, 6, 5]])
    assert tokens_of(wide, look=[wide]) == [[5, 6], [7, 8, 6, 5]]
    narrow = {"input_ids": torch.tensor([[5, 6]])}
    assert tokens_of(narrow, look=[wide]) == [[5, 6]]


def test_an_id_is_found_by_sequence_by_row_and_by_token():
    packed = {"input_ids": IDS, "seq_lengths": [[3, 2], [2, 2]]}
    for ids in (
        [[3, 1], [4, 9]],
        torch.tensor([3, 1, 4, 9, -1, -1]),
        torch.tensor([[3] * 3 + [1] * 3, [4] * 2 + [9] * 4]),
    ):
        reader = BatchReader("id")
        assert [one.name for one in reader.sequences({**packed, "id": ids})] == ["3", "1", "4", "9"]
    reader = BatchReader("id")
    rows = {"input_ids": IDS, "attention_mask": IDS > 0}
    assert [one.name for one in reader.sequences({**rows, "id": ["a", "b"]})] == ["a", "b"]
    assert [one.name for one in reader.sequences([{"input_ids": [5], "id": 8}, {"input_ids": [6], "id": 9}])] == [
        "8",
        "9",
    ]
    with pytest.raises(ValueError, match="The id column must be one of the batch's columns, input_ids"):
        reader.sequences(rows)


@pytest.mark.parametrize(
    "batch", [lambda n: torch.arange(n), lambda n: [torch.randn(3, 4)] * n, lambda n: ["a b"] * n]
)
def test_samples_that_are_no_tokens_are_counted_too(batch):
    assert len(BatchReader().sequences(batch(4))) == 4


def images(rank, ranks, epoch):
    draw = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(COUNT, 2, 3, 3, generator=draw), torch.arange(COUNT) % 7)
    sampler = DistributedSampler(data, ranks, rank)
    sampler.set_epoch(epoch)
    return DataLoader(data, BATCH, sampler=sampler)


def by_environment(epoch, state=None):
    """As torchrun has it: the share of streams that read RANK and WORLD_SIZE."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    order = np.random.default_rng(epoch).permutation(COUNT)[rank::ranks].tolist()
    return [padded([ROWS[at] for at in order[begin : begin + BATCH]])
            for begin in range((state or 0) * BATCH, len(order), BATCH)], "steps"  # fmt: skip


def by_torch_distributed(epoch, state=None):
    """Nobody tells the sampler its rank; it asks torch.distributed."""
    assert torch.distributed.is_initialized() and int(os.environ["LOCAL_RANK"]) == torch.distributed.get_rank()
    sampler = DistributedSampler(ROWS)
    sampler.set_epoch(epoch)
    return list(DataLoader(ROWS, BATCH, sampler=sampler, collate_fn=padded))[state or 0 :], "steps"


@pytest.mark.parametrize("make", [by_environment, by_torch_distributed])
def test_a_loader_that_asks_its_process_for_the_rank_is_checked(make, monkeypatch):
    monkeypatch.setenv("RANK", "kept")
    found = check_loader(make, source=ROWS)
    assert found.passed and found["later stop"].verdict == "passed", found
    assert "6 in epoch 0" in found["steps"].evidence, "two ranks have half of it each"
    assert os.environ["RANK"] == "kept" and "WORLD_SIZE" not in os.environ
    assert not torch.distributed.is_initialized()


def test_a_loader_that_asks_its_process_for_the_rank_can_be_wrong():
    found = check_loader(lambda epoch: [[row] for row in ROWS[epoch:] + ROWS[:epoch]])
    assert found["once"].verdict == "failed" and "All ranks are handed out the same" in found["once"].cause
    with pytest.raises(ValueError, match=r"raised .*has not been initialized.*A loader whose ranks talk"):
        check_loader(lambda epoch: torch.distributed.barrier() or ROWS)


FILE_OF_A_LOADER = """
from torch.utils.data import DataLoader


class Data:
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return {"input_ids": [at, at + 1, at + 2]}


def make(rank, ranks, epoch):
    data = Data()
    shown = [at for at in range(rank, 8, ranks)]
    return DataLoader(data, sampler=shown, num_workers=1, collate_fn=list, multiprocessing_context="forkserver")
"""


@pytest.mark.slow
def test_workers_that_are_no_forks_find_what_the_file_defines(tmp_path, monkeypatch, capsys):
    """Python 3.14 and macOS start them so: they import the file by its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_workers.py").write_text(FILE_OF_A_LOADER)
    assert main(["check", "--loader", "my_workers.py:make", "--ranks", "1", "--no-shuffle"]) == 0, capsys.readouterr()


def test_images_with_classes_are_checked():
    found = check_loader(images)
    assert found.passed and found["labels"].verdict == "passed"

    def exchanged(rank, ranks, epoch):
        for pictures, classes in images(rank, ranks, epoch):
            yield [pictures, classes if rank < 1 else classes.roll(1)]

    assert check_loader(exchanged)["labels"].verdict == "failed"


def test_a_sequence_that_comes_in_several_epochs_is_counted_once_among_those_with_labels():
    rows = [{"input_ids": [n, n + 1, n + 2], "labels": [-100, n + 1, n + 2]} for n in (10, 20, 30)]

    def make(rank, ranks, epoch, spoiled=()):
        shown = [{**row, "labels": [-100, -100, row["labels"][2]]} if row in spoiled else row for row in rows]
        return [[row] for row in shown[rank::ranks]]

    right = check_loader(make, ranks=1, source=rows)["labels"]
    assert right.verdict == "passed" and right.evidence.startswith("3 sequences have the labels")
    wrong = check_loader(partial(make, spoiled=rows[:2]), ranks=1, source=rows)["labels"]
    assert wrong.verdict == "failed" and wrong.evidence.startswith("2 of 3 sequences have other labels"), wrong


def test_equal_sequences_are_counted():
    """Three of one kind are right three times, and wrong two or four times."""
    rows = [*ROWS[:-2], ROWS[0], ROWS[0]]

    def of(rows):
        return lambda rank, ranks, epoch: distributed(rank, ranks, epoch, rows=rows)

    assert check_loader(of(rows), source=rows).passed
    assert check_loader(of(rows)).passed
    found = check_loader(of([*ROWS[:-2], ROWS[0], ROWS[1]]), source=rows)
    assert found["once"].verdict == "failed"
    assert "row 1 " in found["once"].evidence and "row 0 " in found["once"].evidence
    assert found.seen["epoch 0"].tolist() == [2, 2] + [1] * 44 and found.expected.tolist() == [3] + [1] * 45


def test_a_source_of_other_sequences_is_named_as_a_reason():
    others = [{"input_ids": [100 + number] * 3} for number in range(51)]
    found = check_loader(lambda *now: distributed(*now, rows=samples(51)), source=others, repeats=True)
    assert found["once"].verdict == "inconclusive" and "or the source is another one" in found["once"].evidence


def test_what_is_left_out_and_what_comes_again_is_named():
    found = check_loader(lambda *now: distributed(*now, rows=samples(51), drop_last=True), source=samples(51))
    assert found["once"].verdict == "passed" and "3 left out, fewer than a step has: row " in found["once"].evidence
    filled = check_loader(lambda *now: distributed(*now, rows=samples(51)), source=samples(51), repeats=True)
    assert filled["once"].verdict == "passed" and "1 repeated to fill the last step: row " in filled["once"].evidence
    lost = check_loader(lambda *now: distributed(*now, rows=samples(40)), source=ROWS)
    assert (
        lost["once"].verdict == "failed"
        and "8 of 48 sequences are left out: row 40 (1000 1001" in lost["once"].evidence
    )


def test_a_reference_without_a_source_is_the_union_of_two_epochs_of_one_rank():
    found = check_loader(lambda *now: distributed(*now, rows=samples(51), drop_last=True))
    assert found.passed and "one rank for all, in epochs 0 and 1: 51 different sequences" in found.reference


def test_an_endless_stream_ends_at_the_steps():
    begin = check_loader(endless, steps=4, source=ROWS)
    assert begin.passed is None and begin["once"].verdict == "inconclusive"
    assert begin.reference.endswith("Each pass was left after 4 steps: see --steps.")
    rounds = check_loader(endless, steps=20, source=ROWS)
    assert rounds.passed and "each of 48 sequences came 3 to 4 times" in rounds["once"].evidence

    def doubled(rank, ranks, epoch):
        while True:
            for batch in distributed(rank, ranks, epoch):
                yield batch
                yield batch

    found = check_loader(doubled, steps=4, source=ROWS)
    assert found["once"].verdict == "failed" and "in its first 4 steps" in found["once"].evidence


def endless_with_state(rank, ranks, epoch, state=None):
    at = [0 if state is None else state["step"]]

    def batches():
        while True:
            order = np.random.default_rng([epoch, at[0] // 6]).permutation(COUNT)[rank::ranks].tolist()
            place = at[0] % 6 * BATCH
            at[0] += 1
            yield padded([ROWS[one] for one in order[place : place + BATCH]])

    return batches(), lambda: {"step": at[0]}


def test_an_endless_stream_is_asked_about_stops():
    found = check_loader(endless_with_state, steps=15, source=ROWS)
    assert found.passed and found["stop"].verdict == found["second stop"].verdict == "passed"

    def behind(rank, ranks, epoch, state=None):
        return endless_with_state(rank, ranks, epoch, None if state is None else {"step": max(1, state["step"] - 1)})

    found = check_loader(behind, steps=15, source=ROWS)
    assert found["stop"].verdict == "failed" and "1 batch too early" in found["stop"].cause


def test_changed_tokens_need_an_id():
    for options in ({}, {"source": ROWS}):
        found = check_loader(masked, **options)
        assert found.passed is None and "--id COLUMN" in found["once"].evidence, found
    with_source = check_loader(masked, id_column="id", source=[{**row, "id": at} for at, row in enumerate(ROWS)])
    assert with_source.passed is not False and with_source["once"].verdict == "passed"
    assert with_source["tokens"].evidence == "All sequences that are handed out are in the source, by their ids."


def test_labels_that_are_masked_anew_are_not_compared():
    """As those of a masked model, which are the tokens in the places that were drawn."""

    def make(rank, ranks, epoch):
        for before, batch in zip(named_batches(rank, ranks, epoch), masked(rank, ranks, epoch), strict=True):
            drawn = before["input_ids"] != batch["input_ids"]
            yield {**batch, "labels": before["input_ids"].where(drawn, -100)}

    def named_batches(rank, ranks, epoch):
        return distributed(rank, ranks, epoch)

    assert check_loader(make, id_column="id").passed


def test_labels_of_one_side_alone_are_inconclusive():
    """As in audit; and not asked about if neither side has some, or if the loader makes them as it masks tokens."""
    bare = [{"input_ids": row["input_ids"]} for row in ROWS]

    def without(rank, ranks, epoch):
        for batch in distributed(rank, ranks, epoch):
            yield {name: batch[name] for name in ("input_ids", "attention_mask")}

    one_side = "neither labels nor a mask of the loss"
    for make, rows, verdict, words in (
        (distributed, bare, "inconclusive", f"The batches have labels, and the source has {one_side}."),
        (without, ROWS, "inconclusive", f"The source has labels, and the batches have {one_side}."),
        (without, bare, "not asked", "Neither side has labels or a mask of the loss."),
        (distributed, ROWS, "passed", ""),
    ):
        finding = check_loader(make, source=rows)["labels"]
        assert finding.verdict == verdict and words in finding.evidence

    def masks(rank, ranks, epoch):
        for batch in masked(rank, ranks, epoch):
            yield {**batch, "labels": batch["input_ids"].where(batch["input_ids"] == 1, -100)}

    named = [{**row, "id": at} for at, row in enumerate(bare)]
    assert check_loader(masks, source=named, id_column="id")["labels"].verdict == "not asked"


def test_tokens_of_a_sequence_are_never_taken_for_padding_where_borders_are_known():
    """Here sequences begin and end with the token that fills the rows."""
    rows = [{"input_ids": [0, 5 + at, 0]} for at in range(24)]

    def make(rank, ranks, epoch):
        order = np.random.default_rng(epoch).permutation(24)[rank::ranks].tolist()
        for begin in range(0, 12, 4):
            ids = [rows[at]["input_ids"] for at in order[begin : begin + 4]]
            tokens = torch.tensor([[*ids[0], *ids[1], 0, 0, 0], [*ids[2], *ids[3], 0, 0, 0]])
            yield {"input_ids": tokens, "seq_lengths": [[3, 3], [3, 3]]}

    assert check_loader(make, source=rows).passed


def test_a_loader_without_a_state_is_not_asked_about_stops():
    asked = ["stop", "later stop", "second stop", "epoch after a stop", "stop at the end"]
    for make in (distributed, lambda rank, ranks, epoch, state=None: distributed(rank, ranks, epoch)):
        found = check_loader(make)
        assert found.passed and [name for name in asked if name in found.not_asked] == asked
    assert check_loader(skipping).not_asked.keys() & set(asked) == set()


def test_a_state_is_loaded_as_it_was_saved():
    """Not as what the loader goes on to change, and pickled as in a checkpoint."""
    at = {"done": 0}

    def make(rank, ranks, epoch, state=None):
        batches = list(distributed(rank, ranks, epoch))
        at["done"] = 0 if state is None else state["done"]

        def handed_out():
            for batch in batches[at["done"] :]:
                at["done"] += 1
                yield batch

        return handed_out(), lambda: at

    assert check_loader(make)["stop"].verdict == "passed"
    with pytest.raises(ValueError, match=r"the state of make.* cannot be pickled"):
        check_loader(lambda rank, ranks, epoch, state=None: (distributed(rank, ranks, epoch), lambda: lambda: 0))


def test_other_numbers_of_ranks_are_asked_about_where_they_are_promised():
    def elastic(rank, ranks, epoch, state=None):
        """A position in one order for all; each step takes the same number of samples whatever the ranks."""
        order = np.random.default_rng(epoch).permutation(COUNT)
        done = [0 if state is None else state]

        def batches():
            while done[0] < COUNT:
                step = order[done[0] : done[0] + 12][rank::ranks].tolist()
                done[0] += 12
                yield padded([ROWS[at] for at in step])

        return batches(), lambda: done[0]

    found = check_loader(elastic, other_ranks=[1, 3, 4])
    assert found.passed and "goes on with 3 is handed out the rest" in found["on 3 ranks"].evidence
    fixed = check_loader(ours, other_ranks=[3])
    assert fixed["on 3 ranks"].verdict == "failed"
    assert "The state is of a loader with ranks 2; this one has 3 (loader_cases.py" in fixed["on 3 ranks"].evidence


def test_repeats_that_are_meant_are_meant_on_other_numbers_of_ranks_too():
    rows = samples(64)

    def make(rank, ranks, epoch):
        return distributed(rank, ranks, epoch, rows=rows)

    assert check_loader(make, source=rows, other_ranks=[5])["on 5 ranks"].verdict == "failed"
    found = check_loader(make, source=rows, other_ranks=[5], repeats=True)["on 5 ranks"]
    assert found.verdict == "passed"
    assert "epoch 0: 1 repeated to fill the last step" in found.evidence


def test_the_generators_of_the_caller_stay_as_they_are():
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.rand(1), np.random.random()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    check_loader(skipping)
    assert (torch.rand(1), np.random.random()) == before  # noqa: NPY002


def test_what_is_found_does_not_hang_on_the_generators_of_the_caller():
    def shuffled(rank, ranks, epoch, state=None):
        return list(DataLoader(ROWS, BATCH, shuffle=True, collate_fn=padded))[state or 0 :], "steps"

    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(repr(check_loader(shuffled, ranks=1)))
    assert found[0] == found[1]


def hung_at(step):
    def make(rank, ranks, epoch, state=None):
        for at, batch in enumerate(distributed(rank, ranks, epoch)):
            if at == step:
                time.sleep(60)
            yield batch

    return make


class HangingData:
    def __len__(self):
        return COUNT

    def __getitem__(self, at):
        if at == 9:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        return ROWS[at]


def hung_worker(rank, ranks, epoch):
    return DataLoader(HangingData(), BATCH, num_workers=2, collate_fn=padded)


@pytest.mark.parametrize("make", [hung_at(2), hung_worker])
def test_what_hangs_ends_at_the_time_limit_in_a_sentence(make):
    started = time.monotonic()
    with pytest.raises(
        TimeoutError, match=r"^the batch at step 2 of make\(0, 1, 0\) did not come within 2 seconds: a"
    ):
        check_loader(make, time_limit=2)
    assert time.monotonic() - started < 10 and not multiprocessing.active_children()
    assert check_loader(distributed).passed, "the next check is as before"


def test_what_hangs_after_a_stop_is_a_failure():
    def make(rank, ranks, epoch, state=None):
        if state is not None:
            time.sleep(60)
        return distributed(rank, ranks, epoch), "steps"

    found = check_loader(make, time_limit=1)
    assert found["stop"].verdict == "failed" and "did not return within 1 seconds" in found["stop"].evidence


@pytest.mark.parametrize("split", [False, True])
def test_a_loader_that_rank_0_reads_for_all_is_checked_on_one_rank(split):
    """In one process, each rank would be handed out what is meant for all."""

    def dispatched(rank, ranks, epoch):
        loader = accelerate.data_loader.prepare_data_loader(
            DataLoader(ROWS, 4, shuffle=True, collate_fn=padded), num_processes=ranks, process_index=rank,
            use_seedable_sampler=True, data_seed=0, dispatch_batches=True, split_batches=split, put_on_device=True,
            device=torch.device("cpu"),
        )  # fmt: skip
        loader.set_epoch(epoch)
        return loader

    assert check_loader(dispatched, ranks=1, source=ROWS).passed
    with pytest.raises(ValueError, match=r"make\(0, 2, 0\) returned .* dispatch_batches=True.*--ranks 1\)\.$"):
        check_loader(dispatched, ranks=2)


def test_bad_input_gets_one_sentence():
    for match, call in {
        "ranks must be at least 1, not 0": lambda: check_loader(distributed, ranks=0),
        "steps must be at least 2, not 1": lambda: check_loader(distributed, steps=1),
        "time_limit must be above 0, not 0": lambda: check_loader(distributed, time_limit=0),
        "returned a loader that hands out nothing": lambda: check_loader(lambda *_: []),
        r"raised ZeroDivisionError: division by zero \(test_check_loader.py, line \d+\)\.$": lambda: check_loader(
            lambda *_: 1 / 0),
        r"make\(0, 1, 0\) raised TypeError: .* must return an iterable of batches": lambda: check_loader(lambda *_: 7),
        r"the batch at step 0 of make\(0, 1, 0\) raised TypeError: A batch must be a tensor, a": lambda: check_loader(
            lambda *_: [object()]),
        "source must hold at least one sequence": lambda: check_loader(distributed, source=[]),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match=r"^source must not be a pandas frame: pass datasets\.Dataset\.from"):
        check_loader(distributed, source=pandas.DataFrame(ROWS))
    with pytest.raises(TypeError, match="make must be a function of rank, ranks, epoch and state, not 7"):
        check_loader(7)
    with pytest.raises(TypeError, match="shuffled must be True or False"):
        check_loader(distributed, shuffled=1)


_FILE = """
from torch.utils.data import DataLoader, DistributedSampler
rows = [{"input_ids": [n, n + 1, n + 2]} for n in range(24)]

def right(rank, ranks, epoch):
    print("prints are no answer")
    sampler = DistributedSampler(rows, ranks, rank)
    sampler.set_epoch(epoch)
    return DataLoader(rows, batch_size=4, sampler=sampler, collate_fn=list)

def forgotten(rank, ranks, epoch):
    return DataLoader(rows, batch_size=4, sampler=DistributedSampler(rows, ranks, rank), collate_fn=list)

def held(rank, ranks, epoch):
    import queue, threading, time
    threading.Thread(target=time.sleep, args=(300,)).start()
    yield [rows[0]]
    yield queue.Queue().get()
"""


def called_here(command, function, *arguments, **options):
    """Call what `watched` calls, without the process of its own that loads torch again."""
    module, _, name = function.rpartition(":")
    return getattr(importlib.import_module(module), name)(*arguments, tell=Caller.tell, **options)


@pytest.fixture
def my_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_data.py").write_text(_FILE)


def test_the_command_checks_in_a_process_of_its_own(my_data, tmp_path, capsys):
    lines = "\n".join(json.dumps({"input_ids": [n, n + 1, n + 2]}) for n in range(24))
    (tmp_path / "tokens.jsonl").write_text(lines)
    assert main(["check", "--loader", "my_data.py:right", "--source", "tokens.jsonl", "--json", "--ranks", "3"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["passed"] is True and json.loads(out)["seen"]["epoch 1"] == {"never": [], "too often": []}
    assert main(["check", "--loader", "my_data.py:right", "--ranks", "0"]) == 2
    assert "ranks must be" in capsys.readouterr().err


def test_the_command_says_by_its_exit_code_what_was_found(my_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(watched, "watched", called_here)
    monkeypatch.setattr(Caller, "tell", staticmethod(Caller.tell))  # the command puts another one there
    assert main(["check", "--loader", "my_data.py:forgotten", "--log", "log.jsonl"]) == 1
    assert "order: failed" in capsys.readouterr().out
    logged = json.loads((tmp_path / "log.jsonl").read_text())
    assert logged["target"] == "my_data.py:forgotten" and logged["passed"] is False
    assert main(["check", "--loader", "my_data.py:forgotten", "--no-shuffle"]) == 0
    assert main(["check", "--loader", "my_data.py:right", "--steps", "2"]) == 3
    capsys.readouterr()
    for arguments, words in {
        "--loader my_data.py:none": "has no 'none'",
        "--loader my_data.py:right --reduction token": "--loader goes without --reduction",
        "--loader my_data.py:right --keep 60": "--loader goes without --keep",
        "my_data.py:right --steps 3": "--steps takes a loader",
        "--loader my_data.py:right --ranks 0": "ranks must be",
        "--loader my_data.py:right --steps 0": "steps must be",
        "--loader my_data.py:right --time-limit 0": "--time-limit must be above 0",
        "my_data.py:right --ranks 0": "--ranks takes a loader",
        "": "must be MODULE:FUNCTION or a folder with a model, or --loader",
    }.items():
        assert main(["check", *arguments.split()]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_thread_that_hangs_does_not_hold_the_command(tmp_path):
    (tmp_path / "my_data.py").write_text(_FILE)
    run = [sys.executable, "-m", "packlib", "check", "--loader", "my_data.py:held", "--time-limit", "1"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert done.stderr.startswith("packlib: the batch at step 1 of make(0, 1, 0) did not come within 1 seconds")


def test_it_prints_well():
    found = check_loader(lambda rank, ranks, epoch: distributed(rank, ranks, 0), source=ROWS)
    said = repr(found)
    assert said.startswith("Compared with the source: 48 sequences") and "order: failed." in said
    assert said.endswith("Not asked: stop, later stop, second stop, epoch after a stop, stop at the end.")
    assert "<td" in found._repr_html_() and found["order"].remedy.startswith("Call set_epoch")
