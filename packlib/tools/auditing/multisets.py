"""Lists of numbers of which some are equal, as multisets: which of one list are in another, each as often as there."""

import numpy as np


def in_pairs(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of equal numbers in both lists, in pairs; each place is in one pair at most."""
    had, has, _ = _kinds(one, other)
    had_rank, has_rank = _ranks(had), _ranks(has)
    most = int(max(had_rank.max(initial=0), has_rank.max(initial=0))) + 1
    _, of_one, of_other = np.intersect1d(had * most + had_rank, has * most + has_rank, True, return_indices=True)
    return of_one, of_other


def without_partner(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in each list that are left where as many equal numbers as possible are paired.

    The first of equal numbers are paired first.
    """
    one_order, other_order = (np.argsort(numbers, kind="stable") for numbers in (one, other))
    one_sorted, other_sorted = one[one_order], other[other_order]
    one_left = one_order[_beyond(one_sorted, other_sorted)]
    other_left = other_order[_beyond(other_sorted, one_sorted)]
    return np.sort(one_left), np.sort(other_left)


def _beyond(numbers: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Mark the sorted `numbers` that come more often, up to their place, than in the sorted `others`."""
    rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    partners = np.searchsorted(others, numbers, side="right") - np.searchsorted(others, numbers)
    return rank >= partners


def _kinds(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return small numbers for the numbers of both lists, the same for equal ones, and how many there are."""
    kinds, inverse = np.unique(np.concatenate([one, other]), return_inverse=True)
    return inverse[: len(one)], inverse[len(one) :], len(kinds)


def _ranks(kinds: np.ndarray) -> np.ndarray:
    """Count the values of the same kind before each."""
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    ranks = np.empty(len(kinds), np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks
