"""The explorer and the questions of notebook 06."""

from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np
from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, percent, styled
from packbook.n06_unpacking_losses.figures import LOOKS, draw_weights
from packbook.n06_unpacking_losses.runs import weights
from packbook.questions import Questions
from packlib.arguments import shown, whole_number


class MeansExplorer(Explorer):
    """Show three means of the loss over the sequences of packs, of which one, A, has a loss of its own."""

    title = "How far apart are the three means?"
    shown_controls = ("loss", "moved")

    def __init__(self, packs: Sequence[Sequence[int]] = ((2,), (6, 6))):
        """Explore `packs`: the number of predicted tokens of each sequence; A is the first."""
        try:
            self.packs = [[whole_number("packs", n, 1) for n in pack] for pack in packs if len(pack)]
        except (TypeError, ValueError):
            self.packs = []
        if not 2 <= sum(map(len, self.packs)) <= 26:
            allowed = "packs must be lists of whole numbers from 1, such as [[2], [6, 6]], 2 to 26 numbers in all, not"
            raise ValueError(f"{allowed} {shown(packs)}.")
        super().__init__()

    def controls(self):
        return {
            "loss": slider("Loss of A's tokens", 0, 10, value=8),
            "other": slider("Loss of all others", 0, 10, value=2),
            "moved": Checkbox(False, description="A joins the last pack"),
        }

    @styled()
    def draw(self, loss: int, other: int, moved: bool) -> tuple[Figure, str]:
        (tokens_of_a, *neighbors), *other_packs = self.packs
        if moved and other_packs:
            *middle_packs, last_pack = other_packs
            packs = [neighbors, *middle_packs, [tokens_of_a, *last_pack]]
        else:
            packs = self.packs
        packs = [pack for pack in packs if pack]  # A may have been alone
        index_of_a = sum(map(len, packs[:-1])) if moved else 0  # among all sequences
        losses = np.full(sum(map(len, packs)), other)
        losses[index_of_a] = loss
        shares = weights(packs)
        means = {name: float(losses @ share) for name, share in shares.items()}
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
        others = ascii_uppercase[1 : len(losses)]
        draw_weights(left, packs, least=0.24, names=others[:index_of_a] + "A" + others[index_of_a:])
        left.set_title("Weights; a shade for each pack", fontsize=13)
        for row, (name, value) in enumerate(means.items()):
            right.barh(row, value, 0.6, color=LOOKS[name]["color"])
            right.text(10.3, row, f"{value:.2f}", va="center")
        right.set(xlim=(0, 12.5), xticks=(0, 5, 10), ylim=(2.5, -0.5), yticks=[], xlabel="loss")
        error = means["pack"] - means["sequence"]
        verdict = f"{abs(error):.2f} too {'high' if error > 0 else 'low'}" if abs(error) > 0.005 else "as unpacked"
        right.set_title(f"Packs: {verdict}", fontsize=13)
        sums = " | ".join(" + ".join(map(str, pack)) for pack in packs)
        alt = f"Packs of {sums} predicted tokens. A is in the {'last' if moved else 'first'} pack and has a loss of "
        alt += f"{loss}, all others of {other}. Mean over tokens {means['token']:.2f}, over sequences "
        alt += f"{means['sequence']:.2f}, over packs {means['pack']:.2f}. A counts "
        return fig, alt + ", ".join(
            f"{percent(share[index_of_a], 0)} by {name}" for name, share in shares.items()
        ) + "."


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
