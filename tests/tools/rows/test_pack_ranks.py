"""`packlib pack` on several ranks: the files of one process, whoever reads and writes which of them."""

import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_pack_command import KILLED, contents
from torch.utils.data import DataLoader

from packlib.collectives import Collectives, RankError
from packlib.distributed import run_ranks
from packlib.packing import StreamPacker
from packlib.tools import cli
from packlib.tools.rows import PackedStream
from packlib.tools.rows.parquet_packs import pack_parquet

ARGUMENTS = ["--max-length", "64", "--packs-per-file", "3", "--no-progress", "--out"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Three files; of the second no token is trained on."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("a", 20), ("b", 3), ("c", 37)):
        rows = [
            {"input_ids": rng.integers(5, 100, n).tolist(), "completion_mask": [int(name != "b")] * n, "who": "é" * at}
            for at, n in enumerate(rng.integers(1, 41, count).tolist())
        ]
        Dataset.from_list(rows).to_parquet(f"shards/{name}.parquet")
    Path("command.py").write_text(KILLED)


def on_ranks(ranks, *arguments, **environment):
    """Run `packlib pack` on so many ranks by torchrun."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "command.py"]
    environment = {**os.environ, "KILLED_RANK": "none", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run([*run, "pack", *arguments], capture_output=True, text=True, env=environment, timeout=200)


def packs(folder):
    """The files of packs by name; the record beside them says on how many ranks they were made."""
    return {name: held for name, held in contents(folder).items() if name != ".packlib.json"}


def test_ranks_write_the_files_that_one_process_writes(capsys):
    """Four ranks, more than there are files; the next test has two."""
    assert cli.main(["pack", "shards/*.parquet", *ARGUMENTS, "whole"]) == 0
    said = capsys.readouterr().out.replace("whole", "out")
    done = on_ranks(4, "shards/*.parquet", *ARGUMENTS, "out")
    assert done.returncode == 0 and done.stdout == said, done.stderr[-3000:]
    assert packs("out") == packs("whole") and len(packs("whole")) > 3


def test_ranks_go_on_when_one_was_killed(capsys):
    Dataset.from_parquet("shards/c.parquet", cache_dir="hub").save_to_disk("saved")
    assert cli.main(["pack", "saved", *ARGUMENTS, "whole"]) == 0
    killed = on_ranks(2, "saved", *ARGUMENTS, "out", KILLED_RANK="1", KILLED_FILE="2")
    assert killed.returncode and f"exitcode  : -{signal.SIGKILL:d}" in killed.stderr
    there = {path.name for path in Path("out").iterdir()}
    assert ".packlib.json" in there and any("00001" in name for name in there) and contents("whole").keys() - there
    capsys.readouterr()
    assert cli.main(["pack", "saved", *ARGUMENTS, "out"]) == 2
    assert "of a packing that was stopped, of ranks 2, not 1" in capsys.readouterr().err
    done = on_ranks(2, "saved", *ARGUMENTS, "out")
    assert done.returncode == 0, done.stderr[-3000:]
    assert packs("out") == packs("whole")


def told(rank, place):
    """The error that a rank gets which packs into files together with others."""
    try:
        pack_parquet(f"{place}/shards/*.parquet", f"{place}/out", 64, False, packs_per_file=3, ranks=Collectives())
    except RankError as error:
        return str(error)


@pytest.mark.parametrize(("name", "rows", "says"), [
    ("b", [[1], []], "/shards/b.parquet: Row 1 of the data set has no token."),
    ("c", [[1]], "The column 'completion_mask' is in some rows only"),
])  # fmt: skip
def test_what_is_wrong_on_one_rank_is_said_on_all(tmp_path, name, rows, says):
    """Also what is wrong only beside what another rank has read."""
    Dataset.from_list([{"input_ids": ids} for ids in rows]).to_parquet(f"shards/{name}.parquet")
    found = run_ranks(told, 2, str(tmp_path))
    assert found[0] == found[1] and says.format(tmp_path) in found[0] and not Path("out").exists()


def test_what_is_wrong_under_torchrun_is_one_sentence():
    done = on_ranks(2, "shards/*.parquet", "--max-length", "64", "--out", "packed.parquet")
    says = "packs_per_file must be given on several ranks, each of which writes files of its own."
    assert done.returncode and done.stderr.count("packlib: ") == 1 == done.stderr.count(says), done.stderr
    assert "Traceback (most recent call last)" not in done.stderr.partition("packlib: ")[0]


def test_one_process_loads_no_torch():
    code = "import sys; from packlib.tools import cli; cli.main(sys.argv[1:]); print('torch' in sys.modules)"
    run = [sys.executable, "-c", code, "pack", "shards", *ARGUMENTS, "out"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()[-1] == "False"


def streamed(rank, lengths, even):
    """What a rank is handed out of its own sequences, in one go and resumed after two packs; or what it is told."""
    source = Dataset.from_list([{"input_ids": [rank] * n} for n in lengths[rank]]).to_iterable_dataset()
    stream = PackedStream(source, 8, window=2, even=even)
    try:
        whole = [pack["seq_lengths"] for pack in stream]
    except (RuntimeError, ValueError) as error:
        return str(error)
    stopped, going = (PackedStream(source, 8, window=2, even=even) for _ in range(2))
    begun = list(islice(stopped, 2))
    going.load_state_dict(stopped.state_dict())
    assert [pack["seq_lengths"] for pack in [*begun, *going]] == whole
    return whole


def test_streams_of_ranks_end_evenly():
    rng = np.random.default_rng(0)
    for counts in ((30, 12), (12, 30), (20, 20)):
        lengths = [rng.integers(1, 9, count).tolist() for count in counts]
        alone = [[[some[i] for i in ids] for ids in StreamPacker(8, 2).pack(some)] for some in lengths]
        least = min(map(len, alone))
        assert run_ranks(streamed, 2, lengths, True) == [packs[:least] for packs in alone]
    lengths[1] = [5] * 10
    uneven = run_ranks(streamed, 2, lengths, False)
    assert len(uneven[0]) != len(uneven[1]) == 10


def test_an_error_in_the_stream_of_one_rank_is_raised_on_all():
    told = run_ranks(streamed, 2, [[8] * 30, [8] * 5 + [9]], True)
    assert told[0] == told[1] and "Rank 1 of 2 raised ValueError: Row 5 of the data set has 9 tokens" in told[0]


def test_the_workers_of_a_loader_cannot_end_evenly():
    source = Dataset.from_list([{"input_ids": [1]}]).to_iterable_dataset()
    stream = PackedStream(source, 8, even=True)
    assert len(list(DataLoader(stream, batch_size=None))) == 1
    with pytest.raises(ValueError, match="even must be False in the workers of a DataLoader"):
        list(DataLoader(stream, batch_size=None, num_workers=1))
    with pytest.raises(TypeError, match=r"even must be True or False, not 1\."):
        PackedStream(source, 8, even=1)


def test_what_any_rank_reads_counts(capsys):
    """A run that goes on is refused if the second rank reads other data; and too long is what is so on any rank."""
    options = [*ARGUMENTS[:-1], "--overlong", "truncate", "--max-length", "25", "--out"]
    assert cli.main(["pack", "shards/*.parquet", *options, "whole"]) == 0
    said = capsys.readouterr().out.replace("whole", "out")
    killed = on_ranks(2, "shards/*.parquet", *options, "out", KILLED_RANK="1", KILLED_FILE="2")
    assert killed.returncode and Path("out/.packlib.json").exists()
    rows = Dataset.from_parquet("shards/c.parquet", cache_dir="hub").to_list()
    changed = [{**row, "input_ids": [token + (at == 30) for token in row["input_ids"]]} for at, row in enumerate(rows)]
    for data, refused in ((changed, True), (rows, False)):
        Dataset.from_list(data).to_parquet("shards/c.parquet")
        done = on_ranks(2, "shards/*.parquet", *options, "out")
        assert bool(done.returncode) is refused, done.stderr[-3000:]
        assert ("of a packing that was stopped, of other data" in done.stderr) is refused
    assert done.stdout == said and packs("out") == packs("whole")
    longer = {
        name: sum(len(ids) > 25 for ids in pq.read_table(f"shards/{name}.parquet")["input_ids"].to_pylist())
        for name in "abc"
    }
    assert longer["a"] and longer["c"] and f"; {sum(longer.values())} were too long." in said
