"""Loading batches by tokens: a share for each rank, another order each epoch, padding to shapes, and going on."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import make_model, masking, same, store

from packlib import check_loader
from packlib.batches import PackingCollator, TokenStore, batch_by_tokens, collate, pack_loader
from packlib.batches.samplers import TokenBatchSampler
from packlib.training.objective import PretrainingObjective


def batches_of(every=1, order="ascending", budget=256, count=None):
    """Batches by tokens of the first `count` texts of the store, or of all."""
    lengths = store().lengths if count is None else store().lengths[:count]
    return batch_by_tokens(lengths, budget, order=order, same_shape_every=every)


def loader(rank=0, ranks=1, every=1, order="ascending", **options):
    """The loader of one of several ranks for batches by tokens of the whole store."""
    return pack_loader(store(), batches_of(every, order), rank=rank, ranks=ranks, seed=4, **options)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 3))
def test_ranks_get_equal_steps_and_every_sample_comes_once(count, ranks, every, drop_last, shuffle, epoch):
    lengths = np.random.default_rng(count).integers(1, 12, count)
    try:
        made = batch_by_tokens(lengths, 24, order="ascending", same_shape_every=every)
        each = [TokenBatchSampler(made, 5, shuffle, drop_last, ranks, rank) for rank in range(ranks)]
    except ValueError as error:
        words = "as there are samples", "leave out", "must divide same_shape_every", "fill no step", "without a sample"
        assert any(word in str(error) for word in words)
        return
    for one in each:
        one.set_epoch(epoch)
    steps = list(zip(*each, strict=True))
    assert len(steps) == len(each[0]) > 0
    shapes = [[shape for ((at, shape),) in step if at == epoch] for step in steps]
    seen = [sample for step in shapes for shape in step for sample in shape.samples.tolist()]
    rest = len(made) % ranks
    assert len(seen) == len(set(seen)) and all(len(step) == ranks for step in shapes)
    assert len(steps) == len(made) // ranks + (rest > 0 and not drop_last)
    if not (rest and drop_last):
        assert sorted(seen) == list(range(count))
    for step in shapes:
        for shape in step:
            assert 1 <= len(shape.samples) <= shape.rows and lengths[shape.samples].max() <= shape.width
            assert lengths[shape.samples].sum() <= 24
        if every > 1:
            assert len({(shape.rows, shape.width) for shape in step}) == 1


def test_micro_batches_of_one_shape_stay_together_in_each_epoch():
    """Four in turn for an update of two ranks."""
    each = [loader(rank, 2, every=4) for rank in range(2)]
    for _ in range(2):
        steps = [tuple(tuple(batch.input_ids.shape) for batch in step) for step in zip(*each, strict=True)]
        assert all(first == second for first, second in steps)
        updates = [set(steps[at : at + 2]) for at in range(0, len(steps), 2)]
        assert all(len(update) == 1 for update in updates)


def test_each_epoch_has_the_same_batches_in_another_order():
    made = loader()
    first, second = ([tuple(batch.sample_ids.tolist()) for batch in made] for _ in range(2))
    assert first != second and sorted(first) == sorted(second)
    assert [list(batch) for batch in first] != [batch.tolist() for batch in batches_of()]
    plain = [batch.sample_ids.tolist() for batch in loader(shuffle=False)]
    assert plain == [batch.tolist() for batch in batches_of()]


def test_what_drop_last_leaves_out_is_another_in_each_epoch():
    left = []
    made = [loader(rank, 4, order="dataset", drop_last=True) for rank in range(4)]
    assert len(batches_of(order="dataset")) % 4
    for _ in range(3):
        seen = {sample for one in made for batch in one for sample in batch.sample_ids.tolist()}
        left.append(frozenset(range(len(store()))) - seen)
    assert all(left) and len(set(left)) == 3


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_loader_pads_masks_and_goes_on(workers):
    def masked():
        return loader(1, 2, every=2, collator=PackingCollator(masking=masking()), num_workers=workers)

    straight, stopped = masked(), masked()
    expected = [*straight, *straight]
    for batch in expected:
        assert batch.input_ids.shape[1] == batch.lengths.max() or batch.input_ids.shape[1] in batches_of(2).widths
        assert batch.num_sequences == batch.num_packs or batch.num_packs in batches_of(2).rows
    iterator = iter(stopped)
    for _ in range(4):
        next(iterator)
    resumed = masked()
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    got = [*resumed, *resumed]
    assert len(got) == len(expected) - 4 and all(map(same, got, expected[4:]))


def test_blank_rows_change_no_loss():
    """Of samples that no multiple of 7 are, some of the last 7 batches have one."""
    made = pack_loader(store(), batches_of(7, "descending"), PackingCollator(masking=masking()))
    blank = [batch for batch in made if batch.num_packs > batch.num_sequences]
    assert len(blank) == -len(store()) % 7 > 0
    model = make_model("bert").eval()
    for batch in blank[:2]:
        rows = batch.num_sequences
        assert (batch.segment_ids[rows:] == 0).all() and (batch.segment_ids[:rows] > 0).any(1).all()
        names = "input_ids", "segment_ids", "position_ids", "token_type_ids", "labels"
        alone = {name: batch[name][:rows] for name in names}
        alone["sequence_labels"] = batch.sequence_labels[:rows]
        with torch.no_grad():
            assert torch.allclose(model(**batch).loss, model(**type(batch)(alone)).loss, atol=1e-12)


def in_updates_of(every, count, **options):
    """Make a loader of `count` samples, one in each batch, for a pipeline whose update takes `every` batches."""
    made = batch_by_tokens(store().lengths[:count], 999, max_batch=1, same_shape_every=every, blank_batches=True)
    return pack_loader(store().take(range(count)), made, PackingCollator(masking=masking()), seed=4, **options)


@pytest.mark.parametrize(("count", "every"), [(9, 4), (3, 4), (8, 4), (1, 2), (7, 6)])
def test_the_last_update_of_a_pipeline_is_filled_up_with_blank_batches(count, every):
    """Each rank and each update has the same number of batches, and the batches of an update have one shape."""
    for ranks in [ranks for ranks in (1, 2) if every % ranks == 0]:
        each = [in_updates_of(every, count, rank=rank, ranks=ranks) for rank in range(ranks)]
        for _ in range(2):  # epochs
            steps = list(zip(*each, strict=True))
            assert len(steps) * ranks == -(-count // every) * every
            whole = [batch for step in steps for batch in step]
            for at in range(0, len(whole), every):
                assert len({tuple(batch.input_ids.shape) for batch in whole[at : at + every]}) == 1
            assert sum(batch.num_sequences == 0 for batch in whole) == -count % every
            seen = [sample for batch in whole for sample in batch.sample_ids.tolist() if sample >= 0]
            assert sorted(seen) == list(range(count))


def test_a_blank_batch_is_padding_alone_and_has_all_columns():
    blank, other = sorted(in_updates_of(2, 1), key=lambda batch: batch.num_sequences)
    assert blank.num_sequences == blank.useful_tokens == 0 and blank.keys() == other.keys()
    assert {name: blank[name].shape for name in ("input_ids", "labels", "sequence_starts")} == {
        name: other[name].shape for name in ("input_ids", "labels", "sequence_starts")
    }
    assert not blank.segment_ids.any() and (blank.labels == -100).all() and (blank.sample_ids == -1).all()
    rows = [{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}]
    made = batch_by_tokens([3], 9, same_shape_every=2, blank_batches=True)
    of_rows = sorted(pack_loader(rows, made), key=lambda batch: batch.num_sequences)
    assert (of_rows[0].labels == -100).all() and of_rows[1].labels.tolist() == [[-100, 6, 7]]


def test_blank_batches_change_no_gradient_of_an_update():
    """Compared with the update of the batches that have a sample."""
    batches = list(in_updates_of(4, 5, shuffle=False))[4:]
    assert [batch.num_sequences for batch in batches] == [1, 0, 0, 0]

    def gradients(some):
        model = make_model("bert").eval()
        counts = PretrainingObjective().counts(batches[0])
        for batch in some:
            sums = PretrainingObjective()(model, batch)
            sum(sums[name].total / max(counts[name], 1) for name in counts).backward()
        return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    assert torch.allclose(gradients(batches), gradients(batches[:1]), atol=1e-12)


def test_any_map_style_data_set_and_a_static_width():
    rows = [store()[at] for at in range(len(store()))]
    made = batches_of()
    for ours, theirs in zip(pack_loader(store(), made), pack_loader(rows, made), strict=True):
        assert same(ours, theirs)
    static = pack_loader(store(), made, PackingCollator(max_length=128, pad_id=9))
    assert {batch.input_ids.shape[1] for batch in static} == {128}
    assert (next(iter(static)).input_ids[:, -1] == 9).any()


def test_the_check_of_loaders_tells_a_blank_batch_from_an_empty_one():
    def make(rank, ranks, epoch, state=None):
        made = in_updates_of(4, 9, rank=rank, ranks=ranks)
        made.set_epoch(epoch)
        if state is not None:
            made.load_state_dict(state)
        return made

    found = check_loader(make, id_column="sample_ids")
    assert found.passed, found
    assert "3 batches of epoch 0 hold padding alone" in found["steps"].evidence


@pytest.mark.parametrize("options", [{}, {"every": 4}, {"drop_last": True}, {"order": "dataset"}, {"order": "random"}])
def test_the_check_of_loaders_passes_it(options):
    def make(rank, ranks, epoch, state=None):
        made = loader(rank, ranks, **options)
        made.set_epoch(epoch)
        if state is not None:
            made.load_state_dict(state)
        return made

    found = check_loader(make, source=store())
    assert found.passed, found
    assert found["stop"].verdict == found["later stop"].verdict == found["second stop"].verdict == "passed"


def test_bad_input_gets_one_sentence():
    small = store().take(range(5))
    other = TokenStore.from_samples([{"input_ids": [7] * (1 + at % 9)} for at in range(len(store()))])
    state = loader().state_dict()
    for match, call in {
        r"The batches hold \d+ samples; the data set has 5": lambda: pack_loader(small, batches_of()),
        "made for other lengths: batch 0 has": lambda: pack_loader(other, batches_of()),
        "batch_size must be left out for batches by tokens, not 4": lambda: pack_loader(store(), batches_of(), None, 4),
        "rows of 20 tokens; the longest sample has": lambda: pack_loader(store(), batches_of(), PackingCollator(20)),
        "ranks must divide same_shape_every 4, not be 3": lambda: loader(0, 3, every=4),
        "1 batches fill no step of 2 ranks": lambda: TokenBatchSampler(
            batch_by_tokens([3], 9), ranks=2, rank=0, drop_last=True),
        "leave some of 2 ranks without a sample in the last step, which may have 1": lambda: TokenBatchSampler(
            batch_by_tokens([9, 9, 9], 9), ranks=2, rank=0),
        "The state is of a loader with same_shape_every 1; this one has 4": lambda: loader(every=4).load_state_dict(
            {**loader(every=4).state_dict(), "same_shape_every": state["same_shape_every"]}),
        "blank_packs must be at least 0, not -1": lambda: collate(small, [5], 999, blank_packs=-1),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=match):
            call()
