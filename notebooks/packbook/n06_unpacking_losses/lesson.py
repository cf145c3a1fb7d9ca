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
    """Packs of typed lengths; the losses of A and of the others, and where A lies, against the three means."""

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
        sums = " | ".join(" + ".join(map(str, pack)) for pack in packs)
        alt = f"Packs of {sums} predicted tokens. A is in the {'last' if moved else 'first'} pack and has a loss of "
        alt += f"{loss}, all others of {other}. Mean over tokens {means['token']:.2f}, over sequences "
        alt += f"{means['sequence']:.2f}, over packs {means['pack']:.2f}. A counts "
        return fig, alt + ", ".join(f"{percent(share[at], 0)} by {name}" for name, share in shares.items()) + "."


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
