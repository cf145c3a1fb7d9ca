"""What notebook 07 draws: updates, recipes and recorded runs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from packbook.figures import INK, OKABE_ITO, PADDING, new_figure, show, styled
from packbook.n07_hyperparameters.runs import above_padded
from packbook.results import show_recorded
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Interval
from packbook.shared.spans import span
from packlib.arguments import plural
from packlib.training import Recipe


@styled()
def show_updates(updates: Mapping[str, list[np.ndarray]], factor: float) -> None:
    """Show each update as a strip of micro-batches, in which each sequence is a blue bar.

    Args:
        updates: by label, the segment ids of each micro-batch, shape (rows, slots); the second is packed.
        factor: the packing factor.
    """
    fig, ax = new_figure()
    for strip, (label, parts) in enumerate(updates.items()):
        for column, segment_ids in enumerate(parts):
            rows, slots = segment_ids.shape
            row_height, slot_width = 0.7 / rows, 0.94 / slots  # a micro-batch has 0.94 × 0.7 of its 1 × 1 field
            ax.bar(column + 0.5, -0.7, 0.94, strip + 0.98, color=PADDING)

            # row, first and last slot of each sequence in the micro-batch
            is_last_slot = np.diff(segment_ids, axis=1, append=0) * (segment_ids > 0)
            row, last = np.nonzero(is_last_slot)
            begins_row = np.diff(row, prepend=-1) > 0
            first = np.where(begins_row, 0, np.roll(last, 1) + 1)  # behind the sequence before

            left = column + 0.03 + slot_width * first
            right = column + 0.03 + slot_width * (last + 1)
            top = strip + 0.28 + row_height * row
            bottom = top + row_height
            corners = np.stack([left, top, left, bottom, right, bottom, right, top], axis=1).reshape(-1, 4, 2)
            colors = np.where(segment_ids[row, last] % 2, OKABE_ITO[0], OKABE_ITO[4])
            ax.add_collection(PolyCollection(corners, fc=colors, edgecolor="white", linewidth=min(0.8, 12 / rows)))
        ax.text(0.03, strip + 0.22, label, va="bottom")
    ax.set(xlim=(0, max(map(len, updates.values()))), ylim=(len(updates), 0))
    ax.axis("off")
    padded, packed, *_ = [label.rpartition(": ")[2].partition(" ")[0] for label in updates]  # how many sequences
    same = "Packing these lengths leaves an update as it was"
    ax.set_title(f"The same rows hold {packed} sequences instead of {padded}" if factor > 1.01 else same)
    alt = f"The rows of one update, real lengths. {'; '.join(updates)}."
    sequences = [sum(int(segment_ids.max(axis=1).sum()) for segment_ids in parts) for parts in updates.values()]
    show(fig, alt=alt, name="one-update", numbers=dict(zip(("padded", "packed", "divided"), sequences, strict=False)))


@styled()
def show_evenness(by_rows: Sequence[int], by_sequences: Sequence[int], target: float) -> None:
    """Show the sequences of each update, if updates end at a number of rows, and if they end at a number of sequences.

    Args:
        by_rows: sequences of each update of equally many rows.
        by_sequences: sequences of each update that ends near `target` sequences.
        target: sequences of an update of padded rows.
    """
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
    room_for_legend = 0.2 * (high - low)
    ax.set(xlabel="update", ylabel="sequences per update", ylim=(low, high + room_for_legend))
    ax.legend(loc="upper right", ncols=3)
    error_by_rows, error_by_sequences = (
        max(abs(count - target) for count in counts) for counts in (by_rows, by_sequences)
    )
    off = plural(round(error_by_rows), "sequence")
    ax.set_title(f"Updates are up to {off} off by rows, and {error_by_sequences:,.0f} by sequences")
    show(fig, alt=f"Sequences per update; padded rows have {target:,.0f}. {'; '.join(listed)}.", name="even-updates")


def draw_recipes(ax: Axes, before: Recipe, after: Recipe) -> None:
    """Draw two recipes as a table; what differs is bold and marked."""
    rows = {
        "accumulation": lambda recipe: f"{recipe.gradient_accumulation_steps:,}",
        "sequences/update": lambda recipe: f"{recipe.sequences_per_update:,.0f}",
        "updates": lambda recipe: f"{recipe.total_steps:,}",
        "beta 1": lambda recipe: f"{recipe.betas[0]:.4g}",
        "beta 2": lambda recipe: f"{recipe.betas[1]:.4g}",
        "rate": lambda recipe: f"{recipe.learning_rate:.3g}",
    }
    for x, text in ((0.66, "before"), (1, "after")):
        ax.text(x, 0, text, ha="right", color=INK)
    for row, (name, in_words_of) in enumerate(rows.items(), 1):
        old, new = in_words_of(before), in_words_of(after)
        ax.text(0, row, name)
        ax.text(0.66, row, old, ha="right")
        ax.text(1, row, f"▸ {new}" if new != old else new, ha="right", weight="bold" if new != old else "normal")
    ax.set(xlim=(0, 1), ylim=(len(rows) + 0.5, -0.7))
    ax.axis("off")


_WAYS = {  # recorded ways to adjust a recipe, and how the figure names them, from dividing to scaling the rate
    "divided, as many updates": "divided, even_updates",
    "divided": "divided",
    "nothing adjusted": "nothing adjusted",
    "betas": "betas to the power of k",
    "square-root rate": "rate × √k",
    "betas and square-root rate": "betas, and rate × √k",
    "linear rate": "rate × k",
}


@styled()
def show_arms(recorded: dict[str, dict[str, tuple[Interval, int]]]) -> None:
    """Show, for each of two optimizers, how far the final loss of each way to adjust a recipe is from padded rows.

    Args:
        recorded: what `adjusted` returns, by optimizer.
    """
    fig, axes = new_figure(1, 2, sharex=True, sharey=True)
    listed = []
    for ax, (optimizer, ways) in zip(axes, recorded.items(), strict=True):
        show_recorded(f"curves-{optimizer.lower()}", "runs")
        intervals = {}
        for way, name in _WAYS.items():
            interval, num_updates = ways[way]
            intervals[f"{name} ({num_updates})"] = interval
        draw_intervals(ax, intervals)
        ax.set_title(optimizer, fontsize=13)
        ax.set_xlabel("loss less padded")
        for verdict in dict.fromkeys(interval.verdict for interval in intervals.values()):
            alike = {name: interval for name, interval in intervals.items() if interval.verdict == verdict}
            by_mean = sorted(alike, key=lambda name: alike[name].mean)
            named = by_mean if len(by_mean) <= 2 else [by_mean[0], by_mean[-1]]  # RECORDS.md lists all
            values = [f"{name} {alike[name]}" for name in named]
            in_words = "; ".join(values) if named == by_mean else f"{len(by_mean)} ways, from {' to '.join(values)}"
            listed.append(f"{optimizer}, {verdict}: {in_words}")
    is_higher = above_padded(recorded)
    num_higher = f"All {len(is_higher)}" if all(is_higher) else f"{sum(is_higher)} of {len(is_higher)}"
    title = f"{num_higher} runs that keep the large batch end above padded rows"
    axes[0].set_ylabel("in parentheses: updates")
    fig.suptitle(title)
    measure = "Final held-out loss less that of padded rows, five pairs of seeds; in parentheses the updates"
    numbers = {f"{optimizer} {way}": str(ways[way][0]) for optimizer, ways in recorded.items() for way in _WAYS}
    show(fig, alt=f"{title}. {measure}. {'. '.join(listed)}.", name="all-arms", numbers=numbers)
