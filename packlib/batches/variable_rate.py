"""A learning rate that follows the batch size, where batches by tokens hold different numbers of samples.

Source: Goyal et al. 2017, "Accurate, large minibatch SGD" (arXiv 1706.02677), section 2.1, for the linear rule;
Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks" (arXiv 1404.5997), section 5, for
the square root, which keeps the variance of an update and is the usual choice for Adam.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.optim import Optimizer

from packlib.arguments import number, one_of, shown, whole_number

RateRule = Literal["linear", "sqrt", "none"]
RATE_RULES: dict[RateRule, Callable[[float], float]] = {
    "linear": lambda ratio: ratio,
    "sqrt": lambda ratio: ratio**0.5,
    "none": lambda ratio: 1.0,
}


def scale_learning_rate(rate: float, batch_size: int, reference: int, rule: RateRule = "linear") -> float:
    """Scale a learning rate that is right for `reference` samples to an update of `batch_size` samples.

    Args:
        batch_size, reference: samples of a whole update: of all its micro-batches, on all ranks.
        rule: "linear": rate · b / B; "sqrt": rate · sqrt(b / B); "none": rate.

    >>> from packlib.batches import scale_learning_rate
    >>> [scale_learning_rate(1e-3, batch, reference=2) for batch in (10, 4)]
    [0.005, 0.002]
    """
    one_of("rule", rule, RATE_RULES)
    number("rate", rate, at_least=0)
    return rate * RATE_RULES[rule](whole_number("batch_size", batch_size, 1) / whole_number("reference", reference, 1))


class VariableBatchLR:
    """Scales the rates of an optimizer for one update at a time; between updates they are the unscaled ones.

        schedule = VariableBatchLR(scheduler, reference=256)
        for update in updates:
            schedule.scale(update.size)     # the rates of this update
            loss.backward(); optimizer.step()
            schedule.step()                 # the unscaled rates are back, and the scheduler goes on from them

    The unscaled rates are put back, never divided back, so that nothing drifts. Any torch scheduler can be wrapped;
    `step` hands its arguments on (a metric for `ReduceLROnPlateau`). Schedulers can also work beside it on the same
    optimizer, if they step after `step` and before `scale`. What torch does not allow: a `VariableBatchLR` within
    `SequentialLR` (wrap that instead), and `ReduceLROnPlateau` within `SequentialLR` or `ChainedScheduler`.

    >>> import torch
    >>> from packlib.batches import VariableBatchLR
    >>> weight = torch.zeros(1, requires_grad=True)
    >>> schedule = VariableBatchLR(torch.optim.SGD([weight], lr=0.1), reference=256)
    >>> schedule.scale(512), schedule.get_last_lr()
    (None, [0.2])

    Args:
        wrapped: a scheduler, or an optimizer without one.
        reference: samples of an update for which the rates are right as they are.
        rule: as in `scale_learning_rate`.
    """

    def __init__(self, wrapped: Any, reference: int, rule: RateRule = "linear") -> None:
        self.scheduler = None if isinstance(wrapped, Optimizer) else wrapped
        self.optimizer: Any = wrapped if self.scheduler is None else getattr(wrapped, "optimizer", None)
        if not isinstance(self.optimizer, Optimizer):
            raise TypeError(f"wrapped must be a scheduler or an optimizer, not {shown(wrapped)}.")
        self.reference = whole_number("reference", reference, 1)
        self.rule = one_of("rule", rule, RATE_RULES)
        self._rates: tuple[list[float], list[float]] | None = None  # while they are scaled: without and with

    def scale(self, batch_size: int) -> None:
        """Set the rates for the coming update, of `batch_size` samples over all ranks and micro-batches."""
        self._restore()
        unscaled = self.get_last_lr()
        self._write([scale_learning_rate(rate, batch_size, self.reference, self.rule) for rate in unscaled])
        self._rates = unscaled, self.get_last_lr()

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Put the unscaled rates back after an update, and step the wrapped scheduler."""
        self._restore()
        if self.scheduler is not None:
            self.scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[float]:
        """Return the rates as they are now, one for each parameter group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def _restore(self) -> None:
        if self._rates is None:
            return
        (unscaled, scaled), now = self._rates, self.get_last_lr()
        if now != scaled:
            raise RuntimeError(
                f"Something changed the rates from {scaled} to {now} between scale and step: let other "
                "schedulers step after this one, or wrap them."
            )
        self._write(unscaled)
        self._rates = None

    def _write(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], torch.Tensor):  # of a compiled or captured optimizer
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state_dict(self) -> dict:
        """Return the rates without and with the scaling, the rule, and the state of the wrapped scheduler."""
        inner = None if self.scheduler is None else self.scheduler.state_dict()
        return {"scheduler": inner, "reference": self.reference, "rule": self.rule, "rates": self._rates}

    def load_state_dict(self, state: dict) -> None:
        """Go on from `state`; load the optimizer's state of the same moment too.

        Raises:
            ValueError: if the state has another reference or rule.
        """
        for name in ("reference", "rule"):
            if state[name] != getattr(self, name):
                raise ValueError(f"The state has {name} {state[name]}; this one has {getattr(self, name)}.")
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self._rates = state["rates"]
