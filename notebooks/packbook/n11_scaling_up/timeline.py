"""Which stage of a pipeline does which micro-batch when, in two orders."""

from collections.abc import Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """One piece of work of one stage.

    Attributes:
        kind: "forward" or "backward".
        start, end: in the unit of the durations.
    """

    stage: int
    kind: str
    micro_batch: int
    start: float
    end: float


def gantt(orders: Sequence[Sequence[tuple[str, int]]], forward: float = 1, backward: float = 2) -> list[Bar]:
    """Run a pipeline on paper: everything starts as soon as its stage is free and its input is there.

    Args:
        orders: for each stage, what it does in turn, such as [("forward", 0), ("backward", 0)].
        forward, backward: how long a micro-batch takes on a stage, in any unit.

    Returns:
        The bars, by their start.

    Raises:
        ValueError: if the orders wait for each other forever.
    """
    lasts = {"forward": forward, "backward": backward}
    queues = [list(order) for order in orders]
    free, ends, bars = [0.0] * len(queues), dict[tuple[str, int, int], float](), list[Bar]()
    while any(queues):
        bars_before = len(bars)
        for stage, queue in enumerate(queues):
            while queue:
                kind, number = queue[0]
                source = stage - 1 if kind == "forward" else stage + 1
                # what the first stage reads, and the loss after the last stage, keep nobody waiting
                ready = ends.get((kind, source, number)) if 0 <= source < len(queues) else 0.0
                if ready is None:
                    break
                start = max(free[stage], ready)
                end = free[stage] = ends[kind, stage, number] = start + lasts[kind]
                bars.append(Bar(stage, *queue.pop(0), start, end))
        if len(bars) == bars_before:
            raise ValueError("The stages wait for each other: each has something to do that another must do first.")
    return sorted(bars, key=lambda bar: (bar.start, bar.stage))


def most_held(bars: Sequence[Bar]) -> int:
    """Return the most micro-batches whose activations the first stage holds at once."""
    held = most = 0
    for bar in bars:
        if bar.stage == 0:
            held += 1 if bar.kind == "forward" else -1
            most = max(most, held)
    return most


def waiting(bars: Sequence[Bar]) -> float:
    """Return the share of the time in which the average stage waits."""
    stages = 1 + max(bar.stage for bar in bars)
    work = sum(bar.end - bar.start for bar in bars)
    return 1 - work / stages / max(bar.end for bar in bars)
