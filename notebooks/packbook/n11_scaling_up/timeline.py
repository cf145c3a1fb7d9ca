"""Which stage of a pipeline does which micro-batch when, in two orders."""

from collections.abc import Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """The forward or the backward pass of one micro-batch on one stage.

    Attributes:
        stage: its number, from 0.
        kind: "forward" or "backward".
        micro_batch: its number, from 0.
        start: time, in the unit of the durations.
        end: likewise.
    """

    stage: int
    kind: str
    micro_batch: int
    start: float
    end: float


def gantt(orders: Sequence[Sequence[tuple[str, int]]], forward: float = 1, backward: float = 2) -> list[Bar]:
    """Compute when each stage of a pipeline does what: a pass starts as soon as its stage is free and its input ready.

    Args:
        orders: for each stage, its passes in turn, such as [("forward", 0), ("backward", 0)].
        forward: duration of a forward pass, in any unit.
        backward: duration of a backward pass, in the same unit.

    Returns:
        The bars, by their start.

    Raises:
        ValueError: if the orders wait for each other forever.
    """
    duration = {"forward": forward, "backward": backward}
    queues = [list(order) for order in orders]  # the passes that have no bar yet
    free_from = [0.0] * len(queues)  # of each stage
    ends: dict[tuple[str, int, int], float] = {}  # by kind, stage and micro-batch
    bars: list[Bar] = []
    while any(queues):
        bars_before = len(bars)
        for stage, queue in enumerate(queues):
            while queue:
                kind, micro_batch = queue[0]
                source = stage - 1 if kind == "forward" else stage + 1  # the stage that its input comes from
                # the data of the first stage, and the loss after the last stage, are always ready
                ready = ends.get((kind, source, micro_batch)) if 0 <= source < len(queues) else 0.0
                if ready is None:
                    break
                start = max(free_from[stage], ready)
                end = start + duration[kind]
                bars.append(Bar(stage, kind, micro_batch, start, end))
                free_from[stage] = end
                ends[kind, stage, micro_batch] = end
                queue.pop(0)
        if len(bars) == bars_before:
            raise ValueError("The stages wait for each other: each has something to do that another must do first.")
    return sorted(bars, key=lambda bar: (bar.start, bar.stage))


def most_held(bars: Sequence[Bar]) -> int:
    """Return the most micro-batches whose activations the first stage holds at once."""
    num_held = most = 0
    for bar in bars:
        if bar.stage == 0:
            num_held += 1 if bar.kind == "forward" else -1
            most = max(most, num_held)
    return most


def waiting(bars: Sequence[Bar]) -> float:
    """Return the share of the time in which the average stage waits."""
    stages = 1 + max(bar.stage for bar in bars)
    work = sum(bar.end - bar.start for bar in bars)
    return 1 - work / stages / max(bar.end for bar in bars)
