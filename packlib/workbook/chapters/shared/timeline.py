"""Which stage of a pipeline does which micro-batch when, and how much of the time it waits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from packlib.checks import number, one_of, whole_number

SCHEDULES = ("gpipe", "1f1b")


class Bar(NamedTuple):
    """One piece of work of one stage; planned by `gantt`, or measured by `Pipeline`.

    Attributes:
        kind: "forward" or "backward".
        start, end: in the unit of the durations; measured, in seconds.
    """

    stage: int
    kind: str
    micro_batch: int
    start: float
    end: float


def work_order(stage: int, stages: int, micro_batches: int, schedule: str) -> list[tuple[str, int]]:
    """What a stage does in turn: ("forward" or "backward", micro-batch).

    "gpipe": all forward, then all backward (Huang et al. 2019, arXiv 1811.06965). "1f1b": as many forward as there
    are stages from here on, then one backward and one forward in turn (Harlap et al. 2018, arXiv 1806.03377).
    """
    one_of("schedule", schedule, SCHEDULES)
    ahead = micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
    order = [("forward", i) for i in range(ahead)]
    for i in range(micro_batches):
        order.append(("backward", i))
        if ahead + i < micro_batches:
            order.append(("forward", ahead + i))
    return order


def gantt(
    stages: int,
    micro_batches: int,
    schedule: str = "1f1b",
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 2.0,
) -> list[Bar]:
    """Run a pipeline on paper: everything starts as soon as its stage is free and its input is there.

    Args:
        forward, backward: how long a micro-batch takes, in any unit; one number, or one for each stage.

    Returns:
        The bars, by their start.
    """
    whole_number("stages", stages, 1)
    whole_number("micro_batches", micro_batches, 1)
    lasts = {"forward": _for_each("forward", forward, stages), "backward": _for_each("backward", backward, stages)}
    queues = [work_order(stage, stages, micro_batches, schedule) for stage in range(stages)]
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


def bubble(bars: Iterable[Bar]) -> float:
    """The share of the time, from the first start to the last end, that the stages wait; from 0 to 1."""
    bars = list(bars)
    span = max(bar.end for bar in bars) - min(bar.start for bar in bars)
    busy = sum(bar.end - bar.start for bar in bars)
    return 1 - busy / (span * len({bar.stage for bar in bars}))


def bubble_formula(stages: int, micro_batches: int) -> float:
    """(s − 1) / (m + s − 1): the bubble of equal stages, for both schedules."""
    return (stages - 1) / (micro_batches + stages - 1)


def in_flight(bars: Iterable[Bar]) -> list[int]:
    """For each stage, the most micro-batches whose activations it holds at once."""
    now, most = Counter[int](), Counter[int]()
    for bar in sorted(bars, key=lambda bar: (bar.end, bar.kind)):  # of equal ends, the backward is first
        now[bar.stage] += 1 if bar.kind == "forward" else -1
        most[bar.stage] = max(most[bar.stage], now[bar.stage])
    return [most[stage] for stage in sorted(most)]


def _for_each(name: str, value: float | Sequence[float], stages: int) -> list[float]:
    values = [value] * stages if isinstance(value, int | float) else list(value)
    if len(values) != stages:
        raise ValueError(f"{name} needs one number, or one for each of the {stages} stages, not {len(values)}.")
    return [number(name, one, above=0) for one in values]
