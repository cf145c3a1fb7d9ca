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

# colors of shared tokens, of the answers in turn, of pairs that are not seen, and of tokens of an earlier row
PROMPT = "#8c8c8c"
ANSWERS = OKABE_ITO[:4]
HIDDEN = "#f4f4f4"
TWICE = OKABE_ITO[1]


@styled()
def show_mask(words: Sequence[str], columns: Mapping[str, Sequence[int]]) -> None:
    """Show which words of a row each word sees.

    Args:
        words: of each slot.
        columns: of the row, as from `one_row`.
    """
    fig, ax = new_figure()
    answer_ids, mask = branches(columns), pairs_of(columns["seen_until"])
    draw_tree(ax, mask, answer_ids, words)
    causal = len(words) * (len(words) + 1) // 2
    fig.suptitle(f"Every branch sees the prompt and itself: {mask.sum()} of {causal} causal pairs")
    alt = f"Which of {len(words)} slots sees which. A gray trunk of {answer_ids.count(-1)} shared slots is seen from "
    alt += f"all of the {max(answer_ids) + 1} branches, and each branch sees itself alone: "
    show(fig, alt=f"{alt}{mask.sum()} pairs of {causal} that a causal mask has.", name="tree-mask")


@styled()
def show_positions(words: Sequence[str], columns: Mapping[str, Sequence[int]]) -> None:
    """Show the words of a row at their positions; the arguments are those of `show_mask`."""
    fig, ax = new_figure()
    draw_row(ax, words, columns)
    ax.set_title("One prompt, three ways to go on; heads have a thick edge")
    positions = columns["position_ids"]
    listed = "; ".join(f"{word} at {position}" for word, position in zip(words, positions, strict=True))
    show(fig, alt=f"The words of the row with their positions, heads with a thick edge: {listed}.", name="branches")


@styled()
def show_savings(ratio: float, mark: Callable[[Axes, str, str], None]) -> None:
    """Show the tokens of answers with a prompt each, divided by those with one shared prompt, by the prompt's length.

    Args:
        ratio: this quotient for a prompt of 250 tokens and 8 answers, which the notebook asks for.
        mark: draws the reader's guess, as `Questions.mark`.
    """
    fig, ax = new_figure()
    curves = draw_savings(ax, 3000, (2, 4, 8, 16), 1 << 18)
    ax.plot(250, ratio, "o", color=INK)
    mark(ax, "short_prompts", "y")
    ax.annotate(f"250 tokens, 8 answers: {ratio:.2f}", (250, ratio), (0, 14), textcoords="offset points", ha="center")
    ax.set_title("The longer the prompt beside its answers, the more sharing saves")
    ends = "; ".join(f"{answers} answers {curve[0]:.2f} and {curve[-1]:.1f}" for answers, curve in curves.items())
    alt = (
        "Tokens with a prompt for each answer divided by those with a shared prompt, for answers of 3,000 tokens and "
    )
    alt += "prompts of 16 and of 262,144 tokens"
    show(fig, alt=f"{alt}: {ends}. A prompt of 250 tokens with 8 answers: {ratio:.2f}.", name="savings")


@styled()
def show_chat(trees: Trees, ways: Mapping[str, Sequence[Sequence[int]]], max_length: int) -> None:
    """Show a chat as an icicle, and below it its rows for several ways to cut, with the proven minimum.

    Args:
        trees: of the chat; a sequence is a turn with its history.
        ways: by name, the turns of each row.
        max_length: slots in a row.
    """
    fig, (top, below) = new_figure(2, 1, sharex=True, height_ratios=(5, 4))
    draw_icicle(top, trees)
    tokens_of_tree, least = int(trees.slots.sum()), least_tokens(trees, max_length)
    tokens_by_way = draw_cuts(below, trees, ways, least)
    twice = {way: tokens - tokens_of_tree for way, tokens in tokens_by_way.items()}
    best = min(twice, key=lambda way: twice[way])
    tokens_unshared = int(trees.lengths.sum())
    share = percent(tokens_by_way[best] / tokens_unshared, 0)
    fig.suptitle(f"Sharing leaves {share} of the tokens of these {len(trees.lengths)} turns")
    rows_in_words = "; ".join(
        f"{way} {len(rows)} rows with {twice[way]:,} tokens computed twice" for way, rows in ways.items()
    )
    alt = f"A chat of {len(trees.lengths)} turns as an icicle: the history goes on below, and a turn hangs at each of "
    alt += f"its pieces. The turns take {tokens_unshared:,} tokens unshared, and {tokens_of_tree:,} as a tree. "
    alt += f"Rows of {max_length:,}: {rows_in_words}. The proven minimum is {least:,} tokens."
    show(fig, alt=alt, name="chat")


@styled()
def show_ways(counted: Mapping[str, int], rows: TreeRows) -> None:
    """Show the rows of each way to lay groups into rows, and the bound.

    Args:
        counted: rows by way.
        rows: of the last way, which has the bound.
    """
    fig, ax = new_figure()
    draw_ways(ax, counted, rows.lower_bound)
    above = percent(len(rows) / rows.lower_bound - 1)
    least = f"the proven minimum of {rows.lower_bound:,}"
    if len(rows) == rows.lower_bound:
        fig.suptitle(f"Groups split where it pays take {least} rows")
    else:
        fig.suptitle(f"Groups split where it pays take {above} more rows than {least}")
    listed = "; ".join(f"{way} {number}" for way, number in counted.items())
    show(fig, alt=f"Rows of {rows.max_length:,} slots: {listed}; at least {rows.lower_bound}.", name="rows")


def draw_icicle(ax: Axes, trees: Trees) -> None:
    """Draw each node of one tree over the slots that see it: its own slots dark, those of its descendants pale.

    Nodes are in the order of a walk, parents before children, and each level of the tree has a line.
    """
    num_nodes = len(trees.slots)
    starts = np.cumsum(trees.slots) - trees.slots  # first slot of each node
    is_leaf = np.ones(num_nodes, bool)
    is_leaf[trees.parents[1:]] = False
    depth = np.zeros(num_nodes, int)
    for node in range(1, num_nodes):
        depth[node] = depth[trees.parents[node]] + 1
    ends = starts + trees.slots  # of each node with its descendants
    for node in range(num_nodes - 1, 0, -1):
        parent = trees.parents[node]
        ends[parent] = max(ends[parent], ends[node])
    for node, (start, end, level) in enumerate(zip(starts, ends, depth, strict=True)):
        if not is_leaf[node]:
            ax.barh(level, end - start, 0.9, left=start, color=HIDDEN, edgecolor="white", linewidth=0.5)
        color = OKABE_ITO[0] if is_leaf[node] else PROMPT
        ax.barh(level, trees.slots[node], 0.9, left=start, color=color, edgecolor="white", linewidth=0.5)
    for turn, leaf in enumerate(trees.leaves.tolist()):
        if trees.slots[leaf] < 0.03 * trees.slots.sum():  # no room for a number
            continue
        middle = starts[leaf] + trees.slots[leaf] / 2
        ax.text(middle, depth[leaf], str(turn + 1), ha="center", va="center", color="white", fontsize=10)
    ax.set(ylim=(depth.max() + 0.6, -0.6), yticks=[])
    ax.set_ylabel("depth", fontsize=12)
    ax.tick_params(length=0, labelbottom=False)
    ax.grid(visible=False)


def draw_cuts(ax: Axes, trees: Trees, ways: Mapping[str, Sequence[Sequence[int]]], least: int) -> dict[str, int]:
    """Draw a line for each way, with its rows one behind the other; what an earlier row has, too, is hatched.

    Args:
        ways: by name, the sequences of each row.
        least: proven minimum of tokens in all rows.

    Returns:
        The tokens of all rows of each way.
    """
    is_leaf = np.ones(len(trees.parents), bool)
    is_leaf[trees.parents[trees.parents != ROOT]] = False
    tokens_by_way = {}
    for line, (way, rows) in enumerate(ways.items()):
        drawn_nodes: set[int] = set()
        tokens = 0  # drawn so far
        for number, row in enumerate(rows):
            for node in sorted(nodes_of(trees, row)):
                look = {"color": OKABE_ITO[0] if is_leaf[node] else PROMPT}
                if node in drawn_nodes:
                    look = {"color": TWICE, "hatch": "///"}
                ax.barh(line, trees.slots[node], 0.62, left=tokens, edgecolor="white", linewidth=0.3, **look)
                tokens += int(trees.slots[node])
                drawn_nodes.add(node)
            is_last = number == len(rows) - 1
            if not is_last:
                ax.vlines(tokens, line - 0.42, line + 0.42, color=INK, linewidth=2)
        tokens_by_way[way] = tokens
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
    for border in np.flatnonzero(np.diff(answer_ids)) + 0.5:
        ax.axhline(border, color=INK, linestyle="-", linewidth=1)
        ax.axvline(border, color=INK, linestyle="-", linewidth=1)
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
    answer_ids, positions = branches(columns), columns["position_ids"]
    for slot, (word, answer, position) in enumerate(zip(words, answer_ids, positions, strict=True)):
        is_head = answer >= 0 and (slot == 0 or answer_ids[slot - 1] != answer)  # the first slot of its answer
        edge = {"ec": INK, "lw": 2.5, "zorder": 2} if is_head else {"ec": "white", "lw": 1}
        line = -answer  # answers stand one below another, and shared tokens (-1) above them
        ax.barh(line, 1, left=position, color=color_of(answer), **edge)
        look = {"color": "white", "fontsize": 11, "fontweight": "bold"}  # white, since a dark theme inverts dark ink
        ax.text(position + 0.5, line, word, ha="center", va="center", **look)
    ax.set(xlabel="position", yticks=[], xlim=(0, max(positions) + 1))
    ax.set_xticks(np.arange(max(positions) + 1) + 0.5, range(max(positions) + 1))
    ax.spines["left"].set_visible(False)
    ax.tick_params(length=0)


def draw_savings(ax: Axes, answer_tokens: int, counts: Sequence[int], top: int) -> dict[int, np.ndarray]:
    """Draw the tokens of unshared groups, divided by those of shared ones, by the prompt's length.

    Args:
        answer_tokens: tokens of an answer.
        counts: numbers of answers, with a line for each.
        top: tokens of the longest prompt.

    Returns:
        The ratios by number of answers.
    """
    prompts = np.geomspace(16, top, 60)  # tokens
    curves, label_by_line = {}, {}
    for color, answers in zip(ANSWERS, counts, strict=False):
        curves[answers] = np.array([tokens_ratio(prompt, answer_tokens, answers) for prompt in prompts])
        (line,) = ax.plot(prompts, curves[answers], color=color, marker="")
        label_by_line[line] = f"{answers} answers"
    ax.set_xscale("log", base=2)
    ticks = [2**k for k in range(4, int(np.log2(top)) + 1, 2)]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="tokens of the prompt", ylabel="tokens, unshared ÷ shared", ylim=(0, None))
    label_ends(label_by_line)
    return curves


def draw_ways(ax: Axes, counted: Mapping[str, int], bound: int) -> None:
    """Draw a bar for each of three ways to lay groups into rows, and a line at the proven minimum.

    Args:
        counted: rows by way.
        bound: the proven minimum of rows.
    """
    colors = (PROMPT, OKABE_ITO[1], OKABE_ITO[0])
    for line, (rows, color) in enumerate(zip(counted.values(), colors, strict=True)):
        ax.barh(line, rows, height=0.6, color=color)
        ax.text(rows + 0.01 * max(counted.values()), line, f"{rows:,}", va="center")
    ax.axvline(bound, color=INK, linestyle="-", linewidth=1.5)
    ax.text(bound, -0.62, f" at least {bound:,}", ha="left", va="center", fontsize=11)
    ax.set_yticks(range(len(counted)), list(counted))
    ax.set(xlabel="rows", xlim=(0, 1.12 * max(counted.values())), ylim=(len(counted) - 0.5, -0.9))
