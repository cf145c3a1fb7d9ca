"""Non-negative least squares, to the last digit the same on every processor.

The active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23). SciPy has it, too, on top
of BLAS, which adds up in an order of the processor's own. In packing many solutions are equally good, and the last
digits choose among them. Here every sum has one order. Few entries of a column are not 0, and only those are added up.
"""

import math
from typing import Any

import numpy as np

from packlib.arguments import as_floats, shown
from packlib.bars import progress_bar

_NOISE = 4 * 2.0**-52  # share of the target's length: what rounding may leave of it along any column
_DEPENDENT = 1e-10  # share of a column's length: if less is left without its parts along other columns, it is rounding


def nonnegative_least_squares(matrix: Any, target: np.ndarray) -> np.ndarray:
    """Find the x >= 0 for which `matrix @ x` comes nearest to `target`; of equally good ones always the same.

    The columns in use are the basis. Each step adds the column along which the distance falls most. Then x goes towards
    the best weights of the basis; columns whose weights would become negative on the way leave the basis.

    >>> import numpy as np
    >>> from packlib.packing import nonnegative_least_squares
    >>> nonnegative_least_squares(np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    array([2., 1.])

    Args:
        matrix: an array or a sparse matrix of SciPy, shape (rows, columns).
        target: one number for each row.

    Returns:
        float64, shape (columns,). The columns with an entry above 0 are linearly independent.

    Raises:
        ValueError: if the target does not have a number for each row, or a number is infinite or NaN.
    """
    target = as_floats("target", target)
    if np.ndim(matrix) != 2:
        raise TypeError(f"matrix must be an array or a sparse matrix of two dimensions, not {shown(matrix)}.")
    num_rows = matrix.shape[0]
    if target.shape != (num_rows,):
        raise ValueError(
            f"The target must have a number for each of the {num_rows} rows, not the shape {target.shape}."
        )
    rows, values = _entries(matrix)  # both shape (most entries, columns)
    if not (np.isfinite(target).all() and np.isfinite(values).all()):
        raise ValueError("The matrix and the target must be finite.")
    x = np.zeros(values.shape[1])
    noise = _NOISE * _length(target) * np.sqrt((values * values).sum(axis=0))
    basis = _Basis(target, most_columns=min(num_rows, len(x)))
    in_use = list[int]()  # the columns of the basis, in the order in which it has them
    residual = target
    distance = math.inf
    bar = progress_bar(progress=None, desc="least squares", unit=" steps")
    while (nearer := _length(residual)) < distance:  # if the last step came no nearer, only noise is left
        distance = nearer
        bar.update()
        gain = (values * residual[rows]).sum(axis=0)  # of each column: its scalar product with the residual
        gain[gain <= noise] = 0.0
        gain[in_use] = 0.0
        best = int(gain.argmax())
        while gain[best] and not basis.add(_weighted_sum(rows, values, [best], np.ones(1), num_rows)):
            gain[best] = 0.0  # the basis refused the column: try the next best
            best = int(gain.argmax())
        if not gain[best]:
            break
        in_use.append(best)
        weights = basis.weights()
        while weights.min(initial=1.0) <= 0.0:
            entries = _towards(weights, x[in_use])
            x[in_use] = entries
            for place in np.flatnonzero(entries == 0.0)[::-1].tolist():  # last first: later places shift
                basis.remove(place)
                del in_use[place]
            weights = basis.weights()
        x[in_use] = weights
        residual = target - _weighted_sum(rows, values, in_use, weights, num_rows)
    bar.close()
    return x


def _towards(weights: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Go from these entries of x in a straight line towards `weights`, until the first of them is 0.

    Args:
        weights: the best weights of the basis, of which at least one is 0 or less; shape (columns of the basis,).
        entries: what x has there now, above 0 wherever the weight is 0 or less; same shape.

    Returns:
        The entries at which it stops, none of them below 0; same shape.
    """
    falling = np.flatnonzero(weights <= 0.0)
    steps = entries[falling] / (entries[falling] - weights[falling])  # at which share of the way each is 0
    new_entries = entries + steps.min() * (weights - entries)
    new_entries[falling[steps == steps.min()]] = 0.0  # exactly, whatever rounding left
    return np.maximum(new_entries, 0.0)


def _entries(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the values of each column's entries that are not 0, filled up with zeros.

    >>> import numpy as np
    >>> from packlib.packing.least_squares import _entries
    >>> rows, values = _entries(np.array([[1.0, 0.0], [2.0, 3.0]]))
    >>> rows.tolist(), values.tolist()
    ([[0, 1], [1, 0]], [[1.0, 3.0], [2.0, 0.0]])

    Returns:
        Both shape (most entries of a column, columns).
    """
    from scipy.sparse import csc_array  # here, since it takes a while to import

    sparse = csc_array(matrix)
    sizes = np.diff(sparse.indptr)
    column = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(column)) - sparse.indptr[column]
    rows, values = np.zeros((sizes.max(), len(sizes)), np.intp), np.zeros((sizes.max(), len(sizes)))
    rows[place, column], values[place, column] = sparse.indices, sparse.data
    return rows, values


def _weighted_sum(
    rows: np.ndarray, values: np.ndarray, columns: list[int], weights: np.ndarray, num_rows: int
) -> np.ndarray:
    """Return the sum of these columns, each times its weight; shape (num_rows,).

    Args:
        rows, values: as `_entries` returns them.
        columns, weights: the columns, and the weight of each.
        num_rows: rows of the matrix.
    """
    return np.bincount(rows[:, columns].ravel(), (values[:, columns] * weights).ravel(), num_rows)


def _length(vector: np.ndarray) -> float:
    """Return the Euclidean length of a vector."""
    return math.sqrt(float((vector * vector).sum()))


def _turned(first: Any, second: Any, cos: float, sin: float) -> tuple[Any, Any]:
    """Return two axes, or the parts of vectors along two axes, after the axes are turned by an angle.

    >>> from packlib.packing.least_squares import _turned
    >>> _turned(3.0, 4.0, cos=0.0, sin=1.0)  # a quarter of a turn
    (4.0, -3.0)
    """
    return cos * first + sin * second, cos * second - sin * first


class _Basis:
    """The columns in use, as a triangular matrix times orthonormal directions.

    Attributes:
        target: what the columns are to come near to.
        size: how many columns are in use.
        directions: a direction in each row; shape (most columns, rows of a column).
        triangle: column i of those in use is `triangle[i, : i + 1] @ directions[: i + 1]`.
        along: for each direction its scalar product with the target.
    """

    def __init__(self, target: np.ndarray, most_columns: int) -> None:
        self.target = target
        self.size = 0
        self.directions = np.zeros((most_columns, len(target)))
        self.triangle = np.zeros((most_columns, most_columns))
        self.along = np.zeros(most_columns)

    def add(self, column: np.ndarray) -> bool:
        """Use one more column, unless it depends on those in use, or rounding alone made it look useful.

        Return whether it is used now.
        """
        n = self.size
        directions = self.directions[:n]
        parts = np.zeros(n)  # of the column along each direction
        remainder = column
        for _ in range(2):  # the second time takes out what rounding left
            parts_of_remainder = (directions * remainder).sum(axis=1)
            parts = parts + parts_of_remainder
            remainder = remainder - (directions * parts_of_remainder[:, None]).sum(axis=0)
        length = _length(remainder)
        if length <= _DEPENDENT * _length(column):
            return False
        direction = remainder / length
        along = float((direction * self.target).sum())
        if along <= 0.0:
            return False
        self.directions[n], self.along[n] = direction, along
        self.triangle[n, :n], self.triangle[n, n] = parts, length
        self.size += 1
        return True

    def remove(self, place: int) -> None:
        """Remove the column at a place; the later ones move up by a place.

        Each column that moved up has a part along one direction too many: after the first of three columns was removed,
        the other two have parts along two and three directions. So the directions are turned, two at a time, until the
        columns make a triangle again.

        >>> import numpy as np
        >>> from packlib.packing.least_squares import _Basis
        >>> basis = _Basis(target=np.array([5.0, 5.0]), most_columns=2)
        >>> basis.add(np.array([1.0, 0.0])), basis.add(np.array([2.0, 2.0]))
        (True, True)
        >>> basis.triangle[1]  # the parts of the second column along the two directions
        array([2., 2.])
        >>> basis.remove(0)
        >>> basis.triangle[0], basis.directions[0]  # it is now the first column, along the first direction alone
        (array([2.82842712, 0.        ]), array([0.70710678, 0.70710678]))
        """
        self.size -= 1
        n = self.size
        self.triangle[place:n] = self.triangle[place + 1 : n + 1]
        for i in range(place, n):
            self._turn_into_direction(i)

    def _turn_into_direction(self, i: int) -> None:
        """Turn directions i and i + 1 so that column i has no part along the second one (a Givens rotation).

        The columns and the target stay what they are, so their parts along the two directions change with these. The
        columns before column i have no such parts.
        """
        directions, along = self.directions, self.along
        later = self.triangle[i : self.size]  # column i and all after it
        part, part_to_remove = float(later[0, i]), float(later[0, i + 1])
        length = math.sqrt(part * part + part_to_remove * part_to_remove)
        cos, sin = part / length, part_to_remove / length
        later[:, i], later[:, i + 1] = _turned(later[:, i], later[:, i + 1], cos, sin)
        directions[i], directions[i + 1] = _turned(directions[i], directions[i + 1], cos, sin)
        along[i], along[i + 1] = _turned(along[i], along[i + 1], cos, sin)

    def weights(self) -> np.ndarray:
        """Solve for the weights of the columns in use that come nearest to the target, negative or not."""
        weights = self.along[: self.size].copy()
        for i in range(self.size - 1, -1, -1):
            weights[i] /= self.triangle[i, i]
            weights[:i] -= weights[i] * self.triangle[i, :i]
        return weights
