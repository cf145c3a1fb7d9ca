"""Do micro-batches add up to the update that they make together? What the optimizer applies is weighed.

The gradient of each micro-batch alone is computed first. Then the trainer's step is called, and what its optimizer
applies is written as a weighted sum of these gradients, by least squares. Each weight should be the share of the
micro-batch in the update; what no weights explain is the residual.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from packlib.batches import IGNORED
from packlib.tools.check.called_model import ranks, sampled_numbers
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.findings import INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.order_of_batches import in_two_orders
from packlib.tools.check.recorded_updates import (
    NEAR,
    NUDGE,
    RecordedUpdate,
    all_near,
    frozen_parameters,
    near,
    record_update,
    weights_in,
)
from packlib.tools.check.slot_gradients import Loss
from packlib.tools.check.weighing import Weighing, amounts

_PURE = 1e-3  # a residual below this is rounding: then the update is nothing but a weighted sum
_CLOSE = 0.005  # by which share weights of such an update may be off; those of others by `NEAR`
_DIVIDED = 0.02  # by which share the loss of a model that divides by a count may be off
_NOISY = 0.3  # by which share noise may change a weight
_NO_GRADIENT = (
    "The rest of the update is no gradient of theirs, as where noise is drawn, a part is detached, or the trainer's "
    "loss is not the model's (label smoothing): pass it as loss."
)
_NO_GRADIENT_ALONE = (
    "One of two micro-batches has no gradient alone, as where all of its advantages are 0: what it weighs is not seen. "
    "Give other sequences."
)
_FIXED_SIZE = (
    "Each weighs the same: right in padded batches of a fixed size. In a smaller one, as at the end of an epoch, each "
    "sequence weighs more; whether your loader makes one is not known (dataloader_drop_last=True makes none)."
)
_TOO_FEW = (
    "No optimizer steps in step with so few micro-batches, and one does with four times as many: those that are left "
    "over at the end of a pass are never applied, or with the next pass. Let step make an update of all that it gets, "
    "as its loop should at the end."
)
_UNHELD = "give them to an optimizer, or freeze them (requires_grad=False) if they are not to learn."
_RATE_MOVES = (
    "The rate changes between micro-batches, as where a scheduler steps with each of them: that is right only if the "
    "steps of its schedule were counted in micro-batches."
)
_AMPLIFIES = (
    "What is applied is no sum of their gradients, and it makes rounding large: gradients that are rounded otherwise "
    "change {change:.2g} of it, as where values near zero are divided by their size. So it is not known whether it is "
    "made of their sum."
)
_DRAWS = (
    "The step draws noise of its own: with other random numbers {share:.2g} of what is applied is other. Whether the "
    "rest is made of their sum is not known: let step draw none while it is checked."
)
_ADDS_NOISE = (
    "The step adds noise of its own to their sum, {share:.2g} of what is applied; noise aside it is their sum."
)
_ALL_LABELS = "It divides by all labels, also those of first tokens, which nothing predicts."
_UNSEEN = (
    "Its optimizer steps {unseen} that are neither parameters of model nor a copy of one, as where all are laid into "
    "one: what it applies is not seen."
)
_DAMPING = 2.0**-12  # gradients times this are so small that no bound clips them


@dataclass(frozen=True)
class _Trial:
    """A trainer's step, and the micro-batches of which it is to make one update.

    Attributes:
        parts: the loss of each micro-batch.
        parameters: those whose gradients are compared.
        one_per_rank: whether each rank gets one of the micro-batches.
        still: whether to keep the model from `train()`, since it may draw noise in training.
    """

    checked: CheckedBatch
    weighing: Weighing
    step: Callable
    parts: Sequence[Loss]
    parameters: list[nn.Parameter]
    one_per_rank: bool
    still: bool = False

    @property
    def constant(self) -> bool:
        """Return True if the loss is a sum, so that a token weighs the same in each batch.

        Then a factor that all micro-batches have in common does no harm.
        """
        return self.weighing.rule is not None and self.weighing.rule[0] == "constant"

    @property
    def tokens(self) -> list[int]:
        """Count the tokens that each micro-batch predicts."""
        return [amounts(part, False)["tokens"] for part in self.parts]

    @property
    def own_batches(self) -> list[dict]:
        """The micro-batches, or that of this rank."""
        batches = [part.batch for part in self.parts]
        return [batches[dist.get_rank()]] if self.one_per_rank else batches

    def update(self, damping: float = 1.0, times: int = 1) -> RecordedUpdate:
        """Call the step with the micro-batches, all of them `times` times; return what was recorded."""
        return record_update(self.checked, self.parameters, self.own_batches * times, self.step, damping, self.still)

    def steps_with_more(self) -> bool:
        """Return whether an optimizer steps with four times the micro-batches; False if step takes no more."""
        try:
            return self.update(times=4).steps > 0
        except ValueError:
            return False

    def gradients(self) -> list[Tensor]:
        """Compute the gradient of each micro-batch alone, each of shape (numbers,)."""
        gradients = [self.checked.called.parameter_slope(part.batch, self.parameters) for part in self.parts]
        if self.checked.called.share_rows:
            for gradient in gradients:
                dist.all_reduce(gradient)
            gradients = [gradient / ranks() for gradient in gradients]
        return gradients


@dataclass
class _Measured:
    """The weight of each micro-batch in an update.

    Attributes:
        update: what was recorded of the step.
        gradients: of each micro-batch alone, each of shape (numbers,).
        shares: what each micro-batch should weigh.
        delivered_weights: what each weighs in the sum that the backward passes gave.
        applied: the gradients that the optimizer applied, before single values were clipped; shape (numbers,).
        weights: what each micro-batch weighs in `applied`.
        residual: `applied` less the weighted sum of the gradients.
        relative_residual: its size relative to that of `applied`.
        evidence: what was measured, in sentences; each question adds its own.
    """

    update: RecordedUpdate
    gradients: list[Tensor]
    shares: Sequence[float]
    delivered_weights: np.ndarray
    applied: Tensor
    weights: np.ndarray
    evidence: str

    def __post_init__(self) -> None:
        self.set_applied(self.applied, self.weights)

    def set_applied(self, applied: Tensor, weights: np.ndarray) -> None:
        """Set what was applied, and what micro-batches weigh in it, and compute the residual."""
        self.applied, self.weights = applied, weights
        self.residual = self.applied - torch.stack(self.gradients, 1) @ torch.from_numpy(self.weights)
        self.relative_residual = self.relative(self.residual)

    def are_right(self) -> bool:
        """Return whether each micro-batch weighs what it should; to half a percent if the residual is rounding."""
        tolerance = NEAR if self.relative_residual > _PURE else _CLOSE
        return np.allclose(self.weights, self.shares, rtol=tolerance)

    def relative(self, part: Tensor) -> float:
        """Return the size of a part of the update, relative to what was applied."""
        return float(part.norm() / self.applied.norm().clamp(min=1e-300))


def accumulation(checked: CheckedBatch, weighing: Weighing, step: Callable | None) -> Iterator[Finding]:
    """Find out if a step adds up two micro-batches of different sizes to one mean, or at least two of the same size.

    Args:
        step: the trainer's step, as in `check_packing`; without it only the model is asked, if it divides by a count.
    """
    question = "accumulation"
    parts = [batch.loss for batch in weighing.smaller_batches]
    one_per_rank = ranks() > 1 and not checked.called.share_rows
    if weighing.whole.loss.value is None or weighing.is_silent:
        yield Finding(question, INCONCLUSIVE, "There is no loss of two micro-batches that has a gradient.")
        return
    if weighing.rule is None:
        yield Finding(question, INCONCLUSIVE, "What a micro-batch should weigh is not known: see mean.")
        return
    if step is None and one_per_rank:
        yield Finding(question, NOT_ASKED, "What your trainer does on several ranks is not known: pass step.")
        return
    if any(batch.is_silent for batch in weighing.smaller_batches):
        yield Finding(question, NOT_ASKED if step is None else INCONCLUSIVE, _NO_GRADIENT_ALONE)
        return
    if step is None:
        yield _given_the_count(checked, weighing, parts)
        return
    if one_per_rank and ranks() > 2:
        yield Finding(question, INCONCLUSIVE, f"There are two micro-batches, and {ranks()} ranks: take two.")
        return
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    if not parameters:
        yield Finding(question, NOT_ASKED, "No parameter of model requires a gradient.")
        return
    trial = _Trial(checked, weighing, step, parts, parameters, one_per_rank)
    of_two_sizes = _weigh(trial)
    if of_two_sizes.verdict != INCONCLUSIVE or not _by_number(checked, weighing):
        yield from _in_either_order(trial, of_two_sizes)
        return
    trial = replace(trial, parts=_of_one_size(checked))
    of_one_size = _weigh(trial)
    yield from _in_either_order(trial, of_one_size)
    if of_one_size.verdict == PASSED:
        yield Finding("smaller micro-batches", NOT_ASKED, of_two_sizes.evidence)


def _by_number(checked: CheckedBatch, weighing: Weighing) -> bool:
    """Return whether a batch weighs by the number of its sequences, or groups, of which loaders take a fixed number."""
    one_a_row = len(set(checked.row_of.tolist())) == len(checked.pieces)
    return one_a_row and weighing.rule is not None and weighing.rule[0] in ("sequence", "group")


def _of_one_size(checked: CheckedBatch) -> list[Loss]:
    """Make two micro-batches of the same number of sequences, or groups: the long ones and the short ones."""
    tokens = {unit: sum(len(row["input_ids"]) for row in checked.of_units([unit])) for unit in set(checked.unit_of)}
    units = sorted(tokens, key=lambda unit: tokens[unit])
    half = len(units) // 2
    return [
        Loss(checked, checked.collate(checked.of_units(chosen_units)))
        for chosen_units in (units[half : 2 * half], units[:half])
    ]


def _given_the_count(checked: CheckedBatch, weighing: Weighing, parts: Sequence[Loss]) -> Finding:
    """Find out if a model that gets the number of labels of the update divides by it, as transformers' Trainer expects.

    The losses of its micro-batches are then their shares of the mean.
    """
    count = torch.tensor(sum(amounts(part, False)["tokens"] for part in parts))
    evidence, shares = _sizes(weighing, parts), weighing.shares(parts)
    takes = inspect.signature(getattr(checked.called.model, "forward", checked.called.model)).parameters
    counted = [checked.called.try_call({**part.batch, "num_items_in_batch": count}) for part in parts]
    values = [None if call is None or call.loss is None else float(call.loss.detach()) for call in counted]
    if None not in values and weighing.rule == ("token", False):
        weights = [(value or 0.0) / (part.value or np.inf) for value, part in zip(values, parts, strict=True)]
        if np.allclose(weights, shares, rtol=_DIVIDED):
            return Finding("accumulation", PASSED, f"{evidence} Given num_items_in_batch, the model divides by it.")
        if "num_items_in_batch" in takes:
            return _failed(f"{evidence} It takes num_items_in_batch to no effect.", "mean of means")
    return Finding("accumulation", NOT_ASKED, f"{evidence} What your trainer does is not known: pass step.")


def _sizes(weighing: Weighing, parts: Sequence[Loss]) -> str:
    """Say how many tokens, sequences or groups each micro-batch has, whichever the mean is over."""
    name, by_labels = weighing.rule or ("token", False)
    noun = {"sequence": "sequences", "group": "groups"}.get(name, "tokens")
    counts = [str(amounts(part, by_labels)[noun]) for part in parts]
    return f"Micro-batches hold {' and '.join(counts)} {noun.replace('tokens', 'labels')}."


def _weigh(trial: _Trial) -> Finding:
    """Find what each micro-batch weighs in the update that the step applies.

    Several questions are asked in order, until one of them gives the answer.
    """
    evidence = _sizes(trial.weighing, trial.parts)
    gradients = trial.gradients()
    update = trial.update()
    if not update.steps and trial.steps_with_more():
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_TOO_FEW}")
    if update.searches:
        reason = "An optimizer computes gradients more than once in a step (a closure), each of other weights."
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {reason}")
    if not update.is_finite():
        return _failed(evidence, "nan update")
    if min(float(gradient.norm()) for gradient in gradients) == 0:
        return Finding("accumulation", INCONCLUSIVE, _NO_GRADIENT_ALONE)
    measured = _measure(trial, gradients, update, evidence)
    return (
        _fault_of_the_update(trial, measured)
        or _lost_gradients(trial, measured)
        or _loss_beside_the_scores(trial, measured)
        or _noise_of_the_step(trial, measured)
        or _noise(trial, measured)
        or _changed_after_the_sum(trial, measured)
        or _right_weights(trial, measured)
        or _changed_before_the_step(trial, measured)
        or _other_weights(trial, measured)
    )


def _in_either_order(trial: _Trial, finding: Finding) -> Iterator[Finding]:
    """Yield the finding, or if it passed and the update changes with the order of micro-batches, one that failed."""
    if finding.verdict != PASSED or ranks() > 1:
        yield finding
        return
    orders = in_two_orders(trial.checked, trial.parameters, trial.own_batches, trial.step)
    if orders.changed:
        yield _failed(f"{finding.evidence} {orders.changed}", "order")
        return
    if orders.rate_moves:
        yield Finding("accumulation", INCONCLUSIVE, f"{finding.evidence} {_RATE_MOVES}")
    else:
        yield finding
    if orders.unknown:
        yield Finding("order of micro-batches", NOT_ASKED, orders.unknown)


def _measure(trial: _Trial, gradients: list[Tensor], update: RecordedUpdate, evidence: str) -> _Measured:
    """Find what each micro-batch weighs in an update, before single values of it are clipped."""
    shares = trial.weighing.shares(trial.parts)
    largest = update.applied.abs().max()
    are_values_clipped = torch.allclose(update.applied, update.delivered.clamp(-largest, largest), rtol=1e-4, atol=0)
    applied = update.delivered if are_values_clipped and largest > 0 else update.applied
    weights = weights_in(applied, gradients)
    evidence += (
        f" In the step they weigh {weights[0]:.3g} and {weights[1]:.3g}; right is {shares[0]:.3g} and {shares[1]:.3g}."
    )
    if ranks() > 1:
        evidence += f" They lie on {ranks()} ranks."
    return _Measured(update, gradients, shares, weights_in(update.delivered, gradients), applied, weights, evidence)


def _fault_of_the_update(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if the update is wrong whatever micro-batches weigh in it, or cannot be seen; else None."""
    update, evidence = measured.update, measured.evidence
    if not update.ranks_agree:
        return _failed(evidence, "ranks")
    if update.steps > 1:
        return _failed(f"{evidence} The optimizer steps {update.steps} times.", "each updates")
    if update.num_idle_copies and not update.steps and not update.num_unseen:
        evidence += f" It steps {update.num_idle_copies} copies of parameters, of which none has a gradient."
        return _failed(evidence, "copy")
    if update.trains_copy_alone():
        return _failed(evidence, "copy alone")
    if not update.applied.any() and not update.steps and update.num_unseen:
        unseen = f"{update.num_unseen} {'tensor' if update.num_unseen == 1 else 'tensors'}"
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_UNSEEN.format(unseen=unseen)}")
    if not update.applied.any():
        in_other_order = replace(trial, parts=trial.parts[::-1])
        skipped = ranks() == 1 and bool(in_other_order.update().applied.any())
        return _failed(evidence, "order" if skipped else "nothing")
    if update.num_moved:
        return _failed(
            f"{evidence} Other values had {update.num_moved} of {len(trial.parameters)} parameters.", "moved"
        )
    if update.num_drifted:
        of_all = len(frozen_parameters(trial.checked.called.module, trial.parameters))
        evidence += f" Other values had {update.num_drifted} of {of_all} frozen parameters in a later micro-batch."
        return _failed(evidence, "moved")
    return None


def _lost_gradients(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if parameters got gradients of which nothing is applied."""
    update, count = measured.update, len(trial.parameters)
    if not update.steps:
        return None
    rounding = 1e-6 * float(update.delivered.norm())
    arrived = np.array([float(part.norm()) > rounding for part in _by_parameter(update.delivered, trial.parameters)])
    lost = arrived & ~_applied_to(update.applied, trial.parameters)
    if (lost & update.in_an_optimizer).any():
        return _failed(
            measured.evidence, "lost gradients", count=int((lost & update.in_an_optimizer).sum()), of_all=count
        )
    if not lost.any():
        return None
    other_parameters = [p for p, is_lost in zip(trial.parameters, lost, strict=True) if not is_lost]
    # the update of the other parameters may be wrong as well
    of_others = _weigh(replace(trial, parameters=other_parameters))
    if of_others.verdict != PASSED:
        return of_others
    unheld = f"No optimizer that steps has {lost.sum()} of {count} parameters that get gradients: {_UNHELD}"
    return Finding("accumulation", INCONCLUSIVE, f"{of_others.evidence} {unheld}")


def _loss_beside_the_scores(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer by what micro-batches weigh through their scores and besides them, if a part of the loss bypasses these.

    Such a part is a router's loss. The update is then a sum of four gradients: two of each micro-batch.
    """
    aside, pull = trial.weighing.whole.loss.aside, trial.weighing.whole.loss.pull
    if aside is None or pull is None or float(aside.norm()) < 1e-3 * float(pull.norm()):
        return None
    called = trial.checked.called
    if called.share_rows:
        return None
    through = [called.parameter_slope(part.batch, trial.parameters, through_scores=True) for part in trial.parts]
    besides = [whole - through_scores for whole, through_scores in zip(measured.gradients, through, strict=True)]
    weights = weights_in(measured.update.delivered, [*through, *besides])
    explained = torch.stack([*through, *besides], 1) @ torch.from_numpy(weights)
    residual = float((measured.update.delivered - explained).norm())
    if residual > 10 * trial.weighing.limit * float(explained.norm()):
        return None
    of_scores, of_besides = weights[:2], weights[2:]
    measured.evidence += f" What does not pass through the scores weighs {of_besides[0]:.3g} and {of_besides[1]:.3g}."
    if near(of_besides, 1) and not near(of_besides, measured.shares):
        return _failed(measured.evidence, "aside alike")
    if near(of_scores, measured.shares) and near(sum(of_besides), 1):
        return Finding("accumulation", PASSED, measured.evidence)
    return None


def _noise_of_the_step(trial: _Trial, measured: _Measured) -> Finding | None:
    """If the step draws noise, answer that it hides the rest; if it only adds noise to the sum, measure the sum.

    The step is called with two states of random numbers. What both updates have in common besides the sum is no noise:
    the step changes the sum as well. Residuals that are noise alone are almost at right angles.

    Returns:
        A finding, or None if the questions go on, with `measured` without the noise.
    """
    if measured.relative_residual <= NEAR or ranks() > 1:
        return None
    still = replace(trial, still=True)  # the noise of a model that trains is asked about next
    first_update = still.update()
    second_update = replace(still, step=_with_other_numbers(trial)).update()
    share = measured.relative(first_update.applied - second_update.applied)
    if share <= NEAR or not (first_update.is_finite() and second_update.is_finite()):
        return None
    first_residual = first_update.applied - first_update.delivered
    second_residual = second_update.applied - second_update.delivered
    product = float(first_residual @ second_residual)
    # two standard deviations of the product, if both are noise
    by_chance = 2 * float(first_residual.norm() * second_residual.norm()) / len(first_residual) ** 0.5
    if product + by_chance > (NEAR * float(first_update.delivered.norm())) ** 2:
        return Finding("accumulation", INCONCLUSIVE, f"{measured.evidence} {_DRAWS.format(share=share)}")
    measured.evidence += f" {_ADDS_NOISE.format(share=share)}"
    measured.set_applied(first_update.delivered, weights_in(first_update.delivered, measured.gradients))
    return None


def _with_other_numbers(trial: _Trial) -> Callable:
    """Return the step with another seed, so that it draws other noise."""

    def step(model: nn.Module, batches: list[dict]) -> None:
        trial.checked.called.reseed(1)
        trial.step(model, batches)

    return step


def _noise(trial: _Trial, measured: _Measured) -> Finding | None:
    """If noise of the model in training may be why the update is wrong, answer with the model kept from training."""
    if trial.still or (measured.relative_residual <= NEAR and measured.are_right()):
        return None
    applied_without_noise = replace(trial, still=True).update().applied
    if torch.equal(applied_without_noise, measured.update.applied):
        return None
    if not np.allclose(measured.weights, weights_in(applied_without_noise, measured.gradients), rtol=_NOISY):
        return None
    of_still = _weigh(replace(trial, still=True))
    return replace(of_still, evidence=f"{of_still.evidence} The model was kept from training, where it draws noise.")


def _changed_after_the_sum(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if the update is no sum of the gradients, but the same for one micro-batch of all sequences, and for four.

    Then it is made of the sum, once, as where parts of a model are clipped apart, or of the sums at two places (SAM).
    """
    # of each micro-batch; SAM makes two
    backward_passes = max(1, round(float(sum(measured.delivered_weights)) / sum(measured.shares)))
    delivered_right = near(measured.delivered_weights, backward_passes * np.array(measured.shares))
    if measured.relative_residual <= NEAR or ranks() > 1 or not delivered_right:
        return None
    units = [unit for of_part in _units(trial) for unit in of_part]
    whole_loss = Loss(trial.checked, trial.checked.collate(trial.checked.of_units(units)))

    ways = [[whole_loss]]
    halves = _halved(trial)
    if sum(len(half.pieces) for half in halves) == len(whole_loss.pieces):  # none was left over
        ways.append(halves)
    for parts in ways:
        try:
            update = replace(trial, parts=parts, step=_with_other_numbers(trial)).update()
        except ValueError:  # the step takes two micro-batches, and no other number
            return None
        if update.steps != 1:
            return None
        if measured.relative(update.applied - measured.applied) > NEAR:
            return _amplifying(trial, measured)
    sentence = (
        "What is applied is no sum of their gradients, but the same for one micro-batch of all of them: it is made"
    )
    return Finding("accumulation", PASSED, f"{measured.evidence} {sentence} of the sum.")


def _amplifying(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer that the result is inconclusive if a change of gradients by their rounding changes what is applied.

    Only if micro-batches weigh in it in proportion to what was delivered; else the fault is found later.
    """
    first_ratio, second_ratio = measured.weights / measured.delivered_weights
    change = measured.relative(trial.update(NUDGE).applied - measured.applied)
    if change <= NEAR or not np.isclose(first_ratio, second_ratio, rtol=_NOISY):
        return None
    return Finding("accumulation", INCONCLUSIVE, f"{measured.evidence} {_AMPLIFIES.format(change=change)}")


def _right_weights(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if each micro-batch weighs what it should; else None."""
    if not measured.are_right():
        return None
    applied_to = _applied_to(measured.applied, trial.parameters)
    count = len(trial.parameters) - int(applied_to.sum())
    if count:
        measured.evidence += f" The optimizer applied nothing to {count} of {len(trial.parameters)} parameters."
    is_of_these = np.repeat(applied_to, [sampled_numbers(p, None).numel() for p in trial.parameters])  # by number
    if measured.relative(measured.residual[torch.from_numpy(is_of_these)]) > NEAR:
        return _no_gradient_of_theirs(trial, measured)
    return _of_four(trial, measured.evidence)


def _changed_before_the_step(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if gradients were changed between backward passes and the optimizer, unless all were clipped at once.

    Clipping is known by a second update with gradients so small that no bound clips them. If they were clipped, the
    questions go on with what micro-batches weigh in that update.
    """
    weights, delivered = measured.weights, measured.delivered_weights
    if near(weights, delivered):
        return None
    measured.evidence += f" Backward passes gave {delivered[0]:.3g} and {delivered[1]:.3g}."
    first_scale, second_scale = weights / delivered
    if abs(first_scale) < NEAR * abs(second_scale):
        return _failed(measured.evidence, "cleared")
    if measured.relative_residual > NEAR or not near(first_scale, second_scale):
        return _failed(measured.evidence, "between")
    unclipped = trial.update(_DAMPING)
    ratio, unclipped_ratio = (
        float(update.applied.norm() / update.delivered.norm().clamp(min=1e-300))
        for update in (measured.update, unclipped)
    )
    if near(ratio, unclipped_ratio) and not (trial.constant and _divided_by_a_count(trial, weights / delivered)):
        return _failed(measured.evidence, "scaled after", how=f"{ratio:.3g}")
    measured.weights = weights_in(unclipped.applied, measured.gradients) / _DAMPING
    measured.evidence += f" They are clipped to a norm of {measured.update.applied.norm():.3g}."
    return None


def _divided_by_a_count(trial: _Trial, scale: np.ndarray) -> bool:
    """Return whether `scale` divides by the tokens, or the sequences, of the update, as a trainer may divide a sum.

    Args:
        scale: of each micro-batch, its weight in what was applied over that in what was delivered.
    """
    counts = [sum(amounts(part, False)[name] for part in trial.parts) for name in ("tokens", "sequences")]
    return any(near(scale * count, 1) for count in counts)


def _other_weights(trial: _Trial, measured: _Measured) -> Finding:
    """Answer by what micro-batches weigh, where no question before had an answer."""
    weights = measured.weights
    shares = measured.shares
    evidence = measured.evidence
    if measured.relative_residual > NEAR:
        return _no_gradient_of_theirs(trial, measured)
    if measured.are_right() or (trial.constant and near(*weights)):
        return _of_four(trial, evidence)
    if _counts_all_labels(trial, measured):
        return _of_four(trial, f"{evidence} {_ALL_LABELS}")
    factors = weights / np.array(shares)
    if near(factors, [factors[0]] * 2) and not trial.constant:  # both are off by the same factor
        if measured.relative_residual > trial.weighing.limit:  # the update is off by more than the factor
            return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_NO_GRADIENT}")
        return _failed(evidence, "times", how=f"{factors[0]:.3g}")
    name = _named_by(weights, trial.constant, trial.tokens)
    if name == "mean of means" and _by_number(trial.checked, trial.weighing):
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_FIXED_SIZE}")
    return _failed(evidence, name)


def _of_four(trial: _Trial, evidence: str) -> Finding:
    """Answer where two micro-batches weigh what they should: it passes, unless four micro-batches do not.

    Each of the two is cut in two for that. A step that refuses four, or whose optimizer steps more often then, is made
    for two, and passes. So does one that is wrong by the same factor for all four, as where it divides by 2.
    """
    passed = Finding("accumulation", PASSED, evidence)
    four = _halved(trial)
    if not four or not all(part.predicted.any() for part in four):
        return passed
    trial = replace(trial, parts=four)
    gradients = trial.gradients()
    try:
        update = trial.update()
    except ValueError:  # the step takes two micro-batches, and no other number
        return passed
    if update.steps != 1 or not update.applied.any():
        return passed
    weights, delivered = weights_in(update.applied, gradients), weights_in(update.delivered, gradients)
    explained = torch.stack(gradients, 1) @ torch.from_numpy(weights)
    relative_residual = float((update.applied - explained).norm() / update.applied.norm())
    shares = np.array(trial.weighing.shares(four))
    if relative_residual > NEAR or all_near(weights / (np.ones(4) if trial.constant else shares)):
        return passed
    weigh, right = (", ".join(f"{x:.3g}" for x in values) for values in (weights, shares))
    evidence += f" Of four micro-batches each weighs {weigh}; right is {right}."
    applied_share = np.abs(weights / delivered)
    if bool((applied_share[:2] < NEAR * applied_share[-1]).any()):  # an early one is lost, and the last one is not
        return _failed(evidence, "cleared")
    return _failed(evidence, _named_by(weights, trial.constant, trial.tokens))


def _halved(trial: _Trial) -> list[Loss]:
    """Cut each of two micro-batches in two, and return all four; [] if one has no two units, or with several ranks."""
    checked = trial.checked
    units = _units(trial)
    if ranks() > 1 or min(map(len, units)) < 2:
        return []
    if _by_number(checked, trial.weighing) and len(units[0]) == len(units[1]):  # four of one size, as the two are
        cut = len(units[0]) // 2
        units = [of_part[: 2 * cut] for of_part in units]
    else:
        cut = min(map(len, units)) // 3 or 1
    halves = [half for of_part in units for half in (of_part[:cut], of_part[cut:])]
    return [Loss(checked, checked.collate(checked.of_units(half))) for half in halves]


def _units(trial: _Trial) -> list[list[int]]:
    """Return the numbers of the units (sequences, or groups of them) of each micro-batch."""
    unit_of = trial.checked.unit_of
    return [list(dict.fromkeys(unit_of[piece.sequence] for piece in part.pieces)) for part in trial.parts]


def _by_parameter(update: Tensor, parameters: list[nn.Parameter]) -> tuple[Tensor, ...]:
    """Split an update into the numbers of each parameter."""
    return update.split([sampled_numbers(p, None).numel() for p in parameters])


def _applied_to(applied: Tensor, parameters: list[nn.Parameter]) -> np.ndarray:
    """Return to which parameters something was applied; shape (parameters,)."""
    return np.array([bool(part.any()) for part in _by_parameter(applied, parameters)])


def _counts_all_labels(trial: _Trial, measured: _Measured) -> bool:
    """Return whether the trainer divides by all labels, also those of first tokens, as transformers' Trainer does.

    The update is then smaller by up to a twentieth, as by a slightly lower learning rate; if it is more, it is a fault.
    """
    batch_labels = [part.batch.get("labels") for part in trial.parts]
    all_labels = sum(int((labels != IGNORED).sum()) for labels in batch_labels if isinstance(labels, Tensor))
    ratio = sum(trial.tokens) / max(1, all_labels)
    return 1 - NEAR <= ratio < 1 and np.allclose(measured.weights, ratio * np.array(measured.shares), rtol=_CLOSE)


def _no_gradient_of_theirs(trial: _Trial, measured: _Measured) -> Finding:
    """Answer where the update holds more than gradients of micro-batches.

    It failed if the update of one micro-batch of all sequences is its gradient: then a part of the loss is divided by
    what each micro-batch has, as where label smoothing stays a mean of its own. Else it is inconclusive.
    """
    inconclusive = Finding("accumulation", INCONCLUSIVE, f"{measured.evidence} {_NO_GRADIENT}")
    if ranks() > 1:
        return inconclusive
    units = [unit for of_part in _units(trial) for unit in of_part]
    single_trial = replace(trial, parts=[Loss(trial.checked, trial.checked.collate(trial.checked.of_units(units)))])
    try:
        update = single_trial.update()
    except ValueError:  # the step takes two micro-batches, and no other number
        return inconclusive
    gradient = single_trial.gradients()[0]
    is_its_gradient = float((update.applied - gradient).norm()) < _CLOSE * float(gradient.norm())
    if update.steps != 1 or not is_its_gradient or measured.relative(update.applied - measured.applied) <= NEAR:
        return inconclusive
    sentence = "The update of one micro-batch of all sequences is its gradient, and that of the two is another one."
    return _failed(f"{measured.evidence} {sentence}", "part alike")


def _named_by(weights: np.ndarray, constant: bool, tokens: Sequence[int]) -> str:
    """Name the row of causes.csv for wrong weights of micro-batches.

    Args:
        constant: whether the loss is a sum, of which a mean weighs tokens by the size of their micro-batch.
        tokens: how many each micro-batch predicts.
    """
    if min(abs(weights)) < NEAR * max(abs(weights)):
        return "left out"
    if all_near(weights * tokens if constant else weights):
        return "sum of means" if abs(weights[0] - 1) < NEAR and not constant else "mean of means"
    return "other weights"


def _failed(evidence: str, name: str, **values: object) -> Finding:
    return Finding.failed("accumulation", evidence, name, **values)
