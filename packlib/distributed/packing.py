"""Pack what is spread over many ranks: small histograms travel to all, sample ids go to their packs, lengths stay.

The ranks' samples count as one data set, rank after rank. A plan needs only the histogram of all: rank 0 makes it from
the ranks' histograms and sends it to all. The histograms also tell how many samples of each length the ranks before
hold, and thus which places of the plan a rank's own samples fill, without another word. Pack i of the plan goes to
rank i modulo the number of ranks: all get as many packs of every strategy, give or take one.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch.distributed as dist

from packlib.checks import whole_number
from packlib.collectives import Collectives
from packlib.lengths.counting import MAX_LENGTH, as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing import Method, PackingPlan, Packs, plan
from packlib.packing.assigning import order_by_length


@dataclass(frozen=True, eq=False, repr=False)
class PackShare(Packs):
    """The packs of one rank: `share[j]` is pack `rank + j * world_size` of the plan, as sample ids of all ranks.

    Attributes:
        plan: the plan of all packs, the same on every rank.
        rank, world_size: whose share this is. Where there are fewer packs than ranks, some shares are empty.
        bytes_sent: what this rank handed to others, as "histograms" and as "sample ids"; the plan, and the checks that
            all ranks can go on, which are under a kilobyte, are not counted.
    """

    plan: PackingPlan
    rank: int
    world_size: int
    bytes_sent: dict[str, int]

    def __post_init__(self) -> None:
        if len(self):
            super().__post_init__()

    def __repr__(self) -> str:
        return (
            f"PackShare(rank {self.rank} of {self.world_size}: {len(self):,} of {self.plan.num_packs:,} packs of "
            f"{self.max_length}, {len(self.sample_ids):,} samples, {sum(self.bytes_sent.values()):,} bytes sent)"
        )


def pack_distributed(
    local_lengths: Iterable[int],
    max_length: int,
    method: Method = "auto",
    max_sequences_per_pack: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> PackShare:
    """Pack the samples of all ranks of `group` together; every rank calls this with its own, and gets its packs.

    The id of a sample is its place when the ranks' lengths stand one after the other. Whatever the number of ranks,
    the packs are those that `plan(all_lengths, max_length, method).assign(all_lengths)` makes in one process: samples
    of equal length keep their order, as without a seed.

    No rank holds the lengths or the ids of all.

    Args:
        local_lengths: the tokens of this rank's samples, which may be none.
        max_length, method, max_sequences_per_pack: as in `plan`, the same on every rank.

    Raises:
        RankError: the same on every rank, if an argument of one of them is wrong, or no rank has a sample.
        TypeError, ValueError: the same without a process group.
    """
    ranks = Collectives(group)
    with ranks.agree_on_errors():
        max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
        lengths = as_lengths(local_lengths, at_least=0)
        if (over := lengths > max_length).any():
            place = f"{lengths[over.argmax()]} at position {over.argmax()}"
            raise ValueError(f"Length {place} is over the maximum length {max_length}: truncate or drop it.")
        order, starts = order_by_length(lengths, max_length)
    ranks.check_same(max_length=max_length, method=method, max_sequences_per_pack=max_sequences_per_pack)
    histograms = ranks.gather(np.diff(starts).astype(np.int64))
    for_histograms = ranks.bytes_sent
    with ranks.agree_on_errors():
        if ranks.rank == 0:  # other processors may round otherwise, and another plan would scramble the packs
            everyones = LengthHistogram(histograms.sum(0))
            limit = max_sequences_per_pack
            best = plan(everyones, method=method, max_sequences_per_pack=limit, on_interrupt="raise")
    made: PackingPlan = ranks.broadcast(best if ranks.rank == 0 else None)

    # For each item of the plan: its first sample, among all of its length, and how many of its packs the ranks
    # before r fill; samples_before[r] counts the samples of that length on them.
    first_samples = _first_samples(made)
    samples_before = np.concatenate([np.zeros_like(histograms[:1]), np.cumsum(histograms, 0)])[:, made.items]
    filled = np.clip(samples_before - first_samples, 0, np.repeat(made.repeats, made.sizes))
    first_packs = np.repeat(np.cumsum(made.repeats) - made.repeats, made.sizes)

    pieces: list[list[np.ndarray]] = [[] for _ in range(ranks.size)]  # what this rank sends to each
    low, high = filled[ranks.rank], filled[ranks.rank + 1]
    mine = starts[made.items] + first_samples + low - samples_before[ranks.rank]
    for first, pack, count in np.stack([mine, first_packs + low, high - low], axis=1)[low < high].tolist():
        for i in range(min(ranks.size, count)):
            pieces[(pack + i) % ranks.size].append(order[first + i : first + count : ranks.size])
    sizes = histograms.sum(1)
    id_type = np.int32 if sizes.max() < 2**31 else np.int64  # ids travel as positions on their rank
    ids = np.concatenate([np.empty(0, id_type), *itertools.chain(*pieces)], dtype=id_type)
    received = ranks.exchange(ids[:, None], [sum(map(len, some)) for some in pieces])[:, 0]

    share = deal(made, ranks.rank, ranks.size)
    ends = np.concatenate([[0], np.cumsum(np.repeat(made.sizes, share))])
    sample_ids = np.empty(ends[-1], np.int32 if sizes.sum() < 2**31 - 1 else np.int64)
    first_positions = np.repeat(np.cumsum(share * made.sizes) - share * made.sizes - made.offsets[:-1], made.sizes)
    first_positions += np.arange(len(made.items))
    # how many of its packs that are this rank's the ranks before r fill: every `ranks.size`th is
    filled = -(((ranks.rank - first_packs) % ranks.size - filled) // ranks.size)
    first_ids, done = np.cumsum(sizes) - sizes, 0
    for sender, (low, high) in enumerate(itertools.pairwise(filled)):
        steps = np.repeat(made.sizes, made.sizes)
        runs = np.stack([first_positions + low * steps, steps, high - low], axis=1)
        for first, step, count in runs[low < high].tolist():
            goal = sample_ids[first : first + count * step : step]
            np.add(received[done : done + count], first_ids[sender], out=goal, dtype=goal.dtype)
            done += count
    strategies = np.split(made.items.astype(np.int32), made.offsets[1:-1])
    held = np.concatenate([np.tile(items, n) for items, n in zip(strategies, share.tolist(), strict=True)])
    sent = {"histograms": for_histograms, "sample ids": ranks.bytes_sent - for_histograms}
    return PackShare(sample_ids, ends, held, max_length, made, ranks.rank, ranks.size, sent)


def _first_samples(plan: PackingPlan) -> np.ndarray:
    """For each item of the plan, how many samples of its length the items before it take."""
    order = np.argsort(plan.items, kind="stable")
    lengths, taken = plan.items[order], np.repeat(plan.repeats, plan.sizes)[order]
    before = np.cumsum(taken) - taken
    return (before - before[np.searchsorted(lengths, lengths)])[np.argsort(order)]


def deal(plan: PackingPlan, ranks: int | np.ndarray, world_size: int) -> np.ndarray:
    """Count the packs of each strategy that a rank gets when all packs are dealt in turn.

    Args:
        ranks: one rank, or several in an array.

    Returns:
        int64, shape (number of strategies,), or (number of strategies, number of `ranks`).
    """
    up_to = np.subtract.outer(np.cumsum(plan.repeats) + world_size - 1, ranks) // world_size
    return np.diff(up_to, axis=0, prepend=0)
