"""README, the page for instructors, the site, the map in 00 and the end of each chapter show one course."""

import re
from pathlib import Path

import nbformat
import pytest

from packbook.publish.website.building import Sources
from packbook.run import course, minutes, running

ROOT = Path(__file__).parents[2]
ORDER = [one.notebook for one in course.chapters()]


def text_of(name):
    return [cell.source for cell in nbformat.read(running.notebooks()[name], as_version=4).cells]


def test_the_course_has_every_chapter_once_and_two_days():
    assert sorted(ORDER) == sorted(running.notebooks())
    assert list(course.days()) == ["day 1", "day 2", "by need"]


@pytest.mark.parametrize("name", ORDER)
def test_a_chapter_states_its_minutes_and_ends_with_the_next(name):
    before = text_of(name)
    after = [minutes.with_its_course(name, source) for source in before]
    assert after == before, "run python -m packbook.run.minutes"
    assert before[-1].endswith(course.last_line(name))
    days = [one for one in course.chapters() if one.when != course.BY_NEED]
    linked = re.findall(r"\((\d\d_\w+)\.ipynb\)", course.last_line(name).partition("ipynb). ")[2].replace("\n", " "))
    at = [one.notebook for one in days].index(name) if name in [one.notebook for one in days] else None
    assert linked == ([] if at in (None, len(days) - 1) else [days[at + 1].notebook])


def test_a_chapter_of_the_course_builds_on_those_before_it_alone():
    days = [one.notebook for one in course.chapters() if one.when != course.BY_NEED]
    for at, name in enumerate(days):
        asked = text_of(name)[0].partition("**Before this**")[2].partition("**Time**")[0]
        assert set(re.findall(r"\((\d\d_\w+)\.ipynb\)", asked)) <= set(days[:at]), name


def test_the_map_and_the_site_have_the_same_order(tmp_path):
    (cell,) = [source for source in text_of("00_tour") if source.startswith("## The map")]
    assert re.findall(r"\[(\d\d_\w+)\]", cell) == ORDER
    chapters = {name: nbformat.read(running.notebooks()[name], as_version=4) for name in ORDER}
    for some in (ORDER, ["17_evidence", "00_tour"]):
        page = Sources(tmp_path).list_of_notebooks({name: chapters[name] for name in some})
        there = [name for name in ORDER if name in some]
        assert re.findall(r"^notebooks/(\w+)$", page, re.M) == there
        assert re.findall(r'class="chapter" href="notebooks/(\w+).html"><img', page) == there


def test_minutes_follow_from_words_and_questions(tmp_path, monkeypatch):
    def asked():
        words = "**How many?** " + "word " * 98
        return [nbformat.v4.new_markdown_cell(words), nbformat.v4.new_code_cell("guess = ...")]

    for copies, expected in ((2, 5), (10, 20), (40, 80)):  # a hundred words and a question: two minutes
        book = nbformat.v4.new_notebook(cells=[cell for _ in range(copies) for cell in asked()])
        nbformat.write(book, tmp_path / "98_try.ipynb")
        monkeypatch.setattr(running, "NOTEBOOKS", tmp_path)
        assert minutes.reading_minutes("98_try") == expected
    text = "**Time**: 1 minutes to read, 7 seconds of CPU."
    assert minutes.with_its_course("98_try", text) == "**Time**: 80 minutes to read, 7 seconds of CPU."


def test_a_chapter_that_the_table_lacks_is_read_by_need(tmp_path, monkeypatch):
    book = nbformat.v4.new_notebook(cells=[])
    for name in ("02_greedy_packing", "98_first_try"):
        nbformat.write(book, tmp_path / f"{name}.ipynb")
    monkeypatch.setattr(running, "NOTEBOOKS", tmp_path)
    assert [one.notebook for one in course.chapters()] == ["02_greedy_packing", "98_first_try"]
    assert course.days()["by need"] == ["98_first_try"]
    assert "This is the end of the course" in course.last_line("02_greedy_packing")


@pytest.mark.parametrize("name", ORDER)
def test_solutions_name_no_next_chapter_which_the_table_may_move(name):
    path = running.NOTEBOOKS / "solutions" / f"{name}.ipynb"
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    assert f"[{name}](../{name}.ipynb)" in sources[0]
    assert not [source for source in sources if "or on to" in source or source.startswith("Back to")]
