"""The picture of the README: sequences padded, and packed. `python data/record.py cover` writes README.svg"""

import numpy as np

from packlib.files import write_text
from packlib.installed import ROOT
from packlib.lengths import LengthHistogram, load
from packlib.packing import assign, plan

WIDE, HIGH, GAP, TOP = 340, 12, 3, 34  # of a row, between rows, and above the first, in pixels
RIGHT = WIDE + 60  # where the packed rows begin

# Readable on a light page and on a dark one: the ground is the page's own, and the words are gray.
STYLE = """
text { font: 600 17px system-ui, sans-serif; fill: #75808a; }
.slots { fill: rgb(128 128 128 / .28); }
.piece { fill: #0072B2; }
.moving { animation: move 11s ease-in-out infinite backwards; animation-delay: var(--late); }
@keyframes move { 0%, 12% { transform: translate(var(--x), var(--y)); } 34%, 94% { transform: none; } }
@media (prefers-reduced-motion: reduce) { .moving { animation: none; } }
"""


def draw_cover(rows: int = 24, seed: int = 0) -> str:
    """`rows` sequences as long as Wikipedia's, padded and packed, as SVG; they move from the one to the other."""
    wikipedia = load("wikipedia")
    slots, shares = wikipedia.max_length, wikipedia.counts / wikipedia.num_sequences
    lengths = np.random.default_rng(seed).choice(len(shares), rows, p=shares)
    best = plan(LengthHistogram.from_lengths(lengths, slots), method="optimal")
    packs = [pack.tolist() for pack in assign(best, lengths)]

    def row(at: int) -> int:
        return TOP + at * (HIGH + GAP)

    def rect(kind: str, x: float, y: float, width: float, more: str = "") -> str:
        return f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HIGH}"{more}/>'

    def title(words: str, count: int) -> str:
        return f"{words}: {count} rows, {100 * (1 - lengths.sum() / (count * slots)):.0f} % empty"

    drawn = []
    for at, length in enumerate(lengths.tolist()):
        drawn += [rect("slots", 0, row(at), WIDE), rect("piece", 0, row(at), WIDE * length / slots)]
    drawn += [rect("slots", RIGHT, row(at), WIDE) for at in range(len(packs))]
    for at, pack in enumerate(packs):
        before = 0
        for sample in pack:
            x = RIGHT + WIDE * before / slots
            way = f"--x:{-x:.1f}px;--y:{row(sample) - row(at)}px;--late:{0.12 * sample:.2f}s"
            width = WIDE * lengths[sample] / slots - 1.5
            drawn.append(rect("piece moving", x, row(at), width, f' style="{way}"'))
            before += lengths[sample]
    names = title("padded", rows), title("packed", len(packs))
    about = (
        f"The same {rows} sequences twice: padded to {slots} slots they take {rows} rows that are half empty; packed "
        f"they take {len(packs)} rows that are nearly full. The sequences move from the one to the other."
    )
    box = f"0 0 {RIGHT + WIDE} {row(rows)}"
    words = "".join(f'<text x="{x}" y="20">{name}</text>\n' for x, name in zip((0, RIGHT), names, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{box}" width="{RIGHT + WIDE}" '
        f'height="{row(rows)}">\n<title>{" · ".join(names)}</title>\n<desc>{about}</desc>\n<style>{STYLE}</style>\n'
        f"{words}{chr(10).join(drawn)}\n</svg>\n"
    )


def main() -> None:
    write_text(ROOT / "README.svg", draw_cover())
