"""What notebook 08 draws: batches by tokens, and what recorded runs came to."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from packbook.figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, percent, plain_ticks, show
from packbook.results import show_recorded
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Swept, against, best_rates
from packlib.batches import TokenBatches
from packlib.batches.variable_rate import RATE_RULES

LOOKS = {  # a rule is no batching habit, so it has a line and a marker and no color
    rule: {"color": INK, "linestyle": line, "marker": marker}
    for rule, line, marker in zip(RATE_RULES, ("-", "--", ":"), "osx", strict=True)
}
ARMS = {  # of the length warm-up
    "no warm-up": {"color": INK, "linestyle": "--", "marker": "o"},
    "0.3, truncated": {"color": OKABE_ITO[0], "linestyle": "-", "marker": "s"},
    "0.6, truncated": {"color": OKABE_ITO[2], "linestyle": "-.", "marker": "^"},
    "0.3, reshaped": {"color": OKABE_ITO[1], "linestyle": ":", "marker": "D"},
}


def show_sweep(losses: Swept, norms: Swept, mark: Callable[..., None]) -> None:
    """Each arm over the rate, every seed a mark: the loss at the end with the mean as a line, and the largest norm."""
    show_recorded("curriculum-length-sweep", "runs")
    fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
    lines, listed = {}, []
    for arm, by_rate in losses.items():
        ends, largest = np.array(list(by_rate.values())), np.array(list(norms[arm].values()))
        marks = {**ARMS[arm], "linestyle": "", "markersize": 5}
        lines[left.plot(list(by_rate), ends.mean(1), **{**ARMS[arm], "marker": ""})[0]] = arm
        left.plot(list(by_rate), ends, **marks)
        right.plot(list(by_rate), largest, **marks)
        means = ", ".join(f"{loss:.3f}" for loss in ends.mean(1))
        listed.append(f"{arm} {means}, largest gradient norm {largest.max():.1f}")
    best, seeds = best_rates(losses), ends.shape[1]
    left.set(xlabel="highest rate", ylabel=f"held-out loss at the end, {seeds} seeds")
    right.set(xlabel="highest rate", ylabel="largest gradient norm of the run", ylim=(0, None))
    for ax in (left, right):
        ax.set_xscale("log")
        plain_ticks(ax.xaxis, list(by_rate))
        ax.tick_params(axis="x", labelrotation=45)
    label_ends(lines)
    truncated = " and ".join(sorted({f"{rate:g}" for arm, rate in best.items() if "truncated" in arm}))
    fig.suptitle(f"Full rows end lowest at {best['no warm-up']:g}, truncated rows at {truncated}")
    mark(left, "best_rate")
    tried, lowest = ", ".join(f"{rate:g}" for rate in by_rate), ", ".join(f"{arm} at {r:g}" for arm, r in best.items())
    alt = f"Means of {seeds} seeds at the rates {tried}: {'; '.join(listed)}. Lowest: {lowest}."
    show(fig, alt=alt, name="length-rates")


def show_long_runs(ended: dict[str, np.ndarray]) -> None:
    """How far the arms of the length warm-up end from full rows; those with another rate name it."""
    show_recorded("curriculum-length", "runs")
    show_recorded("curriculum-length-rates", "runs")
    shown, full = against(ended, "no warm-up"), ended["no warm-up"].mean()
    fig, ax = new_figure()
    draw_intervals(ax, shown)
    ax.set_xlabel(f"held-out loss less that of full rows ({full:.2f}), 95 % interval")
    ax.set_ylabel("duration, way, and own rate")
    lower = sum(one.verdict == "lower" for one in shown.values())
    ax.set_title(f"{lower} of {len(shown)} ways with short rows first end lower than full rows")
    listed = "; ".join(f"{name} {one}, {one.verdict}" for name, one in shown.items())
    alt = f"Differences of the held-out loss after as many bytes: {listed}. Full rows end at {full:.2f}."
    show(fig, alt=alt, name="short-rows")


def draw_batches(ax: Axes, batches: TokenBatches, lengths: np.ndarray, budget: int) -> None:
    """A bar a batch: its samples stacked by their tokens, then its padding in gray; the budget is a line."""
    ordered, sizes = np.asarray(lengths)[batches.sample_ids], batches.sizes
    tops = np.cumsum(ordered)
    bottoms = tops - ordered - np.repeat(np.cumsum(batches.tokens) - batches.tokens, sizes)
    x, end = np.repeat(np.arange(len(batches)), sizes), bottoms + ordered
    corners = np.array([(x - 0.4, bottoms), (x + 0.4, bottoms), (x + 0.4, end), (x - 0.4, end)])
    colors = [OKABE_ITO[0], OKABE_ITO[4]] * len(x)
    ax.add_collection(PolyCollection(corners.transpose(2, 0, 1), facecolors=colors, edgecolor="white", linewidth=0.4))
    padding = batches.sizes * batches.widths - batches.tokens
    ax.bar(range(len(batches)), padding, 0.8, batches.tokens, color=PADDING)
    ax.axhline(budget, color=INK, linestyle="--", linewidth=1)
    ax.set_xlim(-0.6, len(batches) - 0.4)
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    ax.yaxis.set_major_formatter("{x:,.0f}")


def show_token_batches(drawn: Mapping[str, TokenBatches], lengths: np.ndarray, budget: int) -> None:
    """The batches of each order beside each other."""
    fig, axes = new_figure(1, 2, sharey=True)
    for ax, (order, made) in zip(axes, drawn.items(), strict=True):
        draw_batches(ax, made, lengths, budget)
        ax.set(title=f"{order.capitalize()}: {percent(made.padding_fraction, 0)} padding", xlabel="batch")
    axes[0].set(ylabel="tokens; padding in gray")
    fig.suptitle(f"The same budget, the first {len(lengths)} lengths")
    listed = "; ".join(
        f"{order}: {len(made)} of {made.sizes.min()} to {made.sizes.max()} samples, "
        f"{percent(made.padding_fraction)} padding"
        for order, made in drawn.items()
    )
    show(fig, alt=f"Batches of at most {budget} tokens as stacked bars. {listed}.", name="token-batches")
