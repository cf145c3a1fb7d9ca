"""NumPy arrays between ranks, with a count of the bytes that leave this one."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

# what gloo, NCCL and the store say of a connection
_LEFT = re.compile(
    r"(closed|reset) by (remote )?peer|broken pipe|connection (refused|was closed)|remote process", re.I
)
_SILENT = re.compile(r"timed out (waiting|after)|(socket|wait) timeout", re.I)


class RankError(RuntimeError):
    """An error of one rank, raised on every rank: its sentence names the rank, and so does `rank`."""

    def __init__(self, sentence: str, rank: int | None = None) -> None:
        super().__init__(sentence)
        self.rank = rank

    @classmethod
    def of(cls, rank: int, world_size: int, error: BaseException) -> "RankError":
        """Name the rank that raised an error; a `RankError` stays as it is."""
        if isinstance(error, cls):
            return error
        return cls(f"Rank {rank} of {world_size} raised {type(error).__name__}: {error}", rank)


class LostRankError(RankError):
    """Another rank has left, or does not answer, so that this one cannot go on."""


@contextmanager
def lost_ranks_named() -> Iterator[None]:
    """Let the error of a collective whose other ranks are gone be one sentence; torch shows its own C++ places.

    Raises:
        LostRankError: in place of that error.
    """
    try:
        yield
    except RankError:
        raise
    except RuntimeError as error:
        if (sentence := lost_rank(error)) is None:
            raise
        raise LostRankError(sentence) from None


def lost_rank(error: BaseException | None) -> str | None:
    """Return what became of another rank, if an error or one of its causes tells of that; else None."""
    while error is not None:
        if isinstance(error, LostRankError):
            return str(error)
        if isinstance(error, RuntimeError) and not isinstance(error, RankError):
            left, silent = _LEFT.search(str(error)), _SILENT.search(str(error))
            if left or silent:
                this = f"Rank {dist.get_rank()} of {dist.get_world_size()}" if dist.is_initialized() else "This rank"
                return f"{this} cannot go on: another rank {'has left' if left else 'does not answer'}."
        error = error.__cause__ or error.__context__
    return None


class Collectives:
    """Operations of all ranks of a group on NumPy arrays; every rank must call the same ones in the same order.

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

    @contextmanager
    def agree_on_errors(self) -> Iterator[None]:
        """End a block together: what one rank raises in it, every rank raises.

        Without it the others would wait in their next collective for a rank that has left. The block holds what a
        rank does alone, such as checks of its input, and no collective. Costs one all-reduce of 8 bytes.

        Raises:
            RankError: the same on every rank, about the first rank that failed (alone, its own error).
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if self.size == 1:
                raise
            failure = error
        if self.size > 1:
            first_failed = self._tensor(np.array(self.size if failure is None else self.rank))
            with lost_ranks_named():
                dist.all_reduce(first_failed, dist.ReduceOp.MIN, group=self.group)
            if first_failed < self.size:
                sentence = [str(RankError.of(self.rank, self.size, failure)) if failure else ""]
                with lost_ranks_named():  # torch writes that of the first rank in its place
                    dist.broadcast_object_list(sentence, group_src=int(first_failed), group=self.group)
                raise RankError(sentence[0], int(first_failed)) from failure

    def check_same(self, **values: Any) -> None:
        """Refuse values that must be the same on all ranks, and are not.

        Raises:
            RankError: the same on every rank, about the first rank whose values differ from those of rank 0; the
                sentence names the value.
        """
        everyone = self.gather_objects(values)
        for rank, theirs in enumerate(everyone[1:], start=1):
            for name, value in theirs.items():
                if value != everyone[0][name]:
                    differ = f"is {value!r} on rank {rank} and {everyone[0][name]!r} on rank 0"
                    raise RankError(f"{name} must be the same on all ranks, but {differ}.", rank)

    @lost_ranks_named()
    def broadcast(self, value: Any) -> Any:
        """Return the `value` of rank 0 on every rank."""
        values = [value]  # torch writes that of rank 0 in its place
        if self.size > 1:
            dist.broadcast_object_list(values, group=self.group, group_src=0)
        return values[0]

    @lost_ranks_named()
    def gather_objects(self, value: Any) -> list:
        """Return the `value` of each rank, in the order of ranks; it may be anything that can be pickled."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value, group=self.group)
        return values

    def sum(self, array: np.ndarray) -> np.ndarray:
        """Add up the ranks' arrays."""
        return self._reduce(array, dist.ReduceOp.SUM)

    def minimum(self, array: np.ndarray) -> np.ndarray:
        """Return the least of the ranks' arrays, entry by entry."""
        return self._reduce(array, dist.ReduceOp.MIN)

    @lost_ranks_named()
    def gather(self, array: np.ndarray) -> np.ndarray:
        """Gather the ranks' arrays, all of one shape, in the order of ranks; shape (ranks, …)."""
        if self.size == 1:
            return array[None]
        own = self._tensor(array)
        arrays_of_ranks = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(arrays_of_ranks, own, group=self.group)
        self.bytes_sent += (self.size - 1) * array.nbytes
        return torch.stack(arrays_of_ranks).cpu().numpy()

    @lost_ranks_named()
    def exchange(self, rows: np.ndarray, counts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Send the first `counts[0]` rows to rank 0, the next `counts[1]` to rank 1, …; rows have shape (n, columns).

        Returns:
            The rows that this rank received, in the order of the ranks that sent them.
        """
        if self.size == 1:
            return rows
        outgoing_counts = self._tensor(counts)
        incoming_counts = torch.empty_like(outgoing_counts)
        dist.all_to_all_single(incoming_counts, outgoing_counts, group=self.group)
        sent, received = outgoing_counts.tolist(), incoming_counts.tolist()  # rows to and from each rank
        outgoing_rows = self._tensor(rows)
        incoming_rows = outgoing_rows.new_empty((sum(received), rows.shape[1]))
        dist.all_to_all_single(incoming_rows, outgoing_rows, received, sent, group=self.group)
        rows_leaving = sum(sent) - sent[self.rank]
        self.bytes_sent += (self.size - 1) * outgoing_counts.element_size()
        self.bytes_sent += rows_leaving * rows.shape[1] * rows.itemsize
        return incoming_rows.cpu().numpy()

    @lost_ranks_named()
    def _reduce(self, array: np.ndarray, op: dist.ReduceOp) -> np.ndarray:
        """Combine the ranks' arrays, all of one shape, entry by entry; `array` stays as it is."""
        if self.size == 1:
            return array
        tensor = self._tensor(array.copy())
        dist.all_reduce(tensor, op, group=self.group)
        self.bytes_sent += array.nbytes
        return tensor.cpu().numpy()

    def _tensor(self, array: Sequence[int] | np.ndarray) -> torch.Tensor:
        """Put an array where the group sends from: main memory, unless the group speaks NCCL only."""
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return tensor if "gloo" in dist.get_backend_config(self.group) else tensor.cuda()
