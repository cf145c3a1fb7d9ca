"""Tables that were measured once and stored, with the command and the device."""

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
        rows: a dict for each row, by column; numbers are Python's numbers.
        command: the command that measures it again.
        device: the machine that it was measured on, and the versions of packages.
    """

    rows: list[dict[str, Any]]
    command: str
    device: str

    @property
    def source(self) -> str:
        """Return the command and the device in words."""
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
    """Return a cell as a number, or as it is if it is none."""
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            pass
    return text
