"""One step of reinforcement learning: the fewest micro-batches, all caps kept, and no worse than any deal there is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.packing import plan
from packlib.work import Work, balance_step

SCALES = (6000, 32_768), (3000, 16_384), (2000, 16_384)
DRAWS = [(n, median, cap, seed) for n in (512, 1024) for median, cap in SCALES for seed in range(3)]


def drawn(n, median, cap, seed):
    return np.random.default_rng(seed).lognormal(np.log(median), 0.8, n).astype(int).clip(16, cap)


def least_waiting(lengths, ranks, cap, each, work):
    """What ranks wait at least that meet after each micro-batch, where long sequences leave no room for as much work.

    The heaviest micro-batch of step k has at least the work of sequence k × ranks of all, the heaviest first. Number i
    of the micro-batches, the one with the longest sequence first, holds none above length i: beyond half of the cap,
    the squares of its lengths add up to at most that of this length and that of the rest of the cap.
    """
    longest = np.sort(lengths)[::-1][: ranks * each].astype(float)
    least = work.total(longest[::ranks], longest[::ranks] ** 2)
    squares = np.where(longest > cap / 2, longest**2 + (cap - longest) ** 2, cap * longest)
    held = np.minimum(least[:, None], work.total(cap, squares).reshape(each, ranks)).sum()
    total = work.of(lengths).sum()
    return 1 - total / (ranks * least.sum() + max(0, total - held))


def check(made, lengths, steps, each):
    assert sorted(made.verify().sample_ids) == [*range(len(lengths))]
    assert made.lengths.tolist() == lengths[made.sample_ids].tolist()
    assert (made.steps, made.packs_per_rank) == (steps, each)


@pytest.mark.parametrize("draw", DRAWS, ids=str)
def test_the_fewest_micro_batches_and_hardly_any_waiting(draw):
    lengths, cap = drawn(*draw), draw[2]
    made, often = (balance_step(lengths, 8, cap, meet=meet) for meet in ("step", "micro-batch"))
    each = -(-plan(lengths, cap, "lpfhp").lower_bound // 8)
    check(made, lengths, 1, each)
    check(often, lengths, each, 1)
    least = least_waiting(lengths, 8, cap, each, Work.decoder())
    assert made.waiting <= 0.0005 and least <= often.waiting <= least + 0.003


FEW = [
    (512, 7.5, 0.8, 65_536, 8, 3),
    (512, 8, 0.8, 131_072, 8, 2),
    (512, 8.7, 1, 131_072, 8, 5),
    (2048, 8.7, 1, 131_072, 64, 3),
]


@pytest.mark.parametrize("number, mean, spread, cap, ranks, each", FEW, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_with_few_packs_a_rank_sequences_and_not_packs_even_the_work_out(number, mean, spread, cap, ranks, each, seed):
    lengths = np.random.default_rng(seed).lognormal(mean, spread, number).clip(16, cap).astype(int)
    made = balance_step(lengths, ranks, cap)
    check(made, lengths, 1, each)
    heaviest = Work.decoder().of(lengths).max()  # which is on one rank
    assert made.slowest <= 1.003 * max(made.mean, heaviest)


def test_where_ranks_meet_often_a_heavy_sequence_meets_others_with_as_much_work():
    for seed in range(2):
        lengths = np.random.default_rng(seed).lognormal(np.log(6000), 0.8, 256).clip(16, 131_072).astype(int)
        assert balance_step(lengths, 8, 131_072, meet="micro-batch").waiting < 0.005  # packs of equal work: 0.12


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=4, max_size=7), st.sampled_from(["step", "micro-batch"]), st.integers(1, 3)
)
def test_any_sequences_make_the_fewest_micro_batches(lengths, meet, ranks):
    each = -(-plan(lengths, 12).num_packs // ranks)
    if each * ranks > len(lengths):
        with pytest.raises(ValueError, match=f"need {each * ranks} packs; there are only {len(lengths)} sequences"):
            balance_step(lengths, ranks, 12, meet=meet)
        return
    made = balance_step(lengths, ranks, 12, meet=meet, work=Work(3, 1))
    check(made, np.array(lengths), *((1, each) if meet == "step" else (each, 1)))
