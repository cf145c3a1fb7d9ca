"""`check_packing` on losses that choose what they learn from: labels without a gradient, groups without advantages."""

import check_fifth as fifth
import pytest
from check_cases import SEGMENTS, Tiny, dense
from check_reports import SHORT
from check_table import checked


@pytest.mark.parametrize("name", fifth.RIGHT, ids=lambda name: name.replace(" ", "_"))
def test_what_is_right_raises_no_alarm(name):
    found = checked(fifth.RIGHT[name]())
    assert found.exact is True, found


@pytest.mark.parametrize("name", fifth.FAULTS, ids=lambda name: name.replace(" ", "_"))
def test_a_fault_is_found_and_its_cause_named(name):
    case, question, words = fifth.FAULTS[name]
    found = checked(case())[question]
    assert found.verdict == "failed" and words in found.cause, found


@pytest.mark.parametrize("name", fifth.OPEN, ids=lambda name: name.replace(" ", "_"))
def test_what_a_call_cannot_tell_is_inconclusive_and_says_why(name):
    case, question, words = fifth.OPEN[name]
    found = checked(case())
    assert found.exact is None and found[question].verdict == "inconclusive", found
    assert words in found[question].evidence, found


def test_a_rule_by_length_is_told_to_the_check_by_labels():
    """As the sentence says: with -100 in the data nothing is left out."""
    told = [row if len(row["input_ids"]) <= 15 else {**row, "labels": [-100] * len(row["labels"])} for row in SHORT]
    found = checked((Tiny("attention"), fifth.of_lengths(0, 15), told))
    assert found["labels"].verdict == "passed", found


def test_a_choice_by_scores_says_how_many_labels_it_leaves_out():
    found = checked((fifth.Selective(), dense(**SEGMENTS), SHORT))["labels"]
    assert "with other scores they have one" in found.evidence, found
