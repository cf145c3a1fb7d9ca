"""The lines to take home at the end of notebook 06: as a file, in the cells, without packlib, and on other texts."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import torch

import take_home
from packbook.run.running import NOTEBOOKS

FILE = Path(take_home.__file__)
BLOCKED = "import runpy, sys; sys.modules.update(packlib=None, packbook=None)"
BLOCKED += "; runpy.run_path(sys.argv[1], run_name='__main__')"


def statements(source):
    """A script's statements in one form, without its docstring and the question whether it is the main program."""
    body = ast.parse(source).body
    body = body[1:] if isinstance(body[0], ast.Expr) else body
    if isinstance(body[-1], ast.If):
        body[-1:] = body[-1].body
    return [ast.unparse(one) for one in body]


def test_notebook_06_shows_the_file_line_by_line():
    cells = nbformat.read(NOTEBOOKS / "06_unpacking_losses.ipynb", as_version=4).cells
    (first,) = [i for i, cell in enumerate(cells) if "take_home.py" in cell.source]
    (last,) = [i for i, cell in enumerate(cells) if cell.source.startswith("## Explore\n")]
    shown = [cell.source for cell in cells[first:last] if cell.cell_type == "code"]
    assert statements("\n".join(shown)) == statements(FILE.read_text(encoding="utf-8"))


def test_it_runs_without_packlib_and_says_that_all_is_equal():
    told = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(FILE)], check=True, capture_output=True, text=True, timeout=300
    )
    lines = told.stdout.splitlines()
    assert [line.split(": ")[1] for line in lines if " equal to " in line] == ["True"] * 4
    assert "a row of 25 + 12 + 9 tokens, bounds [0, 25, 37, 46]" in lines
    assert not told.stderr


def texts_of(lengths):
    return [[(7 * place + 3 * number) % 100 for place in range(length)] for number, length in enumerate(lengths)]


def compared(lengths, slots, spoil=lambda row: row):
    """How far logits, loss and weights are from those of padded rows, the larger of each."""
    packs = take_home.pack(texts_of(lengths), slots)
    rows, bounds = zip(*map(take_home.flat_row, packs), strict=True)
    flat, padded = take_home.new_model(), take_home.new_model()
    logits, mean, _ = take_home.update(flat, [spoil(dict(row)) for row in rows])
    (alone,), other, _ = take_home.update(padded, [take_home.padded_rows([text for one in packs for text in one])])
    pieces = [row[0, a:b] for row, ends in zip(logits, bounds, strict=True) for a, b in pairwise(ends)]
    apart = max(float((piece - row[: len(piece)]).abs().max()) for piece, row in zip(pieces, alone, strict=True))
    moved = max(
        float((a - b).abs().max().detach()) for a, b in zip(flat.parameters(), padded.parameters(), strict=True)
    )
    return apart, abs(mean - other), moved


@pytest.mark.parametrize(
    ("lengths", "slots"),
    [((5, 3), 8), ((1, 1, 2), 4), ((64, 1, 63, 2), 64), ((7,), 64), ((9, 9, 9, 9, 1), 20), (range(1, 40, 3), 40)],
)
def test_a_step_on_flat_rows_is_that_on_padded_rows(lengths, slots):
    assert max(compared(lengths, slots)) < 1e-10


def run_on(row):
    return row | {"position_ids": torch.arange(row["input_ids"].shape[1])[None]}


def ones(row):
    return row | {"attention_mask": torch.ones_like(row["input_ids"])}


def across(row):
    return row | {"labels": row["input_ids"]}


@pytest.mark.parametrize(("spoil", "which"), [(run_on, 0), (ones, 0), (across, 1)])
def test_positions_that_run_on_a_mask_of_ones_and_labels_across_borders_are_seen(spoil, which):
    assert compared((9, 7, 5), 24, spoil)[which] > 1e-4


def test_packs_hold_each_text_once_and_no_more_than_fits():
    given = texts_of([9, 30, 4, 17, 12, 6, 25, 30])
    packs = take_home.pack(given, 48)
    assert sorted(text for one in packs for text in one) == sorted(given)
    assert max(sum(map(len, one)) for one in packs) <= 48 and len(packs) == 3
    for wrong in ([1] * 49, []):
        with pytest.raises(ValueError, match=f"1 to 48 tokens, not {len(wrong)}"):
            take_home.pack([*given, wrong], 48)
