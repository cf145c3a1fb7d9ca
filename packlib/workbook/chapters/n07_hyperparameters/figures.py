"""What notebook 07 draws: updates and recipes, and a recorded run beside what counting tokens reaches."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from packlib.training import Recipe
from packlib.workbook.chapters.shared.recorded_figures import draw_intervals
from packlib.workbook.chapters.shared.recorded_runs import Interval
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, series


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


PALE = "#BBDDF5"  # the interval behind a line in the color of packs


def draw_learning(ax: Axes, found: dict[str, tuple], baselines: dict[str, float]) -> None:
    """The loss of each arm, the mean of its seeds, over thousands of sequences; what counting reaches as gray lines."""
    lines = {}
    for (arm, (x, y)), look in zip(found.items(), (series("unpacked"), series("packed")), strict=True):
        (line,) = ax.plot(x / 1000, y.mean(0), **{**look, "marker": ""})
        lines[line] = arm
    for name, loss in baselines.items():
        (line,) = ax.plot([0, x[-1] / 1000], [loss, loss], color="#777777", linestyle="--", linewidth=1.5)
        lines[line] = name
    ax.set(xlabel="sequences, thousands", ylabel="held-out loss")
    label_ends(lines)


def draw_difference(ax: Axes, x: np.ndarray, found: list[Interval]) -> None:
    """The mean difference at each evaluation and its interval; 0 is a dotted line."""
    mean, half = (np.array([getattr(one, name) for one in found]) for name in ("mean", "half"))
    ax.fill_between(x / 1000, mean - half, mean + half, color=PALE, linewidth=0, antialiased=False)
    ax.plot(x / 1000, mean, **{**series("packed"), "marker": ""})
    ax.axhline(0, **{**series("unpacked"), "marker": "", "linewidth": 1.5})
    ax.set(xlabel="sequences, thousands", ylabel="difference, 95 % interval")


_ORDER = {  # as the picture names the arms, from what divides to what scales the rate
    "divided, as many updates": "divided, as many updates",
    "divided": "divided",
    "nothing adjusted": "nothing adjusted",
    "betas": "betas to the power of k",
    "square-root rate": "rate × √k",
    "betas and square-root rate": "betas, and rate × √k",
    "linear rate": "rate × k",
}


def all_arms(found: Mapping[str, Mapping[str, tuple[Interval, int]]]) -> tuple[Figure, str]:
    """A panel for each optimizer: how far each way to adjust ends from padded rows, with its updates; and alt text."""
    fig, axes = new_figure(1, 2, sharey=True)
    listed = []
    for ax, (optimizer, arms) in zip(axes, found.items(), strict=True):
        rows = {f"{name} ({arms[arm][1]})": arms[arm][0] for arm, name in _ORDER.items()}
        draw_intervals(ax, rows)
        ax.set_title(optimizer, fontsize=13)
        ax.set_xlabel("loss less padded")
        listed += [f"{optimizer}, {name}: {one}, {one.verdict}" for name, one in rows.items()]
    kept = [one for arms in found.values() for arm, (one, _) in arms.items() if not arm.startswith("divided")]
    higher = sum(one.verdict == "higher" for one in kept)
    title = f"{higher} of {len(kept)} arms that keep the large batch end above padded rows"
    axes[0].set_ylabel("in brackets: updates")
    fig.suptitle(title, x=0.02, ha="left", fontsize=15)
    what = "Held-out loss at the end less that of padded rows, five pairs of seeds; in brackets the updates of an arm"
    return fig, f"{title}. {what}. {'; '.join(listed)}."


def draw_memory(ax: Axes, kept: Mapping[str, tuple[Recipe, Mapping]], oldest: float) -> None:
    """The weight of past sequences in Adam's first moment, for recipes with their looks, by name."""
    for label, (recipe, look) in kept.items():
        ages = np.arange(0, oldest, recipe.sequences_per_update)
        weights = 100 * (1 - recipe.betas[0]) * recipe.betas[0] ** np.arange(len(ages)) / recipe.sequences_per_update
        ax.step(ages, weights, where="post", **{**look, "marker": ""}, label=f"{label} = {recipe.betas[0]:.3g}")
    ax.legend()
    ax.set(xlabel="sequences ago", ylabel="weight of a sequence in m, %", ylim=(0, None))
