"""From a plan to packs: which samples share which pack."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from packlib.files import atomic_path
from packlib.lengths.histogram import as_lengths
from packlib.packing.plan import PackingPlan


@dataclass(frozen=True, eq=False)
class Packs:
    """Which samples share a pack: pack `i` holds `sample_ids[offsets[i]:offsets[i + 1]]`.

    Attributes:
        sample_ids: integers, shape (number of samples,); positions in the `lengths` that were packed.
        offsets: int64, shape (number of packs + 1,).
        lengths_used: integers, shape (number of packs,); tokens in each pack, at most `max_length`.
        max_length: slots of a pack, in tokens.
    """

    sample_ids: np.ndarray
    offsets: np.ndarray
    lengths_used: np.ndarray
    max_length: int
