"""Notebook 06: the loss, the accuracy and the gradients of the unpacked run."""

import numpy as np
from matplotlib.figure import Figure

from packlib.workbook.chapters.n06_unpacking_losses.figures import LOOKS, draw_weights
from packlib.workbook.chapters.n06_unpacking_losses.runs import weights
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, slider
from packlib.workbook.figures import INK, new_figure, percent


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
        right.set_title(f"Over packs: {off:+.2f}" if abs(off) > 0.005 else "Over packs: as unpacked", fontsize=13)
        alt = f"A has {long} tokens of loss {long_loss}; {number} short sequences have {short} tokens each of loss "
        alt += f"{short_loss} and share a pack. Mean over tokens {means['token']:.2f}, over sequences "
        alt += f"{means['sequence']:.2f}, over packs {means['pack']:.2f}. A counts "
        alt += ", ".join(f"{percent(shares[0], 0)} by {name}" for name, shares in weights(packs).items()) + "."
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
check = EXERCISES
