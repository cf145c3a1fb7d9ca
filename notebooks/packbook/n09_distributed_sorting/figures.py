"""What notebook 09 draws: cells, cuts and the steps of the ranks."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packbook.figures import INK, OKABE_ITO, PADDING, label_ends, name_rows, new_figure, plain_ticks, show, styled
from packbook.n09_distributed_sorting.runs import step_loads
from packlib.distributed import load_imbalance
from packlib.tools.loaders import LoaderCheck

PLAIN = {"color": OKABE_ITO[1], "marker": "s", "linestyle": "--"}  # cuts at splitters from samples
COUNTED = {"color": OKABE_ITO[0], "marker": "o", "linestyle": "-"}  # cuts that are counted
# marks of sequences that no rank ever saw
NEVER = {"color": OKABE_ITO[1], "marker": "x", "linestyle": "none", "markersize": 7, "markeredgewidth": 2}


def draw_cells(
    ax: Axes, rows: Sequence[np.ndarray], title: str, shades: Sequence | None = None, texts: Sequence | None = None
) -> None:
    """Draw a line of cells for each rank: a cell is a sample, and its text and its shade say its length.

    Args:
        rows: of each rank, the lengths of its samples.
        shades: other numbers for the shades, in the form of `rows`.
        texts: other texts, in the form of `rows`.
    """
    shades = rows if shades is None else shades
    texts = rows if texts is None else texts
    grid = np.full(
        (len(rows), max(map(len, rows))), np.nan
    )  # lines of different lengths end in NaN, which is not drawn
    for line, values in zip(grid, shades, strict=True):
        line[: len(values)] = values
    colors = ax.imshow(grid, aspect="auto").to_rgba(grid)[..., :3]
    luminance = colors**2.2 @ (0.2126, 0.7152, 0.0722)  # of sRGB, approximately
    for row, column in np.argwhere(~np.isnan(grid)):
        color = "white" if luminance[row, column] < 0.18 else "black"  # each has a contrast of at least 4.5
        ax.text(column, row, texts[row][column], ha="center", va="center", color=color, fontsize=10)
    ax.set_xticks([])
    ax.set_xticks(np.arange(grid.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.set_yticks(range(len(rows)), [f"rank {rank}" for rank in range(len(rows))], fontsize=10)
    ax.grid(which="minor", color="white", linestyle="-", linewidth=3)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=12)


@styled()
def show_six(lengths: np.ndarray, stages: Sequence[dict[str, np.ndarray]]) -> None:
    """Show the stages from a data set to a balanced curriculum, and the imbalance of its training steps.

    Args:
        lengths: of the data set.
        stages: of each rank, its lengths at each stage, as from `six_pictures`.
    """
    pictures = {name: [of_rank[name] for of_rank in stages] for name in stages[0]}  # by stage, of each rank
    imbalance = {name: load_imbalance(step_loads(rows, batch=1)) for name, rows in pictures.items()}
    fig, axes = new_figure(2, 3)
    axes = axes.ravel()
    draw_cells(axes[0], list(lengths.reshape(2, -1)), "1 Data set")
    axes[0].set_yticks([])
    draw_cells(axes[1], pictures["loaded"], "2 Loaded in turn")
    draw_cells(axes[2], pictures["local"], "3 Local curriculum")
    draw_cells(axes[3], pictures["global"], "4 Global sort")
    destinations = np.arange(len(lengths)).reshape(len(stages), -1) % len(stages)  # the rank that gets each sample
    texts = [[f"→ {rank}" for rank in line] for line in destinations]
    draw_cells(axes[4], pictures["global"], "5 Dealt out in turn", texts=texts)
    draw_cells(axes[5], pictures["dealt"], "6 Balanced")
    for ax, name in zip(axes[[1, 2, 3, 5]], ("loaded", "local", "global", "dealt"), strict=True):
        ax.set_xlabel(f"imbalance {imbalance[name]:.2f}", fontsize=11)
    title = f"Sort all, then deal out: imbalance {imbalance['dealt']:.2f} instead of {imbalance['local']:.2f}"
    fig.suptitle(title, fontsize=15)
    alt = (
        f"{len(lengths)} samples on {len(stages)} ranks, a step a column. Imbalance of the steps: loaded in turn "
        f"{imbalance['loaded']:.2f}, local curriculum {imbalance['local']:.2f}, global sort {imbalance['global']:.2f}, "
        f"dealt out in turn {imbalance['dealt']:.2f}. "
        f"After that rank 0 has {', '.join(map(str, pictures['dealt'][0]))}."
    )
    show(fig, alt=alt, name="six-pictures")


@styled()
def show_sample_sort(steps: Sequence[dict[str, np.ndarray]]) -> None:
    """Show the lengths that each rank sends to each rank and ends with; a shade stands for a rank.

    Args:
        steps: of each rank, what it has after each step, as from `plain_sample_sort`.
    """
    local = [of_rank["local"][:, 0] for of_rank in steps]
    destinations = [np.repeat(np.arange(len(steps)), of_rank["counts"]) for of_rank in steps]
    final = [of_rank["sorted"][:, 0] for of_rank in steps]
    owners = [np.full(len(rows), rank) for rank, rows in enumerate(final)]
    fig, axes = new_figure(1, 2)
    draw_cells(axes[0], local, "Sorted and cut", shades=destinations)
    draw_cells(axes[1], final, "Exchanged, and sorted again", shades=owners)
    fig.suptitle("One exchange: pieces of one shade go to one rank", fontsize=15)
    splitters, sent = (", ".join(map(str, steps[0][name])) for name in ("splitters", "counts"))
    alt = (
        f"Sample sort of {sum(map(len, final))} lengths on {len(steps)} ranks; splitters {splitters}. "
        f"Rank 0 sends {sent} rows to ranks 0 to {len(steps) - 1}. "
        f"The ranks end with {', '.join(str(len(rows)) for rows in final)} rows."
    )
    show(fig, alt=alt, name="sample-sort")


@styled()
def show_piling(ranks: Sequence[int], uneven: Sequence[float], jump: float) -> None:
    """Show the imbalance of plain sample sort by the number of ranks.

    Args:
        ranks: how many there are.
        uneven: the imbalance for each number of ranks.
        jump: share of the most frequent length, all of which goes to one rank.
    """
    fig, ax = new_figure()
    (plain,) = ax.loglog(ranks, uneven, **PLAIN)
    (counted,) = ax.loglog(ranks, np.ones(len(ranks)), **COUNTED)
    ax.plot(ranks, [max(1, jump * number) for number in ranks], color="#999999", linestyle=":", zorder=0)
    plain_ticks(ax.xaxis, ranks)
    plain_ticks(ax.yaxis, [1, 10, 100])
    ax.set(xlabel="ranks", ylabel="imbalance")
    ax.set_title(f"With splitters: imbalance {uneven[2]:,.2g} on {ranks[2]} ranks, {uneven[-1]:,.4g} on {ranks[-1]:,}")
    label_ends({plain: "splitters\nfrom samples", counted: "counted cuts"})
    listed = ", ".join(f"{value:,.4g} on {number:,}" for number, value in zip(ranks, uneven, strict=True))
    alt = (
        f"Imbalance of plain sample sort in one process, by the number of ranks: {listed}. With counted cuts it is 1. "
        f"The dotted line is {jump:.3f} times the number of ranks."
    )
    show(fig, alt=alt, name="ties-pile-up")


def show_who_saw_what(found: LoaderCheck) -> None:
    """Show in a notebook what `who_saw_what` draws."""
    fig, alt = who_saw_what(found)
    show(fig, alt=alt, name="who-saw-what")


@styled()
def who_saw_what(found: LoaderCheck) -> tuple[Figure, str]:
    """Draw which sequences all ranks together saw too rarely or too often, a line for each epoch.

    Args:
        found: what `check_loader` found.

    Returns:
        The figure and its alt text.
    """
    num_sequences = len(found.expected)
    holes = {name: np.flatnonzero(counts < found.expected) for name, counts in found.seen.items()}
    doubles = {name: np.flatnonzero(counts > found.expected) for name, counts in found.seen.items()}
    faults = {name: f"{len(holes[name]):,} never, {len(doubles[name]):,} too often" for name in found.seen}
    fig, ax = new_figure()
    for row, name in enumerate(found.seen):
        right = np.setdiff1d(np.arange(num_sequences), np.concatenate([holes[name], doubles[name]]))
        hidden = "_" * row  # the legend leaves out labels that begin so: it names the marks of the first row alone
        ax.bar(right, 0.4, width=1, bottom=row - 0.2, color=PADDING, label=f"{hidden}as often as it should")
        ax.bar(doubles[name], 0.7, width=1, bottom=row - 0.35, color=OKABE_ITO[0], label=f"{hidden}too often")
        rows = np.full(len(holes[name]), row)
        ax.plot(holes[name], rows, **NEVER, clip_on=False, label=f"{hidden}never")
        is_complete = len(holes[name]) + len(doubles[name]) == 0
        words = "complete" if is_complete else faults[name].replace(", ", "\n")
        ax.text(1.03, row, words, transform=ax.get_yaxis_transform(), va="center", color=INK)
    name_rows(ax, [textwrap.fill(name, 16) for name in found.seen], above=1)
    ax.set(xlabel="sequence, in the order of the data", xlim=(-0.5, num_sequences - 0.5))
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="upper left", ncols=3, handlelength=1, borderaxespad=0)
    ax.set_title(_worst_epoch(holes, doubles, num_sequences))
    listed = "; ".join(f"{name}: {words}" for name, words in faults.items())
    return fig, (
        f"A line for each epoch, a column for each of {num_sequences:,} sequences. One that came as often as it "
        f"should is a low gray bar, one that came too often a tall blue bar, one that is missing a cross. {listed}."
    )


def _worst_epoch(holes: dict[str, np.ndarray], doubles: dict[str, np.ndarray], num_sequences: int) -> str:
    """Say for a title which epoch lacks the most sequences, or, if none lacks one, has the most too often."""
    for sequences_by_epoch, fault in ((holes, "never come"), (doubles, "come too often")):
        worst, sequences = max(sequences_by_epoch.items(), key=lambda item: len(item[1]))
        if len(sequences):
            return f"{len(sequences):,} of {num_sequences:,} sequences {fault} in {worst}"
    return f"All {len(holes)} epochs hold each sequence as often as they should"
