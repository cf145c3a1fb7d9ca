"""What notebook 08 draws: rows that grow, and what recorded runs came to."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from packbook.figures import INK, OKABE_ITO, label_ends, new_figure, plain_ticks, show, styled
from packbook.n08_curriculum.runs import in_words
from packbook.results import show_recorded
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Swept, against, best_rates

NAMES = {  # the ways to let rows grow, as pictures and tables name them
    "no warm-up": "full rows",
    "0.3, truncated": "truncated, 30 %",
    "0.6, truncated": "truncated, 60 %",
    "0.3, reshaped": "reshaped, 30 %",
}
LOOKS = {
    "no warm-up": {"color": INK, "linestyle": "--", "marker": "o"},
    "0.3, truncated": {"color": OKABE_ITO[0], "linestyle": "-", "marker": "s"},
    "0.6, truncated": {"color": OKABE_ITO[2], "linestyle": "-.", "marker": "^"},
    "0.3, reshaped": {"color": OKABE_ITO[1], "linestyle": ":", "marker": "D"},
}


@styled()
def draw_growth(lengths: Mapping[float, Sequence[int]], longest: int = 128) -> tuple[Figure, str]:
    """Return the length of the rows over the run, by duration; the area under a line is what is computed."""
    fig, ax = new_figure()
    listed = []
    colors = (OKABE_ITO[0], OKABE_ITO[1])
    for (duration, grown), color in zip(lengths.items(), colors, strict=False):
        share = _saved(grown, longest)
        x = 100 * np.arange(len(grown)) / len(grown)
        ax.plot(x, grown, color=color, linewidth=2.5, label=f"duration {duration:g}: {share} saved")
        listed.append(f"duration {duration:g}: from {grown[0]} to {grown[-1]} tokens, {share} of the slots saved")
    first = next(iter(lengths.values()))
    ax.fill_between(100 * np.arange(len(first)) / len(first), first, color=OKABE_ITO[0], alpha=0.2, linewidth=0)
    ax.set(xlabel="updates, % of the run", ylabel="length of a row, tokens", ylim=(0, 1.3 * longest), xlim=(0, 100))
    ax.legend(loc="upper left")
    saved = _saved(first, longest)
    ax.set_title(f"With duration {next(iter(lengths)):g} rows that grow save {saved} of the slots")
    return fig, f"The length of the rows through a run. {'; '.join(listed)}."


def _saved(grown: Sequence[int], longest: int) -> str:
    return f"{100 * (1 - np.mean(grown) / longest):.3g} %"


def show_growth(lengths: Mapping[float, Sequence[int]]) -> None:
    """Draw the same as a figure of the notebook."""
    fig, alt = draw_growth(lengths)
    show(fig, alt=alt, name="growth")


@styled()
def show_sweep(losses: Swept, norms: Swept) -> None:
    """Draw each way over the rate, every seed a mark: the final loss with the mean as a line, and the largest norm."""
    show_recorded("curriculum-length-sweep", "runs")
    fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
    lines, listed = {}, []
    for arm, by_rate in losses.items():
        ends, largest = np.array(list(by_rate.values())), np.array(list(norms[arm].values()))
        marks = {**LOOKS[arm], "linestyle": "", "markersize": 5}
        lines[left.plot(list(by_rate), ends.mean(1), **{**LOOKS[arm], "marker": ""})[0]] = NAMES[arm]
        left.plot(list(by_rate), ends, **marks)
        right.plot(list(by_rate), largest, **marks)
        means = ", ".join(f"{loss:.3f}" for loss in ends.mean(1))
        listed.append(f"{NAMES[arm]}: {means}, largest gradient norm {largest.max():.1f}")
    best, seeds = best_rates(losses), ends.shape[1]
    left.set(xlabel="highest rate", ylabel=f"final held-out loss, {seeds} seeds")
    right.set(xlabel="highest rate", ylabel="largest gradient norm of the run", ylim=(0, None))
    for ax in (left, right):
        ax.set_xscale("log")
        plain_ticks(ax.xaxis, list(by_rate))
        ax.tick_params(axis="x", labelrotation=45)
    label_ends(lines)
    truncated = " and ".join(sorted({f"{rate:g}" for arm, rate in best.items() if "truncated" in arm}))
    fig.suptitle(f"Full rows have their lowest loss at {best['no warm-up']:g}, truncated rows at {truncated}")
    tried = ", ".join(f"{rate:g}" for rate in by_rate)
    lowest = ", ".join(f"{NAMES[arm]} at {rate:g}" for arm, rate in best.items())
    alt = f"Means of {seeds} seeds at the rates {tried}. {'; '.join(listed)}. Lowest: {lowest}."
    show(fig, alt=alt, name="length-rates")


@styled()
def show_long_runs(ended: dict[str, np.ndarray]) -> None:
    """Show the length warm-ups' distance from full rows at the end; those with another rate name it."""
    show_recorded("curriculum-length", "runs")
    show_recorded("curriculum-length-rates", "runs")
    differences, full = against(ended, "no warm-up"), ended["no warm-up"].mean()
    shown = {_with_rate(arm): one for arm, one in differences.items()}
    fig, ax = new_figure()
    draw_intervals(ax, shown)
    ax.set_xlabel(f"held-out loss less that of full rows ({full:.2f}), 95 % interval")
    lower = sum(in_words(one) == "lower" for one in shown.values())
    ax.set_title(f"{lower} of {len(shown)} runs with short rows first have a lower loss than full rows")
    listed = "; ".join(f"{name} {one}, {in_words(one)}" for name, one in shown.items())
    alt = f"Differences of the held-out loss after the same number of bytes: {listed}. Full rows end at {full:.2f}."
    show(fig, alt=alt, name="short-rows")


def _with_rate(arm: str) -> str:
    """Write "0.3, truncated, 0.006" as "truncated, 30 %, rate 0.006"; the rate of full rows where none is named."""
    way = next(name for name in NAMES if arm.startswith(name))
    own = arm[len(way) :].lstrip(", ")
    return f"{NAMES[way]}, rate {own or '0.003'}"
