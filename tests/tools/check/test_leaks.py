"""The table of trainers that leak is what the check answers of the packages that are installed."""

from importlib.metadata import version

import pytest

from benchmarks import bench_leaks
from packbook.records import recorded

ROWS = {(row["library"], row["set-up"]): row for row in recorded("leaks").rows}


def test_every_set_up_has_a_row_of_the_pinned_version():
    assert ROWS.keys() == bench_leaks.SET_UPS.keys()
    assert {row["version"] for (library, _), row in ROWS.items() if library != "packlib"} == {
        version(name) for name in ("transformers", "trl", "accelerate")
    }
    assert {row["exact"] for row in ROWS.values()} == {"yes", "no"}


@pytest.mark.slow
@pytest.mark.parametrize("library", ["transformers", "trl", "accelerate", "packlib"])
def test_the_check_answers_what_was_recorded(library, monkeypatch):
    some = {which: make for which, make in bench_leaks.SET_UPS.items() if which[0] == library}
    monkeypatch.setattr(bench_leaks, "SET_UPS", some)
    for row in bench_leaks.checks():
        assert row | {"date": ""} == ROWS[library, row["set-up"]] | {"date": ""}
