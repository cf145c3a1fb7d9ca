"""Recorded runs as figures: curves over the spread of seeds, and where each seed ended (notebook 07)."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from packlib.workbook.figures import INK, label_ends, series

Rows = list[dict[str, Any]]

PADDED = "padded"
BAND = "#d9d9d9"  # the range of the padded seeds
LOOKS = {
    PADDED: series("unpacked"),
    "packed, accumulation divided": series("packed"),
    "packed, even updates": series("sorted"),
    "packed, betas adjusted": series("buckets"),
    "packed, rate doubled": series("random"),
    "packed, nothing adjusted": series("megabatches"),
    "packed, batch doubled": series("next_fit"),
}


def curves(rows: Rows, y: str = "mlm_loss", x: str = "sequences") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By arm: x, the mean over seeds, shape (evaluations,); and y of each seed, shape (seeds, evaluations)."""
    found: dict[str, dict[int, list]] = {}
    for row in rows:
        found.setdefault(row["arm"], {}).setdefault(row["seed"], []).append((row[x], row[y]))
    points = {arm: np.array(list(seeds.values())) for arm, seeds in found.items()}  # (seeds, evaluations, 2)
    return {arm: (p[..., 0].mean(0), p[..., 1]) for arm, p in points.items()}


def ends(rows: Rows, column: str) -> dict[str, np.ndarray]:
    """By arm: the last value of `column` of each seed."""
    return {arm: y[:, -1] for arm, (_, y) in curves(rows, column).items()}


def spread(values: np.ndarray) -> float:
    """The largest less the smallest."""
    return float(np.ptp(values))


def told(values: np.ndarray, digits: int = 2) -> str:
    """The mean, and the range of the seeds: "5.12 (5.10 to 5.14)"."""
    low, mean, high = (f"{v:.{digits}f}" for v in (values.min(), values.mean(), values.max()))
    return f"{mean} ({low} to {high})" if len(values) > 1 else mean


def fine_tuned(rows: Rows) -> tuple[dict[str, np.ndarray], float, float]:
    """The accuracies of a task's seeds by start and rows, in %; how many times faster packed was; and its factor."""
    groups, seconds = dict[str, list](), {"padded": 0.0, "packed": 0.0}
    for row in rows:
        groups.setdefault(f"{row['start']}, {row['rows']}", []).append(100 * row["accuracy"])
        seconds[row["rows"]] += row["cpu_seconds"]
    order = [f"{start}, {kind}" for start in ("random", "checkpoint") for kind in seconds]
    factor = max(row["packing_factor"] for row in rows)
    return {name: np.array(groups[name]) for name in order}, seconds["padded"] / seconds["packed"], factor


def draw_band(ax: Axes, x: np.ndarray, y: np.ndarray, base: np.ndarray | float = 0.0) -> Line2D:
    """The padded run: the range of its seeds as a band, their mean as a line; less `base`, where given."""
    ax.fill_between(x, y.min(0) - base, y.max(0) - base, color=BAND, linewidth=0, antialiased=False)
    look = {**LOOKS[PADDED], "marker": "", "color": INK}
    return ax.plot(x, y.mean(0) - base, **look)[0]


def draw_curves(
    ax: Axes, found: dict[str, tuple], arms: dict[str, str], at_end: bool = True, unit: float = 1000
) -> None:
    """The mean curve of each of `arms`, with the text given at its end, or in a legend; padded with its band."""
    lines = {}
    for arm, label in arms.items():
        x, y = found[arm]
        if arm == PADDED:
            line = draw_band(ax, x / unit, y)
        else:
            (line,) = ax.plot(x / unit, y.mean(0), **{**LOOKS[arm], "marker": "", "linewidth": 2})
        lines[line] = label
    if at_end:
        label_ends(lines)
    else:
        ax.legend(list(lines), list(lines.values()))


def outside(found: dict[str, tuple], arm: str) -> np.ndarray:
    """How far the mean of the arm's seeds lies outside the range of the padded seeds, at each evaluation."""
    (base_x, base_y), (x, y) = found[PADDED], found[arm]
    low, high = (np.interp(x, base_x, line) for line in (base_y.min(0), base_y.max(0)))
    return np.maximum(0, np.maximum(low - y.mean(0), y.mean(0) - high))


def draw_differences(ax: Axes, found: dict[str, tuple], arm: str, unit: float = 1000) -> None:
    """Each seed's distance from the mean of the padded seeds, over sequences, on the padded seeds' band."""
    (base_x, base_y), (x, y) = found[PADDED], found[arm]
    draw_band(ax, base_x / unit, base_y, base_y.mean(0))
    differences = y - np.interp(x, base_x, base_y.mean(0))
    ax.plot(x / unit, differences.T, **{**LOOKS[arm], "marker": "", "linewidth": 1.5})


def draw_ends(
    ax: Axes, groups: dict[str, np.ndarray], looks: dict[str, dict], yardstick: np.ndarray | None = None
) -> None:
    """A row a group: each seed a point, the mean a bar; behind them the range of the yardstick's seeds."""
    if yardstick is not None:
        ax.axvspan(yardstick.min(), yardstick.max(), color=BAND, linewidth=0)
    for row, (name, values) in enumerate(groups.items()):
        look = {**looks[name], "linestyle": ""}
        ax.plot(values, np.full(len(values), row), **look)
        ax.plot([values.mean()] * 2, [row - 0.28, row + 0.28], color=INK, linewidth=2, linestyle="-")
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def draw_growth(ax: Axes, ended: dict[str, np.ndarray], ways: dict[str, str]) -> None:
    """The ends of runs named "… × 4 …" against that number: a line for each of two ways, a point a seed.

    `ways` holds the label of each way, and what the names of its arms contain.
    """
    drawn = {}
    for (label, part), look in zip(ways.items(), (series("packed"), series("random")), strict=True):
        arms = {int(re.findall(r"× (\d+)", arm)[0]): ended[arm] for arm in ended if part in arm}
        (line,) = ax.plot(list(arms), [values.mean() for values in arms.values()], **{**look, "marker": ""})
        for times, values in arms.items():
            ax.plot(np.full(len(values), times), values, **{**look, "linestyle": "", "markersize": 5})
        drawn[line] = label
    ax.set(xscale="log", xticks=[], xlabel="batch and rate, times the first")
    ax.minorticks_off()
    ax.set_xticks(list(arms), [f"× {times}" for times in arms])
    label_ends(drawn)


def draw_short_experiments(axes: np.ndarray, ended: dict[str, dict[str, np.ndarray]]) -> None:
    """The ends of four experiments in a square: weight decay, warm-up, growing batch, ablations."""
    (decay, warm), (missing, batch) = axes
    looks = [series(name) for name in ("packed", "random", "buckets", "megabatches")]
    for ax, name in ((decay, "weight-decay"), (missing, "ablations")):
        draw_ends(ax, ended[name], dict(zip(ended[name], looks, strict=False)))
    draw_growth(warm, ended["warm-up"], {"with": ", with ", "without": ", without "})
    draw_growth(batch, ended["batch"], {"LAMB": "lamb,", "AdamW": "adamw,"})
    warm.set_xlabel("")
    for ax, title in (
        (decay, "Weight decay"),
        (warm, "Warm-up"),
        (missing, "Missing"),
        (batch, "Growing batch"),
    ):
        ax.set_title(title, fontsize=13, pad=6)
