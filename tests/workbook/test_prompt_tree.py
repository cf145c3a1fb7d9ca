"""Notebook 16: right answers in other forms, and what its figures count."""

import numpy as np
import pytest
import torch

from packlib.packing import pack_groups
from packlib.workbook.chapters.n16_shared_prompts import runs
from packlib.workbook.chapters.n16_shared_prompts.lesson import EXERCISES, SharedTree, tree_mask, tree_positions


def by_ancestors(prompt, answers):
    """The mask as what each slot descends from, each after another."""
    ancestors, end = [], []
    for slot in range(prompt - 1):
        ancestors.append([*range(slot + 1)])
    for length in answers:
        end = [*range(prompt - 1)]
        for _ in range(length + 1):
            end.append(len(ancestors))
            ancestors.append([*end])
    return [[int(key in seen) for key in range(len(ancestors))] for seen in ancestors]


@pytest.mark.parametrize(
    "answer",
    [
        by_ancestors,
        lambda *group: np.array(tree_mask(*group)),
        lambda *group: torch.tensor(by_ancestors(*group)).bool(),
    ],
)
def test_the_mask_may_be_lists_arrays_or_tensors(answer):
    assert EXERCISES["tree_mask"].judge(answer).state == "right"


def test_a_wrong_mask_is_told_by_its_first_pair():
    verdict = EXERCISES["tree_mask"].judge(lambda *group: np.tri(len(tree_mask(*group))))
    assert verdict.state == "wrong" and "must not see slot" in verdict.message
    verdict = EXERCISES["tree_mask"].judge(lambda *group: 0.5 * np.array(tree_mask(*group)))
    assert verdict.state == "wrong" and "nothing else" in verdict.message


def test_positions_may_be_an_array():
    assert EXERCISES["tree_positions"].judge(lambda *group: np.array(tree_positions(*group))).state == "right"


def test_the_formula_counts_what_rows_hold():
    for prompt, answer, number in ((250, 3000, 8), (9, 4, 3), (1, 1, 2)):
        rows = pack_groups([prompt], [[answer] * number], 1 << 17)
        assert runs.times_fewer(prompt, answer, number) == pytest.approx(rows.unshared_tokens / rows.tokens)


def test_splitting_never_needs_more_rows_than_whole_groups_where_groups_are_large():
    counted, rows = runs.rows_in_three_ways(*runs.drawn(8000, 1000, 8, 32768, 64, seed=3), 32768)
    assert rows.lower_bound <= len(rows) == counted["split where it pays"] < counted["whole groups"]


def test_the_explorer_counts_pairs_between_answers():
    explorer = SharedTree()
    assert "0 pairs let" in explorer.alt and "22 tokens in place of 36" in explorer.alt
    explorer.widgets["tree"].value = False
    assert "75 pairs let" in explorer.alt  # three times a branch of 5 sees another of 5
