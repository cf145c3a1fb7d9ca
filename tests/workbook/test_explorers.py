"""Every control of every explorer, moved through its real traits, as the browser moves it."""

import base64
import importlib
import inspect
import json
import os
import pkgutil
import re
from functools import cache, partial

import ipywidgets as widgets
import nbformat
import numpy as np
import pytest
from figure_style import style_faults

import packbook
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, png, styled, svg
from packbook.publish.website import browser_explorers
from packbook.publish.website.browser_explorers import all_values, explorer_of, on_page
from packbook.results import meanings
from packbook.run.running import notebooks
from packlib.arguments import escaped


@cache
def explorers():
    found = []
    for module in pkgutil.walk_packages(packbook.__path__, "packbook."):
        if not re.match(r"packbook\.n\d\d_", module.name):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Explorer) and value.__module__ == module.name:
                found.append(value)
    return found


def values_of(control):
    """All values of a control, of which each but a check box has more than two."""
    kinds = (widgets.IntSlider, widgets.SelectionSlider, widgets.ToggleButtons, widgets.Checkbox)
    assert isinstance(control, kinds), "JupyterLab takes the keys of others"
    return [value for _, value in all_values(control)]


def choose_own(explorer):
    """Whether a control chooses the reader's own data, as one of several or with a check box; then it does."""
    for control in explorer.widgets.values():
        own = True if control.description.startswith("Your own") else "your own"
        if own in values_of(control):
            control.value = own
            return True
    return False


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    """Draw small pictures, which takes less time."""
    monkeypatch.setattr("packbook.explorers.png", partial(png, dpi=40))


@cache
def made(kind):
    """An explorer; whoever moves its controls moves them back."""
    return kind()


@pytest.mark.parametrize("kind", explorers(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_control_is_labeled_has_steps_and_stands_alone_without_widgets(kind):
    explorer = made(kind)
    labels = [control.description for control in explorer.widgets.values()]
    assert all(labels) and len(set(labels)) == len(labels)
    for name, control in explorer.widgets.items():
        steps = len(values_of(control))
        assert 2 <= steps <= 128, f"{name}: the keyboard must lead through in a while"
        assert steps > 2 or isinstance(control, widgets.Checkbox), f"{name}: a choice of two is a check box"
    assert style_faults(svg(explorer.figure, explorer.alt)) == []
    bundle, metadata = explorer._repr_mimebundle_()
    assert metadata["packlib"]["kind"] == "figure" and metadata["packlib"]["alt"] == explorer.alt
    assert metadata["image/png"]["alt"] == explorer.alt and explorer.alt in bundle["text/plain"]
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in bundle


def move_all(explorer):
    """Move each control there and back; each must move the words."""
    start = {name: control.value for name, control in explorer.widgets.items()}
    for name, control in explorer.widgets.items():
        said, changed, every = explorer.alt, False, values_of(control)
        for at, value in enumerate((every[-1], every[0], *every)):
            if at > 1 and changed and not os.environ.get("PACKLIB_ALL"):
                break
            control.value = value
            assert explorer.error is None, f"{name} = {value!r}: {explorer.error!r}"
            changed |= explorer.alt != said
        assert changed, f"the words do not change with {name}"
        for other, value in start.items():  # limits may have moved other controls
            explorer.widgets[other].value = value


@pytest.mark.parametrize("kind", explorers(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_control_moves_the_picture_and_its_words(kind):
    explorer = made(kind)
    assert explorer.title and len(explorer.alt.split()) >= 8
    first = explorer.alt, explorer.picture.value
    start = {name: control.value for name, control in explorer.widgets.items()}
    move_all(explorer)
    assert (explorer.alt, explorer.picture.value) == first, "back at the start, the picture is another"
    if choose_own(explorer):
        move_all(explorer)
        for name, value in start.items():
            explorer.widgets[name].value = value


# What learners type


def draw_own(explorer):
    """Draw the reader's own data with all controls at their lowest, and at their highest."""
    assert explorer.error is None, explorer.error
    choose_own(explorer)
    controls = {name: values_of(control) for name, control in explorer.widgets.items()}
    for end in (0, -1):
        values = {name: "your own" if "your own" in every else every[end] for name, every in controls.items()}
        _, words = explorer.draw(**values)
        assert len(words.split()) >= 8


def prose_examples():
    """Calls of explorers that the text of a chapter offers to type."""
    for name, path in notebooks().items():
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                for call, kind in re.findall(r"`(([A-Z]\w+)\(.*?\))`", cell.source):
                    if kind in {explorer.__name__ for explorer in explorers()}:
                        yield pytest.param(name, call, id=call)


def lesson(name):
    return importlib.import_module(f"packbook.n{name}.lesson")


@pytest.mark.parametrize(("name", "call"), list(prose_examples()))
def test_an_example_of_the_text_can_be_typed(name, call):
    draw_own(eval(call, vars(lesson(name)).copy()))


TYPED = {  # what a learner may type, one sequence or equal ones among it, and what cannot be
    "RowsExplorer": ([{"lengths": [7]}, {"lengths": np.array([128, 1, 64])}], [{"lengths": [5, 0]}, {"lengths": []}]),
    "WasteExplorer": ([{"own": [8], "slots": 8}], [{"own": [9], "slots": 8}]),
    "StepByStep": ([{"own": [10], "slots": 10}, {"own": [1] * 12, "slots": 10}], [{"own": [11], "slots": 10}]),
    "WeightExplorer": ([{"own": [8], "slots": 8}], [{"own": [9], "slots": 8}]),
    "GapExplorer": ([{"own": [4], "slots": 4}], [{"own": [31], "slots": 30}]),
    "LeakExplorer": ([{"lengths": [3]}, {"lengths": [1, 1]}], [{"lengths": [30, 3]}]),
    "MeansExplorer": ([{"packs": [[1, 1]]}, {"packs": [[2] * 13, [5] * 13]}],
                      [{"packs": packs} for packs in ([[2]], [3, 4], "abc", [[2.5], [3]], [[0, 2]], None)]),
}  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in explorers() if kind.__name__ in TYPED])
def test_lengths_of_a_learner_can_be_typed_and_others_are_refused_in_one_sentence(kind):
    able, refused = TYPED[kind.__name__]
    for given in able:
        draw_own(kind(**given))
    for given in refused:
        with pytest.raises(ValueError, match=r"^[^\n]*\d[^\n]*$"):
            kind(**given)


# The base class


class Line(Explorer):
    title = "How long is the line?"

    def controls(self):
        return {
            "length": slider("Length", 1, 9, value=2),
            "unit": choice("Unit", [("meters", "m"), ("feet", "ft")], "m"),
        }

    def react(self, name):
        if name == "unit":
            self.widgets["length"].max = 9 if self.widgets["unit"].value == "m" else 5

    @styled()
    def draw(self, length, unit):
        self.drawn = [*getattr(self, "drawn", []), (length, unit)]
        if length == 7:
            raise ValueError("Seven is <out>.")
        fig, ax = new_figure()
        ax.plot([0, length])
        return fig, f"The line is {length} {unit} long."


def test_an_error_becomes_a_sentence_and_goes_away():
    line = Line()
    line.widgets["length"].value = 7
    assert line.alt == "No picture: Seven is <out>." and isinstance(line.error, ValueError)
    assert "Seven is &lt;out&gt;." in line.picture.value and "<img" not in line.picture.value
    line.widgets["length"].value = 8
    assert line.alt == "The line is 8 m long." and line.error is None and "<img" in line.picture.value


def test_a_control_can_move_the_limits_of_another():
    line = Line()
    line.widgets["length"].value = 9
    line.widgets["unit"].value = "ft"
    assert line.alt == "The line is 5 ft long."
    assert line.drawn == [(2, "m"), (9, "m"), (5, "ft")], "one picture a move, although two controls moved"


def stored_explorers():
    """What the outputs of the chapters say of their explorers, as the site finds it."""
    for name, path in notebooks().items():
        for means in meanings(nbformat.read(path, as_version=4), "figure"):
            if "explorer" in means:
                yield pytest.param(means, id=name)


@pytest.mark.parametrize("means", list(stored_explorers()))
def test_on_the_site_an_explorer_starts_as_in_its_notebook(means, monkeypatch):
    monkeypatch.setattr(browser_explorers, "MOST", 2)  # pictures take a while
    explorer, pictures = explorer_of(means), []
    if drawn_there := type(explorer).data is not Explorer.data:  # tests of the site look at its data
        monkeypatch.setattr(type(explorer), "data", lambda _: {})
    page = on_page(explorer, lambda picture: pictures.append(picture) or f"{len(pictures)}.png")
    written = json.loads(re.search('<script type="application/json">(.*?)</script>', page, re.S)[1])
    for control in written["controls"]:
        assert control["values"][control["at"]][1] == explorer.widgets[control["name"]].value
    assert pictures[0] == png(explorer.figure, dpi=100) and escaped(explorer.alt) in page
    if drawn_there:
        assert len(written["controls"]) == len(explorer.widgets) and len(pictures) == 1
        assert 'class="left-out"' not in page
    else:
        note = re.search('<p class="left-out">(.*?)</p>', page)[1]
        here, there = note.split("; in the notebook ")
        moving = {control["name"] for control in written["controls"]}
        for control_name, control in explorer.widgets.items():
            assert f"<i>{escaped(control.description)}</i>" in (here if control_name in moving else there)
        assert len(written["data"]) == len(pictures) == 2
        first = written["data"]["-".join(str(control["at"]) for control in written["controls"])]
        assert first == {"alt": explorer.alt, "src": "1.png"}


@pytest.mark.parametrize("lengths", [[5.5, 3], "5 30", [], [0, 4], 7, [[3]]])
def test_explorers_of_lengths_refuse_what_are_no_whole_numbers(lengths):
    """[5.5, 3] became [5, 3] without a word, and a text ended in an error of `int`."""
    from packbook.n00_tour.lesson import RowsExplorer
    from packbook.n05_packed_attention import LeakExplorer

    for explorer in (RowsExplorer, LeakExplorer):
        with pytest.raises(ValueError, match="lengths must be whole numbers from 1"):
            explorer(lengths)


@pytest.mark.parametrize("kind", explorers(), ids=lambda kind: kind.__name__)
def test_lengths_that_are_all_equal_have_a_picture_too(kind, tmp_path):
    """Of those that take a data set: as many shapes, buckets or depths as there are may be one."""
    if "dataset" not in inspect.signature(kind).parameters:
        pytest.skip("it takes no data set")
    path = tmp_path / "equal.csv"
    path.write_text("300\n" * 500)
    explorer = kind(str(path))
    values = {name: control.value for name, control in explorer.widgets.items()}
    figure, words = explorer.draw(**values)
    assert figure.axes and len(words.split()) >= 8


def test_long_rows_have_commas_before_their_thousands_at_the_axis():
    explorer = lesson("12_your_dataset").MaximumExplorer("docstrings", 4096)
    assert style_faults(svg(explorer.figure, explorer.alt)) == []
