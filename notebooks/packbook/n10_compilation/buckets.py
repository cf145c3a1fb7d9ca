"""Few static shapes: the lengths to pad to that waste the least, found exactly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packlib.arguments import one_of, whole_number
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import INT64_MAX

BUCKET_METHODS = ("optimal", "geometric", "equal_count")


@dataclass(frozen=True)
class Buckets:
    """The few lengths that sequences are padded to.

    Attributes:
        lengths: ascending, in tokens; a sequence is padded to the first that is long enough.
        tokens: in one pass over the data.
        slots: in one pass over the data: its tokens and padding.
    """

    lengths: tuple[int, ...]
    tokens: int
    slots: int

    @property
    def padding_fraction(self) -> float:
        """Return the share of the slots that are padding."""
        return 1 - self.tokens / self.slots


def padded_to(histogram: LengthHistogram, lengths: Sequence[int] | np.ndarray) -> Buckets:
    """Return the buckets of these ascending lengths; the last one holds the longest sequence."""
    edges = np.asarray(lengths)
    present = np.flatnonzero(histogram.counts)  # the lengths that occur
    padded_lengths = edges[np.searchsorted(edges, present)]
    slots = int(histogram.counts[present] @ padded_lengths)
    return Buckets(tuple(edges.tolist()), histogram.num_tokens, slots)


def edges_and_counts(histogram: LengthHistogram, multiple: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths that a bucket may have, and how many sequences fit into each but not into the one before.

    Args:
        multiple: each length is a multiple of this (kernels are fast with 8), or the maximum length.

    Returns:
        Lengths in tokens, ascending, and counts of sequences; both have shape (edges,).
    """
    whole_number("multiple", multiple, 1)
    if histogram.num_sequences * histogram.max_length > INT64_MAX:
        raise ValueError(f"{histogram.num_sequences} sequences padded to {histogram.max_length} overflow 64 bits.")
    present = np.flatnonzero(histogram.counts)
    edges = np.unique(np.minimum(-(-present // multiple) * multiple, histogram.max_length))
    return edges, np.diff(np.cumsum(histogram.counts)[edges], prepend=0)


def best_choices(edges: np.ndarray, counts: np.ndarray, most: int) -> list[np.ndarray]:
    """Find the edges with the fewest slots for 1, 2, … `most` buckets, or one for each edge if there are fewer.

    Let slots(b, j) be the fewest slots of all sequences up to edge j, with b buckets. If the bucket before the last
    ends at edge i, the last one has edge(j) · (sequences between i and j) slots. So slots(b, j) is the minimum over i
    of slots(b - 1, i) + edge(j) · (sequences between i and j). It takes n² steps for each b, with n edges.

    For example, there are three sequences of 2 tokens, one of 3 and two of 8. One bucket takes 6 · 8 = 48 slots, and
    two take 4 · 3 + 2 · 8 = 28:

    >>> import numpy as np
    >>> from packbook.n10_compilation.buckets import best_choices
    >>> [lengths.tolist() for lengths in best_choices(np.array([2, 3, 8]), np.array([3, 1, 2]), most=9)]
    [[8], [3, 8], [2, 3, 8]]

    Args:
        edges: ascending, shape (n,).
        counts: sequences that fit into each edge but not into the one before, same shape.
        most: 1 or more.

    Returns:
        The edges of the buckets, an array for each number of buckets.
    """
    edges = np.append(0, edges)
    sequences_up_to = np.append(0, np.cumsum(counts))

    # With one bucket, which ends at edge j
    slots = edges * sequences_up_to
    chosen = [[j] for j in range(len(edges))]  # indices of edges: those of the buckets up to edge j
    choices = [edges[chosen[-1]]]

    # With one more bucket: in row i and column j, the last one goes from edge i to edge j. On the diagonal it is empty.
    # Below the diagonal edge i is the longer one: no entry there is less than that of the diagonal, which comes first.
    slots_of_last = edges * (sequences_up_to - sequences_up_to[:, None])
    for _ in range(1, min(most, len(counts))):
        slots_by_edge_before = slots[:, None] + slots_of_last
        edge_before = slots_by_edge_before.argmin(axis=0)
        slots = slots_by_edge_before.min(axis=0)
        chosen = [[*chosen[i], j] for j, i in enumerate(edge_before)]
        choices.append(edges[chosen[-1]])
    return choices


def choose_buckets(histogram: LengthHistogram, k: int, multiple: int = 8, method: str = "optimal") -> Buckets:
    """Choose `k` lengths to pad to.

    >>> from packlib.lengths import LengthHistogram
    >>> from packbook.n10_compilation.buckets import choose_buckets
    >>> choose_buckets(LengthHistogram.from_lengths([5, 3, 3, 2, 8]), 2, multiple=1)
    Buckets(lengths=(3, 8), tokens=21, slots=25)

    Args:
        histogram: how many sequences have each length.
        k: how many buckets.
        multiple: as in `edges_and_counts`.
        method: "optimal": the least padding of all choices; "geometric": each the same factor longer than the one
            before; "equal_count": as many sequences in each. Rounded up, two of the latter may fall together.

    Raises:
        ValueError: if `k` is 0, or more than the multiples that sequences fall into.
    """
    one_of("method", method, BUCKET_METHODS)
    edges, counts = edges_and_counts(histogram, multiple)
    whole_number("k", k, 1)
    if k > len(edges):
        raise ValueError(
            f"k is {k}, but the lengths of {histogram.name} fall into {len(edges)} multiples of {multiple}: "
            f"k must be from 1 to {len(edges)}."
        )
    if method == "optimal":
        lengths = best_choices(edges, counts, k)[-1]
    elif method == "geometric":
        shortest, longest = np.flatnonzero(histogram.counts)[0], edges[-1]
        exact = np.geomspace(shortest, longest, k + 1)[1:]
        rounded_up = np.ceil((exact - 1e-6) / multiple).astype(int) * multiple  # 16.0000001 is 16
        lengths = np.unique(np.minimum(rounded_up, longest))
    else:
        sequences_up_to = np.array([-(-histogram.num_sequences * i // k) for i in range(1, k + 1)])
        lengths = np.unique(edges[np.searchsorted(np.cumsum(counts), sequences_up_to)])
    return padded_to(histogram, lengths)
