"""The packs that a second budget alone needs, such as the patches of images, next to those that tokens alone need."""

from typing import NamedTuple

from packlib.packing import PackingPlan, plan
from packlib.tools.advice.data import SecondAmounts


class SecondNeed(NamedTuple):
    """Lower bounds on the number of packs, by a second budget and by tokens.

    Attributes:
        column: the column with each sequence's amount of the second budget.
        budget: the most that a pack may hold of it.
        total: amount of all sequences that are packed.
        lower_bound: the packs that this amount needs at least, whatever the tokens need.
        by_tokens: the packs that the tokens need at least, whatever the second budget needs.
    """

    column: str
    budget: int
    total: int
    lower_bound: int
    by_tokens: int


def second_need(second: SecondAmounts, by_tokens: PackingPlan) -> SecondNeed:
    """Return how many packs the sequences that fit into a row need at least, by the second budget and by tokens.

    >>> import numpy as np
    >>> from packlib.packing import plan
    >>> from packlib.tools.advice.data import SecondAmounts
    >>> from packlib.tools.advice.second_need import second_need
    >>> second = SecondAmounts("patches", 5, lengths=np.array([2, 2, 4, 9]), amounts=np.array([3, 4, 5, 5]))
    >>> second_need(second, plan([2, 2, 4], max_length=8))
    SecondNeed(column='patches', budget=5, total=12, lower_bound=3, by_tokens=1)

    Args:
        by_tokens: the plan of the tokens alone.
    """
    is_packed = second.lengths <= by_tokens.histogram.max_length
    amounts = second.amounts[is_packed & (second.amounts > 0)]
    # To pack the amounts alone is to pack sequences of these lengths into rows as long as the budget.
    lower_bound = plan(amounts, second.budget, "lpfhp").lower_bound if len(amounts) else 0
    return SecondNeed(second.column, second.budget, int(amounts.sum()), lower_bound, by_tokens.lower_bound)
