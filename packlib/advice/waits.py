"""How long replicas wait for the slowest when the packs of a plan are dealt to them at random."""

import numpy as np

from packlib.packing import PackingPlan
from packlib.training.recipe import Recipe
from packlib.work import Waiting, Work, waiting

MOST_PACKS = 1 << 20  # of a plan with more, so many are drawn


def expected_waiting(plan: PackingPlan, recipe: Recipe, work: Work) -> Waiting | None:
    """Shares of the time that the average replica waits, once an update.

    None for a single replica, and where an update has more packs than there are.

    Args:
        plan: whose packs are dealt; its strategies give their work.
        recipe: after packing, for its replicas and the packs of each in an update.
    """
    if recipe.replicas == 1 or recipe.global_batch > min(plan.num_packs, MOST_PACKS):
        return None
    repeats, each = plan.repeats, np.add.reduceat(work.of(plan.items), plan.offsets[:-1])
    if plan.num_packs > MOST_PACKS:
        repeats = np.random.default_rng(0).multinomial(MOST_PACKS, repeats / plan.num_packs)
    of_a_replica = recipe.micro_batch * recipe.gradient_accumulation_steps
    return waiting(np.repeat(each, repeats), recipe.replicas, of_a_replica, seed=0)
