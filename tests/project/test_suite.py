"""The suite itself: it touches no network, not even where nobody notices, in a process or a notebook."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = '''
import socket, subprocess, sys
import nbformat, pytest
from sitecustomize import is_near

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

def test_in_a_notebook(tmp_path):
    from packbook.run.execution import run_in_place
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK)]), tmp_path / "a.ipynb")
    run_in_place(tmp_path / "a.ipynb")

def test_this_machine_may_be_asked():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert all(map(is_near, ("localhost", "127.8.0.1", "::1", b"localhost", None, "0.0.0.0", "", "a.localhost")))
    assert not any(map(is_near, ("192.0.2.1", "2001:db8::1", "localhost.packlib.invalid", "10.0.0.1")))
'''


def test_what_reaches_out_fails_though_it_hides_it(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "offline").symlink_to(ROOT / "tests" / "offline")
    (tmp_path / "test_one.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider"]  # no summary: CI repeats it all
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "3 failed, 1 passed" in said, said
    for way in ("socket.connect to '192.0.2.1'", "socket.sendto to '192.0.2.1'", "socket.getaddrinfo to 'packlib.inv"):
        assert said.count(way) == 3
