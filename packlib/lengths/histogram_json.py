"""A histogram as JSON, with all that is known about it; how strictly it is read: nothing is rounded or guessed."""

import json
import os
from itertools import pairwise
from typing import Any

import numpy as np

from packlib.checks import whole_number
from packlib.files import write_text
from packlib.lengths.counting import MAX_LENGTH, as_int64
from packlib.lengths.histogram import LengthHistogram
from packlib.reading import naming, read_json
from packlib.strict_json import has_exactly

_ABOUT = ("name", "kind", "source", "max_length", "truncated", "dropped")


def histogram_to_dict(histogram: LengthHistogram) -> dict[str, Any]:
    """What JSON holds of a histogram: its attributes, and of its counts the lengths that occur."""
    used = np.flatnonzero(histogram.counts)
    about = {name: getattr(histogram, name) for name in _ABOUT}
    return about | {"lengths": used.tolist(), "counts": histogram.counts[used].tolist()}


def histogram_from_dict(raw: Any) -> LengthHistogram:
    """Read what `histogram_to_dict` made.

    Raises:
        TypeError, ValueError: with the first thing that is wrong.
    """
    has_exactly(raw, "A histogram", {*_ABOUT, "lengths", "counts"})
    top = whole_number("max_length", raw["max_length"], 1, MAX_LENGTH)
    lengths, counts = as_int64(raw["lengths"], "Length"), as_int64(raw["counts"], "Count")
    if len(lengths) != len(counts):
        raise ValueError(f"The histogram has {len(lengths)} lengths, but {len(counts)} counts.")
    if any(one >= other for one, other in pairwise([0, *lengths.tolist(), top + 1])):
        raise ValueError(f"The lengths of the histogram must ascend from 1 to at most {top}.")
    whole = np.zeros(max(lengths.tolist(), default=0) + 1, np.int64)
    whole[lengths] = counts
    return LengthHistogram(whole, **{name: raw[name] for name in _ABOUT})


def write_histogram(histogram: LengthHistogram, path: str | os.PathLike) -> None:
    """Write a histogram as JSON, from which `load` reads all of it back; whole or not at all."""
    write_text(path, json.dumps(histogram_to_dict(histogram)))


def read_histogram(path: str | os.PathLike) -> LengthHistogram:
    """Read what `write_histogram` wrote.

    Raises:
        ValueError: naming the file and what is wrong.
    """
    raw = read_json(path, "histogram of lengths")
    with naming(path, "histogram of lengths"):
        return histogram_from_dict(raw)
