"""The page of recorded runs: every file has its part, and each arm the ends that its file holds."""

import csv
import statistics

import pytest

from packlib.lengths import data_path
from packlib.workbook.website.recorded_page import records_page


def test_each_file_has_a_part_with_its_command_and_the_ends_of_its_arms():
    parts = dict(part.split("\n", 1) for part in records_page().split("\n## ")[1:])
    files = sorted(data_path("runs", "baselines.csv").parent.glob("*.csv"))
    assert list(parts) == [path.stem for path in files]
    for path in files:
        command, _, *table = path.read_text().splitlines()
        assert command.removeprefix("# ") in parts[path.stem]
        rows, ends = list(csv.DictReader(table)), {}
        measure = next((name for name in ("held_out_loss", "accuracy") if name in rows[0]), None)
        for row in rows:
            name = row.get("arm") or f"{row.get('rows')} | {row.get('start')}"
            if measure:
                ends.setdefault(name, {})[row["seed"]] = float(row[measure])
            else:
                assert all(value in parts[path.stem] for value in row.values())
        lines = [line.strip("| ").split(" | ") for line in parts[path.stem].splitlines() if line.startswith("|")]
        for name, seeds in ends.items():
            (found,) = [line[-4:] for line in lines if " | ".join(line[:-4]) == name]
            expected = [len(seeds), statistics.fmean(seeds.values()), min(seeds.values()), max(seeds.values())]
            assert [float(end) for end in found] == pytest.approx(expected, abs=0.00051), name
