"""Adapt a training recipe when its rows become packs, and say why."""

import math
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

from packlib.arguments import instance, one_of
from packlib.training.recipe import Recipe, check_factor

How = Literal["accumulation", "batch", "betas", "linear_rate", "sqrt_rate"]
HOWS: tuple[How, ...] = get_args(How)
TOLERATED = 0.02  # relative error of the sequences per update: up to this, nothing else need change


class Adjustment(NamedTuple):
    """A recipe for packed rows, with the reason for each change.

    Attributes:
        recipe: the recipe for packed rows.
        reasons: why, in sentences, with what cannot be kept.
        error: how far it is off what it keeps, relative: the sequences an update ("accumulation", "batch"), or the
            weight of the newest gradient ("betas"); None where nothing is kept (the rates).
    """

    recipe: Recipe
    reasons: tuple[str, ...]
    error: float | None


def adjust(recipe: Recipe, packing_factor: float, how: How = "accumulation") -> Adjustment:
    """Adapt a training recipe from padded rows to packs with `packing_factor` sequences on average.

    Source: Krell et al. 2021 (arXiv 2107.02027), on hyper-parameters: accumulation, and the betas of LAMB.

    >>> from packlib.training import Recipe, adjust
    >>> padded = Recipe(8, learning_rate=1e-4, total_sequences=1_000_000, gradient_accumulation_steps=4)
    >>> packed, reasons, error = adjust(padded, packing_factor=2.0)
    >>> packed.gradient_accumulation_steps, error, reasons[0]
    (2, 0.0, 'Accumulation 4 ÷ 2 is 2: 32 sequences an update, as before.')

    Args:
        packing_factor: sequences in an average pack, at least 1.
        how: "accumulation": divide it, so that an update sees as many sequences as before. "batch": choose the micro
            batch too, between half the old one and the old one, which usually comes within 2 %; where it does not,
            raise the betas to the power of the ratio of new to old sequences per update. "betas": leave the batch alone
            and raise both betas to the power of the factor, so that the optimizer forgets as much per sequence as
            before. "linear_rate", "sqrt_rate": leave the batch alone and multiply the learning rate by the factor
            (Goyal et al. 2017) or by its square root (Krizhevsky 2014).

    Raises:
        TypeError, ValueError: if the factor is out of range, or the recipe is packed already.
    """
    instance("recipe", recipe, Recipe)
    one_of("how", how, HOWS)
    check_factor(packing_factor, recipe.max_length)
    if recipe.packing_factor != 1:
        raise ValueError(
            f"The recipe is packed already, with factor {recipe.packing_factor:g}; adjust the one it came from."
        )
    packed = replace(recipe, packing_factor=float(packing_factor))
    ways = {"accumulation": _divide_accumulation, "batch": _fit_batch, "betas": _raise_betas}
    if how in ways:
        after, reasons, error = ways[how](recipe, packed)
    else:
        after, reasons, error = *_scale_rate(packed, how), None
    last = (
        f"Warm-up and total stay {recipe.warmup_sequences:,} and {recipe.total_sequences:,} sequences: "
        f"{recipe.warmup_steps:,} and {recipe.total_steps:,} updates before, "
        f"{after.warmup_steps:,} and {after.total_steps:,} now."
    )
    return Adjustment(after, (*reasons, last), error)


def _fit_batch(before: Recipe, packed: Recipe) -> tuple[Recipe, list[str], float]:
    """Choose micro batch and accumulation: the least accumulation that comes near enough, or else the nearest pair.

    Args:
        before: the recipe of padded rows.
        packed: the same with the packing factor.

    Returns:
        The recipe, why, and its error, as in `Adjustment`; so do the other ways below.
    """
    wanted = before.sequences_per_update
    old = before.micro_batch
    half = (old + 1) // 2
    packs = wanted / (packed.replicas * packed.packing_factor)  # of a replica in an update, not yet whole
    least_steps = max(1, math.floor(packs / old))
    most_steps = max(1, math.floor(packs / half)) + 1
    candidates = list[Recipe]()
    for steps in range(least_steps, most_steps + 1):
        micro_batch = min(max(round(packs / steps), half), old)
        candidates.append(replace(packed, micro_batch=micro_batch, gradient_accumulation_steps=steps))
        if abs(_off(candidates[-1], wanted)) <= TOLERATED:
            break
    after = min(candidates, key=lambda recipe: abs(_off(recipe, wanted)))
    error = _off(after, wanted)
    reason = (
        f"Micro batch {old:,} × accumulation {before.gradient_accumulation_steps:,} becomes {after.micro_batch:,} × "
        f"{after.gradient_accumulation_steps:,}: {_counted(after, wanted)}."
    )
    if abs(error) <= TOLERATED:
        return after, [reason, _STAY], error
    times = 1 + error
    betas = tuple(beta**times for beta in before.betas)
    rate = before.learning_rate
    raised = (
        f"No micro batch from {half:,} to {old:,} comes within {100 * TOLERATED:.0f} %, so the betas are "
        f"raised to the power of {times:.4g}: {before.betas[0]:.6g} becomes {betas[0]:.6g}, "
        f"{before.betas[1]:.6g} becomes {betas[1]:.6g}. Or keep the betas and multiply the learning "
        f"rate by the root of {times:.4g}: {rate:.6g} becomes {rate * math.sqrt(times):.6g}. Compare a short run."
    )
    return replace(after, betas=betas), [reason, raised, *_beyond(times)], error


def _off(recipe: Recipe, wanted: float) -> float:
    """Return the share by which an update has more than the `wanted` sequences; exactly 0 if only rounding differs."""
    off = recipe.sequences_per_update / wanted - 1
    return off if abs(off) >= 1e-9 else 0.0


def _counted(r: Recipe, wanted: float) -> str:
    """Say how many sequences an update has, and how far that is off the `wanted` ones."""
    off = f"{100 * _off(r, wanted):+.1f} %".replace("-", "−")
    return f"{r.sequences_per_update:,.1f} sequences an update, {off} against {wanted:,.0f} before"


def _divide_accumulation(before: Recipe, packed: Recipe) -> tuple[Recipe, list[str], float]:
    """Divide the accumulation by the packing factor, rounded up or down to what comes nearer."""
    wanted = before.sequences_per_update
    old = before.gradient_accumulation_steps
    exact = old / packed.packing_factor
    whole_steps = (max(1, math.floor(exact)), math.ceil(exact))
    options = [replace(packed, gradient_accumulation_steps=steps) for steps in whole_steps]
    after = min(options, key=lambda recipe: abs(recipe.sequences_per_update - wanted))
    error = _off(after, wanted)
    divided = f"Accumulation {old:,} ÷ {packed.packing_factor:g} is {after.gradient_accumulation_steps:,}"
    first = "Accumulation is 1 and cannot be divided" if old == 1 else divided
    if not error:
        return after, [f"{first}: {wanted:,.0f} sequences an update, as before.", _STAY], 0.0
    reasons = [f"{first}{'' if old == 1 else ', rounded'}: {_counted(after, wanted)}."]
    reasons.append('Or choose the micro batch too, which may come closer: how="batch".')
    if abs(error) > TOLERATED:
        reasons.append("Or end updates at a number of sequences, as packlib.fit does with even_updates=True.")
    if error > 0.05:
        reasons.append('Or keep the batch and adjust the betas: how="betas".')
    return after, [*reasons, _STAY], error


_STAY = "Learning rate, betas and weight decay stay: they belong to the number of sequences behind an update."


_LAMB = (
    "With LAMB the runs that come with this package ended higher with raised betas than with nothing changed "
    "(data/runs/curves-lamb.csv), so compare a short run."
)


def _raise_betas(before: Recipe, packed: Recipe) -> tuple[Recipe, list[str], float]:
    """Raise the betas to the power of the packing factor."""
    k = packed.packing_factor
    after = replace(packed, betas=tuple(beta**k for beta in before.betas))
    # an update's share of the moment is 1 − β^k; in k single updates the newest gradient alone had 1 − β
    errors = [k * (1 - beta) / (1 - beta**k) - 1 for beta in before.betas]
    (old1, old2), (new1, new2) = before.betas, after.betas
    reasons = [
        f"An update now sees {after.sequences_per_update:,.1f} sequences instead of {before.sequences_per_update:,.0f},"
        f" so it has to forget as much as {k:g} updates did: beta1 {old1:.6g} becomes {new1:.6g}, beta2 {old2:.6g} "
        f"becomes {new2:.6g} (to the power of {k:g}).",
        f"That is exact for equal gradients only; before, the newest of {k:g} gradients had {100 * errors[0]:.1f} % "
        f"more weight than their mean in the first moment, {100 * errors[1]:.1f} % in the second.",
        "The learning rate stays; with fewer updates of the same rate the weights move less per sequence, and weight "
        "decay pulls less.",
        *[_LAMB] * (before.optimizer == "lamb"),
        *_beyond(k),
    ]
    return after, reasons, max(errors)


def _beyond(power: float) -> list[str]:
    """Warn of betas to a power that is far from the source's 2; return no sentence if it is not."""
    warning = f"Krell et al. (2021) measured betas to the power of 2; {power:.4g} lies far beyond what that shows."
    return [warning] if power > 3 else []


def _scale_rate(packed: Recipe, how: How) -> tuple[Recipe, list[str]]:
    """Multiply the learning rate by the packing factor, or by its root; return the recipe, and why."""
    scale = packed.packing_factor if how == "linear_rate" else math.sqrt(packed.packing_factor)
    after = replace(packed, learning_rate=packed.learning_rate * scale)
    return after, [
        f"An update now sees {packed.packing_factor:g} times the sequences; {how} multiplies the "
        f"learning rate by {scale:.4g}: {packed.learning_rate:.6g} becomes {after.learning_rate:.6g}.",
        "No rule keeps the learning curve exactly; with BERT and LAMB the published run with a scaled rate was "
        "worse than the one that kept the sequences an update, so compare a short run.",
    ]
