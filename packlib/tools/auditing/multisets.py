"""Lists of numbers of which some are equal, as multisets: which of one list are in another, each as often as there."""

import numpy as np


def in_pairs(numbers: np.ndarray, other_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of equal numbers in both lists, in pairs; each place is in one pair at most.

    The first of equal numbers in one list is paired with the first in the other, and so on.

    >>> import numpy as np
    >>> from packlib.tools.auditing.multisets import in_pairs
    >>> places, other_places = in_pairs(np.array([7, 5, 7]), np.array([7, 7, 8]))
    >>> places.tolist(), other_places.tolist()
    ([0, 2], [0, 1])
    """
    kinds, other_kinds = _kinds(numbers, other_numbers)
    ranks, other_ranks = _ranks(kinds), _ranks(other_kinds)
    rank_count = int(max(ranks.max(initial=0), other_ranks.max(initial=0))) + 1
    keys = kinds * rank_count + ranks  # each key is in a list once
    other_keys = other_kinds * rank_count + other_ranks
    _, places, other_places = np.intersect1d(keys, other_keys, assume_unique=True, return_indices=True)
    return places, other_places


def without_partner(numbers: np.ndarray, other_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in each list whose numbers have no partner in the other, if equal numbers are paired.

    The first of equal numbers are paired first.

    >>> import numpy as np
    >>> from packlib.tools.auditing.multisets import without_partner
    >>> places, other_places = without_partner(np.array([7, 5, 7]), np.array([7, 8]))
    >>> places.tolist(), other_places.tolist()
    ([1, 2], [1])
    """
    order, other_order = (np.argsort(values, kind="stable") for values in (numbers, other_numbers))
    in_order, others_in_order = numbers[order], other_numbers[other_order]
    places = order[_lack_partner(in_order, others_in_order)]
    other_places = other_order[_lack_partner(others_in_order, in_order)]
    return np.sort(places), np.sort(other_places)


def _lack_partner(numbers: np.ndarray, other_numbers: np.ndarray) -> np.ndarray:
    """Mark the sorted `numbers` before which there are already as many equal ones as in the sorted `other_numbers`."""
    rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)  # how many equal ones come before
    partners = np.searchsorted(other_numbers, numbers, side="right") - np.searchsorted(other_numbers, numbers)
    return rank >= partners


def _kinds(numbers: np.ndarray, other_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each number of both lists its rank among all different ones, from 0 on: equal for equal numbers."""
    _, kinds = np.unique(np.concatenate([numbers, other_numbers]), return_inverse=True)
    return kinds[: len(numbers)], kinds[len(numbers) :]


def _ranks(kinds: np.ndarray) -> np.ndarray:
    """Count the equal values before each value."""
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    ranks = np.empty(len(kinds), np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks
