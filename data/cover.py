"""The picture of the README: sequences padded, and packed. `python data/record.py cover` writes README.svg"""

from packbook.publish.website.card import SLOTS_A_ROW, drawn_sequences
from packlib.files import write_text
from packlib.installed import ROOT

WIDE, HIGH, GAP, TOP = 340, 12, 3, 34  # of a row, between rows, and above the first, in pixels
RIGHT = WIDE + 60  # where the packed rows begin

# Readable on a light page and on a dark one: the ground is the page's own, and the words are gray.
STYLE = """
.cover text { font: 600 17px system-ui, sans-serif; fill: #75808a; }
.cover .slots { fill: rgb(128 128 128 / .28); }
.cover .piece { fill: #0072B2; }
.cover .moving { animation: pack 9s ease-in-out 2; animation-delay: var(--late); }
@keyframes pack {
  0%, 8%, 56% { transform: none; }
  22%, 34% { transform: translate(var(--x), var(--y)); }
}
@media (prefers-reduced-motion: reduce) { .cover .moving { animation: none; } }
"""


def draw_cover(rows: int = 24, seed: int = 0) -> str:
    """Draw `rows` sequences as long as Wikipedia's, padded and packed, as SVG.

    They stand packed; twice they go to where padding has them, and are packed again.
    """
    slots = SLOTS_A_ROW
    lengths, packs = drawn_sequences(rows, seed)

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
        f"they take {len(packs)} rows that are nearly full. Twice the sequences move from the one to the other."
    )
    box = f"0 0 {RIGHT + WIDE} {row(rows)}"
    words = "".join(f'<text x="{x}" y="20">{name}</text>\n' for x, name in zip((0, RIGHT), names, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="cover" role="img" viewBox="{box}" width="{RIGHT + WIDE}" '
        f'height="{row(rows)}">\n<title>{" · ".join(names)}</title>\n<desc>{about}</desc>\n<style>{STYLE}</style>\n'
        f"{words}{chr(10).join(drawn)}\n</svg>\n"
    )


def main() -> None:
    write_text(ROOT / "README.svg", draw_cover())
