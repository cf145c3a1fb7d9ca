"""Groups of ranks for the sequences of one step: several ranks share a sequence that is too heavy for one.

Trainers call this dynamic or hybrid context parallelism. A group's ranks work on one sequence at a time, each on its
two chunks, which `packlib.work.context_parallel` describes.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from packlib.arguments import percent, whole_number
from packlib.lengths.counting import as_lengths
from packlib.work.cost import Work, check_work

_NEAR = 0.05  # of the bound: if the slowest rank is at most so much above it, no smaller share is tried
_SHARES = 2.0 ** -np.arange(0, 12, 0.5)  # of a step's time, for one sequence at most: tried from 1 down


@dataclass(frozen=True, eq=False)
class RankGroups:
    """Which ranks work on each sequence of a step.

    Each rank takes its largest groups first, so the ranks of a group begin together.

    Attributes:
        group_sizes: number of ranks that share each sequence; int64, shape (number of sequences,).
        first_ranks: for each sequence the first of its ranks; the others follow it. int64, same shape.
        rank_work: the work of each rank, padding included; float64, shape (ranks,).
        bound: an equal share of the work of all sequences, without padding: a lower bound on the slowest rank's work,
            over all groups.
        exchanged_tokens: how many times the keys and values of a token are sent; l (g - 1) for a sequence of l tokens
            on g ranks.
    """

    group_sizes: np.ndarray
    first_ranks: np.ndarray
    rank_work: np.ndarray
    bound: float
    exchanged_tokens: int

    @property
    def slowest(self) -> float:
        """The work of the slowest rank, which the step lasts for."""
        return float(self.rank_work.max())

    @property
    def above_bound(self) -> float:
        """Time of the step above `bound`, as a share of it."""
        return self.slowest / self.bound - 1

    def __repr__(self) -> str:
        sizes, counts = np.unique(self.group_sizes, return_counts=True)
        on = ", ".join(f"{count:,} on {size}" for size, count in zip(sizes.tolist(), counts.tolist(), strict=True))
        above = percent(self.above_bound, 2)
        return f"RankGroups({on} of {len(self.rank_work)} ranks, the slowest {above} above the bound)"


def share_sequences(lengths: Iterable[int], ranks: int, max_length: int, *, work: Work | None = None) -> RankGroups:
    """Share the heavy sequences of a step among groups of ranks, so that all ranks have about equal work.

    `group_sizes` says how many ranks a group can have: 1, 2, 4 or 12 of 12 ranks. Each size divides the next, so that
    the ranks of a group begin together.

    Each sequence gets the smallest group whose ranks can hold their parts of it, and need at most a certain share of
    the step for it. This share starts at the whole step and is lowered until the slowest rank is at most 5 % above the
    bound; the lower it is, the more sequences are shared and the more tokens are sent. If no share comes that close,
    the result that comes closest is returned.

    The sequences of the largest groups are placed first, and among those of one size the heaviest first. Each goes to
    the group with the least work so far (Graham 1969), so the slowest rank does at most one part more than the average.

    >>> import numpy as np
    >>> from packlib.work import share_sequences
    >>> lengths = np.random.default_rng(1).lognormal(8.7, 1, 512).clip(16, 131_072).astype(int)
    >>> share_sequences(lengths, ranks=8, max_length=32_768)
    RankGroups(492 on 1, 16 on 2, 4 on 4 of 8 ranks, the slowest 0.03 % above the bound)

    Args:
        lengths: the tokens of each sequence.
        ranks: number of ranks that train together.
        max_length: most tokens of one sequence that a rank can hold.
        work: what a sequence costs, by default `Work.decoder()`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong, or a sequence that all ranks together cannot hold.
    """
    check_work(work := Work.decoder() if work is None else work)
    lengths = as_lengths(lengths).astype(np.int64)
    ranks = whole_number("ranks", ranks, 1)
    whole_number("max_length", max_length, 1)
    sizes = group_sizes(ranks)
    chunks = np.where(sizes > 1, 2 * sizes, 1)  # of which each rank of a group gets two
    # for each sequence on a group of each size: its tokens, a rank's work, and whether it fits; (sequences, sizes)
    padded = -(-lengths[:, None] // chunks) * chunks
    part_works = work.total(padded, padded.astype(np.float64) ** 2) / sizes
    fits = padded <= max_length * sizes
    fits_somewhere = fits.any(axis=1)
    if not fits_somewhere.all():
        sequence = int(fits_somewhere.argmin())
        raise ValueError(
            f"max_length {max_length} allows {max_length * ranks} tokens on all {ranks} ranks together; "
            f"sequence {sequence} has {lengths[sequence]}, padded to {padded[sequence, -1]} there."
        )
    # for each sequence the place in `sizes` of its group's size; padding may make it too long for the largest groups
    largest = len(sizes) - 1 - fits[:, ::-1].argmax(axis=1)
    bound = float(work.of(lengths).sum() / ranks)
    results = list[RankGroups]()
    for share in _SHARES:
        is_light = fits & (part_works <= share * bound)
        smallest = np.where(is_light.any(axis=1), is_light.argmax(axis=1), largest)
        part_works_there = part_works[np.arange(len(lengths)), smallest]
        first_ranks, rank_works = place_on_groups(sizes[smallest], part_works_there, ranks)
        exchanged = int((lengths * (sizes[smallest] - 1)).sum())
        results.append(RankGroups(sizes[smallest], first_ranks, rank_works, bound, exchanged))
        if results[-1].above_bound <= _NEAR or (smallest == largest).all():
            break
    return min(results, key=lambda result: result.slowest)


def group_sizes(ranks: int) -> np.ndarray:
    """List the sizes that a group can have, ascending, from 1 to all ranks; int64.

    Each size is the one before times the next prime factor of the ranks, the smallest first.

    >>> from packlib.work.rank_groups import group_sizes
    >>> group_sizes(12).tolist(), group_sizes(30).tolist()
    ([1, 2, 4, 12], [1, 2, 6, 30])
    """
    sizes = [1]
    quotient = ranks  # divided by the prime factors that are in the last size
    factor = 2
    while quotient > 1:
        if factor * factor > quotient:  # a number without a small factor is prime
            factor = quotient
        if quotient % factor:
            factor += 1
        else:
            sizes.append(sizes[-1] * factor)
            quotient //= factor
    return np.array(sizes, np.int64)


def place_on_groups(sizes: np.ndarray, part_works: np.ndarray, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Place each sequence on the group with the least work so far, the largest groups and heaviest sequences first.

    Args:
        sizes: the size of each sequence's group, one of `group_sizes(ranks)`; int64, shape (number of sequences,).
        part_works: the work that each rank of this group has for the sequence; float64, same shape.
        ranks: number of ranks.

    Returns:
        The first rank of each sequence's group; int64, shape (number of sequences,). And the work of each rank;
        float64, shape (ranks,).
    """
    first_ranks = np.empty(len(sizes), np.int64)
    rank_works = np.zeros(ranks)
    for size in np.unique(sizes)[::-1].tolist():
        # a group of this size is part of a larger one, or of none: so far all its ranks have the same work
        groups = [(float(rank_works[rank]), rank) for rank in range(0, ranks, size)]
        heapq.heapify(groups)
        of_this_size = np.flatnonzero(sizes == size)
        from_heaviest = of_this_size[np.argsort(-part_works[of_this_size], kind="stable")]
        for sequence in from_heaviest.tolist():
            group_work, first_rank = groups[0]  # of a heap, the least
            first_ranks[sequence] = first_rank
            heapq.heapreplace(groups, (group_work + float(part_works[sequence]), first_rank))
        for group_work, first_rank in groups:
            rank_works[first_rank : first_rank + size] = group_work
    return first_ranks, rank_works
