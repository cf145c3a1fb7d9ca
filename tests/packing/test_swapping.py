"""The search by exchanges: full packs are found, every limit is kept, and it stops when the time is up."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.packing.search.swapping import swap_search
from tests.benchmarks.bench_hard import full_triplets


def check(found, lengths, top, depth, packs):
    assert sorted(sum(found, ())) == sorted(lengths.tolist())
    assert len(found) <= packs and max(map(sum, found)) <= top and max(map(len, found)) <= (depth or len(lengths))


def test_full_packs_of_three_are_found():
    lengths = full_triplets(8, 1000, np.random.default_rng(8)).expand()[::-1].copy()
    tries = (swap_search(lengths, lengths, 1000, None, 8, 3000, seed, lambda: math.inf) for seed in range(20))
    check(next(filter(None, tries)), lengths, 1000, None, 8)


@given(st.integers(8, 60), st.sampled_from([2, 3, 5, None]), st.integers(2, 8), st.integers(0, 3), st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_found_keeps_every_limit(top, depth, packs, seed, data):
    lengths = np.sort(data.draw(st.lists(st.integers(1, top), min_size=2, max_size=24)))[::-1].copy()
    worth = np.array(data.draw(st.lists(st.integers(0, 5), min_size=top, max_size=top)))[lengths - 1]
    found, again = (swap_search(lengths, worth, top, depth, packs, 100, seed, lambda: math.inf) for _ in range(2))
    assert found == again
    if found is not None:
        check(found, lengths, top, depth, packs)


def test_it_stops_when_the_time_is_up():
    left, lengths = [1.0, 0.0], np.array([6, 6, 6])  # no two fit into a pack
    assert swap_search(lengths, lengths, 10, None, 2, 8000, 0, lambda: left.pop(0)) is None and not left
