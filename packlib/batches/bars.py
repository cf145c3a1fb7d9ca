"""A picture of rows of bars: batches and packs, as a notebook shows them."""

from collections.abc import Sequence

from packlib.checks import escaped, in_html


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
