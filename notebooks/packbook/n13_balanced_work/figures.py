"""What notebook 13 draws: the work of the ranks of a step, and the idle time and mix of lengths that windows leave."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packbook.figures import EMPTY, INK, OKABE_ITO, new_figure, plain_ticks, show, styled
from packbook.n13_balanced_work.runs import mean_lengths
from packlib.packing import Packs
from packlib.work import Work

TOKENS, PAIRS = OKABE_ITO[0], OKABE_ITO[1]  # colors of the work of tokens, and of pairs of tokens


@styled()
def show_worst_step(packs: Packs, order: np.ndarray, ranks: int, packs_per_rank: int, work: Work) -> None:
    """Show the ranks of the step with the most idle time among the first eight, when packs come in this order.

    Args:
        order: indices of packs; ranks take them in turn.
    """
    step = ranks * packs_per_rank
    packs_of_steps = order[: len(order) // step * step].reshape(-1, packs_per_rank, ranks)[:8]
    tokens = Work(per_token=1, per_square=0).of(packs)[packs_of_steps].sum(axis=1)  # (steps, ranks)
    squares = Work(per_token=0, per_square=1).of(packs)[packs_of_steps].sum(axis=1)
    work_of_ranks = work.total(tokens, squares)
    slowest = work_of_ranks.max(axis=1) / work_of_ranks.mean(axis=1)
    worst = slowest.argmax()
    fig, ax = new_figure()
    draw_ranks(ax, tokens[worst], squares[worst], work)
    ax.set_title(f"The worst of eight steps: the slowest rank has {slowest[worst]:.2f} times the mean")
    words = ranks_in_words(tokens[worst], squares[worst], work)
    alt = f"One bar a rank: plain for tokens, dotted for pairs, gray for waiting. {words}."
    show(fig, alt=alt, name="first-step")


@styled()
def show_mix(packs: Packs, orders: dict[str, np.ndarray], step: int) -> None:
    """Show the mean length of the sequences in each step, for two orders of the packs; `step` packs make a step."""
    fig, ax = new_figure()
    spans = []
    for (name, order), color, marker in zip(orders.items(), (INK, PAIRS), ".x", strict=True):
        means = mean_lengths(packs, order, step)
        ax.plot(means, marker, color=color, label=name)
        spans.append(f"{name} {means.min():,.0f} to {means.max():,.0f}")
    ax.set(xlabel="step", ylabel="mean length of its sequences, tokens", yscale="log")
    plain_ticks(ax.yaxis, (500, 1000, 2000, 5000, 10_000, 30_000))
    ax.set_title("Packs sorted by work: each step has its own kind of sequences")
    ax.legend()
    show(fig, alt=f"Mean length of the sequences of each step, in tokens: {'; '.join(spans)}.", name="mix")


def show_windows(found: list[dict], at_random: float) -> None:
    """Show in a notebook what `draw_windows` draws."""
    numbers = {"random": 100 * at_random} | {f"window {row['window']}": 100 * row["waiting"] for row in found}
    show(draw_windows(found, at_random), alt=windows_in_words(found, at_random), name="windows", numbers=numbers)


def draw_ranks(ax: Axes, tokens: np.ndarray, squares: np.ndarray, work: Work) -> None:
    """Draw a bar for each rank of one step: work of tokens, work of pairs, and waiting, in units of the mean.

    Args:
        tokens: of each rank, shape (ranks,).
        squares: sum of the squared lengths of each rank, shape (ranks,).
    """
    work_of_tokens = work.per_token * np.asarray(tokens, float)
    work_of_pairs = work.per_square * np.asarray(squares, float)
    mean = (work_of_tokens + work_of_pairs).mean()
    work_of_tokens, work_of_pairs = work_of_tokens / mean, work_of_pairs / mean
    total = work_of_tokens + work_of_pairs
    rows, slowest = np.arange(len(total)), total.max()
    pairs_look = {"color": PAIRS, "hatch": "...", "edgecolor": "white", "linewidth": 0, "label": "pairs"}
    ax.barh(rows, work_of_tokens, 0.8, color=TOKENS, label="tokens")
    ax.barh(rows, work_of_pairs, 0.8, left=work_of_tokens, **pairs_look)
    ax.barh(rows, slowest - work_of_tokens - work_of_pairs, 0.8, left=total, label="waiting", **EMPTY)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=12)
    ax.axvline(1, color=INK, linewidth=1)
    ax.set_yticks(rows, [f"rank {rank}" for rank in rows] if len(rows) <= 16 else [""] * len(rows))
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, max(1.3, slowest)), xlabel="work; 1 is the mean of the ranks")
    ax.spines["left"].set_visible(False)


def ranks_in_words(tokens: np.ndarray, squares: np.ndarray, work: Work) -> str:
    """Return a sentence on one step: the slowest rank, the fastest, and the share of the time that ranks wait.

    Args:
        tokens: of each rank, shape (ranks,).
        squares: sum of the squared lengths of each rank, shape (ranks,).
    """
    total = work.total(tokens, squares)
    waiting = 1 - total.mean() / total.max()
    slowest, fastest = int(total.argmax()), int(total.argmin())
    return (
        f"Rank {slowest} is the slowest with {total[slowest] / total.mean():.2f} times the mean work, "
        f"rank {fastest} the fastest with {total[fastest] / total.mean():.2f}; "
        f"the average rank waits {100 * waiting:.1f} % of the time"
    )


@styled()
def draw_windows(found: list[dict], at_random: float, fixed: bool = False) -> Figure:
    """Draw left the idle time that each window leaves, right where 90 % of the mean lengths of steps and windows lie.

    Args:
        found: what `by_window` returns.
        at_random: share of the time that the average rank waits if packs are dealt at random.
        fixed: whether the axes are the same for every setting of the explorer.
    """
    fig, (left, right) = new_figure(1, 2)
    windows = [row["window"] for row in found]
    left.plot(windows, [100 * row["waiting"] for row in found], "o-", color=TOKENS)
    left.axhline(100 * at_random, color=INK, linestyle=":")
    # fixed axes may show the first window alone, at their left edge: words that end there would leave the axes
    end_of_words = 32 if fixed else windows[-1]
    left.text(end_of_words, 100 * at_random, "random deal", ha="right", va="bottom", fontsize=12)
    left.set(xlabel="window, steps", ylabel="the average rank waits, %", ylim=(0, 40 if fixed else None))
    # the two bars of a window stand next to each other
    for name, label, color, shift in (("windows", "windows", TOKENS, 0.94), ("steps", "single steps", PAIRS, 1.06)):
        shortest, longest = np.array([row[name] for row in found]).T  # mean lengths
        right.vlines(np.array(windows) * shift, shortest, longest, color=color, linewidth=5, label=label)
    right.set(xlabel="window, steps", ylabel="mean length of 90 %, tokens", yscale="log")
    if fixed:
        low, high = 300.0, 100_000.0
    else:
        low, high = right.get_ylim()
        high = 2.5 * high  # room for the legend
    right.set_ylim(low, high)
    ticks = [
        tick for tick in (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000) if low <= tick <= high
    ]
    plain_ticks(right.yaxis, ticks)
    right.legend(fontsize=12, loc="upper left")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(windows, windows)
        if fixed:
            ax.set_xlim(0.8, 40)
    row = next((row for row in found if row["window"] == 8), found[-1])  # the title is about one window
    claim = f"windows of {row['window']} leave {100 * row['waiting']:.1f} %"
    left.set_title(f"Ranks wait {100 * at_random:.1f} % at random; {claim}")
    return fig


def windows_in_words(found: list[dict], at_random: float) -> str:
    """Return the alt text of what `draw_windows` draws."""
    windows = ", ".join(str(row["window"]) for row in found)
    waiting = ", ".join(f"{100 * row['waiting']:.1f}" for row in found)
    spans = {
        name: "; ".join("{:,.0f} to {:,.0f}".format(*row[name]) for row in found) for name in ("steps", "windows")
    }
    return (
        f"In a random deal the average rank waits {100 * at_random:.1f} % of the time, in windows of {windows} steps "
        f"{waiting} %. Mean lengths of 90 % of the steps: {spans['steps']}; of the windows: {spans['windows']}."
    )
