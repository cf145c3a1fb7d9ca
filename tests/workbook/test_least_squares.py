"""Notebook 03: what its prose says of all of Wikipedia is what was recorded."""

from pathlib import Path

import nbformat

from packlib.advisor.records import recorded

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_nnls_packing.ipynb"


def test_the_prose_says_what_was_recorded():
    packs = {row["way"]: row["packs"] for row in recorded("packing_nnls").rows}
    best, down = packs["optimal"], packs["NNLSHP, rounded down"]
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    prose = " ".join(" ".join(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
    assert f"some {round(down - best, -3):,} packs above the best, or {100 * (down / best - 1):.2f} %" in prose
    assert packs["extended NNLSHP, rounded down"] - best == 2 and "comes within two packs" in prose
    assert f"by {packs['NNLSHP, rounded to the nearest'] - down} packs of eight million" in prose
    assert round(best, -6) == 8_000_000
