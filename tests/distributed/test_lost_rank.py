"""A rank that dies where nobody watches, as under srun or mpirun: the others say so in one sentence, and end."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

# Each script is run by every rank. All meet once; then rank DYING kills itself, and the others wait for it.
PACK = """
import os, signal, sys
import pyarrow.parquet as pq
from packlib.tools import cli
writer = pq.ParquetWriter
def dying(*given, **options):
    if os.environ["RANK"] == os.environ["DYING"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return writer(*given, **options)
pq.ParquetWriter = dying
options = ["--max-length", "64", "--packs-per-file", "3", "--no-progress", "--out", "out"]
sys.exit(cli.main(["pack", "x.parquet", *options]))
"""
BEGIN = """
import os, signal
import numpy as np, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
def die():
    if os.environ["RANK"] == os.environ["DYING"]:
        os.kill(os.getpid(), signal.SIGKILL)
"""
LIBRARY = {
    "pack_distributed": """
from packlib.distributed import pack_distributed
die()
pack_distributed([3, 5, 8], 8)
""",
    "exact_sort": """
from packlib.distributed import exact_sort
die()
exact_sort(np.arange(30).reshape(10, 3))
""",
    "fit": """
from transformers import GPT2Config, GPT2LMHeadModel
from packlib.batches import TokenStore, pack_lengths, pack_loader
from packlib.training import Recipe, fit
store = TokenStore.from_samples([{"input_ids": [7] * length} for length in (5, 3, 3, 2, 8) * 6])
loader = pack_loader(store, pack_lengths(store.lengths, max_length=8), batch_size=1, drop_last=True)
recipe = Recipe(micro_batch=1, learning_rate=0.1, total_sequences=5000, packing_factor=5 / 3, replicas=3)
model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2))
fit(model, loader, recipe, on_update=lambda last: die() if last["update"] > 2 else None)
""",
}


def ended(folder, code, dying, ranks=3):
    """The exit codes and the errors of ranks that nothing watches over, and the seconds after the death."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "DYING": str(dying)}
    started = []
    for rank in range(ranks):
        environment = {**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with (folder / f"error-{rank}").open("w") as error:
            run = [sys.executable, "-c", code]
            started.append(subprocess.Popen(run, cwd=folder, env=environment, stdout=error, stderr=error))
    assert started[dying].wait(timeout=200) == -signal.SIGKILL, (folder / f"error-{dying}").read_text()
    death = time.monotonic()
    codes = [one.wait(timeout=200) for one in started]
    return codes, [(folder / f"error-{rank}").read_text() for rank in range(ranks)], time.monotonic() - death


@pytest.mark.parametrize("dying", [0, 2])
def test_pack_says_in_one_sentence_that_a_rank_has_left(tmp_path, dying):
    draw = np.random.default_rng(0)
    rows = [{"input_ids": draw.integers(5, 100, size).tolist()} for size in draw.integers(1, 41, 120)]
    Dataset.from_list(rows).to_parquet(tmp_path / "x.parquet")
    codes, errors, seconds = ended(tmp_path, PACK, dying)
    for rank in {0, 1, 2} - {dying}:
        said = f"packlib: Rank {rank} of 3 cannot go on: another rank has left.\n"
        assert (codes[rank], errors[rank]) == (4, said), errors[rank]
    assert seconds < 60
    left = {path.name for path in Path(tmp_path / "out").iterdir()}
    assert ".packlib.json" in left or not left  # the same command goes on


@pytest.mark.parametrize(("call", "dying"), [("pack_distributed", 0), ("exact_sort", 2), ("fit", 0), ("fit", 2)])
def test_a_call_raises_one_sentence(tmp_path, call, dying):
    codes, errors, seconds = ended(tmp_path, BEGIN + LIBRARY[call], dying)
    for rank in {0, 1, 2} - {dying}:
        assert codes[rank] == 1, errors[rank]
        assert (
            errors[rank]
            .rstrip()
            .endswith(f"packlib.collectives.LostRankError: Rank {rank} of 3 cannot go on: another rank has left.")
        ), errors[rank]
        assert "gloo" not in errors[rank] and "During handling" not in errors[rank], errors[rank]
    assert seconds < 60
