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
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_columns import CHATS, tokenizer

from packlib.lengths import LengthHistogram
from packlib.packing import StreamPacker, plan
from packlib.tools import cli
from packlib.tools.rows import pack_dataset

LENGTHS = np.random.default_rng(0).integers(1, 41, 60).tolist()
ROWS = [{"input_ids": list(range(9, 9 + length)), "who": f"é{at}"} for at, length in enumerate(LENGTHS)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Dataset.from_list(ROWS).to_parquet("x.parquet")


OPTIONS = ["--max-length", "64", "--no-progress", "--out"]


def rows_of(name):
    """Read the rows of a file, or of all files of a folder."""
    files = sorted(Path(name).glob("*.parquet")) or [name]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def refused(arguments, says, capsys):
    """Assert that the command refuses in one sentence, and leaves nothing at the place `no`."""
    assert cli.main(["pack", *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not Path("no").exists()


def test_the_command_packs_one_parquet_file_into_another(capsys):
    assert cli.main(["pack", "x.parquet", *OPTIONS, "new/packed.parquet"]) == 0
    packed = rows_of("new/packed.parquet")
    assert packed == pack_dataset(ROWS, 64).to_list()
    assert f"{len(packed)} packs of 64 (lpfhp); the proven minimum is {len(packed)} " in capsys.readouterr().out
    assert cli.main(["pack", "x.parquet", *OPTIONS, "one.parquet", "--max-sequences-per-pack", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_packs"] == 60


def test_shards_lines_and_folders_go_in_and_shards_come_out(capsys):
    whole, expected = Dataset.from_list(ROWS), pack_dataset(ROWS, 64).to_list()
    whole.select(range(25)).to_parquet("shards/a.parquet")
    whole.select(range(25, 60)).to_parquet("shards/b.parquet")
    whole.to_json("rows.jsonl")
    whole.save_to_disk("saved", num_shards=2)
    Path("shards/README.md").write_text("no data")
    given = (["shards"], ["shards/*.parquet"], ["shards/a.parquet", "shards/b.parquet"], ["rows.jsonl"], ["saved"])
    for number, data in enumerate([*given, ["x.parquet"]]):
        assert cli.main(["pack", *data, "--packs-per-file", "7", *OPTIONS, f"out{number}"]) == 0
        assert rows_of(f"out{number}") == expected
    assert "who: a value for each sequence." in capsys.readouterr().out
    files = sorted(Path("out0").glob("*.parquet"))
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
    for says, data, *more in [
        ("there.parquet' exists: name another file.", "x.parquet", "--out", "there.parquet"),
        ("full' exists: name another folder.", "x.parquet", "--out", "full", "--packs-per-file", "3"),
        ("--packs-per-file must be at least 1, not 0.", "x.parquet", "--packs-per-file", "0"),
        ("The folder folder holds no .parquet, no .jsonl and no .arrow file", "folder"),
        ("No file fits no*.parquet.", "no*.parquet"),
        ("There is no file y.parquet: did you mean x.parquet?", "y.parquet"),
        ("bad.parquet is no whole Parquet file of sequences", "bad.parquet"),
        ("bad.jsonl is no file of JSON lines: Line 2: It is not JSON", "bad.jsonl"),
        ("nan.jsonl is no file of JSON lines: Line 1: NaN is no number", "nan.jsonl"),
        ("There is no folder none; a tokenizer is needed there.", "x.parquet", "--tokenizer", "none"),
        ("folder holds no tokenizer: ", "x.parquet", "--tokenizer", "folder"),
        ("--method and --plan must be left out with", "x.parquet", "--window", "1", "--method", "lpfhp"),
    ]:
        refused([data, *OPTIONS, "no", *more], says, capsys)
    assert Path("there.parquet").read_text() == Path("full/mine.txt").read_text() == "mine"


# The command; the process of rank KILLED_RANK kills itself in the middle of its file KILLED_FILE
KILLED = """
import os, signal, sys
import pyarrow.parquet as pq
from packlib.tools import cli
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
    into = ["x.parquet", "--packs-per-file", "3", *OPTIONS]
    assert cli.main(["pack", *into, "whole"]) == 0
    run = [sys.executable, "-c", KILLED, "pack", *into, "out"]
    assert subprocess.run(run, env={**os.environ, "KILLED_FILE": "4"}).returncode == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in sorted(Path("out").glob("*.parquet"))}
    assert len(kept) == 3 < len(list(Path("whole").iterdir()))
    Dataset.from_list(ROWS[1:]).to_parquet("other.parquet")
    capsys.readouterr()
    for says, other in {
        "max_length 64, not 63": [*into, "out", "--max-length", "63"],
        "packs_per_file 3, not 4": [*into, "out", "--packs-per-file", "4"],
        "other data": ["other.parquet", *into[1:], "out"],
        "overlong 'error', not 'drop'": [*into, "out", "--overlong", "drop"],
    }.items():
        refused(other, f"out' holds files of a packing that was stopped, of {says}: ask for the same", capsys)
    assert cli.main(["pack", *into, "out"]) == 0
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
    assert contents("out") == contents("whole")
    refused(["other.parquet", *into[1:], "out"], "out' holds another packing, of other data: name another", capsys)


def contents(folder):
    """The bytes of every file, hidden ones included."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_a_data_set_of_the_hub_is_packed_by_its_name_and_split(monkeypatch, capsys):
    options, whole, asked = ["--json", *OPTIONS], Dataset.from_list(ROWS), []

    def load_dataset(name, split):
        asked.append((name, split))
        return whole if split == "train" else whole.select(range(5))

    with monkeypatch.context() as patched:
        patched.setattr(datasets, "load_dataset", load_dataset)
        for split, count in (("train", 60), ("test", 5)):
            assert cli.main(["pack", "owner/name", "--split", split, *options, f"{split}.parquet"]) == 0
            assert json.loads(capsys.readouterr().out)["sequences"] == count
        assert asked == [("owner/name", "train"), ("owner/name", "test")]
        datasets.DatasetDict(train=whole, test=whole.select(range(9))).save_to_disk("owner/name")  # now it is a path
        assert cli.main(["pack", "owner/name", "--split", "test", *options, "local.parquet"]) == 0
        assert json.loads(capsys.readouterr().out)["sequences"] == 9
        assert len(asked) == 2
    for says, data in {
        "The data set no/body of the hub cannot be loaded: Couldn't reach 'no/body' on the Hub": "no/body",
        "split must be 'train' or 'test', not 'valid'": "owner/name",
        "split must be left out for x.parquet, which has no splits.": "x.parquet",
        "There is no file no.parquet": "no.parquet",
    }.items():
        refused([data, "--split", "valid", *options, "no"], says, capsys)
    refused(["no/body", *options, "no"], "There is no file no/body", capsys)  # without a split the hub is not asked


def test_a_window_keeps_the_order(capsys):
    for window in (1, 5):
        assert cli.main(["pack", "x.parquet", "--window", str(window), *OPTIONS, f"{window}.parquet"]) == 0
        expected = [[f"é{at}" for at in ids] for ids in StreamPacker(64, window).pack(LENGTHS)]
        assert [row["who"] for row in rows_of(f"{window}.parquet")] == expected
    assert [who for row in rows_of("1.parquet") for who in row["who"]] == [row["who"] for row in ROWS]
    assert "(window 5)" in capsys.readouterr().out


def test_chats_in_lines_are_packed_with_the_tokenizer_of_a_folder(capsys):
    tokenizer().save_pretrained("model")
    Path("chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in CHATS))
    assert cli.main(["pack", "chats.jsonl", "--tokenizer", "model", *OPTIONS, "packed.parquet"]) == 0
    expected = pack_dataset([{"messages": chat} for chat in CHATS], 64, tokenizer=tokenizer())
    assert rows_of("packed.parquet") == expected.to_list()
    said = capsys.readouterr().out
    assert "messages: tokenized by the chat template and left out." in said and "labels are -100 where it is 0" in said


@pytest.mark.parametrize("name", cli.program.commands)
def test_the_help_says_what_is_done_without_an_option_that_switches_off(name, capsys):
    assert cli.main([name, "--help"]) == 0
    assert "[default: True]" not in " ".join(capsys.readouterr().out.split())


def test_an_interrupt_while_pandas_loads_is_not_lost(tmp_path):
    Path("pandas.py").write_text(f"import os\nos.kill(os.getpid(), {signal.SIGINT:d})\n")
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from packlib.tools.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", run, "pack", "x.parquet", *OPTIONS, "packed.parquet"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (130, 1) and not Path("packed.parquet").exists()


def test_the_command_packs_by_a_plan_and_names_what_is_wrong_with_it(capsys):
    made = plan(LengthHistogram.from_lengths(LENGTHS, 32, "truncate"), method="spfhp", max_sequences_per_pack=3)
    made.save("plan.json")
    arguments = ["x.parquet", "--no-progress", "--plan", "plan.json", "--out"]
    assert cli.main(["pack", *arguments, "packed.parquet", "--overlong", "truncate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_packs"], found["method"], found["max_length"]) == (made.num_packs, "spfhp", 32)
    assert rows_of("packed.parquet") == pack_dataset(ROWS, 32, plan=made, overlong="truncate").to_list()
    refused([*arguments, "no", "--overlong", "drop"], "The plan was made for other lengths: of length", capsys)
    refused([*arguments, "no", "--plan", "x.parquet"], "x.parquet is no packing plan", capsys)
    refused(["x.parquet", "--out", "no"], "--max-length must be given, the tokens in a pack; or --plan", capsys)


def test_nemo_reads_the_sequences_from_a_layout_of_its_own(capsys):
    rng = np.random.default_rng(1)
    rows = [{**row, "completion_mask": rng.integers(0, 2, len(row["input_ids"])).tolist()} for row in ROWS
            if len(row["input_ids"]) > 1]  # fmt: skip
    Dataset.from_list(rows).to_parquet("y.parquet")
    assert cli.main(["pack", "y.parquet", "--layout", "nemo", *OPTIONS, "packed.parquet"]) == 0
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
    labels = [np.where(row["completion_mask"], row["input_ids"], -100)[1:].tolist() for row in rows]
    assert sorted(found) == sorted(zip([row["input_ids"] for row in rows], labels, strict=True))
    asked = ["--max-length", "64", "--source", "y.parquet", "--tolerance", "0.2", "--no-progress"]
    assert cli.main(["audit", "packed.parquet", *asked]) == 0
    other = {"input_ids": [[5, 6, 7]], "labels": [[-100, 6, 8]]}  # a mask cannot say which other token is asked for
    pq.write_table(pa.table(other), "z.parquet")
    arguments = ["z.parquet", "--layout", "nemo", *OPTIONS, "no"]
    refused(arguments, "labels must be the tokens of their row or -100 in the layout of NeMo", capsys)
    refused([*arguments, "--no-labels"], "labels must be made for the layout of NeMo", capsys)


# The command; it is stopped by a signal where it says that it is
STOPPED = """
import atexit, os, signal, sys
import pyarrow.parquet as pq
import packlib.files
from packlib_command import main
number = int(os.environ["SIGNAL"])
def stop():
    os.kill(os.getpid(), number)
writer, link, files = pq.ParquetWriter, os.link, []
def counted(path, *more, **options):
    files.append(path)
    if len(files) == 4:
        stop()
    return writer(path, *more, **options)
def linked(*paths):
    link(*paths)
    stop()
where = os.environ["WHERE"]
if where == "writing":
    pq.ParquetWriter = counted
elif where == "linked":
    os.link = linked
else:
    atexit.register(stop)
sys.exit(main())
"""
SIGNALS = {signal.SIGINT: (130, "stopped"), signal.SIGTERM: (143, "terminated")}


def stopped(where, number, *arguments):
    """Run the command, which gets signal `number` where `where` says."""
    run = [sys.executable, "-c", STOPPED, "pack", "x.parquet", *arguments]
    environment = {**os.environ, "WHERE": where, "SIGNAL": str(int(number))}
    return subprocess.run(run, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_run_into_a_folder_that_is_stopped_says_what_is_there(number):
    done = stopped("writing", number, "--packs-per-file", "3", *OPTIONS, "out")
    code, how = SIGNALS[number]
    assert done.returncode == code and done.stderr.count("\n") == 1
    assert f"packlib: {how}; of what had not ended, nothing was written. 3 whole files are in" in done.stderr
    assert "out': the same command writes the others." in done.stderr
    assert len(list(Path("out").glob("*.parquet"))) == 3


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_when_all_is_written_changes_nothing(number):
    done = stopped("ended", number, *OPTIONS, "packed.parquet")
    assert (done.returncode, done.stderr) == (0, "") and "packs of 64" in done.stdout


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_between_the_file_and_the_answer_says_that_the_file_is_there(number):
    done = stopped("linked", number, *OPTIONS, "packed.parquet")
    assert done.returncode == SIGNALS[number][0] and "packed.parquet' is there, and whole." in done.stderr
    assert sum(len(row["input_ids"]) for row in rows_of("packed.parquet")) == sum(LENGTHS)


def test_a_folder_is_read_whole_or_what_is_left_out_is_said(capsys):
    Path("mixed").mkdir()
    Dataset.from_list(ROWS).to_parquet("mixed/a.parquet")
    Path("mixed", "b.json").write_text(json.dumps(ROWS))
    Path("mixed", "README.md").write_text("about them")
    capsys.readouterr()
    assert cli.main(["pack", "mixed", *OPTIONS, "packed.parquet"]) == 0
    assert capsys.readouterr().err == "packlib: 1 other file in the folder will not be read: b.json.\n"
    assert cli.main(["report", "mixed", "--max-length", "64", "--no-progress", "--out", "report"]) == 0
    assert capsys.readouterr().err == "packlib: 1 other file in the folder will not be read: b.json.\n"


def test_parts_of_a_folder_whose_names_hold_a_column_are_refused(capsys):
    Path("parts/split=train").mkdir(parents=True)
    Dataset.from_list(ROWS).to_parquet("parts/split=train/a.parquet")
    capsys.readouterr()
    refused(["parts", *OPTIONS, "no"], "parts such as split=train, and no file has the column split. Name one", capsys)
    assert cli.main(["pack", "parts/split=train", *OPTIONS, "one.parquet"]) == 0
    assert cli.main(["pack", "parts/**/*.parquet", *OPTIONS, "all.parquet"]) == 0


def test_texts_of_pandas_and_of_json_lines_are_one_column():
    Path("mixed").mkdir()
    large = pa.schema([("input_ids", pa.large_list(pa.int64())), ("who", pa.large_string())])
    pq.write_table(pa.Table.from_pylist(ROWS, large), "mixed/a.parquet")
    Path("mixed", "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert cli.main(["pack", "mixed", *OPTIONS, "packed.parquet"]) == 0
    names = sorted(name for row in rows_of("packed.parquet") for name in row["who"])
    assert names == sorted(2 * [row["who"] for row in ROWS])


@pytest.mark.parametrize("name", ["lengths.csv", "lengths.npy", "lengths.txt"])
def test_a_file_of_lengths_is_no_file_of_sequences(name, capsys):
    Path(name).write_text("3\n4\n")
    refused([name, *OPTIONS, "no"], f"{name} is no file of sequences: a {Path(name).suffix} file holds", capsys)


@pytest.mark.parametrize("name", ["no.csv", "no.jsonl", "no.arrow"])
def test_parquet_is_not_written_under_another_name(name, capsys):
    refused(["x.parquet", *OPTIONS, name], f"out must be named as Parquet, such as no.parquet, not {name}.", capsys)
    assert not Path(name).exists()
