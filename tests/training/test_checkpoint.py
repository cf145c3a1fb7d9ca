"""Checkpoints: whole or refused, and never other weights than those that were saved."""

import os
import time

import pytest
import torch
from file_cases import full_disk

from packlib.distributed import run_ranks
from runs import checkpoint
from runs.checkpoint import CHECKPOINT, METRICS, RunFolder


def run_in(folder, value=0.0, shape=(2, 1)):
    model = torch.nn.Linear(*shape)
    torch.nn.init.constant_(model.weight, value)
    return RunFolder(folder, {"model": model}, torch.nn.Identity(), {"micro_batch": 2}), model


def save_runs(folder, updates):
    """Save a checkpoint after each update, in which every weight is the number of the update."""
    for update in updates:
        run, model = run_in(folder)
        with run.alone():
            run.resume()
            torch.nn.init.constant_(model.weight, update)
            run.record({"update": update, "sequences": 2 * update})
            run.save()


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def resumed(folder):
    run, model = run_in(folder)
    run.resume()
    return run.saved_update, model.weight.unique().tolist()


def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path):
    """Wherever a bit is flipped, or the file cut: refused, or read as what was saved."""
    save_runs(tmp_path, (1, 3))
    assert sorted(os.listdir(tmp_path)) == sorted([CHECKPOINT, METRICS]) and resumed(tmp_path) == (2, [3.0])
    path, refused = tmp_path / CHECKPOINT, 0
    whole = path.read_bytes()
    for bit in range(7, 8 * len(whole), 8 * len(whole) // 60):
        flip(path, bit)
        try:
            assert resumed(tmp_path) == (2, [3.0])  # a bit of what fills the archive up
        except ValueError as error:
            refused += 1
            assert f"{CHECKPOINT} is no whole checkpoint: " in str(error) and str(error).count("\n") == 0
        path.write_bytes(whole)
    assert refused > 20
    os.truncate(path, len(whole) // 2)
    with pytest.raises(ValueError, match=f"{CHECKPOINT} is no whole checkpoint: it is cut short or damaged"):
        resumed(tmp_path)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last(tmp_path, monkeypatch):
    save_runs(tmp_path, (1,))
    before = (tmp_path / CHECKPOINT).read_bytes()
    with full_disk(3000), pytest.raises(OSError, match=f"{CHECKPOINT}' cannot be written: File too large"):
        save_runs(tmp_path, (2,))
    assert (tmp_path / CHECKPOINT).read_bytes() == before

    def torn(state, file):
        file.write(b"PK")

    monkeypatch.setattr(torch, "save", torn)  # it says that all is well
    with pytest.raises(ValueError, match="no whole checkpoint"):
        save_runs(tmp_path, (2,))
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [CHECKPOINT, METRICS]


def test_a_checkpoint_of_another_model_is_one_sentence(tmp_path):
    save_runs(tmp_path, (1,))
    run, _ = run_in(tmp_path, shape=(3, 1))
    with pytest.raises(ValueError, match=rf"{CHECKPOINT} does not fit this run: RuntimeError: .*size mismatch") as e:
        run.resume()
    assert str(e.value).count("\n") == 0 and len(str(e.value)) < 500


def save_slowly(rank, folder):
    """Save a checkpoint that takes a second to write; return whether it is there when this rank goes on."""
    write = checkpoint._write

    def slowly(state, path):
        time.sleep(1)
        write(state, path)

    checkpoint._write = slowly
    run, _ = run_in(folder)
    with run.alone():
        run.record({"update": 1})
        run.save()
        return (folder / CHECKPOINT).exists()


def test_no_rank_goes_on_before_the_checkpoint_is_there(tmp_path):
    """Else a rank might be killed in an update that no checkpoint has."""
    assert run_ranks(save_slowly, 2, tmp_path) == [True, True]
