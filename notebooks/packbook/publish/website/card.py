"""The picture that other sites show beside a link to ours: the same sequences padded, and packed."""

from pathlib import Path

import numpy as np

from packbook.figures import INK, OKABE_ITO, PADDING, new_figure, styled
from packlib.files import atomic_path
from packlib.lengths import LengthHistogram, load
from packlib.packing import plan

SIZE = 1200, 630  # width and height in pixels that sites which show such pictures ask for
SLOTS_A_ROW = 512  # the usual row length of the data set Wikipedia


def drawn_sequences(count: int = 24, seed: int = 0) -> tuple[np.ndarray, list[list[int]]]:
    """Draw sequences as long as Wikipedia's at random, and pack them into the fewest packs.

    Returns:
        Their lengths, shape (count,); and for each pack the indices of its sequences.
    """
    wikipedia = load("wikipedia")
    shares = wikipedia.counts / wikipedia.num_sequences
    lengths = np.random.default_rng(seed).choice(len(shares), count, p=shares)
    best = plan(LengthHistogram.from_lengths(lengths, SLOTS_A_ROW), method="optimal")
    return lengths, [pack.tolist() for pack in best.assign(lengths)]


@styled()
def draw_card(path: Path) -> None:
    """Write the picture as PNG."""
    lengths, packs = drawn_sequences()
    fig, (padded, packed) = new_figure(1, 2, sharey=True)
    fig.set_size_inches(SIZE[0] / fig.dpi, SIZE[1] / fig.dpi)
    headline = "Train on sequences of every length\nwithout paying for padding"
    fig.suptitle(headline, fontsize=34, color=INK, x=0.01, ha="left")
    one_a_row = [[sequence] for sequence in range(len(lengths))]
    for axes, rows, name in ((padded, one_a_row, "padded"), (packed, packs, "packed")):
        axes.barh(range(len(rows)), SLOTS_A_ROW, color=PADDING)
        for row_number, row in enumerate(rows):
            starts = np.cumsum(lengths[row]) - lengths[row]
            look = {"color": OKABE_ITO[0], "edgecolor": "white", "linewidth": 1.5}
            axes.barh(row_number, lengths[row], left=starts, **look)
        axes.set_title(f"{name}: {len(rows)} rows", fontsize=26, color=INK, loc="left")
        axes.set_axis_off()
    padded.invert_yaxis()
    with atomic_path(path) as temporary_path:
        fig.savefig(temporary_path, format="png", dpi=fig.dpi, facecolor="white", bbox_inches=None)
