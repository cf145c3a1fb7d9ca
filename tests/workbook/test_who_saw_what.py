"""The picture of a check of a loader: holes and doubles are where they are."""

import numpy as np

from packbook.n09_distributed_sorting.figures import who_saw_what
from packlib.tools.check import Finding
from packlib.tools.loaders import LoaderCheck


def test_holes_and_doubles_are_drawn_and_counted():
    expected = np.array([1, 1, 2, 1])
    seen = {"epoch 0": np.array([1, 1, 2, 1]), "epoch 1, stopped after step 3": np.array([0, 1, 3, 2])}
    fig, alt = who_saw_what(LoaderCheck((Finding("once", "passed", ""),), "", expected, seen))
    (ax,) = fig.axes
    assert ax.get_title(loc="left") + ax.get_title() == "1 of 2 epochs hold each sequence as often as they should"
    (crosses,) = [line.get_xdata().tolist() for line in ax.lines if len(line.get_xdata())]
    tall = [bar.get_x() + 0.5 for bar in ax.patches if bar.get_height() > 0.8]
    assert crosses == [0] and tall == [2, 3]
    assert "epoch 0: 0 never, 0 too often; epoch 1, stopped after step 3: 1 never, 2 too often" in alt
    assert [text.get_text() for text in ax.texts] == ["0 never, 0 too often", "1 never, 2 too often"]
