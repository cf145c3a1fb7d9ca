"""What was measured and stored can be read, and says where it is from."""

import pytest

from packlib.advisor.recordings import FOLDERS, recorded
from packlib.lengths import data_path

STORED = [(folder, path.stem) for folder in FOLDERS for path in sorted(data_path(folder).glob("*.csv"))]


@pytest.mark.parametrize(("folder", "name"), STORED, ids="/".join)
def test_all_that_is_stored_reads_as_rows_and_says_what_it_was_measured_on(folder, name, capsys):
    rows = recorded(name, folder)
    assert rows and all(row.keys() == rows[0].keys() and None not in row.values() for row in rows)
    assert any(isinstance(value, int | float) for value in rows[0].values())
    said = capsys.readouterr().out
    assert said.startswith("Recorded with python -m tests.") and " on " in said and "Python 3." in said


def test_runs_are_curves_of_arms_and_seeds():
    rows = recorded("curves", "runs")
    assert {"arm", "seed", "sequences"} <= rows[0].keys()
    assert {row["seed"] for row in rows} == {0, 1, 2}


def test_numbers_become_numbers(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.csv").write_text("# make it\n# a desk\nname,n,x\na,3,\nb,4,0.5\n")
    monkeypatch.setattr("packlib.advisor.recordings.data_path", lambda folder, file: tmp_path / file)
    assert recorded("mine", "runs") == [{"name": "a", "n": 3, "x": ""}, {"name": "b", "n": 4, "x": 0.5}]
    assert capsys.readouterr().out == "Recorded with make it on a desk\n"


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'walks'"):
        recorded("curves", "walks")
    with pytest.raises(FileNotFoundError, match=r"no-such\.csv"):
        recorded("no-such", "runs")
