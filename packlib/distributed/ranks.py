"""Run a function on several ranks: from a notebook as processes of this machine, or as one rank under torchrun."""

import atexit
import faulthandler
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from packlib.arguments import number, whole_number
from packlib.collectives import Collectives, RankError
from packlib.distributed.watch import GRACE, await_reports
from packlib.files import atomic_path

LAUNCHER = {"RANK", "WORLD_SIZE", "MASTER_ADDR"}  # the variables that torchrun, and others like it, set


def run_ranks(function: Callable, world_size: int | None, *args: Any, timeout: float = 60.0) -> list:
    """Call `function(rank, *args)` on every rank of a process group; return what the ranks return, in order.

    The ranks are processes of this machine with one thread each. The first call starts a server that loads torch and
    stays until this process ends; later calls fork the ranks from it at once. They speak gloo, and NCCL too for
    tensors on GPUs where there is a GPU for each rank. What they print is shown at the end, rank by rank.

    Under torchrun (and whatever else sets RANK, WORLD_SIZE and MASTER_ADDR), or in a process that is in a group
    already, nothing is started: this rank joins the group and calls `function` itself, and returns the results of
    all. torchrun shows what the ranks print, and ends them all when one fails.

    >>> from packlib.distributed import run_ranks
    >>> import math
    >>> run_ranks(math.pow, 3, 2)  # rank ** 2
    [0.0, 1.0, 4.0]

    Args:
        function: defined in a file that can be imported, for a rank cannot see what a notebook defines.
        world_size: how many ranks; under torchrun as many as it started, or None.
        args: the same for every rank; pickled, as the results are.
        timeout: seconds until a rank counts as hanging.

    Raises:
        RankError: a rank raised, died or hung: which one, and why. The other ranks are ended.
        TypeError, ValueError: if the arguments are not as above.
    """
    number("timeout", timeout, above=0)
    if dist.is_initialized() or os.environ.keys() >= LAUNCHER:
        return _run_this_rank(function, world_size, args, timeout)
    world_size = whole_number("world_size", world_size, 1)
    call = _pickled(function, args)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", __name__])
    with tempfile.TemporaryDirectory(prefix="ranks-") as name, _shown(folder := Path(name), world_size):
        deadline = time.monotonic() + timeout
        ranks = [
            context.Process(target=_rank_main, args=(rank, world_size, folder, call, deadline), name=f"rank {rank}")
            for rank in range(world_size)
        ]
        try:
            for process in ranks:
                process.start()
            results = await_reports(ranks, folder, timeout, deadline)
            for process in ranks:
                process.join(GRACE)
            return results
        finally:
            _end(ranks)


def _pickled(function: Callable, args: tuple) -> bytes:
    """Pickle a call; raise a TypeError that says what to do if the ranks could not read it."""
    name = getattr(function, "__qualname__", repr(function))
    if getattr(function, "__module__", "") == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise TypeError(
            f"The ranks cannot see {name}, which is defined in the notebook: put it into a .py file and import it."
        )
    try:
        return pickle.dumps((function, args))
    except Exception as error:
        raise TypeError(
            f"{name} and its arguments must be such that pickle can send them to the ranks "
            f"(a function that can be imported, plain data): {error}."
        ) from None


def _run_this_rank(function: Callable, world_size: int | None, args: tuple, timeout: float) -> list:
    """Call the function on this rank, which a launcher started; arguments, results and errors are as of `run_ranks`."""
    if not dist.is_initialized():
        _join(int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1)), timeout)
        # not sooner: a second group would find the addresses of the first in torchrun's store
        atexit.register(dist.destroy_process_group)
    rank, started = dist.get_rank(), dist.get_world_size()
    if world_size not in (None, started):
        raise ValueError(f"world_size is {world_size}, but {started} ranks were started; None takes them all.")
    try:
        result = record(function)(rank, *args)  # torchrun reports the rank whose error is recorded first
    except Exception as error:
        raise RankError.of(rank, started, error) from error
    return Collectives().gather_objects(result)


def _join(local_rank: int, local_size: int, timeout: float, **rendezvous: Any) -> None:
    """Join the process group, with a GPU for each rank of this machine if there are enough.

    Args:
        local_rank, local_size: of the ranks of this machine.
        timeout: seconds that a collective may take.
        rendezvous: where the ranks meet, as `init_process_group` takes it; by default as the launcher says.
    """
    torch.set_num_threads(1)
    backend = "gloo"
    if dist.is_nccl_available() and torch.cuda.device_count() >= local_size:
        torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout), **rendezvous)


def _rank_main(rank: int, world_size: int, folder: Path, call: bytes, deadline: float) -> None:
    """Run a started rank: join the group, call the function, and report.

    Args:
        folder: where the parent reads reports, output and stacks, as `await_reports` expects them.
        call: what `_pickled` made.
        deadline: when the parent's patience ends, by `time.monotonic`.
    """
    os.setsid()  # a group of processes of its own, which ends with it
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    for name, handle in (("stdout", 1), ("stderr", 2)):  # what C++ prints too
        file = open(folder / f"{name}-{rank}", "w", buffering=1, encoding="utf-8")
        os.dup2(file.fileno(), handle)
        setattr(sys, name, file)
    seconds_left = max(deadline - time.monotonic(), 0.001)
    faulthandler.dump_traceback_later(seconds_left, file=open(folder / f"stack-{rank}", "w", encoding="utf-8"))
    try:
        for _, name in socket.if_nameindex():
            if name.startswith("lo"):  # the loopback, for the host's own name may lead nowhere
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        function, args = pickle.loads(call)
        # The parent watches the time; a rank that waits for one that hangs must not be the first to complain.
        _join(
            rank, world_size, seconds_left + 60, init_method=f"file://{folder}/store", rank=rank, world_size=world_size
        )
        dist.barrier()  # else one that returns at once would leave while others still connect to it
        report = pickle.dumps((math.inf, function(rank, *args)))
    except BaseException as error:
        failure = RankError.of(rank, world_size, error)
        failure.add_note(traceback.format_exc())
        report = pickle.dumps((time.monotonic(), failure))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with atomic_path(folder / f"report-{rank}") as part:  # before its connections close: its peers complain later
        part.write_bytes(report)
    if dist.is_initialized():
        dist.destroy_process_group()


def _end_with_parent(folder: Path) -> None:
    """Wait until the parent has ended, then remove its folder and end this rank and all that it started."""
    if parent := multiprocessing.parent_process():
        parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _end(ranks: list) -> None:
    """End the ranks and all that they started."""
    for process in ranks:
        if process.pid is not None:
            with suppress(ProcessLookupError):  # it has left, or not come to lead its group
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()


@contextmanager
def _shown(folder: Path, world_size: int) -> Iterator[None]:
    """Show what the ranks printed when the block ends."""
    try:
        yield
    finally:
        for name in ("stdout", "stderr"):
            for rank in range(world_size):
                with suppress(FileNotFoundError):
                    text = (folder / f"{name}-{rank}").read_text(encoding="utf-8", errors="replace")
                    getattr(sys, name).write(text if text[-1:] in ("", "\n") else text + "\n")
