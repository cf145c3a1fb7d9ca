"""The bound for long rows: the relaxed knapsack never proves too much, and plans come close to what it proves."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_packs, histograms

from packlib.lengths import LengthHistogram
from packlib.lengths.counting import exact_dot
from packlib.packing import plan
from packlib.packing.search import relaxed_knapsack
from packlib.packing.search.best import Best
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound, needs_relaxation
from packlib.packing.search.breakpoint_program import BreakpointProgram, choose_breakpoints
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack
from packlib.packing.search.long_bound import prove_long_rows
from packlib.packing.search.long_packs import follow
from packlib.packing.search.relaxed_knapsack import relaxed_best
from packlib.packing.search.sums import direct_bound


def drawn(kind, top, sequences, seed=0):
    draw = np.random.default_rng(seed)
    if kind == "log-normal":
        lengths = 600 * np.exp(1.2 * draw.standard_normal(sequences))
    else:
        lengths = 100 * (1 + draw.pareto(1.1, sequences))
    return LengthHistogram.from_lengths(np.clip(np.rint(lengths), 1, top).astype(int), top)


def proven(histogram, depth):
    """What prices that are linear between a few lengths prove, with the proof."""
    best = Best(histogram, depth, Deadline())
    prove_long_rows(best)
    return best


@st.composite
def priced_lengths(draw):
    """Prices of all kinds: any, rising, or linear between a few lengths; and which lengths occur."""
    top = draw(st.integers(1, 80))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["any", "rising", "linear"]))
    below = draw(st.sampled_from([4, 1 << 20]))  # small prices differ by 1, which may not be lost either
    if kind == "linear":
        breakpoints = np.unique([0, top, *rng.integers(0, top + 1, 5)])
        slopes = rng.integers(0, below, len(breakpoints) - 1)
        prices = np.concatenate([[0], np.cumsum(np.repeat(slopes, np.diff(breakpoints)))])
    else:
        prices = rng.integers(0, below, top + 1)
        prices = np.sort(prices) if kind == "rising" else prices
    occurs = rng.random(top + 1) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    occurs[0] = False
    occurs[top] |= not occurs.any()
    return prices, occurs


@given(
    priced_lengths(),
    st.sampled_from([None, 1, 2, 3, 5, 16, 40]),
    st.sampled_from([3, 20, 1 << 15]),
    st.sampled_from([0, 64]),
    st.sampled_from([300, 2 * 10**8]),
)
@settings(max_examples=1500, deadline=None)
def test_no_pack_is_worth_more_than_the_relaxed_best(case, depth, finest, all_long, work):
    prices, occurs = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relaxed_knapsack, "_FINEST", finest)
        patch.setattr(relaxed_knapsack, "ALL_LONG", all_long)
        patch.setattr(relaxed_knapsack, "_WORK", work)
        relaxed = relaxed_best(prices, occurs, depth)
    assert relaxed >= solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), depth).best


@given(priced_lengths(), st.sampled_from([None, 1, 2, 3, 5, 16]))
@settings(max_examples=300, deadline=None)
def test_it_is_exact_where_every_length_occurs_and_counts_as_long(case, depth):
    prices, occurs = case
    occurs[1:] = True
    values = np.where(occurs, prices, NOT_FOR_SALE)
    relaxed = relaxed_best(prices, occurs, depth)
    if relaxed_knapsack.deepest(occurs, depth) <= 64:
        assert relaxed == solve_knapsack(values, depth).best


@given(histograms(largest=40, most=9), st.sampled_from(DEPTHS))
@settings(max_examples=150, deadline=None)
def test_no_more_is_proven_than_the_fewest_packs(histogram, depth):
    """And the same each time, which a plan can show again."""
    best, again = proven(histogram, depth), proven(histogram, depth)
    assert best.lower_bound == again.lower_bound
    assert best.lower_bound <= fewest_packs(histogram.expand().tolist(), histogram.max_length, depth)
    if best.proof:
        assert best.proof.bound(histogram.counts, depth) == best.lower_bound > direct_bound(histogram.counts, depth)


CASES = [
    ("log-normal", 4096, None), ("log-normal", 4096, 4), ("log-normal", 4096, 16), ("log-normal", 16384, 11),
    ("Pareto", 4096, 10), ("Pareto", 16384, 33), ("Pareto", 131072, 212),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "top", "depth"), CASES)
def test_plans_meet_their_bound_within_a_percent(kind, top, depth):
    made = plan(drawn(kind, top, 100_000), method="optimal", max_sequences_per_pack=depth, rounds=40)
    assert made.gap <= made.num_packs / 100
    assert made.lower_bound >= direct_bound(made.histogram.counts, depth)


def test_a_mixed_bound_is_better_than_sums_and_recomputed_by_the_exact_knapsack():
    histogram = drawn("Pareto", 1024, 50_000)
    depth = round(1024 * histogram.num_sequences / histogram.num_tokens)
    occurs = histogram.counts > 0
    best = proven(histogram, depth)
    prices = best.proof.prices(histogram.counts, depth)
    worth = exact_dot(histogram.counts[occurs], prices[occurs])
    exact = -(-worth // solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), depth).best)
    relaxed = -(-worth // relaxed_best(prices, occurs, depth))
    assert direct_bound(histogram.counts, depth) * 1.005 < relaxed <= exact == best.lower_bound <= relaxed * 1.0005
    assert plan(histogram, method="lpt", max_sequences_per_pack=depth).num_packs <= exact * 1.01


def test_the_certificate_of_long_rows_is_the_relaxed_one():
    histogram = drawn("Pareto", 131072, 200_000)
    assert needs_relaxation(histogram.counts, 16)
    prices = np.arange(131073) * (PRICE_OF_A_PACK // 131072)
    area = -(-histogram.num_tokens // 131072)
    assert area * 0.999 <= certified_bound(histogram.counts, prices, 16) <= area


@pytest.mark.parametrize(
    ("kind", "top", "sequences", "depth"),
    [("Pareto", 16384, 200_000, 26), ("Pareto", 4096, 100_000, 16), ("log-normal", 4096, 200_000, 4)],
)
def test_the_time_is_kept(kind, top, sequences, depth, monkeypatch):
    """On a clock that goes on by a second whenever it is read: the search reads it before each step, and then ends."""
    histogram, read = drawn(kind, top, sequences), []
    monkeypatch.setattr(time, "perf_counter", lambda: read.append(1) or float(len(read)))
    packs = plan(histogram, method="lpfhp", max_sequences_per_pack=depth).num_packs
    for limit in (0, 5, 20, 60, 3000):
        read.clear()
        made = plan(histogram, method="optimal", max_sequences_per_pack=depth, time_limit=limit)
        assert len(read) <= limit + 3
        assert made.num_packs <= packs
        packs = made.num_packs
    assert packs < plan(histogram, method="lpt", max_sequences_per_pack=depth).num_packs


def test_a_program_that_is_not_solved_in_time_proves_what_sums_do(monkeypatch):
    histogram = drawn("Pareto", 4096, 30_000)
    monkeypatch.setattr("packlib.packing.search.master.MasterProblem.solve", lambda *_: False)
    assert proven(histogram, 16).lower_bound == direct_bound(histogram.counts, 16)


@given(histograms(largest=40, most=200), st.integers(1, 6), st.sampled_from([3, 60]))
@settings(max_examples=100, deadline=None)
def test_no_pack_overflows_on_the_way(histogram, depth, series):
    program = BreakpointProgram(histogram.counts, depth, series)
    program.generate(Deadline(5.0))
    lengths = np.repeat(np.arange(histogram.max_length, -1, -1), histogram.counts[::-1])
    pack_of, packs = follow(program, lengths)
    placed = pack_of >= 0
    assert (np.bincount(pack_of[placed], lengths[placed], packs) <= histogram.max_length).all()
    assert (np.bincount(pack_of[placed], minlength=packs) <= depth).all()


@pytest.mark.parametrize(("seed", "depth"), [(6, 8), (10, 3), (12, 5), (14, 8)])
def test_no_pack_overflows_by_a_token(seed, depth):
    """In rows of 300 slots a longer sequence than planned would often fit but for one token."""
    lengths = 45 * np.exp(1.2 * np.random.default_rng(seed).standard_normal(1000))
    lengths = np.sort(np.clip(lengths, 1, 300).astype(int))[::-1]
    program = BreakpointProgram(np.bincount(lengths, minlength=301), depth, 20)
    program.generate(Deadline(rounds=12))
    pack_of, packs = follow(program, lengths)
    placed = pack_of >= 0
    assert (np.bincount(pack_of[placed], lengths[placed], packs) <= 300).all()


def test_packs_after_the_solution_are_a_better_start_near_the_depth_limit():
    histogram = drawn("log-normal", 4096, 100_000)
    best, before = proven(histogram, 4), plan(histogram, method="lpt", max_sequences_per_pack=4)
    assert best.num_packs - best.lower_bound < (before.num_packs - best.lower_bound) / 4


def test_bad_packs_are_packed_again_where_places_and_slots_are_scarce():
    """Packs after the solution alone end 1.5 % above the bound here."""
    best = proven(drawn("log-normal", 4096, 40_000), 5)
    assert best.num_packs <= 1.002 * best.lower_bound


def test_an_interrupt_keeps_what_packing_again_has_saved(monkeypatch):
    """Packs before it end 0.7 % above the bound here, and so did a search that was interrupted in it."""
    monkeypatch.setattr("packlib.packing.search.optimal._MORE_PATIENCE", 0)  # of refilling, which comes before
    rounds = iter(range(3))

    def interrupt(now):
        if now.stage == "rounding" and next(rounds, None) is None:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="The search was interrupted"):
        made = plan(drawn("log-normal", 4096, 8_000), method="optimal", max_sequences_per_pack=5, progress=interrupt)
    assert made.num_packs <= 1.004 * made.lower_bound


def test_breakpoints_on_whole_numbers_are_not_missed():
    """A power computed as 7.999… on one processor may be 8.000… on another."""
    breakpoints = choose_breakpoints(np.append(0, np.ones(65_536, int)), 65_536, 34, False)
    assert np.isin(2 ** np.arange(1, 16), breakpoints).all()
