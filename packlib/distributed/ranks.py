"""Run a function on several ranks: from a notebook as processes of this machine, or as one rank under torchrun."""

import faulthandler
import multiprocessing
import os
import pickle
import re
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
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from packlib.checks import number, whole_number
from packlib.distributed.agreement import RankError

LAUNCHER = {"RANK", "WORLD_SIZE", "MASTER_ADDR"}  # the variables that torchrun, and others like it, set
GRACE = 1.0  # seconds; a rank that dies takes its peers along, and may be noticed after them


def run_ranks(function: Callable, world_size: int | None, *args: Any, timeout: float = 60.0) -> list:
    """Call `function(rank, *args)` on every rank of a process group; return what the ranks return, in order.

    The ranks are processes of this machine with one thread each. The first call starts a server that loads torch and
    stays until this process ends; later calls fork the ranks from it at once. They speak gloo, and NCCL too for
    tensors on GPUs where there is a GPU for each rank. What they print is shown at the end, rank by rank.

    Under torchrun (and whatever else sets RANK, WORLD_SIZE and MASTER_ADDR), or in a process that is in a group
    already, nothing is started: this rank joins the group and calls `function` itself, every rank returns the
    results of all, and torchrun shows what they print.

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
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder, _shown(Path(folder), world_size):
        ranks = []
        try:
            for rank in range(world_size):
                reader, writer = context.Pipe(duplex=False)
                process = context.Process(
                    target=_rank_main,
                    args=(rank, world_size, folder, call, timeout, writer),
                    name=f"rank {rank}",
                )
                ranks.append((process, reader))
                process.start()
                writer.close()
            results = _collect(ranks, time.monotonic() + timeout)
            if len(results) < world_size:
                raise _hanging(Path(folder), ranks, set(range(world_size)) - set(results), timeout)
            for process, _ in ranks:
                process.join(GRACE)
            return [pickle.loads(results[rank]) for rank in range(world_size)]
        finally:
            _end(ranks)


def _pickled(function: Callable, args: tuple) -> bytes:
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
    joins = not dist.is_initialized()
    if joins:
        _join(int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1)), timeout)
    try:
        rank, started = dist.get_rank(), dist.get_world_size()
        if world_size not in (None, started):
            raise ValueError(
                f"world_size is {world_size}, but {started} ranks were started; None takes them all."
            )
        try:
            result = function(rank, *args)
        except Exception as error:
            raise RankError.of(rank, started, error) from error
        results = [None] * started
        dist.all_gather_object(results, result)
        return results
    finally:
        if joins:
            dist.destroy_process_group()


def _join(local_rank: int, local_size: int, timeout: float, **rendezvous: Any) -> None:
    torch.set_num_threads(1)
    backend = "gloo"
    if dist.is_nccl_available() and torch.cuda.device_count() >= local_size:
        torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout), **rendezvous)


def _rank_main(
    rank: int, world_size: int, folder: str, call: bytes, timeout: float, writer: Connection
) -> None:
    """What a started rank does: join the group, call the function, and report."""
    os.setsid()  # a group of processes of its own, which ends with it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name, handle in (("stdout", 1), ("stderr", 2)):  # what C++ prints too
        file = open(Path(folder, f"{name}-{rank}"), "w", buffering=1, encoding="utf-8")
        os.dup2(file.fileno(), handle)
        setattr(sys, name, file)
    stack = open(Path(folder, f"stack-{rank}"), "w", encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    try:
        for _, name in socket.if_nameindex():
            if name.startswith("lo"):  # the loopback, for the host's own name may lead nowhere
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        function, args = pickle.loads(call)
        # The parent watches the time; a rank that waits for one that hangs must not be the first to complain.
        _join(
            rank,
            world_size,
            timeout + 60,
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=world_size,
        )
        report = (pickle.dumps(function(rank, *args)), None)
    except BaseException as error:
        told = RankError.of(rank, world_size, error)
        report = (None, (time.monotonic(), str(told), told.rank, traceback.format_exc()))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    writer.send(report)  # before its connections close: the peers' complaints come later
    if dist.is_initialized():
        dist.destroy_process_group()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os.killpg(0, signal.SIGKILL)


def _collect(ranks: list, deadline: float) -> dict[int, bytes]:
    """Results by rank, as many as are there at the deadline; raise the error that came first, if there is one."""
    results, failures, pending = {}, {}, dict(enumerate(ranks))
    while pending and time.monotonic() < deadline:
        watched = [what for process, reader in pending.values() for what in (process.sentinel, reader)]
        wait(watched, max(deadline - time.monotonic(), 0))
        for rank, (process, reader) in list(pending.items()):
            ended = process.exitcode is not None  # asked before the report, which is sent before the end
            if not reader.poll() and not ended:
                continue
            del pending[rank]
            try:
                result, failure = reader.recv() if reader.poll() else (None, None)
            except (EOFError, OSError):
                result = failure = None
            if result is not None:
                results[rank] = result
                continue
            if failure is None:
                process.join()
                failure = (0.0, _death(rank, len(ranks), process.exitcode), rank, None)
            if not failures:
                deadline = min(deadline, time.monotonic() + GRACE)
            failures[rank] = failure
    if failures:
        # A death comes before all that was raised: peers of a dead rank raise, but no rank dies of a peer's error.
        first = min(failures.values(), key=lambda failure: failure[0])
        _, sentence, blamed, _ = first
        error = RankError(sentence, blamed)
        if trace := failures.get(blamed, first)[3]:
            error.add_note(trace)
        raise error
    return results


def _death(rank: int, world_size: int, exit_code: int) -> str:
    how = (
        f"was ended by {signal.Signals(-exit_code).name}"
        if exit_code < 0
        else f"left with exit code {exit_code}"
    )
    return f"Rank {rank} of {world_size} {how} before it returned."


def _hanging(folder: Path, ranks: list, missing: set[int], timeout: float) -> RankError:
    """Ask the ranks that did not return where they stand; one that does not wait for others is to blame."""
    for rank in missing:
        with suppress(ProcessLookupError):
            os.kill(ranks[rank][0].pid, signal.SIGUSR1)  # `faulthandler` writes the stack, whatever runs
    time.sleep(0.2)
    library, places, waiting = os.path.dirname(torch.__file__), {}, set()
    for rank in sorted(missing):
        stack = folder / f"stack-{rank}"
        frames = re.findall(r'File "(.*)", line (\d+) in (.*)', stack.read_text() if stack.exists() else "")
        own = [frame for frame in frames if not frame[0].startswith(library)]
        places[rank] = "in {2}, line {1} of {0}".format(*own[0]) if own else "at its start"
        if any(file.startswith(f"{library}/distributed") for file, _, _ in frames):
            waiting.add(rank)
    rank = min(missing - waiting, default=min(missing))
    does = "waits for other ranks" if rank in waiting else "is"
    return RankError(
        f"Rank {rank} of {len(ranks)} did not return within {timeout:g} s: it {does} {places[rank]}.", rank
    )


def _end(ranks: list) -> None:
    """End the ranks and all that they started."""
    started = [process for process, _ in ranks if process.pid is not None]
    for process in started:
        for kill in (lambda pid=process.pid: os.killpg(pid, signal.SIGKILL), process.kill):
            with suppress(ProcessLookupError):  # it has left, or not come to lead its group
                kill()
    for process in started:
        process.join()
    for _, reader in ranks:
        reader.close()


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
                    getattr(sys, name).write(text)
