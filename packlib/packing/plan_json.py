"""How a plan is written as JSON, and how strictly it is read: nothing is rounded, guessed or left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from packlib.checks import one_of, shown, whole_number
from packlib.lengths.histogram_json import histogram_from_dict, histogram_to_dict
from packlib.strict_json import has_exactly, parse_json

FORMAT = "packlib.PackingPlan 3"
_FIELDS = ("method", "max_sequences_per_pack", "repeats", "listed")
_STATED = ("num_packs", "lower_bound")
_MOST_BYTES = 1 << 30


def plan_to_text(plan: Any) -> str:
    """Write a `PackingPlan` as JSON, its histogram too."""
    return json.dumps(
        {
            "format": FORMAT,
            "method": plan.method,
            "max_sequences_per_pack": plan.max_sequences_per_pack,
            **{name: getattr(plan, name) for name in _STATED},
            "histogram": histogram_to_dict(plan.histogram),
            "strategies": plan.strategies,
            "repeats": plan.repeats.tolist(),
            "listed": plan.listed,
            "duals": None if plan.prices is None else plan.prices.tolist(),
        }
    )


def read_plan_text(path: Path) -> str:
    """Read a file, unless it is far larger than any plan."""
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"It has {path.stat().st_size:,} bytes; a plan has at most {_MOST_BYTES:,}.")
    return path.read_text(encoding="utf-8")


def plan_from_text(text: str, make: Callable) -> Any:
    """Read JSON that `plan_to_text` wrote.

    Args:
        make: makes a plan of its fields, and verifies it.

    Raises:
        TypeError, ValueError: with the first thing that is wrong.
    """
    raw = parse_json(text)
    has_exactly(raw, "A plan", {"format", "histogram", "strategies", "duals", *_FIELDS, *_STATED})
    one_of("format", raw["format"], (FORMAT,))
    strategies = raw["strategies"]
    for value in [strategies, *strategies] if isinstance(strategies, list) else [strategies]:
        if not isinstance(value, list):
            raise TypeError(f"strategies must be a list of lists of lengths, but it holds {shown(value)}.")
    plan = make(
        histogram_from_dict(raw["histogram"]),
        items=[length for lengths in strategies for length in lengths],
        offsets=np.cumsum([0, *map(len, strategies)]),
        prices=raw["duals"],
        **{name: raw[name] for name in _FIELDS},
    )
    packs, bound = (whole_number(name, raw[name], 1) for name in _STATED)
    if packs != plan.num_packs or bound != plan.lower_bound:
        raise ValueError("It states other packs or another bound than its strategies and duals give.")
    return plan
