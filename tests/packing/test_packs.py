"""Packs: each sample once, the lengths of the plan, and files that are whole or not there."""

import os
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_cases import DEPTHS, FAST, histograms

from packlib.lengths import LengthHistogram, load
from packlib.packing import Packs, StreamPacker, plan


def check(packs, made, lengths):
    assert sorted(packs.sample_ids.tolist()) == list(range(len(lengths)))
    found = Counter(tuple(sorted((lengths[i] for i in pack), reverse=True)) for pack in packs)
    assert found == dict(zip(made.strategies, made.repeats.tolist(), strict=True))
    assert [sum(lengths[i] for i in pack) for pack in packs] == packs.lengths_used.tolist()
    assert [lengths[i] for i in packs.sample_ids] == packs.lengths.tolist() and packs.lengths.dtype == np.int32
    assert len(packs) == made.num_packs


@given(histograms(), st.sampled_from(FAST), st.sampled_from(DEPTHS), st.none() | st.integers(0, 99), st.data())
def test_each_sample_lands_in_one_pack_of_its_plan(histogram, method, depth, seed, data):
    lengths = data.draw(st.permutations(histogram.expand().tolist()))
    made = plan(histogram, method=method, max_sequences_per_pack=depth)
    packs = made.assign(lengths, seed)
    check(packs, made, lengths)
    assert np.array_equal(made.assign(np.array(lengths, np.uint16), seed).sample_ids, packs.sample_ids)


def test_the_seed_permutes_samples_of_equal_length():
    lengths = [3] * 40 + [5] * 40
    made = plan(lengths, 8, "lpfhp")
    plain, zero, again = (made.assign(lengths, seed).sample_ids for seed in (None, 0, 0))
    assert plain[:2].tolist() == [40, 0] and plain[-2:].tolist() == [79, 39]  # without a seed, in their order
    assert np.array_equal(zero, again)
    threes, fives = zero[zero < 40], zero[zero >= 40] - 40
    assert not np.array_equal(threes, fives)  # or sample i of one length would always meet sample i of another
    few = [7, 3, 3, 3, 2]
    orders = {tuple(plan(few, 7, "unpacked").assign(few, seed).sample_ids[1:4].tolist()) for seed in range(60)}
    assert len(orders) == 6


def test_overlong_samples_as_the_histogram_treated_them():
    lengths = [9, 4, 4, 12, 3]
    cut = LengthHistogram.from_lengths(lengths, 8, overlong="truncate")
    packs = plan(cut).assign(lengths)
    assert sorted(packs.sample_ids.tolist()) == [0, 1, 2, 3, 4] and packs.lengths_used.sum() == 27
    assert sorted(packs.lengths.tolist()) == [3, 4, 4, 8, 8]
    shorter = LengthHistogram.from_lengths(lengths, 8, overlong="drop")
    packs = plan(shorter).assign(lengths)
    assert sorted(packs.sample_ids.tolist()) == [1, 2, 4]


def test_packs_count_and_verify_themselves():
    lengths = [5, 3, 3, 2, 8]
    packs = plan(lengths, 8).assign(lengths)
    assert packs.num_packs == 3 and packs.efficiency == 21 / 24 and packs.verify() is packs
    lists = Packs([3, 0, 7], [0, 2, 3], [5, 3, 4], 8)
    assert lists[0].tolist() == [3, 0] and len(lists) == 2 and lists.sample_ids.dtype == np.int64
    damaged = Packs._of(**(vars(packs) | {"sample_ids": np.array([4, 0, 1, 2, 2])}))
    with pytest.raises(ValueError, match="Sample 2 comes more than once"):
        damaged.verify()


def wordnet_packs():
    histogram = load("wordnet")
    return plan(histogram, method="lpfhp").assign(np.random.default_rng(0).permutation(histogram.expand()), seed=1)


def test_save_and_load_as_mapped_arrays(tmp_path):
    packs = wordnet_packs()
    packs.save(tmp_path / "wordnet.packs")
    mapped = Packs.load(tmp_path / "wordnet.packs")
    assert not mapped.sample_ids.flags.owndata and mapped.max_length == 128
    assert len(mapped) == len(packs) and repr(mapped) == repr(packs)
    for name in ("sample_ids", "offsets", "lengths", "lengths_used"):
        assert np.array_equal(getattr(mapped, name), getattr(packs, name))
    assert np.array_equal(mapped[-1], packs[len(packs) - 1])
    with pytest.raises(IndexError, match="there is no pack"):
        mapped[len(packs)]
    with pytest.raises(FileNotFoundError):
        Packs.load(tmp_path / "missing.packs")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_gets_the_rights_that_the_umask_leaves(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        wordnet_packs().save(tmp_path / "some.packs")
    finally:
        assert os.umask(before) == umask
    assert (tmp_path / "some.packs").stat().st_mode & 0o777 == mode


def a_stream_by_hand(lengths, top, window, depth):
    """The packs that each sequence closes, and in the end those that are open, by a plain loop."""
    opened, closed = [], [[] for _ in lengths]  # those open in the order in which they were filled

    def used(pack):
        return sum(lengths[i] for i in pack)

    for i, length in enumerate(lengths):
        takes, pack = [pack for pack in opened if used(pack) + length <= top], ()
        if takes or len(opened) == window:
            pack = max(reversed(takes or opened), key=used)  # the first of the equally full
            opened.remove(pack)
        if not takes and pack:
            closed[i].append(pack)
            pack = ()
        pack += (i,)
        (closed[i] if used(pack) == top or len(pack) == depth else opened).append(pack)
    return closed, opened


@given(histograms(), st.integers(1, 6), st.sampled_from(DEPTHS), st.data())
def test_a_stream_is_packed_as_a_plain_loop_packs_it(histogram, window, depth, data):
    lengths = data.draw(st.permutations(histogram.expand().tolist()))
    packer = StreamPacker(histogram.max_length, window, depth)
    closed, opened = a_stream_by_hand(lengths, histogram.max_length, window, depth)
    assert [packer.add(length) for length in lengths] == closed and len(opened) <= window
    rest = packer.flush()
    assert sorted(rest) == sorted(opened) and packer.flush() == []
    packs = [*chain.from_iterable(closed), *rest]
    assert sorted(i for pack in packs for i in pack) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in pack) <= histogram.max_length for pack in packs)
    assert depth is None or max(map(len, packs)) <= depth


def test_a_wrong_length_in_a_stream_changes_nothing():
    packer = StreamPacker(8)
    packer.add(5)
    for bad, error in ((9, ValueError), (0, ValueError), (2.5, TypeError), (float("nan"), TypeError)):
        with pytest.raises(error, match="length of sequence 1 must be"):
            packer.add(bad)
    assert packer.add(3) == [(0, 1)] and packer.flush() == []
