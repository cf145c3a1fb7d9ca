"""Checkpoints: whole or refused, and never other weights than those that were saved."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from file_cases import full_disk
from processes import waiting
from training_cases import loader, recipe, small_model

from packlib import files
from packlib.distributed import RankError, run_ranks
from packlib.training import fit
from packlib.training.checkpoint import CHECKPOINT, METRICS, RunFolder

SETTINGS = {"save_every": 2, "progress": False}


def run_in(folder, value=0.0, shape=(2, 1)):
    model = torch.nn.Linear(*shape)
    torch.nn.init.constant_(model.weight, value)
    return RunFolder(folder, {"model": model}, torch.nn.Identity(), {"micro_batch": 2}), model


def save_runs(folder, updates):
    """A checkpoint after each update, with its number as every weight."""
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


def test_metrics_that_were_changed_are_as_they_were_saved(tmp_path):
    save_runs(tmp_path, (1, 2))
    path = tmp_path / METRICS
    whole = path.read_text()
    for text in (whole.replace('"sequences": 2', '"sequences": 3'), whole[:30], whole + '{"torn'):
        path.write_text(text)
        assert resumed(tmp_path) == (2, [2.0]) and path.read_text() == whole


def test_a_checkpoint_of_another_model_is_one_sentence(tmp_path):
    save_runs(tmp_path, (1,))
    run, _ = run_in(tmp_path, shape=(3, 1))
    with pytest.raises(ValueError, match=rf"{CHECKPOINT} does not fit this run: RuntimeError: .*size mismatch") as e:
        run.resume()
    assert str(e.value).count("\n") == 0 and len(str(e.value)) < 500


WAITS = """
import os, sys, time
from pathlib import Path
from training_cases import loader, recipe, small_model
from packlib.training import fit
def wait(record):
    Path(sys.argv[1], f"waiting-{os.getpid()}").touch()
    time.sleep(1000)
fit(small_model(), loader(2), recipe(2, 2), folder=Path(sys.argv[1]) / "run", on_update=wait, progress=False)
"""


def test_a_folder_has_one_run_at_a_time_and_is_free_when_that_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen([sys.executable, "-c", WAITS, tmp_path], env=environment)
    try:
        waiting(tmp_path, 1)
        before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
        with pytest.raises(
            BlockingIOError, match=f"^Another run is writing to {tmp_path / 'run'}: wait until it ends"
        ):
            fit(small_model(), loader(2), recipe(2, 2), folder=tmp_path / "run", **SETTINGS)
        assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before
    finally:
        first.kill()
        first.wait()
    records = fit(small_model(), loader(2), recipe(2, 2), folder=tmp_path / "run", **SETTINGS)
    lines = (tmp_path / "run" / METRICS).read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == list(range(1, len(records) + 1))
    assert sorted(os.listdir(tmp_path / "run")) == sorted([CHECKPOINT, METRICS])


def on_two_ranks(rank, folder):
    run, _ = run_in(folder / str(rank))
    with pytest.raises(ValueError) as refusal:
        run.resume()
    with pytest.raises(RankError, match=r"^Rank 0 of 2 raised BlockingIOError: Another run is writing to"):
        with RunFolder(folder / "taken", {}, None, {}).alone():
            pytest.fail("must not begin")
    with RunFolder(folder / "free", {}, None, {}).alone():
        return str(refusal.value), sorted(os.listdir(folder / "free")) if rank == 0 else None


def test_ranks_with_other_checkpoints_or_in_the_folder_of_another_run_stop_together(tmp_path):
    save_runs(tmp_path / "0", (1,))
    (tmp_path / "1").mkdir()
    with RunFolder(tmp_path / "taken", {}, None, {}).alone():
        told = run_ranks(on_two_ranks, 2, tmp_path)
    said = [f"The ranks find checkpoints of the updates [1, None] in {tmp_path / str(rank)}." for rank in range(2)]
    assert told == [(said[0], [files.LOCK, files.WORK]), (said[1], None)]


SETTING = recipe(4, 1, 40, warmup_sequences=8, packing_factor=3.6, decay="polynomial")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun")
    fit(small_model(), loader(4), SETTING, folder=folder, **SETTINGS)
    return folder


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("micro_batch", 3),
        ("betas", (0.9, 0.98)),
        ("even_updates", True),
    ],
)
def test_a_run_of_another_setting_is_refused_by_its_name(begun, name, value):
    before = {path.name: path.read_bytes() for path in begun.iterdir()}
    even = name == "even_updates"
    other = SETTING if even else replace(SETTING, **{name: value})
    with pytest.raises(ValueError, match=f"holds a run with {name} .*; this one has .*: take another folder"):
        fit(small_model(), loader(other.micro_batch), other, folder=begun, even_updates=even, **SETTINGS)
    assert {path.name: path.read_bytes() for path in begun.iterdir()} == before
