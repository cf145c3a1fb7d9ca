"""The library stays small: lines of code, without docstrings and comments, are counted and limited."""

import lines
import pytest

SOURCE = '''\
"""A module
of two lines."""

# a comment
import os  # counts


class A:
    """Its docstring."""

    text = """counts:
    # so does this,

    but not the empty one"""

    def f(self):
        "Short."
        return (
            1,  # counts
            # does not
        )
'''


def test_docstrings_comments_and_empty_lines_do_not_count():
    assert lines.lines_of_code(SOURCE) == 8
    assert lines.lines_of_code("") == 0
    assert lines.lines_of_code("x = 1\n'no docstring'\n") == 2


def test_each_file_belongs_to_one_part(tmp_path):
    for path in ("checks.py", "packing/plan.py", "packing/documents.py", "packing/work.py",
                 "bridges/a.py", "advisor/a.py", "workbook/a.py",
                 "workbook/chapters/n01_a/lesson.py", "workbook/website/a.py", "workbook/game.py"):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
    assert lines.count(tmp_path) == {
        "library": 2,
        "work": 2,
        "bridges": 1,
        "advisor": 1,
        "workbook": 1,
        "site": 2,
        "chapters": 1,
    }


@pytest.mark.parametrize("part", [part for part, limit in lines.LIMITS.items() if limit])
def test_no_part_grows_above_its_limit_or_where_it_still_is(part):
    assert 0 < lines.count()[part] <= lines.STILL.get(part, lines.LIMITS[part])
