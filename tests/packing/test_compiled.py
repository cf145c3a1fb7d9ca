"""Compiled functions: ahead of their use, in a limit of time, and where nothing can be written."""

import os
import subprocess
import sys

import numba
import numpy as np
from numba.core import event

from packlib.lengths import LengthHistogram, log_normal
from packlib.packing import assign, plan
from packlib.packing.compile_ahead import main
from packlib.packing.compiled import compiled
from packlib.packing.search.bound import certified_bound, is_long
from packlib.packing.search.swapping import swap_search


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
        "plan(load('squad'), method='lpfhp', max_sequences_per_pack=3); "
        "plan(load('squad'), max_sequences_per_pack=3, time_limit=0); "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


FIRST_USE = """
import warnings, numba
from numba.core import event
from packlib.lengths import log_normal
from packlib.packing import plan

@numba.njit
def of_the_user(x):
    return x + 1

class Watch(event.Listener):
    def on_start(self, event):
        inside.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

def tell(now):
    if not told:
        event.register("numba:compile", Watch())
    told.append(of_the_user(now.num_packs))

told, inside = [], []
warnings.simplefilter("error")
made = plan(log_normal(100_000, 2048), max_sequences_per_pack=4, time_limit=9, progress=tell)
of_others = [x for x in event._registered["numba:compile"] if not isinstance(x, Watch)]
print(made.gap, bool(told), *inside, *of_others)
"""


def test_the_first_use_compiles_before_the_clock_and_says_so(tmp_path):
    """The limit is for the search, in which the user's own functions may be compiled, and nothing else is."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        subprocess.run([sys.executable, "-c", FIRST_USE], check=True, capture_output=True, env=environment, text=True)
        for _ in range(2)
    )
    for ran in cold, warm:
        gap, *seen = ran.stdout.split()
        assert int(gap) < 100 and seen == ["True", "of_the_user"]  # 1,419 packs above the bound without the loops
    lines = cold.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("packlib: compiling the loop") for line in lines)
    assert warm.stderr == ""


def test_what_is_compiled_ahead_is_all_there_is(capsys):
    main()
    capsys.readouterr()
    lengths = np.clip(100 * (1 + np.random.default_rng(0).pareto(1.1, 150_000)), 1, 16_384).astype(int)
    histogram = LengthHistogram.from_lengths(lengths)
    assert is_long(histogram.counts, 20)
    with event.install_listener("numba:compile", event.RecordingListener()) as seen:
        certified_bound(histogram.counts, np.arange(16_385), 20)
        made = plan(histogram, method="lpt", max_sequences_per_pack=20)
        assert made.gap < plan(histogram, method="lpfhp", max_sequences_per_pack=20).gap
        assign(made, lengths, seed=0)
        plan(histogram, method="optimal", max_sequences_per_pack=20, time_limit=2)
        plan(log_normal(2000, 100, 3.0, 1.0), method="optimal", max_sequences_per_pack=4, time_limit=2)
        swap_search(np.array([60] * 9 + [41] * 9), 100, 4, 9, 20, 1)
    assert not seen.buffer and capsys.readouterr().err == ""


SMALL_CASES = """
import numba, numpy as np
from packlib.lengths import LengthHistogram
from packlib.packing import assign, plan
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.long_rows import LongSearch
from packlib.packing.plans import PackingPlan
from packlib.packing.search.relaxed_knapsack import relaxed_best
from packlib.packing.search.swapping import swap_search
assert numba.config.DISABLE_JIT
draw = np.random.default_rng(0)
for case in range(36):
    top = [1, 2, 9, 40, 60, 60][case % 6]
    n = [1, 3, 12, 200, 400, 400][case % 6]
    kinds = draw.lognormal(np.log(top / 7), 1.2, n), top / 40 * (1 + draw.pareto(1.1, n)), draw.uniform(1, top, n)
    lengths = np.clip(np.rint(kinds[case % 3]), 1, top).astype(int)
    histogram = LengthHistogram.from_lengths(lengths, top)
    depth = max(1, round([0.8, 1, 1.2, 0.4][case % 4] * top / lengths.mean()))
    search = LongSearch(histogram, depth, None, Deadline([0.05, 0.2, 0.8][case // 2 % 3]))
    search.lower_bound = 0  # far away: it goes on until the time is up
    search.run()
    made = PackingPlan.from_strategies(histogram, search.best, "", max_sequences_per_pack=depth, prices=search.proof)
    plan(histogram, method="lpt", max_sequences_per_pack=depth)
    relaxed_best(draw.integers(0, 1 << 20, top + 1), histogram.counts > 0, depth)
    assign(made, lengths)
for seed in range(4):
    swap_search(np.sort(draw.integers(10, 40, 40))[::-1].copy(), 100, 4, 10, 20, seed)
"""


def test_no_loop_leaves_its_arrays():
    """Compiled, a loop that writes beyond an array spoils other memory; as plain Python it stops there."""
    subprocess.run([sys.executable, "-c", SMALL_CASES], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
