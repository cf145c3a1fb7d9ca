"""Watch over ranks that were started: their reports, their deaths, and where they hang."""

import os
import pickle
import re
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch

from packlib.distributed.agreement import RankError

LIBRARY = os.path.dirname(torch.__file__)
GRACE = 1.0  # seconds; a rank that dies takes its peers along, and may be noticed after them


def await_reports(ranks: Sequence[BaseProcess], folder: Path, timeout: float, deadline: float) -> list:
    """Wait for the report of every rank, and return their results in order.

    Args:
        ranks: their processes, which write a file `report-…` each: its result and None, or None and a failure:
            when, by `time.monotonic`, and the `RankError`, with a note that holds the traceback.
        folder: where the ranks write, at the deadline also their stacks.
        timeout, deadline: how many seconds they had, and when these end, by `time.monotonic`.

    Raises:
        RankError: about the rank that failed first, or that others wait for.
    """
    results, failures, pending = dict[int, Any](), dict[int | None, tuple[float, RankError]](), dict(enumerate(ranks))
    until = deadline
    while pending and time.monotonic() < until:
        wait([process.sentinel for process in pending.values()], 0.02)
        for rank, process in list(pending.items()):
            ended = process.exitcode  # asked before the report, which is written before the end
            if (report := folder / f"report-{rank}").exists():
                result, failure = pickle.loads(report.read_bytes())
            elif ended is not None:
                result, failure = None, (0.0, _death(rank, len(ranks), ended))
            else:
                continue
            del pending[rank]
            if failure is None:
                results[rank] = result
            else:
                failures[rank] = failure
                until = min(until, time.monotonic() + GRACE)
    if failures:
        # A death comes before all that was raised: peers of a dead rank raise, but no rank dies of a peer's error.
        _, first = min(failures.values(), key=itemgetter(0))
        _, error = failures.get(first.rank, (0.0, first))
        if results and f"{LIBRARY}/distributed" in str(getattr(error, "__notes__", "")):
            # perhaps it waited for one that has left
            error.args = (f"{error} (Had returned by then: rank {', '.join(map(str, sorted(results)))}.)",)
        raise error
    if pending:
        raise _hanging(set(pending), len(ranks), folder, timeout)
    return [results[rank] for rank in range(len(ranks))]


def _death(rank: int, world_size: int, exit_code: int) -> RankError:
    left = f"left with exit code {exit_code}"
    ended = f"was ended by {signal.Signals(-exit_code).name}" if exit_code < 0 else left
    return RankError(f"Rank {rank} of {world_size} {ended} before it returned.", rank)


def _hanging(missing: set[int], world_size: int, folder: Path, timeout: float) -> RankError:
    """Look where the ranks that are missing stand; one that does not wait for others is to blame."""
    time.sleep(GRACE)  # until they have written it
    places, waiting = {}, set()
    for rank in missing:
        stack = folder / f"stack-{rank}"
        threads = stack.read_text(encoding="utf-8") if stack.exists() else ""
        frames = re.findall(r'File "(.*)", line (\d+) in (.*)', threads.rpartition("Thread ")[2])  # the main one's
        own = [frame for frame in frames if not frame[0].startswith(LIBRARY)]
        places[rank] = "in {2}, line {1} of {0}".format(*own[0]) if own else "at its start"
        if any(file.startswith(f"{LIBRARY}/distributed") for file, _, _ in frames):
            waiting.add(rank)
    rank = min(missing - waiting, default=min(missing))
    stands = f"{'waits for other ranks' if rank in waiting else 'is'} {places[rank]}"
    return RankError(f"Rank {rank} of {world_size} did not return within {timeout:g} s: it {stands}.", rank)
