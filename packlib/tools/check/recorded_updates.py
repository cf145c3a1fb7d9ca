"""What backward passes deliver and what optimizers apply, while a trainer's step is called: hooks write it down."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from packlib.tools.check.called_model import keeping_modes, ranks, sampled_numbers
from packlib.tools.check.collated_batch import CheckedBatch, in_one_sentence
from packlib.tools.check.training_noise import WithoutDropout, without_training

NEAR = 0.05  # what two weights may differ by, as a share, and still be called equal
NUDGE = 1 + 2.0**-14  # gradients times this are the same but for their rounding


def near(values: Any, expected: Any) -> bool:
    """Return whether values differ from the expected ones by less than the share `NEAR` of these."""
    return np.allclose(values, expected, rtol=NEAR)


def all_near(values: np.ndarray) -> bool:
    """Return whether all values are near their mean."""
    return near(values, np.full(len(values), values.mean()))


def weights_in(update: Tensor, gradients: Sequence[Tensor]) -> np.ndarray:
    """Find the weights with which these gradients add up to an update, by least squares; shape (gradients,).

    Args:
        update, gradients: each of shape (numbers,).
    """
    matrix = torch.stack([*gradients], 1)
    return torch.linalg.lstsq(matrix, update[:, None]).solution[:, 0].numpy()


@dataclass(frozen=True)
class RecordedUpdate:
    """The record of one call of a step.

    Only some numbers of each parameter are looked at (`sampled_numbers`), those of all parameters end to end.

    Attributes:
        delivered: the sum of the gradients that backward passes gave, on average over ranks; shape (numbers,).
        applied: the gradients that the optimizer read in its first step; those in `.grad` at the end if no optimizer
            stepped; shape (numbers,).
        steps: how often optimizers stepped the parameter that they stepped most often.
        ranks_agree: whether all ranks applied the same.
        num_reached: how many parameters got a gradient.
        num_stale: how many of these still had the gradient of the update before when the first one came.
        optimizers: those that stepped.
        in_an_optimizer: shape (parameters,), whether one of these optimizers has the parameter.
        num_moved: how many parameters had changed already when the first optimizer that has them stepped.
        num_drifted: how many frozen parameters, such as a teacher's, had changed when a later micro-batch was computed.
        searches: whether an optimizer computed gradients more than once in a step, by a closure.
        change: the parameters at the end less those at the begin; shape (numbers,).
        rates: the rate of each group of parameters at each step of an optimizer.
        rate_moved: whether a rate was another one at a later micro-batch than at the first.
        late_changes: how buffers and frozen parameters changed after the model was called for the last time; 0 for
            those that the step also changes between micro-batches, such as running statistics.
        num_copies: how many tensors optimizers stepped that are copies of parameters and have a gradient.
        num_idle_copies: how many tensors optimizers stepped that are copies of parameters and have no gradient.
        num_unseen: how many tensors optimizers stepped that are neither the model's parameters nor copies of them.
    """

    delivered: Tensor
    applied: Tensor
    steps: int
    ranks_agree: bool
    num_reached: int
    num_stale: int
    optimizers: list[torch.optim.Optimizer]
    in_an_optimizer: np.ndarray
    num_moved: int
    num_drifted: int
    searches: bool
    change: Tensor
    rates: tuple[float, ...]
    rate_moved: bool
    late_changes: Tensor
    num_copies: int
    num_idle_copies: int
    num_unseen: int

    def is_finite(self) -> bool:
        """Return whether no gradient is NaN or infinite."""
        return bool(self.delivered.isfinite().all() and self.applied.isfinite().all())

    def trains_copy_alone(self) -> bool:
        """Return whether copies were trained, and the model was not: it got no gradient, and nothing changed it.

        Copies in another precision also step, but they get the model's gradients, or give the model their values.
        """
        may_change = any(self.rates)
        model_is_untouched = not self.delivered.any() and not self.change.any()
        return self.num_copies > 0 and may_change and bool(model_is_untouched)


def record_update(
    checked: CheckedBatch,
    parameters: list[nn.Parameter],
    batches: list[dict],
    step: Callable,
    damping: float = 1.0,
    still: bool = False,
) -> RecordedUpdate:
    """Call the step once, and leave parameters and gradients as they were.

    Args:
        damping: factor that each gradient is multiplied with as it arrives.
        still: whether to keep the model from `train()`, since it may draw noise in training.
    """
    with without_training() if still else nullcontext():
        return record_updates(checked, parameters, [batches], step, damping)[0]


def record_updates(
    checked: CheckedBatch,
    parameters: list[nn.Parameter],
    updates: Sequence[list[dict]],
    step: Callable,
    damping: float = 1.0,
) -> list[RecordedUpdate]:
    """Call the step for one update after another, each with the parameters, buffers and optimizer states of the first.

    Gradients are left from one update to the next. In the end they are what they were, as parameters and states are.
    """
    module = checked.called.module
    recorder = _Recorder(module, parameters, damping)
    recorded = []
    with _put_back(module, parameters) as put_back, recorder.hooks():
        for p in parameters:
            p.grad = None
        for batches in updates:
            recorder.begin()
            checked.called.reseed()
            sentence = (
                f"step failed when it was called as step(model, batches) with a list of {len(batches)} micro-batches"
            )
            with in_one_sentence(sentence), keeping_modes(module), WithoutDropout():
                step(checked.called.outer, deepcopy(batches))
            recorded.append(recorder.update())
            put_back()
            recorder.put_states_back()
    return [_over_ranks(update, recorder.sharded) for update in recorded] if ranks() > 1 else recorded


def frozen_parameters(module: nn.Module, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Return what does not learn, as the parameters of a teacher that a step moves; none if they are far more.

    Frozen weights below adapters are far more: no step moves these, and copies of them would fill the memory.
    """
    frozen = [p for p in module.parameters() if not p.requires_grad]
    are_many = sum(p.numel() for p in frozen) > 3 * sum(p.numel() for p in parameters)
    return [] if are_many else frozen


@contextmanager
def _put_back(module: nn.Module, parameters: list[nn.Parameter]) -> Iterator[Callable[[], None]]:
    """Put values and gradients back in the end, and give a function that puts the values back in between."""
    tensors = (*parameters, *frozen_parameters(module, parameters), *module.buffers())
    values = [x.detach().clone() for x in tensors]
    gradients = [p.grad for p in parameters]

    @torch.no_grad()
    def put_values_back() -> None:
        for x, value in zip(tensors, values, strict=True):
            x.copy_(value)

    try:
        yield put_values_back
    finally:
        put_values_back()
        for p, gradient in zip(parameters, gradients, strict=True):
            p.grad = gradient


class _Recorder:
    """Hooks that write down which gradients come to parameters, and which of these optimizers apply.

    Attributes:
        first_values, first_frozen: parameters and frozen parameters as they were before the first update.
        known_optimizers, first_states: the optimizers that have stepped, and their states before they first did.
        first_copies: what optimizers have that is no parameter of the model, with its values before the first step.
        original_of: for each of these the parameter that it is a copy of; None if it is no copy.
        first_sums: of sharded parameters, the gradient that came first in the first update.

    Those of one update, which `begin` sets:
        delivered, taken: by parameter, the sum of its gradients, and its gradient at each step of an optimizer.
        left_before: by sharded parameter, the gradient that the update before left.
        reached, stale: the parameters that got a gradient, and those of them that still had an old one.
        is_moved: by parameter of an optimizer, whether it had changed before the optimizer stepped.
        last_called: buffers and frozen parameters as the last call of the model left them.
        following: the indices of those of them that change between two calls.
    """

    def __init__(self, module: nn.Module, parameters: list[nn.Parameter], damping: float) -> None:
        self.module = module
        self.parameters = parameters
        self.damping = damping
        self.sharded = any(isinstance(p, DTensor) for p in parameters)
        self.first_values = {p: p.detach().clone() for p in parameters}
        self.first_frozen = {p: p.detach().clone() for p in frozen_parameters(module, parameters)}
        self.first_sums = dict[nn.Parameter, Tensor]()
        self.own_parameters = set(module.parameters())
        self.known_optimizers = list[torch.optim.Optimizer]()
        self.first_states = list[dict]()
        self.first_copies = dict[Tensor, Tensor]()
        self.original_of = dict[Tensor, nn.Parameter | None]()
        self.begin()

    def begin(self) -> None:
        """Begin an update: forget the one before, but for the gradients that it left."""
        self.delivered = {p: sampled_numbers(p, None) for p in self.parameters}
        self.taken: dict[nn.Parameter, list[Tensor]] = {p: [] for p in self.parameters}
        self.left_before = {p: sampled_numbers(p, p.grad) for p in self.parameters} if self.sharded else {}
        self.reached = set[nn.Parameter]()
        self.stale = set[nn.Parameter]()
        self.is_moved = dict[nn.Parameter, bool]()
        self.drifted = set[nn.Parameter]()
        self.optimizers = list[torch.optim.Optimizer]()
        self.copies = set[Tensor]()
        self.idle_copies = set[Tensor]()
        self.searches = False
        self.rates = list[float]()
        self.rates_at_first: list[float] | None = None
        self.rate_moved = False
        self.last_called = list[Tensor]()
        self.following = set[int]()

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Write down while this lasts."""
        handles = [
            register_optimizer_step_pre_hook(self._before_step),
            self.module.register_forward_pre_hook(self._compare_frozen),
            self.module.register_forward_pre_hook(self._compare_rates),
            self.module.register_forward_pre_hook(self._see_what_follows),
            self.module.register_forward_hook(self._keep_what_does_not_learn),
        ]
        if self.sharded:
            handles += [p.register_post_accumulate_grad_hook(self._sum_changed) for p in self.parameters]
        else:
            if self.damping != 1:
                handles += [p.register_hook(lambda gradient: gradient * self.damping) for p in self.parameters]
            handles += [p.register_hook(partial(self._gradient_came, p)) for p in self.parameters]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.put_states_back()

    @torch.no_grad()
    def put_states_back(self) -> None:
        """Give each optimizer what it had before its first step: its momentum, its copies of parameters."""
        for copy, value in self.first_copies.items():
            copy.copy_(value)
        for optimizer, state in zip(self.known_optimizers, self.first_states, strict=True):
            optimizer.state.clear()
            optimizer.state.update(_copied(state))

    def update(self) -> RecordedUpdate:
        """Return what was written down since the update began."""
        steps = max(map(len, self.taken.values()), default=0)
        applied = []
        for p in self.parameters:
            if self.taken[p]:
                applied.append(self.taken[p][0])
            elif steps:  # the optimizers that stepped applied nothing to this parameter
                applied.append(sampled_numbers(p, None))
            else:  # step leaves the update in the gradients
                applied.append(sampled_numbers(p, p.grad))
        return RecordedUpdate(
            delivered=torch.cat([*self.delivered.values()]),
            applied=torch.cat(applied),
            steps=steps,
            ranks_agree=True,
            num_reached=len(self.reached),
            num_stale=len(self.stale),
            optimizers=self.optimizers,
            in_an_optimizer=np.array([p in self.is_moved for p in self.parameters]),
            num_moved=sum(self.is_moved.values()),
            num_drifted=len(self.drifted),
            searches=self.searches,
            change=torch.cat(
                [sampled_numbers(p, p) - sampled_numbers(p, value) for p, value in self.first_values.items()]
            ),
            rates=tuple(self.rates),
            rate_moved=self.rate_moved,
            late_changes=self._late_changes(),
            num_copies=len(self.copies),
            num_idle_copies=len(self.idle_copies),
            num_unseen=sum(p is None for p in self.original_of.values()),
        )

    def _gradient_came(self, p: nn.Parameter, gradient: Tensor) -> None:
        """Add a gradient that a backward pass gives to a parameter."""
        self._reach(p)
        self.delivered[p].add_(sampled_numbers(p, gradient))

    def _sum_changed(self, p: nn.Parameter) -> None:
        """Write down the gradient of a sharded parameter: its hook sees only the sum with the gradient from before.

        A first sum that equals the first one of all plus what was left shows that the old gradient was not cleared.
        """
        total = sampled_numbers(p, p.grad)
        if p not in self.reached:
            first_sum = self.first_sums.setdefault(p, total)
            gradient_left = self.left_before[p]
            tolerance = NEAR * float(total.abs().max())
            if bool(gradient_left.any()) and torch.allclose(total, first_sum + gradient_left, rtol=0, atol=tolerance):
                self.stale.add(p)
        self.reached.add(p)
        p.grad.mul_(self.damping)  # type: ignore[union-attr]
        self.delivered[p].add_(sampled_numbers(p, p.grad))

    def _reach(self, p: nn.Parameter) -> None:
        """Write down whether a parameter still has a gradient when its first one comes."""
        if p not in self.reached and p.grad is not None and bool(sampled_numbers(p, p.grad).any()):
            self.stale.add(p)
        self.reached.add(p)

    def _compare_frozen(self, module: nn.Module, inputs: tuple) -> None:
        """Write down which frozen parameters have changed by the time that a micro-batch is computed."""
        self.drifted.update(p for p, value in self.first_frozen.items() if not torch.equal(p, value))

    def _what_does_not_learn(self) -> list[Tensor]:
        """Return the frozen parameters and the buffers."""
        return [*self.first_frozen, *self.module.buffers()]

    def _keep_what_does_not_learn(self, module: nn.Module, inputs: tuple, output: Any) -> None:
        """Copy buffers and frozen parameters as a call of the model leaves them.

        Changes within the call, as of a cache, are the model's, and not the step's.
        """
        self.last_called = [value.detach().clone() for value in self._what_does_not_learn()]

    def _changed_since_the_last_call(self) -> list[Tensor]:
        """Return how each buffer and frozen parameter changed since the model was called; [] if that is not known."""
        values = self._what_does_not_learn()
        if len(values) != len(self.last_called):  # there was no call, or there is another buffer since
            return []
        return [
            sampled_numbers(value, value) - sampled_numbers(value, last_value)
            for value, last_value in zip(values, self.last_called, strict=True)
        ]

    def _see_what_follows(self, module: nn.Module, inputs: tuple) -> None:
        """Write down which buffers and frozen parameters a step moves between two micro-batches."""
        self.following.update(
            index for index, change in enumerate(self._changed_since_the_last_call()) if change.any()
        )

    def _late_changes(self) -> Tensor:
        """Return how buffers and frozen parameters changed after the last call, 0 for those that `following` has."""
        changes = self._changed_since_the_last_call()
        by_update = [change * (index not in self.following) for index, change in enumerate(changes)]
        return torch.cat([torch.zeros(0, dtype=torch.float64), *by_update])

    def _compare_rates(self, module: nn.Module, inputs: tuple) -> None:
        """Write down whether a rate has moved since the first micro-batch, before an optimizer steps."""
        rates = [rate for optimizer in self.known_optimizers for rate in _rates(optimizer)]
        if self.rates_at_first is None:
            self.rates_at_first = rates
        elif not self.optimizers and len(rates) == len(self.rates_at_first):
            self.rate_moved |= rates != self.rates_at_first

    def _before_step(
        self, optimizer: torch.optim.Optimizer, arguments: tuple, named: dict
    ) -> tuple[tuple, dict] | None:
        """Take what an optimizer applies; if it computes that by a closure, when the closure has returned."""
        closure = arguments[1] if len(arguments) > 1 else named.get("closure")
        if closure is None:
            self._take(optimizer)
            return None
        calls = 0

        def watched() -> Any:
            nonlocal calls
            calls += 1
            loss = closure()
            if calls == 1:
                self._take(optimizer)
            else:
                self.searches = True
            return loss

        return arguments[:1], named | {"closure": watched}

    def _take(self, optimizer: torch.optim.Optimizer) -> None:
        """Write down what an optimizer is about to apply, by parameter, and what it had before its first step."""
        self.optimizers.append(optimizer)
        if not any(known_optimizer is optimizer for known_optimizer in self.known_optimizers):
            self.known_optimizers.append(optimizer)
            self.first_states.append(_copied(optimizer.state))
        self.rates += _rates(optimizer)
        for tensor in (tensor for group in optimizer.param_groups for tensor in group["params"]):
            p = tensor if tensor in self.own_parameters else self._original(tensor)
            if p not in self.taken:
                continue
            self.is_moved.setdefault(p, _is_moved(p, self.first_values[p]))
            if tensor.grad is not None:
                self._reach(p)
                self.taken[p].append(sampled_numbers(p, tensor.grad))
                if tensor is not p:
                    self.copies.add(tensor)
            elif tensor is not p:
                self.idle_copies.add(tensor)

    def _original(self, tensor: Tensor) -> nn.Parameter | None:
        """Return the parameter that an optimizer has a copy of, as in another precision; None if it has no such copy.

        Copies are known by their values before the first step; of parameters that are equal, by their order.
        """
        if tensor not in self.first_copies:
            self.first_copies[tensor] = tensor.detach().clone()
            candidates = [
                p for p in self.parameters if not any(p is original for original in self.original_of.values())
            ]
            self.original_of[tensor] = next((p for p in candidates if _is_copy(tensor, self.first_values[p])), None)
        return self.original_of[tensor]


def _rates(optimizer: torch.optim.Optimizer) -> list[float]:
    """Return the learning rate of each group of parameters that has one."""
    return [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]


def _is_copy(tensor: Tensor, value: Tensor) -> bool:
    """Return whether a tensor has the values of a parameter, perhaps in another precision."""
    same_kind = tensor.shape == value.shape and isinstance(tensor, DTensor) == isinstance(value, DTensor)
    return same_kind and torch.equal(tensor.detach().to(value), value)


def _copied(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """Copy the state of an optimizer; its parameters, which are the keys, stay the same objects."""
    return {key: deepcopy(values) for key, values in state.items()}


@torch.no_grad()
def _is_moved(parameter: Tensor, first_value: Tensor) -> bool:
    """Return whether a parameter has changed by more than rounding, as SAM leaves by a step forth and back."""
    if torch.equal(parameter, first_value):
        return False
    if parameter.dtype not in (torch.float32, torch.float64):
        return True  # a step of an optimizer is no larger than such a rounding
    rounded = 4 * torch.finfo(parameter.dtype).eps * float(first_value.abs().max())
    return float((parameter - first_value).abs().max()) > rounded


def _over_ranks(update: RecordedUpdate, sharded: bool) -> RecordedUpdate:
    """Return the record with the mean over ranks of `delivered`, `ranks_agree`, and the largest `num_stale`."""
    delivered = update.delivered
    if not sharded:  # what arrives at a sharded parameter is the mean over the ranks already
        dist.all_reduce(delivered)
        delivered /= ranks()
    applied_by_rank = [torch.empty_like(update.applied) for _ in range(ranks())]
    dist.all_gather(applied_by_rank, update.applied)
    are_alike = all(near(applied, applied_by_rank[0]) for applied in applied_by_rank)
    num_stale = torch.tensor(update.num_stale)
    dist.all_reduce(num_stale, dist.ReduceOp.MAX)
    return replace(update, delivered=delivered, ranks_agree=are_alike, num_stale=int(num_stale))
