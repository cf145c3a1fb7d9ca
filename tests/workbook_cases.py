"""A small workbook for the tests of the command line."""

import sys
import types

import nbformat
import pytest

from packlib.workbook import running
from packlib.workbook.execution import write
from packlib.workbook.parameters import Dataset, Whole

SOURCE = """\
dataset: str = "wikipedia"  # lengths
depth: int = 3  # limit
seed: int = 0  # random
quick: bool = True  # small
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A workbook of two notebooks that fail at depth 13; the caller's folder is elsewhere."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("01_small_steps", "02_long_way"):
        cells = [
            nbformat.v4.new_markdown_cell(f"# The {name[3:]}"),
            nbformat.v4.new_code_cell(SOURCE, metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell(
                "from packlib.workbook.figures import new_figure, show\n"
                "fig, ax = new_figure()\nax.plot([0, depth]);\n"
                "show(fig, alt=f'A line up to {depth} for {dataset}, quick {quick}.', name='line')"
            ),
            nbformat.v4.new_code_cell(
                "from packlib.workbook.results import keep, result\n"
                "result('twice the depth', 2 * depth)\nkeep('depth.txt', str(depth))\n"
                "if depth == 13:\n    raise ValueError('Thirteen is not allowed.')"
            ),
        ]
        write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
        module = types.ModuleType(f"packlib.workbook.chapters.{name[3:]}")
        module.PARAMETERS = {"dataset": Dataset(), "depth": Whole(1, 512)}
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(running, "NOTEBOOKS", folder)
    caller = tmp_path / "caller"
    caller.mkdir()
    monkeypatch.chdir(caller)
    return caller


@pytest.fixture
def idle(small, monkeypatch):
    """As `small`, where no notebook may run."""
    monkeypatch.setattr("papermill.execute_notebook", lambda *_, **__: pytest.fail("must not run"))
    return small
