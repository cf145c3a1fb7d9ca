"""Loading packs: every sample once an epoch, the same whoever loads, and going on in mid-epoch."""

import json

import numpy as np
import pytest
import torch
from model_cases import MAX_LENGTH, masking, store

from packlib.batches import PackDataset, PackingCollator, PackSampler, pack_lengths, pack_loader


def loader(batch_size=8, **options):
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    return pack_loader(store(), packs, PackingCollator(MAX_LENGTH, masking()), batch_size, seed=3, **options)


def same(a, b):
    return all(torch.equal(torch.as_tensor(a[name]), torch.as_tensor(b[name])) for name in a)


def test_every_sample_comes_once_an_epoch_in_another_order():
    batches = loader()
    orders = []
    for epoch in range(2):
        assert batches.epoch == epoch
        seen = [batch.sample_ids for batch in batches]
        assert len(seen) == len(batches)
        orders.append(torch.cat(seen))
        assert orders[-1].sort().values.tolist() == list(range(len(store())))
    assert orders[0].tolist() != orders[1].tolist()


def test_without_shuffling_the_packs_come_in_order():
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    batches = pack_loader(store(), packs, batch_size=5, shuffle=False)
    assert torch.cat([batch.sample_ids for batch in batches]).tolist() == packs.sample_ids.tolist()
    dropped = pack_loader(store(), packs, batch_size=5, shuffle=False, drop_last=True)
    assert [b.num_packs for b in dropped] == [5] * (len(packs) // 5) and len(packs) % 5


def test_masks_change_with_the_epoch_and_not_with_the_batch_size():
    def labels(batches):
        out = {}
        for batch in batches:
            rows = batch.labels[batch.segment_ids > 0].split(batch.lengths.tolist())
            out |= dict(zip(batch.sample_ids.tolist(), (row.tolist() for row in rows), strict=True))
        return out

    small, large = loader(3), loader(16)
    first = labels(small)
    assert first == labels(large)
    assert first != (second := labels(small))
    assert second == labels(large)


@pytest.mark.slow
def test_workers_change_nothing_even_where_they_live_on():
    plain, workers = loader(), loader(num_workers=2, persistent_workers=True)
    for _ in range(2):
        for a, b in zip(plain, workers, strict=True):
            assert same(a, b)


@pytest.mark.parametrize("done", [0, 1, 5, "all"])
def test_a_loader_resumes_identically(done):
    straight, broken = loader(), loader()
    done = len(straight) if done == "all" else done
    iterator = iter(broken)
    for _ in range(done):
        next(iterator)
    state = json.loads(json.dumps(broken.state_dict()))
    resumed = loader()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    expected = [*straight, *straight]
    got = [*resumed, *resumed]
    assert len(got) == 2 * len(straight) - done % len(straight) or done == len(straight)
    for a, b in zip(expected[done:], got, strict=False):
        assert same(a, b)


@pytest.mark.slow
def test_what_workers_prefetched_does_not_count():
    broken, straight = loader(num_workers=2, prefetch_factor=4), list(loader())
    iterator = iter(broken)
    next(iterator), next(iterator)
    resumed = loader()
    resumed.load_state_dict(broken.state_dict())
    rest = list(resumed)
    assert len(rest) == len(straight) - 2 and all(map(same, straight[2:], rest))


def test_a_pass_that_breaks_off_starts_the_epoch_again():
    batches = loader()
    first = next(iter(batches))
    assert same(next(iter(batches)), first) and batches.epoch == 0


def test_any_map_style_data_set_will_do():
    plain = [store()[i] for i in range(len(store()))]
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    for a, b in zip(
        loader(), pack_loader(plain, packs, PackingCollator(MAX_LENGTH, masking()), 8, seed=3), strict=True
    ):
        assert same(a, b)
    lists = [{"input_ids": row["input_ids"].tolist()} for row in plain]  # no token types, no labels
    batch = next(iter(pack_loader(lists, packs, shuffle=False)))
    assert (batch.sequence_labels == -100).all() and not batch.token_type_ids.any()


def test_bad_input_gets_one_sentence():
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    state = loader().state_dict()
    for match, call in {
        r"The packs hold sample \d+; the data set has 5": lambda: PackDataset(store().take(range(5)), packs),
        f"packs of 50 tokens; the fullest pack holds {MAX_LENGTH}": lambda: pack_loader(
            store(), packs, PackingCollator(50)
        ),
        "batch_size must be at least 1": lambda: loader(0),
        "fill no batch of 1000": lambda: loader(1000, drop_last=True),
        "seed must be at least 0": lambda: PackSampler(3, 2, seed=-1),
        "state is of a loader with batch_size 8; this one has 4": lambda: loader(4).load_state_dict(state),
        "batches_done must be from 0": lambda: loader().load_state_dict({**state, "batches_done": 999}),
        "epoch must be at least 0": lambda: PackDataset(store(), packs).set_epoch(-1),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(IndexError, match="no pack"):
        PackDataset(store(), packs)[len(packs)]


def test_depth_one_leaves_sequences_unpacked():
    packs = pack_lengths(store().lengths, MAX_LENGTH, "lpfhp", 1)
    assert np.diff(packs.offsets).tolist() == [1] * len(store())
