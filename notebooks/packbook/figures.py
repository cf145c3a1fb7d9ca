"""Figures: one style, one color for each method, and an alt text for readers who cannot see them."""

import base64
import csv
import inspect
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, ScalarFormatter
from PIL import Image
from scipy.optimize import isotonic_regression

from packbook.results import FIGURES_FOLDER, MEANING, display_as
from packlib.arguments import escaped
from packlib.arguments import percent as percent  # where chapters look for it
from packlib.files import atomic_path, write_text

_STYLE = matplotlib.rc_params_from_file(Path(__file__).with_name("packlib.mplstyle"), use_default_template=False)
_STYLED = ContextVar("styled", default=False)  # whether matplotlib now has the workbook's settings

INK = "#222222"  # color of text, and of lines that are no series
PADDING = "#d9d9d9"  # color of slots that hold no token
EMPTY = {"color": PADDING, "hatch": "///", "edgecolor": "white", "linewidth": 0}  # look of bars of such slots

_EDGE = 0.02  # where titles begin, as a share of the width of a figure
_WIDTH = 800  # pixels of a figure on a page; by it the style below tells the workbook's figures from a learner's own
# On a dark page light and dark of a figure are exchanged, hues stay, and white becomes the page color of JupyterLab.
# A heat map stays light: its shades are values, and exchanged they would say the opposite.
_DARK = (
    f"[data-jp-theme-light='false'] :is(.packlib-figure:not(.packlib-map), .jp-RenderedImage "
    f"img[width='{_WIDTH}']:not(.jp-needs-light-background)) {{ filter: invert(93.3%) hue-rotate(180deg) }}"
)

OKABE_ITO = tuple(_STYLE["axes.prop_cycle"].by_key()["color"])
# colors that every PNG has exactly, as RGB from 0 to 255, shape (colors, 3)
_KEPT = np.rint([255 * np.array(to_rgb(color)) for color in (*OKABE_ITO, INK, PADDING, "white")]).astype(int)

with Path(__file__).with_name("series.csv").open(encoding="utf-8") as _file:
    # color, marker and line style of each series; each of the three alone tells series apart
    _SERIES = {row.pop("name"): row for row in csv.DictReader(_file)}


def series(name: str) -> dict[str, str]:
    """Return the color, marker and line style of a packing method or batching habit, the same in every figure.

    A name that is not listed gets a style computed from its letters, so that a new method shows up by itself.
    """
    if name not in _SERIES:
        code = zlib.crc32(name.encode())  # the same on every machine
        colors, markers, linestyles = OKABE_ITO[:6], "ov^<>spPhHdD", ("-", "--", "-.", ":")
        return {
            "color": colors[code % 6],
            "marker": markers[code // 6 % 12],
            "linestyle": linestyles[code // 72 % 4],
        }
    return dict(_SERIES[name])


@cache
def _add_typeface() -> None:
    """Add the shipped typeface to matplotlib, under a name of our own: another version of Inter may be installed."""
    for path in sorted(Path(__file__).with_name("fonts").glob("*.otf")):
        font = font_manager.ttfFontProperty(font_manager.get_font(path))
        font_manager.fontManager.ttflist.append(replace(font, name="packlib Inter"))


@contextmanager
def styled() -> Iterator[None]:
    """Use the workbook's settings of matplotlib within a `with` block or a decorated function.

    Each function that calls `new_figure` has `@styled()` above it, since matplotlib reads its settings while it draws.
    """
    if _STYLED.get():
        yield
        return
    _add_typeface()
    token = _STYLED.set(True)
    try:
        with matplotlib.rc_context(_STYLE):
            yield
    finally:
        _STYLED.reset(token)


def new_figure(rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of 8 × 4.5 inch and its axes; `options` go to `Figure.subplots`.

    Raises:
        RuntimeError: outside `styled()`, where matplotlib would draw in the style of others.
    """
    if not _STYLED.get():
        raise RuntimeError("new_figure needs the workbook's style: put @styled() above the function that calls it.")
    fig = Figure()
    return fig, fig.subplots(rows, columns, **options)


def label_ends(labels: dict[Line2D, str], gap: float = 16) -> None:
    """Write each text next to the last point of its line: direct labels read faster than a legend.

    Labels that would touch are moved apart to `gap` points. Set the limits of the axes before the call.
    """
    lines = sorted(labels, key=lambda line: line.get_ydata()[-1])
    for line in lines:
        line.axes.autoscale_view()  # otherwise the limits are known only when the figure is drawn
    points_per_pixel = 72 / lines[0].figure.dpi
    end_heights = np.array(
        [line.axes.transData.transform((0, line.get_ydata()[-1]))[1] * points_per_pixel for line in lines]
    )
    label_heights = _moved_apart(end_heights, gap)
    for line, label_height, end_height in zip(lines, label_heights, end_heights, strict=True):
        end = line.get_xdata()[-1], line.get_ydata()[-1]
        offset = {"xytext": (10, label_height - end_height), "textcoords": "offset points", "va": "center"}
        line.axes.annotate(labels[line], end, color=INK, annotation_clip=False, **offset)


def _moved_apart(heights: np.ndarray, gap: float) -> np.ndarray:
    """Return the heights nearest to these, by least squares, between which there is at least `gap`.

    If `gap` is taken off the second height, twice the gap off the third, and so on, it is enough that none of them is
    below the one before. Isotonic regression finds the nearest heights of that kind.

    >>> import numpy as np
    >>> from packbook.figures import _moved_apart
    >>> _moved_apart(np.array([0.0, 10.0, 50.0]), gap=16)
    array([-3., 13., 50.])

    Args:
        heights: ascending.
        gap: in the unit of `heights`.
    """
    gaps_below = gap * np.arange(len(heights))
    return isotonic_regression(heights - gaps_below).x + gaps_below


def name_rows(ax: Axes, names: Sequence[str], above: float = 0.5, below: float = 0.5) -> None:
    """Name the rows at 0, 1, … of a picture, the first on top.

    Args:
        above: room above the first row, in rows.
        below: room below the last row, in rows.
    """
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 1 + below, -above)


def plain_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    """Put ticks on an axis at these numbers alone, and write them with commas and no powers of ten."""
    axis.set_ticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.minorticks_off()


def _show_dollars(fig: Figure) -> None:
    """Draw texts as they are, since `$x$` in a name is no formula; powers of ten at logarithmic axes are formulas."""
    powers: set[Text] = set()
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        if isinstance(axis.get_major_formatter(), LogFormatter):
            powers.update(axis.get_majorticklabels())
        if isinstance(axis.get_minor_formatter(), LogFormatter):
            powers.update(axis.get_minorticklabels())
    for text in set(fig.findobj(Text)) - powers:
        text.set_parse_math(False)


class _ThousandsSetOff(ScalarFormatter):
    """Writes the numbers at an axis as matplotlib does, with commas between thousands."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return re.sub(r"(?<![.\d])\d{4,}", lambda digits: f"{int(digits[0]):,}", super().__call__(x, pos))


def _set_off_thousands(fig: Figure) -> None:
    """Write commas between thousands at axes with matplotlib's default formatter; others keep theirs."""
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        if type(axis.get_major_formatter()) is ScalarFormatter:
            axis.set_major_formatter(_ThousandsSetOff())


def _fix_layout(fig: Figure) -> None:
    """Lay the figure out once, so that it looks the same each time it is written.

    Its title begins at the left edge of the page, whether it has one picture or several.
    """
    _set_off_thousands(fig)
    _show_dollars(fig)
    if fig._suptitle:
        fig._suptitle.set(x=_EDGE, horizontalalignment="left")
    if (engine := fig.get_layout_engine()) is not None:
        has_square_axes = any(ax.get_aspect() != "auto" for ax in fig.axes)
        for _ in range(3 if has_square_axes else 1):  # with fewer, labels below square axes are cut off
            engine.execute(fig)
        fig.set_layout_engine("none")
        if len(fig.axes) == 1:
            (ax,) = fig.axes
            edge_x, _ = ax.transAxes.inverted().transform(fig.transFigure.transform((_EDGE, 0)))
            ax._left_title.set_x(edge_x)


def _palette(drawn: Image.Image, size: int = 96) -> np.ndarray:
    """Choose at most `size` colors for a picture; RGB, shape (colors, 3).

    They are the colors of series, the colors of the largest areas, and some that are near to all others.
    """
    pixels_and_colors = drawn.getcolors(drawn.width * drawn.height) or []
    by_area = sorted(pixels_and_colors, key=lambda area: -area[0])
    large = [color for _, color in by_area[: size // 4]]
    remaining = size - len(_KEPT) - len(large)
    nearest = drawn.quantize(remaining, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).getpalette()
    other_colors = np.concatenate([large, np.array(nearest).reshape(-1, 3)[:remaining]])
    distances = np.abs(other_colors[:, None] - _KEPT).max(2).min(1)  # to the nearest color of a series
    return np.concatenate([_KEPT, other_colors[distances > 8]])  # nearer ones could take the place of a series' color


@styled()
def png(fig: Figure, dpi: float | None = None) -> bytes:
    """Return the figure as a PNG of at most 96 colors, which has a quarter of the bytes that matplotlib writes.

    The colors of series are among them, however small a mark is.

    Args:
        dpi: dots per inch. By default the PNG is stored in the notebook: it has 144, or is 1920 pixels wide if figures
            are saved, too, and it takes the time to have the fewest bytes.
    """
    _fix_layout(fig)
    stored = dpi is None
    dpi = dpi or (1920 / fig.get_figwidth() if FIGURES_FOLDER in os.environ else 144)
    dpi_before, canvas = fig.dpi, FigureCanvasAgg(fig)
    fig.set_dpi(dpi)
    canvas.draw()  # `savefig` would draw it twice
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    fig.set_dpi(dpi_before)

    colors = Image.new("P", (1, 1))  # an image that only has a palette
    colors.putpalette(_palette(drawn).ravel().tolist())
    content = io.BytesIO()
    drawn.quantize(palette=colors, dither=Image.Dither.NONE).save(
        content, format="png", optimize=stored, dpi=(dpi, dpi)
    )
    return content.getvalue()


def claim(fig: Figure) -> str:
    """Return the title of the figure, or the titles of its axes, on one line; "" if it has none."""
    titles = [ax.get_title(place) for ax in fig.axes for place in ("left", "center")]
    if fig.get_suptitle():
        titles = [fig.get_suptitle()]
    return " · ".join(" ".join(title.split()) for title in titles if title)


@styled()
def svg(fig: Figure, alt: str, title: str = "", numbers: Mapping[str, Any] | None = None) -> str:
    """Return the figure as SVG text with `alt` as its `<desc>`, the same bytes every time.

    Its `<title>` is the `title`, or the claim of the figure, or `alt`. Its `numbers` are JSON in a `<metadata>`.
    """
    _fix_layout(fig)
    titles = [text for ax in fig.axes for text in (ax.title, ax._left_title) if text.get_text()]
    if fig.get_suptitle():
        fig._suptitle.set_gid("claim")  # so that a slide can hide it
    elif len(titles) == 1:
        titles[0].set_gid("claim")
    raw = io.StringIO()
    fig.savefig(raw, format="svg", metadata={"Date": None})

    elements = f"<title>{escaped(title or claim(fig) or alt)}</title>\n <desc>{escaped(alt)}</desc>"
    if numbers:
        elements += f'\n <metadata id="numbers">{escaped(json.dumps(numbers))}</metadata>'
    declarations, _, after_tag = raw.getvalue().partition("<svg ")
    attributes, _, content = after_tag.partition(">")
    return f'{declarations}<svg role="img" {attributes}>\n {elements}{content}'


def img(fig: Figure, drawn: bytes, alt: str) -> str:
    """Return a figure's PNG as an HTML image with its alt text, for widgets; it follows the theme of JupyterLab.

    Args:
        drawn: the figure's PNG, as `png` made it.
    """
    source = f"data:image/png;base64,{base64.b64encode(drawn).decode()}"
    kind = "packlib-figure packlib-map" if _is_map(fig) else "packlib-figure"
    look = f'<style>{_DARK}</style><img alt="{escaped(alt)}" class="{kind}" width="{_WIDTH}"'
    return f'{look} style="max-width:100%" src="{source}">'


def _is_map(fig: Figure) -> bool:
    """Return whether the figure has a heat map, whose shades are values."""
    return any(image.get_array().ndim == 2 for ax in fig.axes for image in ax.images)


def save(
    fig: Figure,
    alt: str,
    folder: str | os.PathLike,
    name: str,
    title: str = "",
    drawn: bytes = b"",
    numbers: Mapping[str, Any] | None = None,
) -> None:
    """Write `name.svg` and `name.png`, 1920 pixels wide, into `folder`.

    Args:
        drawn: the PNG, if `png` has made it already.
        numbers: those that a slide's headline may say, by name.
    """
    write_text(Path(folder) / f"{name}.svg", svg(fig, alt, title, numbers))
    with atomic_path(Path(folder) / f"{name}.png") as temporary_path:
        temporary_path.write_bytes(drawn or png(fig, dpi=1920 / fig.get_figwidth()))


def publish(
    fig: Figure, drawn: bytes, alt: str, name: str, title: str = "", numbers: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the metadata of an output that shows the figure; under `packbook run` the figure is saved, too.

    Args:
        drawn: the figure's PNG, as `png` made it.
        name: of the figure, and of its files.
        numbers: those that a slide's headline may say, by name.
    """
    if folder := os.environ.get(FIGURES_FOLDER):
        save(fig, alt, folder, name, title, drawn, numbers)
    means: dict[str, Any] = {"kind": "figure", "name": name, "title": title or claim(fig), "alt": alt}
    means |= {"numbers": dict(numbers)} if numbers else {}
    return {MEANING: means, **_look(fig, alt)}


def picture(drawn: bytes, alt: str) -> dict[str, str]:
    """Return the data of an output that shows a figure: its PNG, and its alt text where pictures cannot be shown."""
    return {"image/png": base64.b64encode(drawn).decode(), "text/plain": alt}


def _look(fig: Figure, alt: str) -> dict[str, Any]:
    """Return the metadata of a PNG for viewers of notebooks: width, alt text, and whether it must stay light."""
    look = {"image/png": {"alt": alt, "width": _WIDTH}}
    return {**look, "needs_background": "light"} if _is_map(fig) else look


def show_dark_style() -> None:
    """Let a dark JupyterLab show the figures of this notebook on a dark ground; in other places nothing changes."""
    display_as("style", {"text/html": f"<style>{_DARK}</style>"})


def show(fig: Figure, *, alt: str, name: str, numbers: Mapping[str, Any] | None = None) -> None:
    """Show a figure in a notebook, with the sentence that says what it shows.

    Args:
        alt: what the figure shows, in words, computed from its data.
        name: file name without ending, in lower-case letters, digits and dashes; unique in the notebook.
        numbers: Python's numbers or texts by name, for the headline and the notes of a talk.
    """
    from IPython.display import display

    if not alt.strip():
        raise ValueError(f"The figure {name!r} needs an alt text: say in words what it shows.")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"A figure's name has lower-case letters, digits and dashes only, not {name!r}.")
    drawn = png(fig)
    display(picture(drawn, alt), raw=True, metadata=publish(fig, drawn, alt, name, numbers=numbers))


def show_source(function: Any) -> None:
    """Show the source of a function or class, with the file that it is in."""
    source = inspect.getsource(function)
    file = f"{function.__module__.replace('.', '/')}.py"
    data = {"text/markdown": f"From `{file}`:\n```python\n{source}```", "text/plain": f"{file}\n{source}"}
    display_as("source", data, file=file, text=source)
