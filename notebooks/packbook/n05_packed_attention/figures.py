"""What notebook 05 draws: masks, and who moves whom."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Patch
from torch import Tensor

from packbook.figures import INK, OKABE_ITO, PADDING, label_ends, name_rows, new_figure, percent, show, styled
from packbook.results import show_recorded
from packbook.shared.segments import OWN, STRANGER, draw_mask
from packlib.model.attention import allowed_pairs

FORMS = {"dense mask": "#000000", "block mask": OKABE_ITO[3], "bounds": OKABE_ITO[2]}  # of the mask


def from_strangers(matrix: np.ndarray) -> float:
    """Return the share of each row's sum that lies beside the diagonal, on average."""
    shares = matrix / matrix.sum(1, keepdims=True)
    return 1 - np.trace(shares) / len(shares)


@styled()
def show_masks(segment_ids: Tensor, padding_mask: Tensor) -> None:
    """Draw who may look at whom under a padding mask, and under the block-diagonal mask."""
    right = allowed_pairs(segment_ids[None])[0]
    own, pairs = int((padding_mask & right).sum()), int(padding_mask.sum())
    fig, axes = new_figure(1, 2)
    draw_mask(axes[0], segment_ids, padding_mask, "Padding mask")
    draw_mask(axes[1], segment_ids, right, "Block-diagonal mask")
    axes[0].set(xlabel="key", ylabel="query")
    axes[1].set(xlabel="key")
    fig.suptitle("One rule keeps strangers apart: the same segment id")
    alt = f"Who may look at whom in a pack of 9, 7 and 5 tokens. The padding mask allows {pairs} "
    alt += f"pairs, {percent(1 - own / pairs)} of them between strangers (crossed). The "
    alt += f"block-diagonal mask allows the {own} pairs within a sequence, and padding sees padding."
    show(fig, alt=alt, name="two-masks", numbers={"strangers": 100 * (1 - own / pairs)})


@styled()
def show_flat_row(tokens: Tensor, bounds: Sequence[int], tokenizer: Any) -> None:
    """Draw the sequences of a pack padded, as a row of the pack, and as one flat row, token by token."""
    starts, ends = bounds[:-1], bounds[1:]
    spans = [(a, b) for a, b in zip(starts, ends, strict=True) if tokens[a] != tokenizer.pad_token_id]
    longest, slots, real = max(b - a for a, b in spans), len(tokens), spans[-1][1]
    rows = [(name, longest, [(0, b - a)]) for name, (a, b) in zip("ABC", spans, strict=False)]
    rows += [("a pack", slots, spans), ("a flat row", real, spans)]
    heights = [0, 1, 2, 3.6, 5.2][-len(rows) :]
    fig, ax = new_figure()
    for height, (name, width, parts) in zip(heights, rows, strict=True):
        ax.barh(height, width, 0.8, color=PADDING)
        for at, (a, b) in enumerate(parts):
            letter = name if len(name) == 1 else "ABC"[at]
            ax.barh(height, b - a, 0.8, left=a, color=OKABE_ITO["ABC".index(letter)], edgecolor="white")
            for place in range(a, b):
                ax.text(place + 0.5, height, str(place - a), ha="center", va="center", color="white", fontsize=11)
    ax.set_yticks(heights, [f"{name}, padded" if len(name) == 1 else name for name, _, _ in rows])
    ax.set_xticks(list(bounds))
    ax.set(
        xlim=(0, slots), ylim=(heights[-1] + 0.8, -0.8), xlabel="slots; ticks are the bounds, numbers the positions"
    )
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_title("A flat row has no padding: only positions and bounds")
    alt = f"{len(spans)} sequences as padded rows of {longest} slots, as a pack of {slots}, and as one flat row "
    alt += f"of {real} without padding. Positions restart at slots {', '.join(str(a) for a, _ in spans)}."
    show(fig, alt=alt, name="flat-row")


@styled()
def show_influence(moved: Mapping[str, np.ndarray]) -> None:
    """Draw what moves the loss of each sequence: without the mask, with positions that run on, and with both right."""
    stranger = from_strangers(moved["no mask"])
    influences = (moved["both right"] + moved["positions run on"])[~np.eye(len(moved["both right"]), dtype=bool)]
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
    alt = (
        f"How much the loss of each of {len(moved['no mask'])} sequences moves with all embeddings. Without the mask "
    )
    leaking = f"{np.count_nonzero(influences)} of {influences.size} pairs"
    alt += f"{percent(stranger)} of it comes from strangers, with it from {leaking}, "
    alt += "also where positions run on."
    show(fig, alt=alt, name="influence")


@styled()
def show_faults(accuracy: Mapping[str, float], right: float) -> None:
    """Draw hidden words guessed under each fault; the dotted line is the unpacked run."""
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
    """Draw pairs that layers join, strangers crossed."""
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
    """Draw pairs computed for one that is needed."""
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
    listed = "; ".join(f"{n}: " + ", ".join(f"{f} {v:.1f}" for f, v in r.items()) for n, r in ratios.items())
    show(fig, alt=f"Query-key pairs computed for one that is needed. {listed}.", name="pairs-computed")


@styled()
def show_realized() -> None:
    """Show the share of the packing factor that recorded runs reached."""
    rows: list[dict[str, Any]] = [row for row in show_recorded("model_speed") if row["run"] == "packed"]
    noise = max(abs(100 * row["realized / factor"] - 100) for row in rows if row["depth"] == 1)
    reached = [100 * row["realized / factor"] for row in rows]
    fig, ax = new_figure()
    ax.axhspan(100 - noise, 100 + noise, color="#e8e8e8")
    ax.axhline(100, color="#999999", linestyle=":", linewidth=1.5)
    lines = {}
    for head, color, marker, style in (
        ("fixed slots", OKABE_ITO[0], "o", "-"),
        ("masked tokens only", OKABE_ITO[2], "P", "--"),
    ):
        points = [(row["packing factor"], 100 * row["realized / factor"]) for row in rows if row["MLM head"] == head]
        lines[ax.plot(*zip(*points, strict=True), color=color, marker=marker, linestyle=style)[0]] = f"head on\n{head}"
    label_ends(lines)
    ax.set(xlabel="packing factor; gray: noise of runs at factor 1", ylabel="realized speed-up, % of the factor")
    ax.set_title(f"Packing reaches {min(reached):.0f} to {max(reached):.0f} % of the theoretical speed-up")
    each = ", ".join(f"{share:.1f} % of {row['packing factor']:.2f}" for row, share in zip(rows, reached, strict=True))
    each += f". Noise {noise:.1f} points."
    show(fig, alt=f"Share of the packing factor that is reached: {each}", name="realized")
