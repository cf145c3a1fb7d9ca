"""Learning rates that follow the batch size: by the formula, without drift, around and beside torch's schedulers."""

from copy import deepcopy

import pytest
import torch
from torch.optim import lr_scheduler

from packlib.batches import VariableBatchLR, batch_by_tokens, scale_learning_rate

RATE = 1e-3
SIZES = [7, 1, 30, 4, 4, 11, 2, 9] * 4
SCHEDULERS = {
    "none": lambda o: o,
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),  # takes the rate as it finds it
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, RATE, 40),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 5), lr_scheduler.ExponentialLR(o, 0.9)], [5]
    ),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, cooldown=1),  # is handed a loss
}


def optimizer(rates=(RATE, 2 * RATE)):
    """An optimizer with a group of one weight for each learning rate."""
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates])


def run(schedule, sizes):
    """Return the learning rates at each update of such a size, and those after each update."""
    scaled, between = [], []
    for size in sizes:
        schedule.scale(size)
        scaled.append(schedule.get_last_lr())
        schedule.optimizer.step()
        schedule.step()
        between.append(schedule.get_last_lr())
    return scaled, between


def test_the_worked_example():
    lengths = [3] * 10 + [7, 8, 7, 8]
    batches = batch_by_tokens(lengths, 30)
    assert batches.sizes.tolist() == [10, 4] and batches.tokens.tolist() == [30, 30]
    schedule = VariableBatchLR(optimizer([1e-3]), reference=2)
    assert run(schedule, batches.sizes) == ([[5e-3], [2e-3]], [[1e-3], [1e-3]])
    assert [scale_learning_rate(0.5, 12, 3, rule) for rule in ("linear", "sqrt", "none")] == [2.0, 1.0, 0.5]


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("rule", ["linear", "sqrt"])
def test_the_wrapped_scheduler_never_sees_the_scaling(name, rule):
    plain, wrapped = optimizer(), optimizer()
    theirs, ours = SCHEDULERS[name](plain), VariableBatchLR(SCHEDULERS[name](wrapped), 4, rule)
    for size in SIZES:
        rates = [group["lr"] for group in plain.param_groups]
        ours.scale(size)
        assert ours.get_last_lr() == [scale_learning_rate(rate, size, 4, rule) for rate in rates]
        loss = [float(size)] if name == "plateau" else []
        plain.step(), wrapped.step(), ours.step(*loss)
        if name != "none":
            theirs.step(*loss)
        assert ours.get_last_lr() == [group["lr"] for group in plain.param_groups]  # bit for bit: no drift
    assert (ours.get_last_lr()[0] == RATE) == (name == "none"), "the case has something to see"


@pytest.mark.parametrize("name", ["none", "sequential"])
@pytest.mark.parametrize("between", [True, False])
def test_a_loaded_state_goes_on(name, between):
    expected = run(VariableBatchLR(SCHEDULERS[name](optimizer()), 4), SIZES)[0]
    broken = VariableBatchLR(SCHEDULERS[name](optimizer()), 4)
    run(broken, SIZES[:2])
    if not between:
        broken.scale(SIZES[2])  # saved in the middle of an update, with scaled rates
    state = deepcopy(broken.state_dict())
    other = optimizer()
    resumed = VariableBatchLR(SCHEDULERS[name](other), 4)
    other.load_state_dict(broken.optimizer.state_dict())
    resumed.load_state_dict(state)
    assert resumed.get_last_lr() == broken.get_last_lr()
    assert run(resumed, SIZES[2:])[0] == expected[2:]


def test_a_scheduler_that_steps_in_between_is_noticed():
    ours = optimizer()
    inner, schedule = lr_scheduler.ExponentialLR(ours, 0.9), VariableBatchLR(ours, 2)
    schedule.scale(10)
    ours.step()
    inner.step()
    with pytest.raises(RuntimeError, match="let other schedulers step after this one, or wrap them"):
        schedule.step()


def test_a_rate_in_a_tensor_stays_that_tensor():
    ours = optimizer([torch.tensor(RATE)])
    tensor, schedule = ours.param_groups[0]["lr"], VariableBatchLR(ours, 2)
    before = schedule.get_last_lr()
    schedule.scale(10)
    assert float(tensor) == pytest.approx(5e-3) and tensor is ours.param_groups[0]["lr"]
    schedule.step()
    assert schedule.get_last_lr() == before


def test_bad_input_gets_one_sentence():
    schedule = VariableBatchLR(optimizer(), 2)
    other = VariableBatchLR(optimizer(), 2, "sqrt").state_dict()
    for error, match, call in (
        (ValueError, "not 'quadratic'", lambda: scale_learning_rate(1, 2, 3, "quadratic")),
        (ValueError, "rate must be at least 0", lambda: scale_learning_rate(-1.0, 2, 3)),
        (ValueError, "batch_size must be at least 1, not 0", lambda: schedule.scale(0)),
        (TypeError, "batch_size must be a whole number", lambda: schedule.scale(2.5)),
        (ValueError, "reference must be at least 1", lambda: VariableBatchLR(optimizer(), 0)),
        (TypeError, "wrapped must be a scheduler or an optimizer, not 3", lambda: VariableBatchLR(3, 2)),
        (ValueError, "The state has rule sqrt; this one has linear", lambda: schedule.load_state_dict(other)),
    ):
        with pytest.raises(error, match=match):
            call()
