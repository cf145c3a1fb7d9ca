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
from packlib.workbook.explorers import Explorer
from packlib.workbook.figures import png

ROOM = 300_000  # bytes that all pictures of one explorer may have
MOST = 24  # settings of an explorer
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

    Args:
        most: settings; fewer are drawn if the pictures have more than `ROOM` bytes.
    """
    made = means.get("explorer")
    if made is None or not made["module"].startswith(_CHAPTERS):
        return None
    kind = getattr(importlib.import_module(made["module"]), made["name"])
    explorer = kind(*made["args"], **made["options"])
    names = explorer.telling or tuple(explorer.widgets)[:1]
    all_values = {name: _all_values(explorer.widgets[name]) for name in names}
    while most >= 2:
        frames = _draw(explorer, _some(all_values, explorer, most))
        size = sum(map(len, {picture for picture, _ in frames.pictures.values()}))
        if size <= ROOM:
            return frames
        most = min(len(frames.pictures) - 1, len(frames.pictures) * ROOM // size)
    raise ValueError(f"The pictures of {made['name']} have more than {ROOM:,} bytes, however few there are.")


def _all_values(control: Any) -> list[tuple[str, Any]]:
    """The values of a control with their names."""
    if hasattr(control, "options"):
        return [option if isinstance(option, tuple) else (str(option), option) for option in control.options]
    if hasattr(control, "min"):
        return [(f"{value:,}", value) for value in range(control.min, control.max + 1, control.step)]
    return [("no", False), ("yes", True)]


def _some(values: Mapping[str, list], explorer: Explorer, most: int) -> dict[str, list[tuple[str, Any]]]:
    """At most `most` settings in all; the first value, the last and the one that it has are always among them."""
    sizes = {name: len(of) for name, of in values.items()}
    while math.prod(sizes.values()) > most:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
    some = {}
    for name, of in values.items():
        now = next(at for at, (_, value) in enumerate(of) if value == explorer.widgets[name].value)
        places = np.linspace(0, len(of) - 1, sizes[name]).round().astype(int).tolist()
        places[min(range(len(places)), key=lambda at: abs(places[at] - now))] = now
        some[name] = [of[at] for at in sorted(set(places))]
    return some


def _draw(explorer: Explorer, values: Mapping[str, list[tuple[str, Any]]]) -> Frames:
    now = tuple(
        next(at for at, (_, value) in enumerate(of) if value == explorer.widgets[name].value)
        for name, of in values.items()
    )
    pictures = {}
    for places in itertools.product(*(range(len(of)) for of in values.values())):
        for (name, of), at in zip(values.items(), places, strict=True):
            explorer.widgets[name].value = of[at][1]
        if explorer.error:
            raise explorer.error
        pictures[places] = png(explorer.figure, dpi=100), explorer.alt
    labels = {explorer.widgets[name].description: [text for text, _ in of] for name, of in values.items()}
    return Frames(explorer.title, labels, now, pictures)


def player(frames: Frames, address: Callable[[bytes], str]) -> str:
    """The HTML of the frames; `frames.mjs` makes the controls. Without scripts the first picture stands alone.

    Args:
        address: where a picture is found.
    """
    pictures = {
        "-".join(map(str, at)): {"src": address(picture), "alt": alt} for at, (picture, alt) in frames.pictures.items()
    }
    controls = [{"label": label, "values": names} for label, names in frames.controls.items()]
    told = json.dumps({"controls": controls, "first": frames.first, "pictures": pictures}).replace("<", "\\u003c")
    first = pictures["-".join(map(str, frames.first))]
    image = (
        f'<img alt="{escaped(first["alt"])}" width="800" height="450" class="dark-light figure" src="{first["src"]}">'
    )
    heading = f"<figcaption>{escaped(frames.title)}</figcaption>"
    data = f'<script type="application/json">{told}</script>'
    return f'<figure class="frames">{heading}{data}<div class="controls"></div>{image}</figure>'
