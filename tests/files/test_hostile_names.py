"""Names from outside in what the commands say: one line, no escape sequence, never a screenful."""

import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_cases import full_disk

from packlib.packing import PackingPlan
from packlib.tools import cli
from packlib.tools.rows import row_sources, stored_columns

ESCAPE, LONG = "\x1b[31mred\x07", "n" * 5000
PACK = "pack x.parquet --max-length 8 --out packed.parquet"
COMMANDS = {  # columns of x.parquet, or None for a CSV with such a header, and the command
    "plan a CSV": (None, "plan x.csv"),
    "plan the column twice": (None, "plan twice.csv --column {}"),
    "plan Parquet": (lambda name: {name: [{"a": 1}], "b": [1]}, "plan x.parquet"),
    "plan a nested column": (lambda name: {name: [{name: 1}]}, "plan x.parquet"),
    "plan an empty value": (lambda name: {name: pa.array([None], pa.int64())}, "plan x.parquet"),
    "pack without tokens": (lambda name: {name: [[1]]}, PACK),
    "pack structures": (lambda name: {"input_ids": [{name: 1}]}, PACK),
    "pack a column of other lengths": (lambda name: {"input_ids": [[1]], name: [[1, 2]]}, PACK),
    "pack an empty value": (lambda name: {"input_ids": [[1]], name: pa.array([None], pa.int64())}, PACK),
    "audit without tokens": (lambda name: {name: [[1]]}, "audit x.parquet"),
    "audit structures": (lambda name: {"seq_lengths": [{name: 1}]}, "audit x.parquet"),
    "audit against a CSV": (lambda name: {"seq_lengths": [[1]]}, "audit x.parquet --source x.csv"),
    "check a module": (None, "check {}:function"),
    "check a file": (None, "check raises.py:make"),
    "check a folder": (None, "check model"),
    "a command": (None, "{}"),
    "an option": (None, "plan squad --{}"),
    "a choice": (None, "plan squad --overlong {}"),
    "a file": (None, "plan {}.csv"),
    "a folder of a file": (None, "plan squad --out x.csv/{}/plan.json"),
    "a recipe": (None, "adjust recipe.json --factor 2"),
    "a notebook": (None, "run {}"),
    "a parameter": (None, "sweep 1 -p {} 3"),
}


@pytest.mark.parametrize("name", [ESCAPE, ESCAPE + LONG], ids=["short", "long"])
@pytest.mark.parametrize("case", COMMANDS)
def test_what_a_command_says_is_one_short_line(tmp_path, monkeypatch, capsys, case, name):
    monkeypatch.chdir(tmp_path)
    columns, command = COMMANDS[case]
    Path("x.csv").write_text(f"{name},b\n1,2\n")
    Path("twice.csv").write_text(f"{name},{name}\n1,2\n")
    Path("recipe.json").write_text(json.dumps({name: 1}))
    Path("raises.py").write_text(f"raise ValueError({name!r})")
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps({"architectures": [name]}))
    Path("model/model.safetensors").touch()
    if columns:
        pq.write_table(pa.table(columns(name)), "x.parquet")
    before = sorted(Path().rglob("*"))
    assert cli.main([word.format(name) for word in command.split()]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("packlib: ") and printed.err.endswith("\n") and not printed.out
    assert printed.err[:-1].isprintable() and len(printed.err) < 1100
    assert (
        not Path("packed.parquet").exists() and [p for p in sorted(Path().rglob("*")) if p.suffix != ".pyc"] == before
    )


@pytest.mark.parametrize(("arguments", "code"), [("plan {}", 0), ("audit {}", 3), (f"pack {{}} {PACK[15:]}", 0)])
def test_nor_does_the_name_of_a_good_file_reach_the_terminal_as_it_is(tmp_path, monkeypatch, capsys, arguments, code):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"input_ids": [[1, 2]]}), name := f"{ESCAPE}.parquet")
    assert cli.main([word.format(name) for word in arguments.split()]) == code
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err and "\x07" not in printed.out + printed.err


@pytest.mark.parametrize("command", ["audit", "pack"])
def test_a_bar_leaves_nothing_before_the_sentence(tmp_path, monkeypatch, capsys, command):
    """Where standard error is no terminal, as in a log."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"input_ids": [[{"a": 1}]]}), "x.parquet")
    assert cli.main((PACK if command == "pack" else "audit x.parquet").split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("packlib: ") and "\r" not in said and said.count("\n") == 1


@pytest.mark.parametrize("command", [f"{PACK}", "plan squad --method lpfhp --out packed.parquet"])
def test_a_full_disk_is_said_with_the_file(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"input_ids": [[1] * 8] * 1000}), "x.parquet")
    before = sorted(os.listdir())
    with full_disk(100):
        assert cli.main([*command.split(), "--no-progress"]) == 2
    assert capsys.readouterr().err == f"packlib: '{tmp_path}/packed.parquet' cannot be written: File too large.\n"
    assert sorted(os.listdir()) == before


def test_too_little_memory_is_said_with_the_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"input_ids": [[1] * 8] * 10}), "x.parquet")
    no_room = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))  # as of a file that cannot be mapped
    for error in (MemoryError("malloc of size 9 failed"), no_room):
        for place in (
            (row_sources, "parquet_batches"),
            (stored_columns.Spool, "add"),
            (PackingPlan, "assign"),
        ):
            with monkeypatch.context() as change:
                change.setattr(*place, Mock(side_effect=error))
                assert cli.main([*PACK.split(), "--no-progress"]) == 2
            why = "malloc of size 9 failed" if error is not no_room else "Cannot allocate memory"
            assert capsys.readouterr().err == f"packlib: x.parquet needs more memory than there is: {why}\n"
