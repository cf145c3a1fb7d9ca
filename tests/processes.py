"""Start processes, wait for them, and ask whether they live."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.forkserver import ForkServer, _forkserver
from pathlib import Path


def alive(pid: int | str) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()  # nobody may be there to reap it
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends while this reads
        return False


def all_end(pids: list) -> bool:
    """Wait until all processes are dead, two minutes at most; return whether they are."""
    deadline = time.monotonic() + 120
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(alive, pids))


def wait_for(path: Path, process: subprocess.Popen) -> None:
    """Wait until the process has made this file; fail if it ends before."""
    deadline = time.monotonic() + 180
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, f"{path} has not come"
        time.sleep(0.02)


def waiting(folder: Path, number: int = 0) -> list[int]:
    """Wait until `number` processes have left a file `waiting-PID` in `folder`; return their numbers."""
    deadline, found = time.monotonic() + 180, []
    while len(found) < number and time.monotonic() < deadline:
        time.sleep(0.05)
        found = [int(path.name.partition("-")[2]) for path in folder.rglob("waiting-*")]
    assert len(found) >= number, "none came so far"
    return found


@contextmanager
def ranks_that_have(*modules: str) -> Iterator[None]:
    """Let the ranks that `run_ranks` starts in here begin with these modules, which else each rank imports anew.

    They are forks of a server, which imports the modules once.
    """
    server: ForkServer = _forkserver
    server._stop()  # the one that runs has fewer
    server.set_forkserver_preload([*modules])
    server.ensure_running()
    try:
        yield
    finally:
        server._stop()


def on_ranks(script: Path, ranks: int = 2) -> str:
    """Run a script in processes that torchrun starts, on the CPU; return what they print."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(script)]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def check_on_two_ranks(folder: Path, text: str) -> subprocess.CompletedProcess:
    """Run `packlib check` on the function `make` in this text, in two processes that torchrun starts."""
    (folder / "on_two.py").write_text(text)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run += ["-m", "packlib", "check", "on_two.py:make", "--no-progress"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # where the tests' modules are too
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
