"""Lengths as several chapters name, coarsen and sample them."""

from dataclasses import replace

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.markup import one_line


def shown_name(histogram: LengthHistogram) -> str:
    """The name for figures, where little room is: what was not measured says so."""
    name = one_line(histogram.name, 30)
    return name if histogram.kind == "measured" else f"{name} ({histogram.kind})"


def in_blocks(histogram: LengthHistogram, blocks: int) -> LengthHistogram:
    """The histogram with lengths in blocks of `max_length / blocks` tokens, rounded up, so that a packing still holds.

    A maximum of at most `blocks` tokens stays as it is.
    """
    blocks = min(blocks, histogram.max_length)
    lengths = -(-np.arange(histogram.max_length + 1) * blocks // histogram.max_length)
    counts = np.zeros(blocks + 1, np.int64)
    np.add.at(counts, lengths, histogram.counts)
    return replace(histogram, counts=counts, max_length=blocks)


def sample_lengths(histogram: LengthHistogram, size: int | tuple[int, ...], seed: int) -> np.ndarray:
    """Lengths at random, as they come in the data; int64, of the shape `size`."""
    shares = histogram.counts / histogram.num_sequences
    return np.random.default_rng(seed).choice(len(shares), size, p=shares)
