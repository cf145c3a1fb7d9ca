"""Packs that should keep a second budget: does each, and how many packs does that budget need by itself?"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from packlib.arguments import listed, shown
from packlib.files import named
from packlib.packing import plan
from packlib.tools.auditing.tables import Table, tables_of
from packlib.tools.rows.column_values import is_list, whole_numbers
from packlib.tools.rows.second_budget import refuse_other_numbers


class SecondBudget(NamedTuple):
    """Use of a second budget by packs.

    Attributes:
        column, budget: the column, and the most that a pack may hold of it.
        over: how many packs hold more.
        most: what the fullest pack holds.
        lower_bound: the packs that this budget alone is proven to need.
        lpfhp_packs: the packs that packlib's fast method makes where this is the only budget.
    """

    column: str
    budget: int
    over: int
    most: int
    lower_bound: int
    lpfhp_packs: int

    @property
    def problems(self) -> list[str]:
        """Say how many packs hold more than the budget; one sentence or none."""
        if not self.over:
            return []
        return [
            f"Packs with more than {self.budget:,} of the second budget, {shown(self.column)}: {self.over:,}; the "
            f"fullest has {self.most:,}."
        ]


def second_budget_of(data: Any, column: str, budget: int) -> SecondBudget:
    """Measure how packs use a second budget, by a column with a list in each row: a number for each sequence.

    Raises:
        TypeError, ValueError: naming the column if it is not there, or holds no such numbers.
    """
    tables = tables_of(data, "whole file of packs with a second budget")
    if tables is None:
        raise ValueError("second_budget needs packs with columns, in Parquet, JSON lines or Arrow.")
    over = largest = 0
    numbers_by_batch = [np.zeros(0, np.int64)]
    for table in tables:
        for sizes, numbers in _numbers(table, column):
            pack_of = np.repeat(np.arange(len(sizes)), sizes)  # for each sequence
            of_packs = np.bincount(pack_of, numbers, len(sizes)).astype(np.int64)
            over += int(np.count_nonzero(of_packs > budget))
            largest = max(largest, int(of_packs.max(initial=0)))
            numbers_by_batch.append(numbers[numbers > 0])
    numbers_used = np.concatenate(numbers_by_batch)
    if not len(numbers_used):
        return SecondBudget(column, budget, over, largest, 0, 0)
    plan_alone = plan(np.minimum(numbers_used, budget), budget, "lpfhp")
    return SecondBudget(column, budget, over, largest, plan_alone.lower_bound, plan_alone.num_packs)


def _numbers(table: Table, column: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read the column of a table in batches: how many numbers each pack has, and the numbers of all packs; int64."""
    first_row = 0
    with table.naming():
        if column not in table.schema.names:
            columns_there = listed(table.schema.names)
            raise ValueError(
                f"second_budget names {shown(column)}, which {table.name} has not; it has {columns_there}."
            )
        for batch in table.read([column]):
            values = batch.column(column)
            if not is_list(values.type):
                raise TypeError(
                    f"The column {named(column)} of the second budget must hold a list for each pack, with a "
                    f"number for each of its sequences, not {values.type}."
                )
            refuse_other_numbers(column, values.type.value_type)
            sizes, numbers = whole_numbers(column, values, first_row)
            if numbers.min(initial=0) < 0:
                raise ValueError(
                    f"The column {named(column)} of the second budget holds {numbers.min()}, not 0 or more."
                )
            yield sizes, numbers
            first_row += len(sizes)
