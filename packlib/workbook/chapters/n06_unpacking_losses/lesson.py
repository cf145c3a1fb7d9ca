"""Notebook 06: the loss, the accuracy and the gradients of the unpacked run."""

from copy import deepcopy

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.batches import (
    MlmMasking,
    PackedBatch,
    PackingCollator,
    TokenStore,
    pack_lengths,
    pack_loader,
    sentence_pairs,
    tokenize,
    wordnet_tokenizer,
)
from packlib.lengths import wordnet_texts
from packlib.model import PackedBert
from packlib.packing import Packs
from packlib.workbook.chapters.n05_packed_attention.lesson import small_bert
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, slider
from packlib.workbook.figures import INK, OKABE_ITO, new_figure, percent, series
from packlib.workbook.parameters import Whole

PARAMETERS = {"max_sequences_per_pack": Whole(1, 128, optional=True), "steps": Whole(0, 1000)}
LOOKS = {
    "token": series("sorted"),
    "sequence": series("packed"),
    "pack": series("random"),
}  # of the three means


def glosses(number: int, seed: int) -> tuple[TokenStore, MlmMasking]:
    """Some of WordNet's glosses, with usage examples where they have any, and their masking."""
    texts, tokenizer, (pairs, labels) = wordnet_texts(), wordnet_tokenizer(), sentence_pairs(seed)
    some = np.random.default_rng(seed).choice(len(texts), number, replace=False)
    store = tokenize(tokenizer, texts.definition[some], pairs[some], labels[some], 128, "truncate")
    return store, MlmMasking.for_tokenizer(tokenizer, seed)


def trained(store: TokenStore, masking: MlmMasking, steps: int, seed: int) -> PackedBert:
    """A small BERT after a few steps of training on packs: no good one, but its losses mean something."""
    model = deepcopy(small_bert(2, seed))
    loader = pack_loader(
        store, pack_lengths(store.lengths, 128, "lpfhp"), PackingCollator(128, masking), 16, seed=seed
    )
    optimizer, done = torch.optim.AdamW(model.parameters(), lr=3e-3), 0
    while done < steps:
        for batch, _ in zip(loader, range(steps - done), strict=False):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            done += 1
    return model


def gradients(model: PackedBert, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradient of `loss` by parameter, of those that have one."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), retain_graph=True, allow_unused=True)
    return {name: gradient for name, gradient in zip(named, found, strict=True) if gradient is not None}


def largest_difference(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> dict[str, float]:
    """Of each parameter's two gradients; they must be of the same parameters."""
    if ours.keys() != theirs.keys():
        raise ValueError("The gradients are of different parameters.")
    return {name: (ours[name] - theirs[name]).abs().max().item() for name in ours}


def distance(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """How far the whole gradient `ours` is from `theirs`, as a share of the length of `theirs`."""
    one, other = (torch.cat([found[name].flatten() for name in theirs]) for found in (ours, theirs))
    return ((one - other).norm() / other.norm()).item()


def pack_mean(losses: np.ndarray, counts: np.ndarray, packs: Packs) -> float:
    """The mean over packs of each pack's mean over tokens, from sums and counts by sequence."""
    by_pack = [(losses[ids].sum(), counts[ids].sum()) for ids in packs]
    return float(np.mean([total / count for total, count in by_pack]))


def weights(packs: list[list[int]]) -> dict[str, list[float]]:
    """How much each sequence counts in each mean; `packs` holds the numbers of tokens of its sequences."""
    tokens, sequences = sum(map(sum, packs)), sum(map(len, packs))
    return {
        "token": [n / tokens for pack in packs for n in pack],
        "sequence": [1 / sequences for pack in packs for _ in pack],
        "pack": [n / sum(pack) / len(packs) for pack in packs for n in pack],
    }


def draw_weights(ax: Axes, packs: list[list[int]], least: float = 0.12) -> None:
    """One bar for each mean, cut by how much each sequence counts; packs differ in color.

    Sequences of a weight over `least` are labeled with it.
    """
    colors = [OKABE_ITO[row % 6] for row, pack in enumerate(packs) for _ in pack]
    for row, shares in enumerate(weights(packs).values()):
        starts = 100 * (np.cumsum(shares) - shares)
        for i, (start, share) in enumerate(zip(starts, shares, strict=True)):
            ax.barh(row, 100 * share, 0.6, left=start, color=colors[i], edgecolor="white", linewidth=2)
            if share > 0.03:
                text = f"{chr(65 + i)} {100 * share:.0f} %" if share > least else chr(65 + i)
                ax.text(
                    start + 50 * share, row, text, ha="center", va="center", color="white", fontweight="bold"
                )
    ax.set_yticks(range(3), [f"mean over {name}s" for name in LOOKS])
    ax.set(xlim=(0, 100), ylim=(2.5, -0.5), xlabel="weight in the mean, %")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def draw_first_tokens(ax: Axes, batch: PackedBatch) -> None:
    """Packs as rows; a filled circle at position 0, an open one where another sequence begins."""
    rows, slots = np.divmod(batch.sequence_starts[: batch.num_sequences].numpy(), batch.max_length)
    used = (batch.segment_ids > 0).sum(1)
    ax.barh(range(batch.num_packs), used, height=0.75, color="#dbe9f4")
    for at_start, face in ((slots == 0, OKABE_ITO[0]), (slots > 0, "white")):
        ax.plot(slots[at_start], rows[at_start], marker="o", linestyle="", color=OKABE_ITO[0], markerfacecolor=face,
                markersize=6, markeredgewidth=1.5, clip_on=False)  # fmt: skip
    ax.set(xlabel="slot", ylabel="pack", ylim=(batch.num_packs - 0.5, -0.5), xlim=(0, batch.max_length))
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])


def draw_micro_batches(ax: Axes, parts: list[tuple[int, float]]) -> None:
    """Mean loss of micro-batches, given as (sequences, mean), and both ways to join them."""
    for place, (count, mean) in enumerate(parts):
        ax.plot(place, mean, marker="o", color=LOOKS["sequence"]["color"], markersize=3 * count**0.5)
        ax.annotate(f"{count} sequences", (place, mean), (18, -4), textcoords="offset points")
    counts, means = np.array(parts).T
    joined = {"mean of means": means.mean(), "sums / counts": counts @ means / counts.sum()}
    for (text, value), line in zip(joined.items(), (":", "-"), strict=True):
        ax.axhline(value, color=INK, linestyle=line, linewidth=1.5)
        above = value == max(joined.values())
        ax.text(len(parts) + 0.2, value, f"{text} {value:.3f}", va="bottom" if above else "top", ha="right")
    ax.set(xlim=(-0.3, len(parts) + 0.2), xlabel="micro-batch", ylabel="mean loss", xticks=range(len(parts)))


class MeansExplorer(Explorer):
    """One long sequence in its own pack, some short ones in another: lengths and losses against the means."""

    title = "How far apart are the three means?"

    def controls(self):
        return {
            "long": slider("Tokens of A", 1, 12, value=8),
            "long_loss": slider("Loss of A's tokens", 0, 10, value=2),
            "number": slider("Short sequences", 1, 6, value=2),
            "short": slider("Tokens of each", 1, 6, value=2),
            "short_loss": slider("Loss of their tokens", 0, 10, value=5),
        }

    def draw(self, long, long_loss, number, short, short_loss) -> tuple[Figure, str]:
        packs, losses = [[long], [short] * number], np.array([long_loss] + [short_loss] * number)
        means = {name: float(losses @ shares) for name, shares in weights(packs).items()}
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
        draw_weights(left, packs, least=0.24)
        left.set_title("What counts how much", fontsize=13)
        for row, (name, value) in enumerate(means.items()):
            right.barh(row, value, 0.6, color=LOOKS[name]["color"])
            right.text(10.3, row, f"{value:.2f}", va="center")
        right.axvline(means["sequence"], color=INK, linestyle=":", linewidth=1.5)
        right.set(xlim=(0, 12.5), xticks=(0, 5, 10), ylim=(2.5, -0.5), yticks=[], xlabel="loss")
        off = means["pack"] - means["sequence"]
        right.set_title(
            f"Over packs: {off:+.2f}" if abs(off) > 0.005 else "Over packs: as unpacked", fontsize=13
        )
        alt = f"A has {long} tokens of loss {long_loss}; {number} short sequences have {short} tokens each of loss "
        alt += f"{short_loss} and share a pack. Mean over tokens {means['token']:.2f}, over sequences "
        alt += f"{means['sequence']:.2f}, over packs {means['pack']:.2f}. A counts "
        alt += (
            ", ".join(f"{percent(shares[0], 0)} by {name}" for name, shares in weights(packs).items()) + "."
        )
        return fig, alt


# Exercises


def sequence_mean(packs):
    """`packs[i][j]` holds the losses of the predicted tokens of sequence j in pack i, or nothing."""
    means = [sum(losses) / len(losses) for pack in packs for losses in pack if losses]
    return sum(means) / len(means)


def first_slots(segment_ids):
    """Where each sequence of a batch begins among all slots, the packs laid end to end."""
    slots = len(segment_ids[0])
    return [
        row * slots + i
        for row, pack in enumerate(segment_ids)
        for i, s in enumerate(pack)
        if s > 0 and (i == 0 or s != pack[i - 1])
    ]


def loss_factor(counts):
    """`counts[r][s]` sequences are in micro-batch s of replica r; what multiplies a micro-batch's summed loss."""
    return len(counts) / sum(map(sum, counts))


def _mean(values):
    return sum(values) / len(values)


EXERCISES = Exercises([
    Exercise(
        "sequence_mean", sequence_mean,
        cases=(([[[2.0]]],), ([[[1.0, 3.0]], [[4.0]]],), ([[[2.0], [4.0]], [[9.0]]],), ([[[1.0, 2.0], []], [[6.0]]],),
               ([[[8.0, 2.0, 2.0]], [[1.0], [5.0, 3.0], []]],)),
        wrong={
            "over tokens": lambda packs: _mean([x for pack in packs for losses in pack for x in losses]),
            "over packs": lambda packs: _mean([_mean([x for losses in pack for x in losses]) for pack in packs]),
            "means of sequences, then of packs": lambda packs: _mean([sequence_mean([pack]) for pack in packs]),
            "counts sequences with nothing to predict": lambda packs: (
                sum(_mean(losses) for pack in packs for losses in pack if losses) / sum(map(len, packs))
            ),
        },
        hint="one mean for each sequence that has a loss, then one mean of those, whatever their packs.",
    ),
    Exercise(
        "first_slots", first_slots,
        cases=(([[1]],), ([[1, 1, 2]],), ([[1, 2, 0]],), ([[1, 1], [1, 2]],), ([[1, 2, 2, 0, 0], [1, 1, 1, 2, 3]],)),
        wrong={
            "position 0 only": lambda segment_ids: [row * len(segment_ids[0]) for row in range(len(segment_ids))],
            "padding begins one too": lambda segment_ids: [
                row * len(pack) + i for row, pack in enumerate(segment_ids) for i, s in enumerate(pack)
                if i == 0 or s != pack[i - 1]
            ],
            "forgets the rows above": lambda segment_ids: [
                slot % len(segment_ids[0]) for slot in first_slots(segment_ids)
            ],
        },
        hint="pack `row` begins at slot row × T; a sequence begins where the id is above 0 and new.",
    ),
    Exercise(
        "loss_factor", loss_factor,
        cases=(([[4]],), ([[4, 6]],), ([[4], [6]],), ([[1, 2], [3, 4]],), ([[5, 1, 1], [2, 2, 2], [9, 0, 1]],)),
        wrong={
            "forgets that replicas are averaged": lambda counts: 1 / sum(map(sum, counts)),
            "the mean of means": lambda counts: 1 / (len(counts[0]) * counts[0][0]),
            "each replica its own count": lambda counts: 1 / sum(counts[0]),
            "averages the steps too": lambda counts: len(counts) * len(counts[0]) / sum(map(sum, counts)),
        },
        hint="gradients are added over steps and averaged over replicas: undo the averaging, divide by all sequences.",
    ),
])  # fmt: skip
check = EXERCISES.check
