"""Batches by tokens: against a plain loop, every sample once, even across ranks, resumed, and the public faults."""

import json

import numpy as np
import pytest
import torch
from batches_cases import LENGTHS, fits, greedy, in_order
from hypothesis import example, given
from hypothesis import strategies as st
from model_cases import make_model, masking, store
from torch.utils.data import DataLoader

from packlib.batches import MicroBatch, TokenBatchSampler, batch_by_tokens, pad, token_loader
from packlib.batches.token_budget import ORDERS


@given(LENGTHS, st.integers(12, 60), st.integers(1, 9), st.sampled_from(ORDERS), st.sampled_from([False, True]))
@example([10, 5, 5, 5], 20, 9, "descending", True)  # the longest came before the run of equal lengths
def test_it_is_the_plain_loop(lengths, budget, most, order, count_padding):
    for max_batch in (None, most):
        found = batch_by_tokens(lengths, budget, max_batch=max_batch, order=order, count_padding=count_padding)
        expected = greedy(lengths, budget, max_batch or len(lengths), order, count_padding)
        assert [batch.tolist() for batch in found] == expected
        assert found.tokens.tolist() == [sum(lengths[i] for i in batch) for batch in expected]
        assert found.widths.tolist() == [max(lengths[i] for i in batch) for batch in expected]
        assert found.rows.tolist() == [len(batch) for batch in expected]
        assert found.padding_fraction == pytest.approx(1 - sum(lengths) / (found.rows @ found.widths))
        assert found.shape_cost == 0


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=200),
    st.integers(300, 6000),
    st.sampled_from(["dataset", "random"]),
)
def test_small_and_large_batches_are_cut_alike(lengths, budget, order):
    """One sample at a time, or by jumps: both ways are met, depending on the samples a batch."""
    assert [b.tolist() for b in batch_by_tokens(lengths, budget, order=order)] == greedy(
        lengths, budget, len(lengths), order, False
    )


@given(
    LENGTHS,
    st.integers(12, 60),
    st.integers(2, 6),
    st.sampled_from(ORDERS),
    st.sampled_from([False, True]),
    st.integers(2, 9),
)
@example([12, 12, 1, 1, 1, 1, 1], 12, 2, "descending", False, 9)  # the first group has no room for a blank row
def test_batches_in_turn_have_one_shape(lengths, budget, every, order, count_padding, most):
    try:
        found = batch_by_tokens(
            lengths, budget, max_batch=most, order=order, count_padding=count_padding, same_shape_every=every
        )
    except ValueError as error:
        assert len(lengths) % every  # nothing to fill up, nothing to refuse
        if len(lengths) < every:
            assert f"same_shape_every {every} needs as many samples; there are {len(lengths)}." in str(error)
            return
        left = in_order(lengths, order)[-(len(lengths) % every) :]
        assert f"{len(left)} are left over: sample {left[0]} with {lengths[left[0]]}" in str(error)
        found = batch_by_tokens(
            lengths,
            budget,
            max_batch=most,
            order=order,
            count_padding=count_padding,
            same_shape_every=every,
            drop_last=True,
        )
        assert set(found.sample_ids.tolist()) == set(range(len(lengths))) - set(left)
        assert len(found) % every == 0 and (found.sizes == found.rows).all()
        return
    assert sorted(found.sample_ids.tolist()) == list(range(len(lengths)))
    assert len(found) % every == 0 and found.rows.max() <= most
    shapes = list(zip(found.rows.tolist(), found.widths.tolist(), strict=True))
    for at in range(0, len(found), every):
        assert len(set(shapes[at : at + every])) == 1
        assert shapes[at][1] == found.longest[at : at + every].max()
    for batch, (rows, width) in zip(found, shapes, strict=True):
        assert len(batch) in (rows, rows - 1) and fits(batch, lengths, budget, count_padding)
        if count_padding:
            assert rows * width <= budget
    blank = int((found.rows - found.sizes).sum())
    assert blank == -len(lengths) % every
    own = sum(len(batch) * max(lengths[i] for i in batch) for batch in found)
    assert found.shape_cost == pytest.approx(1 - own / sum(rows * width for rows, width in shapes))
    if not blank:
        assert [batch.tolist() for batch in found] == greedy(lengths, budget, most, order, count_padding, every)


def test_the_picture_of_a_pipeline():
    """2 processes × 2 accumulation steps: four micro-batches of one shape."""
    lengths = [3, 9, 4, 4, 8, 3, 7, 2, 9, 4, 5, 6]
    found = batch_by_tokens(lengths, 16, order="ascending", same_shape_every=4, count_padding=True)
    assert list(zip(found.rows, found.widths, strict=True)) == [(2, 6)] * 4 + [(1, 9)] * 4
    assert [[lengths[i] for i in batch] for batch in found] == [
        [2, 4], [3, 4], [3, 5], [4, 6], [7], [8], [9], [9],
    ]  # fmt: skip
    assert found.padding_fraction == 1 - 64 / 84 and found.shape_cost == 1 - 71 / 84


@given(
    st.lists(st.one_of(st.integers(-5, 5), st.floats(-1, 1), st.integers(-(2**63), 2**63 - 1)), min_size=1),
    st.booleans(),
)
def test_any_score_orders_the_samples(scores, down):
    kinds = {type(score) for score in scores}
    scores = np.array(scores) if len(kinds) == 1 else np.array(scores, float)
    order = "descending" if down else "ascending"
    found = batch_by_tokens([1] * len(scores), 1, order=order, difficulty=scores)
    key = scores.tolist()
    expected = sorted(range(len(key)), key=lambda i: -key[i] if down else key[i])
    assert found.sample_ids.tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.float32])
def test_scores_of_any_type(dtype):
    low, high = (0, 1) if dtype == np.float32 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    scores = np.array([high, low, high, low + 1 if dtype != np.float32 else 0.5], dtype)
    for order, expected in (("ascending", [1, 3, 0, 2]), ("descending", [0, 2, 3, 1])):
        assert batch_by_tokens([1] * 4, 1, order=order, difficulty=scores).sample_ids.tolist() == expected


def test_a_seed_permutes_what_is_equally_difficult():
    lengths = [5, 3, 5, 3, 5, 3] * 20
    plain = batch_by_tokens(lengths, 15, order="ascending").sample_ids
    assert plain.tolist() == [*range(1, 120, 2), *range(0, 120, 2)]
    seeded = [batch_by_tokens(lengths, 15, order="ascending", seed=s).sample_ids for s in (1, 1, 2)]
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(seeded[0], seeded[2])
    assert (np.array(lengths)[seeded[0]] == np.array(lengths)[plain]).all()
    other = [batch_by_tokens(lengths, 15, order="random", seed=s).sample_ids.tolist() for s in (None, 0, 1)]
    assert other[0] == other[1] != other[2]


@given(LENGTHS, st.integers(12, 40), st.integers(1, 8), st.sampled_from(ORDERS))
@example([4, 4, 4, 12], 12, 4, "dataset")  # halved twice, for a batch of one cannot be halved
def test_a_multiple_of_batches_keeps_every_sample_and_budget(lengths, budget, multiple, order):
    plain = batch_by_tokens(lengths, budget, order=order)
    needed = -(-len(plain) // multiple) * multiple
    if needed > len(lengths):
        with pytest.raises(ValueError, match=f"{len(lengths)} samples in {len(plain)} batches cannot fill"):
            batch_by_tokens(lengths, budget, order=order, num_batches_multiple_of=multiple)
        return
    found = batch_by_tokens(lengths, budget, order=order, num_batches_multiple_of=multiple)
    assert len(found) == needed and found.sizes.min() > 0 and found.sample_ids.tolist() == plain.sample_ids.tolist()
    assert all(fits(batch, lengths, budget, False) for batch in found)
    assert set(plain.offsets.tolist()) <= set(found.offsets.tolist())


@pytest.mark.parametrize("many", [1, 1 << 22])  # rows from which on the loop is compiled
@pytest.mark.parametrize("every", [None, 2])
def test_numbers_beyond_64_bits_set_no_limit_or_are_refused(monkeypatch, many, every):
    monkeypatch.setattr("packlib.batches.cutting._MANY", many)
    lengths = [5, 3, 4, 1]
    for order in ("dataset", "ascending"):
        plain = batch_by_tokens(lengths, 99, order=order, same_shape_every=every)
        for fewest in (1, 2):
            found = batch_by_tokens(lengths, 2**70, fewest, 2**70, order, every)
            assert [*map(list, found)] == [*map(list, plain)]
    with pytest.raises(
        ValueError, match="the sum of lengths must be from 1 to 4611686018427387904, not 9223372036854775808"
    ):
        batch_by_tokens([2**60] * 8, 2**63 - 1, same_shape_every=every)


class TestPublicFaults:
    """What PUBLISHED.md says of the public code, as cases that it fails and this passes."""

    @pytest.mark.parametrize("order", ORDERS)
    def test_the_last_sample_is_used(self, order):
        for lengths in ([3], [3, 3], [3, 9], [9, 3], [1] * 11):
            found = batch_by_tokens(lengths, 9, order=order)
            assert sorted(found.sample_ids.tolist()) == list(range(len(lengths)))

    def test_overlong_samples_are_named_and_nothing_is_dropped(self):
        lengths = [5, 31, 7, 40, 30, 31, 32, 33, 34]
        with pytest.raises(
            ValueError,
            match=r"max_tokens 30 allows 30 tokens a sample; 6 have more: sample 1 with 31, sample 3 with 40, "
            r"sample 5 with 31, sample 6 with 32, sample 7 with 33, …\. Raise max_tokens",
        ):
            batch_by_tokens(lengths, 30)

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("count_padding", [False, True])
    def test_near_cubic_time(self, order, count_padding):
        """4,000 samples take the public code 53 seconds; at that pace these would take a century."""
        lengths = np.random.default_rng(0).integers(1, 513, 500_000)
        found = batch_by_tokens(lengths, 8192, order=order, count_padding=count_padding)
        assert np.array_equal(np.bincount(found.sample_ids), np.ones(500_000))
        assert found.tokens.max() <= 8192 and found.tokens.sum() == lengths.sum()


# The sampler and the loader


def sampler(rank=0, ranks=1, **options):
    options = {"order": "random", "seed": 4, **options}
    return TokenBatchSampler(store().lengths, 256, ranks=ranks, rank=rank, **options)


@pytest.mark.parametrize("options", [{}, {"order": "ascending", "shuffle": True}, {"same_shape": True},
                                     {"order": "descending", "same_shape": True, "count_padding": True}])  # fmt: skip
@pytest.mark.parametrize(("ranks", "accumulation"), [(1, 1), (2, 1), (3, 2), (1, 4)])
def test_ranks_get_as_many_and_every_sample_comes_once(options, ranks, accumulation):
    for epoch in range(2):
        each = [sampler(rank, ranks, gradient_accumulation_steps=accumulation, **options) for rank in range(ranks)]
        for one in each:
            one.set_epoch(epoch)
        passes = [list(one) for one in each]
        assert {len(batches) for batches in passes} == {len(one) for one in each} and len(each[0]) > 2
        seen = [i for batches in passes for batch in batches for i in batch]
        assert sorted(seen) == list(range(len(store())))
        sizes = each[0].update_sizes
        assert len(sizes) * accumulation == len(each[0])
        for number, size in enumerate(sizes):
            update = [b for p in passes for b in p[number * accumulation : (number + 1) * accumulation]]
            assert sum(map(len, update)) == size and {b.update_size for b in update} == {size}
            if options.get("same_shape"):
                assert len({(b.rows, b.width) for b in update}) == 1
            assert all(b.width >= store().lengths[list(b)].max() and b.epoch == epoch for b in update)


def test_micro_batches_are_dealt_in_turn():
    each = [sampler(rank, 2, gradient_accumulation_steps=2) for rank in range(2)]
    first, second = (list(one) for one in each)
    dealt = [b for i in range(0, len(first), 2) for step in (0, 1) for b in (first[i + step], second[i + step])]
    assert [list(b) for b in dealt] == [b.tolist() for b in each[0].batches()]


def test_shuffled_updates_are_the_same_updates():
    plain, shuffled = (sampler(order="ascending", gradient_accumulation_steps=2, shuffle=s) for s in (False, True))

    def updates(one):
        batches = list(one)
        return [tuple(map(tuple, batches[i : i + 2])) for i in range(0, len(batches), 2)]

    a, b = updates(plain), updates(shuffled)
    assert a != b and sorted(a) == sorted(b)
    shuffled.set_epoch(1)
    assert sorted(updates(shuffled)) != sorted(b)  # other company too: ties fall another way


@pytest.mark.parametrize("done", [0, 1, 7, "all"])
def test_a_sampler_resumes_where_it_was(done):
    straight, broken = sampler(gradient_accumulation_steps=2), sampler(gradient_accumulation_steps=2)
    first = list(straight)
    straight.set_epoch(1)
    expected = first + list(straight)
    done = len(first) if done == "all" else done
    iterator = iter(broken)
    got = [next(iterator) for _ in range(done)]
    state = json.loads(json.dumps(broken.state_dict()))
    resumed = sampler(gradient_accumulation_steps=2)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    for epoch in range(resumed.epoch, 2):
        resumed.set_epoch(epoch)
        got += list(resumed)
    assert got == expected and [b.epoch for b in got] == [b.epoch for b in expected]
    assert list(resumed) == expected[len(first) :]  # another pass without set_epoch is the same epoch, all of it


def test_it_is_a_batch_sampler_for_any_loader():
    data = [torch.full((int(n),), i) for i, n in enumerate(store().lengths)]

    def padded(samples):
        return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=-1)

    loader = DataLoader(data, batch_sampler=sampler(), collate_fn=padded)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert sum(int((batch >= 0).sum()) for batch in batches) == store().lengths.sum() and all(
        int((batch >= 0).sum()) <= 256 for batch in batches
    )


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_loader_pads_masks_and_resumes(workers):
    def loader():
        one = sampler(gradient_accumulation_steps=3, same_shape=True, shuffle=True, order="ascending")
        return token_loader(store(), one, masking=masking(), num_workers=workers)

    straight, broken = loader(), loader()
    expected = [*straight, *straight]
    ids = [i for batch in expected[: len(expected) // 2] for i in batch.sample_ids.tolist()]
    assert sorted(ids) == list(range(len(store())))
    for at in range(0, len(expected), 3):
        assert len({batch.input_ids.shape for batch in expected[at : at + 3]}) == 1
    iterator = iter(broken)
    for _ in range(4):
        next(iterator)
    resumed = loader()
    resumed.load_state_dict(json.loads(json.dumps(broken.state_dict())))
    got = [*resumed, *resumed]
    assert len(got) == len(expected) - 4
    for a, b in zip(got, expected[4:], strict=True):
        assert all(torch.equal(torch.as_tensor(a[name]), torch.as_tensor(b[name])) for name in a)


def test_blank_rows_change_no_loss():
    one = sampler(gradient_accumulation_steps=7, same_shape=True)
    batches = list(token_loader(store(), one, masking=masking()))
    blank = [b for b in batches if b.num_packs > b.num_sequences]
    assert len(blank) == -len(store()) % 7 and blank
    model = make_model("bert").eval()
    with torch.no_grad():
        without = model(**pad(blank[0], 128))  # one sequence a row, and no others
        assert torch.allclose(model(**blank[0]).loss, without.loss, atol=1e-12)


def test_a_users_pad_function_gets_samples_and_shape():
    def padded(samples, rows, width):
        out = torch.zeros(rows, width, dtype=torch.int64)
        for row, sample in zip(out, samples, strict=False):
            row[: len(sample["input_ids"])] = torch.as_tensor(sample["input_ids"].astype(np.int64))
        return out

    options = {"gradient_accumulation_steps": 2, "same_shape": True}
    plain = [store()[i] for i in range(len(store()))]
    loaders = (
        token_loader(store(), sampler(**options)),
        token_loader(plain, sampler(**options)),
        token_loader(plain, sampler(**options), pad=padded),
    )
    for ours, same, theirs in zip(*loaders, strict=True):
        assert torch.equal(ours.input_ids, theirs) and torch.equal(ours.input_ids, same.input_ids)
        assert torch.equal(ours.sample_ids, same.sample_ids)


def test_a_loader_goes_on_where_its_sampler_is():
    straight = token_loader(store(), sampler())
    expected = [batch.sample_ids.tolist() for batch in [*straight, *straight]]
    iterator = iter(used := sampler())
    for _ in range(5):
        next(iterator)
    moved = sampler()
    moved.load_state_dict(used.state_dict())
    loader = token_loader(store(), moved)
    assert [b.sample_ids.tolist() for b in [*loader, *loader]] == expected[5:]


def test_a_state_of_a_longer_epoch_loads():
    one, counts = sampler(), []
    for epoch in range(40):
        one.set_epoch(epoch)
        counts.append(len(one))
    longest = int(np.argmax(counts))
    assert counts[longest] > counts[0]
    state = {**sampler().state_dict(), "epoch": longest, "batches_done": counts[longest] - 1}
    loader = token_loader(store(), sampler())
    loader.load_state_dict(state)
    assert len(list(loader)) == 1 and loader.epoch == longest + 1


def test_a_micro_batch_is_a_list_that_knows_more():
    batch = MicroBatch([3, 1], epoch=2, rows=3, width=9, update_size=5)
    assert batch == [3, 1] and (batch.epoch, batch.rows, batch.width, batch.update_size) == (2, 3, 9, 5)


def test_bad_input_gets_one_sentence():
    state = sampler().state_dict()
    for error, match, call in (
        (ValueError, "There are no lengths", lambda: batch_by_tokens([], 9)),
        (ValueError, "Length 0 at position 1", lambda: batch_by_tokens([1, 0], 9)),
        (ValueError, "max_tokens must be at least 1", lambda: batch_by_tokens([1], 0)),
        (ValueError, "min_batch must be at least 1", lambda: batch_by_tokens([1], 9, 0)),
        (ValueError, "max_batch must be at least 3, not 2", lambda: batch_by_tokens([1], 9, 3, 2)),
        (ValueError, "not 'sorted'", lambda: batch_by_tokens([1], 9, order="sorted")),
        (ValueError, "drop_last is for same_shape_every", lambda: batch_by_tokens([1], 9, drop_last=True)),
        (TypeError, "drop_last must be True or False, not 'no'", lambda: batch_by_tokens(
            [1], 9, same_shape_every=1, drop_last="no")),
        (TypeError, "count_padding must be True or False, not 'sum'", lambda: batch_by_tokens(
            [1], 9, count_padding="sum")),
        (ValueError, "one number for each of the 2 samples", lambda: batch_by_tokens(
            [1, 2], 9, order="ascending", difficulty=[1.0, float("nan")])),
        (ValueError, "one number for each of the 2 samples", lambda: batch_by_tokens(
            [1, 2], 9, order="ascending", difficulty=[1])),
        (ValueError, 'is for order "ascending" or "descending", not', lambda: batch_by_tokens(
            [1], 9, difficulty=[1])),
        (ValueError, "num_batches_multiple_of must divide same_shape_every 4; 3 does not", lambda: batch_by_tokens(
            [1] * 9, 9, same_shape_every=4, num_batches_multiple_of=3)),
        (IndexError, "no batch 7", lambda: batch_by_tokens([1], 9)[7]),
        (ValueError, "rank must be from 0 to 1, not 2", lambda: sampler(2, 2)),
        (ValueError, "max_tokens 20 allows 20 tokens", lambda: TokenBatchSampler(store().lengths, 20)),
        (TypeError, "shuffle must be True or False, not 'no'", lambda: sampler(shuffle="no")),
        (TypeError, "same_shape must be True or False, not 1", lambda: sampler(same_shape=1)),
        (ValueError, "sampler with seed 4; this one has 5", lambda: sampler(seed=5).load_state_dict(state)),
        (ValueError, "batches_done must be from 0", lambda: sampler().load_state_dict(
            {**state, "batches_done": 10**6})),
        (ValueError, "408 lengths for 5 samples", lambda: token_loader(store().take(range(5)), sampler())),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            call()


def test_it_prints_well():
    found = batch_by_tokens([3, 9, 4, 4, 8], 16, order="ascending", same_shape_every=2)
    assert repr(found) == (
        "TokenBatches(4 batches, 5 samples, 1.2 a batch of 7 tokens, 17.65% padding, "
        "14.71% for one shape in every 2 batches)"
    )
    assert repr(found).split(",")[0] in found._repr_html_() and "<svg" in found._repr_html_()
