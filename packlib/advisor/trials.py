"""Which methods finish in time, and how deep packs must be: measured on the data at hand."""

import inspect
import itertools
import math
import time
from dataclasses import dataclass, replace

from packlib.advisor.bounded import Bounded, TimeIsUpError
from packlib.lengths import LengthHistogram
from packlib.packing import METHODS, PackingPlan, plan
from packlib.packing.nnls import num_full_strategies
from packlib.packing.progress import Progress

# Seconds for each entry of the strategy matrix and each of its rows; SciPy's solver, one core of an AMD EPYC.
_LEAST_SQUARES = {"nnlshp": 2.5e-9, "ennlshp": 2e-8}
_SMALL = LengthHistogram.from_lengths([1, 1, 2, 3], 4)
_ONE_BY_ONE = {"next_fit": 8e-7}  # seconds for each sequence, on Wikipedia's lengths; the same core
_HOPELESS = 2  # times the patience: what is estimated to take longer is not begun


@dataclass(frozen=True)
class Trial:
    """A method on the data.

    Attributes:
        packs: how many it makes, or None if it did not finish.
        gap: packs above the best bound that any method proves at this depth.
        seconds: that it took.
        reason: why there is no answer; "" if there is one.
    """

    method: str
    packs: int | None = None
    gap: int | None = None
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class DepthTrial:
    """What a depth limit allows: the fewest packs found, the bound below which there are none, and LPFHP's packs."""

    depth: int | None
    packs: int
    bound: int
    greedy: int


def try_methods(
    bounded: Bounded, histogram: LengthHistogram, depth: int, patience: float, seed: int = 0
) -> tuple[tuple[Trial, ...], PackingPlan]:
    """Run every method that can finish within `patience` seconds; return them all, and the best plan.

    A method with a time limit of its own gets four fifths of the time; one that is random gets the seed.

    Raises:
        TimeIsUpError: if none finishes.
    """
    plans: dict[str, PackingPlan] = {}
    seconds, reasons = {}, {}
    for method, function in METHODS.items():
        reasons[method] = _too_large(method, histogram, depth, patience)
        if reasons[method]:
            continue
        own = inspect.signature(function).parameters
        options = {"time_limit": 0.8 * patience, "seed": seed}
        options = {name: value for name, value in options.items() if name in own}
        try:
            bounded.call(plan, _SMALL, method, depth, limit=60)  # loads what the method needs, off the clock
            plans[method], seconds[method] = bounded.call(plan, histogram, method, depth, limit=patience, **options)
        except TimeIsUpError:
            reasons[method] = f"stopped after {patience:g} s; {_work(method, histogram, depth)}"
        except (ValueError, MemoryError, ChildProcessError) as error:
            reasons[method] = str(error) or type(error).__name__
    if not plans:
        raise TimeIsUpError(f"No method packs {histogram.name} within {patience:g} seconds.")
    bound = max(packing.lower_bound for packing in plans.values())
    best = min(reversed(plans.values()), key=lambda packing: (packing.num_packs, -packing.lower_bound))
    trials = [
        Trial(name, plans[name].num_packs, plans[name].num_packs - bound, seconds[name])
        if name in plans
        else Trial(name, reason=reasons[name])
        for name in METHODS
    ]
    return tuple(trials), best


def _too_large(method: str, histogram: LengthHistogram, depth: int, patience: float) -> str:
    """Why a method is not worth beginning, or ""."""
    seconds = _ONE_BY_ONE.get(method, 0) * histogram.num_sequences
    if method in _LEAST_SQUARES:
        top = histogram.max_length
        seconds = _LEAST_SQUARES[method] * num_full_strategies(top, depth) * top**2
    return f"{_work(method, histogram, depth)}: too many for {patience:g} s" if seconds > _HOPELESS * patience else ""


def _work(method: str, histogram: LengthHistogram, depth: int) -> str:
    if method in _ONE_BY_ONE:
        return f"{histogram.num_sequences:,} sequences, one after the other"
    if method not in _LEAST_SQUARES:
        return f"{histogram.num_sequences:,} sequences of up to {histogram.max_length:,} tokens"
    columns = num_full_strategies(histogram.max_length, depth)
    return f"{columns:,} columns" if columns < 10**12 else f"{columns:.0e} columns"


def try_depths(
    bounded: Bounded, histogram: LengthHistogram, limit: int | None, within: float, patience: float
) -> tuple[DepthTrial, ...]:
    """Depths in ascending order, up to the smallest that is shown to be `within` reach of the best at `limit`.

    The last entry is `limit` itself. A depth is left as soon as its packs are a tenth of `within` above their bound,
    or after four fifths of `patience`. After twice `patience` in all, LPFHP alone answers.
    """
    known: dict[int | None, DepthTrial] = {}
    deadline = time.monotonic() + 2 * patience

    def at(depth: int | None, seconds: float = 0.8 * patience) -> DepthTrial:
        if depth not in known:
            seconds = seconds if time.monotonic() < deadline else 0
            known[depth] = _packs_at(bounded, histogram, depth, within / 10, seconds)
        return known[depth]

    best = at(limit)
    most = math.floor((1 + within) * best.packs)
    shortest = int(histogram.counts.nonzero()[0][0])
    deepest = min(histogram.max_length // shortest, histogram.num_sequences, limit or math.inf)
    low = 0
    for depth in itertools.chain.from_iterable((2**k, 3 * 2**k // 2) for k in itertools.count()):
        high = min(depth, deepest)  # there are no deeper packs
        hopeless = histogram.num_sequences > most * high  # by places alone
        if high == deepest or at(high, (0.05 if hopeless else 0.8) * patience).packs <= most:
            break
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        if at(middle).packs <= most:
            high = middle
        else:
            low = middle
    known.setdefault(high, replace(best, depth=high))
    return (*(known[depth] for depth in sorted(depth for depth in known if depth not in (limit, None))), best)


def recommended(depths: tuple[DepthTrial, ...], within: float) -> int:
    """The smallest depth that is `within` reach of the last one's packs."""
    most = math.floor((1 + within) * depths[-1].packs)
    return next(trial.depth for trial in depths if trial.depth is not None and trial.packs <= most)


class _CloseEnough(Exception):
    """Carries the packs and the bound out of a search."""


def packs_at(histogram: LengthHistogram, depth: int | None, close: float, seconds: float) -> DepthTrial:
    """The fewest packs at a depth, up to a share `close` or until the time is up."""

    def leave(now: Progress) -> None:
        if now.num_packs - now.lower_bound <= close * now.lower_bound:
            raise _CloseEnough(now.num_packs, now.lower_bound)

    greedy = plan(histogram, "lpfhp", depth).num_packs
    try:
        best = plan(histogram, "optimal", depth, time_limit=seconds, progress=leave)
    except _CloseEnough as found:
        packs, bound = found.args
        return DepthTrial(depth, packs, bound, greedy)
    return DepthTrial(depth, best.num_packs, best.lower_bound, greedy)


def _packs_at(
    bounded: Bounded, histogram: LengthHistogram, depth: int | None, close: float, seconds: float
) -> DepthTrial:
    try:
        if seconds:
            return bounded.call(packs_at, histogram, depth, close, seconds, limit=2 * seconds + 1)[0]
    except TimeIsUpError:
        pass  # one step of the search took longer; LPFHP alone is quick
    greedy, _ = bounded.call(plan, histogram, "lpfhp", depth, limit=60)
    return DepthTrial(depth, greedy.num_packs, greedy.lower_bound, greedy.num_packs)
