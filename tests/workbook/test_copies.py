"""Learners work in copies: without outputs, made once, never overwritten; what changed is offered beside them."""

import nbformat
import pytest

from packbook.run.copies import make_copies


def chapter(path, source="1 + 1"):
    path.parent.mkdir(parents=True, exist_ok=True)
    output = nbformat.v4.new_output("stream", text="the answer")
    hidden = {"jupyter": {"source_hidden": True}}
    cell = nbformat.v4.new_code_cell(source, id="a", outputs=[output], execution_count=1, metadata=hidden)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)


@pytest.fixture
def folders(tmp_path):
    chapter(tmp_path / "notebooks" / "01_a.ipynb")
    chapter(tmp_path / "notebooks" / "solutions" / "01_a.ipynb")
    chapter(tmp_path / "notebooks" / ".ipynb_checkpoints" / "01_a-checkpoint.ipynb")
    return tmp_path / "notebooks", tmp_path / "lab"


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.ipynb"))


def work_in(copy):
    """Change a cell of a copy and save it, as a learner does in Jupyter; return the bytes of the file."""
    notebook = nbformat.read(copy, as_version=4)
    notebook.cells[0].source += "  # mine"
    nbformat.write(notebook, copy)
    return copy.read_bytes()


def test_copies_hold_no_outputs(folders):
    assert make_copies(*folders) == []
    assert files(folders[1]) == ["01_a.ipynb", "solutions/01_a.ipynb"]
    (cell,) = nbformat.read(folders[1] / "01_a.ipynb", as_version=4).cells
    assert (cell.source, cell.outputs, cell.execution_count) == ("1 + 1", [], None)
    assert cell.metadata == {"jupyter": {"source_hidden": True}}
    assert "the answer" not in (folders[1] / "01_a.ipynb").read_text()


def test_a_page_that_a_notebook_links_to_lies_beside_the_copies(folders):
    text = "The [words](WORDS.md#a), and [more](https://a.org/B.md)"
    cells = [nbformat.v4.new_markdown_cell(text, id="b")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folders[0] / "02_b.ipynb")
    (folders[0] / "OTHER.md").write_text("no notebook names it")
    for text in ("# Words", "# New words"):
        (folders[0] / "WORDS.md").write_text(text)
        assert make_copies(*folders) == []
        assert [page.name for page in folders[1].rglob("*.md")] == ["WORDS.md"]
        assert (folders[1] / "WORDS.md").read_text() == text


def test_a_changed_chapter_is_offered_beside_the_learners_and_no_copy_is_overwritten(folders):
    make_copies(*folders)
    mine = work_in(folders[1] / "01_a.ipynb")
    chapter(folders[0] / "01_a.ipynb")  # run again, with the same code
    assert make_copies(*folders) == [] and len(files(folders[1])) == 2
    chapter(folders[0] / "01_a.ipynb", "2 + 2")
    new = folders[1] / "01_a (new).ipynb"
    assert make_copies(*folders) == [f"01_a has changed: your copy stays, the new one is {new}."]
    assert make_copies(*folders) == [], "it is said once"
    second = work_in(new)
    chapter(folders[0] / "01_a.ipynb", "3 + 3")
    (offer,) = make_copies(*folders)
    assert offer.endswith(f"the new one is {folders[1] / '01_a (new 2).ipynb'}.")
    assert (folders[1] / "01_a.ipynb").read_bytes() == mine and new.read_bytes() == second
    chapter(folders[0] / "01_a.ipynb")
    assert make_copies(*folders) == [], "the learner has this one"


@pytest.mark.parametrize("text", ["", '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'])
def test_a_file_of_the_learner_that_says_nothing_stays(folders, text):
    folders[1].mkdir()
    (folders[1] / "01_a.ipynb").write_text(text)
    assert len(make_copies(*folders)) == 1
    assert (folders[1] / "01_a.ipynb").read_text() == text and "01_a (new).ipynb" in files(folders[1])
