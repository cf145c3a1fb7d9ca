"""Lists of numbers of which some are equal, as multisets: which of one list are in another, each as often as there."""

import numpy as np


def in_pairs(numbers: np.ndarray, other_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of equal numbers in both lists, in pairs; each place is in one pair at most."""
    kinds, other_kinds, _ = _kinds(numbers, other_numbers)
    ranks, other_ranks = _ranks(kinds), _ranks(other_kinds)
    rank_count = int(max(ranks.max(initial=0), other_ranks.max(initial=0))) + 1
    _, of_one, of_other = np.intersect1d(
        kinds * rank_count + ranks, other_kinds * rank_count + other_ranks, True, return_indices=True
    )
    return of_one, of_other


def without_partner(numbers: np.ndarray, other_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in each list that are left where as many equal numbers as possible are paired.

    The first of equal numbers are paired first.
    """
    one_order, other_order = (np.argsort(values, kind="stable") for values in (numbers, other_numbers))
    one_sorted, other_sorted = numbers[one_order], other_numbers[other_order]
    one_left = one_order[_beyond(one_sorted, other_sorted)]
    other_left = other_order[_beyond(other_sorted, one_sorted)]
    return np.sort(one_left), np.sort(other_left)


def _beyond(numbers: np.ndarray, other_numbers: np.ndarray) -> np.ndarray:
    """Mark the sorted `numbers` that come more often, up to their place, than in the sorted `other_numbers`."""
    rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    partners = np.searchsorted(other_numbers, numbers, side="right") - np.searchsorted(other_numbers, numbers)
    return rank >= partners


def _kinds(numbers: np.ndarray, other_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return small numbers for the numbers of both lists, the same for equal ones, and how many there are."""
    kinds, inverse = np.unique(np.concatenate([numbers, other_numbers]), return_inverse=True)
    return inverse[: len(numbers)], inverse[len(numbers) :], len(kinds)


def _ranks(kinds: np.ndarray) -> np.ndarray:
    """Count the values of the same kind before each."""
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    ranks = np.empty(len(kinds), np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks
