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
    """Return the places in each list that are left where as many equal numbers as possible are paired."""
    had, has, kinds = _kinds(one, other)
    both = np.minimum(np.bincount(had, minlength=kinds), np.bincount(has, minlength=kinds))
    return np.flatnonzero(_ranks(had) >= both[had]), np.flatnonzero(_ranks(has) >= both[has])


def _kinds(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Small numbers for the numbers of both lists, the same for equal ones, and how many there are."""
    kinds, inverse = np.unique(np.concatenate([one, other]), return_inverse=True)
    return inverse[: len(one)], inverse[len(one) :], len(kinds)


def _ranks(kinds: np.ndarray) -> np.ndarray:
    """Count the values of the same kind before each."""
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    ranks = np.empty(len(kinds), np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks
