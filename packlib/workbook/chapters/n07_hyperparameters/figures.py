"""What notebook 07 draws: updates and recipes, and recorded runs."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from packlib.training import Recipe
from packlib.workbook.chapters.shared.recorded_figures import draw_intervals
from packlib.workbook.chapters.shared.recorded_runs import Interval
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, series, show
from packlib.workbook.results import show_recorded


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


PALE = "#BBDDF5"  # the interval behind a line in the color of packs


def show_divided(found: Mapping[str, tuple], x: np.ndarray, differences: list[Interval]) -> None:
    """Padded runs and those with divided accumulation: their mean loss, beside what counting reaches; and less."""
    show_recorded("curves-lamb", "runs")
    counted = [row for row in show_recorded("baselines", "runs") if row["text"] == "docstrings"]
    fig, (left, right) = new_figure(1, 2)
    lines = {}
    for name, arm, style in (("padded", "padded", "unpacked"), ("packed", "divided", "packed")):
        sequences, losses = found[arm]
        (line,) = left.plot(sequences / 1000, losses.mean(0), **{**series(style), "marker": ""})
        lines[line] = f"{name} {losses[:, -1].mean():.2f}"
    for row in counted:
        gray = {"color": "#777777", "linestyle": "--", "linewidth": 1.5, "marker": ""}
        lines[left.plot([0, x[-1] / 1000], [row["loss"]] * 2, **gray)[0]] = f"{row['baseline']} {row['loss']:.2f}"
    left.set(xlabel="sequences, thousands", ylabel="held-out loss")
    label_ends(lines)
    left.set_title("Mean of five seeds", fontsize=13)
    mean, half = (np.array([getattr(one, name) for one in differences]) for name in ("mean", "half"))
    right.fill_between(x / 1000, mean - half, mean + half, color=PALE, linewidth=0, antialiased=False)
    right.plot(x / 1000, mean, **{**series("packed"), "marker": ""})
    right.axhline(0, **{**series("unpacked"), "marker": "", "linewidth": 1.5})
    right.set(xlabel="sequences, thousands", ylabel="difference, 95 % interval")
    right.set_title("Packed less padded", fontsize=13)
    alt = (
        f"Held-out loss after 12,000 docstrings: {', '.join(lines.values())}. Packed less padded: {differences[-1]}, "
    )
    show(fig, alt=f"{alt}{differences[-1].verdict}.", name="divided")


_ORDER = {  # as the picture names the arms, from what divides to what scales the rate
    "divided, as many updates": "divided, as many updates",
    "divided": "divided",
    "nothing adjusted": "nothing adjusted",
    "betas": "betas to the power of k",
    "square-root rate": "rate × √k",
    "betas and square-root rate": "betas, and rate × √k",
    "linear rate": "rate × k",
}


def show_arms(found: Mapping[str, Mapping[str, tuple[Interval, int]]]) -> None:
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
    kept = [one for arms in found.values() for arm, (one, _) in arms.items() if not arm.startswith("divided")]
    higher = sum(one.verdict == "higher" for one in kept)
    title = f"{higher} of {len(kept)} arms that keep the large batch end above padded rows"
    axes[0].set_ylabel("in brackets: updates")
    fig.suptitle(title)
    what = "Held-out loss at the end less that of padded rows, five pairs of seeds; in brackets the updates of an arm"
    show(fig, alt=f"{title}. {what}. {'; '.join(listed)}.", name="all-arms")


def show_memory(padded: Recipe, packed: Recipe, adjusted: Recipe, mark: Callable[..., None]) -> None:
    """The weight of past sequences in the first moment of three recipes, with the guess that `mark` draws."""
    looks = {
        "padded, β": (padded, series("unpacked")),
        "packed, β": (packed, {"color": INK, "linestyle": "--"}),
        "packed, β to the k": (adjusted, series("packed")),
    }
    fig, ax = new_figure()
    for label, (recipe, look) in looks.items():
        beta, update = recipe.betas[0], recipe.sequences_per_update
        ages = np.arange(0, 5 * padded.half_lives[0], update)
        weights = 100 * (1 - beta) * beta ** np.arange(len(ages)) / update
        ax.step(ages, weights, where="post", **{**look, "marker": ""}, label=f"{label} = {beta:.3g}")
    ax.legend()
    ax.set(xlabel="sequences ago", ylabel="weight of a sequence in m, %", ylim=(0, None))
    ax.set_title("β to the power of k remembers as far back as before")
    mark(ax, "half_life")
    listed = "; ".join(f"{label} {recipe.half_lives[0]:,.0f}" for label, (recipe, _) in looks.items())
    show(fig, alt=f"Weights of past sequences in m. Sequences until they halve: {listed}.", name="memory")
