"""Paths that begin with ~: the home folder of whoever is there, and a name like any other if nobody is."""

import pytest

from packlib.tools.cli import main

NOBODY = "~nobody-of-this-name"
COMMANDS = [
    ["report", f"{NOBODY}/x.csv"], ["report", f"{NOBODY}/x.parquet"], ["plan", f"{NOBODY}/x.csv"],
    ["report", "wikipedia", "--model", f"{NOBODY}/m"], ["report", "wikipedia", "--source", f"{NOBODY}/x.csv"],
    ["audit", f"{NOBODY}/x.parquet"],
    ["pack", f"{NOBODY}/x.parquet", "--max-length", "3", "--out", "x"], ["adjust", f"{NOBODY}/r.json", "--factor", "2"],
    ["check", f"{NOBODY}/m"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_home_of_nobody_is_one_sentence(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "nobody-of-this-name" in said and not list(tmp_path.iterdir())
