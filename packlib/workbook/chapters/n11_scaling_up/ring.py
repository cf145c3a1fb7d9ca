"""Ring all-reduce by hand: how the gradients of all replicas are added up, with the same load on every link."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from packlib.checks import whole_number


class Transfer(NamedTuple):
    """One chunk on its way; p ranks, p chunks.

    Attributes:
        phase: "reduce-scatter" (the receiver adds the chunk to its own) or "all-gather" (it takes it over).
        sender, receiver: ranks, neighbors in the ring.
        chunk: which of the p chunks.
    """

    phase: str
    sender: int
    receiver: int
    chunk: int


def ring_steps(world_size: int) -> list[list[Transfer]]:
    """The 2 (p − 1) steps of a ring of p ranks; in each of them every rank sends one chunk to the next, all at once.

    Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
    """
    p = whole_number("world_size", world_size, 1)
    return [
        [Transfer(phase, rank, (rank + 1) % p, (rank + first - step) % p) for rank in range(p)]
        for phase, first in (("reduce-scatter", 0), ("all-gather", 1))
        for step in range(p - 1)
    ]


@torch.no_grad()
def ring_all_reduce(tensor: Tensor) -> int:
    """Add `tensor` up over all ranks of the default group, in place; every rank calls this.

    Returns:
        Bytes that this rank sent: 2 (p − 1) / p of the tensor's, where p divides it.

    Raises:
        ValueError: if the tensor is not contiguous.
    """
    if not tensor.is_contiguous():
        raise ValueError("A ring all-reduce works in place and needs a contiguous tensor.")
    rank, sent = dist.get_rank(), 0
    chunks = tensor.view(-1).tensor_split(dist.get_world_size())
    for transfers in ring_steps(len(chunks)):
        out, into = transfers[rank], transfers[rank - 1]
        received = torch.empty_like(chunks[into.chunk])
        sending = dist.isend(chunks[out.chunk], out.receiver)
        dist.recv(received, into.sender)
        sending.wait()
        sent += chunks[out.chunk].nbytes
        if into.phase == "reduce-scatter":
            chunks[into.chunk].add_(received)
        else:
            chunks[into.chunk].copy_(received)
    return sent
