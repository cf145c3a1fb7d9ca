"""Results that were measured once and stored, with where and how."""

import csv
from dataclasses import dataclass
from typing import Any

from packlib.arguments import one_of
from packlib.lengths import data_path

FOLDERS = ("benchmarks", "runs")


@dataclass(frozen=True)
class Recorded:
    """A table that was measured once.

    Attributes:
        rows: its rows by column, numbers as numbers.
        command: what measures it again.
        device: what it was measured on, and with which versions.
    """

    rows: list[dict[str, Any]]
    command: str
    device: str

    @property
    def source(self) -> str:
        """The command and the device in words."""
        return f"Recorded with {self.command} on {self.device}"


def recorded(name: str, folder: str = "benchmarks") -> Recorded:
    """Read the table `data/<folder>/<name>.csv`.

    Args:
        folder: "benchmarks" for times, "runs" for the learning curves of the experiments.

    Raises:
        FileNotFoundError: if nothing was recorded under this name; the command of its kind makes it.
    """
    path = data_path(one_of("folder", folder, FOLDERS), f"{name}.csv")
    command, device, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(lines)]
    return Recorded(rows, command.lstrip("# "), device.lstrip("# "))


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
