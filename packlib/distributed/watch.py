"""Watch over ranks that were started: their reports, their deaths, and where they hang."""

import faulthandler
import os
import re
import signal
import time
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

from packlib.distributed.agreement import RankError

LIBRARY = os.path.dirname(torch.__file__)
GRACE = 1.0  # seconds; a rank that dies takes its peers along, and may be noticed after them


def show_stack_when_asked(folder: Path, rank: int) -> None:
    """Let this rank write its stack to a file in `folder` at SIGUSR1, whatever it does or waits for."""
    file = open(folder / f"stack-{rank}", "w", encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, file, all_threads=False)


def await_reports(ranks: list[tuple], folder: Path, timeout: float) -> dict[int, bytes]:
    """Wait for the report of every rank, and return the results by rank.

    Args:
        ranks: the process of each rank, and the connection on which it reports a pair: its pickled result or None,
            and its failure or None: when it was raised, the sentence, the rank to blame, the traceback.
        folder: where the ranks write their stacks.

    Raises:
        RankError: about the rank that failed first, or that others wait for.
    """
    deadline = time.monotonic() + timeout
    results, failures, pending = dict[int, Any](), dict[int, Any](), dict(enumerate(ranks))
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
        trace = failures.get(blamed, first)[3] or ""
        if results and f"{LIBRARY}/distributed" in trace:  # perhaps it waited for one that has left
            sentence += f" (Had returned by then: rank {', '.join(map(str, sorted(results)))}.)"
        error = RankError(sentence, blamed)
        if trace:
            error.add_note(trace)
        raise error
    if pending:
        raise _hanging(ranks, set(pending), folder, timeout)
    return results


def _death(rank: int, world_size: int, exit_code: int) -> str:
    left = f"left with exit code {exit_code}"
    ended = f"was ended by {signal.Signals(-exit_code).name}" if exit_code < 0 else left
    return f"Rank {rank} of {world_size} {ended} before it returned."


def _hanging(ranks: list[tuple], missing: set[int], folder: Path, timeout: float) -> RankError:
    """Ask the ranks that are missing where they stand; one that does not wait for others is to blame."""
    for rank in missing:
        with suppress(ProcessLookupError):
            os.kill(ranks[rank][0].pid, signal.SIGUSR1)
    places, waiting, until = {}, set(), time.monotonic() + 2 * GRACE
    for rank in sorted(missing):
        stack = ""
        while not stack.endswith("in <module>\n") and time.monotonic() < until:
            time.sleep(0.02)
            with suppress(FileNotFoundError):  # it has not come so far
                stack = (folder / f"stack-{rank}").read_text(encoding="utf-8")
        frames = re.findall(r'File "(.*)", line (\d+) in (.*)', stack)
        own = [frame for frame in frames if not frame[0].startswith(LIBRARY)]
        places[rank] = "in {2}, line {1} of {0}".format(*own[0]) if own else "at its start"
        if any(file.startswith(f"{LIBRARY}/distributed") for file, _, _ in frames):
            waiting.add(rank)
    rank = min(missing - waiting, default=min(missing))
    does = "waits for other ranks" if rank in waiting else "is"
    return RankError(
        f"Rank {rank} of {len(ranks)} did not return within {timeout:g} s: it {does} {places[rank]}.", rank
    )
