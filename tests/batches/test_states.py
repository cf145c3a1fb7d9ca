"""A state goes on with the same data and settings only: with others, sequences would come twice or never."""

import numpy as np
import pytest

from packlib.batches import pack_loader
from packlib.distributed import DistributedCurriculumSampler
from packlib.packing import Packs, Schedule
from packlib.work import Work


def loader(num_packs=12, batch_size=2, **options):
    """Of packs with one sequence each."""
    packs = Packs(range(num_packs), range(num_packs + 1), [4] * num_packs, max_length=4)
    return pack_loader([{"input_ids": [7] * 4}] * num_packs, packs, batch_size=batch_size, **options)


def scheduled(num_packs=12, batch_size=1, ranks=2, window=2, **options):
    made = Schedule(range(num_packs), range(num_packs + 1), [4] * num_packs, 4, ranks, batch_size, window, Work(0, 1))
    return pack_loader([{"input_ids": [7] * 4}] * num_packs, made, ranks=ranks, rank=0, **options)


def curriculum(num_samples=12, **options):
    return DistributedCurriculumSampler(range(num_samples), np.arange(num_samples), **options)


OTHERS = {
    loader: {"num_packs": 13, "batch_size": 3, "seed": 1, "shuffle": False, "drop_last": True, "ranks": 2},
    scheduled: {"num_packs": 24, "window": 3, "ranks": 3},
    curriculum: {"num_samples": 13, "seed": 1, "curriculum": "local", "drop_last": True},
}


@pytest.mark.parametrize("make", OTHERS)
def test_a_state_of_another_setting_or_beyond_the_epoch_is_refused_and_changes_nothing(make):
    here = make()
    before = here.state_dict()
    for name, value in OTHERS[make].items():
        with pytest.raises(
            ValueError, match=f"The state is of a .*er with {name} {value}; this one has {before[name]}."
        ):
            here.load_state_dict(make(**{name: value}).state_dict())
        assert here.state_dict() == before
    (done,) = before.keys() & {"batches_done", "samples_done"}
    most = 12 if make is curriculum else 5  # at the end of an epoch a loader's state is at the start of the next
    for wrong in (-1, most + 1):
        with pytest.raises(ValueError, match=f"{done} must be from 0 to {most}, not {wrong}"):
            here.load_state_dict(before | {"epoch": 3, done: wrong})
        assert here.state_dict() == before
    here.load_state_dict(before | {"epoch": 3, done: most})
    assert here.state_dict()["epoch"] == 3
