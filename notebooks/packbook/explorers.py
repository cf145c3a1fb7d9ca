"""Explorers: controls around a pure function that draws, with words beside the picture.

A subclass names its controls and draws; everything else is here:

    class Waste(Explorer):
        title = "What does padding cost?"

        def controls(self):
            return {"batch_size": slider("Batch size", 1, 256, value=32)}

        @styled()
        def draw(self, batch_size):
            fig, ax = new_figure()
            ...
            return fig, f"With {batch_size} sequences in a batch …"

In JupyterLab the picture follows the controls. Where widgets do not run, the first picture stands alone.
"""

import re
from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from packbook.figures import img, picture, png, publish
from packbook.results import MEANING
from packlib.arguments import in_html

_LOOK = {"style": {"description_width": "11em"}, "layout": {"width": "36em", "max_width": "98%"}}


def slider(label: str, low: int, high: int, value: int, step: int = 1) -> widgets.IntSlider:
    """Return a slider over whole numbers. It reports its value on release, so that pictures do not queue up."""
    return widgets.IntSlider(value, low, high, step, description=label, continuous_update=False, **_LOOK)


def choice(label: str, options: Iterable[Any], value: Any) -> widgets.SelectionSlider | widgets.ToggleButtons:
    """Return a slider over a few numbers, such as 1, 2, 4, 8, or a button for each of a few names, which have no order.

    There are no drop-down lists, because JupyterLab intercepts their arrow keys, so that the keyboard cannot move them.
    Buttons are reached by Tab.

    Args:
        options: values, or `(text, value)` pairs.
    """
    pairs = [option if isinstance(option, tuple) else (str(option), option) for option in options]
    if all(isinstance(number, int | float) for _, number in pairs):
        look = {"continuous_update": False, "readout": False, **_LOOK}  # the readout cuts long names off
        return widgets.SelectionSlider(options=pairs, value=value, description=label, **look)
    style, layout = {**_LOOK["style"], "button_width": "auto"}, {"max_width": "98%"}
    return widgets.ToggleButtons(options=pairs, value=value, description=label, style=style, layout=layout)


class Explorer:
    """Controls, a picture that follows them, and its alt text.

    Attributes:
        title: the question the explorer answers.
        shown_controls: the names of one or two controls that move on the site, where it shows pictures; if there are
            none, the first does.
        columns: in which the controls above the picture stand; with several, many controls fit on a screen.
        widgets: the controls by name, real ipywidgets; set `explorer.widgets["batch_size"].value` from code.
        picture: the widget whose HTML is the image, or a sentence if drawing failed.
        figure: what the picture shows now.
        alt: its alt text.
        error: the exception of the last drawing, or None; the reader sees its sentence, no traceback.
    """

    title = ""
    shown_controls: tuple[str, ...] = ()
    columns = 1
    _made: dict[str, Any]  # class and arguments, from which the site makes it again

    def controls(self) -> dict[str, widgets.ValueWidget]:
        """Return the controls by the names of `draw`'s parameters, each with a description."""
        raise NotImplementedError

    def draw(self, *_: Any, **values: Any) -> tuple[Figure, str]:
        """Return the figure and its alt text for these values of the controls. It depends on nothing else."""
        raise NotImplementedError

    def data(self) -> dict[str, Any] | None:
        """Return the JSON data that the site's `static/drawings.js` draws; None if the site shows pictures."""
        return None

    def react(self, name: str) -> None:
        """Change other controls, such as their limits, after the control `name` changed and before drawing."""

    def __new__(cls, *args: Any, **options: Any) -> "Explorer":
        explorer = super().__new__(cls)
        plain_args = [argument.tolist() if hasattr(argument, "tolist") else argument for argument in args]  # for JSON
        explorer._made = {"module": cls.__module__, "name": cls.__name__, "args": plain_args, "options": options}
        return explorer

    def __init__(self) -> None:
        self.alt = ""
        self.error: Exception | None = None
        self.widgets = self.controls()
        self.picture = widgets.HTML(layout={"max_width": "44em"})  # so that picture and controls fit on a screen
        self._drawn: dict[str, Any] | None = None  # the values that the picture shows
        rows = []
        for name, control in self.widgets.items():
            if not control.description:
                raise ValueError(f"The control {name!r} needs a description: readers must know what it does.")
            control.observe(lambda change, name=name: self._draw_again(name), "value")
            rows.append(_with_choice(control))
        if self.columns > 1:
            rows = self._in_columns(rows)
        self._draw_again()
        heading = widgets.HTML(f"<b>{in_html(self.title)}</b>")
        self.box = widgets.VBox([heading, *rows, self.picture])

    def _in_columns(self, rows: list[widgets.Widget]) -> list[widgets.Widget]:
        """Return the rows of the controls with narrow ones in columns, and below them buttons, which are wide."""
        wide, narrow = [], []
        for control, row in zip(self.widgets.values(), rows, strict=True):
            if isinstance(control, widgets.ToggleButtons):
                wide.append(row)
            else:
                control.layout.width, control.style.description_width = "24em", "9em"
                narrow.append(row)
        columns = [widgets.VBox(narrow[column :: self.columns]) for column in range(self.columns)]
        return [widgets.HBox(columns), *wide]

    def _draw_again(self, moved: str = "") -> None:
        """Draw for the current values of the controls, after the control `moved` was moved; "" for the first time."""
        try:
            if moved:
                self.react(moved)
            values = {name: control.value for name, control in self.widgets.items()}
            if values == self._drawn:  # `react` moved another control, and that has drawn already
                return
            self.figure, self.alt = self.draw(**values)
            self._png = png(self.figure)
            self.picture.value = img(self.figure, self._png, self.alt)
            self.error, self._drawn = None, values
        except Exception as error:  # a traceback in a callback is lost in the log; a sentence is read
            self.alt, self.error, self._drawn = f"No picture: {error}", error, None
            self.picture.value = f'<p role="alert">{in_html(self.alt)}</p>'

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        name = re.sub(r"\B(?=[A-Z])", "-", type(self).__name__).lower()
        metadata = {} if self.error else publish(self.figure, self._png, self.alt, name, self.title)
        if metadata:
            metadata[MEANING]["explorer"] = self._made
        still = {} if self.error else picture(self._png, self.alt)
        return {**self.box._repr_mimebundle_(), **still, "text/plain": f"{self.title} {self.alt}"}, metadata


def _with_choice(control: widgets.Widget) -> widgets.Widget:
    """Return a control; a slider over names has the name of its choice to its right."""
    if not isinstance(control, widgets.SelectionSlider):
        return control
    # HTML, since a label would draw `$x$` in a name as a formula; the margin keeps it off the slider's handle
    name_of_choice = widgets.HTML(layout={"margin": "2px 2px 2px 10px"})
    widgets.dlink((control, "index"), (name_of_choice, "value"), lambda index: in_html(control.options[index][0]))
    return widgets.HBox([control, name_of_choice])
