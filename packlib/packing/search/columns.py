"""Column generation: a linear program whose columns are found as they are needed.

Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem (1961): solve the program over the
columns that are known; its prices say which other columns would help; add some, and solve again, until none helps.

The prices of a solution jump from round to round. Looking for columns between them and the prices of the best bound so
far, the center, takes a few rounds instead of many (Wentges 1997); where that finds none, go nearer to the solution.

Three programs are solved in this way: packs of all lengths (`exact.py`), packs of a few lengths that stand for all
(`breakpoint_program.py`), and rows of groups that share a prompt (`group_bound.py`).
"""

from collections.abc import Callable, Iterator

import numpy as np


def generate_columns(
    solutions: Iterator[np.ndarray],
    center: Callable[[], np.ndarray],
    add_columns: Callable[[np.ndarray, np.ndarray], int | None],
    tenths: tuple[int, ...] = (8, 5, 2, 0),
) -> bool:
    """Solve a linear program again and again, each time with the columns that help, until none does.

    Args:
        solutions: solves the program over the columns so far, and yields the prices of the solution, one for each row;
            int64, shape (rows,). It ends where that is near enough, or the time is up.
        center: returns the prices of the best bound so far; int64, same shape.
        add_columns: is called with prices between center and solution, and with those of the solution. It looks for the
            best columns at the first, adds those that help at the second, and returns how many were new. It may also
            keep the first as the new center. It returns None to end.
        tenths: of the center in the prices between, tried in this order until columns are added; the last is 0.

    Returns:
        True if no column helps; False if `solutions` or `add_columns` ended first.
    """
    for solution_prices in solutions:
        center_prices = center()
        for tenths_of_center in tenths:
            prices_between = (center_prices * tenths_of_center + solution_prices * (10 - tenths_of_center)) // 10
            num_new = add_columns(prices_between, solution_prices)
            if num_new is None:
                return False
            if num_new:
                break
        else:
            return True  # none helps at the prices of the solution itself
    return False
