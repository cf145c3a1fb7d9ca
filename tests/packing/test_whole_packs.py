"""Lists of the packs that matter, and integer programs over them."""

import math
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_packs, histograms, triplets

from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan, plan
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound
from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack
from packlib.packing.search.whole_packs import choose, dive_among, ruled_out


@given(histograms(largest=14, most=9), st.sampled_from(DEPTHS), st.data())
@settings(max_examples=150, deadline=None)
def test_every_pack_that_is_worth_enough_is_listed(histogram, depth, data):
    counts, top = histogram.counts, histogram.max_length
    prices = np.array(data.draw(st.lists(st.integers(0, 20), min_size=top + 1, max_size=top + 1)))
    knapsack = solve_knapsack(np.where(counts > 0, prices, NOT_FOR_SALE), depth)
    least = data.draw(st.integers(1, max(1, knapsack.best)))
    lengths = np.flatnonzero(counts).tolist()
    every = (
        Counter(pack)
        for size in range(1, min(depth or top, top) + 1)
        for pack in combinations_with_replacement(lengths, size)
        if sum(pack) <= top
    )
    expected = {
        tuple(sorted(pack.items(), reverse=True))
        for pack in every
        if all(n <= counts[length] for length, n in pack.items())
        and sum(prices[length] * n for length, n in pack.items()) >= least
    }
    listed = knapsack.packs_worth(least, counts, 10**6)
    assert len(listed) == len(expected) and set(listed) == expected
    if expected:
        assert knapsack.packs_worth(least, counts, len(expected) - 1) is None


@given(histograms(largest=14, most=8), st.sampled_from(DEPTHS), st.integers(0, 2), st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_ruled_out_is_impossible_by_brute_force(histogram, depth, more, data):
    """With any prices, also where the list proves one more pack than the prices do."""
    counts, top = histogram.counts, histogram.max_length
    prices = np.array(data.draw(st.lists(st.integers(0, 9), min_size=top + 1, max_size=top + 1)))
    prices[counts > 0] += 1
    prices *= PRICE_OF_A_PACK // 16
    best = fewest_packs(histogram.expand().tolist(), top, depth)
    packs = certified_bound(counts, prices, depth) - 1 + more
    assert not (ruled_out(counts, prices, depth, packs) and packs >= best)


def hard(seed):
    """160 lengths up to 800 in packs of 1,000, and a few that fill the last pack of the linear program nearly."""
    return LengthHistogram.from_lengths(HARD[seed], 1000)


HARD = {
    "proven": [
        6, 8, 11, 16, 28, 31, 32, 34, 40, 44, 45, 46, 46, 62, 68, 74, 77, 78, 78, 80, 81, 84, 86, 86, 88, 88, 89, 91,
        119, 121, 127, 138, 145, 150, 151, 154, 157, 162, 162, 168, 171, 173, 176, 180, 182, 192, 203, 204, 208, 209,
        210, 215, 220, 223, 237, 238, 239, 245, 255, 255, 258, 267, 268, 272, 277, 288, 291, 293, 304, 305, 309, 312,
        314, 326, 326, 332, 339, 347, 351, 353, 356, 356, 357, 357, 360, 361, 362, 364, 366, 377, 378, 382, 385, 386,
        389, 391, 395, 399, 400, 401, 404, 405, 406, 409, 409, 414, 418, 418, 419, 419, 431, 439, 440, 445, 447, 450,
        456, 460, 464, 464, 474, 475, 475, 476, 481, 484, 490, 491, 494, 495, 497, 501, 501, 507, 507, 516, 526, 536,
        543, 544, 547, 552, 554, 555, 555, 556, 556, 561, 562, 583, 592, 600, 601, 613, 616, 621, 626, 627, 628, 628,
        629, 629, 630, 651, 652, 657, 659, 662, 664, 667, 669, 671, 680, 686, 690, 695, 695, 702, 705, 705, 708, 713,
        714, 719, 726, 740, 742, 748, 750, 757, 767, 769, 772, 774, 779, 782, 785, 786, 788, 795, 800,
    ],
    "found": [
        13, 15, 15, 21, 32, 36, 40, 43, 44, 46, 54, 56, 58, 58, 61, 65, 72, 78, 78, 80, 89, 89, 102, 111, 113, 117,
        129, 138, 148, 156, 161, 162, 162, 163, 169, 173, 180, 184, 186, 187, 194, 198, 199, 206, 207, 207, 209, 209,
        210, 215, 227, 246, 256, 262, 264, 265, 272, 275, 276, 277, 279, 284, 287, 290, 301, 306, 312, 323, 327, 331,
        334, 337, 338, 346, 355, 365, 366, 366, 366, 372, 374, 374, 375, 375, 381, 390, 412, 412, 416, 418, 418, 428,
        434, 441, 445, 453, 456, 458, 471, 471, 476, 485, 495, 500, 500, 526, 531, 534, 539, 552, 555, 555, 557, 565,
        576, 580, 581, 584, 593, 612, 619, 620, 620, 626, 627, 630, 630, 633, 635, 641, 651, 653, 673, 676, 676, 684,
        696, 698, 708, 711, 712, 720, 727, 728, 730, 731, 739, 745, 748, 749, 750, 753, 754, 756, 759, 774, 774, 781,
        781, 785, 799, 799, 799,
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "packs"), [("proven", 82), ("found", 65)])
def test_hard_cases_are_closed_from_both_sides(name, packs):
    made = plan(hard(name))
    assert (made.num_packs, made.lower_bound, made.listed) == (packs, packs, name == "proven")
    assert PackingPlan.from_json(made.to_json()).verify().listed == made.listed
    assert ("as a list of all packs that matter shows" in repr(made)) == made.listed


def test_a_plan_that_claims_a_list_without_one_is_refused():
    made = plan(hard("found"))
    text = made.to_json().replace('"listed": false', '"listed": true')
    with pytest.raises(ValueError, match="states that a list of packs proves more than its prices"):
        PackingPlan.from_json(text)
    with pytest.raises(ValueError, match="listed must be True or False, not 1"):
        PackingPlan.from_json(made.to_json().replace('"listed": false', '"listed": 1'))


@pytest.mark.parametrize("packs", [20, 40])
@pytest.mark.parametrize("seed", range(2))
def test_full_packs_of_three_are_found(packs, seed):
    assert plan(triplets(packs, seed), 1000).num_packs == packs


def full_packs(packs, top, seed):
    """Three lengths to each full pack, all of them different and at least a fifth of it; shape (3 * packs,)."""
    rng, lengths = np.random.default_rng([seed, packs]), set()
    while len(lengths) < 3 * packs:
        first, second = rng.integers(top // 5, top // 2, 2).tolist()
        pack = {first, second, top - first - second}
        if len(pack | lengths) == len(lengths) + 3 and min(pack) >= top // 5:
            lengths |= pack
    return np.array(sorted(lengths))


@pytest.mark.parametrize("seed", [0, 3])
def test_dives_among_listed_packs_find_67_full_packs(seed):
    """Neither the other dives with their exchanges find them, nor one integer program over all listed packs."""
    assert plan(full_packs(67, 2500, seed), 2500).num_packs == 67


@given(st.integers(0, 20), st.integers(4, 12))
@settings(max_examples=40, deadline=None)
def test_what_dives_choose_holds_every_sequence_once(seed, packs):
    counts = np.bincount(full_packs(packs, 1000, seed), minlength=1001)
    knapsack = solve_knapsack(np.where(counts > 0, np.arange(1001), NOT_FOR_SALE), None)
    listed = knapsack.packs_worth(1000, counts, 10_000)
    found = dive_among(listed, counts, packs, seed, lambda: math.inf)
    assert dive_among(listed, counts, packs, seed, lambda: 0.0) is None
    if found is not None:
        assert sum(n for _, n in found) == packs and all(sum(lengths) == 1000 for lengths, _ in found)
        assert np.array_equal(np.bincount(sum((lengths * n for lengths, n in found), ()), minlength=1001), counts)


def test_a_program_without_time_or_packs_says_so():
    counts = np.array([0, 0, 1])
    assert choose([((2, 1),)], counts, 1, 10, 0.0) is None
    assert choose([], counts, 1, 10, math.inf) == []
    assert choose([((2, 1),)], counts, 1, 10) == [((2,), 1)]
