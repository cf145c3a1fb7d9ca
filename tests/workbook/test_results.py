"""What a notebook leaves for others: results that can be compared, and files, under a run alone."""

import numpy as np
import pytest

from packlib.workbook.results import RESULTS_FOLDER, keep, result


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
