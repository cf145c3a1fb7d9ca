"""Rebuild `data/lengths/wikipedia.csv` and `squad.csv` from the points of two histograms that are published.

    python data/build_reconstructions.py

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027). Between two
points the counts follow a straight line: in log(length), log(count) for Wikipedia, in length, log(count) for
SQuAD. The result is an approximation: the sequences and the last bin are exact, the tokens a little high.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.lengths.counting import apportion
from packlib.lengths.own_files import read_counts

LENGTHS = Path(__file__).resolve().parent / "lengths"


def rebuild(points: np.ndarray, num_sequences: int, axis: Callable) -> LengthHistogram:
    """Draw lines between the points, scale them to the sequences, then set the last bin."""
    known = np.flatnonzero(points)
    first, last = known[0], known[-1]
    lengths = np.arange(first, last)
    body = np.exp(np.interp(axis(lengths), axis(known[:-1]), np.log(points[known[:-1]])))
    counts = np.zeros_like(points)
    counts[lengths] = apportion(body, num_sequences - int(points[last]))
    counts[last] = points[last]
    return LengthHistogram(counts)


def reconstructions() -> dict[str, LengthHistogram]:
    """Both histograms by name."""
    wikipedia, squad = (read_counts(LENGTHS / f"{name}-points.csv") for name in ("wikipedia", "squad"))
    return {"wikipedia": rebuild(wikipedia, 16_279_552, np.log), "squad": rebuild(squad, 88_641, np.asarray)}


def main() -> None:
    for name, histogram in reconstructions().items():
        histogram.to_csv(LENGTHS / f"{name}.csv")
        print(name, histogram)


if __name__ == "__main__":
    main()
