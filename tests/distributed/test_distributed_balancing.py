"""Balancing across ranks: on any number of processes, the schedule that one process makes."""

from dataclasses import fields

import numpy as np
import pytest
import rank_work as work

from packlib.distributed import RankError, balance_distributed, run_ranks
from packlib.lengths import LengthHistogram
from packlib.packing import Schedule, assign, plan
from packlib.work import Work

COSTS = Work(100, 1)
LENGTHS = np.minimum(np.exp(np.random.default_rng(0).normal(3, 1, 900)), 256).astype(int) + 1


def in_one_process(lengths, top, method, depth, ranks, each, seed):
    packs = assign(
        plan(LengthHistogram.from_lengths(lengths, top), method=method, max_sequences_per_pack=depth), lengths
    )
    return packs.balance(ranks, each, work=COSTS, seed=seed)


def parts_of(lengths, world_size):
    """Unequal parts, of which the first is empty where there are several."""
    return np.split(lengths, np.arange(world_size - 1) ** 2 * 50) if world_size > 1 else [lengths]


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_rank_gets_the_schedule_of_one_process(world_size):
    settings = [("lpfhp", None, 6, 1, 0), ("optimal", 40, 4, 3, 1), ("lpfhp", None, None, 2, 2)]
    examples = [
        ((257, method, depth, each), dict(work=COSTS, seed=seed, ranks=ranks))
        for method, depth, ranks, each, seed in settings
    ]
    found = run_ranks(work.balance_all, world_size, parts_of(LENGTHS, world_size), examples)
    schedules, batches = zip(*found, strict=True)
    for (method, depth, ranks, each, seed), *of_processes in zip(settings, *schedules, strict=True):
        alone = in_one_process(LENGTHS, 257, method, depth, ranks or world_size, each, seed)
        for made in of_processes:
            assert isinstance(made.verify(), Schedule)
            for field in fields(Schedule):
                assert np.array_equal(getattr(made, field.name), getattr(alone, field.name)), field.name
    whole = [np.concatenate([alone[i], alone[i + 1]]).tolist() for i in range(0, len(alone), 2)]
    assert [whole[rank::world_size] for rank in range(world_size)] == [*batches]  # and a loader reads the last one


def test_without_a_group_one_process_balances_alone():
    made = balance_distributed(LENGTHS, 257, "lpfhp", packs_per_rank=4, work=COSTS, ranks=8)
    assert (made.ranks, made.packs_per_rank) == (8, 4) and made.waiting < 0.02
    with pytest.raises(ValueError, match="Length 300 at position 1 is over the maximum length 257"):
        balance_distributed([3, 300], 257, work=COSTS)
    with pytest.raises(ValueError, match="There are no lengths; at least one is needed"):
        balance_distributed([], 257, work=COSTS)


def test_too_few_packs_for_whole_steps_are_told_on_all():
    with pytest.raises(
        RankError, match=r"ranks × packs_per_rank is 9, and so whole steps need 9 packs; there are only 2"
    ):
        run_ranks(work.balance_all, 2, [[3], [5]], [((8, "lpfhp", None, 9), dict(work=COSTS, ranks=1))])
