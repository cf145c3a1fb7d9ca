"""`check_packing` names no cause that is not true beside the true one."""

import re

import check_seventh as seventh
import check_table as table
import pytest


@pytest.mark.parametrize("name", seventh.UNTRUE)
def test_no_cause_is_named_that_is_not_true(name):
    case, question, words = seventh.FAULTS[name]
    found = table.checked(case())
    assert found[question].verdict == "failed" and words in found[question].cause, found
    untrue = [finding for finding in found.findings if re.search(seventh.UNTRUE[name], finding.cause)]
    assert not untrue, found
