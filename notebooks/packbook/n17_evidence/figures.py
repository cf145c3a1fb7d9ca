"""What notebook 17 draws: pairs of runs, sweeps, widths of intervals, and losses of counting."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, label_ends, new_figure, plain_ticks, series, show, styled
from packbook.shared.recorded_runs import Swept, best_rates

_MARKERS = "os^Dv"
_LINES = ("-", "--", "-.", ":")
_SWEPT = (  # looks of arms in a sweep: padded, divided, and in gray the two that keep the batch
    series("unpacked"),
    series("packed"),
    {"color": "#777777", "marker": "^", "linestyle": "-."},
    {"color": "#777777", "marker": "s", "linestyle": "--"},
)


@styled()
def show_pairs(ended: Mapping[str, np.ndarray]) -> None:
    """Show the final losses of two arms, with a line for each seed from one arm to the other.

    Args:
        ended: by arm, final losses, shape (seeds,).
    """
    (first, first_losses), (second, second_losses) = ended.items()
    fig, ax = new_figure()
    for seed, losses_of_seed in enumerate(zip(first_losses, second_losses, strict=True)):
        look = {"marker": _MARKERS[seed % 5], "linestyle": _LINES[seed % 4], "color": OKABE_ITO[seed % 5]}
        ax.plot((0, 1), losses_of_seed, **look, label=f"seed {seed}")
    ax.set_xticks((0, 1), list(ended))
    ax.set(xlim=(-0.3, 1.3), ylabel="held-out loss at the end")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    num_higher, num_seeds = int((second_losses > first_losses).sum()), len(first_losses)
    highest_minimum = max(first_losses.min(), second_losses.min())
    lowest_maximum = min(first_losses.max(), second_losses.max())
    ranges = "overlap" if highest_minimum <= lowest_maximum else "do not overlap"
    ax.set_title(f"{second.capitalize()} ends above {first} on {num_higher} of {num_seeds} seeds; the ranges {ranges}")
    listed = "; ".join(f"{arm} {', '.join(f'{loss:.3f}' for loss in losses)}" for arm, losses in ended.items())
    show(fig, alt=f"Held-out loss at the end by arm, for seeds 0 to {num_seeds - 1}: {listed}.", name="pairs")


@styled()
def show_sweeps(swept: Mapping[str, Swept]) -> None:
    """Show a sweep over the learning rate for each optimizer, with a panel for each."""
    fig, axes = new_figure(1, len(swept))
    sentences, same_best_rate = [], True
    for ax, (optimizer, arms) in zip(axes, swept.items(), strict=True):
        draw_sweep(ax, arms)
        ax.set_title(optimizer, fontsize=13)
        rates = ", ".join(f"{rate:g}" for rate in next(iter(arms.values())))
        means = {arm: [f"{losses.mean():.2f}" for losses in by_rate.values()] for arm, by_rate in arms.items()}
        listed = "; ".join(f"{arm} {', '.join(of_arm)}" for arm, of_arm in means.items())
        sentences.append(f"{optimizer} at the rates {rates}: {listed}")
        same_best_rate &= len({*best_rates(dict(arms)).values()}) == 1
    axes[0].legend()
    title = "The arms have different best rates"
    if same_best_rate:
        title = "All arms of an optimizer have the same best rate"
    fig.suptitle(title)
    show(fig, alt=f"Held-out loss at the end by the highest rate. {'. '.join(sentences)}.", name="sweep")


@styled()
def show_half_widths(seeds: np.ndarray, widths: np.ndarray, mark: Callable[..., None]) -> None:
    """Show half of the interval's width by the number of seeds.

    Args:
        seeds: 2, 3, … 20 or more.
        widths: half of the width for each, in deviations.
        mark: draws the reader's guess, as `Questions.mark`.
    """
    fig, ax = new_figure()
    ax.plot(seeds, widths, marker="o")
    ax.set(yscale="log", xlabel="seeds of each arm", ylabel="half width, in deviations s")
    ax.set_xticks((2, 3, 5, 10, 15, 20))
    ax.set_yticks((0.5, 1, 2, 5, 10), ("0.5", "1", "2", "5", "10"))
    ax.minorticks_off()
    ax.annotate(f" {widths[0]:.1f}", (seeds[0], widths[0]), xytext=(8, 0), textcoords="offset points", va="center")
    ax.set_title(f"A third seed narrows the interval from ± {widths[0]:.1f} s to ± {widths[1]:.1f} s")
    mark(ax, "two_seeds", "y")
    listed = ", ".join(f"{widths[number - 2]:.2f} with {number}" for number in (2, 3, 5, 10, 20))
    show(fig, alt=f"Half width of the interval, in deviations of the differences: {listed} seeds.", name="half-widths")


@styled()
def show_yardstick(seeds: Sequence[Mapping[str, np.ndarray]], counted: Mapping[str, float]) -> None:
    """Show the held-out losses of padded runs over the docstrings that they have read, and the losses of counting.

    Args:
        seeds: the recorded run of each seed, with columns "held_out_loss" and "sequences".
        counted: losses of the unigram and the bigram.
    """
    fig, ax = new_figure()
    losses = np.array([run["held_out_loss"] for run in seeds])  # (seeds, evaluations)
    mean_losses = losses.mean(0)
    read = np.array(seeds[0]["sequences"], float)
    for losses_of_seed in losses:
        ax.plot(read, losses_of_seed, color=series("unpacked")["color"], linewidth=1, alpha=0.6)
    (line,) = ax.plot(read, mean_losses, **series("unpacked"))
    name_by_line = {line: "model"}
    for name, look in (("unigram", ":"), ("bigram", "--")):
        (line,) = ax.plot(read, np.full(len(read), counted[name]), color=OKABE_ITO[1], linestyle=look)
        name_by_line[line] = name
    ax.set(xlabel="docstrings that were read", ylabel="held-out loss")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(min(losses.min(), counted["bigram"]) - 0.1, counted["unigram"] + 0.3)
    label_ends(name_by_line)
    read_below = read[mean_losses < counted["bigram"]]
    title = "The model stays above the bigram"
    if len(read_below):
        title = f"The model is below the bigram from {read_below[0]:,.0f} docstrings on"
    ax.set_title(title)
    listed = ", ".join(f"{loss:.2f} after {number:,.0f}" for number, loss in zip(read, mean_losses, strict=True))
    alt = f"Held-out loss of padded rows, mean of {len(losses)} seeds: {listed}. Unigram {counted['unigram']:.2f}, "
    show(fig, alt=f"{alt}bigram {counted['bigram']:.2f}. {title}.", name="yardstick")


def draw_sweep(ax: Axes, swept: Mapping[str, Mapping[float, np.ndarray]]) -> None:
    """Draw the final losses of each arm by rate: the mean of its seeds as a line, and each seed as a small mark."""
    for (arm, losses_by_rate), look in zip(swept.items(), _SWEPT, strict=True):
        rates = list(losses_by_rate)
        losses = np.array(list(losses_by_rate.values()))  # (rates, seeds)
        ax.plot(rates, losses.mean(1), label=arm, **look)
        ax.plot(rates, losses, **{**look, "linestyle": "", "markersize": 4}, alpha=0.6)
    ax.set(xscale="log", xlabel="highest rate", ylabel="held-out loss at the end")
    plain_ticks(ax.xaxis, rates)


def draw_experiments(ax: Axes, means: np.ndarray, halves: np.ndarray) -> None:
    """Draw the intervals of many experiments, sorted by their means; those that exclude 0 are filled.

    Args:
        means: shape (experiments,).
        halves: half of the width of each interval, same shape.
    """
    ax.axhline(0, color=INK, linewidth=1.5)
    for x, experiment in enumerate(np.argsort(means)):
        mean, half = means[experiment], halves[experiment]
        excludes_zero = abs(mean) > half
        look = {"color": "#777777", "fillstyle": "none"}
        if excludes_zero:
            look = {"color": OKABE_ITO[1], "fillstyle": "full"}
        ax.errorbar(x, mean, yerr=half, marker="o", linestyle="", markersize=6, **look)
    ax.set(xticks=[], xlabel="simulated experiments, by their mean", ylabel="difference, in deviations")
