"""The micro-batches of an update: nothing lost, the epochs in a row, an even number of sequences, and resume."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import MAX_LENGTH, make_batch, same, store
from model_cases import store_loader as loader

from packlib.batches import pack_lengths
from packlib.training import UpdateStream
from packlib.training.updates import join_packs, take_packs


def deepest():
    return int(np.diff(pack_lengths(store().lengths, MAX_LENGTH).offsets).max())


@pytest.mark.parametrize("slots", [None, 40])
def test_packs_are_taken_and_joined_again(slots):
    batch = make_batch(packs=6, max_sequences_per_pack=slots)
    pieces = [take_packs(batch, 0, 2), take_packs(batch, 2, 3), take_packs(batch, 3, 99)]
    assert [p.num_packs for p in pieces] == [2, 1, 3]
    assert same(join_packs(pieces), make_batch(packs=6))


def test_without_a_target_an_update_is_so_many_batches_in_the_loaders_order():
    twice = loader()
    expected = [*twice, *twice]
    got = [b for update in islice(UpdateStream(loader(), 3), len(expected) // 3) for b in update]
    assert len(got) > len(twice) and all(map(same, expected, got))


@settings(max_examples=10)
@given(st.integers(1, 9), st.floats(0, 60))
def test_a_target_is_met_within_the_deepest_pack_and_no_pack_is_lost(batch_size, above):
    target = deepest() + above
    updates = list(islice(UpdateStream(loader(batch_size), 1, target), 12))
    sizes = np.array([sum(b.num_sequences for b in update) for update in updates])
    assert np.abs(sizes - target).max() <= deepest()
    drift = np.cumsum(sizes) - target * np.arange(1, 13)
    assert np.abs(drift).max() <= deepest() / 2 + 1e-9, "the error does not add up"
    for update in updates:
        assert all(b.num_packs == update[0].num_packs for b in update[:-1])
        assert max(b.num_packs for b in update) <= batch_size
    epochs, one = sizes.sum() // len(store()) + 1, loader(batch_size)
    plain = [batch for _ in range(epochs) for batch in one]
    ends = np.cumsum([b.num_packs for b in plain])
    bounds = np.cumsum([0, *(sum(b.num_packs for b in update) for update in updates)])
    drawn_from = np.searchsorted(ends, bounds[1:]) - np.searchsorted(ends, bounds[:-1], "right") + 1
    assert all(map(int.__le__, map(len, updates), drawn_from.tolist())), "no more micro-batches than were loaded"
    ids = torch.cat([b.sample_ids for update in updates for b in update])
    assert torch.equal(ids, torch.cat([b.sample_ids for b in plain])[: len(ids)])


def test_loading_draws_no_random_number_of_the_model():
    before = torch.get_rng_state()
    list(islice(UpdateStream(loader(), 3), 30))
    assert torch.equal(torch.get_rng_state(), before)


def test_bad_input_gets_one_sentence():
    with pytest.raises(ValueError, match=r"^The loader has no batch\.$"):
        next(UpdateStream([], 1))
    with pytest.raises(ValueError, match=r"target must be at least 1, not 0\.5"):
        UpdateStream(loader(), 1, 0.5)
