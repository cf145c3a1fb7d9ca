"""Figures on a dark page: a filter turns light and dark over, and what a color means can still be seen."""

import re
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgb

from packbook import figures

ROOM = Path(figures.__file__).parent
with figures.styled():
    (FILTER,) = re.findall(r"filter: (.*?) }", figures.img(figures.new_figure()[0], b"", "nothing at all"))


def on_dark(color):
    """What the filter makes of a color, as https://www.w3.org/TR/filter-effects-1/ defines its two functions."""
    share, degrees = map(float, re.fullmatch(r"invert\((.*)%\) hue-rotate\((.*)deg\)", FILTER).groups())
    inverted = np.array(to_rgb(color)) * (1 - 2 * share / 100) + share / 100
    gray, turn = np.tile([0.213, 0.715, 0.072], (3, 1)), np.deg2rad(degrees)
    sine = [[-0.213, -0.715, 0.928], [0.143, 0.140, -0.283], [-0.787, 0.715, 0.072]]
    return np.clip((gray + np.cos(turn) * (np.eye(3) - gray) + np.sin(turn) * np.array(sine)) @ inverted, 0, 1)


def luminance(rgb):
    """As https://www.w3.org/TR/WCAG22/#dfn-relative-luminance has it."""
    rgb = np.asarray(rgb)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    less, more = sorted((luminance(one), luminance(other)))
    return (more + 0.05) / (less + 0.05)


def test_lines_and_letters_stand_out_on_both_pages():
    dark = on_dark("white")
    assert contrast(to_rgb(figures.INK), to_rgb("white")) > 7 and contrast(on_dark(figures.INK), dark) > 7
    for color in figures.OKABE_ITO:
        assert contrast(on_dark(color), dark) >= 3, color


@figures.styled()
def test_every_dark_page_turns_figures_over_in_the_same_way_and_keeps_heat_maps_light():
    fig, ax = figures.new_figure()
    lines = figures.img(fig, b"", "lines")
    assert "needs_background" not in figures.publish(fig, b"", "lines", "lines")
    ax.imshow([[0.0, 1.0]])
    assert 'class="packlib-figure"' in lines and 'class="packlib-figure packlib-map"' in figures.img(fig, b"", "a map")
    assert figures.publish(fig, b"", "a map", "map")["needs_background"] == "light"
    pages = [
        (ROOM / page).read_text(encoding="utf-8") for page in ("notebook.html", "publish/website/static/site.css")
    ]
    assert all(f"{{ filter: {FILTER}" in page for page in pages)
    for rule in re.findall(r".*{(?= *filter: invert)", "\n".join([lines, *pages])):
        assert ":not(.packlib-map)" in rule or ":not(.jp-needs-light-background)" in rule
