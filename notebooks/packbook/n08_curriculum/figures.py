"""What notebook 08 draws: rows that grow, and the losses of recorded runs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from packbook.figures import INK, OKABE_ITO, label_ends, new_figure, plain_ticks, show, styled
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
    """Draw the length of the rows over the run, by duration; the area under a line is what is computed.

    Args:
        lengths: by duration, as a share of the run, the length of a row in each update, in tokens; one or two.
        longest: length of a full row.

    Returns:
        The figure and its alt text.
    """
    fig, ax = new_figure()
    listed = []
    colors = (OKABE_ITO[0], OKABE_ITO[1])
    for (duration, row_lengths), color in zip(lengths.items(), colors, strict=False):
        saved = _saved(row_lengths, longest)
        x = 100 * np.arange(len(row_lengths)) / len(row_lengths)  # percent of the run
        ax.plot(x, row_lengths, color=color, linewidth=2.5, label=f"duration {duration:g}: {saved} saved")
        listed.append(
            f"duration {duration:g}: from {row_lengths[0]} to {row_lengths[-1]} tokens, {saved} of the slots saved"
        )
    first = next(iter(lengths.values()))
    ax.fill_between(100 * np.arange(len(first)) / len(first), first, color=OKABE_ITO[0], alpha=0.2, linewidth=0)
    ax.set(xlabel="updates, % of the run", ylabel="length of a row, tokens", ylim=(0, 1.3 * longest), xlim=(0, 100))
    ax.legend(loc="upper left")
    saved = _saved(first, longest)
    ax.set_title(f"With duration {next(iter(lengths)):g} rows that grow save {saved} of the slots")
    return fig, f"The length of the rows through a run. {'; '.join(listed)}."


def _saved(row_lengths: Sequence[int], longest: int) -> str:
    """Return the share of the slots of full rows that a run saves, in percent."""
    return f"{100 * (1 - np.mean(row_lengths) / longest):.3g} %"


def show_growth(lengths: Mapping[float, Sequence[int]]) -> None:
    """Show what `draw_growth` draws as a figure of the notebook."""
    fig, alt = draw_growth(lengths)
    show(fig, alt=alt, name="growth")


@styled()
def show_sweep(losses: Swept, norms: Swept) -> None:
    """Show the final loss and the largest gradient norm of each way to let rows grow, by rate, with a mark for a seed.

    Args:
        losses: final held-out losses.
        norms: the largest gradient norm of each run.
    """
    show_recorded("curriculum-length-sweep", "runs")
    fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
    rates = list(next(iter(losses.values())))  # all arms tried the same ones
    name_by_line, listed = {}, []
    for arm in losses:
        arm_losses = np.array(list(losses[arm].values()))  # (rates, seeds)
        arm_norms = np.array(list(norms[arm].values()))  # (rates, seeds)
        marks = {**LOOKS[arm], "linestyle": "", "markersize": 5}
        (line,) = left.plot(rates, arm_losses.mean(1), **{**LOOKS[arm], "marker": ""})
        name_by_line[line] = NAMES[arm]
        left.plot(rates, arm_losses, **marks)
        right.plot(rates, arm_norms, **marks)
        means = ", ".join(f"{loss:.3f}" for loss in arm_losses.mean(1))
        listed.append(f"{NAMES[arm]}: {means}, largest gradient norm {arm_norms.max():.1f}")
    best = best_rates(losses)
    seeds = arm_losses.shape[1]
    left.set(xlabel="highest rate", ylabel=f"final held-out loss, {seeds} seeds")
    right.set(xlabel="highest rate", ylabel="largest gradient norm of the run", ylim=(0, None))
    for ax in (left, right):
        ax.set_xscale("log")
        plain_ticks(ax.xaxis, rates)
        ax.tick_params(axis="x", labelrotation=45)
    label_ends(name_by_line)
    truncated = " and ".join(sorted({f"{rate:g}" for arm, rate in best.items() if "truncated" in arm}))
    fig.suptitle(f"Full rows have their lowest loss at {best['no warm-up']:g}, truncated rows at {truncated}")
    listed_rates = ", ".join(f"{rate:g}" for rate in rates)
    lowest = ", ".join(f"{NAMES[arm]} at {rate:g}" for arm, rate in best.items())
    alt = f"Means of {seeds} seeds at the rates {listed_rates}. {'; '.join(listed)}. Lowest: {lowest}."
    show(fig, alt=alt, name="length-rates")


@styled()
def show_long_runs(ended: dict[str, np.ndarray]) -> None:
    """Show the difference between the final loss of each run with short rows first and that of full rows.

    Args:
        ended: by arm, final held-out losses, shape (seeds,).
    """
    show_recorded("curriculum-length", "runs")
    show_recorded("curriculum-length-rates", "runs")
    loss_of_full = ended["no warm-up"].mean()
    intervals = {_with_rate(arm): interval for arm, interval in against(ended, "no warm-up").items()}
    fig, ax = new_figure()
    draw_intervals(ax, intervals)
    ax.set_xlabel(f"held-out loss less that of full rows ({loss_of_full:.2f}), 95 % interval")
    num_lower = sum(interval.verdict == "lower" for interval in intervals.values())
    ax.set_title(f"{num_lower} of {len(intervals)} runs with short rows first have a lower loss than full rows")
    listed = "; ".join(f"{name} {interval}, {interval.verdict}" for name, interval in intervals.items())
    alt = f"Differences of the held-out loss after the same number of bytes: {listed}. "
    alt += f"Full rows end at {loss_of_full:.2f}."
    show(fig, alt=alt, name="short-rows")


def _with_rate(arm: str) -> str:
    """Write "0.3, truncated, 0.006" as "truncated, 30 %, rate 0.006"; an arm without a rate has that of full rows."""
    way = next(name for name in NAMES if arm.startswith(name))
    own_rate = arm[len(way) :].lstrip(", ")
    rate_of_full_rows = "0.003"
    return f"{NAMES[way]}, rate {own_rate or rate_of_full_rows}"
