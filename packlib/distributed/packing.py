"""Pack what is spread over many ranks: small histograms travel to all, sample ids go to their packs, lengths stay.

The ranks' samples count as one data set, rank after rank. A plan needs only the histogram of all: rank 0 makes it from
the ranks' histograms and sends it to all. The histograms also tell which samples of each length a rank holds among
all, and thus which packs they go to, without another word. Pack i of the plan goes to rank i modulo the number of
ranks: all get as many packs of every strategy, give or take one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch.distributed as dist

from packlib.checks import whole_number
from packlib.distributed.collectives import Collectives
from packlib.lengths.counting import MAX_LENGTH, as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing import Method, PackingPlan, Packs, plan
from packlib.packing.assigning import order_by_length
from packlib.packing.ragged import ranges


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
    method: Method = "optimal",
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
            best = plan(everyones, method=method, max_sequences_per_pack=max_sequences_per_pack)
    made: PackingPlan = ranks.broadcast(best if ranks.rank == 0 else None)

    # A sample's number is its place in the order of all by length, rank and id; each item of the plan takes the next
    # numbers of its length. Where do those of each length and rank begin, and those of each item?
    begins = np.cumsum(histograms.T) - histograms.T.ravel()
    by_length = np.argsort(made.items, kind="stable")
    repeats = np.repeat(made.repeats, made.sizes)
    of_items = np.cumsum(repeats[by_length]) - repeats[by_length]
    first_packs = np.repeat(np.cumsum(made.repeats) - made.repeats, made.sizes)  # of each item's strategy

    mine = lengths[order].astype(np.intp)
    numbers = begins[mine * ranks.size + ranks.rank] + np.arange(len(mine)) - starts[mine]
    at = np.searchsorted(of_items, numbers, "right") - 1
    goals = (first_packs[by_length[at]] + numbers - of_items[at]) % ranks.size
    sizes = histograms.sum(1)
    id_type = np.int32 if sizes.max() < 2**31 else np.int64  # ids travel as places on their rank
    ids = order[np.argsort(goals, kind="stable")].astype(id_type)
    received = ranks.exchange(ids[:, None], np.bincount(goals, minlength=ranks.size))[:, 0]

    # What this rank's packs hold, as items of the plan; by their numbers it is known who sent each sample, and when.
    strategies = np.repeat(np.arange(len(made.repeats)), deal(made, ranks.rank, ranks.size))
    held = ranges(made.offsets[strategies], made.sizes[strategies])
    packs = np.repeat(np.arange(ranks.rank, made.num_packs, ranks.size), made.sizes[strategies])
    numbers = of_items[np.argsort(by_length)[held]] + packs - first_packs[held]
    senders = (np.searchsorted(begins, numbers, "right") - 1) % ranks.size
    came = np.lexsort((numbers, senders))
    sample_ids = np.empty(len(held), np.int32 if sizes.sum() < 2**31 - 1 else np.int64)
    sample_ids[came] = received + (np.cumsum(sizes) - sizes)[senders[came]]
    offsets = np.concatenate([[0], np.cumsum(made.sizes[strategies])])
    sent = {"histograms": for_histograms, "sample ids": ranks.bytes_sent - for_histograms}
    held_lengths = made.items[held].astype(np.int32)
    return PackShare(sample_ids, offsets, held_lengths, max_length, made, ranks.rank, ranks.size, sent)


def deal(plan: PackingPlan, ranks: int | np.ndarray, world_size: int) -> np.ndarray:
    """How many packs of each strategy a rank gets when all packs are dealt in turn.

    Args:
        ranks: one rank, or several in an array.

    Returns:
        int64, shape (number of strategies,), or (number of strategies, number of `ranks`).
    """
    up_to = np.subtract.outer(np.cumsum(plan.repeats) + world_size - 1, ranks) // world_size
    return np.diff(up_to, axis=0, prepend=0)
