"""The examples in the docstrings: they run, and what is used most has one."""

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

import packlib

ROOT = Path(__file__).parents[2]
ROOMS = "lengths packing work distributed batches model training training.scaling rows check auditing".split()
OFFERED = {
    name: value
    for room in ROOMS
    for name, value in inspect.getmembers(importlib.import_module(f"packlib.{room}"))
    if inspect.isclass(value) or inspect.isfunction(value)
}


def examples():
    """The examples of all modules, of the workbook's those that have some; each may use what the rooms offer."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(packlib.__path__, "packlib."):
        source = Path(module.module_finder.find_spec(module.name).origin)
        if not module.name.startswith("packlib.workbook") or ">>> " in source.read_text(encoding="utf-8"):
            found = finder.find(importlib.import_module(module.name), extraglobs=OFFERED)
            yield from (test for test in found if test.examples)


EXAMPLES = {test.name: test for test in examples()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    said = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(EXAMPLES[name], out=said.append)
    assert not said, "".join(said)


def calls(source):
    """The names that a source calls, as often as it does; of `LengthHistogram.from_lengths(…)` the first."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = node.func
            while isinstance(function, ast.Attribute):
                function = function.value
            if isinstance(function, ast.Name) and function.id in OFFERED:
                yield function.id


def test_the_twenty_most_used_have_an_example():
    sources = [
        path.read_text(encoding="utf-8") for folder in ("packlib", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    for path in (ROOT / "notebooks").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    most_used = Counter(name for source in sources for name in calls(source)).most_common(20)
    homes = {name: f"{OFFERED[name].__module__}.{name}" for name, _ in most_used}
    without = [name for name, home in homes.items() if not any(f"{test}.".startswith(f"{home}.") for test in EXAMPLES)]
    assert not without, f"{', '.join(without)}: used most, and without an example"
