"""What was measured and stored can be read and stands on its page; results and files that a notebook leaves."""

import re
import statistics

import numpy as np
import pytest

from packbook.publish.records import PAGE, records_page
from packbook.records import FOLDERS, recorded
from packbook.results import RESULTS_FOLDER, keep, result
from packbook.run.running import NOTEBOOKS
from packlib.lengths import data_path

STORED = [(folder, path.stem) for folder in FOLDERS for path in sorted(data_path(folder).glob("*.csv"))]


@pytest.mark.parametrize(("folder", "name"), STORED, ids="/".join)
def test_all_that_is_stored_reads_as_rows_and_says_what_it_was_measured_on(folder, name, capsys):
    table = recorded(name, folder)
    rows = table.rows
    assert rows and all(row.keys() == rows[0].keys() and None not in row.values() for row in rows)
    if name != "leaks":  # what a check answered, in words
        assert any(isinstance(value, int | float) for value in rows[0].values())
    assert table.command.startswith("python data/record.py ") and "Python 3." in table.device
    assert table.source == f"Recorded with {table.command} on {table.device}"
    assert not capsys.readouterr().out, "the caller shows it, or does not"


def test_numbers_become_numbers(tmp_path, monkeypatch):
    (tmp_path / "mine.csv").write_text("# make it\n# a desk\nname,n,x\na,3,\nb,4,0.5\n")
    monkeypatch.setattr("packbook.records.data_path", lambda folder, file: tmp_path / file)
    table = recorded("mine", "runs")
    assert table.rows == [{"name": "a", "n": 3, "x": ""}, {"name": "b", "n": 4, "x": 0.5}]
    assert table.source == "Recorded with make it on a desk"


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'walks'"):
        recorded("curves-lamb", "walks")
    with pytest.raises(FileNotFoundError, match=r"no-such\.csv"):
        recorded("no-such", "runs")


PARTS = dict(part.split("\n", 1) for part in records_page().split("\n### ")[1:])


def test_the_page_is_what_its_command_makes():
    assert (NOTEBOOKS / PAGE).read_text(encoding="utf-8") == records_page(), "run python -m packbook.publish.records"
    assert not re.search(r"\| \d{4,} \|", records_page()), "a number without a comma before its thousands"


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
    values = [value for row in table.rows for value in row.values()]
    written = [f"{value:,}" if isinstance(value, int) else str(value) for value in values]
    assert measure or all(value in PARTS[name] for value in written)
    lines = [line.strip("| ").split(" | ") for line in PARTS[name].splitlines() if line.startswith("|")]
    for arm, seeds in ends.items():
        (found,) = [line[-4:] for line in lines if " | ".join(line[:-4]) == str(arm)]
        expected = [len(seeds), statistics.fmean(seeds.values()), min(seeds.values()), max(seeds.values())]
        assert [float(end) for end in found] == pytest.approx(expected, abs=0.00051)


def test_only_numbers_words_and_none_are_results():
    with pytest.raises(TypeError, match="must be a number, a text or None, not list"):
        result("depths", [1, 2])
    with pytest.raises(ValueError, match="must be finite, not nan"):
        result("gap", float("nan"))
    result("packs", np.int64(3))


def test_files_are_kept_only_under_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep("a.json", "{}")
    monkeypatch.setenv(RESULTS_FOLDER, str(tmp_path / "out"))
    keep("b.json", "{}")
    assert [path.name for path in tmp_path.rglob("*.json")] == ["b.json"]
