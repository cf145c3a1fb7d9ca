"""`packlib pack`: from one Parquet file to another, by the lengths alone or by a plan."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
from datasets import Dataset

from packlib import cli
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.rows import pack_dataset

LENGTHS = np.random.default_rng(0).integers(1, 41, 60).tolist()
ROWS = [{"input_ids": list(range(9, 9 + length)), "who": f"é{at}"} for at, length in enumerate(LENGTHS)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    Dataset.from_list(ROWS).to_parquet("x.parquet")


def test_the_command_packs_one_parquet_file_into_another(tmp_path, capsys):
    arguments = ["pack", "x.parquet", "--max-length", "64", "--no-progress"]
    assert cli.main([*arguments, "--out", "new/packed.parquet"]) == 0
    packed = Dataset.from_parquet("new/packed.parquet", cache_dir=str(tmp_path / "hub"))
    expected = pack_dataset(ROWS, 64)
    assert packed[:] == expected[:]
    assert f"{len(packed)} packs of 64 (lpfhp); none has fewer than {len(packed)}" in capsys.readouterr().out
    assert cli.main([*arguments, "--max-sequences-per-pack", "1", "--json", "--out", "one.parquet"]) == 0
    assert json.loads(capsys.readouterr().out)["num_packs"] == 60
    for says, wrong in {
        "There is no file y.parquet: did you mean x.parquet?": ["pack", "y.parquet", *arguments[2:]],
        "Row 0 of the data set has": ["pack", "x.parquet", "--max-length", "2"],
        "is no whole Parquet file of sequences": ["pack", "bad.parquet", *arguments[2:]],
    }.items():
        Path("bad.parquet").write_text("no")
        assert cli.main([*wrong, "--out", "no.parquet"]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1 and not Path("no.parquet").exists()


@pytest.mark.parametrize("name", cli.program.commands)
def test_the_help_says_what_is_done_without_an_option_that_switches_off(name, capsys):
    assert cli.main([name, "--help"]) == 0
    assert "[default: True]" not in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_while_pandas_loads_is_not_lost(tmp_path, number, code):
    Path("pandas.py").write_text(f"import os\nos.kill(os.getpid(), {number:d})\n")
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from packlib.cli import main; sys.exit(main())"
    arguments = ["pack", "x.parquet", "--max-length", "64", "--out", "packed.parquet"]
    ended = subprocess.run([sys.executable, "-c", run, *arguments], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (code, 1) and not Path("packed.parquet").exists()


def test_the_command_packs_by_a_plan_and_refuses_one_of_other_lengths(tmp_path, capsys):
    made = plan(LengthHistogram.from_lengths(LENGTHS, 32, "truncate"), method="spfhp", max_sequences_per_pack=3)
    made.to_json("plan.json")
    arguments = ["pack", "x.parquet", "--no-progress", "--plan", "plan.json", "--out"]
    assert cli.main([*arguments, "packed.parquet", "--overlong", "truncate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_packs"], found["method"], found["max_length"]) == (made.num_packs, "spfhp", 32)
    packed = Dataset.from_parquet("packed.parquet", cache_dir=str(tmp_path / "hub"))
    assert packed[:] == pack_dataset(ROWS, 32, plan=made, overlong="truncate")[:]
    capsys.readouterr()
    for says, wrong in {
        "The plan was made for other lengths: of length": ["--overlong", "drop"],
        "max_length must be 32, that of the plan, not 64.": ["--max-length", "64"],
        "max_length must be at least 1, not 0.": ["--max-length", "0"],
        "must be left out with a plan, which has both.": ["--method", "lpfhp"],
        "There is no file other.json": ["--plan", "other.json"],
        "x.parquet is no packing plan": ["--plan", "x.parquet"],
    }.items():
        assert cli.main([*arguments, "no.parquet", *wrong]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1 and not Path("no.parquet").exists()
    assert cli.main(["pack", "x.parquet", "--out", "no.parquet"]) == 2
    assert "max_length must be a whole number at least 1, not None." in capsys.readouterr().err
