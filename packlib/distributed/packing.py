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

from packlib.arguments import instance, whole_number
from packlib.collectives import Collectives
from packlib.lengths.counting import MAX_LENGTH, as_integers, as_lengths
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
        if len(self):  # a share may be empty, which the check of `Packs` refuses
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
        if (too_long := lengths > max_length).any():
            place = f"{lengths[too_long.argmax()]} at position {too_long.argmax()}"
            raise ValueError(f"Length {place} is over the maximum length {max_length}: truncate or drop it.")
        by_length, starts = order_by_length(lengths, max_length)
    ranks.check_same(max_length=max_length, method=method, max_sequences_per_pack=max_sequences_per_pack)
    histograms = ranks.gather(np.diff(starts).astype(np.int64))  # shape (ranks, max_length + 1)
    bytes_of_histograms = ranks.bytes_sent
    with ranks.agree_on_errors():
        if ranks.rank == 0:  # other processors may round otherwise, and another plan would scramble the packs
            if not histograms.any():
                raise ValueError("There are no lengths on any rank; at least one is needed.")
            limit = max_sequences_per_pack
            first_plan = plan(
                LengthHistogram(histograms.sum(0)), method=method, max_sequences_per_pack=limit, on_interrupt="raise"
            )
    shared_plan: PackingPlan = ranks.broadcast(first_plan if ranks.rank == 0 else None)

    places = _Places.of(shared_plan, histograms)
    positions, counts = _outgoing(places, by_length, starts, ranks.rank, ranks.size)
    samples_of_ranks = histograms.sum(1)
    position_type = np.int32 if samples_of_ranks.max() < 2**31 else np.int64
    received = ranks.exchange(positions.astype(position_type)[:, None], counts)[:, 0]

    packs_of_strategies = deal(shared_plan, ranks.rank, ranks.size)  # of this rank
    offsets = np.concatenate([[0], np.cumsum(np.repeat(shared_plan.sizes, packs_of_strategies))])
    sample_ids = np.empty(offsets[-1], np.int32 if samples_of_ranks.sum() < 2**31 - 1 else np.int64)
    _fill(sample_ids, received, samples_of_ranks, places, packs_of_strategies, ranks.rank)
    strategies = np.split(shared_plan.items.astype(np.int32), shared_plan.offsets[1:-1])
    strategies_and_packs = zip(strategies, packs_of_strategies.tolist(), strict=True)
    pack_lengths = np.concatenate([np.tile(items, packs) for items, packs in strategies_and_packs])
    sent = {"histograms": bytes_of_histograms, "sample ids": ranks.bytes_sent - bytes_of_histograms}
    return PackShare(sample_ids, offsets, pack_lengths, max_length, shared_plan, ranks.rank, ranks.size, sent)


@dataclass(frozen=True, eq=False)
class _Places:
    """Places of the ranks' samples in the packs of a plan.

    An item is one place of a strategy: a strategy of the lengths 5, 5 and 2 has three. Samples of a length, in the
    order of ranks, fill the items of that length one after the other, and the packs of an item from the first to the
    last. So the samples of a rank fill, of each item, packs in a row.

    Attributes:
        plan: the plan of all packs.
        first_samples: samples of its length that the items before an item take; int64, shape (items,).
        samples_before: row r: samples of an item's length on the ranks before r; int64, shape (ranks + 1, items).
        packs_before: row r: packs of an item that the samples of the ranks before r fill; int64, same shape.
        first_packs: the first pack of the plan that has an item; int64, shape (items,).
    """

    plan: PackingPlan
    first_samples: np.ndarray
    samples_before: np.ndarray
    packs_before: np.ndarray
    first_packs: np.ndarray

    @classmethod
    def of(cls, plan: PackingPlan, histograms: np.ndarray) -> "_Places":
        """Find them from the histogram of each rank; shape (ranks, maximum length + 1)."""
        first_samples = _first_samples(plan)
        counts_before = np.concatenate([np.zeros_like(histograms[:1]), np.cumsum(histograms, 0)])
        samples_before = counts_before[:, plan.items]
        packs_of_items = np.repeat(plan.repeats, plan.sizes)
        packs_before = np.clip(samples_before - first_samples, 0, packs_of_items)
        first_packs = np.repeat(np.cumsum(plan.repeats) - plan.repeats, plan.sizes)
        return cls(plan, first_samples, samples_before, packs_before, first_packs)


def _outgoing(
    places: _Places, by_length: np.ndarray, starts: np.ndarray, rank: int, world_size: int
) -> tuple[np.ndarray, list[int]]:
    """Choose which of this rank's samples go to which rank.

    Args:
        by_length: the positions of this rank's samples, from short to long.
        starts: where those of each length begin in `by_length`, and the end.

    Returns:
        The positions of this rank's samples, first those that rank 0 gets, in the order in which it fills its packs
        with them, then those of rank 1, …; and how many each rank gets.
    """
    low = places.packs_before[rank]
    high = places.packs_before[rank + 1]
    # this rank fills packs `low` to `high` - 1 of each item; a run says with which samples, from which pack of the plan
    own_samples_before = places.first_samples + low - places.samples_before[rank]  # of the same length
    first_of_items = starts[places.plan.items] + own_samples_before
    runs = np.stack([first_of_items, places.first_packs + low, high - low], axis=1)
    pieces: list[list[np.ndarray]] = [[] for _ in range(world_size)]  # for each rank
    for first, pack, count in runs[low < high].tolist():
        for i in range(min(world_size, count)):  # every `world_size`th pack goes to the same rank
            pieces[(pack + i) % world_size].append(by_length[first + i : first + count : world_size])
    positions = np.concatenate([np.empty(0, by_length.dtype), *itertools.chain(*pieces)])
    return positions, [sum(map(len, pieces_of_rank)) for pieces_of_rank in pieces]


def _fill(
    sample_ids: np.ndarray,
    received: np.ndarray,
    samples_of_ranks: np.ndarray,
    places: _Places,
    packs_of_strategies: np.ndarray,
    rank: int,
) -> None:
    """Write the sample ids of this rank's packs, one pack after the other, into `sample_ids`.

    Args:
        received: the samples by their positions on the ranks that sent them, rank after rank.
        samples_of_ranks: how many each rank has.
        packs_of_strategies: this rank's packs of each strategy.
    """
    plan, world_size = places.plan, len(samples_of_ranks)
    ids_of_strategies = packs_of_strategies * plan.sizes
    ids_before_strategies = np.cumsum(ids_of_strategies) - ids_of_strategies
    # for each item, where its sample stands in the first pack of its strategy, and the ids from a pack to the next
    first_places = np.repeat(ids_before_strategies - plan.offsets[:-1], plan.sizes) + np.arange(len(plan.items))
    steps = np.repeat(plan.sizes, plan.sizes)
    # of an item's packs every `world_size`th is this rank's: count those among `places.packs_before`, rounded up
    first_own_pack = (rank - places.first_packs) % world_size
    packs_before = -((first_own_pack - places.packs_before) // world_size)
    first_ids = np.cumsum(samples_of_ranks) - samples_of_ranks  # the id of each rank's first sample
    done = 0
    for sender, (low, high) in enumerate(itertools.pairwise(packs_before)):
        runs = np.stack([first_places + low * steps, steps, high - low], axis=1)
        for first, step, count in runs[low < high].tolist():
            target = sample_ids[first : first + count * step : step]
            np.add(received[done : done + count], first_ids[sender], out=target, dtype=target.dtype)
            done += count


def _first_samples(plan: PackingPlan) -> np.ndarray:
    """Count, for each item of the plan, the samples of its length that the items before it take; int64, (items,)."""
    order = np.argsort(plan.items, kind="stable")  # items of equal length side by side
    lengths = plan.items[order]
    samples = np.repeat(plan.repeats, plan.sizes)[order]
    samples_before = np.cumsum(samples) - samples
    first_of_length = np.searchsorted(lengths, lengths)
    in_order = samples_before - samples_before[first_of_length]
    return in_order[np.argsort(order)]  # back in the order of the items


def deal(plan: PackingPlan, ranks: int | np.ndarray, world_size: int) -> np.ndarray:
    """Count the packs of each strategy that a rank gets when all packs are dealt in turn.

    Args:
        ranks: one rank, or several in an array; each from 0 to `world_size` - 1.

    Returns:
        int64, shape (number of strategies,), or (number of strategies, number of `ranks`).

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    instance("plan", plan, PackingPlan)
    world_size = whole_number("world_size", world_size, 1)
    whole_ranks = as_integers(ranks if isinstance(ranks, Iterable) else [ranks], "Rank")
    whole_number("ranks", whole_ranks.min(initial=0), 0)
    whole_number("ranks", whole_ranks.max(initial=0), 0, world_size - 1)
    packs_up_to = np.cumsum(plan.repeats)  # the end of each strategy
    # rank r has, of the first n packs, (n - r) / world_size, rounded up
    packs_of_ranks_up_to = np.subtract.outer(packs_up_to + world_size - 1, ranks) // world_size
    return np.diff(packs_of_ranks_up_to, axis=0, prepend=0)
