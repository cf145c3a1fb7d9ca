"""Figures as files: named after notebook and content, in order, with their words inside."""

import os
import re

import nbformat
import pytest
from PIL import Image
from workbook_cases import CHANGES

from packbook.publish import gallery
from packbook.run import dependencies
from packbook.run.execution import run_in_place, write
from packlib.tools.exits import NotebookFailedError

pytest_plugins = ("workbook_cases",)

SHOW = """\
from packbook.figures import new_figure, show, styled
for name in ("zebra", "apple"):
    with styled():
        fig, ax = new_figure()
        ax.set_title(f"The {name} & its stripes")
    show(fig, alt=f"Nothing but the frame of <{name}>.", name=name)
"""


@pytest.fixture
def notebook(tmp_path):
    """A notebook 90_small that shows two figures."""
    cells = [nbformat.v4.new_markdown_cell("# Small steps"), nbformat.v4.new_code_cell(SHOW)]
    write(nbformat.v4.new_notebook(cells=cells), tmp_path / "90_small.ipynb")
    run_in_place(tmp_path / "90_small.ipynb")
    return tmp_path / "90_small.ipynb"


@pytest.fixture
def unrun(tmp_path):
    """A notebook that nobody runs."""
    write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Idle")]), tmp_path / "91_idle.ipynb")
    return tmp_path / "91_idle.ipynb"


def stamps(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_figures_come_out_once_with_name_place_and_words(notebook, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "90_small-09-gone.svg").write_text("<svg><title>old</title><desc>old</desc></svg>")
    os.utime(folder / "90_small-09-gone.svg", (0, 0))
    mine = folder / "90_small-09-notes.ipynb"  # no picture, though its name begins as theirs
    mine.touch()
    monkeypatch.chdir(tmp_path)
    gallery.main(folder.relative_to(tmp_path), [notebook])
    names = [f"90_small-{name}.{kind}" for name in ("01-zebra", "02-apple") for kind in ("png", "svg")]
    assert set(stamps(folder)) == {*names, "index.html", mine.name, ".90_small.digest"}
    first, second = gallery.pictures_of("90_small", folder)
    assert (first.title, first.alt) == ("The zebra & its stripes", "Nothing but the frame of <zebra>.")
    assert second.svg.name == "90_small-02-apple.svg"
    assert Image.open(folder / "90_small-01-zebra.png").size == (1920, 1080)
    page = (folder / "index.html").read_text()
    assert "<h2>90 Small steps</h2>" in page and 'alt="Nothing but the frame of &lt;zebra&gt;."' in page
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(links) == 8 and all((folder / link).is_file() for link in links)
    assert "90_small: 2 figures" in capsys.readouterr().out

    before = stamps(folder)
    gallery.main(folder, [notebook])
    assert stamps(folder) | {"index.html": 0} == before | {"index.html": 0} and gallery.is_fresh(notebook, folder)
    second.svg.rename(tmp_path / "apple.svg")  # as after a kill while they were put in place
    assert not gallery.is_fresh(notebook, folder)
    (tmp_path / "apple.svg").rename(second.svg)

    os.utime(notebook)
    assert gallery.is_fresh(notebook, folder), "the content counts, and not the time"

    before, broken = stamps(folder), nbformat.read(notebook, as_version=4)
    broken.cells[1].source += "1 / 0"
    write(broken, notebook)
    assert not gallery.is_fresh(notebook, folder)
    with pytest.raises(NotebookFailedError, match=r"^cell \[1\] of 90_small failed: ZeroDivisionError: division"):
        gallery.main(folder, [notebook])
    assert stamps(folder) == before, "the earlier figures stay"


@pytest.mark.parametrize("place", CHANGES)
def test_figures_are_drawn_again_after_what_they_depend_on_has_changed(unrun, tmp_path, monkeypatch, copied, place):
    drawn = []

    async def draw(path, **_):
        drawn.append(path)
        return nbformat.read(path, as_version=4)

    monkeypatch.setattr(gallery, "run_notebook", draw)
    monkeypatch.setattr(gallery, "meanings", lambda *_: [])  # what is drawn is nothing here
    for times in (1, 1, 2, 2):
        if len(drawn) == 1 and times == 2:
            copied(place)
        gallery.main(tmp_path / "figures", [unrun])
        assert drawn == [unrun] * times


def test_a_change_while_a_notebook_runs_makes_another_run(unrun, tmp_path, monkeypatch, copied):
    async def change(path, **_):
        copied("data/lengths/wordnet.csv")
        return nbformat.read(path, as_version=4)

    monkeypatch.setattr(gallery, "run_notebook", change)
    monkeypatch.setattr(gallery, "meanings", lambda *_: [])
    gallery.main(tmp_path / "figures", [unrun])
    assert not gallery.is_fresh(unrun, tmp_path / "figures")


def test_what_python_compiles_and_hidden_files_are_no_dependency(unrun, copied):
    before = dependencies.digest_dependencies(unrun)
    library, *_, data = dependencies.FOLDERS
    for path in (library / "__pycache__" / "cli.pyc", library / ".cli.py.swp", data / ".ipynb_checkpoints" / "a.csv"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("other")
    assert dependencies.digest_dependencies(unrun) == before
    (data / "lengths" / "new.csv").touch()
    assert dependencies.digest_dependencies(unrun) != before, "a new file, be it empty"


def test_another_version_of_a_package_is_another_dependency(unrun, monkeypatch):
    before, version = dependencies.digest_dependencies(unrun), dependencies.version
    for package in ("packlib", "matplotlib", "torch", "numpy"):
        monkeypatch.setattr(dependencies, "version", lambda name, other=package: version(name) + "1" * (name == other))
        assert dependencies.digest_dependencies(unrun) != before
    monkeypatch.setattr(dependencies, "version", lambda name: version(name) + "1" * (name in ("ruff", "pytest")))
    assert dependencies.digest_dependencies(unrun) == before, "no notebook uses these"
