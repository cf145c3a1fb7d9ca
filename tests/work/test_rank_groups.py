"""Groups of ranks for the sequences of a step, against every way to share them and a clock that runs the ranks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.work import Work, share_sequences
from packlib.work.rank_groups import group_sizes

QUADRATIC = Work(0, 1)


def steps(most):
    return st.lists(st.integers(1, 40).map(lambda units: 8 * units), min_size=1, max_size=most)


def ended(made, lengths, work):
    """Return when each rank is done if a group begins a sequence as soon as all its ranks have ended the one before."""
    done = np.zeros(len(made.rank_work))
    for i in sorted(range(len(lengths)), key=lambda i: -made.group_sizes[i]):
        size, first = made.group_sizes[i], made.first_ranks[i]
        assert first % size == 0
        chunks = 2 * size if size > 1 else 1
        padded = -(-lengths[i] // chunks) * chunks
        done[first : first + size] = done[first : first + size].max() + work.of([padded])[0] / size
    return done


def fastest(lengths, ranks, work):
    """Try every group of ranks for each sequence; return the least time of the slowest rank.

    A group's size divides the number of ranks.
    """
    sizes = [size for size in range(1, ranks + 1) if ranks % size == 0]
    ways = [(size, first) for size in sizes for first in range(0, ranks, size)]
    found = np.inf
    for places in itertools.product(ways, repeat=len(lengths)):
        done = np.zeros(ranks)
        for length, (size, first) in zip(lengths, places, strict=True):
            done[first : first + size] += work.of([length])[0] / size
        found = min(found, done.max())
    return found


@settings(max_examples=25)
@given(steps(3), st.sampled_from([2, 3, 4, 5, 6]), st.sampled_from([QUADRATIC, Work(100, 1)]))
def test_no_way_is_faster_than_the_bound(lengths, ranks, work):
    made = share_sequences(lengths, ranks, 340, work=work)
    best = fastest(lengths, ranks, work)
    assert made.bound <= best * (1 + 1e-12) and best <= made.slowest * (1 + 1e-12)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=30), st.sampled_from([1, 2, 3, 6, 7, 8, 12, 16, 18]))
def test_ranks_that_wait_for_their_group_are_done_when_it_says(lengths, ranks):
    work = Work(20, 1)
    made = share_sequences(lengths, ranks, 500, work=work)
    np.testing.assert_allclose(ended(made, lengths, work), made.rank_work)
    assert made.exchanged_tokens == sum(
        length * (size - 1) for length, size in zip(lengths, made.group_sizes, strict=True)
    )
    part = max(work.of([length + 2 * size])[0] / size for length, size in zip(lengths, made.group_sizes, strict=True))
    assert made.bound <= made.slowest * (1 + 1e-12) and made.slowest <= made.rank_work.mean() + part


@pytest.mark.parametrize("ranks", [8, 64])
@pytest.mark.parametrize("number, median, cap, longest", [(512, 6000, 16_384, 131_072), (256, 9000, 65_536, 1 << 20)])
def test_long_tails_wait_for_nobody_and_hardly_share(ranks, number, median, cap, longest):
    for seed in range(3):
        drawn = np.random.default_rng(seed).lognormal(np.log(median), 1.0, number).astype(int)
        lengths = drawn.clip(16, longest)
        made = share_sequences(lengths, ranks, cap)
        parts = np.ceil(lengths / made.group_sizes)
        assert made.above_bound <= 0.014 and parts.max() <= cap + 1
        assert made.exchanged_tokens < 0.25 * (ranks - 1) * lengths.sum()  # of what all ranks on each would send
        assert (made.group_sizes == 1).mean() > 0.5


def test_a_sequence_may_fit_on_few_ranks_alone_since_many_need_padding():
    made = share_sequences([1, 1, 1], 4, 1)
    assert made.group_sizes.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("ranks", "sizes"), [(12, [1, 2, 4, 12]), (8, [1, 2, 4, 8]), (7, [1, 7]), (45, [1, 3, 9, 45])]
)
def test_all_ranks_can_share_one_sequence_however_many_they_are(ranks, sizes):
    """On 12 ranks only 4 shared it: each had a quarter of its work, which was called the least possible."""
    made = share_sequences([120_960], ranks, 131_072, work=QUADRATIC)
    assert made.group_sizes.tolist() == [ranks] and made.above_bound < 1e-12
    assert made.bound == made.slowest == pytest.approx(120_960**2 / ranks)
    assert group_sizes(ranks).tolist() == sizes


def test_what_is_shared_is_shown():
    shown = "RankGroups(3 on 1, 1 on 2, 1 on 4 of 4 ranks, the slowest 12.49 % above the bound)"
    assert repr(share_sequences([40, 9, 7, 5, 3], 4, 16)) == shown
