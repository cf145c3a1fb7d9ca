"""The suite itself: it touches no network, not even where nobody notices, nor in a process that it starts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = '''
import subprocess, sys

ASK = """
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

def test_here():
    exec(ASK, {})

def test_in_a_process():
    subprocess.run([sys.executable, "-c", ASK], check=True)
'''


def test_what_reaches_out_fails_though_it_hides_it(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "offline").symlink_to(ROOT / "tests" / "offline")
    (tmp_path / "test_one.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider"]  # no summary: CI repeats it all
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    for way in ("socket.connect to '192.0.2.1'", "socket.sendto to '192.0.2.1'", "socket.getaddrinfo to 'packlib.inv"):
        assert said.count(way) == 2, said
