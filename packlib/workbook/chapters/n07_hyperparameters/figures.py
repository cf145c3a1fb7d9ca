"""What notebook 07 draws: updates and recipes, and recorded runs over the spread of seeds."""

import re

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from packlib.training import Recipe
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, series


def draw_updates(ax: Axes, updates: dict[str, list[np.ndarray]]) -> None:
    """Each update as a strip of micro-batches, each of segment ids (rows, slots); neighbors differ in color."""
    colors = np.array([to_rgb(color) for color in (PADDING, *OKABE_ITO[:3])])
    most = max(map(len, updates.values()))
    for strip, (label, parts) in enumerate(updates.items()):
        for place, ids in enumerate(parts):
            ids = ids[:, :: max(1, ids.shape[1] // 256)]  # finer than the picture
            left, right, bottom, top = place + 0.03, place + 0.97, strip + 0.98, strip + 0.28
            picture = colors[np.where(ids > 0, (ids - 1) % 3 + 1, 0)]
            ax.imshow(picture, extent=(left, right, bottom, top), aspect="auto")
        ax.text(0.03, strip + 0.22, label, va="bottom")
    ax.set(xlim=(0, most), ylim=(len(updates), 0))
    ax.axis("off")


def draw_recipes(ax: Axes, before: Recipe, after: Recipe) -> None:
    """Two recipes as a table; what differs is bold and marked."""
    rows = {
        "accumulation": lambda r: f"{r.gradient_accumulation_steps:,}",
        "sequences/update": lambda r: f"{r.sequences_per_update:,.0f}",
        "updates": lambda r: f"{r.total_steps:,}",
        "beta 1": lambda r: f"{r.betas[0]:.4g}",
        "beta 2": lambda r: f"{r.betas[1]:.4g}",
        "rate": lambda r: f"{r.learning_rate:.3g}",
    }
    for x, text in ((0.66, "before"), (1, "after")):
        ax.text(x, 0, text, ha="right", color=INK)
    for at, (name, value) in enumerate(rows.items(), 1):
        old, new = value(before), value(after)
        ax.text(0, at, name)
        ax.text(0.66, at, old, ha="right")
        ax.text(1, at, f"▸ {new}" if new != old else new, ha="right", weight="bold" if new != old else "normal")
    ax.set(xlim=(0, 1), ylim=(len(rows) + 0.5, -0.7))
    ax.axis("off")


BAND = "#d9d9d9"  # the range of the padded seeds
LOOKS = {
    "padded": series("unpacked"),
    "packed, accumulation divided": series("packed"),
    "packed, even updates": series("sorted"),
    "packed, betas adjusted": series("buckets"),
    "packed, rate doubled": series("random"),
    "packed, nothing adjusted": series("megabatches"),
    "packed, batch doubled": series("next_fit"),
}


def draw_band(ax: Axes, x: np.ndarray, y: np.ndarray, base: np.ndarray | float = 0.0) -> Line2D:
    """The padded run: the range of its seeds as a band, their mean as a line; less `base`, where given."""
    ax.fill_between(x, y.min(0) - base, y.max(0) - base, color=BAND, linewidth=0, antialiased=False)
    look = {**LOOKS["padded"], "marker": "", "color": INK}
    return ax.plot(x, y.mean(0) - base, **look)[0]


def draw_curves(
    ax: Axes, found: dict[str, tuple], arms: dict[str, str], at_end: bool = True, unit: float = 1000
) -> None:
    """The mean curve of each of `arms`, with the text given at its end, or in a legend; padded with its band."""
    lines = {}
    for arm, label in arms.items():
        x, y = found[arm]
        if arm == "padded":
            line = draw_band(ax, x / unit, y)
        else:
            (line,) = ax.plot(x / unit, y.mean(0), **{**LOOKS[arm], "marker": "", "linewidth": 2})
        lines[line] = label
    if at_end:
        label_ends(lines)
    else:
        ax.legend(list(lines), list(lines.values()))


def draw_differences(ax: Axes, found: dict[str, tuple], arm: str, unit: float = 1000) -> None:
    """Each seed's distance from the mean of the padded seeds, over sequences, on the padded seeds' band."""
    (base_x, base_y), (x, y) = found["padded"], found[arm]
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
    for ax, title in ((decay, "Weight decay"), (warm, "Warm-up"), (missing, "Missing"), (batch, "Growing batch")):
        ax.set_title(title, fontsize=13, pad=6)
