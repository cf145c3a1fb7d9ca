"""The search by exchanges, on packings that are known to exist."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import triplets

from packlib.packing.search.swapping import swap_search


def longest_first(lengths):
    return np.sort(np.array(lengths, np.int64))[::-1].copy()


def check(found, lengths, top, depth, packs):
    assert sorted(sum(found, ())) == sorted(lengths.tolist())
    assert len(found) <= packs and max(map(sum, found)) <= top and max(map(len, found)) <= (depth or len(lengths))


@pytest.mark.parametrize("packs", [6, 10])
def test_full_packs_of_three_are_found(packs):
    lengths = longest_first(triplets(packs, packs))
    found = next(filter(None, (swap_search(lengths, lengths, 1000, None, packs, 3000, s) for s in range(20))), None)
    assert found is not None
    check(found, lengths, 1000, None, packs)


@given(st.integers(8, 60), st.sampled_from([2, 3, 5, None]), st.integers(2, 8), st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_found_keeps_every_limit(top, depth, packs, data):
    lengths = longest_first(data.draw(st.lists(st.integers(1, top), min_size=2, max_size=24)))
    seed, prices = data.draw(st.integers(0, 3)), data.draw(st.lists(st.integers(0, 5), min_size=top, max_size=top))
    worth = np.array(prices)[lengths - 1]
    found, again = (swap_search(lengths, worth, top, depth, packs, 100, seed) for _ in range(2))
    assert found == again
    if found is not None:
        check(found, lengths, top, depth, packs)


def test_it_stops_when_the_time_is_up():
    left, lengths = [1.0, 0.0], longest_first([*triplets(40, 0).tolist(), 1])  # one token too many
    assert swap_search(lengths, lengths, 1000, None, 40, 8000, 0, lambda: left.pop(0)) is None
    assert not left
