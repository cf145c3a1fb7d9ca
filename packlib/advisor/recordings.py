"""Results that were measured once and stored: shown as recorded, with where and how."""

import csv
from typing import Any

from packlib.checks import one_of
from packlib.lengths import data_path

FOLDERS = ("benchmarks", "runs")


def recorded(name: str, folder: str = "benchmarks") -> list[dict[str, Any]]:
    """The rows of `data/<folder>/<name>.csv`, numbers as numbers; prints what it was measured on, and how.

    Args:
        folder: "benchmarks" for times, "runs" for the learning curves of the experiments.

    Raises:
        FileNotFoundError: if nothing was recorded under this name; the command of its kind makes it.
    """
    path = data_path(one_of("folder", folder, FOLDERS), f"{name}.csv")
    command, device, *lines = path.read_text(encoding="utf-8").splitlines()
    print(f"Recorded with {command.lstrip('# ')} on {device.lstrip('# ')}")
    return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
