"""Draw one set of texts in four states (padded, packed, masked and unpacked) for the page that one scrolls through.

Python computes where each text lies in each state; `walk.js` moves it there. Without scripts the packed state stands.
"""

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from packbook.figures import OKABE_ITO
from packbook.n00_tour.texts import choose_texts
from packlib.arguments import percent
from packlib.lengths import LengthHistogram
from packlib.packing import plan

TEXTS = 48
SLOTS = 128  # in a row
WIDE, HIGH = 560, 500  # of the drawing, in units of its viewBox
STATES = ("padded", "packed", "masked", "unpacked")
ROW_FILL = 0.8  # of the height that a row has; the remainder is a gap to the next row
SQUARE_FILL = 0.9  # the same for the square of a pack, in both directions
TEXTS_OF_TOUR = 1280  # how many the tour draws by default: the first of them are shown here
COLORS = OKABE_ITO[:6]  # in turn


class Box(NamedTuple):
    """A rectangle in units of the drawing's viewBox; x and y are its left and upper edge."""

    x: float
    y: float
    width: float
    height: float


class Step(NamedTuple):
    """What the page says about one state: a heading, what to read, and the drawing for those who cannot see it."""

    heading: str
    explanation: str
    alt: str


@dataclass(frozen=True)
class Walk:
    """Compute the box of each text and of each row, by state.

    Attributes:
        lengths: tokens of each text, shape (TEXTS,).
        packs: for each packed row, the indices of its texts in `lengths`.
    """

    lengths: np.ndarray
    packs: list[list[int]]

    @property
    def empty(self) -> dict[str, float]:
        """Return the share of slots without a token, of the padded and of the packed rows."""
        tokens = int(self.lengths.sum())
        return {"padded": 1 - tokens / (TEXTS * SLOTS), "packed": 1 - tokens / (len(self.packs) * SLOTS)}

    @property
    def pairs_across(self) -> float:
        """Return the share of the pairs of tokens in one pack whose tokens are of different texts."""
        pairs = sum(int(self.lengths[pack].sum()) ** 2 for pack in self.packs)
        pairs_within_texts = int((self.lengths**2).sum())
        return 1 - pairs_within_texts / pairs

    def texts(self, state: str) -> list[Box]:
        """Return the box of each text, in the order of `lengths`.

        A text is a bar as wide as its tokens. When masked, it is a square on the diagonal of its pack's square.
        """
        if state in ("padded", "unpacked"):
            slot_width, row_spacing = WIDE / SLOTS, HIGH / TEXTS
            bars = []
            for row, length in enumerate(self.lengths.tolist()):
                bars.append(Box(0, row_spacing * row, slot_width * length, ROW_FILL * row_spacing))
            return bars

        box_by_text: dict[int, Box] = {}
        for row_box, pack in zip(self.rows(state), self.packs, strict=False):  # the rows that follow are hidden
            slot_width = row_box.width / SLOTS
            lengths = self.lengths[pack]
            starts = np.cumsum(lengths) - lengths  # first slot of each text in its row
            for text, start, length in zip(pack, starts.tolist(), lengths.tolist(), strict=True):
                x = row_box.x + slot_width * start
                width = slot_width * length
                if state == "masked":
                    box_by_text[text] = Box(x, row_box.y + slot_width * start, width, width)
                else:
                    box_by_text[text] = Box(x, row_box.y, width, row_box.height)
        return [box_by_text[text] for text in range(TEXTS)]

    def rows(self, state: str) -> list[Box]:
        """Return `TEXTS` boxes of rows; rows that a state does not need have no height."""
        padded_spacing = HIGH / TEXTS
        if state == "unpacked":
            return [Box(0, padded_spacing * row, 0, 0) for row in range(TEXTS)]
        if state == "padded":
            return [Box(0, padded_spacing * row, WIDE, ROW_FILL * padded_spacing) for row in range(TEXTS)]

        num_packs = len(self.packs)
        if state == "packed":
            spacing = HIGH / num_packs
            pack_boxes = [Box(0.0, spacing * pack, float(WIDE), ROW_FILL * spacing) for pack in range(num_packs)]
        else:  # masked: a grid of squares, a square for each pack
            columns = int(np.ceil(np.sqrt(num_packs)))
            spacing = min(WIDE, HIGH) / columns
            side = SQUARE_FILL * spacing
            pack_boxes = []
            for pack in range(num_packs):
                row, column = divmod(pack, columns)
                pack_boxes.append(Box(spacing * column, spacing * row, side, side))
        hidden_boxes = [Box(WIDE, HIGH, 0, 0)] * (TEXTS - num_packs)  # the lower right corner
        return pack_boxes + hidden_boxes


def walk() -> Walk:
    """Return the tour's first `TEXTS` texts, in the fewest packs."""
    _, tour_lengths, _ = choose_texts("wordnet", TEXTS_OF_TOUR, max_length=SLOTS, seed=0)
    lengths = tour_lengths[:TEXTS]
    fewest = plan(LengthHistogram.from_lengths(lengths, SLOTS), method="optimal")
    return Walk(lengths, [pack.tolist() for pack in fewest.assign(lengths)])


def words_of(drawing: Walk) -> dict[str, Step]:
    """Return what the page says about each state."""
    empty = {state: percent(share, 0) for state, share in drawing.empty.items()}
    pairs_across = percent(drawing.pairs_across, 0)
    rows = len(drawing.packs)
    return {
        "padded": Step(
            f"{TEXTS} texts take {TEXTS} rows",
            f"Each bar is a definition of WordNet, in a row of {SLOTS} slots. The rest of the row is padding: "
            f"{empty['padded']} of all slots. The model computes the padding, too.",
            f"{TEXTS} rows with a short bar each; {empty['padded']} of the slots are empty.",
        ),
        "packed": Step(
            f"The same texts fit into {rows} rows",
            f"Several texts lie in one row, one after the other. {empty['packed']} of the slots are empty, and no "
            "packing needs fewer rows. A row costs what it cost before, so there is less to compute.",
            f"The same bars side by side in {rows} rows; {empty['packed']} of the slots are empty.",
        ),
        "masked": Step(
            "Each text sees itself alone",
            f"A square is a row against itself: which token sees which. Without a mask, {pairs_across} of the pairs in "
            "these rows are of two texts. The mask leaves the colored blocks, and positions start again in each. Then "
            "a text's outputs are those it has alone.",
            f"{rows} squares with a block on the diagonal for each text; "
            f"{pairs_across} of the pairs lie outside of them.",
        ),
        "unpacked": Step(
            "And each text gets its own back",
            "The outputs are taken out of the rows, in the order of the texts. The loss adds up all tokens and divides "
            "once, so it is the loss of the padded batch, and so are the gradients. Only the padding is gone.",
            f"{TEXTS} bars of the lengths of the texts, without any padding.",
        ),
    }


def on_page() -> str:
    """Return the drawing and its four steps, as HTML.

    The drawing shows the packed state. `walk.js` reads the boxes of all states from the JSON, and sets those of the
    step that is on screen.
    """
    drawing = walk()
    words = words_of(drawing)

    boxes_by_state = {}
    for state in STATES:
        rows, texts = _rounded(drawing.rows(state)), _rounded(drawing.texts(state))
        boxes_by_state[state] = {"alt": words[state].alt, "rows": rows, "texts": texts}
    states_json = json.dumps(boxes_by_state, separators=(",", ":"))

    row_rects = [_rect(box, 'class="row"') for box in _rounded(drawing.rows("packed"))]
    text_rects = []
    for text, box in enumerate(_rounded(drawing.texts("packed"))):
        text_rects.append(_rect(box, f'fill="{COLORS[text % len(COLORS)]}"'))
    rects = "".join([*row_rects, *text_rects])  # rows first: the texts lie on them
    svg = f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{words["packed"].alt}">{rects}</svg>'

    sections = []
    for state, step in words.items():
        body = f"<h2>{step.heading}</h2><p>{step.explanation}</p>"
        sections.append(f'<section class="step" data-state="{state}">{body}</section>')
    return (
        f'<div class="walk"><script type="application/json">{states_json}</script><div class="stage">{svg}</div>'
        f'<div class="steps">{"".join(sections)}</div></div>'
    )


def _rounded(boxes: list[Box]) -> list[list[float]]:
    """Return boxes with one digit after the point, which keeps the page small, as lists for JSON."""
    return [[round(float(number), 1) for number in box] for box in boxes]


def _rect(box: list[float], attributes: str) -> str:
    """Return the SVG of a box, with further attributes such as its color."""
    x, y, width, height = box
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {attributes}/>'
