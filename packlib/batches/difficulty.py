"""How hard each sample is: its length, or any score."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from packlib.checks import shown


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


def scores_of(dataset: Sequence | np.ndarray, difficulty: Any, share: range) -> np.ndarray:
    """Score the samples in `share`; int64 or float64, shape (len(share),).

    Args:
        difficulty: a function from a sample to its score, or the scores of all samples; None for the length, which is
            `dataset.lengths` if there is such, else the number of a sample's `input_ids`.

    Raises:
        TypeError, ValueError: naming the first sample whose score is no number.
    """
    if difficulty is None:
        difficulty = getattr(dataset, "lengths", lambda sample: len(sample["input_ids"]))
    if not callable(difficulty) and len(difficulty) != len(dataset):
        raise ValueError(f"There are {len(difficulty)} scores for {len(dataset)} samples.")
    scores = [difficulty(dataset[i]) for i in share] if callable(difficulty) else difficulty[share.start : share.stop]

    try:
        array = np.asarray(scores)
    except ValueError:  # lists of different lengths
        array = np.asarray(scores, object)
    if array.shape != (len(share),) or not (array.dtype.kind == "f" or np.can_cast(array.dtype, np.int64)):
        raise TypeError(
            f"A difficulty must be a whole number of 64 bits or a float, one a sample, not {shown(scores)}."
        )
    if array.dtype.kind != "f":
        return array.astype(np.int64)
    if np.isnan(array).any():
        at = int(np.isnan(array).argmax())
        raise ValueError(f"The difficulty of sample {share[at]} is NaN, which has no place in an order.")
    return array.astype(np.float64)
