"""`packlib pack`: from one Parquet file to another, by the lengths alone or by a plan."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_columns import CHATS, tokenizer

from packlib import cli
from packlib.lengths import LengthHistogram
from packlib.packing import StreamPacker, plan
from packlib.rows import pack_dataset

LENGTHS = np.random.default_rng(0).integers(1, 41, 60).tolist()
ROWS = [{"input_ids": list(range(9, 9 + length)), "who": f"é{at}"} for at, length in enumerate(LENGTHS)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
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


def rows_of(path):
    return [row for file in sorted(Path(path).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_shards_lines_and_folders_go_in_and_shards_come_out(tmp_path, capsys):
    whole, expected = Dataset.from_list(ROWS), pack_dataset(ROWS, 64).to_list()
    whole.select(range(25)).to_parquet("shards/a.parquet")
    whole.select(range(25, 60)).to_parquet("shards/b.parquet")
    whole.to_json("rows.jsonl")
    whole.save_to_disk("saved", num_shards=2)
    Path("shards/README.md").write_text("no data")
    options = ["--max-length", "64", "--no-progress", "--packs-per-file", "7", "--out"]
    given = (["shards"], ["shards/*.parquet"], ["shards/a.parquet", "shards/b.parquet"], ["rows.jsonl"], ["saved"])
    for number, data in enumerate([*given, ["x.parquet"]]):
        assert cli.main(["pack", *data, *options, f"out{number}"]) == 0
        assert rows_of(f"out{number}") == expected
    assert "who: a value for each sequence." in capsys.readouterr().out
    files = sorted(Path("out0").iterdir())
    assert files[0].name == f"00000-of-{len(files):05}.parquet"
    assert [pq.read_metadata(file).num_rows for file in files[:-1]] == [7] * (len(files) - 1)
    for data in (["shards/*.parquet"], [Path("shards/a.parquet"), "shards/b.parquet"], "saved", "rows.jsonl"):
        assert pack_dataset(data, 64).to_list() == expected


def test_nothing_is_replaced_and_what_is_not_there_is_named(capsys):
    Path("folder").mkdir()
    Path("bad.parquet").write_text("no")
    Path("nan.jsonl").write_text('{"input_ids": [1, 2], "labels": [NaN, 2]}\n')
    Path("bad.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [2]\n')
    Path("full").mkdir()
    for path in ("there.parquet", "full/mine.txt"):
        Path(path).write_text("mine")
    for says, data, more in [
        ("there.parquet' exists: name another file.", "x.parquet", ["--out", "there.parquet"]),
        ("full' exists: name another folder.", "x.parquet", ["--out", "full", "--packs-per-file", "3"]),
        ("packs_per_file must be at least 1, not 0.", "x.parquet", ["--packs-per-file", "0"]),
        ("The folder folder holds no .parquet and no .jsonl file", "folder", []),
        ("No file fits no*.parquet.", "no*.parquet", []),
        ("There is no file y.parquet: did you mean x.parquet?", "y.parquet", []),
        ("bad.parquet is no whole Parquet file of sequences", "bad.parquet", []),
        ("bad.jsonl is no file of JSON lines: Line 2: It is not JSON", "bad.jsonl", []),
        ("nan.jsonl is no file of JSON lines: Line 1: NaN is no number", "nan.jsonl", []),
        ("There is no folder none; a tokenizer is needed there.", "x.parquet", ["--tokenizer", "none"]),
        ("folder holds no tokenizer: ", "x.parquet", ["--tokenizer", "folder"]),
        ("method and plan must be left out with", "x.parquet", ["--window", "1", "--method", "lpfhp"]),
    ]:
        out = [] if "--out" in more else ["--out", "no"]
        assert cli.main(["pack", data, "--max-length", "64", "--no-progress", *more, *out]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1 and not Path("no").exists()
    assert Path("there.parquet").read_text() == Path("full/mine.txt").read_text() == "mine"


# The command; the process of rank KILLED_RANK kills itself in the middle of its file KILLED_FILE
KILLED = """
import os, signal, sys
import pyarrow.parquet as pq
from packlib import cli
writer, files = pq.ParquetWriter, []
def last(path, *more, **options):
    files.append(made := writer(path, *more, **options))
    if os.environ.get("RANK") == os.environ.get("KILLED_RANK") and len(files) == int(os.environ["KILLED_FILE"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return made
pq.ParquetWriter = last
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_killed_run_into_a_folder_goes_on(capsys):
    def arguments(data, out, each=3, most=64):
        sizes = ["--max-length", str(most), "--packs-per-file", str(each)]
        return ["pack", data, *sizes, "--out", out, "--no-progress"]

    assert cli.main(arguments("x.parquet", "whole")) == 0
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments("x.parquet", "out")], env={**os.environ, "KILLED_FILE": "4"}
    )
    assert killed.returncode == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in sorted(Path("out").glob("*.parquet"))}
    assert len(kept) == 3 < len(list(Path("whole").iterdir()))
    Dataset.from_list(ROWS[1:]).to_parquet("other.parquet")
    capsys.readouterr()
    for says, other in {
        "max_length 64, not 63": arguments("x.parquet", "out", most=63),
        "packs_per_file 3, not 4": arguments("x.parquet", "out", each=4),
        "other data": arguments("other.parquet", "out"),
        "overlong 'error', not 'drop'": [*arguments("x.parquet", "out"), "--overlong", "drop"],
    }.items():
        assert cli.main(other) == 2
        said = capsys.readouterr().err
        assert f"out' holds files of a packing that was stopped, of {says}: ask for the same" in said
        assert said.count("\n") == 1
    damaged = min(kept)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert cli.main(arguments("x.parquet", "out")) == 0
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items() if path != damaged)
    assert contents("out") == contents("whole")
    assert cli.main(arguments("x.parquet", "out")) == 2
    assert "out' exists: name another folder." in capsys.readouterr().err


def contents(folder):
    """The bytes of every file, hidden ones included."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_a_data_set_of_the_hub_is_packed_by_its_name_and_split(monkeypatch, capsys):
    options = ["--max-length", "64", "--no-progress", "--json", "--out"]
    whole, asked = Dataset.from_list(ROWS), []

    def load_dataset(name, split):
        asked.append((name, split))
        return whole if split == "train" else whole.select(range(5))

    with monkeypatch.context() as patched:
        patched.setattr(datasets, "load_dataset", load_dataset)
        for split, count in (("train", 60), ("test", 5)):
            assert cli.main(["pack", "owner/name", "--split", split, *options, f"{split}.parquet"]) == 0
            assert json.loads(capsys.readouterr().out)["sequences"] == count
        assert asked == [("owner/name", "train"), ("owner/name", "test")]
        assert pq.read_table("train.parquet").to_pylist() == pack_dataset(ROWS, 64).to_list()
        datasets.DatasetDict(train=whole, test=whole.select(range(9))).save_to_disk("owner/name")  # now it is a path
        assert cli.main(["pack", "owner/name", "--split", "test", *options, "local.parquet"]) == 0
        assert json.loads(capsys.readouterr().out)["sequences"] == 9
        assert len(asked) == 2
    for says, data in {
        "The data set no/body of the hub cannot be loaded: Couldn't reach 'no/body' on the Hub": ["no/body"],
        "split must be 'train' or 'test', not 'valid'": ["owner/name"],
        "split must be left out for x.parquet, which has no splits.": ["x.parquet"],
        "There is no file no.parquet": ["no.parquet"],
    }.items():
        assert cli.main(["pack", *data, "--split", "valid", *options, "no"]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1 and not Path("no").exists()
    assert cli.main(["pack", "no/body", *options, "no"]) == 2
    assert "There is no file no/body" in capsys.readouterr().err  # nothing is asked of the hub without a split


def test_a_window_keeps_the_order(capsys):
    options = ["pack", "x.parquet", "--max-length", "64", "--no-progress"]
    for window in (1, 5):
        assert cli.main([*options, "--window", str(window), "--out", f"{window}.parquet"]) == 0
        packed = pq.read_table(f"{window}.parquet").to_pylist()
        expected = StreamPacker(64, window).pack(LENGTHS)
        assert [row["who"] for row in packed] == [[f"é{at}" for at in ids] for ids in expected]
    assert [who for row in pq.read_table("1.parquet").to_pylist() for who in row["who"]] == [
        row["who"] for row in ROWS
    ]
    assert "(window 5)" in capsys.readouterr().out


def test_chats_in_lines_are_packed_with_the_tokenizer_of_a_folder(capsys):
    tokenizer().save_pretrained("model")
    Path("chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in CHATS))
    arguments = ["pack", "chats.jsonl", "--tokenizer", "model", "--max-length", "64", "--no-progress"]
    assert cli.main([*arguments, "--out", "packed.parquet"]) == 0
    expected = pack_dataset([{"messages": chat} for chat in CHATS], 64, tokenizer=tokenizer())
    assert pq.read_table("packed.parquet").to_pylist() == expected.to_list()
    said = capsys.readouterr().out
    assert "messages: tokenized by the chat template and left out." in said and "labels are -100 where it is 0" in said


@pytest.mark.parametrize("name", cli.program.commands)
def test_the_help_says_what_is_done_without_an_option_that_switches_off(name, capsys):
    assert cli.main([name, "--help"]) == 0
    assert "[default: True]" not in " ".join(capsys.readouterr().out.split())


def test_an_interrupt_while_pandas_loads_is_not_lost(tmp_path):
    Path("pandas.py").write_text(f"import os\nos.kill(os.getpid(), {signal.SIGINT:d})\n")
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from packlib.cli import main; sys.exit(main())"
    arguments = ["pack", "x.parquet", "--max-length", "64", "--out", "packed.parquet"]
    ended = subprocess.run([sys.executable, "-c", run, *arguments], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (130, 1) and not Path("packed.parquet").exists()


def test_the_command_packs_by_a_plan_and_names_what_is_wrong_with_it(tmp_path, capsys):
    made = plan(LengthHistogram.from_lengths(LENGTHS, 32, "truncate"), method="spfhp", max_sequences_per_pack=3)
    made.save("plan.json")
    arguments = ["pack", "x.parquet", "--no-progress", "--plan", "plan.json", "--out"]
    assert cli.main([*arguments, "packed.parquet", "--overlong", "truncate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_packs"], found["method"], found["max_length"]) == (made.num_packs, "spfhp", 32)
    packed = Dataset.from_parquet("packed.parquet", cache_dir=str(tmp_path / "hub"))
    assert packed[:] == pack_dataset(ROWS, 32, plan=made, overlong="truncate")[:]
    capsys.readouterr()
    for says, wrong in {
        "The plan was made for other lengths: of length": ["--overlong", "drop"],
        "x.parquet is no packing plan": ["--plan", "x.parquet"],
    }.items():
        assert cli.main([*arguments, "no.parquet", *wrong]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1 and not Path("no.parquet").exists()
    assert cli.main(["pack", "x.parquet", "--out", "no.parquet"]) == 2
    assert "max_length must be a whole number at least 1, not None." in capsys.readouterr().err


def test_nemo_reads_the_sequences_from_a_layout_of_its_own(capsys):
    rng = np.random.default_rng(1)
    rows = [{**row, "completion_mask": rng.integers(0, 2, len(row["input_ids"])).tolist()} for row in ROWS
            if len(row["input_ids"]) > 1]  # fmt: skip
    Dataset.from_list(rows).to_parquet("y.parquet")
    arguments = ["pack", "y.parquet", "--max-length", "64", "--layout", "nemo", "--no-progress"]
    assert cli.main([*arguments, "--out", "packed.parquet"]) == 0
    assert "who: left out, as NeMo reads it from no file." in capsys.readouterr().out
    read = pq.read_table("packed.parquet")
    kinds = {"input_ids": "int32", "loss_mask": "int8", "seq_start_id": "int32"}
    assert {field.name: str(field.type.value_type) for field in read.schema} == kinds
    found = []
    # as Megatron Bridge does: input and labels are a sequence without its last and first
    for pack in read.to_pylist():
        bounds = [*pack["seq_start_id"], len(pack["input_ids"])]
        assert bounds[0] == 0 and bounds[-1] == len(pack["loss_mask"]) <= 64
        for start, end in itertools.pairwise(bounds):
            ids, asked = pack["input_ids"][start:end], pack["loss_mask"][start : end - 1]
            trained = [label if mask else -100 for label, mask in zip(ids[1:], asked, strict=True)]
            found.append((ids, trained))
    wanted = [
        (row["input_ids"], np.where(row["completion_mask"], row["input_ids"], -100)[1:].tolist()) for row in rows
    ]
    assert sorted(found) == sorted(wanted)
    asked = ["--max-length", "64", "--source", "y.parquet", "--tolerance", "0.2", "--no-progress"]
    assert cli.main(["audit", "packed.parquet", *asked]) == 0


def test_a_mask_cannot_say_which_other_token_is_asked_for(capsys):
    rows = [{"input_ids": [5, 6, 7], "labels": [-100, 6, 8]}, {"input_ids": [5, 6], "labels": [-100, 6]}]
    Dataset.from_list(rows).to_parquet("y.parquet")
    arguments = ["pack", "y.parquet", "--max-length", "64", "--layout", "nemo", "--no-progress"]
    assert cli.main([*arguments, "--out", "packed.parquet"]) == 2
    assert "labels must be the tokens of their row or -100 in the layout of NeMo" in capsys.readouterr().err
    assert cli.main([*arguments, "--no-labels", "--out", "packed.parquet"]) == 2
    assert "labels must be made for the layout of NeMo" in capsys.readouterr().err
