"""`check_packing` on labels that a loss leaves out by its own rule."""

import check_fifth as fifth
from check_cases import SEGMENTS, Tiny, dense
from check_reports import SHORT
from check_table import checked
from torch import nn


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


def test_groups_that_are_left_out_of_the_count_are_no_company():
    """The smaller batch is then without a gradient, and says nothing of the mean."""
    found = checked(fifth.grouped(filtered=True, without=(0,)))
    assert found["mean"].verdict == "passed" and "gradients fit a mean over tokens" in found["mean"].evidence, found


class BalancedHeads(fifth.Heads):
    """Heads that look ahead, each divided by its own targets, and a balance of experts over the batch."""

    def __init__(self):
        super().__init__("own")
        self.router = nn.Linear(24, 4)

    def _loss(self, logits, labels, segments, items):
        share = self.router(3 * self.states).softmax(-1)[segments > 0].mean(0)
        return super()._loss(logits, labels, segments, items) + 0.4 * (share * share).sum()


def test_what_passes_through_no_head_is_not_taken_for_heads():
    found = checked((BalancedHeads(), dense(**SEGMENTS), SHORT))["mean"]
    assert found.verdict == "inconclusive" and "balances experts" in found.evidence, found
