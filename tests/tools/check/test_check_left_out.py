"""`check_packing` on labels that a loss leaves out by its own rule."""

import check_fifth as fifth
from check_cases import SEGMENTS, Tiny, dense
from check_reports import SHORT
from check_table import checked


def test_a_rule_by_length_is_told_to_the_check_by_labels():
    """As the sentence says: with -100 in the data nothing is left out."""
    told = [row if len(row["input_ids"]) <= 15 else {**row, "labels": [-100] * len(row["labels"])} for row in SHORT]
    found = checked((Tiny("attention"), fifth.of_lengths(0, 15), told))
    assert found["labels"].verdict == "passed", found


def test_a_choice_by_scores_says_how_many_labels_it_leaves_out():
    found = checked((fifth.Selective(), dense(**SEGMENTS), SHORT))["labels"]
    assert "with other scores they have one" in found.evidence, found
