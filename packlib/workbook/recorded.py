"""Results that were measured once and stored: shown as recorded, with where and how."""

import csv

from packlib.lengths import data_path


def recorded(name: str) -> list[dict[str, str | int | float]]:
    """The rows of `data/benchmarks/<name>.csv`, numbers as numbers; prints what it was measured on, and how.

    Raises:
        FileNotFoundError: if nothing was recorded under this name; the benchmark's command makes it.
    """
    command, device, *lines = data_path("benchmarks", f"{name}.csv").read_text(encoding="utf-8").splitlines()
    print(f"Recorded with {command.lstrip('# ')} on {device.lstrip('# ')}")
    return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
