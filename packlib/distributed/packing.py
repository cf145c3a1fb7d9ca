"""Pack what is spread over many ranks: small histograms travel to all, sample ids go to their packs, lengths stay.

The ranks' samples count as one data set, rank after rank. A plan needs only the histogram of all, so every rank makes
the same plan from the ranks' histograms. These also tell how many samples of each length the ranks before hold, and
thus which places of the plan a rank's own samples fill, without another word. Pack i of the plan goes to rank i modulo
the number of ranks: all get as many packs of every strategy, give or take one.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch.distributed as dist

from packlib.checks import whole_number
from packlib.distributed.agreement import check_same
from packlib.distributed.collectives import Collectives
from packlib.lengths.counting import MAX_LENGTH, as_integers, as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing import PackingPlan, Packs, plan
from packlib.packing.packs import order_by_length


@dataclass(frozen=True, eq=False, repr=False)
class PackShare(Packs):
    """The packs of one rank: `share[j]` is pack `rank + j * world_size` of the plan, as sample ids of all ranks.

    Attributes:
        plan: the plan of all packs, the same on every rank.
        rank, world_size: whose share this is. Where there are fewer packs than ranks, some shares are empty.
        bytes_sent: what this rank handed to others, as "histograms" and as "sample ids"; the checks that all ranks
            can go on are under a kilobyte, and not counted.
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
    method: str = "optimal",
    max_sequences_per_pack: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> PackShare:
    """Pack the samples of all ranks of `group` together; every rank calls this with its own, and gets its packs.

    The id of a sample is its place when the ranks' lengths stand one after the other. Whatever the number of ranks,
    the packs are those that `assign(plan(histogram, method), all_lengths)` makes in one process: samples of equal
    length keep their order, as without a seed. No rank holds the lengths or the ids of all.

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
        lengths = _checked(local_lengths, max_length)
        order, starts = order_by_length(lengths, max_length)
    if ranks.size > 1:
        check_same(group, max_length=max_length, method=method, max_sequences_per_pack=max_sequences_per_pack)
    histograms = ranks.gather(np.diff(starts).astype(np.int64))
    for_histograms = ranks.bytes_sent
    with ranks.agree_on_errors():
        made = plan(LengthHistogram(histograms.sum(0)), method, max_sequences_per_pack)
    if ranks.size > 1:  # other processors may round otherwise, and another plan would scramble the packs
        digest = hashlib.sha256(b"".join([made.items.data, made.offsets.data, made.repeats.data])).hexdigest()
        check_same(group, plan=digest)

    # before[r, l]: samples of length l on the ranks before r
    before = np.concatenate([np.zeros_like(histograms[:1]), np.cumsum(histograms, 0)])
    pieces = _pieces(made, order, starts, before, ranks.rank)
    sizes = histograms.sum(1)
    id_type = np.int32 if sizes.max() < 2**31 else np.int64  # ids travel as places on their rank
    ids = np.concatenate([np.empty(0, id_type), *(piece for some in pieces for piece in some)], dtype=id_type)
    received = ranks.exchange(ids[:, None], [sum(map(len, some)) for some in pieces])[:, 0]

    share = deal(made, ranks.rank, ranks.size)
    ends = np.concatenate([[0], np.cumsum(np.repeat(made.sizes, share))])
    sample_ids = np.empty(ends[-1], np.int32 if sizes.sum() < 2**31 - 1 else np.int64)
    first_ids, done = np.cumsum(sizes) - sizes, 0
    for sender, some in enumerate(_places(made, share, before, ranks.rank)):
        for count, places in some:
            here = received[done : done + count]
            np.add(here, first_ids[sender], out=sample_ids[places], dtype=sample_ids.dtype)
            done += count
    totals = np.add.reduceat(made.items, made.offsets[:-1]).astype(np.int32)
    sent = {"histograms": for_histograms, "sample ids": ranks.bytes_sent - for_histograms}
    return PackShare(sample_ids, ends, np.repeat(totals, share), max_length, made, ranks.rank, ranks.size, sent)


def deal(plan: PackingPlan, ranks: int | np.ndarray, world_size: int) -> np.ndarray:
    """How many packs of each strategy a rank gets when all packs are dealt in turn.

    Args:
        ranks: one rank, or several in an array.

    Returns:
        int64, shape (number of strategies,), or (number of strategies, number of `ranks`).
    """
    up_to = np.subtract.outer(np.cumsum(plan.repeats) + world_size - 1, ranks) // world_size
    return np.diff(up_to, axis=0, prepend=0)


def packing_traffic(world_size: int, num_sequences: int, max_length: int, bandwidth: float) -> dict[str, float]:
    """What `pack_distributed` sends on paper, for each rank, when every rank holds an even mix of the data.

    Args:
        bandwidth: bytes a second that a rank can send.

    Returns:
        "histograms" and "sample ids" in bytes, as `PackShare.bytes_sent` counts them, and both in "seconds".
    """
    samples = num_sequences / world_size
    counts = 8 * (world_size - 1)  # a rank tells each other how many ids come
    sent = {
        "histograms": 8 * (max_length + 1) * (world_size - 1),
        "sample ids": (4 if samples < 2**31 else 8) * samples * (1 - 1 / world_size) + counts,
    }
    return {**sent, "seconds": sum(sent.values()) / bandwidth}


def _checked(lengths: Iterable[int], max_length: int) -> np.ndarray:
    lengths = as_integers(lengths, "Length")
    if lengths.size and int(as_lengths(lengths).max()) > max_length:
        at = int(np.argmax(lengths > max_length))
        raise ValueError(
            f"Length {lengths[at]} at position {at} is over the maximum length {max_length}: truncate or drop it."
        )
    return lengths


def _columns(plan: PackingPlan) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Go through the strategies, and through the lengths of each.

    Yields:
        strategy, column, length, first sample (a place among all samples of that length), first pack, repeats.
    """
    taken = [0] * (plan.histogram.max_length + 1)
    first_pack = 0
    for s, (strategy, repeats) in enumerate(zip(plan.strategies, plan.repeats.tolist(), strict=True)):
        for column, length in enumerate(strategy):
            yield s, column, length, taken[length], first_pack, repeats
            taken[length] += repeats
        first_pack += repeats


def _pieces(
    plan: PackingPlan, order: np.ndarray, starts: np.ndarray, before: np.ndarray, rank: int
) -> list[list[np.ndarray]]:
    """What this rank sends to each: its samples for that rank's packs, in the order of `_columns`."""
    world_size = len(before) - 1
    first, end, starts = before[rank].tolist(), before[rank + 1].tolist(), starts.tolist()
    pieces: list[list[np.ndarray]] = [[] for _ in range(world_size)]
    for _, _, length, sample, pack, repeats in _columns(plan):
        low, high = max(sample, first[length]), min(sample + repeats, end[length])
        if low < high:
            shift = starts[length] - first[length]
            mine = order[low + shift : high + shift]
            for i in range(min(world_size, high - low)):
                pieces[(pack + low - sample + i) % world_size].append(mine[i::world_size])
    return pieces


def _places(plan: PackingPlan, share: np.ndarray, before: np.ndarray, rank: int) -> list[list[tuple[int, slice]]]:
    """Where this rank puts what each rank sends: how many ids, and into which places, in the order of `_columns`."""
    world_size, sizes = len(before) - 1, plan.sizes.tolist()
    first_places = (np.cumsum(share * plan.sizes) - share * plan.sizes).tolist()
    places: list[list[tuple[int, slice]]] = [[] for _ in range(world_size)]
    for s, column, length, sample, pack, _ in _columns(plan):
        packs, size = int(share[s]), sizes[s]
        if packs:
            # the first of this rank's packs takes sample `sample + skip`, each next one that after `world_size` more
            skip = (rank - pack) % world_size
            ends = -((sample + skip - before[:, length]) // world_size)
            ends = np.minimum(np.maximum(ends, 0), packs).tolist()
            first = first_places[s] + column
            for sender, (low, high) in enumerate(itertools.pairwise(ends)):
                if low < high:
                    places[sender].append((high - low, slice(first + low * size, first + high * size, size)))
    return places
