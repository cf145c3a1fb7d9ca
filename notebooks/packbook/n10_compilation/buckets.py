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
        lengths: ascending, in tokens; a sequence goes to the first that it fits into.
        tokens, slots: of one pass over the data, in which each row is as long as its bucket.
    """

    lengths: tuple[int, ...]
    tokens: int
    slots: int

    @property
    def padding_fraction(self) -> float:
        """Share of the slots that are padding."""
        return 1 - self.tokens / self.slots


def padded_to(histogram: LengthHistogram, lengths: Sequence[int] | np.ndarray) -> Buckets:
    """Return the buckets of these ascending lengths; the last one holds the longest sequence."""
    edges, present = np.asarray(lengths), np.flatnonzero(histogram.counts)
    slots = int(histogram.counts[present] @ edges[np.searchsorted(edges, present)])
    return Buckets(tuple(edges.tolist()), histogram.num_tokens, slots)


def edges_and_counts(histogram: LengthHistogram, multiple: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths that a bucket may have, and how many sequences need each of them and no less.

    Args:
        multiple: each length is a multiple of this (kernels like 8), or the maximum length.
    """
    whole_number("multiple", multiple, 1)
    if histogram.num_sequences * histogram.max_length > INT64_MAX:
        raise ValueError(f"{histogram.num_sequences} sequences padded to {histogram.max_length} overflow 64 bits.")
    present = np.flatnonzero(histogram.counts)
    edges = np.unique(np.minimum(-(-present // multiple) * multiple, histogram.max_length))
    return edges, np.diff(np.cumsum(histogram.counts)[edges], prepend=0)


def best_choices(edges: np.ndarray, counts: np.ndarray, most: int) -> list[np.ndarray]:
    """Find the edges with the fewest slots for 1, 2, … `most` buckets, or one for each edge if there are fewer.

    With b buckets up to edge j and the last one from edge i on, slots(b, j) is the least of
    slots(b - 1, i) + edge(j) · (sequences between i and j); an i after j only pads more. It takes n² steps a bucket.
    """
    edges, below = np.append(0, edges), np.append(0, np.cumsum(counts))
    slots, chosen = edges * below, [[j] for j in range(len(edges))]  # up to each edge, in one bucket
    choices = []
    for _ in range(min(most, len(counts))):
        choices.append(edges[chosen[-1]])
        ways = slots[:, None] + edges * (below - below[:, None])  # (edge before the last bucket, edge that ends it)
        slots, chosen = ways.min(0), [[*chosen[i], j] for j, i in enumerate(ways.argmin(0))]
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
        wanted = np.geomspace(np.flatnonzero(histogram.counts)[0], edges[-1], k + 1)[1:]
        lengths = np.unique(np.minimum(np.ceil((wanted - 1e-6) / multiple).astype(int) * multiple, edges[-1]))
    else:
        wanted = np.array([-(-histogram.num_sequences * i // k) for i in range(1, k + 1)])
        lengths = np.unique(edges[np.searchsorted(np.cumsum(counts), wanted)])
    return padded_to(histogram, lengths)
