"""What proves a plan's bound: the plan alone says it, plain Python checks it, and what was changed is refused."""

import json
from dataclasses import replace
from math import gcd

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, FAST, fewest_packs, histograms

from packlib.lengths import LengthHistogram, load
from packlib.packing import METHODS, PRICE_OF_A_PACK, PackingPlan, certified_bound, plan
from packlib.packing.proofs import Prices, PricesAndList, Sums
from packlib.packing.search.sums import direct_bound

LISTED = plan([44] * 2 + [33] * 3 + [12] * 6, max_length=132)  # a list of packs shows that three are needed


def read(made):
    """All that the check below knows of a plan."""
    raw = json.loads(made.to_json())
    histogram = raw["histogram"]
    return raw, dict(zip(histogram["lengths"], histogram["counts"], strict=True)), histogram["max_length"]


def bound_of_sums(proof, counts, top, depth):
    """One sequence at a time."""
    space = top - top % gcd(*counts)
    left = [length for length, n in counts.items() for _ in range(n) if length >= proof["shortest"]]
    rest = [length for length in left if length + proof["shortest"] <= space]
    alone, (filled, share) = len(left) - len(rest), (sum(rest), space)
    if proof["shared_by"] == "sequences":
        filled, share = len(rest), depth
    return alone + -(-filled // share)


def bound_of_prices(prices, counts, top, depth):
    """All sequences are worth so many times what the best pack is worth."""
    best = [0] * (top + 1)
    for _ in range(min(depth or top, top)):
        before = list(best)
        for length in counts:
            for space in range(length, top + 1):
                best[space] = max(best[space], before[space - length] + prices[length])
    return -(-sum(n * prices[length] for length, n in counts.items()) // best[top])


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histogram=histograms(largest=16), depth=st.sampled_from(DEPTHS))
def test_every_bound_follows_from_what_the_plan_says(method, histogram, depth):
    depth = depth if method in FAST else min(depth or 3, 3)
    made = plan(histogram, method=method, max_sequences_per_pack=depth)
    raw, counts, top = read(made)
    proof, kind = raw["proof"], raw["proof"]["kind"]
    if kind == "sums":
        assert bound_of_sums(proof, counts, top, depth) == made.lower_bound
    else:
        assert bound_of_prices(proof["prices"], counts, top, depth) == made.lower_bound - made.listed
    assert made.listed == (kind == "prices and a list")
    # and whatever it says, prices prove as much
    assert bound_of_prices(made.prices.tolist(), counts, top, depth) >= made.lower_bound - made.listed
    assert made.prices.max() <= PRICE_OF_A_PACK
    assert PackingPlan.from_json(made.to_json()).verify().lower_bound == made.lower_bound


@given(histograms(), st.sampled_from(DEPTHS), st.integers(1, 5))
def test_the_strongest_sums_are_those_that_were_found(histogram, depth, unit):
    """Also where all lengths have a common divisor."""
    counts = np.zeros(unit * histogram.max_length + 1, np.int64)
    counts[::unit] = histogram.counts
    assert Sums.strongest(counts, depth).bound(counts, depth) == direct_bound(counts, depth)


@given(
    histograms(largest=14, most=9),
    st.sampled_from(DEPTHS),
    st.integers(1, 15),
    st.sampled_from(["tokens", "sequences"]),
)
@settings(max_examples=200, deadline=None)
def test_all_sums_prove_what_is_true_and_the_strongest_prove_most(histogram, depth, shortest, shared_by):
    counts, lengths = histogram.counts, histogram.expand().tolist()
    assume(shortest <= max(lengths) and (depth or shared_by == "tokens"))
    proof, strongest = Sums(shared_by, shortest), Sums.strongest(counts, depth)
    raw, by_length = proof.as_dict(), {length: lengths.count(length) for length in lengths}
    bound = proof.bound(counts, depth)
    assert bound == bound_of_sums(raw, by_length, histogram.max_length, depth)
    assert bound <= strongest.bound(counts, depth) <= fewest_packs(lengths, histogram.max_length, depth)
    if proof.prices(counts, depth)[lengths].any():
        assert certified_bound(counts, proof.prices(counts, depth), depth) >= bound


@given(histograms(largest=12, most=8), st.sampled_from(DEPTHS), st.data())
@settings(max_examples=150, deadline=None)
def test_a_file_with_a_changed_proof_is_refused_or_true(histogram, depth, data):
    """Somebody raises prices or changes sums, and states what they would like them to prove."""
    made = plan(histogram, method=data.draw(st.sampled_from(FAST)), max_sequences_per_pack=depth)
    raw = json.loads(made.to_json())
    top = histogram.max_length
    some_prices = st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=top + 1, max_size=top + 1)
    raw["proof"] = data.draw(
        st.one_of(
            st.builds(
                lambda shared_by, shortest: {"kind": "sums", "shared_by": shared_by, "shortest": shortest},
                st.sampled_from(["tokens", "sequences"]),
                st.integers(1, top + 1),
            ),
            st.builds(
                lambda kind, prices: {"kind": kind, "prices": [price * (PRICE_OF_A_PACK // 4) for price in prices]},
                st.sampled_from(["prices", "prices and a list"]),
                some_prices,
            ),
        )
    )
    raw["lower_bound"] = data.draw(st.integers(1, made.num_packs))
    fewest = fewest_packs(histogram.expand().tolist(), top, depth)
    try:
        back = PackingPlan.from_json(json.dumps(raw))
    except ValueError:
        return
    assert back.lower_bound == raw["lower_bound"] <= fewest


def changed(made, **proof):
    raw = json.loads(made.to_json())
    raw["proof"] |= proof
    return json.dumps(raw)


WIKIPEDIA = plan(load("wikipedia"), method="optimal", max_sequences_per_pack=3)
THREES = plan([4, 4, *[3] * 7], 8)  # sums prove four packs, and prices five
BY_TOKENS = plan([7, 6, 5, 4, 3, 2, 2, 1, 1, 1], 8, "lpfhp")


@pytest.mark.parametrize(
    ("made", "change", "says"),
    [
        (WIKIPEDIA, {"prices": [PRICE_OF_A_PACK] * 513}, "another bound than its strategies and proof give"),
        (WIKIPEDIA, {"prices": [price * 2 for price in WIKIPEDIA.prices.tolist()]}, "must be from 0 to 274877906944"),
        (WIKIPEDIA, {"prices": [0] * 513}, "not all 0"),
        (WIKIPEDIA, {"prices": [1, 2]}, "must be 513 prices"),
        (WIKIPEDIA, {"prices": [1.5] * 513}, "Price 1.5 at position 0 is not a whole number"),
        (WIKIPEDIA, {"prices": "all"}, "Prices must be an array or a list of whole numbers, not 'all'"),
        (THREES, {"kind": "prices and a list"}, "a list of packs proves more than its prices; that cannot be shown"),
        (WIKIPEDIA, {"kind": "sums"}, "a name in its JSON must be 'kind', 'shared_by' or 'shortest', not 'prices'"),
        (WIKIPEDIA, {"kind": "trust me"}, "The kind of a proof must be 'sums', 'prices' or 'prices and a list', not"),
        (WIKIPEDIA, {"kind": ["sums"]}, "The kind of a proof must be"),
        (BY_TOKENS, {"shortest": 7}, "another bound than its strategies and proof give"),
        (BY_TOKENS, {"shortest": 9}, "shortest 9 leaves out every sequence; the longest has 7 tokens"),
        (BY_TOKENS, {"shortest": 0}, "shortest must be from 1 to 16777216, not 0"),
        (BY_TOKENS, {"shortest": True}, "shortest must be a whole number"),
        (BY_TOKENS, {"shared_by": "sequences"}, "needs a depth limit; the plan has none"),
        (BY_TOKENS, {"shared_by": "place"}, "shared_by must be 'tokens' or 'sequences', not 'place'"),
        (BY_TOKENS, {"prices": [1]}, "a name in its JSON must be 'kind', 'shared_by' or 'shortest', not 'prices'"),
        (LISTED, {"kind": "prices"}, "another bound than its strategies and proof give"),
    ],
)
def test_a_proof_in_a_file_is_checked_and_named_in_one_sentence(made, change, says):
    with pytest.raises(ValueError, match=r"^The text is no packing plan: ") as refusal:
        PackingPlan.from_json(changed(made, **change))
    assert says in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("proof", [None, 3, [], "sums", {}, {"shortest": 1}])
def test_a_file_without_a_proof_is_refused(proof):
    raw = json.loads(BY_TOKENS.to_json()) | {"proof": proof}
    with pytest.raises(ValueError, match=r"The text is no packing plan: (A|The kind of a) proof must be"):
        PackingPlan.from_json(json.dumps(raw))


def test_a_plan_takes_only_a_proof():
    with pytest.raises(TypeError, match=r"proof must be Sums, Prices or PricesAndList .*, not array"):
        replace(BY_TOKENS, proof=np.ones(9, int))


SETS = ("wikipedia", "squad", "docstrings", "wordnet", "wordnet-pairs", "uniform")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_plan_of_each_shipped_set_says_what_proves_it(name, depth):
    """Of these 36 plans, 27 said nothing: no prices, and not what proves the bound instead."""
    histogram = load(name)
    made = plan(histogram, method="optimal", max_sequences_per_pack=depth)
    assert made.gap == 0 and not made.listed
    assert depth != 1 or made.proof == Sums("sequences")
    assert certified_bound(histogram.counts, made.prices, depth) == made.lower_bound
    assert made.proof.bound(histogram.counts, depth) == made.lower_bound


@pytest.mark.parametrize(
    ("lengths", "depth", "says"),
    [
        ([5, 3, 3, 2, 8], None, "the sum of all tokens"),
        ([1] * 9, 2, "the number of sequences at the depth limit"),
        (
            [5, 5, 5, 6],
            None,
            "sequences that leave no room for one of 4 tokens, and the tokens of other sequences at least so long",
        ),
        (
            [7, 7, 7, 2, 2, 2, 2],
            2,
            "no room for one of 2 tokens, and the number, at the depth limit, of other sequences",
        ),
    ],
)
def test_sums_say_what_they_add(lengths, depth, says):
    made = plan(lengths, 8, "lpfhp", max_sequences_per_pack=depth)
    assert isinstance(made.proof, Sums) and says in str(made.proof)


def test_prices_of_a_linear_program_are_kept_where_sums_prove_as_much():
    for depth in (4, None):
        assert isinstance(plan(load("wikipedia"), method="optimal", max_sequences_per_pack=depth).proof, Prices)


def test_a_list_says_that_it_rests_on_floating_point():
    assert LISTED.listed and isinstance(LISTED.proof, PricesAndList) and LISTED.lower_bound == 3
    assert "HiGHS in floating point" in str(LISTED.proof)
    assert "as HiGHS says in floating point of a list of all packs that matter" in repr(LISTED)
    assert "floating point" not in repr(WIKIPEDIA) + str(WIKIPEDIA.proof)


def test_a_plan_of_another_format_is_refused():
    raw = json.loads(LISTED.to_json())
    with pytest.raises(ValueError, match=r"format must be 'packlib.PackingPlan 4', not 'packlib.PackingPlan 3'"):
        PackingPlan.from_json(json.dumps(raw | {"format": "packlib.PackingPlan 3"}))


def test_sums_are_proofs_for_huge_counts_and_rows():
    """Their prices fit in 64 bits, and a limit need not."""
    for top, depth in ((1 << 22, None), (1 << 22, 8), (512, 10**30)):
        histogram = LengthHistogram.from_lengths([top - 5, 7, 7, 3], top)
        made = plan(histogram, method="lpfhp", max_sequences_per_pack=depth)
        assert made.prices.max() <= PRICE_OF_A_PACK and made.prices.min() >= 0
        assert PackingPlan.from_json(made.to_json()).lower_bound == made.lower_bound == 2


def test_a_plan_whose_proof_was_taken_away_is_refused():
    made = plan([5, 3, 3, 2, 8])
    object.__setattr__(made, "proof", None)
    with pytest.raises(TypeError, match="proof must be Sums, Prices or PricesAndList"):
        made.verify()
