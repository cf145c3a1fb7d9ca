"""Public faults of loaders are named, and right loaders are not accused."""

import time

import loader_cases as cases
import loader_fourth as fourth
import loader_fresh as fresh
import loader_later as later
import pytest

from packlib import check_loader


@pytest.mark.parametrize("name", cases.RIGHT)
def test_a_right_loader_is_not_accused(name):
    if name.startswith("torchdata"):
        pytest.importorskip("torchdata", reason="torchdata is not installed: the extra test brings it")
    make, options = cases.RIGHT[name]
    before = time.process_time()
    found = check_loader(make, **options)
    assert found.passed, found
    assert time.process_time() - before < 5


FAULTS = {**cases.FAULTS, **later.FAULTS, **fresh.FAULTS, **fourth.FAULTS}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    make, question, cause, options = FAULTS[name]
    before = time.process_time()
    finding = check_loader(make, **options)[question]
    assert finding.verdict == "failed" and cause in finding.cause, finding
    assert time.process_time() - before < 5
