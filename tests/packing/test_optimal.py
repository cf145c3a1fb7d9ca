"""The optimal packer against an integer program over all packs, its bounds, and what the papers' sets give."""

import itertools
import math
import os
import sys
import time
from collections import Counter
from functools import partialmethod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_by_integer_program, histograms
from tqdm import tqdm

from packlib.lengths import LengthHistogram, load, log_normal
from packlib.packing import PRICE_OF_A_PACK, PackingPlan, plan
from packlib.packing.filling import fill_places
from packlib.packing.greedy import lpfhp
from packlib.packing.proofs import Prices, Sums
from packlib.packing.search import solver
from packlib.packing.search.best import Best
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.exact import ExactProgram
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.optimal import prove_exactly, round_exactly, search
from packlib.packing.search.starts import start


def drawn(pool, top, sequences):
    rng = np.random.default_rng(1)
    return LengthHistogram.from_lengths(rng.choice(pool(rng), sequences), top)


LOG_NORMAL = drawn(lambda rng: np.clip(rng.lognormal(7.8, 1.0, 5000), 1, 4096).astype(int), 4096, 5000)
THOUSAND = drawn(lambda rng: rng.integers(200, 16_385, 1000), 16_384, 20_000)


def counted(counts, top=24):
    histogram = np.zeros(top + 1, np.int64)
    histogram[list(counts)] = [*counts.values()]
    return LengthHistogram(histogram)


def times(histogram, factor):
    return LengthHistogram(histogram.counts * factor, max_length=histogram.max_length)


INSTANCES = 2000 if os.environ.get("PACKLIB_ALL") else 200


@pytest.mark.parametrize("part", range(4))
def test_optimal_needs_as_few_packs_as_an_integer_program(part):
    """Between long and short sequences, few and many, with and without a depth limit."""
    rng = np.random.default_rng(part)
    for _ in range(INSTANCES // 4):
        top = int(rng.integers(6, 41))
        shortest = int(rng.integers(max(1, top // 8), top // 3 + 2))
        counts = np.zeros(top + 1, np.int64)
        lengths = rng.integers(shortest, top + 1, rng.integers(2, 8))
        np.add.at(counts, lengths, rng.integers(1, rng.choice([4, 60]), len(lengths)))
        depth = rng.choice([2, 3, 4, None])
        made = plan(LengthHistogram(counts), method="optimal", max_sequences_per_pack=depth)
        fewest = fewest_by_integer_program(made.histogram.counts, depth)
        assert made.lower_bound <= fewest == made.num_packs, (made.histogram.counts.tolist(), depth)


FEW_LENGTHS = st.dictionaries(st.integers(1, 24), st.integers(1, 10_000), min_size=1, max_size=8)


@given(histograms() | FEW_LENGTHS.map(counted), st.sampled_from(DEPTHS), st.integers(1, 15))
@settings(max_examples=150, deadline=None)
def test_plans_stay_within_a_pack_of_the_bound_and_as_near_with_more_of_each_length(histogram, depth, k):
    factor = min(10**k, (2**63 - 1) // histogram.num_tokens)
    small, large = (
        plan(histogram, method="optimal", max_sequences_per_pack=depth),
        plan(times(histogram, factor), method="optimal", max_sequences_per_pack=depth),
    )
    assert 0 <= small.gap <= 1 and large.gap * small.num_packs <= small.gap * large.num_packs
    assert small.num_packs <= plan(histogram, method="lpfhp", max_sequences_per_pack=depth).num_packs
    assert large.num_packs <= factor * small.num_packs and large.lower_bound <= factor * small.lower_bound


@given(st.dictionaries(st.integers(1, 30), st.integers(0, 57), min_size=1, max_size=9), st.sampled_from(DEPTHS))
@settings(max_examples=60, deadline=None)
def test_rare_lengths_beside_very_frequent_ones_are_seen(powers, depth):
    """From one sequence to 10^17 of a length: a solver in floats sees one or the other at a time."""
    histogram = counted({length: 2**power for length, power in powers.items()}, 30)
    assert plan(histogram, method="optimal", max_sequences_per_pack=depth).gap <= 1


def test_prices_that_prove_a_fraction_more_are_kept():
    """They say which packs are too wasteful, though the bound in whole packs is the same."""
    exact = ExactProgram(Best(LengthHistogram.from_lengths([3] * 7, 8), None, Deadline()), [])
    half = np.array([PRICE_OF_A_PACK // 2])
    exact.prove(half, PRICE_OF_A_PACK * 11 // 10)
    exact.prove(half, PRICE_OF_A_PACK)
    assert (exact.best.lower_bound, exact.total_value, exact.best_pack_value) == (4, 7 * int(half[0]), PRICE_OF_A_PACK)


def test_the_best_so_far_gives_way_to_better_ones_alone():
    """A plan to one of fewer packs, a bound to one at least as high."""
    best = Best(LengthHistogram.from_lengths([3] * 3, 8), None, Deadline())
    first, as_good = [((3, 3), 1), ((3,), 1)], [((3,), 1), ((3, 3), 1)]
    assert best.offer(first) and not best.offer(as_good) and best.strategies is first
    proofs = [Sums("tokens", shortest) for shortest in (1, 2, 3)]
    for bound, proof in zip((2, 1, 2), proofs, strict=True):
        best.prove(bound, proof)
        assert best.lower_bound == 2 and best.proof is not proofs[1]
    assert best.proof is proofs[2]


def test_the_solver_is_as_exact_as_its_unit(monkeypatch):
    """Where a million packs are 1 to the solver, four more may be its error, and are no packs that are needed."""
    master = MasterProblem(np.array([0, 0, 1]))
    monkeypatch.setattr(MasterProblem, "objective", 3_000_004.0)
    master.unit = 10**6
    assert master.fewest <= 3_000_000
    master.unit = 1
    assert master.fewest == 3_000_004


def test_a_solver_that_gives_up_is_said(monkeypatch):
    init = MasterProblem.__init__

    def lame(self, counts):
        init(self, counts)
        self._highs.addRow(1.0, np.inf, 0, np.zeros(0, np.int32), np.zeros(0))  # nothing is at least 1

    monkeypatch.setattr(MasterProblem, "__init__", lame)
    squad = load("squad")
    with pytest.warns(RuntimeWarning, match=r"could not solve the linear program \(Infeasible\)"):
        made = plan(squad, method="optimal", max_sequences_per_pack=3)
    assert made.lower_bound <= made.num_packs <= plan(squad, method="lpfhp", max_sequences_per_pack=3).num_packs


def test_deep_packs_are_filled_many_places_at_a_time():
    """One place after the other, this took minutes."""
    filled, left = fill_places([((2,) * 300_000, 2)], np.array([0, 400_000, 450_000]))
    assert filled == [((2,) * 225_000 + (1,) * 75_000, 2)] and left.tolist() == [0, 250_000, 0]


@pytest.mark.parametrize(
    ("name", "depth", "fewest"),
    [
        *[("wikipedia", depth, packs) for depth, packs in ((1, 16_279_552), (2, 10_099_081), (3, 8_143_829))],
        *[("wikipedia", depth, 8_135_727) for depth in (4, 5, 6, 8, 12, 16, None)],
        *[("squad", depth, 40_195) for depth in (3, 4, 8, None)],
    ],
)
def test_the_bounds_of_the_published_histograms_are_met(name, depth, fewest):
    """Each is the linear program's bound, rounded up."""
    made = plan(load(name), method="optimal", max_sequences_per_pack=depth)
    assert (made.num_packs, made.lower_bound) == (fewest, fewest)


@pytest.mark.parametrize("name", ["squad", "wordnet", "wordnet-pairs", "docstrings"])
def test_the_other_sets_at_every_depth(name):
    for depth in DEPTHS:
        assert plan(load(name), method="optimal", max_sequences_per_pack=depth).gap <= 1


@pytest.mark.parametrize(
    ("name", "depth"), [("wikipedia", 4), ("squad", 3), ("docstrings", 5), ("wordnet-pairs", 5), ("wordnet", 8)]
)
def test_these_depths_cost_next_to_nothing(name, depth):
    """What data/benchmarks/README.md says, on the shipped lengths and on a fresh draw from them."""
    counts = load(name).counts
    for drawn in (counts, np.random.default_rng(4).multinomial(counts.sum(), counts / counts.sum())):
        histogram = LengthHistogram(drawn, max_length=len(counts) - 1)
        limited, free, greedy = (
            plan(histogram, method=m, max_sequences_per_pack=d)
            for m, d in (("optimal", depth), ("optimal", None), ("lpfhp", None))
        )
        assert limited.gap == free.gap == 0 and limited.num_packs <= 1.00001 * free.num_packs
        assert 1.0001 < greedy.num_packs / free.num_packs < 1.0135


MILLIONS = {10: 1151, 14: 770, 15: 1319, 18: 245, 23: 992, 31: 1846, 33: 230, 34: 961, 35: 439}
POWERS = {1: 43, 2: 43, 3: 15, 6: 38, 8: 34, 9: 14, 10: 18, 11: 14, 12: 18, 13: 16, 14: 37, 15: 2, 18: 19, 19: 26}


@pytest.mark.parametrize(
    ("histogram", "depth", "rounds"),
    [
        # a data set many times: a whole number of packs at the bound leaves not one token to waste
        *[(times(load("wikipedia"), 10**k), depth, None) for depth, k in ((2, 9), (3, 4), (8, 4), (None, 9))],
        *[(times(load("docstrings"), 10**k), depth, None) for depth, k in ((None, 6), (8, 9))],
        # rounded prices alone prove too little
        (counted({length: 10**9 * count for length, count in MILLIONS.items()}, 42), None, None),
        # counts so far apart that a solver in floats takes what the rare ones need for its own error
        (counted({length: 2**power for length, power in POWERS.items()}, 20), 4, None),
        # prices on few lengths leave some fifty packs above the bound
        (LengthHistogram.from_lengths(load("wikipedia").expand()[::100] * 3 // 2, 768), 48, None),
        (THOUSAND, None, 400),
    ],
)
def test_the_bound_is_met(histogram, depth, rounds):
    assert plan(histogram, method="optimal", max_sequences_per_pack=depth, rounds=rounds).gap == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2048, 5.0, 1.0), (8192, 6.0, 1.2)])
def test_log_normals_of_ten_million_are_packed_to_the_bound(shape):
    made = plan(log_normal(10_000_000, *shape), method="optimal")
    assert made.gap <= made.num_packs * 1e-5


@pytest.mark.parametrize(("name", "depth"), [("squad", 3), ("docstrings", 8)])
def test_no_clock_but_that_of_the_search_ends_its_solver(name, depth, monkeypatch):
    """The limit of HiGHS itself is by the clock on the wall, which a busy machine uses up."""
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)  # no time passes
    within, without = (
        plan(load(name), method="optimal", max_sequences_per_pack=depth, time_limit=limit) for limit in (0.02, None)
    )
    assert within.to_json() == without.to_json()


def test_the_clock_of_the_search_ends_its_solver():
    """In the middle of a linear program, and a second time where it was left."""
    squad, asked = load("squad"), itertools.count()
    master = MasterProblem(squad.counts)
    master.add(tuple(Counter(pack).items()) for pack, _ in lpfhp(squad, 3))
    assert not master.solve(squad.counts, lambda: next(asked) >= 20) and next(asked) < 30
    assert not master.solve(squad.counts, lambda: True)
    assert np.array_equal(master.middle_prices(lambda: True), master.prices)
    assert master.solve(squad.counts) and not np.array_equal(master.middle_prices(), master.prices)


class Terminated(KeyboardInterrupt):
    pass


@pytest.mark.parametrize(("after", "error"), [(0, KeyboardInterrupt), (12, KeyboardInterrupt), (3, Terminated)])
def test_an_interrupt_returns_the_best_so_far_and_a_request_to_terminate_is_obeyed(after, error):
    wikipedia, rounds = load("wikipedia"), iter(range(after))

    def progress(now):
        if next(rounds, None) is None:
            raise error

    if error is Terminated:
        with pytest.raises(Terminated):
            plan(wikipedia, method="optimal", max_sequences_per_pack=3, progress=progress)
        return
    with pytest.warns(RuntimeWarning, match="The search was interrupted: this is the best plan so far"):
        made = plan(wikipedia, method="optimal", max_sequences_per_pack=3, progress=progress)
    assert made.lower_bound < made.num_packs <= plan(wikipedia, method="lpfhp", max_sequences_per_pack=3).num_packs


def test_an_interrupt_inside_the_solver_is_heard_at_once(monkeypatch):
    """And the process goes on: another search solves as before."""
    run = solver.run
    for after in (0, 5, 60, 700):
        asked = itertools.count()

        def interrupted(highs, is_over, asked=asked, after=after):
            def ask():
                if next(asked) == after:
                    raise KeyboardInterrupt
                return is_over()

            return run(highs, ask)

        monkeypatch.setattr("packlib.packing.search.master.run", interrupted)
        with pytest.warns(RuntimeWarning, match="The search was interrupted: this is the best plan so far"):
            made = plan(load("squad"), method="optimal", max_sequences_per_pack=3)
        assert next(asked) == after + 1 and made.lower_bound <= made.num_packs
    monkeypatch.undo()
    assert plan(load("squad"), method="optimal", max_sequences_per_pack=3).gap == 0


def test_an_interrupt_is_raised_where_that_is_asked_for():
    def progress(now):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan(load("squad"), method="optimal", max_sequences_per_pack=3, progress=progress, on_interrupt="raise")
    assert plan([3, 4], 8, "lpfhp", on_interrupt="raise").gap == 0, "other methods raise it anyway"
    with pytest.raises(ValueError, match="on_interrupt must be 'return' or 'raise', not 'rise'"):
        plan([3, 4], 8, "lpfhp", on_interrupt="rise")


def test_progress_is_reported():
    steps = []
    made = plan(load("squad"), method="optimal", max_sequences_per_pack=3, progress=steps.append)
    assert {step.stage for step in steps} == {"pricing", "rounding"}
    assert [s.lower_bound for s in steps] == sorted(s.lower_bound for s in steps)
    assert [s.num_packs for s in steps] == sorted((s.num_packs for s in steps), reverse=True)
    assert str(steps[-1]).endswith(f" s, rounding: {made.num_packs:,} packs, at most 0.0000 % above the best")
    assert steps[-1].num_packs == made.num_packs and steps[-1].lower_bound <= made.lower_bound


@pytest.mark.parametrize(("histogram", "depth"), [(load("docstrings", 256, overlong="truncate"), 4), (LOG_NORMAL, 6)])
def test_progress_that_returns_false_ends_the_search(histogram, depth):
    steps = []
    made = plan(
        histogram,
        method="optimal",
        max_sequences_per_pack=depth,
        progress=lambda now: steps.append(now) or len(steps) < 3,
    )
    assert len(steps) == 3 and made.num_packs == steps[-1].num_packs > made.lower_bound >= steps[-1].lower_bound


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_rounds_end_the_search_at_the_same_plan(rounds, monkeypatch):
    """And what was found before counts."""
    solved = []
    solve = MasterProblem.solve
    monkeypatch.setattr(MasterProblem, "solve", lambda *given: solved.append(1) or solve(*given))
    histogram = load("docstrings", 128, overlong="truncate")
    first, again = (plan(histogram, method="optimal", max_sequences_per_pack=4, rounds=rounds) for _ in range(2))
    assert len(solved) == 2 * rounds and first.to_json() == again.to_json()
    assert first.num_packs >= plan(histogram, method="optimal", max_sequences_per_pack=4).num_packs
    wikipedia = load("wikipedia")
    few, none = (plan(wikipedia, method="optimal", max_sequences_per_pack=3, rounds=some).num_packs for some in (5, 0))
    assert few < 0.995 * none


@given(histograms(largest=40, most=60), st.sampled_from(DEPTHS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_more_rounds_never_give_a_worse_plan(histogram, depth, long):
    """Nor a lower bound: what a short search looks at, a longer one looks at too."""
    packs, bounds = [], []
    for rounds in (0, 1, 2, 3, 5, 8, 9, 17, 40, 100, math.inf):
        best = Best(histogram, depth, Deadline(rounds=rounds))
        with pytest.MonkeyPatch.context() as patch:
            if long:  # as where the tables of all slots are large
                patch.setattr("packlib.packing.search.optimal.needs_relaxation", lambda *given: True)
                patch.setattr("packlib.packing.search.refilling._STEPS_A_ROUND", 1000)
                search(best)
            else:
                exact = ExactProgram(best, start(best, True))
                if prove_exactly(exact):
                    round_exactly(exact)
        packs.append(best.num_packs)
        bounds.append(best.lower_bound)
    assert packs == sorted(packs, reverse=True) and bounds == sorted(bounds)


@pytest.mark.parametrize(
    ("histogram", "depth", "limits"),
    [
        (load("squad"), 3, (0, 30, 60, 100, 300, 1000, None)),
        (LOG_NORMAL, 6, (0, 20, 40, 80, 160, 3000, None)),
        (THOUSAND, None, (0, 20, 40, 80, 160, None)),
    ],
    ids=["squad", "long rows", "a thousand lengths"],
)
def test_more_time_never_gives_a_worse_plan(histogram, depth, limits, monkeypatch):
    """By a clock that goes on a second whenever someone looks at it."""
    packs, bounds = [], []
    for limit in limits:
        ticks = itertools.count()
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda ticks=ticks: float(next(ticks)))
            made = plan(histogram, method="optimal", max_sequences_per_pack=depth, time_limit=limit)
        packs.append(made.num_packs)
        bounds.append(made.lower_bound)
    assert packs == sorted(packs, reverse=True) and bounds == sorted(bounds)
    assert packs[0] <= plan(histogram, method="lpfhp", max_sequences_per_pack=depth).num_packs and len(set(packs)) > 2


@pytest.mark.parametrize(
    ("options", "patience", "seen"),
    [({}, 0, True), ({}, 60, False), ({"progress": False}, 0, False), ({"progress": True}, 60, True)],
)
def test_a_search_is_not_silent_on_a_terminal(options, patience, seen, monkeypatch, capsys):
    every_round = partialmethod(tqdm.__init__, mininterval=0)  # a fast processor ends before a second drawing
    monkeypatch.setattr(tqdm, "__init__", every_round)
    monkeypatch.setattr("packlib.bars.PATIENCE", patience)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    plan(load("squad"), method="optimal", max_sequences_per_pack=3, **options)
    printed = capsys.readouterr().err
    assert ("planning" in printed and "above the best" in printed) == seen


def long_rows_of_few_lengths(seed, lengths, sequences, top, longest):
    draw = np.random.default_rng(seed)
    lengths = np.unique(draw.integers(top // 200 if longest < 0.5 else top // 20, int(top * longest), lengths))
    return LengthHistogram.from_lengths(np.concatenate([lengths, draw.choice(lengths, sequences - len(lengths))]), top)


def test_exact_prices_of_a_few_hundred_lengths_in_very_long_rows_are_used_and_checked():
    """Tables of 10^8 to 10^9 additions: the sums prove a pack less, and the fast methods need two more."""
    histogram = long_rows_of_few_lengths(1, 301, 1101, 340_000, longest=0.7)
    made = plan(histogram, method="optimal")
    assert made.gap == 0 and isinstance(made.proof, Prices)
    assert Sums.strongest(histogram.counts, None).bound(histogram.counts, None) == made.num_packs - 1
    assert PackingPlan.from_json(made.to_json()).verify().num_packs == made.num_packs
    assert plan(histogram, method="lpfhp").num_packs == made.num_packs + 2


def test_long_rows_of_few_lengths_take_a_search_no_longer_than_others():
    """Here rounding once took time by the slots of a row, which no steps counted: 43 CPU seconds for two."""
    histogram = long_rows_of_few_lengths(1, 250, 5000, 131_072, longest=0.3)
    started = time.process_time()
    made = plan(histogram, max_sequences_per_pack=20)
    assert time.process_time() - started < 10
    best = plan(histogram, method="optimal", max_sequences_per_pack=20, rounds=60)
    assert best.gap == 0 and best.num_packs <= made.num_packs
