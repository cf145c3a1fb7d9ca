"""Notebook 16: what its figures count."""

import pytest

from packlib.packing import pack_groups
from packlib.workbook.chapters.n16_shared_prompts import runs
from packlib.workbook.chapters.n16_shared_prompts.lesson import SharedTree


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
