"""Does an update change where its micro-batches change places? Then what one of them says decides for all."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.recorded_updates import NUDGE, RecordedUpdate, record_updates
from packlib.tools.check.training_noise import without_training

_LEAST = 1e-3  # of the size of what is compared: what rounding of sums in another order stays below
_CLEARLY = 10  # how many times as much an order changes as calls, seeds and rounding do
_NAMES = {
    "rates": "the rate of its optimizer",
    "applied": "what its optimizer applies",
    "change": "what its parameters change by",
}


class InTwoOrders(NamedTuple):
    """The result of updates of the same micro-batches in two orders.

    Attributes:
        changed: a sentence that says what the order changes; "" if it changes nothing.
        rate_moves: whether the rate of an optimizer moved between the micro-batches of an update.
    """

    changed: str
    rate_moves: bool


def in_two_orders(
    checked: CheckedBatch, parameters: list[nn.Parameter], batches: list[dict], step: Callable
) -> InTwoOrders:
    """Call a step with micro-batches in two orders, and compare the updates.

    Optimizers keep a state, so two calls differ of themselves; some steps do something in every second or fifth call,
    some draw noise, and some make rounding large, as a division by what is nearly 0. So what is compared must be the
    same in three calls of one order, the same in three of the other, and clearly another one between them.
    """

    def updates(*orders: list[dict], damping: float = 1.0, seed: int = 0) -> list[RecordedUpdate]:
        def seeded(model: nn.Module, given: list[dict]) -> None:
            checked.called.reseed(seed)
            step(model, given)

        with without_training():
            return record_updates(checked, parameters, orders, seeded, damping)

    forth, back = batches, batches[::-1]
    of_forth, of_back = ([update] for update in updates(forth, back))
    rate_moves = of_back[0].rate_moved  # the first update meets its optimizers when they step
    if not any(_apart(name, of_forth[0], of_back[0]) > _LEAST for name in _NAMES):
        return InTwoOrders("", rate_moves)
    later_back, later_forth = updates(back, forth)  # not forth, back: what every second call does is no order
    nudged = updates(forth, damping=NUDGE, seed=1)
    last_forth, last_back = updates(forth, back)
    of_forth += [later_forth, last_forth]
    of_back += [later_back, last_back]
    for name, words in _NAMES.items():
        by_order = min(_apart(name, one, other) for one in of_forth for other in of_back)
        by_itself = max(_apart(name, one, other) for same in (of_forth, of_back) for one in same for other in same)
        by_rounding = _apart(name, of_forth[0], nudged[0])
        if by_order > max(_LEAST, _CLEARLY * by_itself, _CLEARLY * by_rounding):
            said = f"If they change places, {words} is another one by {by_order:.2g} of its size."
            return InTwoOrders(said, rate_moves)
    return InTwoOrders("", rate_moves)


def _apart(name: str, one: RecordedUpdate, other: RecordedUpdate) -> float:
    """Return how far two updates lie apart, as a share of the larger one."""
    first, second = _values(getattr(one, name)), _values(getattr(other, name))
    if len(first) != len(second):
        return 1.0
    size = max(float(first.norm()), float(second.norm()))
    return float((first - second).norm()) / size if size else 0.0


def _values(seen: Tensor | Sequence[float]) -> Tensor:
    return torch.as_tensor(seen, dtype=torch.float64)
