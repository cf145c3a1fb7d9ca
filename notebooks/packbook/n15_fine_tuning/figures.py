"""What notebook 15 shows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from string import ascii_uppercase

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, label_ends, name_rows, new_figure, percent, plain_ticks, show, styled
from packbook.n15_fine_tuning.runs import Chats, predicted_in_packs, token_weights

READ, PREDICTED = "#dbe9f4", OKABE_ITO[0]  # tokens of prompts, and tokens of answers
SHADES = ("#666666", "#dddddd")  # of micro-batches, in turn


@styled()
def turns(chat: Sequence[tuple[str, int]]) -> None:
    """Draw the tokens of a chat, and below each the token that it must predict."""
    names, spoken = list[tuple[str, bool]](), Counter[str]()
    for role in (role for role, tokens in chat for _ in range(tokens)):
        spoken[role] += 1
        names.append((f"{role[0]}{spoken[role]}", role == "assistant"))
    fig, ax = new_figure()
    for at, (name, answer) in enumerate(names):
        _cell(ax, at, 0, name, answer)
        if at + 1 < len(names) and names[at + 1][1]:
            _cell(ax, at, 1, names[at + 1][0], True)
    name_rows(ax, ["token", "must predict"], above=0.8, below=0.8)
    ax.set(xlim=(-0.6, len(names) - 0.4), xticks=[], xlabel="slots: u of a user, a of an assistant")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    asked = sum(answer for _, answer in names[1:])
    ax.set_title(f"{asked} of {len(names)} tokens are predicted")
    pairs = ", ".join(
        f"{name} must predict {after if answer else 'nothing'}" for (name, _), (after, answer) in pairwise(names)
    )
    show(fig, alt=f"The tokens of a chat in their order: {pairs}.", name="turns")


def _cell(ax: Axes, at: int, row: int, name: str, answer: bool) -> None:
    ax.barh(row, 0.92, 0.7, left=at - 0.46, color=PREDICTED if answer else READ)
    ax.text(at, row, name, ha="center", va="center", color="white" if answer else INK)


@styled()
def predicted_share(sets: Mapping[str, Chats], max_length: int, seed: int, mark: Callable) -> None:
    """Show the share of predicted tokens in each pack, packs from the least to the largest share."""
    fig, ax = new_figure()
    lines, ends = {}, {}
    for (name, chats), look in zip(sets.items(), ("-", "--"), strict=True):
        _, shares = predicted_in_packs(chats, max_length, seed)
        line = ax.plot(np.linspace(0, 100, len(shares)), 100 * shares, look, color=INK)[0]
        lines[line] = name
        ends[name] = f"{percent(shares[0], 0)} to {percent(shares[-1], 0)}"
    ax.set(ylim=(0, 105), xlim=(0, 100), xlabel="packs in the order of their share, %", ylabel="tokens predicted, %")
    first, chats = next(iter(sets.items()))
    mean = ax.plot((0, 100), (100 * chats.share, 100 * chats.share), ":", color=PREDICTED)[0]
    label_ends({**lines, mean: f"{first}, mean"})
    mark(ax, "predicted", axis="y")
    ax.set_title(f"Packs of {first} predict {ends[first]} of their tokens")
    listed = "; ".join(f"{name} {span}" for name, span in ends.items())
    show(fig, alt=f"Which share of a pack's tokens is predicted: {listed}.", name="predicted-share")


def draw_weights(
    ax: Axes, lengths: Sequence[int], groups: Sequence[int], parts: Sequence[int], constant: float, ways: Sequence[str]
) -> dict[str, np.ndarray]:
    """Draw a bar for each way, cut by what each answer weighs; micro-batches have two shades. Return these weights."""
    weights_by_way = {}
    for row, way in enumerate(ways):
        weights = weights_by_way[way] = np.array(lengths) * token_weights(way, lengths, groups, parts, constant)
        shares = 100 * weights / weights.sum()
        for at, (begin, share) in enumerate(zip(np.cumsum(shares) - shares, shares, strict=True)):
            shade = parts[at] % 2
            ax.barh(row, share, 0.66, left=begin, color=SHADES[shade], edgecolor="white", linewidth=2)
            text = f"{ascii_uppercase[at]} {share:.0f}" if share > 5 else ascii_uppercase[at] if share > 2.5 else ""
            look = {"color": INK if shade else "white", "fontweight": "bold"}
            ax.text(begin + share / 2, row, text, ha="center", va="center", fontsize=12, **look)
        ax.text(102, row, f"{weights.sum():.2f}", va="center")
    ax.text(102, -0.62, "sum", va="center")
    name_rows(ax, list(ways), above=0.8)
    ax.set(xlim=(0, 100), xlabel="weight of an answer in the update, %")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return weights_by_way


def weights_in_words(found: Mapping[str, np.ndarray]) -> str:
    """Describe in words the weight of each answer, by method."""
    return "; ".join(
        f"{way}: {', '.join(percent(one, 0) for one in weights / weights.sum())}, in all {weights.sum():.2f}"
        for way, weights in found.items()
    )


@styled()
def five_ways(
    lengths: Sequence[int], groups: Sequence[int], parts: Sequence[int], constant: float, ways: Sequence[str]
) -> None:
    """Show the weight of each answer under each way to add up a loss."""
    fig, ax = new_figure()
    weights_by_way = draw_weights(ax, lengths, groups, parts, constant, ways)
    short = [weights[1] / weights.sum() for weights in weights_by_way.values()]
    fig.suptitle(f"The {lengths[1]} tokens of B weigh {percent(min(short), 0)} to {percent(max(short), 0)}")
    answers = ", ".join(f"{ascii_uppercase[at]} {length}" for at, length in enumerate(lengths))
    alt = f"Answers of {answers} tokens. What they weigh, {weights_in_words(weights_by_way)}."
    numbers = {"least": 100 * float(min(short)), "most": 100 * float(max(short)), "tokens": int(lengths[1])}
    show(fig, alt=alt, name="five-ways", numbers=numbers)


@styled()
def regrouped(moved: Mapping[str, tuple[float, float]], deals: int) -> None:
    """Show the change of an answer's weight with the deal, by way; counted once, or by each rank for itself."""
    fig, ax = new_figure()
    looks = {"one count for the update": {"marker": "o", "color": PREDICTED, "markersize": 13},
             "each rank counts for itself": {"marker": "D", "color": OKABE_ITO[1], "markersize": 8}}  # fmt: skip
    for which, (label, look) in enumerate(looks.items()):
        ax.plot([pair[which] for pair in moved.values()], range(len(moved)), linestyle="", label=label, **look)
    name_rows(ax, list(moved), above=0.6, below=0.6)
    ax.axvline(1, color=INK, linewidth=1, zorder=0)
    ax.set_xscale("log")
    ticks = [tick for tick in (1, 2, 3, 5, 10, 30, 100, 300, 1000) if tick <= 1.5 * max(map(max, moved.values()))]
    plain_ticks(ax.xaxis, ticks)
    ax.set_xlabel(f"largest weight of one answer over its least, {deals} deals")
    ax.legend(loc="upper right", bbox_to_anchor=(1, 1))
    still = sum(pair[0] < 1.001 for pair in moved.values())
    ax.set_title(f"With one count per update, {still} of {len(moved)} losses do not depend on the packs")
    listed = "; ".join(f"{way} {whole:.2f} and {own:.2f}" for way, (whole, own) in moved.items())
    alt = f"Largest over least weight of an answer in {deals} deals, counted once and by each rank: {listed}."
    show(fig, alt=alt, name="regrouped")
