"""What is killed or terminated leaves nothing that matters, and the next run goes on; a dead kernel is a sentence."""

import json
import os
import signal
import time

import pytest
from workbook_cases import gone_within, waiting

from packlib import places
from packlib.workbook import cli

pytest_plugins = ("workbook_cases",)


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("waiting-")]


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [(signal.SIGTERM, 143, "terminated; of what had not ended, nothing was written."),
     (signal.SIGINT, 130, "stopped; of what had not ended, nothing was written.")],
)  # fmt: skip
def test_a_run_that_is_told_to_end_leaves_nothing(small, clone, number, code, says):
    run = clone("run", "1", "-p", "depth", "14", "--no-progress", "--out", "made")
    kernels = waiting(small, 1)
    run.send_signal(number)
    _, said = run.communicate(timeout=30)
    assert said == f"packlib: {says}\n" and run.returncode == code
    assert not files(small) and not (small / "made").exists() and gone_within(5, kernels)


def test_a_run_that_is_killed_is_cleaned_up_by_the_next(small, clone):
    arguments = ["run", "1", "-p", "depth", "14", "--no-progress", "--out", "made"]
    run = clone(*arguments)
    kernels = waiting(small, 1)
    run.kill()
    run.communicate()
    (left,) = (small / "made").iterdir()
    assert left.name == places.WORK and gone_within(10, kernels)
    (small / "go").touch()
    again = clone(*arguments)
    assert again.wait(60) == 0
    assert sorted(path.name for path in (small / "made").iterdir()) == [
        "01_small_steps.html", "01_small_steps.ipynb", "depth.txt", "figures"
    ]  # fmt: skip
