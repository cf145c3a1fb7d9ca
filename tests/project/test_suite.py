"""The suite itself: it touches no network, not even where nobody notices."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from sitecustomize import LOG, is_near

from packlib.workbook.execution import run_in_place

ROOT = Path(__file__).parents[2]
SWALLOWED = """
import socket
for ask in (
    lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"?", ("192.0.2.1", 53)),
    lambda: socket.getaddrinfo("packlib.invalid", 443),
):
    try:
        ask()
    except PermissionError:
        pass
"""
SAID = ["socket.connect to '192.0.2.1'", "socket.sendto to '192.0.2.1'", "socket.getaddrinfo to 'packlib.invalid'"]


def test_what_is_near():
    assert all(map(is_near, ("localhost", "127.8.0.1", "::1", b"localhost", None, "0.0.0.0", "", "a.localhost")))
    assert not any(map(is_near, ("192.0.2.1", "2001:db8::1", "localhost.packlib.invalid", "10.0.0.1")))


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Where the network is noted in this test, which touches it on purpose."""
    monkeypatch.setenv(LOG, str(tmp_path / "network"))
    yield lambda: (tmp_path / "network").read_text().splitlines()


def test_processes_and_kernels_cannot_reach_out(log, tmp_path):
    subprocess.run([sys.executable, "-c", SWALLOWED], check=True)
    assert [line.partition(" by ")[0] for line in log()] == SAID
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SWALLOWED)]), tmp_path / "a.ipynb")
    run_in_place(tmp_path / "a.ipynb")
    assert [line.partition(" by ")[0] for line in log()] == SAID * 2


SUITE = """
import socket
from contextlib import suppress

def test_swallows():
    with suppress(OSError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
"""


def test_what_reaches_out_fails_though_it_hides_it(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "offline").symlink_to(ROOT / "tests" / "offline")
    (tmp_path / "test_one.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed" in done.stdout and "The network was touched: socket.connect to '192.0.2.1'" in done.stdout
