"""How hard each sample is: any score, worked out by all ranks together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch.distributed as dist

from packlib.batches.tokens import TokenStore


def difficulties(
    dataset: Any, score: Callable[[Any], float] | None = None, group: dist.ProcessGroup | None = None
) -> np.ndarray:
    """A score for each sample, on every rank; under torch.distributed each rank scores its share.

    Args:
        dataset: a `TokenStore`, or any map-style data set.
        score: a whole number or a float for a sample, such as its loss under a small model; by default the number of
            its `input_ids`.

    Returns:
        int64, or float64 if any score is a float; shape (number of samples,).

    Raises:
        ValueError: on every rank, if a score fails or is no number on any.
    """
    world = dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1
    rank = dist.get_rank(group) if world > 1 else 0
    bounds = [len(dataset) * i // world for i in range(world + 1)]
    own, fault = np.empty(0), None
    try:
        own = _scores(dataset, range(bounds[rank], bounds[rank + 1]), score)
    except Exception as error:  # the other ranks wait: they must hear of it before it is raised
        if world == 1:
            raise
        fault = error
    if world == 1:
        return own
    parts: list = [None] * world
    dist.all_gather_object(parts, (own, len(dataset), None if fault is None else repr(fault)), group)
    for other, (_, samples, text) in enumerate(parts):
        if text is not None:
            raise ValueError(f"Rank {other} could not score its samples: {text}") from fault
        if samples != parts[0][1]:
            raise ValueError(f"Rank {other} has {samples} samples, and rank 0 has {parts[0][1]}.")
    return np.concatenate([scores for scores, _, _ in parts])


def _scores(dataset: Any, samples: range, score: Callable[[Any], float] | None) -> np.ndarray:
    if score is None and isinstance(dataset, TokenStore):
        return dataset.lengths[samples.start : samples.stop]
    found = []
    for i in samples:
        value = len(dataset[i]["input_ids"]) if score is None else score(dataset[i])
        if np.ndim(value) or np.asarray(value).dtype.kind not in "iuf" or value != value:
            raise ValueError(f"The difficulty of sample {i} must be a number, not {value!r}.")
        found.append(np.asarray(value).item())
    return np.array(found) if found else np.empty(0, np.int64)
