"""What notebook 09 runs on several ranks. Each rank imports this file, so it loads no figures and no widgets.

`shares[r]` has the rows of rank r, shape (rows, 2): length and sample id. Here every rank gets all shares and takes its
own; in real work a rank reads only its own from disk.
"""

import os
from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist

from packbook.n09_distributed_sorting.one_file import write_ordered
from packlib.collectives import Collectives
from packlib.distributed import (
    DistributedCurriculumSampler,
    PackShare,
    SortedRows,
    deal,
    exact_sort,
    interleave,
    pack_distributed,
    sort_rows,
)
from packlib.packing import Method, PackingPlan


def count_together(rank: int, counts: list[int]) -> str:
    """Add up what each rank has; every rank learns the sum, and none sees another's number."""
    total = torch.tensor(counts[rank])
    dist.all_reduce(total)
    return f"rank {rank} of {dist.get_world_size()} has {counts[rank]} samples; together they have {total}"


def six_pictures(rank: int, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return this rank's lengths at each stage of a curriculum, by the name of the stage.

    Args:
        rows: of the whole data set, shape (samples, 2): length and sample id.
    """
    loaded = rows[rank :: dist.get_world_size()]
    in_order = exact_sort(loaded).rows
    stages = {"loaded": loaded, "local": sort_rows(loaded), "global": in_order, "dealt": interleave(in_order)}
    return {name: stage[:, 0] for name, stage in stages.items()}


def plain_sample_sort(rank: int, shares: list[np.ndarray], samples: int = 100) -> dict[str, np.ndarray]:
    """Sort by length with sample sort as it is published, and return what this rank has after each step.

    Args:
        samples: how many lengths a rank offers.

    Returns:
        "local", its rows sorted; "splitters", the lengths that divide the ranks; "counts", how many of its rows go to
        each rank; and "sorted", the rows that it ends with.
    """
    ranks = Collectives()
    local_rows = sort_rows(shares[rank], by=1)
    lengths = local_rows[:, 0]
    # Offer lengths at regular distances. All offers together stand for all the data.
    offered = lengths[np.arange(samples) * len(lengths) // samples]
    offers = np.sort(ranks.gather(offered), axis=None)
    # p - 1 of them, at regular distances again, are the splitters between p ranks.
    splitters = offers[len(offers) * np.arange(1, ranks.size) // ranks.size]
    # Rows under a splitter stay before it. All that equal it go behind, to one rank.
    counts = np.diff(np.searchsorted(lengths, splitters), prepend=0, append=len(local_rows))
    received = ranks.exchange(local_rows, counts)
    return {"local": local_rows, "splitters": splitters, "counts": counts, "sorted": sort_rows(received, by=1)}


def counted_sort(rank: int, shares: list[np.ndarray]) -> SortedRows:
    """Return the library's sort by length, which may cut between equal lengths."""
    return exact_sort(shares[rank], by=1)


def sort_and_write(rank: int, shares: list[np.ndarray], path: str | os.PathLike, broken: int | None = None) -> None:
    """Sort by length and write one file; if a rank is `broken`, its rows are fractions, which are refused."""
    rows = exact_sort(shares[rank], by=1).rows
    write_ordered(path, rows / 2 if rank == broken else rows)


def tokens_by_curriculum(rank: int, datasets: dict[str, np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """Return the lengths of this rank's samples in the order that it trains on them.

    Args:
        datasets: lengths by name.

    Returns:
        Lengths by the name of the data set, and "none", "local" or "global" for the curriculum.
    """
    lengths_in_order = {}
    for name, lengths in datasets.items():
        lengths_in_order[name, "none"] = lengths[rank :: dist.get_world_size()]
        for curriculum in ("local", "global"):
            sampler = DistributedCurriculumSampler(lengths, lengths, curriculum)
            lengths_in_order[name, curriculum] = lengths[sampler.order]
    return lengths_in_order


def pack_share(rank: int, shares: list[np.ndarray], max_length: int, method: Method) -> PackShare:
    """Return this rank's packs of the samples of all ranks."""
    return pack_distributed(shares[rank][:, 0], max_length, method)


# In one process


def plain_loads(lengths: np.ndarray, samples: int = 100) -> np.ndarray:
    """Count the rows that each rank has after `plain_sample_sort`, in one process and without moving a row.

    Args:
        lengths: shape (ranks, rows of each).
        samples: how many lengths a rank offers.

    Returns:
        Shape (ranks,).
    """
    ranks, rows = lengths.shape
    offered_places = np.arange(samples) * rows // samples  # at regular distances among a rank's sorted lengths
    offers = np.sort(np.sort(lengths)[:, offered_places], axis=None)
    splitters = offers[len(offers) * np.arange(1, ranks) // ranks]
    rows_up_to = np.cumsum(np.bincount(lengths.ravel()))  # rows of each length or less
    rows_below_splitters = rows_up_to[splitters - 1]
    return np.diff(rows_below_splitters, prepend=0, append=lengths.size)


def step_loads(seen: Sequence[np.ndarray], batch: int) -> np.ndarray:
    """Count the tokens of each step and rank; shape (steps, ranks).

    Args:
        seen: of each rank, the lengths in the order in which it trains on them.
        batch: sequences that a rank takes in a step.
    """
    return np.stack([lengths.reshape(-1, batch).sum(axis=1) for lengths in seen], axis=1)


def dealt_loads(plan: PackingPlan, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the packs and the tokens of each rank if the packs of a plan are dealt out in turn; shapes (ranks,)."""
    packs = deal(plan, np.arange(ranks), ranks)  # of each strategy and rank, shape (strategies, ranks)
    tokens_of_strategy = np.add.reduceat(plan.items, plan.offsets[:-1])  # the items are lengths
    return packs.sum(axis=0), tokens_of_strategy @ packs


def packing_traffic(world_size: int, num_sequences: int, max_length: int) -> dict[str, float]:
    """Estimate the bytes that each rank of `pack_distributed` sends, if each holds an even mix of the data.

    Returns:
        Bytes by the kinds of `PackShare.bytes_sent`.
    """
    samples_of_a_rank, other_ranks = num_sequences / world_size, world_size - 1
    bytes_of_an_id = 4 if samples_of_a_rank < 2**31 else 8  # it is sent as a position on the rank that holds it
    ids_sent = samples_of_a_rank * other_ranks / world_size
    bytes_of_ids = bytes_of_an_id * ids_sent + 8 * other_ranks  # and 8 bytes to each rank that say how many ids come
    return {"histograms": 8 * (max_length + 1) * other_ranks, "sample ids": bytes_of_ids}


def time_in_words(seconds: float) -> str:
    """Write a time with a unit that suits it.

    >>> from packbook.n09_distributed_sorting.runs import time_in_words
    >>> time_in_words(2.9e-6), time_in_words(0.16), time_in_words(160)
    ('3 µs', '160 ms', '160 s')
    """
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if unit == "s" else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
