"""A loader that hangs where no signal reaches it, or that ends its process, ends the command in one sentence."""

import os
import signal
import subprocess
import sys
import time

import pytest

from packlib.tools import watched
from packlib.tools.cli import main

_FILE = """
import collections, ctypes, itertools, os, signal
from torch.utils.data import DataLoader

rows = [{"input_ids": [n, n + 1, n + 2]} for n in range(24)]


def hold_the_interpreter():
    collections.deque(itertools.repeat(None), maxlen=0)  # for ever, in C, without a look at signals


def wait_in_c():
    lock, libc = (ctypes.c_char * 64)(), ctypes.CDLL(None)  # which leaves the interpreter to other threads
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)


def at_the_third_batch(act):
    def make(rank, ranks, epoch):
        for at in range(0, 24, 4):
            if at == 8:
                act()
            yield rows[at : at + 4]

    return make


held = at_the_third_batch(hold_the_interpreter)
waits = at_the_third_batch(wait_in_c)
dies = at_the_third_batch(lambda: os.kill(os.getpid(), signal.SIGSEGV))
leaves = at_the_third_batch(lambda: os._exit(7))


class Data:
    def __len__(self):
        return 24

    def __getitem__(self, at):
        if at == 9:
            hold_the_interpreter()
        return rows[at]


def worker(rank, ranks, epoch):
    return DataLoader(Data(), 4, num_workers=2, collate_fn=list)
"""
BATCH = "the batch at step 2 of make(0, 1, 0)"
STUCK = f"packlib: {BATCH} did not come within 1 seconds and could not be interrupted: compiled code hangs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_data.py").write_text(_FILE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("held", STUCK),
        pytest.param("waits", STUCK, marks=pytest.mark.slow),
        ("dies", f"packlib: The process of the loader was ended by SIGSEGV while it waited for this: {BATCH}."),
        pytest.param(
            "leaves",
            f"packlib: The process of the loader left with exit code 7 while it waited for this: {BATCH}.",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "worker", "packlib: the batch at step",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_the_command_ends_in_a_sentence(name, said, folder, monkeypatch, capsys):
    monkeypatch.setattr(watched, "GRACE", 1.0)
    assert main(["check", "--loader", f"my_data.py:{name}", "--time-limit", "1"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(said) and err.count("\n") == 1 and not out


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_process_of_the_loader_too(number, code, folder):
    begun = folder / "begun"
    writes = f"    open({str(begun)!r}, 'w').write(str(os.getpid()))\n"
    (folder / "my_data.py").write_text(_FILE.replace("    collections.deque", f"{writes}    collections.deque"))
    run = subprocess.Popen(
        [sys.executable, "-m", "packlib", "check", "--loader", "my_data.py:held"], stderr=subprocess.PIPE, text=True
    )
    while not (begun.exists() and begun.read_text()):
        time.sleep(0.1)
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == code and err.count("\n") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_torchrun_is_refused(folder, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["check", "--loader", "my_data.py:held"]) == 2
    assert "--loader plays all ranks in one process: call packlib check without torchrun" in capsys.readouterr().err
