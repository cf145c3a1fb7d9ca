"""Notebook 06: the loss, the accuracy and the gradients of the unpacked run."""

from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np
import torch
from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, percent
from packbook.n06_unpacking_losses.figures import LOOKS, draw_weights
from packbook.n06_unpacking_losses.lab import FAULTS, not_the_four
from packbook.n06_unpacking_losses.runs import weights
from packbook.questions import Questions, compare
from packlib.checks import shown, whole_number


class MeansExplorer(Explorer):
    """Packs of typed lengths; the losses of A and of the others, and where A lies, against the three means."""

    title = "How far apart are the three means?"
    shown_controls = ("loss", "moved")

    def __init__(self, packs: Sequence[Sequence[int]] = ((2,), (6, 6))):
        """`packs` holds the numbers of predicted tokens of each sequence; A is the first."""
        try:
            self.packs = [[whole_number("packs", n, 1) for n in pack] for pack in packs if len(pack)]
        except (TypeError, ValueError):
            self.packs = []
        if not 2 <= sum(map(len, self.packs)) <= 26:
            said = "packs must be lists of whole numbers from 1, such as [[2], [6, 6]], 2 to 26 numbers in all, not"
            raise ValueError(f"{said} {shown(packs)}.")
        super().__init__()

    def controls(self):
        return {
            "loss": slider("Loss of A's tokens", 0, 10, value=8),
            "other": slider("Loss of all others", 0, 10, value=2),
            "moved": Checkbox(False, description="A joins the last pack"),
        }

    def draw(self, loss: int, other: int, moved: bool) -> tuple[Figure, str]:
        (first, *rest), *packs = self.packs
        packs = [rest, *packs[:-1], [first, *packs[-1]]] if moved and packs else [[first, *rest], *packs]
        packs = [pack for pack in packs if pack]
        at = sum(map(len, packs[:-1])) if moved else 0  # where A stands now
        losses = np.full(sum(map(len, packs)), other)
        losses[at] = loss
        shares = weights(packs)
        means = {name: float(losses @ share) for name, share in shares.items()}
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
        others = ascii_uppercase[1 : len(losses)]
        draw_weights(left, packs, least=0.24, names=others[:at] + "A" + others[at:])
        left.set_title("Weights; a shade for each pack", fontsize=13)
        for row, (name, value) in enumerate(means.items()):
            right.barh(row, value, 0.6, color=LOOKS[name]["color"])
            right.text(10.3, row, f"{value:.2f}", va="center")
        right.set(xlim=(0, 12.5), xticks=(0, 5, 10), ylim=(2.5, -0.5), yticks=[], xlabel="loss")
        off = means["pack"] - means["sequence"]
        says = f"{abs(off):.2f} too {'high' if off > 0 else 'low'}" if abs(off) > 0.005 else "as unpacked"
        right.set_title(f"Packs: {says}", fontsize=13)
        held = " | ".join(" + ".join(map(str, pack)) for pack in packs)
        alt = f"Packs of {held} predicted tokens. A is in the {'last' if moved else 'first'} pack and has a loss of "
        alt += f"{loss}, all others of {other}. Mean over tokens {means['token']:.2f}, over sequences "
        alt += f"{means['sequence']:.2f}, over packs {means['pack']:.2f}. A counts "
        return fig, alt + ", ".join(f"{percent(share[at], 0)} by {name}" for name, share in shares.items()) + "."


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "toy_packed": lambda mean: compare(mean, 4, "less", "4 again", "more"),
        "closer": lambda token, sequence, pack: compare(
            abs(pack - token),
            abs(pack - sequence),
            "the mean over tokens",
            "neither",
            "the mean over sequences",
            within=0.1 * max(abs(pack - token), abs(pack - sequence)),
        ),
        "first_tokens": lambda packs, sequences: "the first of each pack" if packs < sequences else "all of them",
        "mean_of_means": lambda three, alone: compare(
            three, alone, "the one alone", "both the same", "one of the three"
        ),
    },
    reasons={
        "closer": lambda token, sequence, pack: (
            f"It is {abs(pack - token):.3f} from the mean over tokens, and {abs(pack - sequence):.3f} from the mean "
            "over sequences. If all rows hold about the same number of predicted tokens, all tokens weigh about the "
            "same; if each row holds one sequence, all sequences do."
        ),
        "first_tokens": lambda packs, sequences: (
            f"Only {packs} of the {sequences} sequences begin at position 0 of a row. The head would never be trained "
            "on the others, and no error would say so."
            if packs < sequences
            else "With this limit each row holds one sequence. As soon as rows hold more, all but the first of each "
            "row are lost, and no error says so."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def sequence_mean(packs):
    """`packs[i][j]` holds the losses of the predicted tokens of sequence j in pack i, or nothing."""
    means = [sum(losses) / len(losses) for pack in packs for losses in pack if losses]
    return sum(means) / len(means)


def unpack(values, slots, starts):
    """The summed loss of each sequence, and its number of predicted tokens, as two lists or tensors."""
    sequence = torch.searchsorted(starts, slots, right=True) - 1
    zeros = torch.zeros(len(starts), dtype=values.dtype)
    return zeros.index_add(0, sequence, values), zeros.index_add(0, sequence, torch.ones_like(values))


def loss_factor(counts):
    """`counts[r][s]` sequences are in micro-batch s of replica r; what multiplies a micro-batch's summed loss."""
    return len(counts) / sum(map(sum, counts))


def _tensors(*given):
    values, slots, starts = given
    return torch.tensor(values, dtype=torch.float64), torch.tensor(slots), torch.tensor(starts)


check = Exercises.beside(
    __file__,
    Exercise(
        "unpack",
        unpack,
        cases=(
            _tensors([3], [0], [0]),
            _tensors([3, 4], [1, 2], [0]),
            _tensors([3, 4], [1, 4], [0, 4]),
            _tensors([1, 2, 4, 8], [0, 3, 5, 9], [0, 4, 8]),
            _tensors([1, 2, 4], [2, 17, 18], [0, 5, 16, 19]),
        ),
    ),
    sequence_mean,
    loss_factor,
    Exercise("broken_trainer", FAULTS, fault=not_the_four),
)
