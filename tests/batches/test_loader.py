"""Loading packs: every sample once an epoch, the same whoever loads, and going on in mid-epoch."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import MAX_LENGTH, masking, same, store
from model_cases import store_loader as loader

from packlib.batches import PackDataset, PackingCollator, TokenStore, pack_lengths, pack_loader
from packlib.batches.samplers import PackSampler
from packlib.distributed import DistributedCurriculumSampler
from packlib.packing import Packs
from packlib.work import Schedule, Work, balance


def test_another_epoch_has_another_order_and_other_masks_whatever_the_batch_size():
    def of_epoch(batches):
        ids = torch.cat([batch.sample_ids for batch in batches]).tolist()
        rows = [row for b in batches for row in b.labels[b.segment_ids > 0].split(b.lengths.tolist())]
        assert sorted(ids) == list(range(len(store()))), "every sample comes once"
        return ids, dict(zip(ids, (row.tolist() for row in rows), strict=True))

    small, large = loader(3), loader(16)
    orders, masks = zip(*(of_epoch(list(batches)) for batches in (small, large, small, large)), strict=True)
    assert masks[0] == masks[1] != masks[2] == masks[3] and orders[0] == orders[1] != orders[2]
    assert small.epoch == 2 and len(small) == len(list(small))


def test_without_shuffling_the_packs_come_in_order():
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    batches = pack_loader(store(), packs, batch_size=5, shuffle=False)
    assert torch.cat([batch.sample_ids for batch in batches]).tolist() == packs.sample_ids.tolist()


@pytest.mark.slow
def test_workers_change_nothing_and_what_they_prefetched_does_not_count():
    plain, workers = loader(), loader(num_workers=2, prefetch_factor=4, persistent_workers=True)
    for done, (a, b) in enumerate(zip(plain, workers, strict=True), start=1):
        assert same(a, b)
        if done == 2:
            resumed = loader()
            resumed.load_state_dict(workers.state_dict())
    rest, straight = list(resumed), list(loader())
    assert len(rest) == len(straight) - 2 and all(map(same, straight[2:], rest))
    assert all(map(same, plain, workers)), "the next epoch, with the same workers"


@pytest.mark.parametrize("done", [2, "all"])
def test_any_rank_goes_on_where_any_rank_was(done):
    straight, broken, resumed = (loader(3, ranks=2, rank=rank) for rank in (1, 0, 1))
    done = len(straight) if done == "all" else done
    iterator = iter(broken)
    for _ in range(done):
        next(iterator)
    state = json.loads(json.dumps(broken.state_dict()))
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    expected, got = [*straight, *straight][done:], [*resumed, *resumed]
    assert len(got) >= len(expected) and all(map(same, expected, got))


def test_a_pass_that_breaks_off_starts_the_epoch_again():
    batches = loader()
    first = next(iter(batches))
    assert same(next(iter(batches)), first) and batches.epoch == 0
    batches.load_state_dict({**batches.state_dict(), "batches_done": 2})
    assert same(next(iter(batches)), list(loader())[2])
    assert batches.state_dict()["batches_done"] == 3 and same(next(iter(batches)), first)


@settings(max_examples=300)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 5), st.booleans(), st.booleans())
def test_ranks_share_each_step_and_no_pack_comes_twice_or_not_at_all(packs, size, ranks, drop_last, shuffle):
    def sampler(batch_size, ranks, rank):
        return PackSampler(packs, batch_size, 5, shuffle, drop_last, ranks, rank)

    rest = packs % (size * ranks)
    if packs < ranks or (drop_last and rest == packs) or (not drop_last and 0 < rest < ranks and size == 1):
        with pytest.raises(ValueError, match=r"fill no batch|leave some of . ranks without a pack"):
            sampler(size, ranks, 0)
        return
    shares = [list(sampler(size, ranks, rank)) for rank in range(ranks)]
    steps = [[pack for batch in step for _, pack in batch] for step in zip(*shares, strict=True)]
    seen = [pack for step in steps for pack in step]
    assert len(set(seen)) == len(seen) == (packs - rest if drop_last else packs)
    assert all(1 <= len(batch) <= size for share in shares for batch in share)
    together = [[pack for _, pack in batch] for batch in sampler(size * ranks, 1, 0)]
    assert len(together) == len(steps)
    same = steps if drop_last or not 0 < rest < ranks else steps[:-2]
    assert list(map(sorted, same)) == list(map(sorted, together[: len(same)]))


def test_rows_of_packs_are_loaded_as_packs_of_samples_are():
    """In the same order, with the same shares; a row says where its sequences end."""
    packs, share = pack_lengths(store().lengths, MAX_LENGTH), {"seed": 4, "ranks": 2, "rank": 1}
    held = [store().take(ids) for ids in packs]
    rows = [
        {
            "input_ids": some.input_ids,
            "token_type_ids": some.token_type_ids,
            "seq_lengths": some.lengths,
            "source": ["a"] * len(some),
        }
        for some in held
    ]
    ours = pack_loader(rows, None, PackingCollator(MAX_LENGTH), 3, **share)
    for a, b in zip(ours, pack_loader(store(), packs, None, 3, **share), strict=True):
        assert all(torch.equal(a[name], b[name]) for name in ("input_ids", "segment_ids", "token_type_ids"))
        assert len(set(a.sample_ids.tolist())) == a.num_sequences
    assert next(iter(pack_loader(rows, batch_size=1, shuffle=False))).efficiency == 1
    with pytest.raises(ValueError, match="masking must be None for rows"):
        next(iter(pack_loader(rows, None, PackingCollator(MAX_LENGTH, masking()))))


def test_the_epoch_can_be_chosen():
    batches, again = loader(), loader()
    list(batches)
    again.set_epoch(1)
    assert all(map(same, batches, again))
    next(iter(again))
    resumed = loader()
    resumed.load_state_dict(again.state_dict())
    resumed.set_epoch(2)  # as a Trainer does: the epoch that it is in already
    assert len(list(resumed)) == len(again) - 1
    data = PackDataset(store(), pack_lengths(store().lengths, MAX_LENGTH))
    assert data[0][0] == 0 and data[5, 0][0] == 5


def test_bad_input_gets_one_sentence():
    packs, other = pack_lengths(store().lengths, MAX_LENGTH), pack_lengths([4], 5)
    backwards = store().take(range(len(store()))[::-1])
    narrow = PackingCollator(50)
    for match, call in {
        r"The packs hold sample \d+; the data set has 5": lambda: PackDataset(store().take(range(5)), packs),
        f"packs of 50 tokens; the fullest pack holds {MAX_LENGTH}": lambda: pack_loader(store(), packs, narrow),
        "rank must be from 0 to 1, not 2": lambda: loader(ranks=2, rank=2),
        "leave some of 2 ranks .*: pass drop_last": lambda: PackSampler(7, 1, ranks=2, rank=0),
        "3 packs fill no batch of 2 on 2 ranks": lambda: PackSampler(3, 2, drop_last=True, ranks=2, rank=0),
        "made for other lengths: pack 0 has 96 tokens, and its samples have": lambda: PackDataset(backwards, packs),
        "pack 0 has 4 tokens, and its samples have 3": lambda: PackDataset([{"input_ids": [7] * 3}], other)[0],
        "pack 0 has 4 tokens, and its samples have 5": lambda: PackDataset([{"input_ids": [7] * 5}], other)[0],
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="shuffle must be True or False, not 'no'"):
        loader(shuffle="no")
    with pytest.raises(TypeError, match=r"packs must be Packs, not \[\[0, 1\]\]"):
        PackDataset(store(), [[0, 1]])
    with pytest.raises(IndexError, match="no pack"):
        PackDataset(store(), packs)[len(packs)]


def test_ranks_of_a_schedule_get_its_steps():
    lengths = np.random.default_rng(0).integers(1, 60, 400)
    data = TokenStore.from_samples([{"input_ids": [int(n)] * int(n)} for n in lengths])
    made = balance(pack_lengths(lengths, 64), ranks=2, packs_per_rank=3, window=4, work=Work(10, 1))
    loaders = [pack_loader(data, made, ranks=2, rank=rank, seed=4) for rank in range(2)]
    batches = [list(loader) for loader in loaders]
    assert [len(part) for part in batches] == [made.steps] * 2
    order = made.shuffled_steps(np.random.default_rng([4, 0]))
    for at, step in enumerate(order):
        for rank in range(2):
            used = made.lengths_used.reshape(made.steps, 2, 3)[step, rank]
            assert batches[rank][at].useful_tokens == used.sum()
    loaders[0].load_state_dict({"epoch": 0, "batches_done": 2, **loaders[0].batch_sampler.setting()})
    assert [b.useful_tokens for b in loaders[0]] == [b.useful_tokens for b in batches[0][2:]]
    with pytest.raises(ValueError, match="ranks must be 2, as the schedule was made for, not 1"):
        pack_loader(data, made)
    with pytest.raises(ValueError, match="batch_size must be 3, as the schedule has, not 4"):
        pack_loader(data, made, batch_size=4, ranks=2, rank=0)


def plain(num_packs=12, batch_size=2, **options):
    """Make a loader of packs that hold one sequence of four tokens each."""
    packs = Packs(range(num_packs), range(num_packs + 1), [4] * num_packs, max_length=4)
    return pack_loader([{"input_ids": [7] * 4}] * num_packs, packs, batch_size=batch_size, **options)


def scheduled(num_packs=12, batch_size=1, ranks=2, window=2, **options):
    """The loader of rank 0 for a schedule of packs with one sequence each."""
    made = Schedule(range(num_packs), range(num_packs + 1), [4] * num_packs, 4, ranks, batch_size, window, Work(0, 1))
    return pack_loader([{"input_ids": [7] * 4}] * num_packs, made, ranks=ranks, rank=0, **options)


def curriculum(num_samples=12, **options):
    """A sampler of samples that are as difficult as their number says."""
    return DistributedCurriculumSampler(range(num_samples), np.arange(num_samples), **options)


OTHERS = {
    plain: {"num_packs": 13, "batch_size": 3, "seed": 1, "shuffle": False, "drop_last": True, "ranks": 2},
    scheduled: {"num_packs": 24, "window": 3, "ranks": 3},
    curriculum: {"num_samples": 13, "seed": 1, "curriculum": "local", "drop_last": True},
}


@pytest.mark.parametrize("make", OTHERS)
def test_a_state_of_another_setting_or_beyond_the_epoch_is_refused_and_changes_nothing(make):
    here = make()
    before = here.state_dict()
    for name, value in OTHERS[make].items():
        with pytest.raises(
            ValueError, match=f"The state is of a .*er with {name} {value}; this one has {before[name]}."
        ):
            here.load_state_dict(make(**{name: value}).state_dict())
        assert here.state_dict() == before
    (done,) = before.keys() & {"batches_done", "samples_done"}
    most = 12 if make is curriculum else 5  # at the end of an epoch a loader's state is at the start of the next
    for wrong in (-1, most + 1):
        with pytest.raises(ValueError, match=f"{done} must be from 0 to {most}, not {wrong}"):
            here.load_state_dict(before | {"epoch": 3, done: wrong})
        assert here.state_dict() == before
    here.load_state_dict(before | {"epoch": 3, done: most})
    assert here.state_dict()["epoch"] == 3


def test_runs_with_other_seeds_share_no_order_of_packs():
    """Not the epoch after it of another seed either, as where both were added up."""
    orders = []
    for seed in range(4):
        sampler = PackSampler(30, batch_size=1, seed=seed)
        for epoch in range(4):
            sampler.set_epoch(epoch)
            orders.append(tuple(pack for batch in sampler for _, pack in batch))
    assert len(set(orders)) == 16 and all(sorted(order) == list(range(30)) for order in orders)
