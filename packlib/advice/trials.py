"""Which methods finish in time, and how deep packs must be: measured on the data at hand."""

import inspect
import itertools
import math
import time
from dataclasses import dataclass, replace
from typing import Any

from packlib.advice.bounded import Bounded, TimeIsUpError
from packlib.lengths import LengthHistogram
from packlib.packing import METHODS, PackingPlan, plan
from packlib.packing.nnls import num_full_strategies
from packlib.packing.search.optimal import takes_long
from packlib.packing.search.progress import Progress

# Seconds of least squares, for the square of the rows and for each column and row; and how many times as much each
# method takes. One core of an AMD EPYC.
_ROWS, _COLUMNS = 8e-6, 3.3e-8
_LEAST_SQUARES = {"nnlshp": 1, "ennlshp": 4}
_SMALL = LengthHistogram.from_lengths([6] * 10 + [2] * 30, 12)  # `lpt` at depth 4 needs all of its parts
_ONE_BY_ONE = {"next_fit": 8e-7}  # seconds for each sequence, on Wikipedia's lengths; the same core
_HOPELESS = 2  # times the patience: what is estimated to take longer is not begun
# Seconds of a round of `optimal`: for the square of the lengths, each entry of its table, and each round. Fitted to the
# CPU seconds of 45 searches of at most 30 rounds; half of them took from half to twice as long as this says.
_LINEAR_PROGRAM, _TABLE, _LEAST = 1.5e-7, 4.4e-9, 0.002
_LONG = 0.03  # on long rows, packing included: 0.01 to 0.05 in 7 searches
UNTIL_LOST = 30  # times the patience: a search that counts rounds is stopped by the clock only then


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
    """What a depth limit allows: the fewest packs found, the bound below which there are none, and LPFHP's packs.

    Attributes:
        gave_up: whether the search ended so far above the bound that more time may well find fewer packs.
    """

    depth: int | None
    packs: int
    bound: int
    greedy: int
    gave_up: bool = False


def try_methods(
    bounded: Bounded, histogram: LengthHistogram, depth: int, patience: float, seed: int = 0
) -> tuple[tuple[Trial, ...], PackingPlan]:
    """Run every method that can finish within `patience` seconds; return them all, and the best plan.

    `optimal` gets as many rounds as should take so long, and ends with them however busy the machine is. A method
    that is random gets the seed.

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
        options = {"rounds": rounds(histogram, depth, patience), "seed": seed, "progress": False}
        options = {name: value for name, value in options.items() if name in own} | {"max_sequences_per_pack": depth}
        limit = UNTIL_LOST * patience if "rounds" in own else patience
        try:
            bounded.call(
                plan, _SMALL, method=method, max_sequences_per_pack=min(depth, 4), limit=60
            )  # loads what the method needs, off the clock
            plans[method], seconds[method] = bounded.call(plan, histogram, method=method, limit=limit, **options)
        except TimeIsUpError:
            reasons[method] = f"stopped after {limit:g} s; {_work(method, histogram, depth)}"
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
        seconds = _LEAST_SQUARES[method] * top * (_ROWS * top + _COLUMNS * num_full_strategies(top, depth))
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
    """Depths in ascending order, and last `limit` itself.

    They go up to the first that is a tenth of `within` above what is proven at `limit`, and lie closest around the
    smallest that is shown to be `within` reach of the best. No depth has more packs than a smaller one, whose plan it
    may use, nor a higher bound.

    A depth is left as soon as its packs are a tenth of `within` above their bound, or after the `rounds` of a quarter
    of `patience`. If all this takes 30 times `patience`, LPFHP alone answers for the depths that are left.
    """
    known: dict[int, DepthTrial] = {}
    close, until = within / 10, time.monotonic() + UNTIL_LOST * patience
    shortest = int(histogram.counts.nonzero()[0][0])
    deepest = min(histogram.max_length // shortest, histogram.num_sequences, limit or histogram.num_sequences)

    def at(depth: int | None) -> DepthTrial:
        return _packs_at(bounded, histogram, depth, close, rounds(histogram, depth, patience / 4), until)

    best = at(limit)
    for depth in itertools.chain.from_iterable((2**k, 3 * 2**k // 2) for k in itertools.count()):
        if depth >= deepest:
            break
        known[depth] = at(depth)
        if known[depth].packs <= (1 + close) * best.bound:
            break
    known.setdefault(deepest, replace(best, depth=deepest))  # there are no deeper packs
    while True:
        depths = _monotone(known, best, close)
        high = recommended(depths, within)
        low = max((depth for depth in known if depth < high), default=0)
        if high - low <= 1:
            return depths
        known[(low + high) // 2] = at((low + high) // 2)


def _monotone(known: dict[Any, DepthTrial], best: DepthTrial, close: float) -> tuple[DepthTrial, ...]:
    """The trials by depth, each with the fewest packs of those up to it and the highest bound of those from it on."""
    trials = [*(known[depth] for depth in sorted(known)), best]
    if trials[-2].depth == best.depth:
        del trials[-2]
    packs = itertools.accumulate((trial.packs for trial in trials), min)
    bounds = [*itertools.accumulate((trial.bound for trial in reversed(trials)), max)][::-1]
    return tuple(
        replace(trial, packs=fewest, bound=bound, gave_up=fewest > (1 + close) * bound)
        for trial, fewest, bound in zip(trials, packs, bounds, strict=True)
    )


def with_plan(depths: tuple[DepthTrial, ...], depth: int, made: PackingPlan, within: float) -> tuple[DepthTrial, ...]:
    """The trials of `try_depths` with what the plan that was made at one of the depths shows besides."""
    known = {
        trial.depth: replace(trial, packs=min(trial.packs, made.num_packs), bound=max(trial.bound, made.lower_bound))
        if trial.depth == depth
        else trial
        for trial in depths
    }
    last = known[depths[-1].depth]
    return _monotone({depth: trial for depth, trial in known.items() if depth}, last, within / 10)


def recommended(depths: tuple[DepthTrial, ...], within: float) -> int:
    """The smallest depth that is `within` reach of the last one's packs."""
    most = math.floor((1 + within) * depths[-1].packs)
    return next(trial.depth for trial in depths if trial.depth is not None and trial.packs <= most)


def rounds(histogram: LengthHistogram, depth: int | None, seconds: float) -> int:
    """Rounds of `optimal` that take about so many seconds on one core of an AMD EPYC.

    A round is a linear program with a row for each length (on long rows for some hundred), and a table of the most
    valuable packs. At least one is granted.
    """
    if takes_long(histogram, depth):
        return max(1, int(seconds / _LONG))
    lengths = int((histogram.counts > 0).sum())
    table = lengths * histogram.max_length * min(depth or 1, histogram.max_length)
    return max(1, int(seconds / (_LINEAR_PROGRAM * lengths**2 + _TABLE * table + _LEAST)))


def packs_at(histogram: LengthHistogram, depth: int | None, close: float, most_rounds: int) -> DepthTrial:
    """The fewest packs at a depth, up to a share `close` of the bound or until the rounds are used up."""

    def go_on(now: Progress | PackingPlan) -> bool:
        return now.num_packs - now.lower_bound > close * now.lower_bound

    greedy = plan(histogram, method="lpfhp", max_sequences_per_pack=depth).num_packs
    best = plan(histogram, method="optimal", max_sequences_per_pack=depth, rounds=0)
    if go_on(best):
        best = plan(histogram, method="optimal", max_sequences_per_pack=depth, rounds=most_rounds, progress=go_on)
    return DepthTrial(depth, best.num_packs, best.lower_bound, greedy)


def _packs_at(
    bounded: Bounded, histogram: LengthHistogram, depth: int | None, close: float, most_rounds: int, until: float
) -> DepthTrial:
    try:
        if (left := until - time.monotonic()) > 0:
            return bounded.call(packs_at, histogram, depth, close, most_rounds, limit=left)[0]
    except TimeIsUpError:
        pass  # LPFHP alone is quick
    greedy, _ = bounded.call(plan, histogram, method="lpfhp", max_sequences_per_pack=depth, limit=60)
    return DepthTrial(depth, greedy.num_packs, greedy.lower_bound, greedy.num_packs)
