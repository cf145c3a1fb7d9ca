"""What notebook 07 draws: updates and recipes, and recorded runs."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from packbook.figures import INK, OKABE_ITO, PADDING, new_figure, show
from packbook.n07_hyperparameters.runs import above_padded
from packbook.results import show_recorded
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Interval
from packlib.training import Recipe


def show_updates(updates: Mapping[str, list[np.ndarray]], factor: float) -> None:
    """Each update as a strip of micro-batches, each of segment ids (rows, slots): a blue piece for each sequence."""
    fig, ax = new_figure()
    for strip, (label, parts) in enumerate(updates.items()):
        for place, ids in enumerate(parts):
            rows, slots = ids.shape
            high, wide = 0.7 / rows, 0.94 / slots
            ax.bar(place + 0.5, -0.7, 0.94, strip + 0.98, color=PADDING)
            row, end = np.nonzero(np.diff(ids, axis=1, append=0) * (ids > 0))  # where a sequence ends
            first = np.diff(row, prepend=-1) > 0  # in its row
            start = np.where(first, 0, np.roll(end, 1) + 1)
            x, y = place + 0.03 + wide * start, strip + 0.28 + high * row
            right, below = place + 0.03 + wide * (end + 1), y + high
            corners = np.stack([x, y, x, below, right, below, right, y], axis=1).reshape(-1, 4, 2)
            colors = np.where(ids[row, end] % 2, OKABE_ITO[0], OKABE_ITO[4])
            ax.add_collection(PolyCollection(corners, fc=colors, edgecolor="white", linewidth=min(0.8, 12 / rows)))
        ax.text(0.03, strip + 0.22, label, va="bottom")
    ax.set(xlim=(0, max(map(len, updates.values()))), ylim=(len(updates), 0))
    ax.axis("off")
    ax.set_title("One update: rows stay, sequences do not" if factor > 1 else "One update")
    show(fig, alt=f"The rows of one update, real lengths. {'; '.join(updates)}.", name="one-update")


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


_ORDER = {  # as the picture names the arms, from what divides to what scales the rate
    "divided, as many updates": "divided, as many updates",
    "divided": "divided",
    "nothing adjusted": "nothing adjusted",
    "betas": "betas to the power of k",
    "square-root rate": "rate × √k",
    "betas and square-root rate": "betas, and rate × √k",
    "linear rate": "rate × k",
}


def show_arms(found: dict[str, dict[str, tuple[Interval, int]]]) -> None:
    """A panel for each optimizer: how far each way to adjust ends from padded rows, with its updates."""
    fig, axes = new_figure(1, 2, sharey=True)
    listed = []
    for ax, (optimizer, arms) in zip(axes, found.items(), strict=True):
        show_recorded(f"curves-{optimizer.lower()}", "runs")
        rows = {f"{name} ({arms[arm][1]})": arms[arm][0] for arm, name in _ORDER.items()}
        draw_intervals(ax, rows)
        ax.set_title(optimizer, fontsize=13)
        ax.set_xlabel("loss less padded")
        listed += [f"{optimizer}, {name}: {one}, {one.verdict}" for name, one in rows.items()]
    higher = above_padded(found)
    title = f"{sum(higher)} of {len(higher)} arms that keep the large batch end above padded rows"
    axes[0].set_ylabel("in parentheses: updates")
    fig.suptitle(title)
    what = (
        "Held-out loss at the end less that of padded rows, five pairs of seeds; in parentheses the updates of an arm"
    )
    show(fig, alt=f"{title}. {what}. {'; '.join(listed)}.", name="all-arms")
