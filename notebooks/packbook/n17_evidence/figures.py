"""What notebook 17 draws beside ends and intervals."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, label_ends, new_figure, plain_ticks, series, show, styled
from packbook.shared.recorded_runs import Swept, best_rates

_MARKERS = "os^Dv"
_LINES = ("-", "--", "-.", ":")
_SWEPT = (  # padded and divided look as in notebook 07, and the two that keep the batch are gray
    series("unpacked"),
    series("packed"),
    {"color": "#777777", "marker": "^", "linestyle": "-."},
    {"color": "#777777", "marker": "s", "linestyle": "--"},
)


@styled()
def show_pairs(ended: Mapping[str, np.ndarray]) -> None:
    """Draw two arms, and a line for each seed from one to the other."""
    (first, one), (second, other) = ended.items()
    fig, ax = new_figure()
    for seed, line in enumerate(np.array([one, other]).T):
        look = {"marker": _MARKERS[seed % 5], "linestyle": _LINES[seed % 4], "color": OKABE_ITO[seed % 5]}
        ax.plot((0, 1), line, **look, label=f"seed {seed}")
    ax.set_xticks((0, 1), list(ended))
    ax.set(xlim=(-0.3, 1.3), ylabel="held-out loss at the end")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    higher = int((other > one).sum())
    overlap = max(one.min(), other.min()) <= min(one.max(), other.max())
    ranges = "overlap" if overlap else "do not overlap"
    ax.set_title(f"{second.capitalize()} ends above {first} on {higher} of {len(one)} seeds; the ranges {ranges}")
    listed = "; ".join(f"{arm} {', '.join(f'{loss:.3f}' for loss in losses)}" for arm, losses in ended.items())
    show(fig, alt=f"Held-out loss at the end by arm, for seeds 0 to {len(one) - 1}: {listed}.", name="pairs")


@styled()
def show_sweeps(swept: Mapping[str, Swept]) -> None:
    """Draw a sweep for each optimizer."""
    fig, axes = new_figure(1, len(swept))
    sentences, best = [], True
    for ax, (name, arms) in zip(axes, swept.items(), strict=True):
        draw_sweep(ax, arms)
        ax.set_title(name, fontsize=13)
        sentences += [
            f"{name}, {arm}: {', '.join(f'{ends.mean():.2f} at {rate:g}' for rate, ends in at.items())}"
            for arm, at in arms.items()
        ]
        best &= len({*best_rates(dict(arms)).values()}) == 1
    axes[0].legend()
    fig.suptitle("All arms of an optimizer have the same best rate" if best else "The arms have different best rates")
    show(fig, alt=f"Held-out loss at the end over the highest rate. {'; '.join(sentences)}.", name="sweep")


@styled()
def show_half_widths(seeds: np.ndarray, widths: np.ndarray, mark: Callable[..., None]) -> None:
    """Draw half of the interval's width over the number of seeds."""
    fig, ax = new_figure()
    ax.plot(seeds, widths, marker="o")
    ax.set(yscale="log", xlabel="seeds of each arm", ylabel="half width, in deviations s")
    ax.set_xticks((2, 3, 5, 10, 15, 20))
    ax.set_yticks((0.5, 1, 2, 5, 10), ("0.5", "1", "2", "5", "10"))
    ax.minorticks_off()
    ax.annotate(f" {widths[0]:.1f}", (seeds[0], widths[0]), xytext=(8, 0), textcoords="offset points", va="center")
    ax.set_title(f"A third seed narrows the interval from ± {widths[0]:.1f} s to ± {widths[1]:.1f} s")
    mark(ax, "two_seeds", "y")
    listed = ", ".join(f"{widths[at - 2]:.2f} with {at}" for at in (2, 3, 5, 10, 20))
    show(fig, alt=f"Half width of the interval, in deviations of the differences: {listed} seeds.", name="half-widths")


@styled()
def show_yardstick(seeds: Sequence[Mapping[str, np.ndarray]], counted: Mapping[str, float]) -> None:
    """Draw held-out losses of the padded runs over what they read, and what counting tokens reaches."""
    fig, ax = new_figure()
    losses = np.array([run["held_out_loss"] for run in seeds])
    read = np.array(seeds[0]["sequences"], float)
    for line in losses:
        ax.plot(read, line, color=series("unpacked")["color"], linewidth=1, alpha=0.6)
    ends = {ax.plot(read, losses.mean(0), **series("unpacked"))[0]: "model"}
    for name, look in (("unigram", ":"), ("bigram", "--")):
        ends[ax.plot(read, np.full(len(read), counted[name]), color=OKABE_ITO[1], linestyle=look)[0]] = name
    ax.set(xlabel="docstrings that were read", ylabel="held-out loss")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(min(losses.min(), counted["bigram"]) - 0.1, counted["unigram"] + 0.3)
    label_ends(ends)
    below = read[losses.mean(0) < counted["bigram"]]
    title = (
        f"The model is below the bigram from {below[0]:,.0f} docstrings on"
        if len(below)
        else "The model stays above the bigram"
    )
    ax.set_title(title)
    listed = ", ".join(f"{loss:.2f} after {at:,.0f}" for at, loss in zip(read, losses.mean(0), strict=True))
    alt = f"Held-out loss of padded rows, mean of {len(losses)} seeds: {listed}. Unigram {counted['unigram']:.2f}, "
    show(fig, alt=f"{alt}bigram {counted['bigram']:.2f}. {title}.", name="yardstick")


def draw_sweep(ax: Axes, swept: Mapping[str, Mapping[float, np.ndarray]]) -> None:
    """Draw a line an arm, over the rate: the mean of its seeds, and each of them as a small mark."""
    for (arm, by_rate), look in zip(swept.items(), _SWEPT, strict=True):
        rates, ends = list(by_rate), np.array(list(by_rate.values()))
        ax.plot(rates, ends.mean(1), label=arm, **look)
        ax.plot(rates, ends, **{**look, "linestyle": "", "markersize": 4}, alpha=0.6)
    ax.set(xscale="log", xlabel="highest rate", ylabel="held-out loss at the end")
    plain_ticks(ax.xaxis, rates)


def draw_experiments(ax: Axes, means: np.ndarray, halves: np.ndarray) -> None:
    """Draw intervals of many experiments, from low to high; those that exclude 0 are filled."""
    order = np.argsort(means)
    ax.axhline(0, color=INK, linewidth=1.5)
    for x, at in enumerate(order):
        is_clear = abs(means[at]) > halves[at]
        look = {"color": OKABE_ITO[1] if is_clear else "#777777", "fillstyle": "full" if is_clear else "none"}
        ax.errorbar(x, means[at], yerr=halves[at], marker="o", linestyle="", markersize=6, **look)
    ax.set(xticks=[], xlabel="simulated experiments, by their mean", ylabel="difference, in deviations")
