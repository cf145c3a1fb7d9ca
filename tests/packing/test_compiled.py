"""Compiled functions: ahead of their use, in a limit of time, and where nothing can be written."""

import os
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytest

from packlib.lengths import LengthHistogram, log_normal
from packlib.packing import Work, assign, balance, context_shards, plan
from packlib.packing.certificate import certified_bound, is_long
from packlib.packing.clock import NotCompiled, limited_to, seconds_left
from packlib.packing.compiled import compiled, main


def test_compiled_code_needs_no_folder_to_write_to(monkeypatch):
    def without_cache(function=None, cache=False):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(function)

    njit = numba.njit
    monkeypatch.setattr(numba, "njit", without_cache)
    assert compiled(lambda x: x + 1)(2) == 3


def test_greedy_planning_does_not_wait_for_the_compiler():
    code = (
        "import sys; from packlib.lengths import load; from packlib.packing import plan; "
        "plan(load('squad'), 'lpfhp', 3); plan(load('squad'), 'optimal', 3, time_limit=0); "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_compiled_yet_is_left_out_where_time_is_limited():
    with limited_to(5), pytest.raises(NotCompiled), pytest.warns(RuntimeWarning, match="no time to compile"):
        compiled(lambda x: x + 2)(2)
    assert seconds_left() == np.inf and compiled(lambda x: x + 2)(2) == 4


def test_a_limit_within_a_limit_gives_no_more_time():
    with limited_to(5):
        with limited_to(60):
            assert seconds_left() <= 5
        with limited_to(1):
            assert seconds_left() <= 1
        assert 1 < seconds_left() <= 5


WITHOUT_CACHE = """
import time, warnings
import numpy as np
from packlib.lengths import LengthHistogram
from packlib.packing import plan
lengths = np.clip(100 * (1 + np.random.default_rng(0).pareto(1.1, 100_000)), 1, 4096).astype(int)
histogram = LengthHistogram.from_lengths(lengths)
warnings.simplefilter("ignore")
started = time.process_time()
made = plan(histogram, "optimal", 16, time_limit=3)
fewer = plan(histogram, "lpfhp", 16).num_packs - made.num_packs
print(time.process_time() - started, made.gap / made.lower_bound, fewer)
"""


def test_the_first_use_on_a_machine_keeps_its_limit_too(tmp_path):
    """Without any machine code the plan is what needs none, and the bound is true."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", WITHOUT_CACHE], check=True, capture_output=True, env=environment)
    seconds, gap, fewer = map(float, ran.stdout.split())
    assert seconds < 3.3 and gap < 0.2 and fewer >= 0
    assert not list(tmp_path.rglob("*.nbc"))


def test_what_is_compiled_ahead_is_all_there_is(monkeypatch):
    """Nothing more can be compiled then, however much time is left."""
    main()
    monkeypatch.setattr("packlib.packing.compiled._COMPILING", 1e9)
    lengths = np.clip(100 * (1 + np.random.default_rng(0).pareto(1.1, 150_000)), 1, 16_384).astype(int)
    histogram = LengthHistogram.from_lengths(lengths)
    assert is_long(histogram.counts, 20)
    with limited_to(1e6), warnings.catch_warnings(action="error"):
        certified_bound(histogram.counts, np.arange(16_385), 20)
        made = plan(histogram, "lpt", 20)
        assert made.gap < plan(histogram, "lpfhp", 20).gap
        packs, work = assign(made, lengths, seed=0), Work(10, 1)
        schedule = balance(packs, lengths, 8, 4, work=work, max_sequences_per_pack=20).verify(lengths)
        context_shards(schedule, lengths, 2, "whole", work=work)
        plan(histogram, "optimal", 20, time_limit=2)
        plan(log_normal(2000, 100, 3.0, 1.0), "optimal", 4, time_limit=2)


SMALL_CASES = """
import numba, numpy as np
from packlib.lengths import LengthHistogram
from packlib.packing import Work, assign, balance, plan
from packlib.packing.clock import limited_to
from packlib.packing.long_rows import LongSearch
from packlib.packing.plans import PackingPlan
from packlib.packing.relaxed_knapsack import relaxed_best
from packlib.packing.swapping import swap_search
assert numba.config.DISABLE_JIT
draw = np.random.default_rng(0)
for case in range(36):
    top = [1, 2, 9, 40, 60, 60][case % 6]
    n = [1, 3, 12, 200, 400, 400][case % 6]
    kinds = draw.lognormal(np.log(top / 7), 1.2, n), top / 40 * (1 + draw.pareto(1.1, n)), draw.uniform(1, top, n)
    lengths = np.clip(np.rint(kinds[case % 3]), 1, top).astype(int)
    histogram = LengthHistogram.from_lengths(lengths, top)
    depth = max(1, round([0.8, 1, 1.2, 0.4][case % 4] * top / lengths.mean()))
    with limited_to([0.05, 0.2, 0.8][case // 2 % 3]):
        search = LongSearch(histogram, depth, None)
        search.lower_bound = 0  # far away: it goes on until the time is up
        search.run()
    made = PackingPlan.from_strategies(histogram, search.best, "", max_sequences_per_pack=depth, prices=search.proof)
    plan(histogram, "lpt", depth)
    relaxed_best(draw.integers(0, 1 << 20, top + 1), histogram.counts > 0, depth)
    packs = assign(made, lengths)
    if len(packs) > 3:
        balance(packs, lengths, 2, work=Work(10, 1))
for seed in range(4):
    swap_search(np.sort(draw.integers(10, 40, 40))[::-1].copy(), 100, 4, 10, 20, seed)
"""


def test_no_loop_leaves_its_arrays():
    """Compiled, a loop that writes beyond an array spoils other memory; as plain Python it stops there."""
    subprocess.run([sys.executable, "-c", SMALL_CASES], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
