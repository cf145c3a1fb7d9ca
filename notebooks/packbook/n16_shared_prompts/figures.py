"""What notebook 16 draws: the tree mask, what sharing saves, and rows in three ways."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from packbook.figures import INK, OKABE_ITO, label_ends
from packbook.n16_shared_prompts.runs import branches, times_fewer

PROMPT, ANSWERS, HIDDEN = "#8c8c8c", (OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2], OKABE_ITO[3]), "#f4f4f4"


def color_of(answer: int) -> str:
    """Gray for the prompt, which is answer -1, and a color for each answer."""
    return PROMPT if answer < 0 else ANSWERS[answer % len(ANSWERS)]


def draw_tree(ax: Axes, mask: np.ndarray, answer_ids: Sequence[int], words: Sequence[str] | None = None) -> None:
    """Which slot (row) sees which (column): pairs in the color of the key's branch, and white where nothing is seen.

    Args:
        mask: bool, shape (slots, slots).
        answer_ids: of each slot the answer that it belongs to, -1 for the prompt.
        words: to name the slots by.
    """
    picture = np.full((*mask.shape, 3), to_rgb(HIDDEN))
    for query, key in np.argwhere(mask):
        picture[query, key] = to_rgb(color_of(answer_ids[key]))
    ax.imshow(picture)
    for at in np.flatnonzero(np.diff(answer_ids)) + 0.5:
        ax.axhline(at, color=INK, linestyle="-", linewidth=1)
        ax.axvline(at, color=INK, linestyle="-", linewidth=1)
    ax.tick_params(length=0)
    if words is None:
        ax.set(xticks=[], yticks=[], xlabel="sees", ylabel="slot")
    else:
        ax.set_xticks(range(len(words)), words, rotation=55, ha="right", rotation_mode="anchor", fontsize=11)
        ax.set_yticks(range(len(words)), words, fontsize=11)
        for answer in dict.fromkeys(answer_ids):
            name = "shared tokens" if answer < 0 else f"answer {answer + 1}"
            middle = np.flatnonzero(np.array(answer_ids) == answer).mean()
            ax.text(len(words), middle, name, va="center", fontsize=12)
    ax.grid(visible=False)


def draw_row(ax: Axes, words: Sequence[str], columns: Mapping[str, Sequence[int]]) -> None:
    """The words of the row from left to right, with their positions; a head has a thick edge."""
    ids, positions = branches(columns), columns["position_ids"]
    for at, (word, answer, position) in enumerate(zip(words, ids, positions, strict=True)):
        head = answer >= 0 and (at == 0 or ids[at - 1] != answer)
        edge = {"ec": INK, "lw": 2.5, "zorder": 2} if head else {"ec": "white", "lw": 1}
        ax.barh(-answer, 1, left=position, color=color_of(answer), **edge)
        look = {"color": "white", "fontsize": 11, "fontweight": "bold"}  # in a dark theme all ink is turned over
        ax.text(position + 0.5, -answer, word, ha="center", va="center", **look)
    ax.set(xlabel="position", yticks=[], xlim=(0, max(positions) + 1))
    ax.set_xticks(np.arange(max(positions) + 1) + 0.5, range(max(positions) + 1))
    ax.spines["left"].set_visible(False)
    ax.tick_params(length=0)


def draw_savings(ax: Axes, answer_tokens: int, counts: Sequence[int], top: int) -> dict[int, np.ndarray]:
    """How many times fewer tokens a group takes, over the length of its prompt, for each number of answers."""
    prompts = np.geomspace(16, top, 60)
    curves = {n: np.array([times_fewer(prompt, answer_tokens, n) for prompt in prompts]) for n in counts}
    lines = {}
    for color, (n, curve) in zip(ANSWERS, curves.items(), strict=False):
        line = ax.plot(prompts, curve, color=color, marker="")[0]
        lines[line] = f"{n} answers"
    ax.set_xscale("log", base=2)
    ticks = [2**k for k in range(4, int(np.log2(top)) + 1, 2)]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="tokens of the prompt", ylabel="times fewer tokens", ylim=(0, None))
    label_ends(lines)
    return curves


def draw_ways(ax: Axes, counted: Mapping[str, int], bound: int) -> None:
    """A bar for each way to lay groups into rows, and a line where fewer rows cannot be."""
    colors = (PROMPT, OKABE_ITO[1], OKABE_ITO[0])
    for at, rows in enumerate(counted.values()):
        ax.barh(at, rows, height=0.6, color=colors[at])
        ax.text(rows + 0.01 * max(counted.values()), at, f"{rows:,}", va="center")
    ax.axvline(bound, color=INK, linestyle="-", linewidth=1.5)
    ax.text(bound, -0.62, f" at least {bound:,}", ha="left", va="center", fontsize=11)
    ax.set_yticks(range(len(counted)), list(counted))
    ax.set(xlabel="rows", xlim=(0, 1.12 * max(counted.values())), ylim=(len(counted) - 0.5, -0.9))
