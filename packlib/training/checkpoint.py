"""The folder of a run: metrics as JSON lines, and the last two checkpoints, to go on from bit for bit.

A checkpoint is a file of torch's, which `torch.load` reads too, and behind it a line with the format's number and the
SHA-256 of all before that line.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import get_device_states, set_device_states

from packlib.distributed.collectives import Collectives
from packlib.files import atomic_path, room_for, work_folder, write_text
from packlib.markup import one_line
from packlib.reading import named, naming

CHECKPOINT, PREVIOUS, METRICS = "checkpoint.pt", "checkpoint.previous.pt", "metrics.jsonl"
_SEAL = b"\npacklib checkpoint 2, SHA-256 "


class RunFolder:
    """Writes on rank 0, reads on every rank; with `folder=None` it keeps the records in memory only.

    Args:
        parts: what has the same state on every rank, by name: model, optimizer, schedule.
        own: what each rank has for itself: the stream of its data.
        setting: what must not change between the runs, by name.
    """

    def __init__(self, folder: str | os.PathLike | None, parts: dict, own: Any, setting: dict) -> None:
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
        """Load the newest whole checkpoint if there is one, and cut the metrics back to its update.

        A damaged checkpoint gives way to the one before it, with a warning: the run ends the same, only later.

        Raises:
            ValueError: if no checkpoint is whole, or it is of another setting, or the metrics are not its own.
        """
        if self.folder is None:
            return
        path, state = self._newest(self.folder)
        if path and state:
            for name, value in self.setting.items():
                if (saved := state["setting"].get(name)) != value:
                    holds = f"{named(path)} holds a run with {name} {one_line(str(saved))}"
                    raise ValueError(f"{holds}; this one has {value}: take another folder.")
            self.records = _read_metrics(self.folder / METRICS, state["update"], state["metrics"])
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
            self.saved_update = state["update"]
        if self.ranks.rank == 0:
            if path == self.folder / PREVIOUS:
                path.replace(self.folder / CHECKPOINT)
            write_text(self.folder / METRICS, "".join(map(_line, self.records)))

    def _newest(self, folder: Path) -> tuple[Path | None, dict | None]:
        """The newest checkpoint that is whole, the same on all ranks; None if there is no checkpoint."""
        path, state, refusals = None, None, []
        for path in filter(Path.exists, (folder / CHECKPOINT, folder / PREVIOUS)):
            try:
                state = _load(path)
                break
            except ValueError as error:
                refusals.append(str(error))
        if path and state is None:
            raise ValueError(" ".join(refusals))
        if refusals and path and state and self.ranks.rank == 0:
            said = f"{refusals[0]} The run goes on from {named(path)}, of update {state['update']}."
            warnings.warn(said, stacklevel=4)
        updates = self.ranks.gather_objects(state and state["update"])
        if len(set(updates)) > 1:
            raise ValueError(f"The ranks find checkpoints of the updates {updates} in {named(folder)}.")
        return path, state

    def record(self, metrics: dict) -> None:
        """Add the metrics of one update."""
        self.records.append(metrics)
        if self.folder is not None and self.ranks.rank == 0:
            path = self.folder / METRICS
            with room_for(path), open(path, "a", encoding="utf-8") as file:
                file.write(_line(metrics))

    def save(self) -> None:
        """Write a checkpoint of the last recorded update, whole or not at all; every rank must call this.

        The one before it stays until this one has been read back, and then beside it.
        """
        update = len(self.records)
        if self.folder is None or self.saved_update == update:
            return
        _, device_rng = get_device_states(next(self.parts["model"].parameters()))  # of a GPU; none for the CPU
        own = {"stream": self.own.state_dict(), "rng": torch.get_rng_state(), "device_rng": device_rng}
        ranks = self.ranks.gather_objects(own)
        if self.ranks.rank == 0:
            state = {name: part.state_dict() for name, part in self.parts.items()}
            state |= {"update": update, "setting": self.setting, "ranks": ranks}
            state["metrics"] = hashlib.sha256("".join(map(_line, self.records)).encode()).hexdigest()
            newest = self.folder / CHECKPOINT
            with atomic_path(newest) as beside:
                _write(state, beside)
                if newest.exists():
                    newest.replace(self.folder / PREVIOUS)
        self.ranks.gather_objects(None)  # no rank goes on before the file is there
        self.saved_update = update

    def what_was_saved(self) -> str:
        """The checkpoint to go on from, in words."""
        if self.folder is None or self.saved_update is None:
            return "no checkpoint was saved"
        return f"the last checkpoint is {self.folder / CHECKPOINT}, of update {self.saved_update}"


def _line(metrics: dict) -> str:
    return json.dumps(metrics) + "\n"


def _write(state: dict, path: Path) -> None:
    """Write a checkpoint, and read it back."""
    with open(path, "w+b") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch closes its archive, and hides that the disk is full
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        file.seek(0)
        seen = hashlib.file_digest(file, "sha256")
        file.write(_SEAL + seen.hexdigest().encode())
        file.flush()
        os.fsync(file.fileno())
    _load(path, mmap=True)


def _load(path: Path, **options: Any) -> dict:
    """The state in a checkpoint; `options` are those of `torch.load`.

    Raises:
        FileNotFoundError, ValueError: if it is damaged, or of another version, naming it.
    """
    with naming(path, "whole checkpoint"):
        with open(path, "rb") as file:
            seen, left = hashlib.sha256(), max(0, path.stat().st_size - len(_SEAL) - 64)
            while block := file.read(min(1 << 20, left)):
                seen.update(block)
                left -= len(block)
            seal = file.read()
        if not seal.startswith(_SEAL):
            raise ValueError("it does not end with a checksum, so it was cut short.")
        if seal != _SEAL + seen.hexdigest().encode():
            raise ValueError("the checksum differs.")
        try:
            state = torch.load(path, map_location="cpu", weights_only=True, **options)
        except Exception as error:  # pickle, zip and torch have many kinds
            raise ValueError(f"torch cannot load it ({type(error).__name__}).") from None
        kinds = {"setting": dict, "update": int, "metrics": str, "ranks": list}
        if not isinstance(state, dict) or not all(isinstance(state.get(n), k) for n, k in kinds.items()):
            raise ValueError("it holds no state of a run.")
        return state


def _read_metrics(path: Path, updates: int, digest: str) -> list[dict]:
    """The first `updates` lines; what follows them, a torn line too, was written after the checkpoint."""
    lines = path.read_bytes().splitlines(keepends=True)[:updates] if path.is_file() else []
    name = named(path)
    if len(lines) < updates:
        raise ValueError(f"{name} has {len(lines)} lines, but {CHECKPOINT} beside it is of update {updates}.")
    if hashlib.sha256(b"".join(lines)).hexdigest() != digest:
        raise ValueError(f"{name} was changed: its first {updates} lines are not those of {CHECKPOINT} beside it.")
    return [json.loads(line) for line in lines]
