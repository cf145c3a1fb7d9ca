"""What is tried: calls that end in time, every method, and depths, against the exact answers."""

import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from processes import gone_within

from packlib.advice.advice import WITHIN
from packlib.advice.bounded import Bounded, TimeIsUpError
from packlib.advice.trials import (
    DepthTrial,
    _monotone,
    packs_at,
    recommended,
    rounds,
    try_depths,
    try_methods,
    with_plan,
)
from packlib.lengths import LengthHistogram, load
from packlib.packing import METHODS, plan
from packlib.packing.nnls import num_full_strategies
from packlib.packing.search.master import MasterProblem


@pytest.fixture(scope="module")
def bounded():
    with Bounded() as process:
        yield process


def of(lengths, max_length=None):
    return LengthHistogram.from_lengths(lengths, max_length)


# Calls with a limit


def test_a_bounded_call_returns_raises_and_stops(bounded):
    assert bounded.call(math.gcd, 12, 18, limit=30)[0] == 6
    with pytest.raises(ValueError, match="math domain error"):
        bounded.call(math.sqrt, -1, limit=30)
    result, seconds = bounded.call(sorted, [3, 1, 2], limit=30, reverse=True)
    assert result == [3, 2, 1] and seconds >= 0
    started = time.monotonic()
    with pytest.raises(TimeIsUpError, match=r"stopped after 0.2 seconds"):
        bounded.call(time.sleep, 600, limit=0.2)
    assert time.monotonic() - started < 60
    with pytest.raises(ChildProcessError, match="ended early"):
        bounded.call(os._exit, 1, limit=30)
    assert bounded.call(math.gcd, 12, 18, limit=30)[0] == 6, "a new process takes over"
    os.kill(bounded.call(os.getpid, limit=30)[0], signal.SIGKILL)
    with pytest.raises(ChildProcessError, match="Its process ended early"):  # between two calls
        bounded.call(math.gcd, 12, 18, limit=30)


def test_a_bounded_call_ends_with_a_parent_that_is_killed():
    code = (
        "import os, time\nfrom packlib.advice.bounded import Bounded\nwith Bounded() as process:\n"
        "    print(process.call(os.getpid, limit=60)[0], flush=True)\n    process.call(time.sleep, 600, limit=600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = parent.stdout.readline().strip()
        parent.kill()
    assert pid and gone_within(20, [pid])


def test_advice_in_a_script_does_not_run_the_script_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from packlib.advice import advise\nfrom packlib.lengths import LengthHistogram\n\nprint('once')\n"
        "print(advise(LengthHistogram.from_lengths([3, 5, 8, 2] * 9), patience=1).plan.num_packs)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "once\n21\n", "")


# Trials


@pytest.mark.parametrize("seed", range(6))
def test_the_depth_is_the_smallest_within_reach(bounded, seed):
    rng = np.random.default_rng(seed)
    top = int(rng.integers(8, 64))
    histogram = of(rng.integers(1, 1 + rng.integers(2, top + 1), rng.integers(1, 400)), top)
    limit = [None, 3, 5][seed % 3]
    depths = try_depths(bounded, histogram, limit, WITHIN, patience=20)
    exact = {
        depth: plan(histogram, method="optimal", max_sequences_per_pack=depth) for depth in (*range(1, top + 1), limit)
    }
    assert depths[-1].depth == limit
    for trial in depths:
        assert trial.bound <= exact[trial.depth].num_packs <= trial.packs <= trial.greedy
        assert trial.packs <= (1 + WITHIN / 10) * exact[trial.depth].num_packs
        assert trial.greedy == plan(histogram, method="lpfhp", max_sequences_per_pack=trial.depth).num_packs
    most = math.floor((1 + WITHIN) * depths[-1].packs)
    wanted = min(depth for depth, best in exact.items() if depth and best.num_packs <= most)
    assert recommended(depths, WITHIN) == wanted


def test_packs_never_rise_and_bounds_never_rise_with_depth_however_short_the_search(bounded, monkeypatch):
    monkeypatch.setattr("packlib.advice.trials._LEAST", 1e9)  # seconds of a round: there is time for none
    depths = try_depths(bounded, load("docstrings", 256), None, WITHIN, patience=5)
    packs, bounds = [trial.packs for trial in depths], [trial.bound for trial in depths]
    assert packs == sorted(packs, reverse=True) and bounds == sorted(bounds, reverse=True)
    for trial in depths:
        assert (
            trial.packs <= plan(load("docstrings", 256), method="lpfhp", max_sequences_per_pack=trial.depth).num_packs
        )
        assert trial.gave_up == (trial.packs > (1 + WITHIN / 10) * trial.bound)
    assert any(trial.gave_up for trial in depths)


def test_a_smaller_depths_plan_is_used_where_it_is_better():
    known = {2: DepthTrial(2, 50, 50, 50), 3: DepthTrial(3, 40, 30, 41), 4: DepthTrial(4, 44, 31, 44)}
    *_, three, four, best = _monotone(known, DepthTrial(None, 42, 29, 42), 0.1)
    assert (three.packs, four.packs, best.packs) == (40, 40, 40)
    assert (three.bound, four.bound, best.bound) == (31, 31, 29) and four.greedy == 44 and four.gave_up


def test_the_plan_at_the_recommended_depth_is_known_of_all_deeper_ones():
    depths = tuple(DepthTrial(d, packs, 30, 50, True) for d, packs in ((2, 50), (3, 41), (4, 40), (None, 40)))
    made = plan(of([4, 3, 3] * 39, 10), method="optimal", max_sequences_per_pack=3)
    assert made.num_packs == made.lower_bound == 39
    two, three, four, last = with_plan(depths, 3, made, WITHIN)
    assert (two.packs, three.packs, four.packs, last.packs) == (50, 39, 39, 39)
    assert (two.bound, three.bound, last.bound) == (39, 39, 30) and two.gave_up and not three.gave_up
    alone = (DepthTrial(1, 117, 117, 117),)
    assert with_plan(alone, 1, plan(made.histogram, method="lpfhp", max_sequences_per_pack=1), WITHIN) == alone


def test_a_slow_machine_finds_the_same_plan(bounded, monkeypatch):
    histogram = load("docstrings", 128)
    asked = [rounds(histogram, depth, 5) for depth in (None, 4, 8)]
    assert asked == sorted(asked, reverse=True) and rounds(histogram, 4, 50) >= 10 * asked[1]
    quick, solve = packs_at(histogram, 4, 0, 6), MasterProblem.solve
    monkeypatch.setattr(MasterProblem, "solve", lambda *given: time.sleep(0.05) or solve(*given))
    assert packs_at(histogram, 4, 0, 6) == quick


def test_every_method_answers_or_says_why_not(bounded):
    histogram = load("wordnet-pairs", 48)
    trials, best = try_methods(bounded, histogram, 3, patience=30)
    assert [trial.method for trial in trials] == list(METHODS)
    bound = plan(histogram, method="optimal", max_sequences_per_pack=3).lower_bound
    for trial in trials:
        assert trial.packs == plan(histogram, method=trial.method, max_sequences_per_pack=3).num_packs, trial
        assert trial.gap == trial.packs - bound and trial.seconds > 0 and not trial.reason
    assert best.method == "optimal" and best.num_packs == min(trial.packs for trial in trials)


@pytest.mark.parametrize("begun", [False, True])
def test_what_takes_too_long_is_stopped_or_not_begun(bounded, monkeypatch, begun):
    said = "16,279,552 sequences, one after the other: too many for 1 s"
    if begun:
        monkeypatch.setattr("packlib.advice.trials._ONE_BY_ONE", {})
        said = "stopped after 1 s; 16,279,552 sequences of up to 512 tokens"
    wikipedia = load("wikipedia")
    trials, best = try_methods(bounded, wikipedia, 3, patience=1)
    by_name = {trial.method: trial for trial in trials}
    columns = num_full_strategies(512, 3)
    assert by_name["next_fit"].reason == said
    assert by_name["nnlshp"].reason == by_name["ennlshp"].reason == f"{columns:,} columns: too many for 1 s"
    assert all(trial.packs is None or not trial.reason for trial in trials) and best.histogram == wikipedia


def test_the_seed_reaches_the_methods_that_are_random(bounded):
    histogram = load("docstrings", 64)
    found = [try_methods(bounded, histogram, 4, patience=30, seed=seed)[0][1].packs for seed in (0, 1)]
    assert found == [
        plan(histogram, method="next_fit", max_sequences_per_pack=4, seed=seed).num_packs for seed in (0, 1)
    ]
