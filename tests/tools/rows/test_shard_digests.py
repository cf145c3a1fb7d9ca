"""A folder that a run goes on with, or that is finished: every file in it is known by its content."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_pack_command import KILLED, contents, rows_of

from packlib.tools import cli

LENGTHS = np.random.default_rng(0).integers(1, 41, 60).tolist()
INTO = ["x.parquet", "--packs-per-file", "3", "--max-length", "64", "--no-progress", "--out"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"input_ids": list(range(9, 9 + length)), "who": f"é{at}"} for at, length in enumerate(LENGTHS)]
    Dataset.from_list(rows).to_parquet("x.parquet")


@pytest.fixture(params=[True, False], ids=["finished", "stopped"])
def folder(request):
    """The folder of a run that ended, or that was killed in its fifth file."""
    if request.param:
        assert cli.main(["pack", *INTO, "out"]) == 0
    else:
        run = [sys.executable, "-c", KILLED, "pack", *INTO, "out"]
        assert subprocess.run(run, env={**os.environ, "KILLED_FILE": "5"}).returncode == -signal.SIGKILL
    return Path("out")


def flipped(path):
    """One bit of a value is another; the file is whole, with as many rows."""
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def rewritten(path):
    """The file is written again with other settings, as another tool would: the same rows in other bytes."""
    pq.write_table(pq.read_table(path).slice(0, 3), path, compression="zstd")


def swapped(path):
    """The first two files have each other's content."""
    second = sorted(path.parent.glob("*.parquet"))[1]
    first, other = path.read_bytes(), second.read_bytes()
    path.write_bytes(other)
    second.write_bytes(first)


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-9])


def emptied(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [flipped, rewritten, swapped, cut_off, emptied])
def test_a_file_that_is_not_as_it_was_written_is_named_and_kept(folder, change, capsys):
    changed = min(folder.glob("*.parquet"))
    change(changed)
    before = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    assert cli.main(["pack", *INTO, "out"]) == 2
    said = capsys.readouterr().err
    assert changed.name in said and "remove" in said and said.count("\n") == 1
    assert (sorted(before)[1] in said) == (change is swapped)
    assert {path.name: path.read_bytes() for path in folder.glob("*.parquet")} == before


def test_a_file_that_was_removed_is_written_again(folder):
    assert cli.main(["pack", *INTO, "whole"]) == 0
    changed = min(folder.glob("*.parquet"))
    flipped(changed)
    changed.unlink()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert cli.main(["pack", *INTO, "out"]) == 0
    assert contents("out") == contents("whole")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_file_that_the_record_does_not_know_is_refused(folder, capsys):
    """As one that somebody has put in the place of a file that is still to be written."""
    record = json.loads((folder / ".packlib.json").read_text())
    last = f"{len(record.get('files', [])) - 1:05}" if record["finished"] else "00006"
    number = min(folder.glob("*.parquet")).name.partition("-of-")[2]
    place = folder / f"{last}-of-{number}"
    if record["finished"]:
        del record["files"][place.name]
        (folder / ".packlib.json").write_text(json.dumps(record))
    else:
        pq.write_table(pq.read_table(min(folder.glob("*.parquet"))), place)
    before = place.read_bytes()
    assert cli.main(["pack", *INTO, "out"]) == 2
    assert place.name in capsys.readouterr().err and place.read_bytes() == before


def test_the_record_of_a_finished_folder_has_a_digest_for_each_file():
    import hashlib

    assert cli.main(["pack", *INTO, "out"]) == 0
    record = json.loads(Path("out/.packlib.json").read_text())
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path("out").glob("*.parquet")}
    assert record["files"] == digests
    assert sorted(path.name for path in Path("out").iterdir()) == sorted([".packlib.json", *digests])
    assert len(rows_of("out")) == sum(pq.read_metadata(path).num_rows for path in Path("out").glob("*.parquet"))


@pytest.mark.parametrize("files", ["no", {"00000-of-00011.parquet": 3}, [1]])
def test_a_record_with_damaged_digests_is_refused(files, capsys):
    assert cli.main(["pack", *INTO, "out"]) == 0
    record = Path("out/.packlib.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"files": files}))
    before = contents("out")
    assert cli.main(["pack", *INTO, "out"]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and contents("out") == before
