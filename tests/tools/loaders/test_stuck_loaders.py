"""A loader that hangs where no signal reaches it, or that ends its process, ends the command in one sentence."""

import os
import signal
import subprocess
import sys
import time

import pytest
from processes import wait_for

from packlib.tools import watched
from packlib.tools.cli import main

HANGS = """
import collections, ctypes, itertools, os, signal


def hold_the_interpreter():
    collections.deque(itertools.repeat(None), maxlen=0)  # for ever, in C, without a look at signals


def wait_in_c():
    lock, libc = (ctypes.c_char * 64)(), ctypes.CDLL(None)  # which leaves the interpreter to other threads
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)
"""
LOADERS = f"""{HANGS}
from torch.utils.data import DataLoader

rows = [{{"input_ids": [n, n + 1, n + 2]}} for n in range(24)]


def held(rank, ranks, epoch):
    for at in range(0, 24, 4):
        if at == 8:
            hold_the_interpreter()
        yield rows[at : at + 4]


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
STUCK = "did not come within 1 seconds and could not be interrupted: compiled code hangs"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(watched, "GRACE", 0.3)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("held", f"packlib: the batch at step 2 of make(0, 1, 0) {STUCK}"),
        pytest.param("worker", "packlib: the batch at step", marks=pytest.mark.slow),
    ],
)
def test_the_command_ends_in_a_sentence(name, said, folder, capsys):
    (folder / "my_data.py").write_text(LOADERS)
    assert main(["check", "--loader", f"my_data.py:{name}", "--time-limit", "1"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(said) and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("wait_in_c()", STUCK),
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "The process of the loader was ended by SIGSEGV while it waited for this: a batch.",
        ),
        ("os._exit(7)", "The process of the loader left with exit code 7 while it waited for this: a batch."),
    ],
)
def test_however_the_process_ends_its_parent_says_what_it_waited_for(ends, said, folder):
    (folder / "my_work.py").write_text(f"{HANGS}\ndef work(tell):\n    tell('a batch', 1.0)\n    {ends}\n")
    with pytest.raises((watched.StuckError, ValueError), match=said):
        watched.watched("packlib check", "my_work:work")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_process_of_the_loader_too(number, code, folder):
    begun = folder / "begun"
    hangs = f"with open({str(begun)!r}, 'w') as file:\n    file.write(str(os.getpid()))\nhold_the_interpreter()\n"
    (folder / "my_data.py").write_text(HANGS + hangs)  # while it is imported, before torch is
    run = subprocess.Popen(
        [sys.executable, "-m", "packlib", "check", "--loader", "my_data.py:held"], stderr=subprocess.PIPE, text=True
    )
    wait_for(begun, run)
    while not begun.read_text():
        time.sleep(0.01)
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == code and err.count("\n") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_torchrun_is_refused(folder, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["check", "--loader", "my_data.py:held"]) == 2
    assert "--loader plays all ranks in one process: call packlib check without torchrun" in capsys.readouterr().err
