"""Schedules: every sequence once, and windows with the mix of a random deal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.lengths.synthetic import log_normal
from packlib.packing import Packs, plan
from packlib.work import Work, balance, waiting

WORK = Work(6 * 4096, 0.5)


def contents(packs):
    """The samples of each pack with their lengths, as sets to compare."""
    bounds = zip(packs.offsets, packs.offsets[1:], strict=False)
    return [
        frozenset(zip(packs.sample_ids[a:b].tolist(), packs.lengths[a:b].tolist(), strict=True)) for a, b in bounds
    ]


@pytest.fixture(scope="module")
def long_tail():
    lengths = np.random.default_rng(0).permutation(log_normal(12_000, 32_768, 7.0, 1.3).expand())
    return plan(lengths, 32_768, "lpfhp").assign(lengths)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=100),
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 3),
)  # fmt: skip
def test_any_packs_make_a_schedule_that_leaves_them_whole(lengths, ranks, packs_per_rank, window, seed):
    packs = plan(lengths, 40, "lpfhp").assign(lengths)
    step = ranks * packs_per_rank
    needed = -(-len(packs) // step) * step
    if needed > len(lengths):
        with pytest.raises(ValueError, match=f"whole steps need {needed} packs; there are only {len(lengths)}"):
            balance(packs, ranks, packs_per_rank, window, seed=seed)
        return
    made = balance(packs, ranks, packs_per_rank, window, work=Work(3, 1), seed=seed).verify()
    assert len(made) == needed and made.steps == needed // step
    before, after = contents(packs), contents(made)
    assert frozenset().union(*after) == frozenset().union(*before)
    assert all(any(part <= whole for whole in before) for part in after)  # whole, or a part of one
    assert len(set(before) - set(after)) <= needed - len(packs)
    again = balance(packs, ranks, packs_per_rank, window, work=Work(3, 1), seed=seed)
    assert contents(again) == after
    of_packs = [sum(3 * n + n * n for _, n in pack) for pack in after]
    of_ranks = [sum(of_packs[i : i + packs_per_rank]) for i in range(0, needed, packs_per_rank)]
    by_hand = [of_ranks[i : i + ranks] for i in range(0, len(of_ranks), ranks)]
    assert made.work_of_ranks.tolist() == by_hand
    assert made.slowest == sum(map(max, by_hand)) and made.lower_bound <= made.slowest * (1 + 1e-12)
    assert made.waiting == pytest.approx(max(0, 1 - made.mean / made.slowest))
    if packs_per_rank == 1:
        assert made.lower_bound == pytest.approx(made.slowest)


def test_a_larger_window_leaves_less_waiting_and_the_mix_of_windows(long_tail):
    each = WORK.of(long_tail)
    deals = [balance(long_tail, 8, window=window, work=WORK) for window in (1, 4, 8, 32)]
    assert deals[0].waiting == pytest.approx(waiting(each, 8).mean, rel=0.1)
    waits = [made.waiting for made in deals]
    assert waits[0] > 2 * waits[1] > 2 * waits[2] > 4 * waits[3] > 0

    # the mean length of eight steps in a row spreads as it does in random deals, that of single steps does not
    def spread(made, steps):
        rows = made.steps // steps * steps * 8
        tokens, sizes = (
            values[:rows].reshape(-1, steps * 8).sum(axis=1) for values in (made.lengths_used, np.diff(made.offsets))
        )
        return (tokens / sizes).std()

    random = [balance(long_tail, 8, window=1, work=WORK, seed=seed) for seed in range(20)]
    low, high = np.quantile([spread(made, 8) for made in random], (0, 1))
    assert low / 1.2 < spread(deals[2], 8) < high * 1.2
    assert spread(deals[2], 1) > 2 * max(spread(made, 1) for made in random)


def test_parts_of_cut_packs_stand_in_the_last_window(long_tail):
    made = balance(long_tail, 64, 4, window=2)
    missing = -len(long_tail) % 256
    whole = set(contents(long_tail))
    parts = np.array([pack not in whole for pack in contents(made)])
    assert 0 < missing < parts.sum() <= 2 * missing and not parts[: (made.steps - 1) // 2 * 2 * 256].any()


def test_another_seed_deals_other_steps_and_shuffled_steps_keep_windows(long_tail):
    one, two = (balance(long_tail, 8, seed=seed) for seed in (0, 1))
    assert set(contents(one)[:8]) != set(contents(two)[:8])
    orders = [one.shuffled_steps(np.random.default_rng(seed)) for seed in range(2)]
    assert orders[0].tolist() != orders[1].tolist()
    for order in orders:
        assert sorted(order) == [*range(one.steps)]
        windows = order // 8
        assert (np.diff(windows) != 0).sum() == windows.max()  # each comes in one piece
        assert (np.diff(windows) < 0).any()


def test_a_schedule_is_saved_as_its_packs_in_the_order_of_training(tmp_path, long_tail):
    made = balance(long_tail, 8, 2, window=3)
    made.save(tmp_path / "long.packs")
    mapped = Packs.load(tmp_path / "long.packs")
    assert type(mapped) is Packs and not mapped.sample_ids.flags.owndata
    assert contents(mapped) == contents(made)
