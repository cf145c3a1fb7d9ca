"""A search for the fewest packs prints nothing, whatever its solver prints of itself."""

import subprocess
import sys

SEARCHES = """
import os
import highspy
import numpy as np

compiled = highspy.Highs.__mro__[1]
set_callback = compiled.setCallback


def print_name_first(self, *given):  # as HiGHS 1.16 does, unless it was told to be silent
    if self.getOptionValue("output_flag")[1]:
        os.write(1, b"Running HiGHS 1.16\\n")
    return set_callback(self, *given)


compiled.setCallback = print_name_first
{heard}
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.packing.search.bound import PRICE_OF_A_PACK
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.whole_packs import choose

found = plan(LengthHistogram.from_lengths([7] * 9 + [5] * 8 + [3] * 7 + [2] * 5, 16))
assert found.gap == 0
counts = found.histogram.counts
program = MasterProblem(counts)
program.add([((7, 2), (2, 1)), ((5, 3),), ((3, 5),)])
assert program.solve(counts) and len(program.middle_prices()) == 4
assert choose([((7, 2),)], np.array([0] * 7 + [2]), 1, 10) == [((7, 7), 1)]
"""


def printed(heard=""):
    done = subprocess.run([sys.executable, "-c", SEARCHES.format(heard=heard)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_search_prints_nothing():
    assert printed() == ""
    assert "Running HiGHS" in printed("highspy.Highs()"), "this test hears a solver that prints its name"
