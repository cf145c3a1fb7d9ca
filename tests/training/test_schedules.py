"""Schedules that count sequences: equal to torch's and transformers' where all updates are equal."""

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from packlib.training import Recipe, SequenceSchedule, adjust, rate_at

UPDATES, WARM, BATCH, RATE = 40, 10, 32, 0.5


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)


def rates(scheduler, optimizer, updates=UPDATES + 5, **step):
    found = []
    for _ in range(updates):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(**step)
    return found


@pytest.mark.parametrize(("warm", "settings", "theirs"), [
    (WARM, {}, lambda o: transformers.get_linear_schedule_with_warmup(o, WARM, UPDATES)),
    (WARM, {"decay": "cosine"}, lambda o: transformers.get_cosine_schedule_with_warmup(o, WARM, UPDATES)),
    (0, {"decay": "polynomial", "power": 0.5}, lambda o: lr_scheduler.PolynomialLR(o, UPDATES, 0.5)),
    (
        WARM,
        {"decay": "polynomial", "power": 2.0},
        lambda o: transformers.get_polynomial_decay_schedule_with_warmup(o, WARM, UPDATES, lr_end=0, power=2),
    ),
])  # fmt: skip
def test_equal_updates_give_the_schedules_of_transformers_and_torch(warm, settings, theirs):
    ours, other = optimizer(), optimizer()
    schedule = SequenceSchedule(ours, UPDATES * BATCH, warm * BATCH, **settings)
    expected = rates(theirs(other), other, UPDATES)
    assert rates(schedule, ours, UPDATES, sequences=BATCH) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.sampled_from(["linear", "cosine"]))
def test_the_rate_depends_on_the_sequences_seen_and_not_on_how_they_came(updates, decay):
    ours = optimizer()
    schedule = SequenceSchedule(ours, 2000, 300, decay)
    for n in updates:
        ours.step()
        schedule.step(n)
    assert ours.param_groups[0]["lr"] == RATE * rate_at(sum(updates), 2000, 300, decay)


def test_the_rate_survives_packing():
    fall = {"decay": "polynomial", "power": 0.5}
    before = Recipe(4, RATE, 640, warmup_sequences=160, gradient_accumulation_steps=8, **fall)
    after = adjust(before, 2).recipe
    first, second = optimizer(), optimizer()
    padded = rates(SequenceSchedule.for_recipe(first, before), first, 20, sequences=32)
    packed = rates(SequenceSchedule.for_recipe(second, after), second, 20, sequences=32)
    assert packed == padded and max(padded) == RATE and padded[0] == 0
    assert padded == pytest.approx([RATE * rate_at(32 * n, 640, 160, **fall) for n in range(20)])


def test_the_ends():
    assert [rate_at(n, 100, 50) for n in (0, 25, 50, 75, 100, 1000)] == [0, 0.5, 1, 0.5, 0, 0]
    assert rate_at(0, 100) == 1 and rate_at(100, 100, 100) == 0 and rate_at(99, 100, 100) == 0.99


def test_bad_settings_get_one_sentence():
    for match, settings in {
        "total must be at least 1": {"total": 0},
        "warmup must be from 0 to 10, not 11": {"total": 10, "warmup": 11},
        "not 'step'": {"total": 10, "decay": "step"},
        "power must be above 0, not 0": {"total": 10, "decay": "polynomial", "power": 0},
        "power 2 needs decay 'polynomial', not 'linear'": {"total": 10, "power": 2},
    }.items():
        with pytest.raises(ValueError, match=match):
            SequenceSchedule(optimizer(), **settings)
    with pytest.raises(ValueError, match="sequences must be at least 0, not -1"):
        SequenceSchedule(optimizer(), 10).step(-1)
