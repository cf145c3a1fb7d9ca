"""Whether micro-batches add up to the update that they make together: what an optimizer applies is looked at."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
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

from packlib.tools.check.called_model import keeping_modes, ranks, some, tensors
from packlib.tools.check.collated_batch import CheckedBatch, in_one_sentence
from packlib.tools.check.findings import INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.slot_gradients import Loss, labeled
from packlib.tools.check.training_noise import WithoutDropout, without_training
from packlib.tools.check.weighing import Weighing, held

_NEAR = 0.05
_NOISY = 0.3  # how far noise may move a weight
_NO_GRADIENT = (
    "The rest of the update is no gradient of theirs, as where noise is drawn, a part is detached, or the trainer's "
    "loss is not the model's (label smoothing): pass it as loss."
)
_FIXED_SIZE = (
    "Each weighs the same: right in padded batches of a fixed size. In a smaller one, as at the end of an epoch, each "
    "sequence weighs more; whether your loader makes one is not known (dataloader_drop_last=True makes none)."
)
_UNHELD = "give them to an optimizer, or freeze them (requires_grad=False) if they are not to learn."
_UPDATES = 3  # in a row
_DAMPED = 2.0**-12  # what gradients are multiplied with so that no bound clips them


def accumulation(checked: CheckedBatch, weighing: Weighing, step: Callable | None) -> Iterator[Finding]:
    """Whether two micro-batches of different sizes are added up to one mean, or at least two of one size."""
    question = "accumulation"
    parts, parted = [batch.loss for batch in weighing.batches[2:]], ranks() > 1 and not checked.called.share_rows
    if not weighing.whole.loss.value:
        yield Finding(question, INCONCLUSIVE, "There is no loss of two micro-batches.")
        return
    if weighing.rule is None:
        yield Finding(question, INCONCLUSIVE, "What a micro-batch should weigh is not known: see mean.")
        return
    if step is None and parted:
        yield Finding(question, NOT_ASKED, "What your trainer does on several ranks is not known: pass step.")
        return
    if step is None:
        yield _given_the_count(checked, weighing, parts)
        return
    if parted and ranks() > 2:
        yield Finding(question, INCONCLUSIVE, f"There are two micro-batches, and {ranks()} ranks: take two.")
        return
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    if not parameters:
        yield Finding(question, NOT_ASKED, "No parameter of model requires a gradient.")
        return
    found = _stepped(checked, weighing, parts, step, parted, parameters)
    if found.verdict != INCONCLUSIVE or not _by_number(checked, weighing):
        yield found
        return
    same = _stepped(checked, weighing, _of_one_size(checked), step, parted, parameters)
    yield same
    if same.verdict == PASSED:
        yield Finding("smaller micro-batches", NOT_ASKED, found.evidence)


def _by_number(checked: CheckedBatch, weighing: Weighing) -> bool:
    """Whether a batch weighs by the number of its sequences or groups, of which a loader takes a fixed number."""
    one_a_row = len(set(checked.rows.tolist())) == len(checked.pieces)
    return one_a_row and weighing.rule is not None and weighing.rule[0] in ("sequence", "group")


def _of_one_size(checked: CheckedBatch) -> list[Loss]:
    """Two micro-batches of the same number of sequences, or groups: the short ones and the long ones."""
    tokens = {unit: sum(len(row["input_ids"]) for row in checked.of_units([unit])) for unit in set(checked.unit_of)}
    units = sorted(tokens, key=lambda unit: tokens[unit])
    half = len(units) // 2
    return [Loss(checked, checked.collate(checked.of_units(some))) for some in (units[half : 2 * half], units[:half])]


def _given_the_count(checked: CheckedBatch, weighing: Weighing, parts: Sequence[Loss]) -> Finding:
    """Whether a model that is told the labels of the update divides by them, as transformers' Trainer expects."""
    count = torch.tensor(sum(held(part, False)["tokens"] for part in parts))
    evidence, shares = _held(weighing, parts), weighing.shares(parts)
    takes = inspect.signature(getattr(checked.called.model, "forward", checked.called.model)).parameters
    counted = [checked.called.runs({**part.batch, "num_items_in_batch": count}) for part in parts]
    values = [None if seen is None or seen.loss is None else float(seen.loss.detach()) for seen in counted]
    if None not in values and weighing.rule == ("token", False):
        got = [(value or 0.0) / (part.value or np.inf) for value, part in zip(values, parts, strict=True)]
        if np.allclose(got, shares, rtol=0.02):
            return Finding("accumulation", PASSED, f"{evidence} Given num_items_in_batch, the model divides by it.")
        if "num_items_in_batch" in takes:
            return _failed(f"{evidence} It takes num_items_in_batch to no effect.", "mean of means")
    return Finding("accumulation", NOT_ASKED, f"{evidence} What your trainer does is not known: pass step.")


def _held(weighing: Weighing, parts: Sequence[Loss]) -> str:
    name, by_labels = weighing.rule or ("token", False)
    what = {"sequence": "sequences", "group": "groups"}.get(name, "tokens")
    counts = [str(held(part, by_labels)[what]) for part in parts]
    return f"Micro-batches hold {' and '.join(counts)} {what.replace('tokens', 'labels')}."


@dataclass
class _Update:
    """What one call of a step did; of each parameter some numbers are looked at.

    Attributes:
        delivered: the sum of what backward passes gave, on average over ranks.
        applied: what the optimizer took; what is left at the end if there was no optimizer.
        steps: the optimizer steps of a parameter.
        alike: whether all ranks applied the same.
        came: how many parameters had a gradient.
        stale: how many of them still had that of the update before.
        optimizers: those that stepped.
        held: shape (parameters,), whether one of them has the parameter.
        moved: how many parameters were other ones already when the first optimizer that has them stepped.
        drifted: how many frozen ones, as those of a teacher, were other ones when a later micro-batch was computed.
        searches: whether an optimizer computed gradients more than once in a step, by a closure.
    """

    delivered: Tensor
    applied: Tensor
    steps: int
    alike: bool
    came: int
    stale: int
    optimizers: list[torch.optim.Optimizer]
    held: np.ndarray
    moved: int
    drifted: int
    searches: bool


def _run(
    checked: CheckedBatch,
    parameters: list[nn.Parameter],
    batches: list[dict],
    step: Callable,
    damped: float = 1.0,
    still: bool = False,
) -> _Update:
    """One call of the step, which leaves parameters and gradients as they were.

    Args:
        still: whether the model is kept from training, in which it may draw noise.
    """
    with without_training() if still else nullcontext():
        return _run_each(checked, parameters, [batches], step, damped)[0]


def _run_each(
    checked: CheckedBatch,
    parameters: list[nn.Parameter],
    updates: Sequence[list[dict]],
    step: Callable,
    damped: float = 1.0,
) -> list[_Update]:
    """Call the step for one update after another, each with the parameters and buffers of the first.

    Gradients are left from one to the next; in the end they are what they were, as the parameters are.

    Args:
        damped: what each gradient is multiplied with as it arrives.
    """
    before = [(p, p.detach().clone(), p.grad) for p in parameters]
    frozen = _frozen(checked.called.module, parameters)
    kept = [(x, x.detach().clone()) for x in (*frozen, *checked.called.module.buffers())]
    drifted = set[Tensor]()
    sharded = any(isinstance(p, DTensor) for p in parameters)
    sums, taken, optimizers = dict[nn.Parameter, Tensor](), dict[nn.Parameter, list[Tensor]](), list[Any]()
    came, stale, holds = set[nn.Parameter](), set[nn.Parameter](), dict[nn.Parameter, bool]()
    searching = list[torch.optim.Optimizer]()
    value_of = {p: value for p, value, _ in before}
    fresh, left = dict[nn.Parameter, Tensor](), dict[nn.Parameter, Tensor]()  # of sharded parameters

    def come(p: nn.Parameter) -> None:
        """Note what a parameter still has when its first gradient comes."""
        if p not in came and p.grad is not None and bool(some(p, p.grad).any()):
            stale.add(p)
        came.add(p)

    def compare_frozen(module: nn.Module, given: tuple) -> None:
        """Note which frozen parameters are other ones as a micro-batch is computed."""
        drifted.update(x for x, value in kept[: len(frozen)] if not torch.equal(x, value))

    def before_step(optimizer: torch.optim.Optimizer, given: tuple, named: dict) -> tuple[tuple, dict] | None:
        """Take what an optimizer applies; if it computes that by a closure, when this has returned."""
        closure = given[1] if len(given) > 1 else named.get("closure")
        if closure is None:
            take(optimizer)
            return None
        calls = []

        def watched() -> Any:
            calls.append(closure())
            if len(calls) == 1:
                take(optimizer)
            else:
                searching.append(optimizer)
            return calls[-1]

        return given[:1], named | {"closure": watched}

    def take(optimizer: torch.optim.Optimizer) -> None:
        optimizers.append(optimizer)
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p in taken:
                holds.setdefault(p, not torch.equal(p, value_of[p]))
            if p in taken and p.grad is not None:
                come(p)
                taken[p].append(some(p, p.grad))

    def add(p: nn.Parameter, gradient: Tensor) -> None:
        come(p)
        sums[p].add_(some(p, gradient))

    def arrived(p: nn.Parameter) -> None:
        """As `add`, for a sharded parameter, of which only the sum with what it still has is seen."""
        total = some(p, p.grad)
        if p not in came:
            fresh.setdefault(p, total)
            limit = _NEAR * float(total.abs().max())
            if p in left and bool(left[p].any()) and torch.allclose(total, fresh[p] + left[p], rtol=0, atol=limit):
                stale.add(p)
        came.add(p)
        p.grad.mul_(damped)  # type: ignore[union-attr]
        sums[p].add_(some(p, p.grad))

    @torch.no_grad()
    def put_back() -> None:
        for x, value in (*((p, value) for p, value, _ in before), *kept):
            x.copy_(value)

    handles = [register_optimizer_step_pre_hook(before_step)]
    handles.append(checked.called.module.register_forward_pre_hook(compare_frozen))
    if sharded:
        handles += [p.register_post_accumulate_grad_hook(arrived) for p in parameters]
    else:
        if damped != 1:
            handles += [p.register_hook(lambda gradient: gradient * damped) for p in parameters]
        handles += [p.register_hook(partial(add, p)) for p in parameters]
    made = []
    try:
        for p in parameters:
            p.grad = None
        for batches in updates:
            sums.update({p: some(p, None) for p in parameters})
            taken.update({p: [] for p in parameters})
            if sharded:
                left.update({p: some(p, p.grad) for p in parameters})
            came.clear()
            stale.clear()
            holds.clear()
            drifted.clear()
            optimizers.clear()
            searching.clear()
            checked.called.reseed()
            said = (
                f"step failed when it was called as step(model, batches) with a list of {len(batches)} micro-batches"
            )
            with in_one_sentence(said), keeping_modes(checked.called.module), WithoutDropout():
                step(checked.called.outer, deepcopy(batches))
            steps = max(map(len, taken.values()), default=0)
            first = [taken[p][0] if taken[p] else some(p, None if steps else p.grad) for p in parameters]
            delivered, applied = torch.cat([*sums.values()]), torch.cat(first)
            held = np.array([p in holds for p in parameters])
            made.append(_Update(delivered, applied, steps, True, len(came), len(stale), [*optimizers], held,
                                sum(holds.values()), len(drifted), bool(searching)))  # fmt: skip
            put_back()
    finally:
        for handle in handles:
            handle.remove()
        put_back()
        for p, _, gradient in before:
            p.grad = gradient
    for update in made if ranks() > 1 else []:
        if sharded:  # what arrives is the mean over the ranks
            update.delivered *= ranks()
        else:
            dist.all_reduce(update.delivered)
        every = [torch.empty_like(update.applied) for _ in range(ranks())]
        dist.all_gather(every, update.applied)
        update.alike = all(_near(other, every[0]) for other in every)
        update.delivered /= ranks()
        dist.all_reduce(most := torch.tensor(update.stale), dist.ReduceOp.MAX)
        update.stale = int(most)
    return made


def _frozen(module: nn.Module, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Parameters that do not learn, as those of a teacher that a step moves; none if they are far more than learn.

    Frozen weights below adapters are far more: no step moves these, and copies of them would fill the memory.
    """
    frozen = [p for p in module.parameters() if not p.requires_grad]
    many = sum(p.numel() for p in frozen) > 3 * sum(p.numel() for p in parameters)
    return [] if many else frozen


def _stepped(
    checked: CheckedBatch,
    weighing: Weighing,
    parts: Sequence[Loss],
    step: Callable,
    parted: bool,
    parameters: list[nn.Parameter],
    still: bool = False,
) -> Finding:
    """How much each micro-batch weighs in what a trainer's step applies to these parameters.

    Args:
        parted: whether each rank gets one of them.
        still: whether the model is kept from training.
    """
    batches, shares, evidence = [part.batch for part in parts], weighing.shares(parts), _held(weighing, parts)
    alone = [checked.called.parameter_slope(batch, parameters) for batch in batches]
    if checked.called.share_rows:
        for gradient in alone:
            dist.all_reduce(gradient)
        alone = [gradient / ranks() for gradient in alone]
    mine = [batches[dist.get_rank()]] if parted else batches
    update = _run(checked, parameters, mine, step, still=still)
    if update.searches:
        why = "An optimizer computes gradients more than once in a step (a closure), each of other weights."
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {why}")
    if not bool(update.delivered.isfinite().all() and update.applied.isfinite().all()):
        return _failed(evidence, "nan update")
    applied, most = update.applied, update.applied.abs().max()
    clipped = torch.allclose(applied, update.delivered.clamp(-most, most), rtol=1e-4, atol=0)
    applied = update.delivered if clipped and most > 0 else applied  # the sum is right or wrong before it is clipped
    got, given = _weights(alone, applied), _weights(alone, update.delivered)
    made = torch.stack(alone, 1) @ torch.from_numpy(got)
    left = float((applied - made).norm() / applied.norm().clamp(min=1e-300))
    evidence += f" In the step they weigh {got[0]:.3g} and {got[1]:.3g}; right is {shares[0]:.3g} and {shares[1]:.3g}."
    evidence += f" They lie on {ranks()} ranks." * (ranks() > 1)
    if not update.alike:
        return _failed(evidence, "ranks")
    if update.steps > 1:
        return _failed(f"{evidence} The optimizer steps {update.steps} times.", "each updates")
    if not update.applied.any():
        return _failed(evidence, "nothing")
    if update.moved:
        return _failed(f"{evidence} Other values had {update.moved} of {len(parameters)} parameters.", "moved")
    if update.drifted:
        of_all = len(_frozen(checked.called.module, parameters))
        evidence += f" Other values had {update.drifted} of {of_all} frozen parameters in a later micro-batch."
        return _failed(evidence, "moved")
    lost = _lost(update, parameters) if update.steps else np.zeros(len(parameters), bool)
    if (lost & update.held).any():
        return _failed(evidence, "lost gradients", count=int((lost & update.held).sum()), of_all=len(parameters))
    if lost.any():  # what the optimizers have is asked about all the same
        rest = [p for p, gone in zip(parameters, lost, strict=True) if not gone]
        found = _stepped(checked, weighing, parts, step, parted, rest, still)
        said = f"{found.evidence} No optimizer that steps has {lost.sum()} of {len(parameters)} parameters"
        unheld = Finding(found.question, INCONCLUSIVE, f"{said} that get gradients: {_UNHELD}")
        return unheld if found.verdict == PASSED else found
    beside = _beside_the_scores(checked, weighing, parts, parameters, alone, update)
    if beside is not None:
        through, aside = beside
        evidence += f" What does not pass through the scores weighs {aside[0]:.3g} and {aside[1]:.3g}."
        if _near(aside, 1) and not _near(aside, shares):
            return _failed(evidence, "aside alike")
        if _near(through, shares) and _near(sum(aside), 1):
            return Finding("accumulation", PASSED, evidence)
    if left > _NEAR and not still:  # noise that is drawn in training may be the rest
        quiet = _run(checked, parameters, mine, step, still=True).applied
        if not torch.equal(quiet, update.applied) and np.allclose(got, _weights(alone, quiet), rtol=_NOISY):
            found = _stepped(checked, weighing, parts, step, parted, parameters, still=True)
            return replace(found, evidence=f"{found.evidence} The model was kept from training, where it draws noise.")
    # a scale that all have in common does a constant no harm
    constant = weighing.rule is not None and weighing.rule[0] == "constant"
    if _near(got, shares):
        taken = _of_parameters(applied, parameters)
        count = int(taken.sum())
        if count < len(parameters):
            evidence += f" The optimizer applied nothing to {len(parameters) - count} of {len(parameters)} parameters."
        kept = torch.from_numpy(np.repeat(taken, [some(p, None).numel() for p in parameters]))
        if float((applied - made)[kept].norm() / applied.norm().clamp(min=1e-300)) > _NEAR:
            return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_NO_GRADIENT}")
        return _of_four(checked, weighing, parts, step, parameters, evidence)
    if not _near(got, given):
        evidence += f" Backward passes gave {given[0]:.3g} and {given[1]:.3g}."
        if abs(got[0] / given[0]) < _NEAR * abs(got[1] / given[1]):
            return _failed(evidence, "cleared")
        if left > _NEAR or not _near(*(got / given)):
            return _failed(evidence, "between")
        free = _run(checked, parameters, mine, step, damped=_DAMPED)
        ratio, other = (float(one.applied.norm() / one.delivered.norm().clamp(min=1e-300)) for one in (update, free))
        if _near(ratio, other):
            counts = [sum(held(part, False)[name] for part in parts) for name in ("tokens", "sequences")]
            if not (constant and any(_near(got / given * count, 1) for count in counts)):
                return _failed(evidence, "scaled after", how=f"{ratio:.3g}")
        got = _weights(alone, free.applied) / _DAMPED
        evidence += f" They are clipped to a norm of {update.applied.norm():.3g}."
    if left > _NEAR:
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_NO_GRADIENT}")
    if _near(got, shares) or (constant and _near(*got)):
        return _of_four(checked, weighing, parts, step, parameters, evidence)
    if _near(got / np.array(shares), [got[0] / shares[0]] * 2) and not constant:
        if left > weighing.limit:  # more than a scale is other than it should be
            return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_NO_GRADIENT}")
        return _failed(evidence, "times", how=f"{got[0] / shares[0]:.3g}")
    name = _named_by(got, constant, [held(part, False)["tokens"] for part in parts])
    if name == "mean of means" and _by_number(checked, weighing):
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_FIXED_SIZE}")
    return _failed(evidence, name)


def _beside_the_scores(
    checked: CheckedBatch,
    weighing: Weighing,
    parts: Sequence[Loss],
    parameters: list[nn.Parameter],
    alone: Sequence[Tensor],
    update: _Update,
) -> tuple[np.ndarray, np.ndarray] | None:
    """What micro-batches weigh in an update through their scores, and besides them, as by a router's loss.

    Returns:
        None if nothing of the loss goes besides, or the two parts do not make the update.
    """
    aside, pull = weighing.whole.loss.aside, weighing.whole.loss.pull
    if aside is None or pull is None or float(aside.norm()) < 1e-3 * float(pull.norm()) or checked.called.share_rows:
        return None
    through = [checked.called.parameter_slope(part.batch, parameters, through=True) for part in parts]
    rest = [whole - mine for whole, mine in zip(alone, through, strict=True)]
    weights = _weights([*through, *rest], update.delivered)
    made = torch.stack([*through, *rest], 1) @ torch.from_numpy(weights)
    if float((update.delivered - made).norm()) > 10 * weighing.limit * float(made.norm()):
        return None
    return weights[:2], weights[2:]


def _of_four(
    checked: CheckedBatch,
    weighing: Weighing,
    parts: Sequence[Loss],
    step: Callable,
    parameters: list[nn.Parameter],
    evidence: str,
) -> Finding:
    """That two micro-batches pass, if those in two parts each, four in all, do not weigh otherwise.

    A step that takes no four, steps after two of them, or divides by 2 is one for two micro-batches: nothing is said.
    """
    passed = Finding("accumulation", PASSED, evidence)
    units = [list(dict.fromkeys(checked.unit_of[piece.sequence] for piece in part.pieces)) for part in parts]
    if ranks() > 1 or min(map(len, units)) < 2:
        return passed
    if _by_number(checked, weighing) and len(units[0]) == len(units[1]):  # four of one size, as the two are
        cut = len(units[0]) // 2
        units = [mine[: 2 * cut] for mine in units]
    else:
        cut = min(map(len, units)) // 3 or 1
    halves = [some for mine in units for some in (mine[:cut], mine[cut:])]
    four = [Loss(checked, checked.collate(checked.of_units(some))) for some in halves]
    if not all(one.predicted.any() for one in four):
        return passed
    alone, shares = [checked.called.parameter_slope(one.batch, parameters) for one in four], weighing.shares(four)
    try:
        update = _run(checked, parameters, [one.batch for one in four], step)
    except ValueError:  # it takes two
        return passed
    got, given = _weights(alone, update.applied), _weights(alone, update.delivered)
    if update.steps != 1 or not update.applied.any():
        return passed
    made = torch.stack(alone, 1) @ torch.from_numpy(got)
    left = float((update.applied - made).norm() / update.applied.norm())
    constant = weighing.rule is not None and weighing.rule[0] == "constant"
    wanted = np.ones(4) if constant else np.array(shares)
    if left > _NEAR or _alike(got / wanted):
        return passed
    weigh, right = (", ".join(f"{x:.3g}" for x in some) for some in (got, shares))
    evidence += f" Of four micro-batches each weighs {weigh}; right is {right}."
    cleared = bool((np.abs(got[:2] / given[:2]) < _NEAR * np.abs(got[-1] / given[-1])).any())
    tokens = [held(one, False)["tokens"] for one in four]
    return _failed(evidence, "cleared" if cleared else _named_by(got, constant, tokens))


def next_update(checked: CheckedBatch, weighing: Weighing, step: Callable | None) -> Iterator[Finding]:
    """Whether a second update right after a first one has nothing of it: its gradients were cleared."""
    if step is None or not weighing.whole.loss.value:
        return
    question, parts = "next update", [batch.loss.batch for batch in weighing.batches[2:]]
    parted = ranks() > 1 and not checked.called.share_rows
    if parted and ranks() > 2:
        return
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    mine = [parts[dist.get_rank()]] if parted else parts
    if not parameters:
        return
    first, *later = _run_each(checked, parameters, [mine] * _UPDATES, step)
    if any(update.searches or not bool(update.applied.isfinite().all()) for update in (first, *later)):
        yield Finding(question, NOT_ASKED, "What step applies is not known: see accumulation.")
        return
    if not first.steps or not all(update.steps for update in later):
        yield Finding(question, NOT_ASKED, "No optimizer steps in step, so what follows an update is not known.")
        return
    evidence = f"step made {_UPDATES} updates of the same weights and micro-batches, one right after the other"
    for update in later:
        if not update.stale:
            continue
        evidence += f"; {update.stale} of {update.came} parameters still had the gradient of the one before"
        fresh = not any(mine is its for mine in first.optimizers for its in update.optimizers)
        if fresh and update.stale == update.came:
            why = "step makes a new optimizer in each call, and does not say what clears gradients between updates."
            yield Finding(
                question, NOT_ASKED, f"{evidence}, but {why} Make the optimizer once, and let step clear them."
            )
        else:
            yield Finding.failed(question, f"{evidence}.", "stay")
        return
    size = first.applied.norm().clamp(min=1e-300)
    apart = max(float((update.applied - first.applied).norm() / size) for update in later)
    evidence += (
        f"; the gradients that its optimizer applied differ from those of the first by {apart:.2g} of their size"
    )
    if apart <= _NEAR:
        yield Finding(question, PASSED, f"{evidence}.")
        return
    if not parted and not checked.called.share_rows:
        alone = [checked.called.parameter_slope(batch, parameters) for batch in parts]
        other = max(later, key=lambda update: float((update.applied - first.applied).norm()))
        before, after = (_weights(alone, update.applied) for update in (first, other))
        made = torch.stack(alone, 1) @ torch.from_numpy(after)
        if float((other.applied - made).norm()) <= _NEAR * float(size) and not _alike(after / before):
            evidence += f": micro-batches weigh {after[0]:.3g} and {after[1]:.3g}, and {before[0]:.3g} and "
            yield Finding.failed(question, f"{evidence}{before[1]:.3g} in the first.", "other update")
            return
    yield Finding(question, INCONCLUSIVE, f"{evidence}: step keeps a count or a state besides the gradients.")


def without_labels(checked: CheckedBatch, step: Callable | None) -> Iterator[Finding]:
    """What an update of sequences without any label does, if the data have such."""
    question, rows = "updates without labels", [row for row in checked.given if not labeled(row)]
    if not rows:
        return
    evidence = f"{len(rows)} of {len(checked.given)} sequences have no label"
    if step is None or ranks() > 1:
        yield Finding(question, NOT_ASKED, f"{evidence}; what your trainer does with them is not known: pass step.")
        return
    losses, parameters = list[Tensor](), [p for p in checked.called.module.parameters() if p.requires_grad]

    def keep(module: nn.Module, arguments: tuple, output: Any) -> None:
        losses.extend(x.detach() for name, x in tensors(output).items() if name == "loss" or x.dim() == 0)

    handle = checked.called.module.register_forward_hook(keep)
    try:
        update = _run(checked, parameters, [checked.collate(rows[:2])], step)
    except Exception as error:  # whatever a step raises, it is that it does not take this update
        evidence += f"; in an update of them step raised {type(error.__cause__ or error).__name__}."
        yield Finding.failed(question, evidence, "unlabeled")
        return
    finally:
        handle.remove()
    finite = all(bool(x.isfinite().all()) for x in (*losses, update.delivered, update.applied))
    if finite:
        yield Finding(question, PASSED, f"{evidence}; an update of them is finite.")
    else:
        yield Finding.failed(question, f"{evidence}; an update of them has a loss or gradients of NaN.", "unlabeled")


def _of_parameters(update: Tensor, parameters: list[nn.Parameter]) -> np.ndarray:
    """Of which parameters an update holds a number that is not 0; shape (parameters,)."""
    sizes = [some(p, None).numel() for p in parameters]
    return np.array([bool(part.any()) for part in update.split(sizes)])


def _lost(update: _Update, parameters: list[nn.Parameter]) -> np.ndarray:
    """Which parameters got gradients of which nothing is applied; shape (parameters,)."""
    sizes, least = [some(p, None).numel() for p in parameters], 1e-6 * float(update.delivered.norm())
    came = np.array([float(part.norm()) > least for part in update.delivered.split(sizes)])
    return came & ~_of_parameters(update.applied, parameters)


def _weights(alone: Sequence[Tensor], update: Tensor) -> np.ndarray:
    """How many times each of these gradients an update holds."""
    return torch.linalg.lstsq(torch.stack([*alone], 1), update[:, None]).solution[:, 0].numpy()


def _named_by(got: np.ndarray, constant: bool, tokens: Sequence[int]) -> str:
    if min(abs(got)) < _NEAR * max(abs(got)):
        return "left out"
    if _alike(got * tokens if constant else got):
        return "sum of means" if abs(got[0] - 1) < _NEAR and not constant else "mean of means"
    return "other weights"


def _alike(values: np.ndarray) -> bool:
    return _near(values, np.full(len(values), values.mean()))


def _near(mine: Any, others: Any) -> bool:
    return np.allclose(mine, others, rtol=_NEAR)


def _failed(evidence: str, name: str, **values: Any) -> Finding:
    return Finding.failed("accumulation", evidence, name, **values)
