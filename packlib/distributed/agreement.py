"""What a group of ranks needs before it can work together: one device, and one error for all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist


class RankError(RuntimeError):
    """What went wrong on one rank, told on every rank: the sentence names the rank, and so does `rank`."""

    def __init__(self, sentence: str, rank: int | None = None) -> None:
        super().__init__(sentence)
        self.rank = rank

    @classmethod
    def of(cls, rank: int, world_size: int, error: BaseException) -> "RankError":
        """The error that rank `rank` raised; one that is told already stays as it is."""
        if isinstance(error, cls):
            return error
        return cls(f"Rank {rank} of {world_size} raised {type(error).__name__}: {error}", rank)


def group_device(group: dist.ProcessGroup | None = None) -> torch.device:
    """Where tensors that `group` exchanges must be: in main memory, unless it speaks NCCL only."""
    if "gloo" in dist.get_backend_config(group):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


@contextmanager
def agree_on_errors(group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """End a block on all ranks of `group` together: what one rank raises in it, every rank raises.

    Without it the others would wait in their next collective for a rank that has left. The block holds what a rank
    does alone, such as checks of its input, and no collective. Costs one all-reduce of 8 bytes.

    Raises:
        RankError: the same on every rank, about the first rank that failed.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    first = torch.tensor(world_size if failure is None else rank, device=group_device(group))
    dist.all_reduce(first, dist.ReduceOp.MIN, group=group)
    if first < world_size:
        sentence = [str(RankError.of(rank, world_size, failure)) if failure else ""]
        dist.broadcast_object_list(sentence, group_src=int(first), group=group)
        raise RankError(sentence[0], int(first)) from failure


def check_same(group: dist.ProcessGroup | None = None, **values: Any) -> None:
    """Refuse values that must be the same on all ranks of `group`, and are not.

    Raises:
        RankError: the same on every rank, about the first rank whose values differ from those of rank 0.
    """
    everyone: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, values, group=group)
    for rank, theirs in enumerate(everyone):
        for name, value in theirs.items():
            if value != everyone[0][name]:
                differ = f"is {value!r} on rank {rank} and {everyone[0][name]!r} on rank 0"
                raise RankError(f"{name} must be the same on all ranks, but {differ}.", rank)
