"""How hard each sample is: any score, worked out by all ranks together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch.distributed as dist

from packlib.distributed.collectives import Collectives
from packlib.distributed.sampler import scores_of


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
        RankError: the same on every rank, if a score fails or is no number on any (alone, its TypeError or ValueError).
    """
    ranks, number = Collectives(group), len(dataset)
    ranks.check_same(num_samples=number)
    share = range(number * ranks.rank // ranks.size, number * (ranks.rank + 1) // ranks.size)
    with ranks.agree_on_errors():
        own = scores_of(dataset, score, share)
    return np.concatenate([np.empty(0, np.int64), *(part for part in ranks.gather_objects(own) if len(part))])
