"""Plans of every method: exact, verified, written and read; and tampering that must be seen."""

import os
import subprocess
import sys
from itertools import chain
from math import ceil, gcd

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, FAST, fewest_packs, histograms

from packlib.lengths import LengthHistogram
from packlib.packing import METHODS, PRICE_OF_A_PACK, PackingPlan, certified_bound, plan


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(histogram=histograms(largest=16), depth=st.sampled_from(DEPTHS), data=st.data())
def test_every_method_packs_every_sequence_once(method, histogram, depth, data):
    if method not in FAST:
        depth = min(depth or 3, 3)
    made = plan(histogram, method=method, max_sequences_per_pack=depth)
    packs = [lengths for lengths, n in zip(made.strategies, made.repeats, strict=True) for _ in range(n)]
    assert sorted(chain(*packs)) == histogram.expand().tolist() and len(packs) == made.num_packs
    assert all(sum(pack) <= histogram.max_length and len(pack) <= (depth or len(pack)) for pack in packs)
    assert -(-histogram.num_tokens // histogram.max_length) <= made.lower_bound <= made.num_packs
    assert made.gap == made.num_packs - made.lower_bound >= 0

    shuffled = data.draw(st.permutations(histogram.expand().tolist()))
    again = plan(
        LengthHistogram.from_lengths(shuffled, histogram.max_length), method=method, max_sequences_per_pack=depth
    )
    assert again.to_json() == made.to_json()  # deterministic, and the order of the data does not matter


def thresholds(lengths, top, depth):
    """The direct bound, a sequence and a threshold at a time."""
    unit = gcd(*lengths)  # a pack is filled in steps of it
    lengths, top = [length // unit for length in lengths], top // unit
    best = sum(2 * length > top for length in lengths)
    for short in range(1, top // 2 + 1):
        alone = [length for length in lengths if length > top - short]
        rest = [length for length in lengths if short <= length <= top - short]
        best = max(best, len(alone) + ceil(sum(rest) / top), len(alone) + ceil(len(rest) / (depth or len(lengths))))
    return best


@settings(max_examples=200)
@given(histograms(largest=14, most=9), st.sampled_from(DEPTHS))
def test_what_sums_prove_is_true_and_knows_depth_and_long_sequences(histogram, depth):
    lengths, top = histogram.expand().tolist(), histogram.max_length
    bound = plan(histogram, method="unpacked", max_sequences_per_pack=depth).lower_bound
    assert bound == thresholds(lengths, top, depth) <= fewest_packs(lengths, top, depth)
    longs = sum(2 * length > top for length in lengths)
    assert bound >= max(ceil(sum(lengths) / top), ceil(len(lengths) / (depth or len(lengths))), longs)
    assert plan(histogram, method="lpfhp", max_sequences_per_pack=depth).lower_bound == bound


@pytest.mark.parametrize("method", FAST)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(histogram=histograms(largest=10), unit=st.integers(1, 9), beside=st.integers(0, 8))
def test_lengths_with_a_common_divisor_are_packed_and_proven_as_without(method, histogram, unit, beside):
    """A row of 70 tokens holds no more sequences of 8, 16 and 24 tokens than one of 64."""
    top = histogram.max_length
    wide = np.zeros(top * unit + beside % unit + 1, int)
    wide[: top * unit + 1 : unit] = histogram.counts
    plain, made = (
        plan(histogram, method=method, max_sequences_per_pack=3),
        plan(LengthHistogram(wide), method=method, max_sequences_per_pack=3),
    )
    assert (made.num_packs, made.lower_bound) == (plain.num_packs, plain.lower_bound)


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_beyond_every_pack_is_none(method):
    histogram = LengthHistogram.from_lengths([7, 6, 5, 4, 3, 2, 2, 1, 1, 1, 5, 5], 8)
    deepest = plan(histogram, method=method, max_sequences_per_pack=8)
    for limit in (sys.maxsize, 10**30):
        made = plan(histogram, method=method, max_sequences_per_pack=limit).verify()
        assert made.strategies == deepest.strategies and made.lower_bound >= 5


TIGHT = """
import resource
import numpy as np
from packlib.packing import certified_bound, plan

resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, -1))
made = plan(np.repeat([6, 9], [65_533, 2]), 131_072)
counts, prices = np.zeros((2, 131_073), int)
counts[[11, 101]], prices[[11, 101]] = (30_000, 20_000), (1 << 24, 1 << 28)
print(made.num_packs, made.gap, certified_bound(counts, prices, 3500))
"""


def test_a_plan_fits_in_two_gigabytes():
    """Few short lengths in long rows, without a depth limit and with thousands of sequences a pack."""
    done = subprocess.run([sys.executable, "-c", TIGHT], capture_output=True, text=True, check=True)
    assert done.stdout == "4 0 17\n"


def test_prices_that_overflow_are_refused():
    """2^23 sequences of length 1 and a price of 2^38 each: a pack would be worth 2^61."""
    counts, prices = np.zeros((2, 2**23 + 1), np.int64)
    counts[[1, -1]], prices[1] = 1, PRICE_OF_A_PACK
    with pytest.raises(ValueError, match=r"leave every pack worth at most 2\^60; here one can be worth 2305843"):
        certified_bound(counts, prices, None)
    assert certified_bound(counts, prices, 8) == 1
    prices[1] = 1 << 30
    assert certified_bound(counts, prices, None) == 1


def example():
    return plan(
        LengthHistogram.from_lengths([7, 6, 5, 4, 3, 2, 2, 1, 1, 1], 8), method="optimal", max_sequences_per_pack=3
    )


def test_numbers_of_a_plan():
    made = example()
    assert (made.num_packs, made.lower_bound, made.gap) == (4, 4, 0)
    assert made.efficiency == 1.0 and made.packing_factor == 2.5 and made.deepest <= 3
    assert "4 packs" in repr(made) and repr(made).endswith("at most 0 packs above the best)")
    assert "svg" in made._repr_html_()


def test_sums_that_wrap_around_in_64_bits_are_seen():
    four = LengthHistogram([0, 4])
    for repeats in ([2**62] * 4 + [4], [2**63 - 1, 2**63 - 1, 6]):
        cut = range(len(repeats) + 1)
        with pytest.raises(ValueError, match=f"packs {sum(repeats)} sequences of length 1; there are 4"):
            PackingPlan(four, [1] * len(repeats), cut, repeats, "wrapped")


_ONE_BY_ONE = {"next_fit"}  # methods that take sequences one by one, and refuse more than they can


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("counts", [[0, 2**63 - 1], [0, 2**62 - 1, 0, 2**60], [0, 1, 3, 2**60 + 1, 5, 0, 0]])
def test_counts_up_to_64_bits_are_packed_exactly_or_refused(method, counts):
    """The sums are Python's, which do not wrap."""
    try:
        made = plan(LengthHistogram(counts), method=method, max_sequences_per_pack=3)
    except ValueError as refusal:
        assert method in _ONE_BY_ONE and "one by one, at most" in str(refusal)
        return
    packed, repeats = [0] * len(counts), made.repeats.tolist()
    for strategy, packs in zip(made.strategies, repeats, strict=True):
        assert packs > 0 and sum(strategy) < len(counts) and len(strategy) <= 3
        for length in strategy:
            packed[length] += packs
    assert packed == counts and made.num_packs == sum(repeats)
    assert made.lower_bound <= made.num_packs <= sum(counts)
    if method == "optimal":
        assert made.gap == 0


@pytest.mark.parametrize("claimed", [3, 5])
def test_a_bound_that_is_not_proven_is_seen(claimed):
    made = example()
    object.__setattr__(made, "lower_bound", claimed)
    with pytest.raises(ValueError, match="not proven"):
        made.verify()


@given(histograms(), st.sampled_from(["lpfhp", "optimal"]), st.sampled_from(DEPTHS))
@settings(max_examples=30)
def test_json_there_and_back(tmp_path_factory, histogram, method, depth):
    made = plan(histogram, method=method, max_sequences_per_pack=depth)
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    made.save(path)
    assert path.read_text() == made.to_json() + "\n"
    for back in PackingPlan.from_json(made.to_json()), PackingPlan.load(path):
        assert back.to_json() == made.to_json() and back.histogram == histogram and back.gap == made.gap
    assert [path.name for path in path.parent.iterdir()] == ["plan.json"]
    with pytest.raises(FileNotFoundError):
        PackingPlan.load(path.with_name("missing.json"))


LISTS = "[[7, 1], [6, 2], [5, 2, 1], [4, 3, 1]]"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[[7, 1]", "[[7.9, 1]", "Length 7.9 at position 0 is not a whole number."),
        ('"lengths": [1, 2', '"lengths": [2, 2', "must ascend from 1 to at most 8."),
        (
            "PackingPlan 4",
            "PackingPlan 5",
            "format must be 'packlib.PackingPlan 4', not 'packlib.PackingPlan 5'",
        ),
        (
            "[[7, 1], [6, 2], [5, 2, 1], [4, 3, 1]]",
            "[]",
            "The offsets of the plan do not cut its items into strategies.",
        ),
        (
            "[[7, 1], [6, 2], [5, 2, 1], [4, 3, 1]]",
            "7",
            "strategies must be a list of lists of lengths, but it holds 7.",
        ),
        ('"lower_bound": 4', '"lower_bound": 3', "It states other packs or another bound"),
        ('"repeats"', '"repeat"', "did you mean 'repeats'"),
        ('"proof"', '"extra": 1, "proof"', "not 'extra'"),
        ('"proof"', '"repeats": [1], "proof"', "The name 'repeats' comes twice."),
        ('"truncated": 0', '"truncated": NaN', "NaN is no number."),
        ("[[", "[" * 100_000, "It is nested too deeply."),
    ],
)
def test_what_a_file_holds_is_taken_exactly_or_refused(tmp_path, old, new, says):
    path, text = tmp_path / "plan.json", example().to_json()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=f"{path} is no packing plan: ") as refusal:
        PackingPlan.load(path)
    assert says in str(refusal.value)
    with pytest.raises(ValueError, match=r"^The text is no packing plan: "):
        PackingPlan.from_json(path.read_text())


def test_files_that_are_no_text_or_far_too_large_are_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(ValueError, match="is no packing plan: 'utf-8' codec"):
        PackingPlan.load(path)
    os.truncate(path, (1 << 30) + 1)  # a hole on the disk
    with pytest.raises(ValueError, match="It has 1,073,741,825 bytes; at most 1,073,741,824 are read"):
        PackingPlan.load(path)
    with pytest.raises(ValueError, match=r"A plan must be a JSON object, not \[1, 2\]\."):
        PackingPlan.from_json("[1, 2]")
    with pytest.raises(IsADirectoryError, match="a packing plan is needed"):
        PackingPlan.load(tmp_path)
