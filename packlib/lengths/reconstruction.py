"""The two histograms of the packing paper, rebuilt from the points of them that are published.

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027). Between two
points the counts follow a straight line: in log(length), log(count) for Wikipedia, in length, log(count) for
SQuAD. The result is an approximation: the sequences and the last bin are exact, the tokens a little high.
"""

from collections.abc import Callable

import numpy as np

from packlib.lengths.counting import apportion
from packlib.lengths.histogram import LengthHistogram
from packlib.lengths.own_files import read_counts
from packlib.lengths.wordnet import data_path

_SOURCE = "rebuilt from points published with arXiv 2107.02027"


def wikipedia() -> LengthHistogram:
    """BERT's pre-training set on Wikipedia, 16,279,552 sequences up to 512; its tokens are 0.06 % high."""
    return _rebuild("wikipedia", num_sequences=16_279_552, axis=np.log)


def squad() -> LengthHistogram:
    """SQuAD 1.1, 88,641 questions and contexts up to 384; its tokens are 0.19 % high."""
    return _rebuild("squad", num_sequences=88_641, axis=np.asarray)


def _rebuild(name: str, num_sequences: int, axis: Callable) -> LengthHistogram:
    """Draw lines between the points, scale them to the sequences, then set the last bin."""
    points = read_counts(data_path("lengths", f"{name}-points.csv"))
    known = np.flatnonzero(points)
    first, last = known[0], known[-1]
    lengths = np.arange(first, last)
    body = np.exp(np.interp(axis(lengths), axis(known[:-1]), np.log(points[known[:-1]])))
    counts = np.zeros_like(points)
    counts[lengths] = apportion(body, num_sequences - int(points[last]))
    counts[last] = points[last]
    return LengthHistogram(counts, name=name, kind="reconstruction", source=_SOURCE)
