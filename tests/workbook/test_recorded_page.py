"""The page of recorded runs: every file has its part, and each arm the ends that its file holds."""

import statistics

import pytest

from packlib.lengths import data_path
from packlib.workbook.records import recorded
from packlib.workbook.website.recorded_page import records_page

PARTS = dict(part.split("\n", 1) for part in records_page().split("\n## ")[1:])


def test_each_file_has_a_part():
    assert list(PARTS) == [path.stem for path in sorted(data_path("runs").glob("*.csv"))]


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_the_command_and_the_ends_of_the_arms(name):
    table, ends = recorded(name, "runs"), {}
    assert table.command in PARTS[name]
    measure = next((column for column in ("held_out_loss", "accuracy") if column in table.rows[0]), None)
    for row in table.rows if measure else ():
        arm = row.get("arm") or f"{row.get('rows')} | {row.get('start')}"
        ends.setdefault(arm, {})[row["seed"]] = row[measure]
    assert measure or all(str(value) in PARTS[name] for row in table.rows for value in row.values())
    lines = [line.strip("| ").split(" | ") for line in PARTS[name].splitlines() if line.startswith("|")]
    for arm, seeds in ends.items():
        (found,) = [line[-4:] for line in lines if " | ".join(line[:-4]) == str(arm)]
        expected = [len(seeds), statistics.fmean(seeds.values()), min(seeds.values()), max(seeds.values())]
        assert [float(end) for end in found] == pytest.approx(expected, abs=0.00051)
