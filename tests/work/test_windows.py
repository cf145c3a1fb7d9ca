"""Deals in windows: against every deal there is, and near the bound where packs are as those of real lengths."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.lengths.synthetic import log_normal
from packlib.packing import plan
from packlib.work import Work
from packlib.work.windows import deal_in_windows, least_times


def times(each, dealt):
    """Return how long each step takes: the work of its slowest rank."""
    return np.array(each)[dealt].sum(axis=2).max(axis=1)


def fastest(each, ranks, packs_per_rank):
    """Try every way to assign packs to steps and ranks; return the least time of all steps together."""

    @cache
    def best(left):
        if not left:
            return 0
        found = np.inf
        for others in itertools.combinations(left[1:], ranks * packs_per_rank - 1):  # of the step with the first pack
            step = (left[0], *others)
            rest = tuple(pack for pack in left if pack not in step)
            found = min(found, slowest(step) + best(rest))
        return found

    @cache
    def slowest(step):
        if not step:
            return 0
        bundles = ((step[0], *others) for others in itertools.combinations(step[1:], packs_per_rank - 1))
        return min(
            max(sum(each[i] for i in bundle), slowest(tuple(i for i in step if i not in bundle))) for bundle in bundles
        )

    return best(tuple(range(len(each))))


SIZES = [(1, 1, 3), (2, 1, 3), (2, 1, 4), (3, 1, 3), (4, 1, 2), (2, 2, 2), (3, 2, 1), (2, 3, 1), (2, 4, 1), (3, 3, 1)]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(SIZES))
def test_a_window_against_every_deal(data, size):
    ranks, packs_per_rank, steps = size
    count = ranks * packs_per_rank * steps
    each = np.array(
        data.draw(st.lists(st.integers(1, 50) | st.sampled_from([100, 200, 400]), min_size=count, max_size=count)),
        float,
    )
    dealt = deal_in_windows(each, ranks, packs_per_rank, steps, np.random.default_rng(0))
    assert sorted(dealt.ravel()) == [*range(count)] and dealt.shape == (steps, ranks, packs_per_rank)
    best, bound = fastest(each.tolist(), ranks, packs_per_rank), least_times(each[None], ranks, packs_per_rank)[0]
    took = times(each, dealt).sum()
    assert bound <= best * (1 + 1e-12) and best <= took * (1 + 1e-12)
    if packs_per_rank == 1:
        assert bound == best == took
    else:
        assert took <= 4 / 3 * best  # Graham's bound for this rule where any number goes to a rank


def test_windows_do_not_share_packs_and_the_last_may_be_smaller():
    each = np.random.default_rng(1).lognormal(0, 1, 2 * 3 * 10)
    dealt = deal_in_windows(each, 2, 3, 4, np.random.default_rng(0))
    assert [np.unique(part // 24).tolist() for part in (dealt[:4], dealt[4:8], dealt[8:])] == [[0], [1], [2]]
    assert sorted(dealt.ravel()) == [*range(60)]
    assert np.array_equal(dealt, deal_in_windows(each, 2, 3, 4, np.random.default_rng(0)))


def test_the_heaviest_step_of_a_window_comes_anywhere_in_it():
    each, rng = np.random.default_rng(1).lognormal(0, 1, 8 * 4 * 400), np.random.default_rng(0)
    first = times(each, deal_in_windows(each, 8, 1, 4, rng)).reshape(-1, 4).argmax(axis=1)
    # chi-squared with 3 degrees of freedom is over 16.3 once in a thousand
    assert ((np.bincount(first, minlength=4) - 100) ** 2 / 100).sum() < 16.3


@pytest.mark.parametrize("ranks", [8, 64])
@pytest.mark.parametrize(("top", "number"), [(8192, 60_000), (32_768, 200_000), (131_072, 720_000)])
def test_several_packs_of_long_tails_come_near_the_bound(top, number, ranks):
    histogram = log_normal(number, top, 7.0, 1.3)
    each = np.random.default_rng(0).permutation(
        Work.decoder().of(plan(histogram, method="lpfhp").assign(histogram.expand()))
    )
    for packs_per_rank, window, above in ((8, 8, 0.004), (8, 32, 0.001), (4, 32, 0.002)):
        step = ranks * packs_per_rank
        steps = len(each) // (step * window) * window
        some = each[: steps * step]
        if steps:
            dealt = deal_in_windows(some, ranks, packs_per_rank, window, np.random.default_rng(0))
            bound = least_times(some.reshape(-1, step * window), ranks, packs_per_rank).sum()
            assert times(some, dealt).sum() <= (1 + above) * bound


@pytest.mark.parametrize(("spread", "packs_per_rank", "above"), [(1, 4, 0.006), (2, 2, 0.0028)])
def test_packs_of_very_unequal_work_come_near_the_bound_too(spread, packs_per_rank, above):
    """Bundles that stay as they are made, or in that order, are 0.65 % or more above it for 4 packs a rank."""
    each, step = np.random.default_rng(0).lognormal(0, spread, 1 << 16), 8 * packs_per_rank
    dealt = deal_in_windows(each, 8, packs_per_rank, 8, np.random.default_rng(0))
    bound = least_times(each.reshape(-1, 8 * step), 8, packs_per_rank).sum()
    assert bound <= times(each, dealt).sum() <= (1 + above) * bound


def test_a_window_may_have_thousands_of_steps_with_a_heavy_pack_each():
    each = np.random.default_rng(0).pareto(0.6, 2 * 2 * 1200) + 1
    dealt = deal_in_windows(each, 2, 2, 1200, np.random.default_rng(0))
    assert sorted(dealt.ravel()) == [*range(len(each))]
    sorted_steps = np.sort(each)[::-1].reshape(1200, 2, 2).sum(axis=2).max(axis=1)
    assert least_times(each[None], 2, 2)[0] <= times(each, dealt).sum() < sorted_steps.sum()
