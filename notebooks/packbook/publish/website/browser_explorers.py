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
from typing import Any, TypeAlias

import numpy as np
from ipywidgets import ToggleButtons

from packbook.explorers import Explorer
from packbook.figures import png
from packlib.arguments import escaped

MOST = 16  # settings of an explorer for which pictures are made
NamedValues: TypeAlias = list[tuple[str, Any]]  # of a control: each value with the text that readers see
_CHAPTER = re.compile(r"packbook\.n\d\d_")  # where the explorers of notebooks are


def explorer_of(means: Mapping[str, Any]) -> Explorer | None:
    """Make the explorer that an output shows again, and return it; None if it shows none, or one of no chapter.

    Args:
        means: the meaning of the output (see `packbook.results.meaning`).
    """
    recipe = means.get("explorer")
    if recipe is None or not _CHAPTER.match(recipe["module"]):
        return None
    kind = getattr(importlib.import_module(recipe["module"]), recipe["name"])
    return kind(*recipe["args"], **recipe["options"])


def on_page(explorer: Explorer, address: Callable[[bytes], str]) -> str:
    """Return an explorer's HTML; `explorers.js` makes the controls. Without scripts its first picture stands alone.

    It starts as in the notebook. If it has `data()`, the browser draws, and all controls move. Otherwise there is a
    picture for each setting, and only its `shown_controls` move.

    Args:
        address: stores a PNG and returns where the page finds it.
    """
    start = {name: control.value for name, control in explorer.widgets.items()}
    values = {name: all_values(control) for name, control in explorer.widgets.items()}
    start_picture = address(png(explorer.figure, dpi=100))
    data = explorer.data()
    if data is None:
        shown_names = explorer.shown_controls or tuple(start)[:1]
        shown_values = _choose_settings({name: values[name] for name in shown_names}, start)
        data = _pictures(explorer, start, shown_values, start_picture, address)
        image = _img(start_picture, explorer.alt)
        note = _left_out(explorer, values, shown_values)
    else:
        shown_values = values
        image = f"<noscript>{_img(start_picture, explorer.alt)}</noscript>"
        note = ""

    controls = []
    for name, control_values in shown_values.items():
        controls.append(_control(name, explorer.widgets[name], control_values, start[name]))
    settings = {"draw": type(explorer).__name__, "controls": controls, "data": data}
    settings_json = json.dumps(settings, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    still = "<p>The controls need scripts, which are off here; this is the first picture.</p>"
    return (
        f'<figure class="explorer"><figcaption>{escaped(explorer.title)}</figcaption>'
        f'<script type="application/json">{settings_json}</script><div class="controls">{still}</div>'
        f'{note}<div class="picture">{image}</div></figure>'
    )


def all_values(control: Any) -> NamedValues:
    """Return the values of a control, each with the text that readers see."""
    if hasattr(control, "options"):  # a choice
        return [option if isinstance(option, tuple) else (str(option), option) for option in control.options]
    if hasattr(control, "min"):  # a slider over whole numbers
        return [(f"{value:,}", value) for value in range(control.min, control.max + 1, control.step)]
    return [("no", False), ("yes", True)]


def _img(source: str, alt: str) -> str:
    """Return the HTML of a picture that links to its file at `source`."""
    image = f'<img alt="{escaped(alt)}" width="800" height="450" class="dark-light figure" src="{source}">'
    return f'<a href="{source}">{image}</a>'


def _control(name: str, control: Any, values: NamedValues, start: Any) -> dict[str, Any]:
    """Return the JSON from which `explorers.js` makes a control; `at` is the index of its first value, `start`."""
    if isinstance(control, ToggleButtons):
        kind = "radio"
    elif hasattr(control, "options") or hasattr(control, "min"):
        kind = "range"
    else:
        kind = "checkbox"
    start_index = [value for _, value in values].index(start)
    return {"name": name, "label": control.description, "kind": kind, "values": values, "at": start_index}


def _left_out(explorer: Explorer, values: Mapping[str, NamedValues], shown_values: Mapping[str, NamedValues]) -> str:
    """Return a sentence, as HTML, that names the controls and values that only the notebook has; "" if there are none.

    The text around an explorer may tell readers to move a control that the page lacks, or to a value that it lacks.

    Args:
        values: all values, by control.
        shown_values: those that the page has.
    """

    def listed(names: Iterable[str]) -> str:
        *all_but_last, last_name = (f"<i>{escaped(explorer.widgets[name].description)}</i>" for name in names)
        return f"{', '.join(all_but_last)} and {last_name}" if all_but_last else last_name

    in_notebook = []
    if fixed_names := [name for name in values if name not in shown_values]:
        in_notebook.append(f"{listed(fixed_names)} move{'s' * (len(fixed_names) == 1)} too")
    if reduced_names := [name for name in shown_values if len(shown_values[name]) < len(values[name])]:
        in_notebook.append(f"{listed(reduced_names)} {'have' if len(reduced_names) > 1 else 'has'} more values")
    if not in_notebook:
        return ""
    movable = f"Here {listed(shown_values)} move{'s' * (len(shown_values) == 1)}"
    return f'<p class="left-out">{movable}; in the notebook {", and ".join(in_notebook)}.</p>'


def _pictures(
    explorer: Explorer,
    start: Mapping[str, Any],
    values: Mapping[str, NamedValues],
    start_picture: str,
    address: Callable[[bytes], str],
) -> dict[str, dict[str, str]]:
    """Draw each setting of the controls in `values`, and return its picture's address and alt text.

    Args:
        start: the value of every control at the start; controls that are not in `values` stay at it.
        values: by control, the values to draw.
        start_picture: where the picture of the start is already.
        address: as for `on_page`.

    Returns:
        `{"src": …, "alt": …}` by the indices of the values in `values`: "2-0" is the third value of the first control
        with the first value of the second.
    """
    pictures = {}
    for indices in itertools.product(*(range(len(named_values)) for named_values in values.values())):
        setting = {}
        for (name, named_values), index in zip(values.items(), indices, strict=True):
            _, setting[name] = named_values[index]
        if setting.items() <= start.items():
            source, alt = start_picture, explorer.alt
        else:
            figure, alt = explorer.draw(**{**start, **setting})
            source = address(png(figure, dpi=100))
        pictures["-".join(map(str, indices))] = {"src": source, "alt": alt}
    return pictures


def _choose_settings(values: Mapping[str, NamedValues], start: Mapping[str, Any]) -> dict[str, NamedValues]:
    """Choose values of each control, evenly spread, so that there are at most `MOST` settings in all.

    The value at the start is always among them: it takes the place of the nearest one.
    """
    sizes = {name: len(named_values) for name, named_values in values.items()}
    while math.prod(sizes.values()) > MOST:
        largest = max(sizes, key=lambda name: sizes[name])
        sizes[largest] -= 1

    chosen = {}
    for name, named_values in values.items():
        start_index = [value for _, value in named_values].index(start[name])
        indices = np.linspace(0, len(named_values) - 1, sizes[name]).round().astype(int).tolist()
        nearest = min(range(len(indices)), key=lambda place: abs(indices[place] - start_index))
        indices[nearest] = start_index
        chosen[name] = [named_values[index] for index in sorted(set(indices))]
    return chosen
