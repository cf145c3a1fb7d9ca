"""Packing across ranks: bit for bit what one process packs, in few bytes, and no rank left waiting."""

import itertools

import numpy as np
import pytest
import rank_work as work
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, FAST

from packbook.n09_distributed_sorting.runs import packing_traffic
from packlib.distributed import RankError, pack_distributed, run_ranks
from packlib.lengths import load
from packlib.packing import Packs, plan


@st.composite
def spread_lengths(draw, world_size):
    """Lengths of each rank, some of them without any, and the arguments of `pack_distributed`."""
    top = draw(st.integers(1, 40))
    lengths = st.lists(st.integers(1, top) | st.just(top), max_size=30)  # many ties at the top, as in Wikipedia
    parts = draw(st.lists(lengths, min_size=world_size, max_size=world_size).filter(any))
    return parts, (top, draw(st.sampled_from(FAST)), draw(st.sampled_from(DEPTHS)))


def in_one_process(lengths, top, method, depth=None):
    return plan(lengths, top, method, max_sequences_per_pack=depth).assign(lengths)


def check(shares, packs):
    """The ranks' packs, dealt in turn, are those of one process, and of the same types."""
    world_size, each = len(shares), np.split(packs.lengths, packs.offsets[1:-1])
    for rank, share in enumerate(shares):
        mine = range(rank, len(packs), world_size)
        assert (share.rank, share.world_size, len(share)) == (rank, world_size, len(mine))
        assert np.array_equal(share.lengths_used, packs.lengths_used[rank::world_size])
        assert share.lengths.tolist() == [*itertools.chain(*each[rank::world_size])]
        for ours, theirs in zip(share, mine, strict=True):
            assert np.array_equal(ours, packs[theirs])
        for name in ("sample_ids", "offsets", "lengths", "lengths_used"):
            assert getattr(share, name).dtype == getattr(packs, name).dtype


@pytest.mark.parametrize("world_size", [1, 2, 3])
@settings(max_examples=2, phases=[Phase.generate])  # to shrink would start ranks for minutes
@given(st.data())
def test_the_packs_of_many_ranks_are_those_of_one(world_size, data):
    examples = data.draw(st.lists(spread_lengths(world_size), min_size=20, max_size=20))
    shares = run_ranks(work.pack_all, world_size, examples)
    for (parts, arguments), *of_ranks in zip(examples, *shares, strict=True):
        check(of_ranks, in_one_process([*itertools.chain(*parts)], *arguments))


@pytest.fixture(scope="module")
def wikipedia_sample():
    return np.random.default_rng(0).choice(load("wikipedia").expand(), 40_000).astype(np.uint16)


@pytest.mark.parametrize(("world_size", "method"), [(2, "optimal"), (4, "lpfhp")])
def test_on_wikipedia_with_the_bytes_that_leave_counted(wikipedia_sample, world_size, method):
    packs = in_one_process(wikipedia_sample, 512, method)
    shares = [share for share, _ in run_ranks(work.pack_cut, world_size, wikipedia_sample, 512, method)]
    check(shares, packs)
    homes = np.empty(len(wikipedia_sample), int)
    for rank, part in enumerate(np.array_split(np.arange(len(homes)), world_size)):
        homes[part] = rank
    goals = np.empty_like(homes)
    goals[packs.sample_ids] = np.repeat(np.arange(len(packs)) % world_size, np.diff(packs.offsets))
    paper = packing_traffic(world_size, len(homes), 512)
    for rank, share in enumerate(shares):
        leave = int(((homes == rank) & (goals != rank)).sum())
        assert share.bytes_sent == {
            "histograms": 8 * 513 * (world_size - 1),
            "sample ids": 4 * leave + 8 * (world_size - 1),
        }
        assert share.bytes_sent["histograms"] == paper["histograms"]
        assert share.bytes_sent["sample ids"] == pytest.approx(paper["sample ids"], rel=0.03)


def test_no_rank_holds_all_lengths(wikipedia_sample):
    many = np.tile(wikipedia_sample, 50)
    ((_, alone),) = run_ranks(work.pack_cut, 1, many, 512, "lpfhp")
    for _, peak in run_ranks(work.pack_cut, 4, many, 512, "lpfhp"):
        assert peak < 0.3 * alone


def test_without_a_group_one_process_packs_alone(tmp_path):
    lengths = [5, 3, 8, 3, 1, 2]
    share = pack_distributed(lengths, 8, "lpfhp")
    check([share], in_one_process(lengths, 8, "lpfhp"))
    assert "rank 0 of 1: 3 of 3 packs of 8, 6 samples, 0 bytes sent" in repr(share)
    share.save(tmp_path / "share.packs")
    assert np.array_equal(Packs.load(tmp_path / "share.packs").sample_ids, share.sample_ids)
    with pytest.raises(ValueError, match="Length 9 at position 1 is over the maximum length 8: truncate or drop it"):
        pack_distributed([3, 9], 8)
    with pytest.raises(ValueError, match="no lengths on any rank"):
        pack_distributed([], 8)


def test_what_is_wrong_on_all_ranks_is_told_once():
    with pytest.raises(RankError, match=r"^Rank 0 of 2 raised ValueError: There are no lengths on any rank"):
        run_ranks(work.pack_all, 2, [([[], []], (8,))])


def test_one_rank_plans_for_all():
    check(run_ranks(work.pack_where_one_rank_can_plan, 2), in_one_process([3, 5, 8, 3, 5], 8, "lpfhp"))
