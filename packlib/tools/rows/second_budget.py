"""The second budget of a pack: a column, such as the patches of images, and the most that a pack may hold of it."""

from typing import Any

import numpy as np
import pyarrow as pa

from packlib.arguments import listed, shown, whole_number
from packlib.lengths.counting import MAX_LENGTH
from packlib.tools.rows.column_values import Columns


def column_and_budget(second_budget: Any) -> tuple[str, int]:
    """Check a second budget, such as `("patches", 125)`; return the name of its column, and the budget.

    Raises:
        TypeError, ValueError: unless it is the name of a column and a whole number from 1 up.
    """
    if (
        not isinstance(second_budget, (tuple, list))
        or len(second_budget) != 2
        or not isinstance(second_budget[0], str)
        or not second_budget[0]
    ):
        raise TypeError(f"second_budget must be the name of a column and a whole number, not {shown(second_budget)}.")
    return second_budget[0], whole_number("The second budget", second_budget[1], 1, MAX_LENGTH)


def refuse_over_budget(name: str, budget: int, columns: Columns, first_row: int) -> None:
    """Raise an error unless a column says what each sequence takes of the second budget, and each fits into it."""
    if name not in columns:
        raise ValueError(
            f"second_budget names {shown(name)}, which must be a column with a whole number for each sequence; "
            f"the data set has {listed(columns)}."
        )
    values, by_token = columns[name]
    kind = pa.list_(values.type) if by_token else values.type  # a list is no whole number, which the error says
    refuse_other_numbers(name, kind)
    refuse_above(name, budget, values.to_numpy(zero_copy_only=False), first_row)


def refuse_other_numbers(column: str, kind: pa.DataType) -> None:
    """Raise a TypeError unless `kind`, the Arrow type of a column, is one of whole numbers."""
    if not pa.types.is_integer(kind):
        raise TypeError(
            f"The column {shown(column)} of the second budget must hold a whole number for each sequence, not {kind}."
        )


def refuse_above(column: str, budget: int, taken: np.ndarray, first_row: int) -> None:
    """Raise a ValueError naming the first row that takes a negative number, or more than the budget.

    Args:
        taken: what each row takes of the budget; shape (number of rows,).
        first_row: number of the first row in the data set.
    """
    is_wrong = (taken < 0) | (taken > budget)
    if is_wrong.any():
        at = int(is_wrong.argmax())
        raise ValueError(
            f"Row {first_row + at} of the data set takes {taken[at]} of the second budget, {shown(column)}; each row "
            f"must take from 0 to {budget}: leave the row out, or raise the budget."
        )
