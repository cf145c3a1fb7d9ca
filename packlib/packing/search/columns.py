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
    price: Callable[[np.ndarray, np.ndarray], int | None],
    shares: tuple[int, ...] = (8, 5, 2, 0),
) -> bool:
    """Solve a linear program again and again, each time with the columns that help, until none does.

    Args:
        solutions: solves the program over the columns so far, and yields the prices of the solution; int64. It ends
            where that is near enough, or the time is up.
        center: returns the prices of the best bound so far; int64, of the same shape.
        price: gets prices that are mixed of both, and those of the solution; it adds columns, and returns how many were
            new, or None to end.
        shares: tenths of the center in the prices that are tried, one after the other.

    Returns:
        True if no column helps; False if `solutions` or `price` ended first.
    """
    for own in solutions:
        before = center()
        for share in shares:
            found = price((before * share + own * (10 - share)) // 10, own)
            if found is None:
                return False
            if found:
                break
        else:
            return True
    return False
