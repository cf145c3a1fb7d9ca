"""What a trainer's step does in an update: which gradients arrive, what optimizers apply, and what changes before."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from packlib.tools.check.called_model import keeping_modes, ranks, some
from packlib.tools.check.collated_batch import CheckedBatch, in_one_sentence
from packlib.tools.check.training_noise import WithoutDropout, without_training

NEAR = 0.05  # weights of micro-batches, and gradients, that are no farther apart are the same


@dataclass
class Update:
    """What one call of a step did; of each parameter some numbers are looked at.

    Attributes:
        delivered: the sum of what backward passes gave, on average over ranks.
        applied: what the optimizer took; what is left at the end if there was no optimizer.
        steps: the optimizer steps of a parameter.
        reached: how many parameters had a gradient.
        stale: how many of them still had that of the update before.
        optimizers: those that stepped.
        owned: shape (parameters,), whether one of them has the parameter.
        moved: how many parameters were other ones already when the first optimizer that has them stepped.
        drifted: how many frozen ones, as those of a teacher, were other ones when a later micro-batch was computed.
        searches: whether an optimizer computed gradients more than once in a step, by a closure.
        alike: whether all ranks applied the same.
    """

    delivered: Tensor
    applied: Tensor
    steps: int
    reached: int
    stale: int
    optimizers: list[Optimizer]
    owned: np.ndarray
    moved: int
    drifted: int
    searches: bool
    alike: bool = True


class _Watch:
    """What is seen of one update after another, each from the same parameters and buffers.

    Args:
        damped: what each gradient is multiplied with as it arrives.
    """

    def __init__(self, module: nn.Module, parameters: list[nn.Parameter], damped: float) -> None:
        self.module, self.parameters, self.damped = module, parameters, damped
        self.sharded = any(isinstance(p, DTensor) for p in parameters)
        self.values = {p: p.detach().clone() for p in parameters}
        self.gradients = {p: p.grad for p in parameters}
        self.frozen = {p: p.detach().clone() for p in frozen(module, parameters)}
        self.buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
        self.first = dict[nn.Parameter, Tensor]()  # the first gradient of all, of sharded parameters

    def begin(self) -> None:
        """Forget the update before, but for the gradients that it left."""
        self.delivered = {p: some(p, None) for p in self.parameters}
        self.applied = {p: list[Tensor]() for p in self.parameters}
        self.left = {p: some(p, p.grad) for p in self.parameters} if self.sharded else {}
        self.reached, self.stale = set[nn.Parameter](), set[nn.Parameter]()
        self.moved = dict[nn.Parameter, bool]()  # of those that an optimizer has
        self.drifted = set[nn.Parameter]()
        self.optimizers, self.searches = list[Optimizer](), False

    def end(self) -> Update:
        """What this update was; parameters and buffers are put back."""
        steps = max(map(len, self.applied.values()), default=0)
        applied = [
            self.applied[p][0] if self.applied[p] else some(p, None if steps else p.grad) for p in self.parameters
        ]
        update = Update(
            delivered=torch.cat([*self.delivered.values()]),
            applied=torch.cat(applied),
            steps=steps,
            reached=len(self.reached),
            stale=len(self.stale),
            optimizers=self.optimizers,
            owned=np.array([p in self.moved for p in self.parameters]),
            moved=sum(self.moved.values()),
            drifted=len(self.drifted),
            searches=self.searches,
        )
        self._put_back()
        return update

    @contextmanager
    def looking(self) -> Iterator[None]:
        """In here updates are seen; in the end all is as it was before, gradients too."""
        handles = [
            register_optimizer_step_pre_hook(self._before_step),
            self.module.register_forward_pre_hook(self._before_micro_batch),
        ]
        if self.sharded:
            handles += [p.register_post_accumulate_grad_hook(self._sharded_arrived) for p in self.parameters]
        else:
            if self.damped != 1:
                handles += [p.register_hook(lambda gradient: gradient * self.damped) for p in self.parameters]
            handles += [p.register_hook(partial(self._arrived, p)) for p in self.parameters]
        try:
            for p in self.parameters:
                p.grad = None
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._put_back()
            for p, gradient in self.gradients.items():
                p.grad = gradient

    @torch.no_grad()
    def _put_back(self) -> None:
        for x, value in (*self.values.items(), *self.frozen.items(), *self.buffers):
            x.copy_(value)

    def _before_micro_batch(self, module: nn.Module, arguments: tuple) -> None:
        self.drifted.update(p for p, value in self.frozen.items() if not torch.equal(p, value))

    def _arrived(self, p: nn.Parameter, gradient: Tensor) -> None:
        self._reach(p)
        self.delivered[p].add_(some(p, gradient))

    def _sharded_arrived(self, p: nn.Parameter) -> None:
        """As `_arrived`, for a sharded parameter, of which only the sum with what it still has is seen."""
        total = some(p, p.grad)
        if p not in self.reached:
            first, left = self.first.setdefault(p, total), self.left[p]
            limit = NEAR * float(total.abs().max())
            if bool(left.any()) and torch.allclose(total, first + left, rtol=0, atol=limit):
                self.stale.add(p)
        self.reached.add(p)
        p.grad.mul_(self.damped)  # type: ignore[union-attr]
        self.delivered[p].add_(some(p, p.grad))

    def _reach(self, p: nn.Parameter) -> None:
        """Note what a parameter still has when its first gradient comes."""
        if p not in self.reached and p.grad is not None and bool(some(p, p.grad).any()):
            self.stale.add(p)
        self.reached.add(p)

    def _before_step(self, optimizer: Optimizer, arguments: tuple, named: dict) -> tuple[tuple, dict] | None:
        """Take what an optimizer applies; if it computes that by a closure, when this has returned."""
        closure = arguments[1] if len(arguments) > 1 else named.get("closure")
        if closure is None:
            self._take(optimizer)
            return None
        calls = []

        def watched() -> Any:
            calls.append(closure())
            if len(calls) == 1:
                self._take(optimizer)
            else:
                self.searches = True
            return calls[-1]

        return arguments[:1], named | {"closure": watched}

    def _take(self, optimizer: Optimizer) -> None:
        self.optimizers.append(optimizer)
        for p in (p for group in optimizer.param_groups for p in group["params"] if p in self.values):
            self.moved.setdefault(p, not torch.equal(p, self.values[p]))
            if p.grad is not None:
                self._reach(p)
                self.applied[p].append(some(p, p.grad))


def frozen(module: nn.Module, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Parameters that do not learn, as those of a teacher that a step moves; none if they are far more than learn.

    Frozen weights below adapters are far more: no step moves these, and copies of them would fill the memory.
    """
    still = [p for p in module.parameters() if not p.requires_grad]
    many = sum(p.numel() for p in still) > 3 * sum(p.numel() for p in parameters)
    return [] if many else still


def run(
    checked: CheckedBatch,
    parameters: list[nn.Parameter],
    batches: list[dict],
    step: Callable,
    damped: float = 1.0,
    still: bool = False,
) -> Update:
    """One call of the step, which leaves parameters and gradients as they were.

    Args:
        still: whether the model is kept from training, in which it may draw noise.
    """
    with without_training() if still else nullcontext():
        return run_each(checked, parameters, [batches], step, damped)[0]


def run_each(
    checked: CheckedBatch,
    parameters: list[nn.Parameter],
    updates: Sequence[list[dict]],
    step: Callable,
    damped: float = 1.0,
) -> list[Update]:
    """Call the step for one update after another, each with the parameters and buffers of the first.

    Gradients are left from one to the next; in the end they are what they were, as the parameters are.

    Args:
        damped: what each gradient is multiplied with as it arrives.
    """
    watch, made = _Watch(checked.called.module, parameters, damped), list[Update]()
    with watch.looking():
        for batches in updates:
            watch.begin()
            checked.called.reseed()
            said = (
                f"step failed when it was called as step(model, batches) with a list of {len(batches)} micro-batches"
            )
            with in_one_sentence(said), keeping_modes(checked.called.module), WithoutDropout():
                step(checked.called.outer, deepcopy(batches))
            made.append(watch.end())
    for update in made if ranks() > 1 else []:
        _of_all_ranks(update, watch.sharded)
    return made


def _of_all_ranks(update: Update, sharded: bool) -> None:
    """Take the mean over ranks of what arrived, and see whether all of them applied the same."""
    if sharded:  # what arrives is the mean over the ranks
        update.delivered *= ranks()
    else:
        dist.all_reduce(update.delivered)
    update.delivered /= ranks()
    every = [torch.empty_like(update.applied) for _ in range(ranks())]
    dist.all_gather(every, update.applied)
    update.alike = all(np.allclose(other, every[0], rtol=NEAR) for other in every)
    dist.all_reduce(most := torch.tensor(update.stale), dist.ReduceOp.MAX)
    update.stale = int(most)
