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


def test_a_group_without_advantage_is_not_asked_what_it_weighs_if_no_step_is_given():
    model, collate, rows, options = fifth.grouped(without=(0,))
    found = checked((model, collate, rows, {"group": options["group"]}))
    assert found.exact is True and "has no gradient alone" in found.not_asked["accumulation"], found


class Picking(Tiny):
    """Learns no token whose id is a multiple of 3, and counts it."""

    def _loss(self, logits, labels, segments, items):
        target = fifth.next_labels(labels)
        each = fifth.entropies(logits, target)
        return (each * (target % 3 > 0)).sum() / (target != -100).sum()


def learning_prompts(rows):
    return dense(**SEGMENTS)([{**row, "labels": row["input_ids"]} for row in rows])


def test_of_lost_labels_and_learned_prompts_the_lost_labels_are_named():
    found = checked((Picking("attention"), learning_prompts, SHORT))
    assert "labels are lost or belong to other tokens" in found["labels"].cause, found
