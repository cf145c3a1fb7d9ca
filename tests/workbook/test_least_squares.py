"""Notebook 03: least squares as published, and what its prose says of all of Wikipedia is what was recorded."""

from pathlib import Path

import nbformat
import pytest

from packlib.lengths import load
from packlib.workbook.chapters.n03_nnls_packing.runs import published_result, solve
from packlib.workbook.records import recorded

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_nnls_packing.ipynb"


def test_the_prose_says_what_was_recorded():
    packs = {row["way"]: row["packs"] for row in recorded("packing_nnls").rows}
    best, down = packs["optimal"], packs["NNLSHP, rounded down"]
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    prose = " ".join(" ".join(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
    assert f"some {round(down - best, -3):,} packs above the best, or {100 * (down / best - 1):.2f} %" in prose
    assert packs["extended NNLSHP, rounded down"] - best == 4 and "comes within four packs" in prose
    assert f"the published one stays {round(8_155_059 - best, -3):,} above" in prose
    assert f"by {packs['NNLSHP, rounded to the nearest'] - down} packs of eight million" in prose
    assert round(best, -6) == 8_000_000


@pytest.mark.parametrize(
    ("name", "depth", "published"),
    [("wikipedia", 2, 13_128_311), pytest.param("squad", 3, 40_778, marks=pytest.mark.slow)],
)
def test_rounded_as_published_it_makes_the_published_packs(name, depth, published):
    """61.96 and 97.386 % full; of equally good solutions another one rounds to some packs more or less."""
    histogram = load(name)
    _, _, packs = published_result(histogram, depth, solve(histogram, depth))
    assert packs == pytest.approx(published, abs=4)
