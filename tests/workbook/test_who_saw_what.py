"""The picture of a check of a loader: holes and doubles are where they are."""

import numpy as np
import pytest

from packbook.figures import claim
from packbook.n09_distributed_sorting.figures import who_saw_what
from packlib.tools.check import Finding
from packlib.tools.loaders import LoaderCheck


def test_holes_and_doubles_are_drawn_and_counted():
    expected = np.array([1, 1, 2, 1])
    seen = {"epoch 0": np.array([1, 1, 2, 1]), "epoch 1, stopped after step 3": np.array([0, 1, 3, 2])}
    fig, alt = who_saw_what(LoaderCheck((Finding("once", "passed", ""),), "", expected, seen))
    (ax,) = fig.axes
    assert ax.get_title(loc="left") + ax.get_title() == (
        "1 of 4 sequences never come in epoch 1, stopped after step 3"
    )
    (crosses,) = [line.get_xdata().tolist() for line in ax.lines if len(line.get_xdata())]
    tall = [bar.get_x() + 0.5 for bar in ax.patches if bar.get_height() > 0.5]
    assert crosses == [0] and tall == [2, 3]
    assert "epoch 0: 0 never, 0 too often; epoch 1, stopped after step 3: 1 never, 2 too often" in alt
    assert [text.get_text() for text in ax.texts] == ["complete", "1 never\n2 too often"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["never", "as often as it should", "too often"]


@pytest.mark.parametrize(
    ("counts", "title"),
    [
        ([1, 1, 2, 1], "All 2 epochs hold each sequence as often as they should"),
        ([1, 1, 2, 3], "1 of 4 sequences come too often in epoch 1"),
        ([0, 0, 2, 1], "2 of 4 sequences never come in epoch 1"),
    ],
)
def test_the_title_names_the_epoch_with_the_largest_fault(counts, title):
    expected = np.array([1, 1, 2, 1])
    fig, _ = who_saw_what(LoaderCheck((), "", expected, {"epoch 0": expected, "epoch 1": np.array(counts)}))
    assert claim(fig) == title
