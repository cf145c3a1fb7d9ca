"""Few static shapes: the lengths to pad to that waste the least, found exactly."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import INT64_MAX

BUCKET_METHODS = ("optimal", "geometric", "equal_count")


@dataclass(frozen=True)
class Buckets:
    """The few lengths that sequences are padded to.

    Attributes:
        lengths: ascending, in tokens; a sequence goes to the first that it fits into.
        tokens, slots: of one pass over the data, in which each row is as long as its bucket.
        method: how they were chosen, a name in `BUCKET_METHODS`.
        name: of the data they were chosen for.
    """

    lengths: tuple[int, ...]
    tokens: int
    slots: int
    method: str
    name: str

    @property
    def padding_fraction(self) -> float:
        """Share of the slots that are padding."""
        return 1 - self.tokens / self.slots

    def bucket_of(self, lengths: Iterable[int]) -> np.ndarray:
        """Which bucket, from 0, each sequence goes to; `lengths` in tokens, shape (n,).

        Raises:
            ValueError: if a sequence is longer than the longest bucket.
        """
        lengths = np.asarray(lengths)
        bucket = np.searchsorted(self.lengths, lengths)
        if (bucket == len(self.lengths)).any():
            raise ValueError(f"Length {lengths.max()} is over the longest bucket, {self.lengths[-1]}.")
        return bucket

    def __repr__(self) -> str:
        lengths = f"{len(self.lengths)} lengths {', '.join(map(str, self.lengths))}"
        return f"Buckets({self.name}, {self.method}: {lengths}; {self.padding_fraction:.2%} padding)"


def choose_buckets(
    histogram: LengthHistogram, k: int, pad_to_multiple_of: int = 8, method: str = "optimal"
) -> Buckets:
    """Choose `k` lengths to pad to.

    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.workbook.chapters.n10_compilation.buckets import choose_buckets
    >>> choose_buckets(LengthHistogram.from_lengths([5, 3, 3, 2, 8]), 2, pad_to_multiple_of=1)
    Buckets(lengths, optimal: 2 lengths 3, 8; 16.00% padding)

    Args:
        histogram: how many sequences have each length.
        k: how many buckets.
        pad_to_multiple_of: each length is a multiple of this (kernels like 8), or the maximum length.
        method: "optimal": the least padding of all choices; "geometric": each the same factor longer than the one
            before; "equal_count": as many sequences in each. Rounded up, two of the latter may fall together.

    Raises:
        ValueError: if `k` is 0, or more than the multiples that sequences fall into.
    """
    one_of("method", method, BUCKET_METHODS)
    multiples, edges, counts = _edges(histogram, pad_to_multiple_of)
    whole_number("k", k, 1)
    if k > len(edges):
        raise ValueError(
            f"k is {k}, but the lengths of {histogram.name} fall into {len(edges)} multiples of {pad_to_multiple_of}: "
            f"k must be from 1 to {len(edges)}."
        )
    below = np.cumsum(counts)
    if method == "optimal":
        starts = [start for _, start in _layers(edges, counts, k)]
        chosen = [len(edges)]
        for start in reversed(starts):
            chosen.append(int(start[chosen[-1]]))
        lengths = edges[np.array(chosen[:-1]) - 1][::-1]
    elif method == "geometric":
        wanted = np.geomspace(np.flatnonzero(histogram.counts)[0], multiples[-1], k + 1)[1:]
        lengths = np.unique(multiples[np.searchsorted(multiples, wanted - 1e-6)])
    else:
        wanted = np.array([-(-histogram.num_sequences * i // k) for i in range(1, k + 1)])
        lengths = np.unique(edges[np.searchsorted(below, wanted)])
    inside = np.diff(below[np.searchsorted(edges, lengths, "right") - 1], prepend=0)
    return Buckets(tuple(lengths.tolist()), histogram.num_tokens, int(lengths @ inside), method, histogram.name)


def waste_curve(histogram: LengthHistogram, most: int, pad_to_multiple_of: int = 8) -> np.ndarray:
    """The least share of padding with 1, 2, … `most` buckets; float, shape (most,).

    It ends early where every multiple that sequences fall into has its bucket.
    """
    _, edges, counts = _edges(histogram, pad_to_multiple_of)
    layers = _layers(edges, counts, min(whole_number("most", most, 1), len(edges)))
    return np.array([1 - histogram.num_tokens / int(slots[-1]) for slots, _ in layers])


def _edges(histogram: LengthHistogram, pad_to_multiple_of: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The multiples up to the longest sequence, those that sequences fall into, and how many fall there."""
    step, top = whole_number("pad_to_multiple_of", pad_to_multiple_of, 1), histogram.max_length
    used = np.flatnonzero(histogram.counts)
    if histogram.num_sequences * top > INT64_MAX:
        raise ValueError(f"{histogram.num_sequences} sequences padded to {top} overflow 64 bits.")
    multiples = np.minimum(np.arange(step, used[-1] + step, step), top)
    counts = np.diff(np.cumsum(histogram.counts)[multiples], prepend=0)
    return multiples, multiples[counts > 0], counts[counts > 0]


def _layers(edges: np.ndarray, counts: np.ndarray, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For 1 to `k` buckets: the least slots up to each edge, and the edge after which the last bucket starts.

    Both have the shape (number of edges + 1,), edge 0 being length 0. With b buckets up to edge j and the last one
    from edge i on, slots(b, j) is the least of slots(b - 1, i) + edge(j) · (sequences between i and j).
    """
    edges, below = np.append(0, edges), np.append(0, np.cumsum(counts))
    slots, start = edges * below, np.zeros(len(edges), np.int64)
    yield slots, start
    for _ in range(k - 1):
        start = _best_starts(slots, below, edges)
        slots = slots[start] + edges * (below - below[start])
        yield slots, start


def _best_starts(slots: np.ndarray, below: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """For every edge j the first i that makes slots(i) − edge(j) · below(i) least; int64, shape of `edges`.

    The longer the edge, the later the start: costs that are a product of two ascending numbers are Monge (Yao 1980,
    Efficient dynamic programming using quadrangle inequalities). So every second edge is looked for between the
    answers of its neighbors, in ever finer steps: n log n, not n². No i after j need be ruled out: it would pad
    what lies between the two to more than edge(j).
    """
    n = len(edges)
    answer = np.full((1 << n.bit_length()) + 1, n - 1)  # of edge j at j + 1, between two sentinels
    answer[0] = 0
    step = len(answer) // 2
    while step:
        rows = np.arange(step, n + 1, 2 * step)
        low, high = answer[rows - step], answer[rows + step]
        widths = high - low + 1
        first = np.cumsum(widths) - widths
        start = np.arange(widths.sum()) + np.repeat(low - first, widths)
        cost = slots[start] - np.repeat(edges[rows - 1], widths) * below[start]
        least = np.flatnonzero(cost == np.repeat(np.minimum.reduceat(cost, first), widths))
        answer[rows] = start[least[np.searchsorted(least, first)]]
        step //= 2
    return answer[1 : n + 1]
