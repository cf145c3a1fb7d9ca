"""The picture of the README: sequences padded, and packed. `python -m tests.cover README.svg`"""

import sys
from pathlib import Path

import numpy as np

from packlib.files import write_text
from packlib.lengths import LengthHistogram, load
from packlib.packing import assign, plan
from packlib.workbook.exits import exit_code
from packlib.workbook.figures import PADDING, new_figure, percent, series, svg


def draw_cover(rows: int = 24, seed: int = 0) -> tuple:
    """A figure of `rows` Wikipedia-like sequences, padded and packed, and its alt text."""
    wikipedia = load("wikipedia")
    shares = wikipedia.counts / wikipedia.num_sequences
    lengths = np.random.default_rng(seed).choice(len(shares), rows, p=shares)
    best = plan(LengthHistogram.from_lengths(lengths, wikipedia.max_length), method="optimal")
    packs = [lengths[pack].tolist() for pack in assign(best, lengths)]
    fig, axes = new_figure(1, 2, sharey=True)
    groupings = {"padded": [[n] for n in lengths.tolist()], "packed": packs}
    for ax, (title, groups) in zip(axes, groupings.items(), strict=True):
        empty = 1 - lengths.sum() / (len(groups) * wikipedia.max_length)
        ax.barh(range(len(groups)), wikipedia.max_length, height=0.8, color=PADDING)
        for row, group in enumerate(groups):
            starts, color = np.cumsum([0, *group[:-1]]), series("packed")["color"]
            ax.barh([row] * len(group), group, left=starts, height=0.8, color=color, edgecolor="white")
        title = f"{title}: {len(groups)} rows, {percent(empty, 0)} empty"
        ax.set(title=title, xlabel="slots", xlim=(0, 512), yticks=[])
        ax.spines["left"].set_visible(False)
    axes[0].invert_yaxis()
    return fig, (
        f"The same {rows} sequences twice: padded to {wikipedia.max_length} slots they take {rows} rows that are "
        f"half empty; packed they take {len(packs)} rows that are nearly full."
    )


def main(path: Path) -> None:
    """Write the picture."""
    write_text(path, svg(*draw_cover()))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(Path(sys.argv[1]))))
