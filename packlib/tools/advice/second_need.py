"""Packs that a second budget needs by itself, such as the patches of images, beside those that the tokens need."""

from typing import NamedTuple

from packlib.packing import PackingPlan, plan
from packlib.tools.advice.data import Taken


class SecondNeed(NamedTuple):
    """Packs that the sequences need by a second budget, and by their tokens.

    Attributes:
        column, budget: the column, and the most that a pack may hold of it.
        total: what all sequences take of it that are packed.
        lower_bound: the packs that it is proven to need by itself.
        by_tokens: the packs that the tokens are proven to need by themselves.
    """

    column: str
    budget: int
    total: int
    lower_bound: int
    by_tokens: int


def second_need(taken: Taken, by_tokens: PackingPlan) -> SecondNeed:
    """Count what the sequences that fit into a row need of the second budget.

    >>> import numpy as np
    >>> from packlib.packing import plan
    >>> from packlib.tools.advice.data import Taken
    >>> from packlib.tools.advice.second_need import second_need
    >>> taken = Taken("patches", 5, np.array([2, 2, 4, 9]), np.array([3, 4, 5, 5]))
    >>> second_need(taken, plan([2, 2, 4], max_length=8))
    SecondNeed(column='patches', budget=5, total=12, lower_bound=3, by_tokens=1)
    """
    fits = taken.lengths <= by_tokens.histogram.max_length
    of_each = taken.of_each[fits & (taken.of_each > 0)]
    least = plan(of_each, taken.budget, "lpfhp").lower_bound if len(of_each) else 0
    return SecondNeed(taken.column, taken.budget, int(of_each.sum()), least, by_tokens.lower_bound)
