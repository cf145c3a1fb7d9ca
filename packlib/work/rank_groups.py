"""Groups of ranks for the sequences of one step: what is too heavy for one rank is shared by several.

Trainers call it dynamic or hybrid context parallelism. A group's ranks work on one sequence at a time, each on the
chunks of it that `packlib.work.context_parallel` describes.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from packlib.arguments import percent, whole_number
from packlib.lengths.counting import as_lengths
from packlib.work.cost import Work, check_work

_NEAR = 0.05  # of the bound
_SHARES = 2.0 ** -np.arange(0, 12, 0.5)  # the largest share of a step for one sequence, tried from 1 down


@dataclass(frozen=True, eq=False)
class RankGroups:
    """The ranks that work on each sequence.

    Each rank takes its largest groups first, so the ranks of a group begin together.

    Attributes:
        group_sizes: ranks that share each sequence; int64, shape (number of sequences,).
        first_ranks: sequence i is on this rank and the group_sizes[i] - 1 after it; int64, the same shape.
        rank_work: what each rank has to do, padding included; float64, shape (ranks,).
        bound: an equal share of the work of all sequences, without padding: the slowest rank does at least that much,
            whatever the groups.
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
    """Share the heavy sequences of a step among groups of ranks, until the ranks are done together.

    A group has 1, 2, 4, … ranks, as long as that divides the ranks, and then a multiple of it by the next prime factor,
    up to all ranks: 1, 2, 4 or 12 of 12 ranks. Each size divides the next, so that groups begin together.
    Each sequence gets the smallest group whose ranks can hold their parts of it, and need no more than a certain share
    of the step for it. This share starts at the whole step and is lowered until the slowest rank is at most 5 % above
    the bound; the lower it is, the more sequences are shared and the more tokens are sent. If no share comes that
    close, the result that comes closest is returned.
    The sequences of the largest groups are placed first, and among those of one size the heaviest first. Each goes to
    the group that is done first (Graham 1969), so the slowest rank does at most one part more than the average.

    >>> import numpy as np
    >>> from packlib.work import share_sequences
    >>> lengths = np.random.default_rng(1).lognormal(8.7, 1, 512).clip(16, 131_072).astype(int)
    >>> share_sequences(lengths, ranks=8, max_length=32_768)
    RankGroups(492 on 1, 16 on 2, 4 on 4 of 8 ranks, the slowest 0.03 % above the bound)

    Args:
        lengths: the tokens of each sequence.
        ranks: that train together.
        max_length: tokens of one sequence that a rank can hold.
        work: what a sequence costs, by default `Work.decoder()`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong, or a sequence that all ranks together cannot hold.
    """
    check_work(work := Work.decoder() if work is None else work)
    lengths, ranks = as_lengths(lengths).astype(np.int64), whole_number("ranks", ranks, 1)
    whole_number("max_length", max_length, 1)
    sizes = group_sizes(ranks)
    chunks = np.where(sizes > 1, 2 * sizes, 1)  # of which each rank of a group gets two
    padded = -(-lengths[:, None] // chunks) * chunks
    part_works = work.total(padded, padded.astype(np.float64) ** 2) / sizes  # of a rank, for each size of the group
    fits = padded <= max_length * sizes
    fits_somewhere = fits.any(axis=1)
    if not fits_somewhere.all():
        i = int(fits_somewhere.argmin())
        raise ValueError(
            f"max_length {max_length} allows {max_length * ranks} tokens on all {ranks} ranks together; "
            f"sequence {i} has {lengths[i]}, padded to {padded[i, -1]} there."
        )
    largest_size = len(sizes) - 1 - fits[:, ::-1].argmax(axis=1)
    bound = float(work.of(lengths).sum() / ranks)
    tried = list[RankGroups]()
    for share in _SHARES:
        is_light = fits & (part_works <= share * bound)
        size_of = np.where(is_light.any(axis=1), is_light.argmax(axis=1), largest_size)
        parts = part_works[np.arange(len(lengths)), size_of]
        first_ranks, rank_works = dealt(sizes[size_of], parts, ranks)
        exchanged = int((lengths * (sizes[size_of] - 1)).sum())
        tried.append(RankGroups(sizes[size_of], first_ranks, rank_works, bound, exchanged))
        if tried[-1].above_bound <= _NEAR or (size_of == largest_size).all():
            break
    return min(tried, key=lambda groups: groups.slowest)


def group_sizes(ranks: int) -> np.ndarray:
    """List the sizes that a group can have, ascending, from 1 to all ranks; each divides the next; int64."""
    sizes = [1]
    quotient = ranks  # without the prime factors that are in the last size
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


def dealt(sizes: np.ndarray, part_works: np.ndarray, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Place each sequence on the group that is done first; return its first rank, and the work of each rank."""
    first_ranks = np.empty(len(sizes), np.int64)
    rank_works = np.zeros(ranks)
    for size in np.unique(sizes)[::-1].tolist():  # so far all ranks of such a group have the same work
        groups = [(float(rank_works[rank]), rank) for rank in range(0, ranks, size)]
        heapq.heapify(groups)
        of_this_size = np.flatnonzero(sizes == size)
        from_heaviest = of_this_size[np.argsort(-part_works[of_this_size], kind="stable")]
        for sequence in from_heaviest.tolist():
            group_work, first_rank = groups[0]
            first_ranks[sequence] = first_rank
            heapq.heapreplace(groups, (group_work + float(part_works[sequence]), first_rank))
        for group_work, first_rank in groups:
            rank_works[first_rank : first_rank + size] = group_work
    return first_ranks, rank_works
