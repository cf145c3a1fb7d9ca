"""How hard each sample is: its length, or any score."""

from collections.abc import Callable
from typing import Any

import numpy as np

from packlib.distributed.sampler import scores_of


def difficulties(dataset: Any, score: Callable[[Any], float] | None = None) -> np.ndarray:
    """A score for each sample.

    >>> from packlib.batches import difficulties
    >>> difficulties([{"input_ids": [7, 8, 9]}, {"input_ids": [4]}]).tolist()
    [3, 1]

    Args:
        dataset: a `TokenStore`, or any map-style data set.
        score: a whole number or a float for a sample, such as its loss under a small model; by default the number of
            its `input_ids`.

    Returns:
        int64, or float64 if any score is a float; shape (number of samples,).

    Raises:
        TypeError, ValueError: naming the first sample whose score is no number.
    """
    return scores_of(dataset, score, range(len(dataset)))
