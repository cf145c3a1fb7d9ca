"""Checkpoints: sealed, two of them, and never other weights than those that were saved."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from file_cases import full_disk
from processes import waiting
from training_cases import loader, recipe, small_model, stable

from packlib import files
from packlib.distributed import RankError, run_ranks
from packlib.training import fit
from packlib.training.checkpoint import CHECKPOINT, METRICS, PREVIOUS, RunFolder

SETTINGS = {"save_every": 2, "progress": False}


def run_in(folder, value=0.0, shape=(2, 1)):
    model = torch.nn.Linear(*shape)
    torch.nn.init.constant_(model.weight, value)
    return RunFolder(folder, {"model": model}, torch.nn.Identity(), {"micro_batch": 2}), model


def save_runs(folder, updates):
    """A checkpoint after each update, with its number as every weight."""
    for update in updates:
        run, model = run_in(folder)
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


def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(tmp_path):
    save_runs(tmp_path, (1, 2, 3))
    assert sorted(os.listdir(tmp_path)) == sorted([CHECKPOINT, PREVIOUS, METRICS])
    assert resumed(tmp_path) == (3, [3.0])
    size = (tmp_path / CHECKPOINT).stat().st_size
    for bit in range(7, 8 * size, 8 * size // 10):
        shutil.copytree(tmp_path, tmp_path / "copy")
        flip(tmp_path / "copy" / CHECKPOINT, bit)
        said = rf"{CHECKPOINT} is no whole checkpoint: .* The run goes on from .*{PREVIOUS}, of update 2\."
        with pytest.warns(UserWarning, match=said):
            assert resumed(tmp_path / "copy") == (2, [2.0])
        assert resumed(tmp_path / "copy") == (2, [2.0])  # now it is the checkpoint
        assert not (tmp_path / "copy" / PREVIOUS).exists()
        shutil.rmtree(tmp_path / "copy")


def test_where_no_checkpoint_is_whole_each_is_named(tmp_path):
    save_runs(tmp_path, (1, 2))
    for name in (CHECKPOINT, PREVIOUS):
        flip(tmp_path / name, 20_000)
    with pytest.raises(ValueError, match=rf"{CHECKPOINT} is no whole checkpoint: the checksum differs\.") as refusal:
        resumed(tmp_path)
    said = str(refusal.value)
    assert said.endswith(f"{PREVIOUS} is no whole checkpoint: the checksum differs.") and "\n" not in said
    os.truncate(tmp_path / CHECKPOINT, 20_000)
    (tmp_path / PREVIOUS).unlink()
    said = r"it does not end with a checksum, so it was cut short\."
    with pytest.raises(ValueError, match=rf"{CHECKPOINT} is no whole checkpoint: {said}"):
        resumed(tmp_path)


def test_a_kill_between_two_checkpoints_leaves_one(tmp_path):
    save_runs(tmp_path, (1, 2))
    (tmp_path / CHECKPOINT).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resumed(tmp_path) == (1, [1.0])


def test_a_checkpoint_that_cannot_be_written_leaves_the_last(tmp_path, monkeypatch):
    save_runs(tmp_path, (1,))
    before = (tmp_path / CHECKPOINT).read_bytes()
    with full_disk(3000), pytest.raises(OSError, match=f"{CHECKPOINT}' cannot be written: File too large"):
        save_runs(tmp_path, (2,))
    assert (tmp_path / CHECKPOINT).read_bytes() == before

    def torn(state, file):
        file.write(b"PK")

    monkeypatch.setattr(torch, "save", torn)  # it says that all is well
    with pytest.raises(ValueError, match="torch cannot load it"):
        save_runs(tmp_path, (2,))
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [CHECKPOINT, METRICS]


def test_metrics_that_were_changed_are_refused(tmp_path):
    save_runs(tmp_path, (1, 2))
    path = tmp_path / METRICS
    whole = path.read_text()
    for text, says in (
        (whole.replace('"sequences": 2', '"sequences": 3'), "its first 2 lines are not those of checkpoint.pt"),
        (whole.replace("{", "", 1), "its first 2 lines are not those of checkpoint.pt"),
        (whole[:30], "has 1 lines, but checkpoint.pt beside it is of update 2"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"{METRICS}.* {says}") as refusal:
            resumed(tmp_path)
        assert str(refusal.value).count("\n") == 0
    path.write_text(whole + '{"torn')
    assert resumed(tmp_path) == (2, [2.0]) and path.read_text() == whole


def test_a_checkpoint_of_another_model_is_one_sentence(tmp_path):
    save_runs(tmp_path, (1,))
    run, _ = run_in(tmp_path, shape=(3, 1))
    with pytest.raises(ValueError, match=rf"{CHECKPOINT} does not fit this run: RuntimeError: .*size mismatch") as e:
        run.resume()
    assert str(e.value).count("\n") == 0 and len(str(e.value)) < 500


def test_torch_reads_a_checkpoint_too(tmp_path):
    save_runs(tmp_path, (1,))
    state = torch.load(tmp_path / CHECKPOINT, weights_only=True)
    assert state["update"] == 1 and state["model"]["weight"].tolist() == [[1.0, 1.0]]


def test_a_run_that_goes_on_from_the_one_before_ends_bit_for_bit_the_same(tmp_path):
    plan, (straight, cut, model) = recipe(4, 2, 120), (small_model(dropout=0.1) for _ in range(3))
    torch.manual_seed(7)
    expected = fit(straight, loader(4), plan, **SETTINGS)
    torch.manual_seed(7)
    fit(cut, loader(4), plan, folder=tmp_path, **SETTINGS)
    flip(tmp_path / CHECKPOINT, 99_999)
    with pytest.warns(UserWarning, match="The run goes on from"):
        records = fit(model, loader(4), plan, folder=tmp_path, **SETTINGS)
    assert stable(records) == stable(expected)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), straight.parameters(), strict=True))
    assert [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()] == records


def other_folders(rank, folder):
    run, _ = run_in(Path(folder) / str(rank))
    with pytest.raises(ValueError) as refusal:
        run.resume()
    return str(refusal.value)


def test_ranks_with_other_checkpoints_do_not_go_on(tmp_path):
    save_runs(tmp_path / "0", (1,))
    (tmp_path / "1").mkdir()
    for rank, said in enumerate(run_ranks(other_folders, 2, tmp_path)):
        assert said == f"The ranks find checkpoints of the updates [1, None] in {tmp_path / str(rank)}."


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
    assert sorted(os.listdir(tmp_path / "run")) == sorted([CHECKPOINT, PREVIOUS, METRICS])


def _enter(rank, folder):
    with pytest.raises(RankError, match=r"^Rank 0 of 2 raised BlockingIOError: Another run is writing to"):
        with RunFolder(folder, {}, None, {}).alone():
            pytest.fail("must not begin")
    with RunFolder(f"{folder}-too", {}, None, {}).alone():
        return sorted(os.listdir(f"{folder}-too")) if rank == 0 else None


def test_all_ranks_leave_together_where_another_run_has_the_folder(tmp_path):
    with RunFolder(tmp_path / "run", {}, None, {}).alone():
        assert run_ranks(_enter, 2, tmp_path / "run") == [[files.WORK], None]


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
        ("learning_rate", 0.01),
        ("optimizer", "adamw"),
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
