"""What notebook 16 draws: the tree mask, what sharing saves, a chat as a tree with its rows, and rows in three ways."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from packbook.figures import INK, OKABE_ITO, label_ends, new_figure, percent, show, styled
from packbook.n16_shared_prompts.runs import branches, least_tokens, nodes_of, pairs_of, tokens_ratio
from packlib.packing import TreeRows
from packlib.packing.trees import ROOT, Trees

PROMPT, ANSWERS, HIDDEN = "#8c8c8c", (OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2], OKABE_ITO[3]), "#f4f4f4"
TWICE = OKABE_ITO[1]  # computed in a row before


@styled()
def show_mask(words: Sequence[str], columns: Mapping[str, Sequence[int]]) -> None:
    """Show which words of a row each word sees."""
    fig, ax = new_figure()
    ids, mask = branches(columns), pairs_of(columns["seen_until"])
    draw_tree(ax, mask, ids, words)
    causal = len(words) * (len(words) + 1) // 2
    fig.suptitle(f"Every branch sees the prompt and itself: {mask.sum()} of {causal} causal pairs")
    alt = f"Which of {len(words)} slots sees which. A gray trunk of {ids.count(-1)} shared slots is seen from all of "
    alt += f"the {max(ids) + 1} branches, and each branch sees itself alone: "
    show(fig, alt=f"{alt}{mask.sum()} pairs of {causal} that a causal mask has.", name="tree-mask")


@styled()
def show_positions(words: Sequence[str], columns: Mapping[str, Sequence[int]]) -> None:
    """Draw the words of a row at their positions."""
    fig, ax = new_figure()
    draw_row(ax, words, columns)
    ax.set_title("One prompt, three ways to go on; heads have a thick edge")
    alt = "; ".join(f"{word} at {place}" for word, place in zip(words, columns["position_ids"], strict=True))
    show(fig, alt=f"The words of the row with their positions, heads with a thick edge: {alt}.", name="branches")


@styled()
def show_savings(fewer: float, mark: Callable[[Axes, str, str], None]) -> None:
    """Draw tokens with a prompt for each answer over those with a shared one, by its length; question and guess."""
    fig, ax = new_figure()
    curves = draw_savings(ax, 3000, (2, 4, 8, 16), 1 << 18)
    ax.plot(250, fewer, "o", color=INK)
    mark(ax, "short_prompts", "y")
    ax.annotate(f"250 tokens, 8 answers: {fewer:.2f}", (250, fewer), (0, 14), textcoords="offset points", ha="center")
    ax.set_title("The longer the prompt beside its answers, the more sharing saves")
    ends = "; ".join(f"{n} answers {curve[0]:.2f} and {curve[-1]:.1f}" for n, curve in curves.items())
    alt = (
        "Tokens with a prompt for each answer divided by those with a shared prompt, for answers of 3,000 tokens and "
    )
    alt += "prompts of 16 and of 262,144 tokens"
    show(fig, alt=f"{alt}: {ends}. A prompt of 250 tokens with 8 answers: {fewer:.2f}.", name="savings")


@styled()
def show_chat(trees: Trees, ways: Mapping[str, Sequence[Sequence[int]]], max_length: int) -> None:
    """Draw a chat as an icicle, and below it its rows for ways to cut, with what is computed twice and the bound."""
    fig, (top, below) = new_figure(2, 1, sharex=True, height_ratios=(5, 4))
    draw_icicle(top, trees)
    once, least = int(trees.slots.sum()), least_tokens(trees, max_length)
    tokens_by_way = draw_cuts(below, trees, ways, least)
    twice = {way: total - once for way, total in tokens_by_way.items()}
    best = min(twice, key=twice.__getitem__)
    flat = int(trees.lengths.sum())
    share = percent(tokens_by_way[best] / flat, 0)
    fig.suptitle(f"Sharing leaves {share} of the tokens of these {len(trees.lengths)} turns")
    rows_in_words = "; ".join(
        f"{way} {len(rows)} rows with {twice[way]:,} tokens computed twice" for way, rows in ways.items()
    )
    alt = f"A chat of {len(trees.lengths)} turns as an icicle: the history goes on below, and a turn hangs at each of "
    alt += f"its pieces. The turns take {flat:,} tokens unshared, and {once:,} as a tree. Rows of {max_length:,}: "
    alt += f"{rows_in_words}. The proven minimum is {least:,} tokens."
    show(fig, alt=alt, name="chat")


@styled()
def show_ways(counted: Mapping[str, int], rows: TreeRows) -> None:
    """Draw a bar for each way to lay groups into rows, and the bound."""
    fig, ax = new_figure()
    draw_ways(ax, counted, rows.lower_bound)
    above = percent(len(rows) / rows.lower_bound - 1)
    least = f"the proven minimum of {rows.lower_bound:,}"
    if len(rows) == rows.lower_bound:
        fig.suptitle(f"Groups split where it pays take {least} rows")
    else:
        fig.suptitle(f"Groups split where it pays take {above} more rows than {least}")
    alt = "; ".join(f"{way} {number}" for way, number in counted.items())
    show(fig, alt=f"Rows of {rows.max_length:,} slots: {alt}; at least {rows.lower_bound}.", name="rows")


def draw_icicle(ax: Axes, trees: Trees) -> None:
    """Draw each node over the slots of the row that see it: its own slots dark, those of what is below it pale."""
    begins = np.cumsum(trees.slots) - trees.slots
    is_leaf = np.ones(len(begins), bool)
    is_leaf[trees.parents[1:]] = False
    depth, ends = np.zeros(len(begins), int), begins + trees.slots
    for node in range(1, len(begins)):
        depth[node] = depth[trees.parents[node]] + 1
    for node in range(len(begins) - 1, 0, -1):
        ends[trees.parents[node]] = max(ends[trees.parents[node]], ends[node])
    for node, (begin, end, level) in enumerate(zip(begins, ends, depth, strict=True)):
        if not is_leaf[node]:
            ax.barh(level, end - begin, 0.9, left=begin, color=HIDDEN, edgecolor="white", linewidth=0.5)
        color = OKABE_ITO[0] if is_leaf[node] else PROMPT
        ax.barh(level, trees.slots[node], 0.9, left=begin, color=color, edgecolor="white", linewidth=0.5)
    for turn, leaf in enumerate(trees.leaves.tolist()):
        if trees.slots[leaf] < 0.03 * trees.slots.sum():  # no room for a number
            continue
        middle = begins[leaf] + trees.slots[leaf] / 2
        ax.text(middle, depth[leaf], str(turn + 1), ha="center", va="center", color="white", fontsize=10)
    ax.set(ylim=(depth.max() + 0.6, -0.6), yticks=[])
    ax.set_ylabel("depth", fontsize=12)
    ax.tick_params(length=0, labelbottom=False)
    ax.grid(visible=False)


def draw_cuts(ax: Axes, trees: Trees, ways: Mapping[str, Sequence[Sequence[int]]], least: int) -> dict[str, int]:
    """Return the rows of each way, one behind the other, and their tokens together."""
    is_leaf = np.ones(len(trees.parents), bool)
    is_leaf[trees.parents[trees.parents != ROOT]] = False
    tokens_by_way = {}
    for at, (way, rows) in enumerate(ways.items()):
        nodes_in_row, begin = set[int](), 0
        for number, row in enumerate(rows):
            for node in sorted(nodes_of(trees, row)):
                look = {"color": OKABE_ITO[0] if is_leaf[node] else PROMPT}
                if node in nodes_in_row:
                    look = {"color": TWICE, "hatch": "///"}
                ax.barh(at, trees.slots[node], 0.62, left=begin, edgecolor="white", linewidth=0.3, **look)
                begin += int(trees.slots[node])
                nodes_in_row.add(node)
            if number < len(rows) - 1:
                ax.vlines(begin, at - 0.42, at + 0.42, color=INK, linewidth=2)
        tokens_by_way[way] = begin
    ax.axvline(least, color=INK, linestyle="--", linewidth=1.5)
    ax.text(least, -0.75, f"proven minimum {least:,} ", ha="right", va="center", fontsize=11)
    ax.set_yticks(range(len(ways)), list(ways), fontsize=11)
    ax.set(
        xlabel="tokens; a thick line ends a row",
        xlim=(0, 1.02 * max(tokens_by_way.values())),
        ylim=(len(ways) - 0.5, -1.1),
    )
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.tick_params(axis="y", length=0)
    kinds = {"history": {"color": PROMPT}, "what only one turn has": {"color": OKABE_ITO[0]}}
    kinds |= {"computed twice": {"facecolor": TWICE, "edgecolor": "white", "hatch": "///"}}
    handles = [Patch(label=name, **look) for name, look in kinds.items()]
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.38), ncols=3, fontsize=11)
    return tokens_by_way


def color_of(answer: int) -> str:
    """Return gray for the prompt, which is answer -1, and a color for each answer."""
    return PROMPT if answer < 0 else ANSWERS[answer % len(ANSWERS)]


def draw_tree(ax: Axes, mask: np.ndarray, answer_ids: Sequence[int], words: Sequence[str] | None = None) -> None:
    """Draw which slot (row) sees which (column): pairs in the color of the key's branch, white where nothing is seen.

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
    """Draw the words of the row from left to right, with their positions; a head has a thick edge."""
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
    """Draw tokens of unshared groups over those of shared ones, by the prompt's length; a line for each number."""
    prompts = np.geomspace(16, top, 60)
    curves = {n: np.array([tokens_ratio(prompt, answer_tokens, n) for prompt in prompts]) for n in counts}
    lines = {}
    for color, (n, curve) in zip(ANSWERS, curves.items(), strict=False):
        line = ax.plot(prompts, curve, color=color, marker="")[0]
        lines[line] = f"{n} answers"
    ax.set_xscale("log", base=2)
    ticks = [2**k for k in range(4, int(np.log2(top)) + 1, 2)]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="tokens of the prompt", ylabel="tokens, unshared ÷ shared", ylim=(0, None))
    label_ends(lines)
    return curves


def draw_ways(ax: Axes, counted: Mapping[str, int], bound: int) -> None:
    """Draw a bar for each way to lay groups into rows, and a line at the proven minimum."""
    colors = (PROMPT, OKABE_ITO[1], OKABE_ITO[0])
    for at, rows in enumerate(counted.values()):
        ax.barh(at, rows, height=0.6, color=colors[at])
        ax.text(rows + 0.01 * max(counted.values()), at, f"{rows:,}", va="center")
    ax.axvline(bound, color=INK, linestyle="-", linewidth=1.5)
    ax.text(bound, -0.62, f" at least {bound:,}", ha="left", va="center", fontsize=11)
    ax.set_yticks(range(len(counted)), list(counted))
    ax.set(xlabel="rows", xlim=(0, 1.12 * max(counted.values())), ylim=(len(counted) - 0.5, -0.9))
