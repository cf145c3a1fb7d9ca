"""How a plan is written as JSON, and how strictly it is read: nothing is rounded, guessed or left out."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packlib.checks import one_of, shown, whole_number
from packlib.lengths.counting import MAX_LENGTH, as_int64
from packlib.lengths.histogram import LengthHistogram
from packlib.strict_json import parse_json

if TYPE_CHECKING:
    from packlib.packing.plans import PackingPlan

FORMATS = ("packlib.PackingPlan 2", "packlib.PackingPlan 1")  # the first is written, both are read
_ABOUT = ("name", "kind", "source", "max_length", "truncated", "dropped")  # a histogram, beside its counts
_FIELDS = ("method", "max_sequences_per_pack", "repeats")
_STATED = ("num_packs", "lower_bound")
_MOST_BYTES = 1 << 30


def plan_to_text(plan: "PackingPlan") -> str:
    """Write a plan as JSON, and of its histogram the lengths that occur."""
    histogram = plan.histogram
    used = np.flatnonzero(histogram.counts)
    return json.dumps(
        {
            "format": FORMATS[0],
            "method": plan.method,
            "max_sequences_per_pack": plan.max_sequences_per_pack,
            **{name: getattr(plan, name) for name in _STATED},
            "histogram": {
                **{name: getattr(histogram, name) for name in _ABOUT},
                "lengths": used.tolist(),
                "counts": histogram.counts[used].tolist(),
            },
            "strategies": plan.strategies,
            "repeats": plan.repeats.tolist(),
            "duals": None if plan.prices is None else plan.prices.tolist(),
        }
    )


def read_plan_text(path: Path) -> str:
    """Read a file, unless it is far larger than any plan."""
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"It has {path.stat().st_size:,} bytes; a plan has at most {_MOST_BYTES:,}.")
    return path.read_text(encoding="utf-8")


def plan_from_text(text: str, make: Callable[..., "PackingPlan"]) -> "PackingPlan":
    """Read JSON that `plan_to_text` wrote.

    Args:
        make: makes a plan of its fields, and verifies it.

    Raises:
        TypeError, ValueError: with the first thing that is wrong.
    """
    raw = parse_json(text)
    _has_exactly(raw, "A plan", {"format", "histogram", "strategies", "duals", *_FIELDS, *_STATED})
    written = one_of("format", raw["format"], FORMATS)
    strategies = raw["strategies"]
    for value in [strategies, *strategies] if isinstance(strategies, list) else [strategies]:
        if not isinstance(value, list):
            raise TypeError(f"strategies must be a list of lists of lengths, but it holds {shown(value)}.")
    plan = make(
        _histogram(raw["histogram"]),
        items=[length for lengths in strategies for length in lengths],
        offsets=np.cumsum([0, *map(len, strategies)]),
        prices=raw["duals"],
        **{name: raw[name] for name in _FIELDS},
    )
    packs, bound = (whole_number(name, raw[name], 1) for name in _STATED)
    least = plan.lower_bound
    if written == FORMATS[1]:  # version 0.1.0 knew no other bound than the area and that of the duals
        least = -(-plan.histogram.num_tokens // plan.histogram.max_length)
    if packs != plan.num_packs or not least <= bound <= plan.lower_bound:
        raise ValueError("It states other packs or another bound than its strategies and duals give.")
    return plan


def _histogram(raw: Any) -> LengthHistogram:
    _has_exactly(raw, "The histogram of a plan", {*_ABOUT, "lengths", "counts"})
    top = whole_number("max_length", raw["max_length"], 1, MAX_LENGTH)
    lengths, counts = as_int64(raw["lengths"], "Length"), as_int64(raw["counts"], "Count")
    if len(lengths) != len(counts):
        raise ValueError(f"The histogram has {len(lengths)} lengths, but {len(counts)} counts.")
    if any(one >= other for one, other in pairwise([0, *lengths.tolist(), top + 1])):
        raise ValueError(f"The lengths of the histogram must ascend from 1 to at most {top}.")
    whole = np.zeros(max(lengths.tolist(), default=0) + 1, np.int64)
    whole[lengths] = counts
    return LengthHistogram(whole, **{name: raw[name] for name in _ABOUT})


def _has_exactly(raw: Any, what: str, names: set[str]) -> None:
    if not isinstance(raw, dict):
        raise TypeError(f"{what} must be a JSON object, not {shown(raw)}.")
    for name in raw:
        one_of("a name in its JSON", name, sorted(names))
    if missing := sorted(names - raw.keys()):
        raise ValueError(f"{what} needs {', '.join(missing)}.")
