"""What was measured and stored can be read, and says where it is from."""

import pytest

from packlib.lengths import data_path
from packlib.workbook.records import FOLDERS, recorded

STORED = [(folder, path.stem) for folder in FOLDERS for path in sorted(data_path(folder).glob("*.csv"))]


@pytest.mark.parametrize(("folder", "name"), STORED, ids="/".join)
def test_all_that_is_stored_reads_as_rows_and_says_what_it_was_measured_on(folder, name, capsys):
    table = recorded(name, folder)
    rows = table.rows
    assert rows and all(row.keys() == rows[0].keys() and None not in row.values() for row in rows)
    assert any(isinstance(value, int | float) for value in rows[0].values())
    assert table.command.startswith("python -m tests.") and "Python 3." in table.device
    assert table.source == f"Recorded with {table.command} on {table.device}"
    assert not capsys.readouterr().out, "the caller shows it, or does not"


def test_numbers_become_numbers(tmp_path, monkeypatch):
    (tmp_path / "mine.csv").write_text("# make it\n# a desk\nname,n,x\na,3,\nb,4,0.5\n")
    monkeypatch.setattr("packlib.workbook.records.data_path", lambda folder, file: tmp_path / file)
    table = recorded("mine", "runs")
    assert table.rows == [{"name": "a", "n": 3, "x": ""}, {"name": "b", "n": 4, "x": 0.5}]
    assert table.source == "Recorded with make it on a desk"


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'walks'"):
        recorded("curves-lamb", "walks")
    with pytest.raises(FileNotFoundError, match=r"no-such\.csv"):
        recorded("no-such", "runs")
