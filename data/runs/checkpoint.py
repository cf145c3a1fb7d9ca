"""The folder of a run: metrics as JSON lines, and a checkpoint to go on from bit for bit.

A checkpoint is a file of torch's, a zip archive, whose checksums are compared before it is read.
"""

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import get_device_states, set_device_states

from packlib.arguments import one_line
from packlib.collectives import Collectives
from packlib.files import WORK, named, naming, room_for, work_folder, write_text

CHECKPOINT, METRICS = "checkpoint.pt", "metrics.jsonl"


class RunFolder:
    """Writes on rank 0, reads on every rank; with `folder=None` it keeps the records in memory only.

    Args:
        parts: what has the same state on every rank, by name: model, optimizer, schedule.
        own: what each rank has for itself: the stream of its data.
        setting: what must not change between the runs, by name.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, parts: dict, own: Any, setting: dict) -> None:
        self.folder = None if folder is None else Path(folder)
        self.parts, self.own, self.setting = parts, own, setting
        self.ranks = Collectives()
        self.records: list[dict] = []
        self.saved_update: int | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the folder for the block, and keep other runs out of it; every rank must call this.

        Two runs in one folder would mix their metrics, and overwrite each other's checkpoints.

        Raises:
            BlockingIOError: if another run has the folder; among several ranks RankError, on all of them.
        """
        with ExitStack() as stack:
            with self.ranks.agree_on_errors():
                if self.folder is not None and self.ranks.rank == 0:
                    stack.enter_context(work_folder(self.folder))
            yield

    def resume(self) -> None:
        """Load the checkpoint if there is one, and write the metrics as they were then.

        Raises:
            ValueError: if it is damaged, or of another setting, or the ranks find different ones.
        """
        if self.folder is None:
            return
        path = self.folder / CHECKPOINT
        state = _load(path) if path.exists() else None
        updates = self.ranks.gather_objects(state and len(state["records"]))
        if len(set(updates)) > 1:
            raise ValueError(f"The ranks find checkpoints of the updates {updates} in {named(self.folder)}.")
        if state:
            for name, value in self.setting.items():
                if (saved := state["setting"].get(name)) != value:
                    holds = f"{named(path)} holds a run with {name} {one_line(str(saved))}"
                    raise ValueError(f"{holds}; this one has {value}: take another folder.")
            try:
                own = state["ranks"][self.ranks.rank]
                for name, part in self.parts.items():
                    part.load_state_dict(state[name])
                self.own.load_state_dict(own["stream"])
                torch.set_rng_state(own["rng"])
                devices, _ = get_device_states(next(self.parts["model"].parameters()))
                set_device_states(devices, own["device_rng"])
            except Exception as error:  # torch has many kinds
                said = " ".join(f"{type(error).__name__}: {error}".split())
                raise ValueError(f"{named(path)} does not fit this run: {said[:300]}") from error
            self.records = state["records"]
            self.saved_update = len(self.records)
        if self.ranks.rank == 0:
            write_text(self.folder / METRICS, "".join(map(_line, self.records)))

    def record(self, metrics: dict) -> None:
        """Add the metrics of one update."""
        self.records.append(metrics)
        if self.folder is not None and self.ranks.rank == 0:
            path = self.folder / METRICS
            with room_for(path), open(path, "a", encoding="utf-8") as file:
                file.write(_line(metrics))

    def save(self) -> None:
        """Write a checkpoint of the last recorded update, whole or not at all. Every rank calls it within `alone`."""
        update = len(self.records)
        if self.folder is None or self.saved_update == update:
            return
        _, device_rng = get_device_states(next(self.parts["model"].parameters()))  # of a GPU; none for the CPU
        own = {"stream": self.own.state_dict(), "rng": torch.get_rng_state(), "device_rng": device_rng}
        ranks = self.ranks.gather_objects(own)
        if self.ranks.rank == 0:
            state = {name: part.state_dict() for name, part in self.parts.items()}
            records = json.loads(json.dumps(self.records))  # plain values, which torch reads back
            state |= {"records": records, "setting": self.setting, "ranks": ranks}
            part = self.folder / WORK / CHECKPOINT  # what a killed run left there is removed by the next
            with room_for(self.folder / CHECKPOINT):
                _write(state, part)
            part.replace(self.folder / CHECKPOINT)
        self.ranks.gather_objects(None)  # no rank goes on before the file is there
        self.saved_update = update

    def what_was_saved(self) -> str:
        """Return the checkpoint to go on from, in words."""
        if self.folder is None or self.saved_update is None:
            return "no checkpoint was saved"
        return f"the last checkpoint is {self.folder / CHECKPOINT}, of update {self.saved_update}"


def _line(metrics: dict) -> str:
    return json.dumps(metrics) + "\n"


def _write(state: dict, path: Path) -> None:
    """Write a checkpoint, and read it back, so that it takes no whole one's place if it is not."""
    with open(path, "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch closes its archive, and hides that the disk is full
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        file.flush()
        os.fsync(file.fileno())
    _load(path)


def _load(path: Path) -> dict:
    """Return the state in a checkpoint.

    Raises:
        FileNotFoundError, ValueError: if it is damaged, or holds something else, naming it.
    """
    with naming(path, "whole checkpoint"):
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()  # torch itself compares no checksum
            state = None if damaged else torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # pickle, zip and torch have many kinds
            raise ValueError(f"it is cut short or damaged ({' '.join(str(error).split())[:100]}).") from None
        if damaged:
            raise ValueError(f"the checksum of {one_line(damaged)} differs.")
        if not isinstance(state, dict) or not {"setting", "records", "ranks"} <= state.keys():
            raise ValueError("it holds no state of a run.")
        return state
