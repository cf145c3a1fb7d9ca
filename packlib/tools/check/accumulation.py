"""Do micro-batches add up to the update that they make together? What the optimizer applies is weighed."""

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

_CLOSE, _PURE = 0.005, 1e-3  # how near weights must be where what else is applied is less than this
_NOISY = 0.3  # how far noise may move a weight
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
_DAMPING = 2.0**-12  # what gradients are multiplied with so that no bound clips them


@dataclass(frozen=True)
class _Trial:
    """A trainer's step, and the micro-batches of which it is to make one update.

    Attributes:
        parts: the loss of each micro-batch.
        parameters: those that are looked at.
        parted: whether each rank gets one of the micro-batches.
        still: whether the model is kept from training, in which it may draw noise.
    """

    checked: CheckedBatch
    weighing: Weighing
    step: Callable
    parts: Sequence[Loss]
    parameters: list[nn.Parameter]
    parted: bool
    still: bool = False

    @property
    def constant(self) -> bool:
        """Return True if a token weighs the same in each batch: then a scale that all have in common does no harm."""
        return self.weighing.rule is not None and self.weighing.rule[0] == "constant"

    @property
    def tokens(self) -> list[int]:
        return [amounts(part, False)["tokens"] for part in self.parts]

    @property
    def own_batches(self) -> list[dict]:
        """The micro-batches, or that of this rank."""
        batches = [part.batch for part in self.parts]
        return [batches[dist.get_rank()]] if self.parted else batches

    def update(self, damping: float = 1.0, times: int = 1) -> RecordedUpdate:
        """Call the step with the micro-batches, each so many times."""
        return record_update(self.checked, self.parameters, self.own_batches * times, self.step, damping, self.still)

    def steps_with_more(self) -> bool:
        """Return whether an optimizer steps with four times the micro-batches; False if step takes no more."""
        try:
            return self.update(times=4).steps > 0
        except ValueError:
            return False

    def gradients(self) -> list[Tensor]:
        """Compute the gradient of each micro-batch alone."""
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
        update: what the step did.
        gradients: of each micro-batch alone.
        shares: what each should weigh.
        delivered: what each weighs in what the backward passes gave.
        applied: what the optimizer applied, before single values were clipped.
        weights: what each micro-batch weighs in it.
        evidence: what is said of it; each question adds what it saw.
    """

    update: RecordedUpdate
    gradients: list[Tensor]
    shares: Sequence[float]
    delivered: np.ndarray
    applied: Tensor
    weights: np.ndarray
    evidence: str

    def __post_init__(self) -> None:
        self.set_applied(self.applied, self.weights)

    def set_applied(self, applied: Tensor, weights: np.ndarray) -> None:
        """Take something for what was applied, and what micro-batches weigh in it."""
        self.applied, self.weights = applied, weights
        self.rest = self.applied - torch.stack(self.gradients, 1) @ torch.from_numpy(self.weights)
        self.relative_rest = self.relative(self.rest)

    def are_right(self) -> bool:
        """Return whether each micro-batch weighs what it should; to half a percent where nothing else is applied."""
        tolerance = NEAR if self.relative_rest > _PURE else _CLOSE
        return np.allclose(self.weights, self.shares, rtol=tolerance)

    def relative(self, part: Tensor) -> float:
        """Return the size of a part of the update, relative to what was applied."""
        return float(part.norm() / self.applied.norm().clamp(min=1e-300))


def accumulation(checked: CheckedBatch, weighing: Weighing, step: Callable | None) -> Iterator[Finding]:
    """Ask whether two micro-batches of different sizes are added up to one mean, or at least two of one size."""
    question = "accumulation"
    parts = [batch.loss for batch in weighing.batches[2:]]
    parted = ranks() > 1 and not checked.called.share_rows
    if weighing.whole.loss.value is None or weighing.is_silent:
        yield Finding(question, INCONCLUSIVE, "There is no loss of two micro-batches that has a gradient.")
        return
    if weighing.rule is None:
        yield Finding(question, INCONCLUSIVE, "What a micro-batch should weigh is not known: see mean.")
        return
    if step is None and parted:
        yield Finding(question, NOT_ASKED, "What your trainer does on several ranks is not known: pass step.")
        return
    if any(batch.is_silent for batch in weighing.batches[2:]):
        yield Finding(question, NOT_ASKED if step is None else INCONCLUSIVE, _NO_GRADIENT_ALONE)
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
    trial = _Trial(checked, weighing, step, parts, parameters, parted)
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
    """Make two micro-batches of the same number of sequences, or groups: the short ones and the long ones."""
    tokens = {unit: sum(len(row["input_ids"]) for row in checked.of_units([unit])) for unit in set(checked.unit_of)}
    units = sorted(tokens, key=lambda unit: tokens[unit])
    half = len(units) // 2
    return [
        Loss(checked, checked.collate(checked.of_units(chosen_units)))
        for chosen_units in (units[half : 2 * half], units[:half])
    ]


def _given_the_count(checked: CheckedBatch, weighing: Weighing, parts: Sequence[Loss]) -> Finding:
    """Ask whether a model that is told the labels of the update divides by them, as transformers' Trainer expects."""
    count = torch.tensor(sum(amounts(part, False)["tokens"] for part in parts))
    evidence, shares = _sizes(weighing, parts), weighing.shares(parts)
    takes = inspect.signature(getattr(checked.called.model, "forward", checked.called.model)).parameters
    counted = [checked.called.try_call({**part.batch, "num_items_in_batch": count}) for part in parts]
    values = [None if call is None or call.loss is None else float(call.loss.detach()) for call in counted]
    if None not in values and weighing.rule == ("token", False):
        got = [(value or 0.0) / (part.value or np.inf) for value, part in zip(values, parts, strict=True)]
        if np.allclose(got, shares, rtol=0.02):
            return Finding("accumulation", PASSED, f"{evidence} Given num_items_in_batch, the model divides by it.")
        if "num_items_in_batch" in takes:
            return _failed(f"{evidence} It takes num_items_in_batch to no effect.", "mean of means")
    return Finding("accumulation", NOT_ASKED, f"{evidence} What your trainer does is not known: pass step.")


def _sizes(weighing: Weighing, parts: Sequence[Loss]) -> str:
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
    """Let an update pass if it is the same one where its micro-batches change places."""
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
    shares = trial.weighing.shares(trial.parts)
    largest = update.applied.abs().max()
    clipped = torch.allclose(update.applied, update.delivered.clamp(-largest, largest), rtol=1e-4, atol=0)
    # the sum is right or wrong before it is clipped
    applied = update.delivered if clipped and largest > 0 else update.applied
    weights = weights_in(applied, gradients)
    evidence += (
        f" In the step they weigh {weights[0]:.3g} and {weights[1]:.3g}; right is {shares[0]:.3g} and {shares[1]:.3g}."
    )
    if ranks() > 1:
        evidence += f" They lie on {ranks()} ranks."
    return _Measured(update, gradients, shares, weights_in(update.delivered, gradients), applied, weights, evidence)


def _fault_of_the_update(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if the update is wrong whatever micro-batches weigh in it."""
    update, evidence = measured.update, measured.evidence
    if not update.ranks_agree:
        return _failed(evidence, "ranks")
    if update.steps > 1:
        return _failed(f"{evidence} The optimizer steps {update.steps} times.", "each updates")
    if update.num_idle_copies and not update.steps and not update.num_unseen:
        evidence += f" It steps {update.num_idle_copies} copies of parameters, of which none has a gradient."
        return _failed(evidence, "copy")
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
    least = 1e-6 * float(update.delivered.norm())
    arrived = np.array([float(part.norm()) > least for part in _by_parameter(update.delivered, trial.parameters)])
    lost = arrived & ~_applied_to(update.applied, trial.parameters)
    if (lost & update.in_an_optimizer).any():
        return _failed(
            measured.evidence, "lost gradients", count=int((lost & update.in_an_optimizer).sum()), of_all=count
        )
    if not lost.any():
        return None
    kept_parameters = [p for p, is_lost in zip(trial.parameters, lost, strict=True) if not is_lost]
    # what the optimizers have is asked about all the same
    of_kept = _weigh(replace(trial, parameters=kept_parameters))
    if of_kept.verdict != PASSED:
        return of_kept
    unheld = f"No optimizer that steps has {lost.sum()} of {count} parameters that get gradients: {_UNHELD}"
    return Finding("accumulation", INCONCLUSIVE, f"{of_kept.evidence} {unheld}")


def _loss_beside_the_scores(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer by what micro-batches weigh through their scores and besides them, as by a router's loss."""
    aside, pull = trial.weighing.whole.loss.aside, trial.weighing.whole.loss.pull
    if aside is None or pull is None or float(aside.norm()) < 1e-3 * float(pull.norm()):
        return None
    called = trial.checked.called
    if called.share_rows:
        return None
    through = [called.parameter_slope(part.batch, trial.parameters, through_scores=True) for part in trial.parts]
    besides = [gradient - scores_part for gradient, scores_part in zip(measured.gradients, through, strict=True)]
    weights = weights_in(measured.update.delivered, [*through, *besides])
    explained = torch.stack([*through, *besides], 1) @ torch.from_numpy(weights)
    if float((measured.update.delivered - explained).norm()) > 10 * trial.weighing.limit * float(explained.norm()):
        return None
    of_scores, of_besides = weights[:2], weights[2:]
    measured.evidence += f" What does not pass through the scores weighs {of_besides[0]:.3g} and {of_besides[1]:.3g}."
    if near(of_besides, 1) and not near(of_besides, measured.shares):
        return _failed(measured.evidence, "aside alike")
    if near(of_scores, measured.shares) and near(sum(of_besides), 1):
        return Finding("accumulation", PASSED, measured.evidence)
    return None


def _noise_of_the_step(trial: _Trial, measured: _Measured) -> Finding | None:
    """If the step draws noise, answer that it hides the rest, or go on with the sum that it is added to.

    What two calls with other random numbers have in common besides the sum is no noise.
    """
    if measured.relative_rest <= NEAR or ranks() > 1:
        return None
    still = replace(trial, still=True)  # the noise of a model that trains is asked about next
    first_update = still.update()
    second_update = replace(still, step=_with_other_numbers(trial)).update()
    share = measured.relative(first_update.applied - second_update.applied)
    if share <= NEAR or not (first_update.is_finite() and second_update.is_finite()):
        return None
    first_rest = first_update.applied - first_update.delivered
    second_rest = second_update.applied - second_update.delivered
    by_chance = 2 * float(first_rest.norm() * second_rest.norm()) / len(first_rest) ** 0.5
    if float(first_rest @ second_rest) + by_chance > (NEAR * float(first_update.delivered.norm())) ** 2:
        return Finding("accumulation", INCONCLUSIVE, f"{measured.evidence} {_DRAWS.format(share=share)}")
    measured.evidence += f" {_ADDS_NOISE.format(share=share)}"
    measured.set_applied(first_update.delivered, weights_in(first_update.delivered, measured.gradients))
    return None


def _with_other_numbers(trial: _Trial) -> Callable:
    """Return the step with other random numbers, so that noise which it draws is another one."""

    def step(model: nn.Module, batches: list[dict]) -> None:
        trial.checked.called.reseed(1)
        trial.step(model, batches)

    return step


def _noise(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer with the model kept from training if noise drawn in training may be why the update is another one."""
    if trial.still or (measured.relative_rest <= NEAR and measured.are_right()):
        return None
    quiet = replace(trial, still=True).update().applied
    if torch.equal(quiet, measured.update.applied):
        return None
    if not np.allclose(measured.weights, weights_in(quiet, measured.gradients), rtol=_NOISY):
        return None
    of_still = _weigh(replace(trial, still=True))
    return replace(of_still, evidence=f"{of_still.evidence} The model was kept from training, where it draws noise.")


def _changed_after_the_sum(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if what is applied is no sum of the gradients, but is the same for one micro-batch of all, and for four.

    Then it is made of the sum, once, as where parts of a model are clipped apart, or of the sums at two places (SAM).
    """
    times = max(1, round(float(sum(measured.delivered)) / sum(measured.shares)))
    delivered_right = near(measured.delivered, times * np.array(measured.shares))
    if measured.relative_rest <= NEAR or ranks() > 1 or not delivered_right:
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
        except ValueError:  # it takes two
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
    """Answer if other rounding of gradients changes what is applied, and micro-batches weigh in it as they should."""
    first_ratio, second_ratio = measured.weights / measured.delivered
    change = measured.relative(trial.update(NUDGE).applied - measured.applied)
    if change <= NEAR or not np.isclose(first_ratio, second_ratio, rtol=_NOISY):
        return None
    return Finding("accumulation", INCONCLUSIVE, f"{measured.evidence} {_AMPLIFIES.format(change=change)}")


def _right_weights(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if each micro-batch weighs what it should."""
    if not measured.are_right():
        return None
    applied_to = _applied_to(measured.applied, trial.parameters)
    count = len(trial.parameters) - int(applied_to.sum())
    if count:
        measured.evidence += f" The optimizer applied nothing to {count} of {len(trial.parameters)} parameters."
    numbers = np.repeat(applied_to, [sampled_numbers(p, None).numel() for p in trial.parameters])
    if measured.relative(measured.rest[torch.from_numpy(numbers)]) > NEAR:
        return _no_gradient_of_theirs(trial, measured)
    return _of_four(trial, measured.evidence)


def _changed_before_the_step(trial: _Trial, measured: _Measured) -> Finding | None:
    """Answer if gradients were changed between backward passes and the optimizer, but for one clipping of all.

    Clipping is told by gradients so small that no bound clips them; what micro-batches weigh then is what counts.
    """
    weights, delivered = measured.weights, measured.delivered
    if near(weights, delivered):
        return None
    measured.evidence += f" Backward passes gave {delivered[0]:.3g} and {delivered[1]:.3g}."
    if abs(weights[0] / delivered[0]) < NEAR * abs(weights[1] / delivered[1]):
        return _failed(measured.evidence, "cleared")
    if measured.relative_rest > NEAR or not near(*(weights / delivered)):
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
    """Return whether a trainer divides the gradients of a sum by the tokens, or the sequences, of the update."""
    counts = [sum(amounts(part, False)[name] for part in trial.parts) for name in ("tokens", "sequences")]
    return any(near(scale * count, 1) for count in counts)


def _other_weights(trial: _Trial, measured: _Measured) -> Finding:
    """Answer by what micro-batches weigh, after all else was asked."""
    weights = measured.weights
    shares = measured.shares
    evidence = measured.evidence
    if measured.relative_rest > NEAR:
        return _no_gradient_of_theirs(trial, measured)
    if measured.are_right() or (trial.constant and near(*weights)):
        return _of_four(trial, evidence)
    if _counts_all_labels(trial, measured):
        return _of_four(trial, f"{evidence} {_ALL_LABELS}")
    if near(weights / np.array(shares), [weights[0] / shares[0]] * 2) and not trial.constant:
        if measured.relative_rest > trial.weighing.limit:  # more than a scale is other than it should be
            return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_NO_GRADIENT}")
        return _failed(evidence, "times", how=f"{weights[0] / shares[0]:.3g}")
    name = _named_by(weights, trial.constant, trial.tokens)
    if name == "mean of means" and _by_number(trial.checked, trial.weighing):
        return Finding("accumulation", INCONCLUSIVE, f"{evidence} {_FIXED_SIZE}")
    return _failed(evidence, name)


def _of_four(trial: _Trial, evidence: str) -> Finding:
    """Let two micro-batches pass, if those in two parts each, four in all, do not weigh otherwise.

    A step that takes no four, steps after two of them, or divides by 2 is one for two micro-batches: nothing is said.
    """
    passed = Finding("accumulation", PASSED, evidence)
    four = _halved(trial)
    if not four or not all(part.predicted.any() for part in four):
        return passed
    trial = replace(trial, parts=four)
    gradients = trial.gradients()
    try:
        update = trial.update()
    except ValueError:  # it takes two
        return passed
    if update.steps != 1 or not update.applied.any():
        return passed
    weights, delivered = weights_in(update.applied, gradients), weights_in(update.delivered, gradients)
    explained = torch.stack(gradients, 1) @ torch.from_numpy(weights)
    relative_rest = float((update.applied - explained).norm() / update.applied.norm())
    shares = np.array(trial.weighing.shares(four))
    if relative_rest > NEAR or all_near(weights / (np.ones(4) if trial.constant else shares)):
        return passed
    weigh, right = (", ".join(f"{x:.3g}" for x in values) for values in (weights, shares))
    evidence += f" Of four micro-batches each weighs {weigh}; right is {right}."
    survives = np.abs(weights / delivered)
    if bool((survives[:2] < NEAR * survives[-1]).any()):
        return _failed(evidence, "cleared")
    return _failed(evidence, _named_by(weights, trial.constant, trial.tokens))


def _halved(trial: _Trial) -> list[Loss]:
    """Cut each of two micro-batches in two; none if there is nothing to cut, or each rank has its own."""
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
    """Return the sequences, or groups of them, of each micro-batch."""
    unit_of = trial.checked.unit_of
    return [list(dict.fromkeys(unit_of[piece.sequence] for piece in part.pieces)) for part in trial.parts]


def _by_parameter(update: Tensor, parameters: list[nn.Parameter]) -> tuple[Tensor, ...]:
    """Split an update into the numbers of each parameter."""
    return update.split([sampled_numbers(p, None).numel() for p in parameters])


def _applied_to(applied: Tensor, parameters: list[nn.Parameter]) -> np.ndarray:
    """Return to which parameters something was applied; shape (parameters,)."""
    return np.array([bool(part.any()) for part in _by_parameter(applied, parameters)])


def _counts_all_labels(trial: _Trial, measured: _Measured) -> bool:
    """Return whether what a trainer divides by has the labels of first tokens, too, as transformers' Trainer counts.

    That scales the update by up to a twentieth, as a slightly other rate would; more of it is a fault.
    """
    batch_labels = [part.batch.get("labels") for part in trial.parts]
    all_labels = sum(int((labels != IGNORED).sum()) for labels in batch_labels if isinstance(labels, Tensor))
    ratio = sum(trial.tokens) / max(1, all_labels)
    return 1 - NEAR <= ratio < 1 and np.allclose(measured.weights, ratio * np.array(measured.shares), rtol=_CLOSE)


def _no_gradient_of_theirs(trial: _Trial, measured: _Measured) -> Finding:
    """Answer where the update holds more than gradients of micro-batches: failed if that of one micro-batch does not.

    Then a part of the loss is divided by what each micro-batch has, as where label smoothing stays a mean of its own.
    """
    inconclusive = Finding("accumulation", INCONCLUSIVE, f"{measured.evidence} {_NO_GRADIENT}")
    if ranks() > 1:
        return inconclusive
    units = [unit for of_part in _units(trial) for unit in of_part]
    single_trial = replace(trial, parts=[Loss(trial.checked, trial.checked.collate(trial.checked.of_units(units)))])
    try:
        update = single_trial.update()
    except ValueError:  # it takes two
        return inconclusive
    gradient = single_trial.gradients()[0]
    is_its_gradient = float((update.applied - gradient).norm()) < _CLOSE * float(gradient.norm())
    if update.steps != 1 or not is_its_gradient or measured.relative(update.applied - measured.applied) <= NEAR:
        return inconclusive
    sentence = "The update of one micro-batch of all sequences is its gradient, and that of the two is another one."
    return _failed(f"{measured.evidence} {sentence}", "part alike")


def _named_by(weights: np.ndarray, constant: bool, tokens: Sequence[int]) -> str:
    if min(abs(weights)) < NEAR * max(abs(weights)):
        return "left out"
    if all_near(weights * tokens if constant else weights):
        return "sum of means" if abs(weights[0] - 1) < NEAR and not constant else "mean of means"
    return "other weights"


def _failed(evidence: str, name: str, **values: object) -> Finding:
    return Finding.failed("accumulation", evidence, name, **values)
