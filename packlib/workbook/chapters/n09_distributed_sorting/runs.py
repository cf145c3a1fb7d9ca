"""What the ranks of notebook 09 run. Each rank imports this file, so it asks for no figures and no widgets.

`shares[r]` is what rank r holds: rows of (length, sample id). Here every rank is handed all shares and takes its own;
in real work a rank reads only its own from disk.
"""

import os

import numpy as np
import torch
import torch.distributed as dist

from packlib.distributed import (
    DistributedCurriculumSampler,
    PackShare,
    SortedRows,
    exact_sort,
    interleave,
    pack_distributed,
    sort_rows,
    write_ordered,
)
from packlib.distributed.collectives import Collectives


def count_together(rank: int, counts: list[int]) -> str:
    """Add up what each rank has; every rank learns the sum, and none sees another's number."""
    total = torch.tensor(counts[rank])
    dist.all_reduce(total)
    return f"rank {rank} of {dist.get_world_size()} has {counts[rank]} samples; together they have {total}"


def six_pictures(rank: int, rows: np.ndarray) -> dict[str, np.ndarray]:
    """This rank's lengths at each stage of a curriculum."""
    loaded = rows[rank :: dist.get_world_size()]
    in_order = exact_sort(loaded).rows
    stages = {
        "loaded": loaded,
        "local": sort_rows(loaded),
        "global": in_order,
        "dealt": interleave(in_order),
    }
    return {name: stage[:, 0] for name, stage in stages.items()}


def plain_sample_sort(rank: int, shares: list[np.ndarray], samples: int = 100) -> dict[str, np.ndarray]:
    """Sample sort as it is published: what this rank holds after each step."""
    ranks = Collectives()
    mine = sort_rows(shares[rank], by=1)
    lengths = mine[:, 0]
    # Offer lengths at regular distances. All offers together stand for all the data.
    offered = lengths[np.arange(samples) * len(lengths) // samples]
    offers = np.sort(ranks.gather(offered), axis=None)
    # p - 1 of them, at regular distances again, are the splitters between p ranks.
    splitters = offers[len(offers) * np.arange(1, ranks.size) // ranks.size]
    # Rows under a splitter stay before it. All that equal it go behind, to one rank.
    counts = np.diff(np.searchsorted(lengths, splitters), prepend=0, append=len(mine))
    received = ranks.exchange(mine, counts)
    return {"local": mine, "splitters": splitters, "counts": counts, "sorted": sort_rows(received, by=1)}


def counted_sort(rank: int, shares: list[np.ndarray]) -> SortedRows:
    """The library's sort by length, which may cut between equal lengths."""
    return exact_sort(shares[rank], by=1)


def sort_and_write(
    rank: int, shares: list[np.ndarray], path: str | os.PathLike, broken: int | None = None
) -> None:
    """Sort by length and write one file; `broken` is a rank whose rows are of a wrong kind."""
    rows = exact_sort(shares[rank], by=1).rows
    write_ordered(path, rows / 2 if rank == broken else rows)


def tokens_by_curriculum(rank: int, datasets: dict[str, np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """The lengths of this rank's samples in the order that it trains on them."""
    seen = {}
    for name, lengths in datasets.items():
        seen[name, "none"] = lengths[rank :: dist.get_world_size()]
        for curriculum in ("local", "global"):
            sampler = DistributedCurriculumSampler(lengths, lengths, curriculum)
            seen[name, curriculum] = lengths[sampler.order]
    return seen


def pack_share(rank: int, shares: list[np.ndarray], max_length: int, method: str) -> PackShare:
    """This rank's packs of the samples of all ranks."""
    return pack_distributed(shares[rank][:, 0], max_length, method)
