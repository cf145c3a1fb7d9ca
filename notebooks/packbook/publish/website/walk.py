"""One set of texts in four states, padded, packed, masked and unpacked, for the page that one scrolls through.

Python computes where each text lies in each state; `walk.js` moves it there. Without scripts the packed state stands.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from packbook.figures import OKABE_ITO
from packbook.n00_tour.texts import choose_texts
from packlib.arguments import percent
from packlib.lengths import LengthHistogram
from packlib.packing import plan

TEXTS, SLOTS = 48, 128
WIDE, HIGH = 560, 500  # of the drawing
STATES = ("padded", "packed", "masked", "unpacked")
Box = tuple[float, float, float, float]  # x, y, width, height


@dataclass(frozen=True)
class Walk:
    """Boxes by state: of each text, and of each row. `lengths` has the tokens of each text, `packs` its rows."""

    lengths: np.ndarray
    packs: list[list[int]]

    @property
    def empty(self) -> dict[str, float]:
        """The share of slots without a token: padded and packed."""
        tokens = int(self.lengths.sum())
        return {"padded": 1 - tokens / (TEXTS * SLOTS), "packed": 1 - tokens / (len(self.packs) * SLOTS)}

    @property
    def strangers(self) -> float:
        """The share of pairs of tokens in the packs that belong to two texts."""
        squares = sum(int(self.lengths[pack].sum()) ** 2 for pack in self.packs)
        return 1 - int((self.lengths**2).sum()) / squares

    def texts(self, state: str) -> list[Box]:
        """Return the position of each text."""
        scale, row = WIDE / SLOTS, HIGH / TEXTS
        if state in ("padded", "unpacked"):
            return [(0, row * i, scale * length, 0.8 * row) for i, length in enumerate(self.lengths.tolist())]
        boxes: dict[int, Box] = {}
        for (x, y, wide, high), pack in zip(self.rows(state), self.packs, strict=False):
            ends = np.cumsum(self.lengths[pack])
            for text, length, end in zip(pack, self.lengths[pack].tolist(), ends.tolist(), strict=True):
                start, side = end - length, wide / SLOTS
                square = (x + side * start, y + side * start, side * length, side * length)
                boxes[text] = square if state == "masked" else (x + side * start, y, side * length, high)
        return [boxes[text] for text in range(TEXTS)]

    def rows(self, state: str) -> list[Box]:
        """Return the position of each row; rows that a state does not need have no height."""
        if state == "unpacked":
            return [(0, HIGH / TEXTS * i, 0, 0) for i in range(TEXTS)]
        if state == "padded":
            return [(0, HIGH / TEXTS * i, WIDE, 0.8 * HIGH / TEXTS) for i in range(TEXTS)]
        hidden_rows: list[Box] = [(WIDE, HIGH, 0, 0)] * (TEXTS - len(self.packs))
        if state == "packed":
            side = HIGH / len(self.packs)
            return [(0.0, side * k, float(WIDE), 0.8 * side) for k in range(len(self.packs))] + hidden_rows
        columns = int(np.ceil(np.sqrt(len(self.packs))))
        side = min(WIDE, HIGH) / columns
        return [
            (side * (k % columns), side * (k // columns), 0.9 * side, 0.9 * side) for k in range(len(self.packs))
        ] + hidden_rows


def walk() -> Walk:
    """Return the first 48 texts of the tour, in the fewest packs."""
    _, lengths, _ = choose_texts("wordnet", 1280, SLOTS, 0)
    first_lengths = lengths[:TEXTS]
    best = plan(LengthHistogram.from_lengths(first_lengths, SLOTS), method="optimal")
    return Walk(first_lengths, [pack.tolist() for pack in best.assign(first_lengths)])


def words_of(drawing: Walk) -> dict[str, tuple[str, str, str]]:
    """Return, by state, a heading, what to read, and the drawing for those who cannot see it."""
    shares = {state: percent(share, 0) for state, share in drawing.empty.items()}
    rows, strangers = len(drawing.packs), percent(drawing.strangers, 0)
    return {
        "padded": (
            f"{TEXTS} texts take {TEXTS} rows",
            f"Each bar is a definition of WordNet, in a row of {SLOTS} slots. The rest of the row is padding: "
            f"{shares['padded']} of all slots. The model computes the padding, too.",
            f"{TEXTS} rows with a short bar each; {shares['padded']} of the slots are empty.",
        ),
        "packed": (
            f"The same texts fit into {rows} rows",
            f"Several texts lie in one row, one after the other. {shares['packed']} of the slots are empty, and no "
            "packing needs fewer rows. A row costs what it cost before, so there is less to compute.",
            f"The same bars side by side in {rows} rows; {shares['packed']} of the slots are empty.",
        ),
        "masked": (
            "Each text sees itself alone",
            f"A square is a row against itself: which token sees which. Without a mask, {strangers} of the pairs in "
            "these rows are of two texts. The mask leaves the colored blocks, and positions start again in each. Then "
            "a text's outputs are those it has alone.",
            f"{rows} squares with a block on the diagonal for each text; {strangers} of the pairs lie outside of them.",
        ),
        "unpacked": (
            "And each text gets its own back",
            "The outputs are taken out of the rows, in the order of the texts. The loss adds up all tokens and divides "
            "once, so it is the loss of the padded batch, and so are the gradients. Only the padding is gone.",
            f"{TEXTS} bars of the lengths of the texts, without any padding.",
        ),
    }


def on_page() -> str:
    """Return the drawing and its four steps, as HTML."""
    drawing = walk()
    words = words_of(drawing)
    states = {
        state: {"alt": words[state][2], "rows": _rounded(drawing.rows(state)), "texts": _rounded(drawing.texts(state))}
        for state in STATES
    }
    drawn = states["packed"]
    row = "".join(_rect(box, 'class="row"') for box in drawn["rows"])
    text = "".join(_rect(box, f'fill="{OKABE_ITO[i % 6]}"') for i, box in enumerate(drawn["texts"]))
    steps = "".join(
        f'<section class="step" data-state="{state}"><h2>{heading}</h2><p>{explanation}</p></section>'
        for state, (heading, explanation, _) in words.items()
    )
    states_json = json.dumps(states, separators=(",", ":"))
    svg = f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{drawn["alt"]}">{row}{text}</svg>'
    return (
        f'<div class="walk"><script type="application/json">{states_json}</script><div class="stage">{svg}</div>'
        f'<div class="steps">{steps}</div></div>'
    )


def _rounded(boxes: list[Box]) -> list[list[float]]:
    return [[round(float(number), 1) for number in box] for box in boxes]


def _rect(box: Any, look: str) -> str:
    x, y, wide, high = box
    return f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" {look}/>'
