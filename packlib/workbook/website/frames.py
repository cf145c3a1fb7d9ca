"""Explorers without a kernel: their most telling controls, with a picture for each setting, drawn at build time.

An explorer's output says in its metadata how it was made (see `packlib.workbook.explorers`).
"""

import importlib
import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from packlib.markup import escaped
from packlib.workbook.figures import png, styled

MOST = 16  # settings of an explorer
_CHAPTERS = "packlib.workbook.chapters."


@dataclass(frozen=True)
class Frames:
    """The pictures of one explorer, by the places of its controls' values.

    Attributes:
        title: the question that it answers.
        controls: for each control its label and the names of its values.
        first: the values that are shown first, as places.
        pictures: PNG and alt text by the places of the values, in the order of the controls.
    """

    title: str
    controls: dict[str, list[str]]
    first: tuple[int, ...]
    pictures: dict[tuple[int, ...], tuple[bytes, str]]


def frames_of(means: Mapping[str, Any], most: int = MOST) -> Frames | None:
    """The frames of the explorer that an output shows; None if it shows none, or one that cannot be made again.

    The first picture is the one that the notebook starts with, and controls that do not move here stay as they are.

    Args:
        most: settings; of a control with more values than that, some are left out.
    """
    made = means.get("explorer")
    if made is None or not made["module"].startswith(_CHAPTERS):
        return None
    explorer = getattr(importlib.import_module(made["module"]), made["name"])(*made["args"], **made["options"])
    start = {name: control.value for name, control in explorer.widgets.items()}
    names = explorer.telling or tuple(start)[:1]
    values = _some({name: all_values(explorer.widgets[name]) for name in names}, start, most)
    pictures = {}
    for places in itertools.product(*(range(len(of)) for of in values.values())):
        setting = {name: of[at][1] for (name, of), at in zip(values.items(), places, strict=True)}
        figure, alt = explorer.figure, explorer.alt  # of the start, which is drawn already
        if not setting.items() <= start.items():
            with styled():  # once, and not for each thing that is drawn
                figure, alt = explorer.draw(**{**start, **setting})
        pictures[places] = png(figure, dpi=100), alt
    labels = {explorer.widgets[name].description: [text for text, _ in of] for name, of in values.items()}
    first = tuple([value for _, value in of].index(start[name]) for name, of in values.items())
    return Frames(explorer.title, labels, first, pictures)


def all_values(control: Any) -> list[tuple[str, Any]]:
    """The values of a control with their names."""
    if hasattr(control, "options"):
        return [option if isinstance(option, tuple) else (str(option), option) for option in control.options]
    if hasattr(control, "min"):
        return [(f"{value:,}", value) for value in range(control.min, control.max + 1, control.step)]
    return [("no", False), ("yes", True)]


def _some(values: Mapping[str, list], start: Mapping[str, Any], most: int) -> dict[str, list[tuple[str, Any]]]:
    """At most `most` settings in all; the value at the start is always among them."""
    sizes = {name: len(of) for name, of in values.items()}
    while math.prod(sizes.values()) > most:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
    some = {}
    for name, of in values.items():
        first = [value for _, value in of].index(start[name])
        places = np.linspace(0, len(of) - 1, sizes[name]).round().astype(int).tolist()
        places[min(range(len(places)), key=lambda at: abs(places[at] - first))] = first
        some[name] = [of[at] for at in sorted(set(places))]
    return some


def player(frames: Frames, address: Callable[[bytes], str]) -> str:
    """The HTML of the frames; `frames.js` makes the controls. Without scripts a sentence stands in their place.

    Args:
        address: where a picture is found.
    """
    pictures = {
        "-".join(map(str, at)): {"src": address(picture), "alt": alt} for at, (picture, alt) in frames.pictures.items()
    }
    controls = [{"label": label, "values": names} for label, names in frames.controls.items()]
    settings = json.dumps({"controls": controls, "first": frames.first, "pictures": pictures}).replace("<", "\\u003c")
    first = pictures["-".join(map(str, frames.first))]
    image = (
        f'<img alt="{escaped(first["alt"])}" width="800" height="450" class="dark-light figure" src="{first["src"]}">'
    )
    heading = f"<figcaption>{escaped(frames.title)}</figcaption>"
    data = f'<script type="application/json">{settings}</script>'
    still = "<p>The controls need scripts, which are off here; this is the first picture.</p>"
    return f'<figure class="frames">{heading}{data}<div class="controls">{still}</div>{image}</figure>'
