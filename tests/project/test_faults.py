"""The harness of deliberate faults: it sees what is caught, missed and stale, and leaves the project as it was."""

from collections import Counter

import faults
import pytest

ROOMS = ("lengths", "packing", "batches", "model", "distributed", "training", "workbook")


def test_the_table_covers_every_room_and_every_fault_can_be_made():
    table = faults.table()
    rooms = Counter(fault.room for fault in table)
    assert len(table) >= 40 and all(rooms[room] >= 4 for room in ROOMS), rooms
    for fault in table:
        text = (faults.ROOT / fault.path).read_text(encoding="utf-8")
        assert faults.broken(text, fault) != text
        compile(faults.broken(text, fault), fault.path, "exec")
        for name in fault.tests.split():
            file, _, test = name.partition("::")
            where = (faults.ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def {test.partition('[')[0]}(" in where, name


def test_a_text_that_is_gone_or_there_twice_is_stale():
    for text in ("x = 2", "x = 1; x = 1"):
        with pytest.raises(faults.StaleError, match=r"a\.py has the text 'x = 1' [02] times"):
            faults.broken(text, faults.Fault("a.py", "x = 1", "x = 3", ""))


def test_what_is_caught_missed_and_broken_is_told_apart_and_taken_back(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "half.py").write_text("def half(n):\n    return n // 2\n")
    (tmp_path / "tests/test_half.py").write_text("import half\n\n\ndef test_four():\n    assert half.half(4) == 2\n")
    for new, test, answer in (
        ("n // 4", "test_half.py", "caught"),
        ("n / 2", "test_half.py", "MISSED"),
        ("n // 4", "test_half.py::test_five", "ERROR: pytest ended with 4"),
    ):
        assert faults.try_fault(tmp_path, faults.Fault("half.py", "n // 2", new, test)) == answer
        assert "n // 2" in (tmp_path / "half.py").read_text()
    assert faults.try_fault(tmp_path, faults.Fault("half.py", "n // 3", "n", "test_half.py")).startswith(
        "STALE: half.py"
    )
