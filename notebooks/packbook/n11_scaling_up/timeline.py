"""Which stage of a pipeline does which micro-batch when, in the order that is called 1f1b."""

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


def work_order(stage: int, stages: int, micro_batches: int) -> list[tuple[str, int]]:
    """What a stage does in turn: as many forward passes as there are stages from here on, then one of each in turn.

    Harlap et al. 2018, arXiv 1806.03377.
    """
    ahead = min(micro_batches, stages - stage)
    order = [("forward", i) for i in range(ahead)]
    for i in range(micro_batches):
        order.append(("backward", i))
        if ahead + i < micro_batches:
            order.append(("forward", ahead + i))
    return order


def gantt(micro_batches: int, forward: Sequence[float], backward: Sequence[float]) -> list[Bar]:
    """Run a pipeline on paper: everything starts as soon as its stage is free and its input is there.

    Args:
        forward, backward: how long a micro-batch takes on each stage, in any unit.

    Returns:
        The bars, by their start.
    """
    stages, lasts = len(forward), {"forward": forward, "backward": backward}
    queues = [work_order(stage, stages, micro_batches) for stage in range(stages)]
    free, bars = [0.0] * stages, list[Bar]()
    # what the first stage reads, and the loss after the last stage, keep nobody waiting
    ends = {(kind, at, i): 0.0 for kind, at in (("forward", -1), ("backward", stages)) for i in range(micro_batches)}
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue:
                kind, i = queue[0]
                before = (kind, stage - 1 if kind == "forward" else stage + 1, i)
                if before not in ends:
                    break
                start = max(free[stage], ends[before])
                end = free[stage] = ends[kind, stage, i] = start + lasts[kind][stage]
                bars.append(Bar(stage, *queue.pop(0), start, end))
    return sorted(bars, key=lambda bar: (bar.start, bar.stage))
