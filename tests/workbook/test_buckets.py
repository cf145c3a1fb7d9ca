"""Buckets against every choice there is, and against the padding that is counted elsewhere."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram
from packlib.workbook.chapters.n10_compilation.buckets import (
    BUCKET_METHODS,
    best_choices,
    choose_buckets,
    edges_and_counts,
)


def slots_of(edges, lengths: list[int]) -> int:
    """Slots by definition: each sequence in the first bucket that it fits into."""
    return sum(min(edge for edge in edges if edge >= length) for length in lengths)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(0, 9), st.integers(1, 9), st.data())
def test_no_choice_of_lengths_wastes_less(lengths, room, pad_to_multiple_of, data):
    top = max(lengths) + room
    histogram = LengthHistogram.from_lengths(lengths, top)
    allowed = sorted(
        {min(edge, top) for edge in range(pad_to_multiple_of, max(lengths) + pad_to_multiple_of, pad_to_multiple_of)}
    )
    used = {min(-(-length // pad_to_multiple_of) * pad_to_multiple_of, top) for length in lengths}
    k = data.draw(st.integers(1, min(len(used), 3)))
    least = min(slots_of(edges, lengths) for edges in combinations(allowed, k) if edges[-1] >= max(lengths))
    best = choose_buckets(histogram, k, pad_to_multiple_of)
    assert best.slots == slots_of(best.lengths, lengths) == least
    assert len(best.lengths) == k and set(best.lengths) <= set(allowed)
    choices = best_choices(*edges_and_counts(histogram, pad_to_multiple_of), 99)
    assert len(choices) == len(used) and tuple(choices[k - 1]) == best.lengths
    for method in BUCKET_METHODS[1:]:
        other = choose_buckets(histogram, k, pad_to_multiple_of, method)
        assert other.slots == slots_of(other.lengths, lengths) >= least
        assert len(other.lengths) <= k and set(other.lengths) <= set(allowed)


def test_bad_input_gets_one_sentence():
    histogram = LengthHistogram.from_lengths([3, 8, 9, 17])
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        choose_buckets(histogram, 0)
    with pytest.raises(ValueError, match=r"k is 4, but .* into 3 multiples of 8: k must be from 1 to 3"):
        choose_buckets(histogram, 4)
    with pytest.raises(ValueError, match=r"not 'best'"):
        choose_buckets(histogram, 2, method="best")
    with pytest.raises(ValueError, match="overflow 64 bits"):
        choose_buckets(LengthHistogram(np.array([0, 2**60]), max_length=100), 1)
