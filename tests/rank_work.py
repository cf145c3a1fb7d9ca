"""What the tests let ranks do. A file of its own, so that ranks load no test tools."""

import os
import signal
import subprocess
import time
import tracemalloc

import numpy as np
import torch
import torch.distributed as dist

from packlib.distributed import pack_distributed, packing


def tell_pid():
    print("pid", os.getpid())


def introduce(rank, word):
    tell_pid()
    everyone = torch.tensor([rank])
    dist.all_reduce(everyone)
    return rank, dist.get_world_size(), int(everyone), word, torch.get_num_threads()


def speak_in_reverse(rank):
    time.sleep(0.1 * (dist.get_world_size() - rank))
    print("Python", rank)
    os.system(f"echo shell {rank}; echo complaint {rank} >&2")


def fail(rank, how, who):
    """Rank `who` does what `how` says; the others wait for it."""
    child = subprocess.Popen(["sleep", "1000"])
    tell_pid()
    print("pid", child.pid)
    dist.barrier()
    if rank == who:
        print("last words", end="")
        HOW[how]()
    dist.barrier()


def _raise():
    raise KeyError("no such gloss")


def _hang():
    while True:
        time.sleep(0.1)


HOW = {
    "raise": _raise,
    "hang": _hang,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "_exit": lambda: os._exit(3),
}


def raise_on_one(rank):
    if rank == 1:
        _raise()
    dist.barrier()


def leave_early(rank):
    if rank != 1:
        dist.barrier()


def wait_for_each_other(rank):
    """Every rank waits for the next to send, and none sends."""
    dist.recv(torch.zeros(1), (rank + 1) % dist.get_world_size())


def return_what_pickle_refuses(rank):
    return lambda: rank


def sleep(rank):
    tell_pid()
    time.sleep(1000)


def pack_all(rank, examples):
    """Pack every example, (lengths of each rank, arguments)."""
    return [pack_distributed(parts[rank], *arguments) for parts, arguments in examples]


def pack_cut(rank, lengths, *arguments):
    """Pack an even cut of `lengths`, without the array of all staying alive; return the share and the peak memory."""
    mine = np.array_split(lengths, dist.get_world_size())[rank].copy()
    pack_distributed(mine[:1], *arguments)  # loads what it needs
    tracemalloc.start()
    share = pack_distributed(mine, *arguments)
    return share, tracemalloc.get_traced_memory()[1]


def pack_where_one_rank_can_plan(rank):
    if rank:
        packing.plan = None
    return pack_distributed([3, 5, 8][: 3 - rank], 8, "lpfhp")
