"""A process group for the processes that torchrun has started for a command, and one sentence if they fail."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from click.exceptions import Exit

from packlib.collectives import LostRankError, RankError, lost_rank

LOST = 4  # the exit code of a rank that cannot go on, since another one has left


@contextmanager
def group(hours: float) -> Iterator[None]:
    """Run a block of code in a gloo process group, whose ranks wait at most `hours` for each other.

    An error that all ranks raise in the same words is shown by rank 0 only; any other is shown with the rank's number.
    If another rank has left, each prints a sentence about that, and ends with the code `LOST`.
    """
    try:
        with _process_group(hours) as (store, rank, ranks), _shown_once(store, rank, ranks):
            yield
    except Exception as error:
        if (sentence := lost_rank(error)) is None:
            raise
        print(f"packlib: {sentence}", file=sys.stderr)
        raise Exit(LOST) from None


@contextmanager
def _process_group(hours: float) -> Iterator[tuple[Any, int, int]]:
    """Open a process group for a block of code; yield its store, this rank, and the number of ranks."""
    store, rank, ranks = next(dist.rendezvous("env://"))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timedelta(hours=hours))
    try:
        yield store, rank, ranks
    finally:
        dist.destroy_process_group()


@contextmanager
def _shown_once(store: Any, rank: int, ranks: int) -> Iterator[None]:
    """Let an error of all ranks be shown by rank 0 alone, and an error of some ranks with their numbers.

    Args:
        store: through which ranks exchange their errors, since the group may be broken.
    """
    try:
        yield
    except LostRankError:
        raise
    except RankError as error:  # the same on all ranks
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
    """Return True if every rank raised this error. A rank that has raised none after five seconds may be waiting."""
    names = [f"packlib error {number}" for number in range(ranks)]
    store.set(names[rank], error)
    try:
        store.wait(names, timedelta(seconds=5))
    except RuntimeError:
        return False
    return all(store.get(name).decode() == error for name in names)
