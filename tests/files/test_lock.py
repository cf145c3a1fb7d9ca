"""What the folder to work in asks of the package of locks."""

import tomllib
from pathlib import Path

from filelock import FileLock
from packaging.requirements import Requirement

import packlib
from packlib.files import LOCK, work_folder


def test_a_lock_that_is_released_leaves_the_file_of_the_next_alone(tmp_path):
    """`work_folder` removes the lock file before it releases the lock; a process that waits then makes a new one."""
    mine = FileLock(tmp_path / LOCK)
    mine.acquire()
    (tmp_path / LOCK).unlink()
    following = FileLock(tmp_path / LOCK, timeout=0)
    following.acquire()
    mine.release()
    assert (tmp_path / LOCK).exists(), "a third process would lock a file of its own, beside the second"
    following.release()


def test_older_versions_which_remove_that_file_are_refused():
    project = tomllib.loads((Path(packlib.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    (asked,) = (Requirement(one) for one in project["dependencies"] if one.startswith("filelock"))
    assert not [old for old in ("3.20.0", "3.21.0", "3.25.0", "3.29.0") if asked.specifier.contains(old)]
    assert asked.specifier.contains("4.0.0")


def test_nothing_is_left_of_a_lock(tmp_path):
    with work_folder(tmp_path / "out") as work:
        (work.parent / "made").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["made"]
