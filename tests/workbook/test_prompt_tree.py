"""Notebook 16: what its figures count."""

import pytest

from packlib.packing import pack_groups
from packlib.workbook.chapters.n16_shared_prompts import runs


def test_the_formula_counts_what_rows_hold():
    for prompt, answer, number in ((250, 3000, 8), (9, 4, 3), (1, 1, 2)):
        rows = pack_groups([prompt], [[answer] * number], 1 << 17)
        assert runs.times_fewer(prompt, answer, number) == pytest.approx(rows.unshared_tokens / rows.tokens)
