"""Does an update change where its micro-batches change places? Then what one of them says decides for all."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.recorded_updates import NUDGE, RecordedUpdate, record_updates
from packlib.tools.check.training_noise import without_training

_ROUNDING = 1e-3  # of the size of what is compared: sums in another order differ by less
_CLEARLY = 10  # the order must change this many times as much as noise and rounding change from call to call
_NAMES = {  # what is compared, fields of `RecordedUpdate`, in words
    "rates": "the rate of its optimizer",
    "applied": "what its optimizer applies",
    "change": "what its parameters change by",
    "late_changes": "what it makes of buffers or frozen parameters",
}


class InTwoOrders(NamedTuple):
    """The result of updates of the same micro-batches in two orders.

    Attributes:
        changed: a sentence on what the order clearly changes; "" if that is nothing.
        unknown: a sentence on what differs, but no more clearly than calls in one order do; "" if nothing does.
        rate_moves: whether the rate of an optimizer moved between the micro-batches of an update.
    """

    changed: str
    unknown: str
    rate_moves: bool


def in_two_orders(
    checked: CheckedBatch, parameters: list[nn.Parameter], batches: list[dict], step: Callable
) -> InTwoOrders:
    """Call a step with micro-batches in two orders, and compare the updates.

    Some steps follow a schedule or do something in every fifth call, some draw noise, and some make rounding large, as
    a division by what is nearly 0. So an order must change far more than calls of one order differ, with other random
    numbers and with another rounding.
    """

    def updates(*orders: list[dict], damping: float = 1.0, seed: int = 0) -> list[RecordedUpdate]:
        """Make an update of each of these lists of micro-batches, one after the other."""

        def seeded(model: nn.Module, micro_batches: list[dict]) -> None:
            checked.called.reseed(seed)
            step(model, micro_batches)

        with without_training():
            return record_updates(checked, parameters, orders, seeded, damping)

    forth = batches
    back = batches[::-1]
    of_forth, of_back = ([update] for update in updates(forth, back))
    rate_moves = of_back[0].rate_moved  # the first update knows its optimizers only when they step
    if not any(_apart(name, of_forth[0], of_back[0]) > _ROUNDING for name in _NAMES):
        return InTwoOrders("", "", rate_moves)
    # back, forth, forth, back: what a step does in every second call goes with neither order
    later_back, later_forth, last_forth, last_back = updates(back, forth, forth, back, seed=1)
    of_forth += [later_forth, last_forth, *updates(forth, damping=NUDGE)]
    of_back += [later_back, last_back]
    unknown = ""
    for name, words in _NAMES.items():
        by_order = _least_apart(name, of_forth, of_back)
        between_calls = max(_most_apart(name, calls) for calls in (of_forth, of_back))
        if by_order > max(_ROUNDING, _CLEARLY * between_calls):
            sentence = f"If they change places, {words} is another one by {by_order:.2g} of its size."
            return InTwoOrders(sentence, "", rate_moves)
        if by_order > _ROUNDING:
            unknown = (
                f"{words.capitalize()} differs by {by_order:.2g} of its size if micro-batches change places, and by "
                f"{between_calls:.2g} between calls of one order: what their order changes is not known."
            )
    return InTwoOrders("", unknown, rate_moves)


def _least_apart(name: str, of_forth: list[RecordedUpdate], of_back: list[RecordedUpdate]) -> float:
    """Return by how much two updates in different orders differ at least.

    Rates also change from call to call, as in a warm-up. Only what is off a line through the calls counts for them.
    """
    distance = min(_apart(name, forth, back) for forth in of_forth for back in of_back)
    return min(distance, _apart_from_a_line(of_forth, of_back)) if name == "rates" else distance


def _most_apart(name: str, calls: list[RecordedUpdate]) -> float:
    """Return by how much two updates in the same order differ at most."""
    return max(_apart(name, update, other_update) for update in calls for other_update in calls)


def _apart(name: str, update: RecordedUpdate, other_update: RecordedUpdate) -> float:
    """Return how far a field of two updates is apart, relative to the larger one; 1 if it has other numbers."""
    values, other_values = _values(name, update), _values(name, other_update)
    if len(values) != len(other_values):
        return 1.0
    size = max(float(values.norm()), float(other_values.norm()))
    return float((values - other_values).norm()) / size if size else 0.0


def _apart_from_a_line(of_forth: list[RecordedUpdate], of_back: list[RecordedUpdate]) -> float:
    """Return how far the rates of the first four calls (forth, back, back, forth) are off a line, as in a warm-up.

    On a line the sum of the first and the fourth equals that of the second and the third.
    """
    first, fourth = (_values("rates", update) for update in of_forth[:2])
    second, third = (_values("rates", update) for update in of_back[:2])
    if len({len(rates) for rates in (first, second, third, fourth)}) > 1:
        return 1.0
    if not len(first):  # the step leaves gradients and applies none
        return 0.0
    size = float(torch.stack([first, second, third, fourth]).abs().max())
    return float((first + fourth - second - third).norm()) / 2 / size if size else 0.0


def _values(name: str, update: RecordedUpdate) -> Tensor:
    """Return a field of an update as numbers; a change divided by the mean rate, which may follow a schedule."""
    values = torch.as_tensor(getattr(update, name), dtype=torch.float64)
    rate = sum(update.rates) / len(update.rates) if update.rates else 0.0
    return values / rate if name == "change" and rate else values
