"""`plan`: every packing method behind one call, and the table `METHODS` that a new method gets into.

A method is a function in a file of this folder. It takes a histogram and a depth limit, and returns strategies: the
lengths that share a pack, and how many such packs there are. This one gives each sequence a pack of its own:

    from packlib.lengths.histogram import LengthHistogram
    from packlib.packing.greedy import EqualPacks

    def unpacked(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
        return [((length,), count) for length, count in enumerate(histogram.counts.tolist()) if count]

With its name in `MethodName` and a line in `METHODS`, at the same place in both, `plan` finds it and verifies what it
returns; the command line and the tests of all methods include it, too. An option of its own, such as the `seed` of
`next_fit`, is a third argument of the function, and an argument of `plan` that goes into `all_options`. A histogram may
count up to 2^63 sequences: a method that takes them one by one refuses more than it can take, as `next_fit` of
`baselines.py` does, and is named in `_ONE_BY_ONE` of `tests/packing/test_plans.py`. SPFHP and LPFHP are in `greedy.py`,
exact filling in `exact_filling.py`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

from packlib.arguments import depth_limit, one_of, shown, whole_number
from packlib.lengths.counting import MAX_LENGTH, refuse_tables
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.baselines import next_fit, unpacked
from packlib.packing.exact_filling import exact_filling
from packlib.packing.greedy import EqualPacks, lpfhp, spfhp
from packlib.packing.nnls import ennlshp, nnlshp
from packlib.packing.plans import PackingPlan
from packlib.packing.proofs import Proof
from packlib.packing.rounding import rounded_up, with_true_lengths
from packlib.packing.search.lpt import lpt
from packlib.packing.search.optimal import optimal
from packlib.packing.search.progress import Progress
from packlib.packing.search.starts import exact_filling_steps

MethodName = Literal["unpacked", "next_fit", "spfhp", "lpfhp", "exact_filling", "lpt", "nnlshp", "ennlshp", "optimal"]
Method = MethodName | Literal["auto", "bfd"]

NEAR = 0.001  # of the proven minimum: a plan with at most so many more packs is good enough for "auto"
_STEPS = 10**9  # steps of "auto", its fast methods included: some two seconds
_SHARE_FOR_ROUNDED = 0.5  # of `_STEPS`, for a search of rounded lengths: its fast methods take most of that


class PackingMethod(Protocol):
    """Type of a method: from a histogram, a depth limit and the method's options to strategies.

    Where `plan` gets no depth limit, `max_sequences_per_pack` is the method's default: None for no limit, or a number,
    such as the 3 of `nnlshp`. A method that proves a lower bound itself returns `(strategies, proof)`, as `optimal`
    does. Without a proof, or with None, the plan gets the strongest bound that sums of tokens or sequences prove
    (`proofs.py`).
    """

    def __call__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int = ...
    ) -> list[EqualPacks] | tuple[list[EqualPacks], Proof | None]: ...


METHODS: Mapping[MethodName, PackingMethod] = {
    "unpacked": unpacked,
    "next_fit": next_fit,
    "spfhp": spfhp,
    "lpfhp": lpfhp,
    "exact_filling": exact_filling,
    "lpt": lpt,
    "nnlshp": nnlshp,
    "ennlshp": ennlshp,
    "optimal": optimal,
}


def method_name(method: Any) -> MethodName | Literal["auto"]:
    """Return a method's name in `METHODS`, or "auto"; for "bfd" (best fit decreasing, TRL's name) return "lpfhp".

    Raises:
        ValueError: for another name, with the names that are spelled nearly alike.
    """
    name: Any = "lpfhp" if isinstance(method, str) and method == "bfd" else method
    names: tuple[Any, ...] = "auto", "bfd", *METHODS
    return one_of("method", name, names)


def plan(
    lengths: LengthHistogram | Iterable[int],
    max_length: int | None = None,
    method: Method = "auto",
    *,
    max_sequences_per_pack: int | None = None,
    time_limit: float | None = None,
    rounds: int | None = None,
    progress: bool | Callable[[Progress], bool | None] | None = None,
    seed: int | None = None,
    cutoff: int | None = None,
    weight: float | None = None,
    rounding: Literal["down", "nearest"] | None = None,
    on_interrupt: Literal["return", "raise"] = "return",
) -> PackingPlan:
    """Plan how to pack sequences of these lengths, and verify the plan.

    >>> from packlib.packing import plan
    >>> best = plan([5, 3, 3, 2, 8], max_length=8)
    >>> best.strategies, best.num_packs, best.gap
    ([(8,), (5, 3), (3, 2)], 3, 0)
    >>> from packlib.lengths import load
    >>> plan(load("squad"), method="lpfhp", max_sequences_per_pack=3).num_packs
    40631

    Args:
        lengths: in tokens, in any order; or a `LengthHistogram`, such as `packlib.lengths.load` and
            `LengthHistogram.from_lengths` make.
        max_length: slots of a pack, in tokens; by default the longest length, or that of the histogram.
        method: a name in `METHODS`; "bfd", which is "lpfhp"; or "auto", the default. "auto" plans by "lpfhp". If that
            plan is not proven to be within 0.1 % of the fewest packs, it plans by "exact_filling", too; where very many
            lengths differ, it rounds them up for that by less than 0.1 %. If neither plan is within 0.1 %, it plans by
            "optimal" for about two seconds, which are counted in steps and not by a clock; rounded lengths get half of
            these steps, and no bar. It returns the plan with the fewest packs, whose `method` is the one that made it.
        max_sequences_per_pack: the depth limit, or None for none (`nnlshp` and `ennlshp` then take 3).
        time_limit: of `optimal`: seconds after which the best plan so far is returned; None for no limit. With a limit
            of seconds or rounds, "auto" is "optimal", which takes the time that you give it.
        rounds: of `optimal`: linear programs after which it is returned likewise, on a busy machine as on an idle one.
        progress: of `optimal`: True for a bar, False for none, or a function to call with the `Progress` after every
            round; by default a bar where stderr is a terminal and the search takes more than two seconds.
        seed: of `next_fit`: shuffles the lengths; by default 0.
        cutoff, weight: of `nnlshp`: lengths up to `cutoff` tokens (8) have this weight (0.09), all others 1.
        rounding: of `nnlshp` and `ennlshp`, "down" (the default) or to "nearest".
        on_interrupt: what an interrupt (Ctrl-C, or Jupyter's "Interrupt the kernel") does during the search of
            `optimal`. "return": `plan` returns the best plan so far, with a RuntimeWarning, as solvers do. "raise":
            `plan` raises KeyboardInterrupt, as every function of packlib does that plans as one of its steps, such as
            `pack_dataset`. Outside that search an interrupt is always raised.

    Raises:
        TypeError, ValueError: naming an unknown method, an option that it does not take, or a value that is not
            allowed, such as the first bad length, or a `max_length` that is not that of the histogram.
    """
    histogram = _histogram(lengths, max_length)
    name_or_auto = method_name(method)
    limit = depth_limit(max_sequences_per_pack)
    all_options: dict[str, Any] = dict(
        time_limit=time_limit,
        rounds=rounds,
        progress=progress,
        seed=seed,
        cutoff=cutoff,
        weight=weight,
        rounding=rounding,
    )
    options = {option: value for option, value in all_options.items() if value is not None}
    one_of("on_interrupt", on_interrupt, ("return", "raise"))
    name: MethodName
    if name_or_auto == "auto":
        if time_limit is None and rounds is None and {*options} <= {"progress"}:
            return auto_plans(histogram, limit, progress, on_interrupt)[0]
        name = "optimal"  # its options are those of "auto"
    else:
        name = name_or_auto
    parameters = inspect.signature(METHODS[name]).parameters
    # the first two are the histogram and the depth limit; packlib alone sets steps and known
    allowed = [option for option in list(parameters)[2:] if option not in ("on_interrupt", "steps", "known")]
    for option in options:
        if option not in allowed:
            options_in_words = f"its options are {', '.join(allowed)}" if allowed else "it has none"
            raise TypeError(f"{name_or_auto} has no option {option!r}: {options_in_words}.")
    if "on_interrupt" in parameters:
        options["on_interrupt"] = on_interrupt
    return _planned(histogram, name, limit, options)


def auto_plans(
    histogram: LengthHistogram,
    limit: int | None,
    progress: bool | Callable[[Progress], bool | None] | None = None,
    on_interrupt: Literal["return", "raise"] = "return",
    filled: PackingPlan | None = None,
) -> list[PackingPlan]:
    """Return the plans that "auto" makes, the best one first.

    Where exact filling of the true lengths would take more steps than "auto" has, the search packs rounded lengths,
    too: with tens of thousands of true lengths, its own fast methods would use up its steps.

    Args:
        histogram: the lengths to pack.
        limit: the depth limit, or None.
        progress, on_interrupt: as of `plan`.
        filled: as of `fast_plans`.

    Returns:
        The best plan, which is one of the true lengths, and the others, which may be plans of rounded lengths.
    """
    plans = fast_plans(histogram, limit, filled)
    lower_bound = plans[0].lower_bound  # of the true lengths
    if not is_near(plans[-1].num_packs, lower_bound):
        searched = rounded_up(histogram) if exact_filling_steps(histogram) > _STEPS else histogram
        if searched is not histogram:
            # no bar: it would show a bound that holds for the rounded lengths and not for the true ones
            options = {"steps": _SHARE_FOR_ROUNDED * _STEPS, "progress": False, "on_interrupt": "raise"}
            plans.append(_searched(searched, plans[1:], limit, options))  # the first plan is one of true lengths
        else:
            plans = [_of_true_lengths(made_plan, histogram) for made_plan in plans]
            options = {"steps": _STEPS, "progress": progress, "on_interrupt": on_interrupt}
            plans.append(_searched(histogram, plans, limit, options))

    def rank(made_plan: PackingPlan) -> tuple[int, int]:
        """Return a key that is least for the best plan: the fewest packs, and among those the highest bound."""
        is_of_true_lengths = made_plan.histogram == histogram
        bound = made_plan.lower_bound if is_of_true_lengths else lower_bound
        return made_plan.num_packs, -bound

    best, *others = sorted(plans, key=rank)
    return [_of_true_lengths(best, histogram), *others]


def _searched(
    histogram: LengthHistogram, known: list[PackingPlan], limit: int | None, options: dict[str, Any]
) -> PackingPlan:
    """Plan by "optimal"; the search begins with plans of the same lengths that were made already.

    Args:
        histogram: the lengths to pack.
        known: these plans.
        limit: the depth limit, or None.
        options: those of "optimal".
    """
    strategies = {
        made_plan.method: list(zip(made_plan.strategies, made_plan.repeats.tolist(), strict=True))
        for made_plan in known
    }
    return _planned(histogram, "optimal", limit, {**options, "known": strategies})


def fast_plans(
    histogram: LengthHistogram, max_sequences_per_pack: int | None, filled: PackingPlan | None = None
) -> list[PackingPlan]:
    """Return what "auto" plans before it searches: by "lpfhp", and by "exact_filling" if that is not near the minimum.

    Where exact filling takes over a quarter of the steps of "auto", as with 50,000 different lengths in rows of 100,000
    tokens, it fills packs with lengths that are rounded up by less than 0.1 %. Its plan is then a plan of the rounded
    lengths.

    Args:
        histogram: the lengths to pack.
        max_sequences_per_pack: the depth limit, or None.
        filled: a plan by exact filling that was made already; it is used if it is of the same lengths and depth limit.
    """
    plans = [_planned(histogram, "lpfhp", max_sequences_per_pack, {})]
    if is_near(plans[0].num_packs, plans[0].lower_bound):
        return plans
    maybe_rounded = rounded_up(histogram) if exact_filling_steps(histogram) > _STEPS / 4 else histogram
    if exact_filling_steps(maybe_rounded) <= _STEPS:
        if filled is None or _arguments_of(filled) != (maybe_rounded, max_sequences_per_pack):
            filled = _planned(maybe_rounded, "exact_filling", max_sequences_per_pack, {})
        plans.append(filled)
    return plans


def _arguments_of(made_plan: PackingPlan) -> tuple[LengthHistogram, int | None]:
    """Return the lengths and the depth limit that a plan was made for."""
    return made_plan.histogram, made_plan.max_sequences_per_pack


def _of_true_lengths(made_plan: PackingPlan, histogram: LengthHistogram) -> PackingPlan:
    """Put the true lengths into the packs of a plan of rounded ones; return another plan as it is."""
    if made_plan.histogram == histogram:
        return made_plan
    strategies = with_true_lengths(zip(made_plan.strategies, made_plan.repeats.tolist(), strict=True), histogram)
    limit = made_plan.max_sequences_per_pack
    return PackingPlan.from_strategies(histogram, strategies, made_plan.method, max_sequences_per_pack=limit)


def is_near(packs: int, lower_bound: int) -> bool:
    """Return whether so many packs are at most 0.1 % more than the lower bound, so that "auto" takes their plan."""
    return packs - lower_bound <= NEAR * lower_bound


def _planned(
    histogram: LengthHistogram, name: MethodName, limit: int | None, options: Mapping[str, Any]
) -> PackingPlan:
    """Plan by one method, with its options, and verify the plan.

    Args:
        histogram: the lengths to pack.
        name: of the method.
        limit: the depth limit; None for the method's default.
        options: arguments of the method.
    """
    function: Callable = METHODS[name]
    if limit is None:
        limit = inspect.signature(function).parameters["max_sequences_per_pack"].default
    # no pack takes more sequences than tokens, and a limit need not fit in 64 bits
    strategies = function(histogram, limit and min(limit, histogram.max_length), **options)
    strategies, proof = strategies if isinstance(strategies, tuple) else (strategies, None)
    return PackingPlan.from_strategies(histogram, strategies, name, max_sequences_per_pack=limit, proof=proof)


def _histogram(lengths: Any, max_length: Any) -> LengthHistogram:
    """Return the histogram of the arguments of `plan`, or raise an error that says which argument is wrong."""
    if not isinstance(lengths, LengthHistogram):
        refuse_tables(lengths, "Length")
        if isinstance(lengths, str | bytes) or not hasattr(lengths, "__iter__"):
            makers = "LengthHistogram.from_lengths and packlib.lengths.load make one"
            raise TypeError(f"plan takes lengths or a LengthHistogram, not {shown(lengths)}: {makers}.")
        return LengthHistogram.from_lengths(lengths, max_length)
    if max_length is not None and whole_number("max_length", max_length, 1, MAX_LENGTH) != lengths.max_length:
        raise ValueError(
            f"max_length must be {lengths.max_length}, that of the histogram, or left out, not {max_length}: "
            "histogram.with_max_length makes a histogram for other rows."
        )
    return lengths
