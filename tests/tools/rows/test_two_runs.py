"""Two `packlib pack` at once: they never mix two packings in a folder, nor does one replace the other's file."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_pack_command import KILLED, OPTIONS, contents, rows_of

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools import cli
from packlib.tools.rows import parquet_packs

LENGTHS = np.random.default_rng(0).integers(1, 41, 90).tolist()

# The command; before it writes its first file it says so by a file `writing`, and waits until there is a file `go`
HELD = """
import sys, time
from pathlib import Path
import pyarrow.parquet as pq
from packlib.tools import cli
writer = pq.ParquetWriter
def held(path, *more, **options):
    Path("writing").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return writer(path, *more, **options)
pq.ParquetWriter = held
sys.exit(cli.main(sys.argv[1:]))
"""
RUN = "import sys; from packlib.tools import cli; sys.exit(cli.main(sys.argv[1:]))"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, first in (("a", 100), ("b", 900)):  # the same lengths, other tokens
        rows = [{"input_ids": list(range(first, first + length))} for length in LENGTHS]
        Dataset.from_list(rows).to_parquet(f"{name}.parquet")


def started(code, *arguments):
    """Start `packlib pack` in a process that runs `code`, and do not wait for it."""
    return subprocess.Popen(
        [sys.executable, "-c", code, "pack", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def one_after_the_other(first, second):
    """Start a second packing while the first writes; return its exit code, its output and its errors.

    It waits until the first has ended, and then goes on.
    """
    holding = started(HELD, *first)
    while not Path("writing").exists():
        assert holding.poll() is None, holding.communicate()
        time.sleep(0.01)
    waiting = started(RUN, *second)
    time.sleep(3)  # it waits for the lock, at most 5 s; on a slow machine it comes later, and finds the same
    Path("go").touch()
    said = holding.communicate(timeout=200)
    assert holding.returncode == 0, said
    out, error = waiting.communicate(timeout=200)
    return waiting.returncode, out, error


INTO = [*OPTIONS, "out", "--packs-per-file", "5", "--method", "lpfhp"]
OTHERS = {
    "other data": ["b.parquet", *INTO],
    "method 'lpfhp', not 'spfhp'": ["a.parquet", *INTO, "--method", "spfhp"],
    "seed 0, not 1": ["a.parquet", *INTO, "--seed", "1"],
}


@pytest.mark.parametrize("says", OTHERS)
def test_a_second_packing_into_a_folder_is_refused(says):
    code, out, error = one_after_the_other(["a.parquet", *INTO], OTHERS[says])
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert f"out' holds another packing, of {says}: name another folder." in error
    assert cli.main(["pack", "a.parquet", *["whole" if one == "out" else one for one in INTO]]) == 0
    assert contents("out") == contents("whole")


def test_the_same_packing_twice_is_written_once():
    code, out, error = one_after_the_other(["a.parquet", *INTO], ["a.parquet", *INTO])
    assert (code, error) == (0, "") and "Nothing was written: " in out and "out holds these packs already." in out
    found = sorted(tuple(row["input_ids"]) for row in rows_of("out"))
    assert sum(map(len, found)) == sum(LENGTHS)


def test_two_packings_into_one_file_leave_the_first():
    """The second has looked before the first has written, and finds its file when it has written its own."""
    first = started(HELD, "a.parquet", *OPTIONS, "one.parquet")
    while not Path("writing").exists():
        time.sleep(0.01)
    assert cli.main(["pack", "b.parquet", *OPTIONS, "one.parquet"]) == 0
    before = Path("one.parquet").read_bytes()
    Path("go").touch()
    out, error = first.communicate(timeout=200)
    assert (first.returncode, out, error.count("\n")) == (2, "", 1), error
    assert "one.parquet' exists: name another file." in error
    assert Path("one.parquet").read_bytes() == before
    assert not [path.name for path in Path().iterdir() if path.name.endswith(".part")]


def test_a_file_system_without_links_replaces_nothing_either(monkeypatch, capsys):
    def link(*_, **__):
        raise PermissionError(1, "Operation not permitted")  # as FAT says

    monkeypatch.setattr(os, "link", link)
    assert cli.main(["pack", "a.parquet", *OPTIONS, "one.parquet"]) == 0
    assert sum(len(row["input_ids"]) for row in rows_of("one.parquet")) == sum(LENGTHS)
    assert not list(Path().glob(".*.part"))


def test_a_finished_folder_says_what_it_is(capsys):
    assert cli.main(["pack", "a.parquet", *INTO]) == 0
    record = json.loads(Path("out/.packlib.json").read_text())
    assert record["finished"] is True and record["method"] == "lpfhp" and record["data"] and record["plan"]
    times = {path: path.stat().st_mtime_ns for path in Path("out").iterdir()}
    capsys.readouterr()
    assert cli.main(["pack", "a.parquet", *INTO, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_written"] == 0
    assert {path: path.stat().st_mtime_ns for path in Path("out").iterdir()} == times
    for says, other in OTHERS.items():
        assert cli.main(["pack", *other]) == 2
        assert f"holds another packing, of {says}: name another folder." in capsys.readouterr().err
    lost = min(Path("out").glob("*.parquet"))
    whole = lost.read_bytes()
    lost.unlink()
    assert cli.main(["pack", "a.parquet", *INTO, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_written"] == 1 and lost.read_bytes() == whole


def test_a_folder_of_files_without_a_record_is_refused(capsys):
    """As an earlier version has left it: nobody knows what is in it."""
    assert cli.main(["pack", "a.parquet", *INTO]) == 0
    Path("out/.packlib.json").unlink()
    capsys.readouterr()
    assert cli.main(["pack", "a.parquet", *INTO]) == 2
    assert "out' exists: name another folder." in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "[]", "no", '{"finished": true}'])
def test_a_damaged_record_is_refused(capsys, text):
    assert cli.main(["pack", "a.parquet", *INTO]) == 0
    before = {path: path.read_bytes() for path in Path("out").glob("*.parquet")}
    Path("out/.packlib.json").write_text(text)
    capsys.readouterr()
    assert cli.main(["pack", "a.parquet", *INTO]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "out" in said
    assert {path: path.read_bytes() for path in Path("out").glob("*.parquet")} == before


def test_a_folder_inside_the_one_that_is_read_can_be_gone_on_with():
    Path("data").mkdir()
    Path("a.parquet").rename("data/a.parquet")
    into = [*OPTIONS, "data/packed", "--packs-per-file", "5"]
    run = [sys.executable, "-c", KILLED, "pack", "data", *into]
    killed = subprocess.run(run, env={**os.environ, "KILLED_FILE": "3"})
    assert killed.returncode == -9 and len(list(Path("data/packed").glob("*.parquet"))) == 2
    assert cli.main(["pack", "data", *into]) == 0
    assert cli.main(["pack", "data/a.parquet", *OPTIONS, "whole", "--packs-per-file", "5"]) == 0
    assert contents("data/packed") == contents("whole")
    assert len(pq.ParquetDataset("data/packed").read()) == len(rows_of("whole"))


def test_home_is_home_in_what_is_written_too(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cli.main(["pack", "a.parquet", *OPTIONS, "~/new/one.parquet"]) == 0
    assert (tmp_path / "home/new/one.parquet").is_file() and not Path("~").exists()
    assert cli.main(["pack", "~/new/one.parquet", *OPTIONS, "~/out", "--packs-per-file", "9"]) == 0
    assert list((tmp_path / "home/out").glob("*.parquet"))
    assert cli.main(["plan", "squad", "--method", "lpfhp", "--out", "~/plan.json"]) == 0
    assert (tmp_path / "home/plan.json").is_file() and not Path("~").exists()


def test_a_path_of_1200_folders_is_made(capsys):
    deep = "/".join(["d"] * 1200)
    try:
        assert cli.main(["pack", "a.parquet", *OPTIONS, f"{deep}/one.parquet"]) == 0
        assert cli.main(["pack", "a.parquet", *OPTIONS, f"{deep}/out", "--packs-per-file", "9"]) == 0
        assert list(Path(f"{deep}/out").glob("*.parquet"))
    finally:
        subprocess.run(["rm", "-r", "d"], check=True)  # pytest, which removes old folders, calls itself for each


@pytest.mark.parametrize("finished", [True, False])
def test_another_plan_for_the_same_lengths_is_refused(capsys, finished):
    histogram = LengthHistogram.from_lengths(LENGTHS, 64)
    for name, depth in (("one", 3), ("other", 4)):
        plan(histogram, method="lpfhp", max_sequences_per_pack=depth).save(f"{name}.json")
    into = ["a.parquet", "--packs-per-file", "5", "--no-progress", "--out", "out", "--plan"]
    assert cli.main(["pack", *into, "one.json"]) == 0
    record = Path("out/.packlib.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"finished": finished}))
    before = contents("out")
    capsys.readouterr()
    assert cli.main(["pack", *into, "other.json"]) == 2
    assert ", of another plan: " in capsys.readouterr().err and contents("out") == before


def test_files_that_come_before_the_lock_is_had_are_not_taken_for_packs(monkeypatch, capsys):
    """Such as those of an earlier version of packlib, which kept no record."""
    look = parquet_packs.opened

    def meanwhile(*given):
        Path("out").mkdir()
        Path("out/00000-of-00006.parquet").write_text("of another")
        return look(*given)

    monkeypatch.setattr(parquet_packs, "opened", meanwhile)
    assert cli.main(["pack", "a.parquet", *INTO]) == 2
    assert "out' exists: name another folder." in capsys.readouterr().err
    assert contents("out") == {"00000-of-00006.parquet": b"of another"}
