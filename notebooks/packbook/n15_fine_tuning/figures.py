"""What notebook 15 draws: predicted tokens, and the weight of each answer under each way to add up a loss."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from string import ascii_uppercase

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, label_ends, name_rows, new_figure, percent, plain_ticks, show, styled
from packbook.n15_fine_tuning.runs import Chats, predicted_in_packs, token_weights

READ, PREDICTED = "#dbe9f4", OKABE_ITO[0]  # colors of the tokens of prompts, and of answers
SHADES = ("#666666", "#dddddd")  # of micro-batches, in turn


@styled()
def turns(chat: Sequence[tuple[str, int]]) -> None:
    """Show the tokens of a chat, and below each the token that it must predict.

    Args:
        chat: the role and the tokens of each turn.
    """
    names: list[str] = []  # of each token, such as u1, u2, a1
    is_answer: list[bool] = []  # whether the token is of an answer, and so predicted
    tokens_of_role: Counter[str] = Counter()
    for role, num_tokens in chat:
        for _ in range(num_tokens):
            tokens_of_role[role] += 1
            names.append(f"{role[0]}{tokens_of_role[role]}")
            is_answer.append(role == "assistant")
    fig, ax = new_figure()
    for slot, name in enumerate(names):
        _draw_cell(ax, slot, 0, name, is_answer[slot])
        following = slot + 1
        if following < len(names) and is_answer[following]:
            _draw_cell(ax, slot, 1, names[following], True)
    name_rows(ax, ["token", "must predict"], above=0.8, below=0.8)
    ax.set(xlim=(-0.6, len(names) - 0.4), xticks=[], xlabel="slots: u of a user, a of an assistant")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    num_predicted = sum(is_answer[1:])  # no slot predicts the first token
    ax.set_title(f"{num_predicted} of {len(names)} tokens are predicted")
    listed = []
    for (name, next_name), predicted in zip(pairwise(names), is_answer[1:], strict=True):
        listed.append(f"{name} must predict {next_name if predicted else 'nothing'}")
    show(fig, alt=f"The tokens of a chat in their order: {', '.join(listed)}.", name="turns")


def _draw_cell(ax: Axes, slot: int, row: int, name: str, is_answer: bool) -> None:
    """Draw a token with its name; answers are dark."""
    ax.barh(row, 0.92, 0.7, left=slot - 0.46, color=PREDICTED if is_answer else READ)
    ax.text(slot, row, name, ha="center", va="center", color="white" if is_answer else INK)


@styled()
def predicted_share(sets: Mapping[str, Chats], max_length: int, seed: int, mark: Callable) -> None:
    """Show the share of predicted tokens in each pack, for two sets of chats, sorted by this share."""
    fig, ax = new_figure()
    name_by_line, range_of = {}, {}
    for (name, chats), look in zip(sets.items(), ("-", "--"), strict=True):
        _, shares = predicted_in_packs(chats, max_length, seed)
        (line,) = ax.plot(np.linspace(0, 100, len(shares)), 100 * shares, look, color=INK)
        name_by_line[line] = name
        range_of[name] = f"{percent(shares[0], 0)} to {percent(shares[-1], 0)}"
    ax.set(ylim=(0, 105), xlim=(0, 100), xlabel="packs in the order of their share, %", ylabel="tokens predicted, %")
    first, chats = next(iter(sets.items()))
    (mean_line,) = ax.plot((0, 100), (100 * chats.share, 100 * chats.share), ":", color=PREDICTED)
    label_ends({**name_by_line, mean_line: f"{first}, mean"})
    mark(ax, "predicted", axis="y")
    ax.set_title(f"Packs of {first} predict {range_of[first]} of their tokens")
    listed = "; ".join(f"{name} {shares_in_words}" for name, shares_in_words in range_of.items())
    show(fig, alt=f"Which share of a pack's tokens is predicted: {listed}.", name="predicted-share")


def draw_weights(
    ax: Axes, lengths: Sequence[int], groups: Sequence[int], parts: Sequence[int], constant: float, ways: Sequence[str]
) -> dict[str, np.ndarray]:
    """Draw a bar for each way, cut by what each answer weighs; micro-batches have two shades in turn.

    The arguments are those of `token_weights`.

    Returns:
        By way, the weight of each answer, shape (answers,).
    """
    weights_by_way = {}
    for row, way in enumerate(ways):
        weights = np.array(lengths) * token_weights(way, lengths, groups, parts, constant)
        weights_by_way[way] = weights
        shares = 100 * weights / weights.sum()
        starts = np.cumsum(shares) - shares
        for answer, (start, share) in enumerate(zip(starts, shares, strict=True)):
            shade = parts[answer] % 2
            ax.barh(row, share, 0.66, left=start, color=SHADES[shade], edgecolor="white", linewidth=2)
            text = ascii_uppercase[answer] if share > 2.5 else ""  # as far as there is room
            if share > 5:
                text += f" {share:.0f}"
            look = {"color": INK if shade else "white", "fontweight": "bold"}
            ax.text(start + share / 2, row, text, ha="center", va="center", fontsize=12, **look)
        ax.text(102, row, f"{weights.sum():.2f}", va="center")
    ax.text(102, -0.62, "sum", va="center")
    name_rows(ax, list(ways), above=0.8)
    ax.set(xlim=(0, 100), xlabel="weight of an answer in the update, %")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return weights_by_way


def weights_in_words(found: Mapping[str, np.ndarray]) -> str:
    """Return in words, by way, the share of each answer in all weights, and their sum."""
    return "; ".join(
        f"{way}: {', '.join(percent(share, 0) for share in weights / weights.sum())}, in all {weights.sum():.2f}"
        for way, weights in found.items()
    )


@styled()
def five_ways(
    lengths: Sequence[int], groups: Sequence[int], parts: Sequence[int], constant: float, ways: Sequence[str]
) -> None:
    """Show the weight of each answer under each way to add up a loss."""
    fig, ax = new_figure()
    weights_by_way = draw_weights(ax, lengths, groups, parts, constant, ways)
    shares_of_b = [weights[1] / weights.sum() for weights in weights_by_way.values()]
    least, most = min(shares_of_b), max(shares_of_b)
    fig.suptitle(f"The {lengths[1]} tokens of B weigh {percent(least, 0)} to {percent(most, 0)}")
    answers = ", ".join(f"{ascii_uppercase[answer]} {length}" for answer, length in enumerate(lengths))
    alt = f"Answers of {answers} tokens. What they weigh, {weights_in_words(weights_by_way)}."
    numbers = {"least": 100 * float(least), "most": 100 * float(most), "tokens": int(lengths[1])}
    show(fig, alt=alt, name="five-ways", numbers=numbers)


@styled()
def regrouped(moved: Mapping[str, tuple[float, float]], deals: int) -> None:
    """Show how much an answer's weight changes with the deal, by way; counted once, or by each rank for itself.

    Args:
        moved: what `packbook.n15_fine_tuning.runs.regrouped` returns.
        deals: how many there were.
    """
    fig, ax = new_figure()
    looks = {"one count for the update": {"marker": "o", "color": PREDICTED, "markersize": 13},
             "each rank counts for itself": {"marker": "D", "color": OKABE_ITO[1], "markersize": 8}}  # fmt: skip
    for index, (label, look) in enumerate(looks.items()):
        ax.plot([ratios[index] for ratios in moved.values()], range(len(moved)), linestyle="", label=label, **look)
    name_rows(ax, list(moved), above=0.6, below=0.6)
    ax.axvline(1, color=INK, linewidth=1, zorder=0)
    ax.set_xscale("log")
    ticks = [tick for tick in (1, 2, 3, 5, 10, 30, 100, 300, 1000) if tick <= 1.5 * max(map(max, moved.values()))]
    plain_ticks(ax.xaxis, ticks)
    ax.set_xlabel(f"largest weight of one answer over its least, {deals} deals")
    ax.legend(loc="upper right", bbox_to_anchor=(1, 1))
    num_unchanged = sum(once < 1.001 for once, _ in moved.values())
    ax.set_title(f"With one count per update, {num_unchanged} of {len(moved)} losses do not depend on the packs")
    listed = "; ".join(f"{way} {once:.2f} and {by_rank:.2f}" for way, (once, by_rank) in moved.items())
    alt = f"Largest over least weight of an answer in {deals} deals, counted once and by each rank: {listed}."
    show(fig, alt=alt, name="regrouped")
