"""Explorers without a kernel: one or two controls with a picture for each setting, or a drawing by the browser.

An explorer's output says in its metadata how it was made (see `packbook.explorers`).

Pictures are the rule, because Python has drawn them once. A second drawing, in `static/drawings.js`, is worth its code
only if readers should move all controls. The measured reasons: the 368 settings of chapters 02, 13 and 14 would add
pictures of 3 MB and 55 seconds of the processor to the site, and the settings of chapters 15 to 17 are 9,146. On a
phone of 390 pixels the letters of a picture are 7 pixels high; a drawing has letters of 13 pixels or more, because it
puts one panel below another.
"""

import importlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from ipywidgets import ToggleButtons

from packbook.explorers import Explorer
from packbook.figures import png
from packlib.arguments import escaped

MOST = 16  # settings of an explorer that has pictures
_CHAPTER = re.compile(r"packbook\.n\d\d_")  # where the explorers of notebooks are


def explorer_of(means: Mapping[str, Any]) -> Explorer | None:
    """Return the explorer that an output shows, made again; None if it shows none, or one of no chapter."""
    made = means.get("explorer")
    if made is None or not _CHAPTER.match(made["module"]):
        return None
    return getattr(importlib.import_module(made["module"]), made["name"])(*made["args"], **made["options"])


def on_page(explorer: Explorer, address: Callable[[bytes], str]) -> str:
    """Return an explorer's HTML; `explorers.js` makes the controls. Without scripts its first picture stands alone.

    It starts as in the notebook. Where it has no data for the script to draw from, the controls that are not among its
    `shown_controls` stay as they are.

    Args:
        address: where a picture is found.
    """
    start = {name: control.value for name, control in explorer.widgets.items()}
    values = {name: all_values(control) for name, control in explorer.widgets.items()}
    data = explorer.data()
    first = address(png(explorer.figure, dpi=100))
    image, note = _img(first, explorer.alt), ""
    if data is None:
        names = explorer.shown_controls or tuple(start)[:1]
        some = _some({name: values[name] for name in names}, start)
        note, values = _what_is_left_out(explorer, values, some), some
        data = _pictures(explorer, start, values, first, address)
    else:
        image = f"<noscript>{image}</noscript>"
    controls = [_control(name, explorer.widgets[name], of, start[name]) for name, of in values.items()]
    settings = {"draw": type(explorer).__name__, "controls": controls, "data": data}
    written = json.dumps(settings, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    still = "<p>The controls need scripts, which are off here; this is the first picture.</p>"
    return (
        f'<figure class="explorer"><figcaption>{escaped(explorer.title)}</figcaption>'
        f'<script type="application/json">{written}</script><div class="controls">{still}</div>'
        f'{note}<div class="picture">{image}</div></figure>'
    )


def all_values(control: Any) -> list[tuple[str, Any]]:
    """Return the values of a control with their names."""
    if hasattr(control, "options"):
        return [option if isinstance(option, tuple) else (str(option), option) for option in control.options]
    if hasattr(control, "min"):
        return [(f"{value:,}", value) for value in range(control.min, control.max + 1, control.step)]
    return [("no", False), ("yes", True)]


def _img(source: str, alt: str) -> str:
    image = f'<img alt="{escaped(alt)}" width="800" height="450" class="dark-light figure" src="{source}">'
    return f'<a href="{source}">{image}</a>'


def _control(name: str, control: Any, values: list[tuple[str, Any]], start: Any) -> dict[str, Any]:
    yes_or_no = not hasattr(control, "options") and not hasattr(control, "min")
    kind = "checkbox" if yes_or_no else "radio" if isinstance(control, ToggleButtons) else "range"
    at = [value for _, value in values].index(start)
    return {"name": name, "label": control.description, "kind": kind, "values": values, "at": at}


def _what_is_left_out(explorer: Explorer, values: Mapping[str, list], some: Mapping[str, list]) -> str:
    """Return a sentence for readers who are told to move a control that the page lacks, or to a value that it lacks."""

    def named(names: Iterable[str]) -> str:
        *first, last = (f"<i>{escaped(explorer.widgets[name].description)}</i>" for name in names)
        return f"{', '.join(first)} and {last}" if first else last

    others = [name for name in values if name not in some]
    fewer = [name for name, of in some.items() if len(of) < len(values[name])]
    more = [f"{named(others)} move{'s' * (len(others) == 1)} too"] if others else []
    more += [f"{named(fewer)} {'have' if len(fewer) > 1 else 'has'} more values"] if fewer else []
    if not more:
        return ""
    here = f"Here {named(some)} move{'s' * (len(some) == 1)}"
    return f'<p class="left-out">{here}; in the notebook {", and ".join(more)}.</p>'


def _pictures(
    explorer: Explorer,
    start: Mapping[str, Any],
    values: Mapping[str, list],
    first: str,
    address: Callable[[bytes], str],
) -> dict[str, dict[str, str]]:
    """Return where each picture is, and its alt text, by the indices of the controls' values, in their order.

    The picture of the start is there already, at `first`.
    """
    pictures = {}
    for indices in itertools.product(*(range(len(of)) for of in values.values())):
        setting = {name: of[at][1] for (name, of), at in zip(values.items(), indices, strict=True)}
        source, alt = first, explorer.alt
        if not setting.items() <= start.items():
            figure, alt = explorer.draw(**{**start, **setting})
            source = address(png(figure, dpi=100))
        pictures["-".join(map(str, indices))] = {"src": source, "alt": alt}
    return pictures


def _some(values: Mapping[str, list], start: Mapping[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """Choose at most `MOST` settings in all; the value at the start is always among them."""
    sizes = {name: len(of) for name, of in values.items()}
    while math.prod(sizes.values()) > MOST:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
    some = {}
    for name, of in values.items():
        first = [value for _, value in of].index(start[name])
        indices = np.linspace(0, len(of) - 1, sizes[name]).round().astype(int).tolist()
        indices[min(range(len(indices)), key=lambda at: abs(indices[at] - first))] = first
        some[name] = [of[at] for at in sorted(set(indices))]
    return some
