"""The examples in the docstrings run as they stand, pasted whole."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import packlib


def examples():
    """The examples of all modules that have some, each with nothing but what it imports."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(packlib.__path__, "packlib."):
        if ">>> " in Path(module.module_finder.find_spec(module.name).origin).read_text(encoding="utf-8"):
            found = finder.find(importlib.import_module(module.name), globs={})
            yield from (test for test in found if test.examples)


EXAMPLES = {test.name: test for test in examples()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    said = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(EXAMPLES[name], out=said.append)
    assert not said, "".join(said)
