"""`audit` of a folder of packs as a whole, of a pattern, and of several files; beside several files of the source."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.tools.auditing import audit
from packlib.tools.cli import main


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, numbers in (("one", range(10)), ("two", range(10, 24))):
        ids = [[100 * n + at for at in range(2, 4 + n % 7)] for n in numbers]
        labels = [[-100, *row[1:]] for row in ids]
        (tmp_path / "source").mkdir(exist_ok=True)
        pq.write_table(pa.table({"input_ids": ids, "labels": labels}), tmp_path / "source" / f"{name}.parquet")
    command = ["pack", "source", "--max-length", "12", "--packs-per-file", "4", "--out", "packs", "--no-progress"]
    assert main(command) == 0
    capsys.readouterr()
    return tmp_path


def audited(*arguments):
    return main(["audit", *map(str, arguments), "--max-length", "12", "--no-progress"])


def test_a_folder_a_pattern_and_several_files_are_one_data_set(place):
    files = sorted(place.glob("packs/*.parquet"))
    assert len(files) > 2
    for packs in (["packs"], ["packs/*.parquet"], files):
        for source in (["source"], ["source/*.parquet"], ["source/one.parquet", "source/two.parquet"]):
            beside = [word for one in source for word in ("--source", one)]
            assert audited(*packs, *beside) == 0, (packs, source)
    found = audit("packs", "source", max_length=12)
    assert found.sequences == 24 and found.packs == sum(pq.read_metadata(file).num_rows for file in files)
    assert found.name == f"{len(files)} files, {files[0].relative_to(place)} to {files[-1].relative_to(place)}"
    assert audit([str(file) for file in files], ["source/two.parquet", "source/one.parquet"]).problems == ()


def test_a_file_that_is_missing_extra_or_there_twice_is_seen(place, capsys):
    first, second, *_ = sorted(place.glob("packs/*.parquet"))
    shutil.copy(first, place / "kept")
    shutil.copy(first, place / "packs" / "again.parquet")
    assert audited("packs", "--source", "source") == 1
    assert "pieces or repeats" in capsys.readouterr().out
    (place / "packs" / "again.parquet").unlink()
    first.unlink()
    assert audited("packs", "--source", "source") == 1
    assert "sequences not whole in any pack" in capsys.readouterr().out
    shutil.copy(place / "kept", first)
    assert audited("packs", "--source", "source") == 0
    assert audited("packs", "--source", "source/one.parquet") == 1  # the packs hold what this source has not
    assert audited(first, first, second, "--source", "source") == 1


def test_a_fault_names_its_file_and_the_row_there(place, capsys):
    last = sorted(place.glob("packs/*.parquet"))[-1]
    rows = pq.read_table(last).to_pylist()
    rows[1]["labels"][1] = -100
    pq.write_table(pa.Table.from_pylist(rows), last)
    assert audited("packs", "--source", "source") == 1
    assert f"position 1 of row 1 of packs/{last.name}:" in capsys.readouterr().out
    rows[1]["labels"] = rows[1]["labels"][:-1]
    pq.write_table(pa.Table.from_pylist(rows), last)
    assert audited("packs", "--source", "source") == 1
    said = f"labels has not as many numbers as input_ids, in 1 rows, the first of which is 1 of packs/{last.name}."
    assert said in capsys.readouterr().out
    rows[1]["seq_lengths"] = [99]
    pq.write_table(pa.Table.from_pylist(rows), last)
    assert audited("packs") == 2
    assert (
        f"{last.name} is no whole file of packs that can be audited: row 1 has more tokens" in capsys.readouterr().err
    )


def test_files_with_other_columns_and_other_kinds_are_refused(place, capsys):
    first = sorted(place.glob("packs/*.parquet"))[0]
    pq.write_table(pq.read_table(first).drop_columns("labels"), place / "packs" / "bare.parquet")
    assert audited("packs") == 2
    assert "packs/bare.parquet has no column labels, which packs/00000" in capsys.readouterr().err
    assert audited("source/one.parquet", "Makefile") == 2
    (place / "lengths.csv").write_text("3\n4\n")
    assert audited(first, "lengths.csv") == 2
    assert (
        "lengths.csv is no whole file of packs that can be audited: of several files, each is"
        in capsys.readouterr().err.splitlines()[-1]
    )
    assert audited(first, "--source", "source/one.parquet", "--source", "lengths.csv") == 2
    assert "lengths.csv is no whole file of sequences" in capsys.readouterr().err
    (place / "empty").mkdir()
    assert audited("empty") == 2
    assert "empty holds no .parquet" in capsys.readouterr().err
