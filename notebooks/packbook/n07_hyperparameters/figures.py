"""What notebook 07 draws: updates, recipes and recorded runs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from packbook.figures import INK, OKABE_ITO, PADDING, new_figure, show, styled
from packbook.n07_hyperparameters.runs import above_padded, in_words
from packbook.results import show_recorded
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Interval
from packbook.shared.spans import span
from packlib.arguments import plural
from packlib.training import Recipe


@styled()
def show_updates(updates: Mapping[str, list[np.ndarray]], factor: float) -> None:
    """Draw each update as a strip of micro-batches of segment ids (rows, slots): a blue piece for each sequence."""
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
    padded, packed, *_ = [label.rpartition(": ")[2].partition(" ")[0] for label in updates]
    same = "Packing these lengths leaves an update as it was"
    ax.set_title(f"The same rows hold {packed} sequences instead of {padded}" if factor > 1.01 else same)
    alt = f"The rows of one update, real lengths. {'; '.join(updates)}."
    sequences = [sum(int(ids.max(axis=1).sum()) for ids in parts) for parts in updates.values()]
    show(fig, alt=alt, name="one-update", numbers=dict(zip(("padded", "packed", "divided"), sequences, strict=False)))


@styled()
def show_evenness(by_rows: Sequence[int], by_sequences: Sequence[int], target: float) -> None:
    """Draw the sequences of each update, of equally many packs, and of updates that end at a number of sequences."""
    fig, ax = new_figure()
    kinds = {
        "ended at a number of rows": (by_rows, OKABE_ITO[1], "x"),
        "at a number of sequences": (by_sequences, OKABE_ITO[0], "o"),
    }
    listed = []
    for name, (counts, color, marker) in kinds.items():
        shown = counts[:100]
        ax.plot(range(1, len(shown) + 1), shown, marker, color=color, label=name, markersize=6)
        listed.append(f"{name}: {span(counts)}, on average {np.mean(counts):,.1f}")
    ax.axhline(target, color=INK, linestyle=":", linewidth=1.5, label=f"padded: {target:,.0f}")
    low, high = ax.get_ylim()
    ax.set(xlabel="update", ylabel="sequences per update", ylim=(low, high + 0.2 * (high - low)))
    ax.legend(loc="upper right", ncols=3)
    off, even = (max(abs(count - target) for count in counts) for counts in (by_rows, by_sequences))
    ax.set_title(f"Updates are up to {plural(round(off), 'sequence')} off by rows, and {even:,.0f} by sequences")
    show(fig, alt=f"Sequences per update; padded rows have {target:,.0f}. {'; '.join(listed)}.", name="even-updates")


def draw_recipes(ax: Axes, before: Recipe, after: Recipe) -> None:
    """Draw two recipes as a table; what differs is bold and marked."""
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


_WAYS = {  # as the picture names them, from dividing to scaling the rate
    "divided, as many updates": "divided, even_updates",
    "divided": "divided",
    "nothing adjusted": "nothing adjusted",
    "betas": "betas to the power of k",
    "square-root rate": "rate × √k",
    "betas and square-root rate": "betas, and rate × √k",
    "linear rate": "rate × k",
}


@styled()
def show_arms(found: dict[str, dict[str, tuple[Interval, int]]]) -> None:
    """Draw a panel for each optimizer, on one scale: how far each way ends from padded rows, with its updates."""
    fig, axes = new_figure(1, 2, sharex=True, sharey=True)
    listed = []
    for ax, (optimizer, ways) in zip(axes, found.items(), strict=True):
        show_recorded(f"curves-{optimizer.lower()}", "runs")
        rows = {f"{name} ({ways[way][1]})": ways[way][0] for way, name in _WAYS.items()}
        draw_intervals(ax, rows)
        ax.set_title(optimizer, fontsize=13)
        ax.set_xlabel("loss less padded")
        listed += [f"{optimizer}, {name}: {one}, {in_words(one)}" for name, one in rows.items()]
    higher = above_padded(found)
    number_higher = f"All {len(higher)}" if all(higher) else f"{sum(higher)} of {len(higher)}"
    title = f"{number_higher} runs that keep the large batch end above padded rows"
    axes[0].set_ylabel("in parentheses: updates")
    fig.suptitle(title)
    what = "Final held-out loss less that of padded rows, five pairs of seeds; in parentheses the updates"
    numbers = {f"{optimizer} {way}": str(ways[way][0]) for optimizer, ways in found.items() for way in _WAYS}
    show(fig, alt=f"{title}. {what}. {'; '.join(listed)}.", name="all-arms", numbers=numbers)
