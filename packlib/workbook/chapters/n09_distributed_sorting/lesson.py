"""Notebook 09: sort and pack what no rank holds alone. What the ranks run is in `sorting_ranks`."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from packlib.distributed import deal, load_imbalance
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, OKABE_ITO, new_figure, percent, series
from packlib.workbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "ranks": Whole(2, 16)}
PLAIN, COUNTED = series("random"), series("packed")  # lend their styles


def sample_lengths(histogram: LengthHistogram, ranks: int, each: int, seed: int) -> np.ndarray:
    """Lengths as in the histogram; shape (ranks, samples of a rank)."""
    shares = histogram.counts / histogram.num_sequences
    return np.random.default_rng(seed).choice(len(shares), (ranks, each), p=shares)


def plain_loads(lengths: np.ndarray, samples: int = 100) -> np.ndarray:
    """Rows of each rank after plain sample sort, without moving one; lengths have the shape (ranks, samples of a rank).

    It is `plain_sample_sort` of all ranks in one process.
    """
    ranks, each = lengths.shape
    offers = np.sort(np.sort(lengths)[:, np.arange(samples) * each // samples], axis=None)
    splitters = offers[len(offers) * np.arange(1, ranks) // ranks]
    up_to = np.cumsum(np.bincount(lengths.ravel()))  # rows of each length or less
    return np.diff(up_to[splitters - 1], prepend=0, append=lengths.size)


def halve(shares: Sequence[np.ndarray], place: int) -> tuple[list[tuple[int, int, int, int]], int]:
    """Find the length of row number `place` of the sorted whole, asking the ranks only how many rows they have.

    Returns:
        The rounds: from and to which length the search goes on, the length that is asked about, and how many rows
        are as long or shorter. And the length that is found.
    """
    low, high = min(share.min() for share in shares), max(share.max() for share in shares)
    rounds = []
    while low < high:
        middle = (low + high) // 2
        up_to = sum(int(np.searchsorted(share, middle, "right")) for share in shares)
        rounds.append((int(low), int(high), int(middle), up_to))
        low, high = (low, middle) if up_to > place else (middle + 1, high)
    return rounds, int(low)


def step_loads(seen: Sequence[np.ndarray], batch: int) -> np.ndarray:
    """Tokens of each step and rank, from the lengths in the order that each rank trains on; shape (steps, ranks)."""
    return np.stack([lengths.reshape(-1, batch).sum(axis=1) for lengths in seen], axis=1)


def dealt_loads(plan: PackingPlan, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Packs and tokens of each rank when the packs of a plan are dealt out in turn; shapes (ranks,)."""
    packs = deal(plan, np.arange(ranks), ranks)
    return packs.sum(axis=0), np.add.reduceat(plan.items, plan.offsets[:-1]).astype(np.int64) @ packs


# Figures


def draw_cells(
    ax: Axes, rows: Sequence[np.ndarray], title: str, shades: Sequence | None = None, texts: Sequence | None = None
) -> None:  # fmt: skip
    """A line of cells for each rank: a cell is a sample and says its length, and so does its shade."""
    shades, texts = (rows if other is None else other for other in (shades, texts))
    grid = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, values in zip(grid, shades, strict=True):
        line[: len(values)] = values
    ax.imshow(grid, aspect="auto")
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for (row, column), shade in np.ndenumerate(grid):
        if not np.isnan(shade):
            color = "white" if shade <= middle else INK
            ax.text(column, row, texts[row][column], ha="center", va="center", color=color, fontsize=10)
    ax.set_xticks([])
    ax.set_xticks(np.arange(grid.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.set_yticks(range(len(rows)), [f"rank {rank}" for rank in range(len(rows))], fontsize=10)
    ax.grid(which="minor", color="white", linestyle="-", linewidth=3)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=12)


def draw_six(lengths: np.ndarray, stages: Sequence[dict[str, np.ndarray]]) -> tuple[Figure, str]:
    """The way from a data set to a balanced curriculum, and the imbalance of its steps."""
    pictures = {name: [stage[name] for stage in stages] for name in stages[0]}
    uneven = {name: load_imbalance(step_loads(rows, 1)) for name, rows in pictures.items()}
    fig, axes = new_figure(2, 3)
    axes = axes.ravel()
    draw_cells(axes[0], list(lengths.reshape(2, -1)), "1 Data set")
    axes[0].set_yticks([])
    draw_cells(axes[1], pictures["loaded"], "2 Loaded in turn")
    draw_cells(axes[2], pictures["local"], "3 Local curriculum")
    draw_cells(axes[3], pictures["global"], "4 Global sort")
    places = np.arange(len(lengths)).reshape(len(stages), -1) % len(stages)
    texts = [[f"→ {rank}" for rank in line] for line in places]
    draw_cells(axes[4], pictures["global"], "5 Dealt out in turn", texts=texts)
    draw_cells(axes[5], pictures["dealt"], "6 Balanced")
    for at, name in ((1, "loaded"), (2, "local"), (3, "global"), (5, "dealt")):
        axes[at].set_xlabel(f"imbalance {uneven[name]:.2f}", fontsize=11)
    fig.suptitle("Sort all, then deal out: each step is as fair as can be", x=0.02, ha="left", fontsize=15)
    return fig, (
        f"{len(lengths)} samples on {len(stages)} ranks, a step a column. Imbalance of the steps: loaded in turn "
        f"{uneven['loaded']:.2f}, local curriculum {uneven['local']:.2f}, global sort {uneven['global']:.2f}, "
        f"dealt out in turn {uneven['dealt']:.2f}. After that rank 0 has {', '.join(map(str, pictures['dealt'][0]))}."
    )


def draw_cuts(lengths: np.ndarray, ranks: int) -> tuple[Figure, str]:
    """Rows up to each length, and where the counted cuts meet the curve."""
    counts = np.bincount(lengths)
    shares = np.cumsum(counts) / len(lengths)
    bounds = len(lengths) * np.arange(1, ranks) // ranks
    found = np.sort(lengths)[bounds]
    spike = int(counts.argmax())
    inside = (found == spike) & (bounds > (lengths < spike).sum())
    fig, ax = new_figure()
    ax.plot(np.arange(len(shares)), 100 * shares, color=INK, linestyle="-", drawstyle="steps-post")
    heights = 100 * bounds / len(lengths)
    ax.hlines(heights, 0, found, color="#999999", linestyle=":", linewidth=1.5)
    ax.plot(found, heights, **{**COUNTED, "linestyle": ""}, clip_on=False)
    labels = [f"cut {b}: length {length}" for b, length in enumerate(found, 1)]
    for label, length, height in zip(labels, found, heights, strict=True):
        offset, side = ((-8, 5), "right") if length > len(counts) / 2 else ((8, -12), "left")
        ax.annotate(label, (length, height), offset, textcoords="offset points", ha=side, fontsize=10)
    jump = counts[spike] / len(lengths)
    ax.set(xlabel="length, tokens", ylabel="rows up to this length, %", ylim=(0, 102), xlim=(0, len(counts)))
    title = f"{inside.sum()} of {ranks - 1} cuts in the jump of {percent(jump)}: it must be parted there"
    ax.set_title(title if inside.any() else f"No cut falls into the jump of {percent(jump)}")
    return fig, (
        f"Share of the rows up to each length, and {ranks - 1} cuts at equal distances in height. Lengths at the cuts: "
        f"{', '.join(map(str, found))}. The highest jump, at length {spike}, is {percent(jump)} of the rows; "
        f"{inside.sum()} of the cuts fall into it."
    )


def draw_steps(loads: dict[str, np.ndarray], title: str) -> tuple[Figure, str]:
    """Tokens at each step: from the rank with the least to the rank with the most, one panel for each of `loads`."""
    fig, axes = new_figure(1, len(loads), sharey=True)
    words = []
    for ax, (name, tokens) in zip(axes, loads.items(), strict=True):
        steps = np.arange(1, len(tokens) + 1)
        ax.fill_between(steps, tokens.min(axis=1), tokens.max(axis=1), color=OKABE_ITO[4], alpha=0.6)
        ax.plot(steps, tokens.max(axis=1), **{**PLAIN, "marker": ""}, label="slowest rank")
        ax.plot(steps, tokens.mean(axis=1), color=INK, linestyle="-", label="mean of the ranks")
        words.append(f"{name} {load_imbalance(tokens):.4f}")
        ax.set(xlabel="step", title=f"{name.capitalize()}: {load_imbalance(tokens):.2f}")
        ax.title.set_fontsize(13)
    axes[0].set_ylabel("tokens of a rank")
    axes[-1].legend(loc="lower right")
    fig.suptitle(title, x=0.02, ha="left", fontsize=15)
    return fig, f"Tokens of the ranks at each of {len(tokens)} steps. Imbalance: {', '.join(words)}."


class BucketExplorer(Explorer):
    """Ranks, samples and skew against the rows that each rank ends with."""

    title = "How many rows does each rank end with?"
    most = 64

    def controls(self):
        return {
            "ranks": choice("Ranks", [2, 4, 8, 16, 32, 64], 8),
            "each": choice("Samples of a rank", [16, 64, 256, 1024], 1024),
            "skew": slider("Share of length 512, %", 0, 90, value=25, step=5),
            "offers": choice("Lengths that a rank offers", [1, 4, 16, 100], 100),
        }

    def draw(self, ranks, each, skew, offers) -> tuple[Figure, str]:
        rng = np.random.default_rng(0)
        all_lengths = rng.integers(1, 513, (self.most, each))
        all_lengths[rng.random(all_lengths.shape) < skew / 100] = 512
        loads = plain_loads(all_lengths[:ranks], min(offers, each))
        numbers = [2**k for k in range(1, 7)]
        curve = [load_imbalance(plain_loads(all_lengths[:p], min(offers, each))) for p in numbers]
        uneven = load_imbalance(loads)
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        left.bar(range(ranks), loads, color=PLAIN["color"], label="splitters from samples")
        left.axhline(each, **{**COUNTED, "marker": ""}, label="counted cuts")
        left.set(xlabel="rank", ylabel="rows", ylim=(0, 1.3 * max(loads.max(), each)))
        left.set_title(f"{loads.max():,} rows instead of {each:,}")
        left.legend(loc="upper left")
        right.loglog(numbers, curve, **PLAIN)
        right.loglog(numbers, np.ones(6), **COUNTED)
        right.axvline(ranks, color="#999999", linestyle=":", zorder=0)
        right.set(xlabel="ranks", ylabel="imbalance", ylim=(0.8, 80), title=f"Imbalance {uneven:.2f}")
        right.set_xticks(numbers, numbers)
        right.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        right.minorticks_off()
        return fig, (
            f"{ranks} ranks with {each:,} samples each, {skew} % of them of length 512; a rank offers "
            f"{min(offers, each)} lengths. The fullest rank ends with {loads.max():,} rows, the emptiest with "
            f"{loads.min():,}: imbalance {uneven:.2f}. With counted cuts all have {each:,}."
        )


# Exercises


def buckets(lengths, splitters):
    """How many of the lengths each rank gets. What equals a splitter goes behind it."""
    return [
        sum(sum(s <= x for s in splitters) == rank for x in lengths) for rank in range(len(splitters) + 1)
    ]


def tie_cuts(ties, wanted):
    """`ties[r]` rows of rank r tie at a cut; how many of each go before it, `wanted` in all, in the order of ranks."""
    return [min(max(wanted - sum(ties[:rank]), 0), count) for rank, count in enumerate(ties)]


def uneven_fault(got):
    """Whether 16 lengths, none too often, make plain sample sort give one of 4 ranks at least 7."""
    if len(got) != 16 or any(isinstance(x, bool) or x != int(x) or x < 1 for x in got):
        return "it must be 16 whole numbers of at least 1."
    length, times = Counter(got).most_common(1)[0]
    if times > 4:
        return f"{length} comes {times} times; 4 times is a fair share, and all that is allowed."
    loads = plain_loads(np.array(got, np.int64).reshape(4, 4), samples=4)
    return None if loads.max() >= 7 else f"the ranks end with {', '.join(map(str, loads))} rows; one needs 7."


EXERCISES = Exercises([
    Exercise(
        "buckets", buckets,
        cases=(([1], [2]), ([2], [2]), ([3, 1, 2], [2, 3]), ([5, 5, 5, 1], [5]), ([1, 4, 4, 9], [4, 4, 8])),
        wrong={
            "ties go before": lambda lengths, splitters: buckets(lengths, [s + 1 for s in splitters]),
            "forgets the last rank": lambda lengths, splitters: buckets(lengths, splitters)[:-1],
            "adds up": lambda lengths, splitters: np.cumsum(buckets(lengths, splitters)).tolist(),
        },
        hint="the rank of a length is the number of splitters that are at most as large.",
    ),
    Exercise(
        "tie_cuts", tie_cuts,
        cases=(([2], 1), ([1, 1], 1), ([3, 2, 4], 4), ([0, 5, 1], 5), ([2, 2, 2], 0), ([1, 0, 3, 2], 6)),
        wrong={
            "each gives as many as it can": lambda ties, wanted: [min(wanted, count) for count in ties],
            "the last rank first": lambda ties, wanted: tie_cuts(ties[::-1], wanted)[::-1],
            "all in one piece": lambda ties, wanted: [wanted if count >= wanted else 0 for count in ties],
        },
        hint="a rank gives what is still wanted after the ranks before it, but no less than 0 and no more than it has.",
    ),
    Exercise(
        "uneven", [1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5], fault=uneven_fault,
        wrong={
            "no ties": list(range(1, 17)),
            "four of each": [1, 2, 3, 4] * 4,
            "too often": [1] * 9 + list(range(2, 9)),
            "too few": [1, 2, 2, 2, 2],
        },
        hint="in the sorted list, give the splitter where this rank begins ties on its left, and the next one none.",
    ),
])  # fmt: skip
check = EXERCISES.check
