"""What notebook 05 draws: masks, flat rows, and which sequence changes the loss of which."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.patches import Patch
from torch import Tensor

from packbook.figures import INK, OKABE_ITO, PADDING, label_ends, name_rows, new_figure, percent, show, styled
from packbook.results import show_recorded
from packbook.shared.segments import OWN, STRANGER, draw_mask
from packlib.model.attention import allowed_pairs

FORMS = {"dense mask": "#000000", "block mask": OKABE_ITO[3], "bounds": OKABE_ITO[2]}  # colors of the mask's forms


def from_strangers(matrix: np.ndarray) -> float:
    """Return the share of each row's sum that is not on the diagonal, as a mean over rows; `matrix` is square."""
    shares = matrix / matrix.sum(1, keepdims=True)
    mean_on_diagonal = np.trace(shares) / len(shares)
    return 1 - mean_on_diagonal


@styled()
def show_masks(segment_ids: Tensor, padding_mask: Tensor) -> None:
    """Show which token may look at which under a padding mask, and under the block-diagonal mask.

    Args:
        segment_ids: of one pack, shape (T,).
        padding_mask: pairs that it allows, shape (T, T).
    """
    block_diagonal = allowed_pairs(segment_ids[None])[0]
    num_own = int((padding_mask & block_diagonal).sum())  # pairs within sequences
    num_pairs = int(padding_mask.sum())
    share_across = 1 - num_own / num_pairs
    fig, axes = new_figure(1, 2)
    draw_mask(axes[0], segment_ids, padding_mask, "Padding mask")
    draw_mask(axes[1], segment_ids, block_diagonal, "Block-diagonal mask")
    axes[0].set(xlabel="key", ylabel="query")
    axes[1].set(xlabel="key")
    fig.suptitle("One rule keeps strangers apart: the same segment id")
    alt = f"Who may look at whom in a pack of 9, 7 and 5 tokens. The padding mask allows {num_pairs} "
    alt += f"pairs, {percent(share_across)} of them between strangers (crossed). The "
    alt += f"block-diagonal mask allows the {num_own} pairs within a sequence, and padding sees padding."
    show(fig, alt=alt, name="two-masks", numbers={"strangers": 100 * share_across})


@styled()
def show_flat_row(tokens: Tensor, bounds: Sequence[int], tokenizer: Any) -> None:
    """Show the sequences of a pack padded, as a row of the pack, and as one flat row, with the position of each token.

    Args:
        tokens: of the pack, with padding, shape (T,).
        bounds: first slot of each segment, padding included, and last T.
    """
    segments = pairwise(bounds)  # start and end of each
    spans = [(start, end) for start, end in segments if tokens[start] != tokenizer.pad_token_id]
    longest = max(end - start for start, end in spans)
    slots, num_tokens = len(tokens), spans[-1][1]

    # of each row its name, its slots, and the sequences in it as (letter, start, end)
    sequences = [(letter, start, end) for letter, (start, end) in zip("ABC", spans, strict=False)]
    rows = [(f"{letter}, padded", longest, [(letter, 0, end - start)]) for letter, start, end in sequences]
    rows += [("a pack", slots, sequences), ("a flat row", num_tokens, sequences)]
    heights = [0, 1, 2, 3.6, 5.2][-len(rows) :]  # where the rows are drawn, from the top: the last two are set off
    fig, ax = new_figure()
    for height, (_, width, sequences_in_row) in zip(heights, rows, strict=True):
        ax.barh(height, width, 0.8, color=PADDING)
        for letter, start, end in sequences_in_row:
            color = OKABE_ITO["ABC".index(letter)]
            ax.barh(height, end - start, 0.8, left=start, color=color, edgecolor="white")
            for slot in range(start, end):
                position = str(slot - start)
                ax.text(slot + 0.5, height, position, ha="center", va="center", color="white", fontsize=11)
    ax.set_yticks(heights, [name for name, _, _ in rows])
    ax.set_xticks(list(bounds))
    ax.set(
        xlim=(0, slots), ylim=(heights[-1] + 0.8, -0.8), xlabel="slots; ticks are the bounds, numbers the positions"
    )
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_title("A flat row has no padding: only positions and bounds")
    alt = f"{len(spans)} sequences as padded rows of {longest} slots, as a pack of {slots}, and as one flat row "
    alt += (
        f"of {num_tokens} without padding. Positions restart at slots {', '.join(str(start) for start, _ in spans)}."
    )
    show(fig, alt=alt, name="flat-row")


@styled()
def show_influence(moved: Mapping[str, np.ndarray]) -> None:
    """Show which sequences' embeddings move the loss of each sequence.

    Args:
        moved: for "no mask", "positions run on" and "both right", how much the loss of each sequence (row) moves with
            the embeddings of each (column), shape (sequences, sequences).
    """
    num_sequences = len(moved["both right"])
    share_across = from_strangers(moved["no mask"])
    off_diagonal = ~np.eye(num_sequences, dtype=bool)
    influences_with_mask = (moved["both right"] + moved["positions run on"])[off_diagonal]
    fig, axes = new_figure(1, 3)
    for ax, name in zip(axes, ("no mask", "positions run on", "both right"), strict=True):
        shares = 100 * moved[name] / moved[name].sum(1, keepdims=True)
        ax.imshow(np.ma.masked_equal(shares, 0), vmin=0, vmax=100)  # an exact zero is white, so the least leak is seen
        for (row, column), share in np.ndenumerate(shares):
            color = "white" if 0 < share < 50 else INK
            ax.text(column, row, f"{share:.0f}", ha="center", va="center", color=color, fontsize=11)
        names = [chr(65 + i) for i in range(len(shares))]
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(names)), names)
        ax.set(xlabel="embeddings of", ylabel="loss of")
        ax.set_title(name.capitalize(), fontsize=13, pad=6)
        ax.tick_params(length=0)
    fig.suptitle("With the mask, no sequence moves another: exactly 0 %")
    alt = f"How much the loss of each of {num_sequences} sequences moves with all embeddings. Without the mask "
    leaking = f"{np.count_nonzero(influences_with_mask)} of {influences_with_mask.size} pairs"
    alt += f"{percent(share_across)} of it comes from strangers, with it from {leaking}, "
    alt += "also where positions run on."
    show(fig, alt=alt, name="influence")


@styled()
def show_faults(accuracy: Mapping[str, float], right: float) -> None:
    """Show the share of hidden words that a model guesses under each fault; a dotted line is the unpacked model.

    Args:
        accuracy: share of hidden words guessed, by fault.
        right: the same unpacked.
    """
    fig, ax = new_figure()
    for row, (name, share) in enumerate(accuracy.items()):
        ax.plot(100 * share, row, marker="o", color=OWN if name == "both right" else STRANGER)
        ax.text(100 * share + 2, row, percent(share, 0), va="center")
    ax.axvline(100 * right, color="#999999", linestyle=":", linewidth=1.5)
    ax.set_yticks(range(len(accuracy)), list(accuracy))
    ax.set(xlim=(0, 112), ylim=(3.5, -0.5), xlabel="hidden words guessed, %; dotted: unpacked")
    falls = " and ".join(percent(accuracy[name], 0) for name in ("positions run on", "no mask"))
    ax.set_title(f"One fault: from {percent(right, 0)} of the hidden words to {falls}")
    listed = "; ".join(f"{name} {percent(share, 0)}" for name, share in accuracy.items())
    numbers = {name: 100 * share for name, share in accuracy.items()}
    alt = f"Hidden words guessed, unpacked {percent(right, 0)}: {listed}."
    show(fig, alt=alt, name="faults-cost", numbers=numbers)


@styled()
def show_leaks(
    segment_ids: Tensor, sees: Mapping[str, Tensor], padding_mask: Tensor, crossed: Mapping[str, int]
) -> None:
    """Show the pairs of slots that three layers join; those of different sequences are crossed.

    Args:
        sees: by layer, whether each output (row) depends on each input (column), shape (T, T); three are drawn.
        padding_mask: pairs of slots that both hold a token, shape (T, T).
        crossed: by layer, the number of pairs of different sequences.
    """
    fig, axes = new_figure(1, 3)
    for ax, name in zip(axes, sees, strict=False):
        draw_mask(ax, segment_ids, sees[name] & padding_mask, f"{name}: {crossed[name]} pairs")
        ax.set_xlabel("input")
    axes[0].set_ylabel("output")
    worst = max(list(sees)[:3], key=crossed.__getitem__)
    fig.suptitle(f"The {worst} joins the most strangers: {crossed[worst]} pairs")
    names = {OWN: "within a sequence", STRANGER: "of two strangers (crossed)"}
    handles = [Patch(color=color, label=name) for color, name in names.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=2)
    listed = "; ".join(f"{name} {crossed[name]}" for _, name in zip(axes, sees, strict=False))
    show(fig, alt=f"Pairs of strangers through which layers of a pack leak: {listed}.", name="other-leaks")


@styled()
def show_pairs(ratios: Mapping[str, Mapping[str, float]]) -> None:
    """Show how many query-key pairs each form of the mask computes, for each pair that is needed.

    Args:
        ratios: by the name of the packs, then by form.
    """
    fig, ax = new_figure()
    for column, (form, color) in enumerate(FORMS.items()):
        rows = np.arange(len(ratios)) + 0.27 * (column - 1)
        values = [ratio[form] for ratio in ratios.values()]
        ax.barh(rows, values, height=0.25, color=color)
        for row, value in zip(rows, values, strict=True):
            ax.text(value + 0.05, row, f"{form} {value:.1f}", va="center", fontsize=11)
    name_rows(ax, list(ratios))
    ax.set_xlabel("pairs computed for one that is needed; packs of so many slots")
    dense, bounds = (max(ratio[form] for ratio in ratios.values()) for form in ("dense mask", "bounds"))
    ax.set_title(f"For each pair needed, bounds compute up to {bounds:.1f} pairs, a dense mask {dense:.1f}")
    listed = []
    for name, ratio_by_form in ratios.items():
        listed.append(f"{name}: " + ", ".join(f"{form} {ratio:.1f}" for form, ratio in ratio_by_form.items()))
    alt = f"Query-key pairs computed for one that is needed. {'; '.join(listed)}."
    show(fig, alt=alt, name="pairs-computed")


@styled()
def show_realized() -> None:
    """Show the speed-up of recorded packed runs, as a share of their packing factor."""
    rows: list[dict[str, Any]] = [row for row in show_recorded("model_speed") if row["run"] == "packed"]
    noise = max(abs(100 * row["realized / factor"] - 100) for row in rows if row["depth"] == 1)  # points: not packed
    reached = [100 * row["realized / factor"] for row in rows]
    fig, ax = new_figure()
    ax.axhspan(100 - noise, 100 + noise, color="#e8e8e8")
    ax.axhline(100, color="#999999", linestyle=":", linewidth=1.5)
    label_by_line = {}
    for head, color, marker, style in (
        ("fixed slots", OKABE_ITO[0], "o", "-"),
        ("masked tokens only", OKABE_ITO[2], "P", "--"),
    ):
        runs = [row for row in rows if row["MLM head"] == head]
        factors = [row["packing factor"] for row in runs]
        shares = [100 * row["realized / factor"] for row in runs]
        (line,) = ax.plot(factors, shares, color=color, marker=marker, linestyle=style)
        label_by_line[line] = f"head on\n{head}"
    label_ends(label_by_line)
    ax.set(xlabel="packing factor; gray: noise of runs at factor 1", ylabel="realized speed-up, % of the factor")
    ax.set_title(f"Packing reaches {min(reached):.0f} to {max(reached):.0f} % of the theoretical speed-up")
    listed = ", ".join(
        f"{share:.1f} % of {row['packing factor']:.2f}" for row, share in zip(rows, reached, strict=True)
    )
    alt = f"Share of the packing factor that is reached: {listed}. Noise {noise:.1f} points."
    show(fig, alt=alt, name="realized")
