"""NumPy arrays between ranks, with a count of the bytes that leave this one."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from packlib.distributed.agreement import agree_on_errors, check_same, group_device


class Collectives:
    """What the ranks of a group do together, as NumPy sees it; every rank must call the same, in the same order.

    Attributes:
        rank, size: this rank, and how many there are; 0 and 1 where no process group was started.
        bytes_sent: what this rank has handed over so far: an array summed counts once, an array gathered once for every
            other rank, and rows that stay do not count. (Agreements are left out: they take some hundred bytes.)
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        started = dist.is_initialized()
        self.group = group
        self.rank: int = dist.get_rank(group) if started else 0
        self.size: int = dist.get_world_size(group) if started else 1
        self.bytes_sent = 0

    def agree_on_errors(self) -> AbstractContextManager:
        """End a block together: what one rank raises in it, every rank raises (see `agreement`)."""
        return agree_on_errors(self.group) if self.size > 1 else nullcontext()

    def check_same(self, **values: Any) -> None:
        """Refuse values that are not the same on all ranks (see `agreement`)."""
        if self.size > 1:
            check_same(self.group, **values)

    def broadcast(self, value: Any) -> Any:
        """What rank 0 has as `value`, on every rank."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, group=self.group, group_src=0)
        return values[0]

    def gather_objects(self, value: Any) -> list:
        """What each rank has as `value`, which may be anything that can be pickled, in the order of ranks."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value, group=self.group)
        return values

    def sum(self, array: np.ndarray) -> np.ndarray:
        """The ranks' arrays added up."""
        return self._reduce(array, dist.ReduceOp.SUM)

    def minimum(self, array: np.ndarray) -> np.ndarray:
        """The least of the ranks' arrays, entry by entry."""
        return self._reduce(array, dist.ReduceOp.MIN)

    def gather(self, array: np.ndarray) -> np.ndarray:
        """The ranks' arrays, all of one shape, in the order of ranks; shape (ranks, …)."""
        if self.size == 1:
            return array[None]
        mine = self._tensor(array)
        others = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(others, mine, group=self.group)
        self.bytes_sent += (self.size - 1) * array.nbytes
        return torch.stack(others).cpu().numpy()

    def exchange(self, rows: np.ndarray, counts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Send the first `counts[0]` rows to rank 0, the next `counts[1]` to rank 1, …; rows have shape (n, columns).

        Returns:
            The rows that this rank received, in the order of the ranks that sent them.
        """
        if self.size == 1:
            return rows
        outgoing = self._tensor(counts)
        incoming = torch.empty_like(outgoing)
        dist.all_to_all_single(incoming, outgoing, group=self.group)
        sent, received = outgoing.tolist(), incoming.tolist()
        tensor = self._tensor(rows)
        result = tensor.new_empty((sum(received), rows.shape[1]))
        dist.all_to_all_single(result, tensor, received, sent, group=self.group)
        leaving = sum(sent) - sent[self.rank]
        self.bytes_sent += (self.size - 1) * outgoing.element_size()
        self.bytes_sent += leaving * rows.shape[1] * rows.itemsize
        return result.cpu().numpy()

    def _reduce(self, array: np.ndarray, op: dist.ReduceOp) -> np.ndarray:
        if self.size == 1:
            return array
        tensor = self._tensor(array.copy())
        dist.all_reduce(tensor, op, group=self.group)
        self.bytes_sent += array.nbytes
        return tensor.cpu().numpy()

    def _tensor(self, array: Sequence[int] | np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(group_device(self.group))
