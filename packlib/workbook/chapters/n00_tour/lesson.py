"""Notebook 00: the whole in ten minutes, on real text."""

import textwrap
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from packlib.lengths import LengthHistogram, wordnet_texts
from packlib.packing import Packs, assign, plan
from packlib.workbook.chapters.n05_packed_attention.lesson import spans
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, new_figure, percent
from packlib.workbook.parameters import Choice, Whole

PARAMETERS = {
    "texts": Choice(("wordnet", "wordnet-pairs")),
    "number": Whole(100, 1300),
    "max_length": Whole(16, 128),
    "updates": Whole(4, 1000),
}
TRIED = {
    "numbers": {"seed": 7, "number": 700, "max_length": 64, "updates": 12},
    "data": {"seed": 3, "texts": "wordnet-pairs", "updates": 16},
}
COLORS = OKABE_ITO[:6]
LIGHT = "#f4f4f4"


def draw_rows(ax: Axes, rows: Sequence[Sequence[int]], lengths: np.ndarray, slots: int, most: int) -> None:
    """Rows of text ids, room for `most` of them. A text has the same color wherever it lies; gray is empty."""

    def bars(y: np.ndarray, left: np.ndarray, right: np.ndarray, **look) -> None:
        corners = np.stack([left, y - 0.43, left, y + 0.43, right, y + 0.43, right, y - 0.43], axis=1)
        ax.add_collection(PolyCollection(corners.reshape(-1, 4, 2), **look))  # faster than a patch each

    every, ids = np.arange(len(rows)), np.concatenate([np.asarray(row) for row in rows])
    bars(every, np.zeros(len(rows)), np.full(len(rows), slots), facecolors=PADDING)
    ends = np.concatenate([np.cumsum(lengths[np.asarray(row)]) for row in rows])
    colors = [COLORS[i % len(COLORS)] for i in ids]
    at = np.repeat(every, [len(row) for row in rows])
    bars(at, ends - lengths[ids], ends, facecolors=colors, edgecolors="white", linewidths=0.8)
    if (saved := most - len(rows)) > most / 4:
        ax.text(slots / 2, (most + len(rows)) / 2, f"{saved} rows saved", ha="center", va="center", color=INK)
    ax.set(xlim=(0, slots), ylim=(most - 0.4, -0.6), yticks=[], xlabel="slots")
    ax.spines["left"].set_visible(False)


def short(text: str, width: int = 90) -> str:
    """A text on one line, cut after a word."""
    return textwrap.shorten(text, width, placeholder=" …")


def readable(packs: Packs, lines: int = 13) -> list[int]:
    """Packs whose texts can be written out on `lines` lines: two, if there are two that are small enough."""
    sizes = np.diff(packs.offsets)
    by_size = sorted(range(len(packs)), key=lambda i: (sizes[i] > lines // 2, -sizes[i], i))
    return by_size[: 1 if len(packs) == 1 or sizes[by_size[1]] > lines // 2 else 2]


def draw_sentences(ax: Axes, packs: Sequence[np.ndarray], words: Sequence[str], lengths: np.ndarray) -> None:
    """Each pack as a bar of lettered pieces, and under it the text of each piece."""
    slots, y = max(int(lengths[pack].sum()) for pack in packs), 0.0
    for pack in packs:
        start = 0
        for place, i in enumerate(pack):
            letter, color = chr(65 + place), COLORS[place % len(COLORS)]
            ax.barh(y, lengths[i], 1.2, left=start, color=color, edgecolor="white", linewidth=1.5)
            ink = {"color": "white" if place % len(COLORS) < 3 else INK, "weight": "bold", "va": "center"}
            ax.text(start + lengths[i] / 2, y, letter, ha="center", **ink)
            start += lengths[i]
            line, box = y + place + 1.35, {"facecolor": color, "edgecolor": "none", "pad": 2}
            ax.text(0.012 * slots, line, letter, ha="center", fontsize=10, bbox=box, **ink)
            text = ax.text(0.03 * slots, line, short(words[i]), fontsize=10.5, va="center", parse_math=False)
            text.set_in_layout(False)  # else the bars shrink to the longest text
        y += len(pack) + 2.4
    ax.set(xlim=(0, slots), ylim=(y - 1.6, -0.7))
    ax.axis("off")


def draw_looks(ax: Axes, segment_ids: torch.Tensor, allowed: torch.Tensor, title: str) -> None:
    """Which slot (row) looks at which (column): within a text in its color, at a stranger in dark gray."""
    real, own = segment_ids > 0, segment_ids[:, None] == segment_ids
    palette = np.array([to_rgb(COLORS[i % len(COLORS)]) for i in range(int(segment_ids.max()))])
    picture = np.full((*allowed.shape, 3), to_rgb(LIGHT))
    seen = (allowed & real & real[:, None]).numpy()
    picture[seen] = to_rgb("#8a8a8a")
    rows, columns = np.nonzero(seen & own.numpy())
    picture[rows, columns] = palette[segment_ids.numpy()[rows] - 1]
    ax.imshow(picture)
    parts = spans(segment_ids)
    middles, names = [(start + end - 1) / 2 for _, start, end in parts], [name for name, *_ in parts]
    wide = [end - start >= len(segment_ids) / 24 for _, start, end in parts]  # else names would touch
    ax.set_xticks(middles, [name if room else "" for name, room in zip(names, wide, strict=True)])
    ax.set_yticks(middles, [name if room else "" for name, room in zip(names, wide, strict=True)])
    ax.tick_params(length=0)
    ax.set_title(title, fontsize=13)


class RowsExplorer(Explorer):
    """How many texts, how long a row: the same texts padded and packed."""

    title = "What do padding and packing make of these texts?"

    def __init__(self, lengths: Sequence[int] | None = None) -> None:
        given = wordnet_texts().definition_tokens if lengths is None else lengths
        self.lengths = np.asarray(given[:80], np.int64)
        super().__init__()

    def controls(self):
        return {
            "texts": slider("Texts", 4, 80, value=32),
            "slots": choice("Slots in a row", (16, 24, 32, 48, 64, 96, 128, 192, 256), 64),
            "depth": choice(
                "Texts in a pack", [("any number", 0), *((f"at most {d}", d) for d in range(1, 9))], 0
            ),
        }

    def draw(self, texts: int, slots: int, depth: int) -> tuple[Figure, str]:
        lengths = np.minimum(self.lengths[:texts], slots)
        cut = int((self.lengths[:texts] > slots).sum())
        best = plan(LengthHistogram.from_lengths(lengths, slots), "optimal", depth or None)
        both: dict[str, Sequence] = {
            "padded": [[i] for i in range(texts)],
            "packed": list(assign(best, lengths)),
        }
        fig, axes = new_figure(1, 2, sharey=True)
        for ax, (how, rows) in zip(axes, both.items(), strict=True):
            draw_rows(ax, rows, lengths, slots, texts)
            empty = 1 - lengths.sum() / (len(rows) * slots)
            ax.set_title(f"{how}: {len(rows)} rows, {percent(empty, 0)} empty")
        how = f"at most {depth} in a pack" if depth else "any number in a pack"
        return fig, (
            f"{texts} texts in rows of {slots} slots, {how}. Padded: {texts} rows, "
            f"{percent(1 - lengths.sum() / texts / slots)} empty. Packed: {best.num_packs} rows, "
            f"{percent(1 - best.efficiency)} empty: {best.packing_factor:.2f} texts in an average row. "
            f"{cut or 'None'} of the texts had to be cut."
        )  # fmt: skip


# Exercises

NINE, ROW = tuple(range(4, 13)), 24  # three full rows; greedy rules need four
MANY = (
    21,
    9,
    14,
    33,
    12,
    8,
    17,
    26,
    11,
    40,
    15,
    7,
    19,
    13,
    10,
    23,
    16,
    30,
    12,
    18,
    9,
    28,
    14,
    11,
    22,
    6,
    20,
    13,
    37,
    15,
)


def first_fit(lengths, max_length):
    """Packs as lists of lengths: from long to short, each into the first pack that has room."""
    packs = []
    for length in sorted(lengths, reverse=True):
        pack = next((pack for pack in packs if sum(pack) + length <= max_length), None)
        if pack is None:
            packs.append(pack := [])
        pack.append(length)
    return packs


def pack_fault(packs, lengths, max_length, most):
    """What is wrong with packs as lists of lengths, or None."""
    packs, left = [list(pack) for pack in packs], sorted(lengths)
    for length in (length for pack in packs for length in pack):
        if length not in left:
            return f"{length} is in the packs more often than among the texts."
        left.remove(length)
    if left:
        return f"{', '.join(map(str, left))} is left out." if len(left) == 1 else f"{left} are left out."
    if too_full := next((pack for pack in packs if sum(pack) > max_length), None):
        return f"{' + '.join(map(str, too_full))} is {sum(too_full)}; a row has {max_length} slots."
    return f"that takes {len(packs)} rows, and {most} would do." if len(packs) > most else None


def _near_the_best(packs, lengths, max_length):
    fewest = plan(LengthHistogram.from_lengths(lengths, max_length)).num_packs
    return pack_fault(packs, lengths, max_length, fewest + fewest // 8)


def _next_fit(lengths, max_length):
    packs = [[]]
    for length in lengths:
        if sum(packs[-1]) + length > max_length:
            packs.append([])
        packs[-1].append(length)
    return packs


EXERCISES = Exercises([
    Exercise(
        "three_rows", [[12, 8, 4], [11, 7, 6], [10, 9, 5]],
        fault=lambda packs: pack_fault(packs, NINE, ROW, 3),
        wrong={
            "from long to short": first_fit(NINE, ROW),
            "one too full": [[12, 8, 5], [11, 7, 6], [10, 9, 4]],
            "forgets the shortest": [[12, 8], [11, 7, 6], [10, 9, 5]],
            "cuts a text in two": [[12, 8, 4], [11, 7, 6], [10, 9, 3, 2]],
        },
        hint="three full rows leave no slot empty. Which two texts can stand beside 12?",
    ),
    Exercise(
        "my_packs", first_fit,
        cases=(([3], 8), ([5, 5], 8), ([1, 7, 4, 4], 8), ([5, 4, 3, 2, 2], 8), (list(MANY), 64), (list(MANY), 128)),
        fault=_near_the_best,
        wrong={
            "a row for each": lambda lengths, max_length: [[length] for length in lengths],
            "only looks at the last row": _next_fit,
            "all in one row": lambda lengths, max_length: [list(lengths)],
            "each length once": lambda lengths, max_length: first_fit(set(lengths), max_length),
        },
        hint="keep a list of rows, take the texts from long to short, and look at every row for room.",
    ),
])  # fmt: skip
check = EXERCISES.check
