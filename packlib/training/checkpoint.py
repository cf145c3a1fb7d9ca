"""The folder of a run: metrics as JSON lines, and one checkpoint to go on from bit for bit."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

from packlib.files import atomic_path
from packlib.training.recipe import Recipe

CHECKPOINT, METRICS = "checkpoint.pt", "metrics.jsonl"


class RunFolder:
    """Writes on rank 0, reads on every rank; with `folder=None` it keeps the records in memory only.

    Args:
        parts: what has the same state on every rank, by name: model, optimizer, schedule.
        own: what each rank has for itself: the stream of its data.
        setting: what must not change between the runs, by name.
    """

    def __init__(self, folder: str | os.PathLike | None, parts: dict, own, setting: dict):
        self.folder = None if folder is None else Path(folder)
        self.parts, self.own, self.setting = parts, own, setting
        self.grouped = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if self.grouped else 0
        self.records: list[dict] = []
        self.saved_update: int | None = None

    def resume(self) -> None:
        """Load the checkpoint if there is one, and cut the metrics back to its update.

        Raises:
            ValueError: if the checkpoint is of another setting, or its metrics are gone.
        """
        if self.folder is None:
            return
        device = next(self.parts["model"].parameters()).device
        if (self.folder / CHECKPOINT).is_file():
            state = torch.load(self.folder / CHECKPOINT, map_location="cpu", weights_only=True)
            _refuse_other_setting(self.folder, state["setting"], self.setting)
            self.records = _read_metrics(self.folder / METRICS, state["update"])
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
            own = state["ranks"][self.rank]
            self.own.load_state_dict(own["stream"])
            torch.set_rng_state(own["rng"])
            if device.type == "cuda":
                torch.cuda.set_rng_state(own["cuda_rng"], device)
            self.saved_update = state["update"]
        if self.rank == 0:
            with atomic_path(self.folder / METRICS) as beside:
                beside.write_text("".join(map(_line, self.records)), encoding="utf-8")

    def record(self, metrics: dict) -> None:
        """Add the metrics of one update."""
        self.records.append(metrics)
        if self.folder is not None and self.rank == 0:
            with open(self.folder / METRICS, "a", encoding="utf-8") as file:
                file.write(_line(metrics))

    def save(self) -> None:
        """Write a checkpoint of the last recorded update, whole or not at all; every rank must call this."""
        update = len(self.records)
        if self.folder is None or self.saved_update == update:
            return
        device = next(self.parts["model"].parameters()).device
        own = {"stream": self.own.state_dict(), "rng": torch.get_rng_state()}
        if device.type == "cuda":
            own["cuda_rng"] = torch.cuda.get_rng_state(device)
        ranks = [own]
        if self.grouped:
            ranks = [None] * dist.get_world_size()
            dist.all_gather_object(ranks, own)
        if self.rank == 0:
            state = {name: part.state_dict() for name, part in self.parts.items()}
            state |= {"update": update, "setting": self.setting, "ranks": ranks}
            with atomic_path(self.folder / CHECKPOINT) as beside:
                torch.save(state, beside)
        if self.grouped:
            dist.barrier()  # no rank goes on before the file is there
        self.saved_update = update

    def what_was_saved(self) -> str:
        """The checkpoint to go on from, in words."""
        if self.saved_update is None:
            return "no checkpoint was saved"
        return f"the last checkpoint is {self.folder / CHECKPOINT}, of update {self.saved_update}"


def setting_of(recipe: Recipe, **more) -> dict:
    """What a run depends on, as plain values that a checkpoint can hold."""
    return {**asdict(recipe), "betas": list(recipe.betas), **more}


def _line(metrics: dict) -> str:
    return json.dumps(metrics) + "\n"


def _read_metrics(path: Path, updates: int) -> list[dict]:
    """The first `updates` lines; what follows them, a torn line too, was written after the checkpoint."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if len(lines) < updates:
        raise ValueError(
            f"{path} has {len(lines)} lines, but the checkpoint beside it is of update {updates}."
        )
    return [json.loads(line) for line in lines[:updates]]


def _refuse_other_setting(folder: Path, saved: dict, now: dict) -> None:
    for name, value in now.items():
        if saved.get(name) != value:
            raise ValueError(
                f"{folder} holds a run with {name} {saved.get(name)}; this one has {value}: take another folder."
            )
