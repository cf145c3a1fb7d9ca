"""The examples in the docstrings: they run, and what is used most has one."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import packlib

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
