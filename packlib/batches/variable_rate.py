"""Scale the learning rate to the batch size, where batches by tokens hold different numbers of samples.

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
# Each rule: from the ratio of the batch sizes to the factor of the rate
RATE_RULES: dict[RateRule, Callable[[float], float]] = {
    "linear": lambda ratio: ratio,
    "sqrt": lambda ratio: ratio**0.5,
    "none": lambda ratio: 1.0,
}


def scale_learning_rate(rate: float, batch_size: int, reference: int, rule: RateRule = "linear") -> float:
    """Return the learning rate for an update of `batch_size` samples.

    Args:
        rate: the learning rate that was chosen for updates of `reference` samples.
        batch_size, reference: samples of a whole update: of all its micro-batches, on all ranks.
        rule: with b for `batch_size` and B for `reference`, "linear": rate · b / B; "sqrt": rate · sqrt(b / B);
            "none": rate.

    >>> from packlib.batches import scale_learning_rate
    >>> [scale_learning_rate(1e-3, batch, reference=2) for batch in (10, 4)]
    [0.005, 0.002]
    """
    one_of("rule", rule, RATE_RULES)
    number("rate", rate, at_least=0)
    ratio = whole_number("batch_size", batch_size, 1) / whole_number("reference", reference, 1)
    return rate * RATE_RULES[rule](ratio)


class VariableBatchLR:
    """Scale the rates of an optimizer to the samples of each update; between updates they are the unscaled ones.

        schedule = VariableBatchLR(scheduler, reference=256)
        for update in updates:
            schedule.scale(update.size)     # the rates of this update
            loss.backward(); optimizer.step()
            schedule.step()                 # the unscaled rates are back, and the scheduler goes on from them

    The unscaled rates are stored and put back, not computed back by a division, so that no rounding adds up. Any torch
    scheduler can be wrapped; `step` passes its arguments on (a metric for `ReduceLROnPlateau`). Other schedulers can
    work on the same optimizer, if they step after `step` and before `scale`. Torch does not allow a `VariableBatchLR`
    within `SequentialLR` (wrap that instead), nor `ReduceLROnPlateau` within `SequentialLR` or `ChainedScheduler`.

    >>> import torch
    >>> from packlib.batches import VariableBatchLR
    >>> weight = torch.zeros(1, requires_grad=True)
    >>> schedule = VariableBatchLR(torch.optim.SGD([weight], lr=0.1), reference=256)
    >>> schedule.scale(512), schedule.get_last_lr()
    (None, [0.2])

    Args:
        wrapped: a scheduler, or an optimizer without one.
        reference: samples of the updates that the unscaled rates were chosen for.
        rule: as in `scale_learning_rate`.
    """

    def __init__(self, wrapped: Any, reference: int, rule: RateRule = "linear") -> None:
        self.scheduler = None if isinstance(wrapped, Optimizer) else wrapped
        self.optimizer: Any = wrapped if self.scheduler is None else getattr(wrapped, "optimizer", None)
        if not isinstance(self.optimizer, Optimizer):
            raise TypeError(f"wrapped must be a scheduler or an optimizer, not {shown(wrapped)}.")
        self.reference = whole_number("reference", reference, 1)
        self.rule = one_of("rule", rule, RATE_RULES)
        # the unscaled and the scaled rates of each parameter group, from `scale` to `step`; None otherwise
        self._rates: tuple[list[float], list[float]] | None = None

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
        """Put the unscaled rates back, if they are scaled; raise a RuntimeError if others have changed the rates."""
        if self._rates is None:
            return
        unscaled, scaled = self._rates
        rates = self.get_last_lr()
        if rates != scaled:
            raise RuntimeError(
                f"Something changed the rates from {scaled} to {rates} between scale and step: let other "
                "schedulers step after this one, or wrap them."
            )
        self._write(unscaled)
        self._rates = None

    def _write(self, rates: list[float]) -> None:
        """Set the rate of each parameter group of the optimizer."""
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], torch.Tensor):  # of a compiled or captured optimizer
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state_dict(self) -> dict:
        """Return the reference, the rule, the rates if they are scaled now, and the state of the wrapped scheduler."""
        state_of_scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        return {"scheduler": state_of_scheduler, "reference": self.reference, "rule": self.rule, "rates": self._rates}

    def load_state_dict(self, state: dict) -> None:
        """Take over a state; load the optimizer's state of the same moment too.

        Raises:
            ValueError: if the state has another reference or rule.
        """
        for name in ("reference", "rule"):
            if state[name] != getattr(self, name):
                raise ValueError(f"The state has {name} {state[name]}; this one has {getattr(self, name)}.")
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self._rates = state["rates"]
