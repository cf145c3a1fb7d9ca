"""Watch over ranks that were started: their reports, their deaths, and where they hang."""

import math
import os
import pickle
import re
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from packlib.collectives import LostRankError, RankError

TORCH = os.path.dirname(torch.__file__)
GRACE = 1.0  # seconds; a rank that dies takes its peers along, and may be noticed after them


def await_reports(ranks: Sequence[BaseProcess], folder: Path, timeout: float, deadline: float) -> list:
    """Wait for the report of every rank, and return their results in order.

    Args:
        ranks: their processes. Each pickles a pair into the file `report-…`: infinity and its result; or, if it failed,
            the time by `time.monotonic` and its `RankError`, which has the traceback as a note.
        folder: where the ranks write their reports, and at the deadline their stacks.
        timeout, deadline: the seconds that the ranks have in all, and when these end by `time.monotonic`.

    Raises:
        RankError: about the rank that failed first, or that others wait for.
    """
    # by rank: the moment of its failure, infinity for none, and its result or error
    reports: dict[int, tuple[float, Any]] = {}
    until = deadline
    while time.monotonic() < until and (missing := set(range(len(ranks))) - reports.keys()):
        wait([ranks[rank].sentinel for rank in missing], 0.02)
        for rank in missing:
            exit_code = ranks[rank].exitcode  # asked before the report, which is written before the end
            if (report := folder / f"report-{rank}").exists():
                reports[rank] = pickle.loads(report.read_bytes())
            elif exit_code is not None:
                reports[rank] = 0.0, _death(rank, len(ranks), exit_code)
        if any(moment < math.inf for moment, _ in reports.values()):
            until = min(until, time.monotonic() + GRACE)
    # A death comes before all that was raised: peers of a dead rank raise, but no rank dies of a peer's error.
    by_moment = sorted(reports.items(), key=lambda item: item[1][0])
    failures: dict[int | None, RankError] = {rank: error for rank, (moment, error) in by_moment if moment < math.inf}
    if failures:
        first = next(iter(failures.values()))
        error = failures.get(first.rank, first)  # it may be about another rank, whose own report says more
        returned = sorted(reports.keys() - failures.keys())
        waited = isinstance(error, LostRankError) or f"{TORCH}/distributed" in str(getattr(error, "__notes__", ""))
        if returned and waited:
            # perhaps it waited for one that has left
            error.args = (f"{error} (Had returned by then: rank {', '.join(map(str, returned))}.)",)
        raise error
    if missing := set(range(len(ranks))) - reports.keys():
        raise _hanging(missing, len(ranks), folder, timeout)
    return [reports[rank][1] for rank in range(len(ranks))]


def _death(rank: int, world_size: int, exit_code: int) -> RankError:
    """Make the error of a rank that ended without a report; its exit code is below 0 if a signal ended it."""
    end = f"left with exit code {exit_code}"
    if exit_code < 0:
        end = f"was ended by {signal.Signals(-exit_code).name}"
    return RankError(f"Rank {rank} of {world_size} {end} before it returned.", rank)


def _hanging(missing: set[int], world_size: int, folder: Path, timeout: float) -> RankError:
    """Make the error of ranks that did not report: about one that does not wait for others, if there is one."""
    time.sleep(GRACE)  # until they have written their stacks, which `faulthandler` begins at the deadline
    states, waiting = {}, set()
    for rank in missing:
        stack = folder / f"stack-{rank}"
        threads = stack.read_text(encoding="utf-8") if stack.exists() else ""
        frames = re.findall(r'File "(.*)", line (\d+) in (.*)', threads.rpartition("Thread ")[2])  # the main one's
        user_frames = [frame for frame in frames if not frame[0].startswith(TORCH)]
        states[rank] = "in {2}, line {1} of {0}".format(*user_frames[0]) if user_frames else "at its start"
        if any(file.startswith(f"{TORCH}/distributed") for file, _, _ in frames):
            waiting.add(rank)
    rank = min(missing - waiting, default=min(missing))
    stands = f"{'waits for other ranks' if rank in waiting else 'is'} {states[rank]}"
    return RankError(f"Rank {rank} of {world_size} did not return within {timeout:g} s: it {stands}.", rank)
