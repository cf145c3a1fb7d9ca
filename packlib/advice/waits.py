"""How long replicas wait for the slowest when the packs of a plan are dealt to them at random."""

from typing import NamedTuple

import numpy as np

from packlib.advice.words import share_of
from packlib.packing import PackingPlan
from packlib.training.recipe import Recipe
from packlib.work import Waiting, Work, waiting

MOST_PACKS = 1 << 20  # of a plan with more, so many are drawn


def expected_waiting(
    plan: PackingPlan, recipe: Recipe, work: Work, window: int | None = None, seed: int = 0
) -> Waiting | None:
    """Shares of the time that the average replica waits, once an update; None where an update has too many packs.

    Args:
        plan: whose packs are dealt; its strategies give their work.
        recipe: after packing, for its replicas and the packs of each in an update.
        window: as in `packlib.work.waiting`.
        seed: of the deal, and of the packs that are drawn from a plan with more than `MOST_PACKS`.
    """
    if recipe.global_batch > min(plan.num_packs, MOST_PACKS):
        return None
    repeats, each = plan.repeats, np.add.reduceat(work.of(plan.items), plan.offsets[:-1])
    if plan.num_packs > MOST_PACKS:
        repeats = np.random.default_rng(seed).multinomial(MOST_PACKS, repeats / plan.num_packs)
    of_a_replica = recipe.micro_batch * recipe.gradient_accumulation_steps
    return waiting(np.repeat(each, repeats), recipe.replicas, of_a_replica, window, seed=seed)


class Dealt(NamedTuple):
    """How long replicas wait, by how packs are dealt.

    Attributes:
        random: shares of the time, if they are dealt at random.
        window: of `Packs.balance`, the smallest power of two that leaves half of that; None if none does.
        balanced: what it leaves.
    """

    random: Waiting
    window: int | None
    balanced: Waiting | None


def deal(plan: PackingPlan, recipe: Recipe, work: Work) -> Dealt | None:
    """How long replicas wait for the slowest; None for a single one, and where an update has too many packs.

    Args:
        plan, recipe, work: as in `expected_waiting`.
    """
    found = None if recipe.replicas == 1 else expected_waiting(plan, recipe, work)
    if found is None:
        return None
    window = 1
    while window <= plan.num_packs // recipe.global_batch:
        less = expected_waiting(plan, recipe, work, window)
        if less and less.mean <= found.mean / 2:
            return Dealt(found, window, less)
        window *= 2
    return Dealt(found, None, None)


def about_waiting(plan: PackingPlan, recipe: Recipe, work: Work, dealt: Dealt | None) -> str:
    """How long replicas wait, in words, and for which work; empty for a single replica.

    Args:
        plan, recipe, work: as in `expected_waiting`.
        dealt: what `deal` returns for them.
    """
    if recipe.replicas == 1:
        return ""
    if dealt is None:
        return (
            f"How long replicas wait for the slowest is not estimated: an update takes {recipe.global_batch:,} packs, "
            f"which must be at most {min(plan.num_packs, MOST_PACKS):,}."
        )
    found, halved = dealt.random, ""
    if dealt.balanced:
        way = f"Packs.balance(ranks={recipe.replicas}, packs_per_rank={recipe.global_batch // recipe.replicas}"
        halved = f" {way}, window={dealt.window}) leaves {share_of(dealt.balanced.mean)}."
    return (
        f"If the packs are dealt at random to {recipe.replicas:,} replicas, which meet once in an update, the average "
        f"replica waits {share_of(found.mean)} of the time for the slowest (95 % interval: {share_of(found.low)} to "
        f"{share_of(found.high)}).{halved} This is an estimate for {work.in_words}, "
        "without padding, communication and loading; notebook 13_balanced_work shows how to deal packs evenly."
    )
