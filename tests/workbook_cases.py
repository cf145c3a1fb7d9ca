"""A small workbook for the tests of the command line, in this process and in others."""

import os
import shutil
import signal
import subprocess
import sys
import types
from contextlib import suppress

import nbformat
import pytest
from processes import waiting

import packbook
import packlib
from packbook.parameters import Dataset, Parameters, Whole
from packbook.run import dependencies, running
from packbook.run.execution import write

SOURCE = """\
dataset: str = "wikipedia"  # lengths
depth: int = 3  # limit
seed: int = 0  # random
quick: bool = True  # small
"""
CHAPTER = """\
from packbook.parameters import Dataset, Parameters, Whole
PARAMETERS = Parameters(dataset=Dataset(), depth=Whole(1, 512))
"""
FIRST = """\
import os, pathlib, signal, time
if depth == 14 and not pathlib.Path('go').exists():
    pathlib.Path(f'waiting-{os.getpid()}').touch()
    time.sleep(1000)
if depth == 15:
    os.kill(os.getpid(), signal.SIGKILL)
"""
LAST = """\
from packbook.results import keep, result
result('twice the depth', 2 * depth)
keep('depth.txt', str(depth))
if depth == 13:
    raise ValueError('Thirteen is not allowed.')
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A workbook of two notebooks; the caller's folder is elsewhere.

    At depth 13 they fail, at 14 they wait (unless there is a file `go`), at 15 their kernel is killed.
    """
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("01_small_steps", "02_long_way"):
        cells = [
            nbformat.v4.new_markdown_cell(f"# The {name[3:]}"),
            nbformat.v4.new_code_cell(SOURCE, metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell(FIRST),
            nbformat.v4.new_code_cell(
                "from packbook.figures import new_figure, show, styled\n"
                "with styled():\n    fig, ax = new_figure()\n    ax.plot([0, depth])\n"
                "show(fig, alt=f'A line up to {depth} for {dataset}, quick {quick}.', name='line')"
            ),
            nbformat.v4.new_code_cell(LAST),
        ]
        write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
        module = types.ModuleType(f"packbook.n{name}")
        module.PARAMETERS = Parameters(dataset=Dataset(), depth=Whole(1, 512))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(running, "NOTEBOOKS", folder)
    caller = tmp_path / "caller"
    caller.mkdir()
    monkeypatch.chdir(caller)
    return caller


@pytest.fixture
def idle(small, monkeypatch):
    """As `small`, where no notebook may run."""
    monkeypatch.setattr("packbook.run.execution.run_notebook", lambda *_, **__: pytest.fail("must not run"))
    return small


@pytest.fixture
def clone(small, tmp_path):
    """Start processes of a copy of the library that has the small workbook: `clone("run", "1")` is `packbook run 1`.

    At the end those that are left are killed, and so are the kernels that wait at depth 14.
    """
    for package in (packlib, packbook):
        shutil.copytree(package.__path__[0], tmp_path / package.__name__)
    for name in ("01_small_steps", "02_long_way"):
        chapter = tmp_path / "packbook" / f"n{name}" / "__init__.py"
        chapter.parent.mkdir()
        chapter.write_text(CHAPTER)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    started = []

    def start(*arguments, module="packbook.cli"):
        command = [sys.executable, "-m", module, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, cwd=small, env=environment, start_new_session=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for pid in waiting(small.parent):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


CHANGES = [  # a line of each changes what some notebook shows or finds
    "packlib/packing/greedy.py",
    "packbook/series.csv",
    "packbook/packlib.mplstyle",
    "packbook/fonts/Inter-Bold.otf",
    "packbook/publish/gallery.html",
    "packbook/n02_greedy_packing/questions.toml",
    "packlib/lengths/data_sets.csv",
    "data/runs/warm-up.csv",
    "data/benchmarks/packing.csv",
    "data/lengths/wordnet.csv",
    "data/wordnet/tokenizer/tokenizer.json",
]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Let notebooks depend on a copy of the library and its data: `copied("data/runs/warm-up.csv")` changes a byte."""
    folders = {folder.name: tmp_path / "depends" / folder.name for folder in dependencies.FOLDERS}
    for folder in dependencies.FOLDERS:
        shutil.copytree(folder, folders[folder.name])
    monkeypatch.setattr(dependencies, "FOLDERS", list(folders.values()))

    def change(place):
        path = tmp_path / "depends" / place
        before, content = path.stat(), bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as when an older file is put in its place

    return change
