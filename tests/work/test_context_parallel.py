"""Context parallelism: what each rank has to do, against the cells of a causal mask that is built and cut."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.packing import Packs
from packlib.work import SHARDINGS, Work, context_shards

TOKENS, SQUARES = Work(1, 0), Work(0, 1)
PACKS = st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=5), min_size=1, max_size=4)


def packed(of_packs):
    """The packs with these lengths, of samples in another order."""
    lengths, ends = [*itertools.chain(*of_packs)], np.cumsum([0, *map(len, of_packs)])
    ids = np.random.default_rng(0).permutation(len(lengths))
    return Packs(ids, ends, lengths, max(map(sum, of_packs)))


def up_to_multiple(length, of):
    return length + -length % of


def by_mask(pack, ranks, sharding):
    """Tokens and cells of the causal mask of each rank: 2 cp chunks, one from the head and one from the tail."""
    chunks = 2 * ranks
    if sharding == "sequence":
        pack = [up_to_multiple(length, chunks) for length in pack]
        chunk = np.concatenate([np.arange(length) * chunks // length for length in pack])
    else:
        pack = [*pack[:-1], pack[-1] + -sum(pack) % chunks]
        chunk = np.arange(sum(pack)) * chunks // sum(pack)
    rank = np.minimum(chunk, chunks - 1 - chunk)
    sequence = np.repeat(np.arange(len(pack)), pack)
    mask = (sequence[:, None] == sequence) & np.tri(len(sequence), dtype=bool)
    return np.bincount(rank, minlength=ranks), np.bincount(rank, mask.sum(axis=1), ranks)


@settings(max_examples=60, deadline=None)
@given(PACKS, st.integers(2, 5), st.sampled_from(["sequence", "pack"]))
def test_every_rank_has_the_cells_of_its_rows_of_the_mask(of_packs, ranks, sharding):
    packs = packed(of_packs)
    tokens, squares = (context_shards(packs, ranks, sharding, work=work) for work in (TOKENS, SQUARES))
    for i, pack in enumerate(of_packs):
        held, cells = by_mask(pack, ranks, sharding)
        assert tokens.work[i].tolist() == held.tolist()
        assert squares.work[i].tolist() == (2 * cells - held).tolist()
        assert squares.padding_tokens[i] == held.sum() - sum(pack)
        if sharding == "sequence":
            assert len(set(cells)) == 1  # what head and tail are for
    both = context_shards(packs, ranks, sharding, work=Work(3, 2)).work
    assert both.tolist() == (3 * tokens.work + 2 * squares.work).tolist()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 3))
def test_whole_sequences_are_dealt_no_worse_than_graham_proved(pack, ranks):
    packs = packed([pack])
    work = Work(5, 1)
    shards = context_shards(packs, ranks, "whole", work=work)
    each = work.of(pack)
    deals = itertools.product(range(ranks), repeat=len(pack))
    best = min(np.bincount(deal, each, ranks).max() for deal in deals)
    assert best <= shards.work.max() <= (4 / 3 - 1 / (3 * ranks)) * best * (1 + 1e-12)
    assert shards.work.sum() == each.sum() and shards.padding_tokens.tolist() == [0]
    assert shards.work[0].tolist() == sorted(shards.work[0], reverse=True), "the busiest rank comes first"


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_one_rank_has_it_all_and_pads_nothing(sharding):
    packs = packed([[5, 3], [7]])
    shards = context_shards(packs, 1, sharding, work=Work(2, 1))
    assert shards.work.tolist() == [[16 + 34], [14 + 49]] and shards.padding_tokens.tolist() == [0, 0]
    assert shards.padding_tokens.dtype == np.int64
