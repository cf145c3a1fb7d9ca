"""Ranks leave nothing behind."""

import os
import re
import tempfile

import pytest
import rank_work as work
from processes import all_end

from packlib.distributed import run_ranks


@pytest.fixture
def nothing_stays(tmp_path, monkeypatch, capfd):
    """After the test no process that printed its pid is left, and no file in the temporary folders."""
    run_ranks(work.introduce, 1, "warm up")  # the server makes a folder of its own
    capfd.readouterr()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    out = []
    yield lambda: out.append(capfd.readouterr()) or out[-1]
    text = "".join(part.out for part in [*out, capfd.readouterr()])
    pids = re.findall(r"pid (\d+)", text)
    assert all_end(pids) and list(tmp_path.iterdir()) == []
    assert not [name for name in os.listdir("/dev/shm") if set(re.findall(r"\d+", name)) & set(pids)]
