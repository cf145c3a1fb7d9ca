"""The suite itself: it touches no network, not even where nobody notices, and runs in any order."""

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


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("localhost", True), ("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), (b"localhost", True),
        (None, True), ("0.0.0.0", True), ("", True), ("a.localhost", True),
        ("192.0.2.1", False), ("2001:db8::1", False),
        ("packlib.invalid", False), ("localhost.packlib.invalid", False), ("10.0.0.1", False),
    ],
)  # fmt: skip
def test_what_is_near(host, near):
    assert is_near(host) is near


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
import pytest

@pytest.mark.parametrize("i", range(20))
def test_order(i):
    print("\\nran", __name__, i)

def test_swallows():
    with suppress(OSError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
"""


def test_what_reaches_out_fails_though_it_hides_it_and_order_is_drawn(tmp_path):
    settings = (ROOT / "conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(settings)
    (tmp_path / "tests").mkdir()
    for name in ("offline", "kernels.py"):
        (tmp_path / "tests" / name).symlink_to(ROOT / "tests" / name)
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--shuffle", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "2 failed, 40 passed" in done.stdout
    assert done.stdout.count("The network was touched: socket.connect to '192.0.2.1'") >= 2
    order = [line for line in done.stdout.splitlines() if line.startswith("ran test")]
    assert len(set(order)) == 40 and order != sorted(order, key=lambda line: (line.split()[1], line))
    assert len({line.split()[1] for line in order[:20]}) == 1, "the tests of a file stay together"
