"""How the processes that torchrun has started for a command meet, and say together what went wrong."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from click.exceptions import Exit

from packlib.collectives import LostRankError, RankError, lost_rank

LOST = 4  # the exit code of a rank that others have left


@contextmanager
def group(hours: float) -> Iterator[None]:
    """Run the block in a gloo process group, whose ranks wait at most `hours` for each other.

    An error that all ranks raise in the same words is shown by rank 0 only; any other is shown with the rank's number.
    Where another rank has left, each says so in one sentence, and ends with the code `LOST`.
    """
    try:
        with _group(hours) as (store, rank, ranks):
            yield from _told(store, rank, ranks)
    except Exception as error:
        if (sentence := lost_rank(error)) is None:
            raise
        print(f"packlib: {sentence}", file=sys.stderr)
        raise Exit(LOST) from None


@contextmanager
def _group(hours: float) -> Iterator[tuple[Any, int, int]]:
    """Open a process group, with its store, this rank and the number of ranks."""
    store, rank, ranks = next(dist.rendezvous("env://"))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timedelta(hours=hours))
    try:
        yield store, rank, ranks
    finally:
        dist.destroy_process_group()


def _told(store: Any, rank: int, ranks: int) -> Iterator[None]:
    try:
        yield
    except LostRankError:
        raise
    except RankError as error:
        if rank:
            raise Exit(2) from None
        raise ValueError(str(error)) from None
    except (TypeError, ValueError, OSError) as error:
        if lost_rank(error) is not None:
            raise
        if not _all_raise(store, str(error), ranks, rank):
            raise ValueError(f"Rank {rank} of {ranks}: {error}") from error
        if rank:
            raise Exit(2) from None
        raise


def _all_raise(store: Any, error: str, ranks: int, rank: int) -> bool:
    """Return True if every rank raised the same sentence; one that has not after some seconds may be waiting."""
    names = [f"packlib error {number}" for number in range(ranks)]
    store.set(names[rank], error)
    try:
        store.wait(names, timedelta(seconds=5))
    except RuntimeError:
        return False
    return all(store.get(name).decode() == error for name in names)
