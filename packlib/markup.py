"""Text from outside (names of files and data, cells, parameters) in a page: always text, never markup.

What is data goes into HTML by these functions and not through Markdown; figures show it as it stands.
"""

import html
import re
from collections.abc import Sequence


def one_line(text: str, most: int = 80) -> str:
    """The text on one line of at most `most` printable characters; the middle of a longer one becomes "…"."""
    kept = "".join(letter for letter in text if letter.isprintable() or letter.isspace())
    line = " ".join(kept.split())
    end = most // 3
    return line if len(line) <= most else f"{line[: most - end - 1]}…{line[len(line) - end :]}"


def escaped(text: str) -> str:
    """The text for an attribute in quotes, or for an element that holds text alone, such as `<title>`."""
    return html.escape(text)


def in_html(text: str) -> str:
    """The text for an element. Tags part `$` and backslashes from the rest, else MathJax sees formulas there."""
    return re.sub(r"[$\\]", r"<span>\g<0></span>", escaped(text))


def rows_of_bars(rows: Sequence[Sequence[tuple[float, float, str]]], legend: str, text: str) -> str:
    """A picture of rows of bars, 640 pixels wide, with `text` under it: for what is shown in a notebook.

    Args:
        rows: for each row its bars: where they begin, how wide they are, in pixels, and their color.
        legend: what the picture shows, for those who cannot see it.
    """
    bars = "".join(
        f'<rect x="{x:.1f}" y="{12 * y}" width="{width:.1f}" height="10" fill="{color}"/>'
        for y, row in enumerate(rows)
        for x, width, color in row
    )
    label = escaped(f"{legend}: {text}")
    svg = f'<svg role="img" aria-label="{label}" width="640" height="{12 * len(rows)}">{bars}</svg>'
    return f"<div>{svg}<div>{in_html(text)}</div></div>"
