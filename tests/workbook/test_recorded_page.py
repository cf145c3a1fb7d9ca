"""The page of recorded runs: every file has its part, and each arm the ends that its file holds."""

import csv
import statistics

import pytest

from packlib.lengths import data_path
from packlib.workbook.website.recorded_page import records_page

FILES = sorted(data_path("runs", "baselines.csv").parent.glob("*.csv"))


@pytest.fixture(scope="module")
def parts():
    return dict(part.split("\n", 1) for part in records_page().split("\n## ")[1:])


def test_each_file_has_a_part_that_says_how_it_was_recorded(parts):
    assert list(parts) == [path.stem for path in FILES]
    for path in FILES:
        command = path.read_text().splitlines()[0].removeprefix("# ")
        assert command in parts[path.stem]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_ends_are_those_of_the_file(parts, path):
    rows = list(csv.DictReader(path.read_text().splitlines()[2:]))
    measure = "held_out_loss" if "held_out_loss" in rows[0] else "accuracy" if "accuracy" in rows[0] else None
    found = {}
    for row in rows:
        name = row.get("arm") or f"{row.get('rows')} | {row.get('start')}"
        if measure:
            found.setdefault(name, {})[row["seed"]] = float(row[measure])
    lines = [line.strip("| ").split(" | ") for line in parts[path.stem].splitlines() if line.startswith("|")]
    for name, seeds in found.items():
        (ends,) = [line[-4:] for line in lines if " | ".join(line[:-4]) == name]
        expected = [len(seeds), statistics.fmean(seeds.values()), min(seeds.values()), max(seeds.values())]
        assert [float(end) for end in ends] == pytest.approx(expected, abs=0.00051)
    if not measure:
        assert all(all(value in parts[path.stem] for value in row.values()) for row in rows)
