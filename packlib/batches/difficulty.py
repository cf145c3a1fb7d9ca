"""Score how hard each sample is: by its length, or by any other number."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from packlib.arguments import shown, sized


class Samples(Protocol):
    """A map-style data set: `len(dataset)` samples, of which `dataset[i]` is one."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


def difficulties(
    dataset: Samples, score: Callable[[Any], float] | ArrayLike | None = None, share: range | None = None
) -> np.ndarray:
    """Return a score for each sample, by default its length.

    >>> from packlib.batches import difficulties
    >>> difficulties([{"input_ids": [7, 8, 9]}, {"input_ids": [4]}]).tolist()
    [3, 1]

    Args:
        dataset: a `TokenStore`, or any map-style data set.
        score: a function from a sample to a whole number or a float, such as its loss under a small model, or the
            scores of all samples; by default the length, which is the number of its `input_ids`.
        share: the samples to score, such as those of one rank; by default all.

    Returns:
        int64, or float64 if any score is a float; shape (number of scored samples,).

    Raises:
        TypeError, ValueError: naming the first sample whose score is no number.
    """
    num_samples = sized("dataset", dataset)
    share = range(num_samples) if share is None else share
    if score is None:  # a store knows its lengths
        score = getattr(dataset, "lengths", _num_tokens)
    if callable(score):
        scores: Any = [score(dataset[i]) for i in share]
    else:
        all_scores: Any = score
        if sized("score", all_scores) != num_samples:
            raise ValueError(f"There are {len(all_scores)} scores for {num_samples} samples.")
        if not hasattr(all_scores, "__getitem__") or isinstance(all_scores, (str, bytes, Mapping)):
            raise TypeError(f"score must be a function or a list of scores, not {shown(all_scores)}.")
        scores = all_scores[share.start : share.stop]

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


def _num_tokens(sample: Any) -> int:
    """Return the number of a sample's `input_ids`, or raise a TypeError if it has none."""
    if not isinstance(sample, Mapping) or "input_ids" not in sample:
        raise TypeError(f"A sample of the dataset must be a mapping with input_ids, not {shown(sample)}.")
    return len(sample["input_ids"])
