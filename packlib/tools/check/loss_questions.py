"""The questions about a loss: which slots it asks for which targets, and whether what a sequence weighs is its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from packlib.batches import IGNORED
from packlib.tools.check.asked_otherwise import misplaced_column, why_asked_otherwise
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.findings import FAILED, INCONCLUSIVE, PASSED, Finding
from packlib.tools.check.further_heads import further_heads, rules_of_heads
from packlib.tools.check.labels_left_out import LeftOut, why_left_out
from packlib.tools.check.locating import has_slots, is_mask
from packlib.tools.check.slot_gradients import SHIFTS, Loss
from packlib.tools.check.weighing import FAULTS, Weighing

_WORDS = {
    "token": "a mean over tokens", "sequence": "a mean over sequences", "group": "a mean over groups",
    "constant": "a sum, or one over a constant", "length": "a mean over all tokens, prompts too",
    "own": "a mean with weights of its own",
}  # fmt: skip

_OTHERWISE = 0.01  # gradients of a sequence that change by more, besides their size, are those of another question
_OF_TARGETS = "targets at borders", "labels"  # questions
_QUESTIONS = (*_OF_TARGETS, "mean")
_SILENT = (
    "The loss is 0 and has no gradient, as where all advantages are 0 (answers of a prompt with equal rewards): "
    "nothing shows what it asks for. Give sequences of which some are to be learned from."
)


def loss_questions(checked: CheckedBatch, weighing: Weighing, leaks: bool) -> Iterator[Finding]:
    """Yield the findings on targets at the borders, labels, and the mean.

    Args:
        leaks: whether sequences see others.
    """
    loss = weighing.whole.loss
    if loss.value is None:
        yield from _inconclusive(_QUESTIONS, "The model returns no loss: give labels, or pass loss.")
        return
    if not np.isfinite(loss.value):
        evidence = f"The loss of a batch of {len(weighing.checked.sequences)} sequences is {loss.value}"
        yield from _inconclusive(_OF_TARGETS, f"{evidence}.")
        yield Finding.failed("mean", f"{evidence}.", "nan loss")
        return
    if weighing.is_silent:
        yield from _inconclusive(_QUESTIONS, _SILENT)
        return
    largest_slope_of_sum = loss.steepest * loss.touched.sum()  # a mean divides what rounding leaves, too
    if loss.touched.any() and max(abs(loss.value), largest_slope_of_sum) <= 4 * weighing.checked.rounding:
        evidence = (
            f"The loss is 0 to rounding ({loss.value:.2g}), and so are its gradients: none shows what it asks for, "
        )
        evidence += "as where a teacher or a reference equals the model. Give another one."
        yield from _inconclusive(_QUESTIONS, evidence)
        return
    if loss.touched.any():
        findings = [_borders(weighing), _labels(weighing)]
    else:
        evidence = "The loss has no gradient with respect to the scores that the model returns."
        findings = _inconclusive(_OF_TARGETS, evidence)
    yield from findings
    spoiled = ""
    if any(finding.verdict == FAILED for finding in findings):
        spoiled = "other slots are asked than there are labels for"
    elif _has_other_tokens(weighing):
        spoiled = "sequences have other tokens in the batch than alone: see tokens"
    of_heads = [further_heads(weighing)] if loss.further else []
    yield from of_heads
    yield _mean(weighing, spoiled, leaks, any(finding.verdict == FAILED for finding in of_heads))


def _inconclusive(questions: Sequence[str], evidence: str) -> list[Finding]:
    return [Finding(question, INCONCLUSIVE, evidence) for question in questions]


def _joined(keys: Iterable[np.ndarray]) -> np.ndarray:
    """Return the keys of several parts end to end; an empty array without any."""
    return np.concatenate([np.empty(0, np.int64), *keys])


def _borders(weighing: Weighing) -> Finding:
    """Find slots before a border that must predict a token of the next sequence.

    If targets are not known, a slot counts that the loss depends on in the pack, and in no sequence alone.
    """
    loss, ids = weighing.whole.loss, weighing.checked.ids
    owner = loss.owner
    width = ids.shape[-1]
    slots = np.arange(ids.numel())
    shift = max(loss.shift, 0) if loss.known else 1
    target_slots = slots + shift
    is_behind_row = target_slots // width != slots // width
    target_slots -= width * is_behind_row  # the begin of the same row, as if labels were rolled
    beyond_border = (owner >= 0) & (owner[target_slots] >= 0) & (loss.ahead(loss.token, shift) == IGNORED)
    if loss.known:
        tokens_there = ids.flatten().cpu().numpy()[target_slots]
        leaked = np.flatnonzero(beyond_border & loss.predicted & (loss.target == tokens_there))
    else:
        unpacked_losses = weighing.whole.unpacked_losses.values()
        unpacked_keys = _joined(unpacked.key[unpacked.touched] for unpacked in unpacked_losses)
        leaked = np.flatnonzero(
            beyond_border & (target_slots > slots) & loss.touched & ~np.isin(loss.key, unpacked_keys)
        )
    evidence = f"{len(leaked)} tokens before a border of {len(loss.pieces)} sequences are to predict one of the next"
    if not len(leaked):
        return Finding("targets at borders", PASSED, f"{evidence}.")
    share = np.abs(loss.factor[leaked]).sum() / max(np.abs(loss.factor).sum(), 1e-300)
    causes = ["leaked"]
    if (target_slots < slots)[leaked].all():
        causes = ["rolled"]
    elif loss.shift == 2:
        causes = ["leaked", "shifted twice"]
    return Finding.failed("targets at borders", f"{evidence}: {share:.2g} of the loss.", causes)


def _of_two_parts(weighing: Weighing, evidence: str) -> Finding | None:
    """Answer if the loss is made of two parts, each of which is a mean, or one a mean and the other a sum.

    Args:
        evidence: what was measured before, to which this adds. It ends without a full stop, as in all that follow.
    """
    if weighing.two_parts is None:
        return None
    first_rule, second_rule = (_WORDS[name] for name in weighing.two_parts)
    evidence += f", as of two parts: {first_rule}, and {second_rule}"
    if "constant" not in weighing.two_parts or weighing.reduction == "constant":
        return Finding("mean", PASSED, f"{evidence}.")
    if weighing.reduction is not None:
        actual = f"{_WORDS['constant']}, in a part of the loss"
        return Finding.failed("mean", f"{evidence}.", "other mean", found=actual, wanted=weighing.reduction)
    evidence += (
        ". So what one part weighs beside the other depends on what a batch holds: right if a sum is meant, as where "
        "it is divided by a fixed number, and wrong if a mean is. Say by reduction which is meant"
    )
    return Finding("mean", INCONCLUSIVE, f"{evidence}.")


def _asked_otherwise(weighing: Weighing, evidence: str) -> Finding:
    """Answer where the loss asks something else of a sequence in a pack than alone, or weighs its tokens otherwise."""
    name, values = why_asked_otherwise(weighing.checked)
    if name == "asked otherwise" and all(batch.loss.certain for batch in weighing.batches):
        name = "weighed otherwise"
    return Finding.failed("mean", f"{evidence}.", name, **values)


def _mean_of_heads(evidence: str, rules: dict[int, str]) -> Finding:
    """Answer by the mean that each further head takes over its own targets.

    Args:
        rules: by the number of the head, as `rules_of_heads` returns them.
    """
    count = len(rules)
    wrong = [rule for rule in rules.values() if rule == "" or rule in FAULTS]
    if wrong:
        fault = f"a {wrong[0]}" if wrong[0] else "none of the known means"
        evidence += f": of {count} further heads {len(wrong)} fit {fault}"
        return Finding.failed("mean", f"{evidence}.", "head mean", how=fault)
    means = " and ".join(dict.fromkeys(_WORDS.get(rule, "weighed as the scores are") for rule in rules.values()))
    return Finding("mean", PASSED, f"{evidence}: {count} further heads, each by its own targets, are {means}.")


def _labels(weighing: Weighing) -> Finding:
    """Find out if the loss of the batch asks each slot for its label; other batches show which labels they ask for."""
    loss = weighing.whole.loss
    losses = [batch_loss for batch in weighing.batches for batch_loss in (batch.loss, *batch.unpacked_losses.values())]
    predicted_elsewhere = [other_loss.key[other_loss.predicted] for other_loss in losses if other_loss is not loss]
    return labels_of(loss, _joined(predicted_elsewhere))


def labels_of(loss: Loss, elsewhere: np.ndarray) -> Finding:
    """Find out if a loss asks each slot for its label, and no other slot.

    Args:
        elsewhere: the keys of slots that are asked in other batches.
    """
    labeled = loss.expected_target != IGNORED
    missing = labeled & ~loss.predicted
    counts = _count_labels(loss, labeled, elsewhere)
    misplaced = misplaced_column(loss.checked) if counts.picked else None
    # with a negative factor, an advantage or a clipped ratio may be the reason why labels are left out
    has_positive_factors = bool((loss.factor[loss.predicted] > 0).all())
    name = _wrong_place(loss, labeled, counts, misplaced is not None)
    reason: LeftOut | None = LeftOut(PASSED, "as with a clipped ratio, or an advantage of 0")
    if name is None and counts.lost and loss.certain and has_positive_factors and loss.data_has_labels:
        reason = why_left_out(loss, missing, labeled)
    if name is None:
        name = "labels" if reason is None else _asked_besides(loss, counts)
    if name is not None:
        return Finding.failed("labels", _labels_in_words(loss, counts), name, **(misplaced or {}))
    if counts.prompts or not counts.lost:
        return Finding("labels", INCONCLUSIVE if counts.prompts else PASSED, _labels_in_words(loss, counts))
    evidence = f"{counts.labels - counts.lost} of {counts.labels} labels have a gradient; the other {counts.lost} "
    evidence += "have none in any batch"
    return Finding("labels", reason.verdict, f"{evidence}: {reason.sentence}.")  # type: ignore[union-attr]


class _LabelCounts(NamedTuple):
    """What a loss does with labels, in slots.

    Attributes:
        labels: slots that have a label.
        lost: slots with a label that must predict nothing.
        wrong: slots with a label that must predict another token.
        prompts: slots without a label that must predict the next token of their sequence.
        padding: slots of padding that must predict a token.
        picked: lost ones that must predict their label in another batch.
        aside: slots without a label that the loss depends on, and that must predict nothing.
    """

    labels: int
    lost: int
    wrong: int
    prompts: int
    padding: int
    picked: int
    aside: int


def _count_labels(loss: Loss, labeled: np.ndarray, elsewhere: np.ndarray) -> _LabelCounts:
    """Count what a loss does with labels.

    Args:
        labeled: the slots that have a label.
        elsewhere: the keys of slots that are asked in other batches.
    """
    predicted = loss.predicted
    missing = labeled & ~predicted
    has_token_ahead = loss.ahead(loss.token, loss.shift) != IGNORED
    is_other_target = predicted & labeled & (loss.expected_target != loss.target)
    return _LabelCounts(
        labels=int(labeled.sum()),
        lost=int(missing.sum()),
        wrong=int(is_other_target.sum()) if loss.known else 0,
        prompts=int((predicted & has_token_ahead & ~labeled).sum()),
        padding=int(predicted[loss.checked.padding].sum()),
        picked=int((missing & loss.carried & np.isin(loss.key, elsewhere)).sum()),
        aside=int((loss.touched & ~predicted & ~labeled).sum()),
    )


def _labels_in_words(loss: Loss, counts: _LabelCounts) -> str:
    """Say what a loss does with labels."""
    evidence = (
        f"Of {counts.labels} labels {counts.lost} are lost and {counts.wrong} are others; {counts.prompts} tokens "
        f"without a label and {counts.padding} slots of padding are predicted. "
    )
    evidence += (
        f"A token is asked for {SHIFTS[loss.shift]}." if loss.known else "What a token is asked for is unknown."
    )
    if counts.picked:
        evidence += f" Of those that are lost {counts.picked} are there in other batches of the same sequences."
    if counts.aside:
        evidence += f" The loss depends on the scores of {counts.aside} slots without a label besides."
    return evidence


def _wrong_place(loss: Loss, labeled: np.ndarray, counts: _LabelCounts, is_misplaced: bool) -> str | None:
    """Name the first cause for which labels are asked for at a wrong slot, or at none; None if there is none.

    Args:
        is_misplaced: whether a column of the data lies beside its tokens.
    """
    shift = loss.shift
    last_labels = [piece.slots[labeled[piece.slots]][-1] for piece in loss.pieces if labeled[piece.slots].any()]
    lost_last_labels = int((~loss.predicted[last_labels]).sum())
    return _first_true(
        {
            "ahead": shift == 1 and not loss.checked.causal and loss.known,
            "shifted twice": shift == 2,
            "not shifted": shift == 0 and loss.checked.causal and loss.known,
            "shifted back": shift == -1,
            "last label": counts.lost and lost_last_labels == counts.lost == len(loss.pieces),
            "misplaced column": counts.picked and is_misplaced,
            "picked": counts.picked,
            "labels": counts.wrong,
        }
    )


def _asked_besides(loss: Loss, counts: _LabelCounts) -> str | None:
    """Name the first cause for which slots without a label are asked; None if there is none."""
    return _first_true(
        {
            "prompts": counts.prompts and loss.known,
            "trained padding": counts.padding > len(loss.pieces),  # one after each sequence is an end token
            "prompts besides": counts.prompts and loss.data_has_labels and not loss.known,
            "aside": counts.aside,
        }
    )


def _first_true(names: Mapping[str, object]) -> str | None:
    """Return the first name whose value is true; None if there is none."""
    return next((name for name, value in names.items() if value), None)


def _learns_from_others(weighing: Weighing) -> bool:
    """Return True if a sequence's labels in another order change the gradients of other sequences' tokens."""
    checked, loss = weighing.checked, weighing.whole.loss
    labels = checked.batch.get("labels")
    if loss.pull is None or labels is None or labels.shape != checked.ids.shape:
        return False
    for piece in loss.pieces:
        flat = labels.flatten().clone()
        label_slots = piece.slots[(flat[piece.slots] != IGNORED).cpu().numpy()]
        flat[label_slots] = flat[label_slots].roll(1)
        pull = Loss(checked, {**checked.batch, "labels": flat.view_as(labels)}, loss.pieces).pull
        if pull is None:
            continue
        other_slots = np.delete(np.arange(labels.numel()), piece.slots)
        change = (pull - loss.pull)[other_slots].norm()
        if change > weighing.limit * loss.pull[other_slots].norm():
            return True
    return False


def _within_rows(weighing: Weighing) -> bool:
    """Return True if what bypasses the scores depends on other sequences of its row, and on no other row."""
    checked, loss = weighing.checked, weighing.whole.loss
    rows = checked.row_of
    if len(checked.owner) == 1:
        return _within_one_row(weighing)
    if len(set(rows.tolist())) < 2 or loss.aside is None:
        return False
    on_own_row = on_another_row = False
    for piece, row in zip(checked.pieces, rows, strict=True):
        moved = Loss(checked, checked.moved(checked.batch, piece.slots), checked.pieces).aside
        for other_piece, other_row in zip(checked.pieces, rows, strict=True):
            if other_piece is piece or moved is None:
                continue
            gradients = loss.aside[other_piece.slots]
            change = (moved[other_piece.slots] - gradients).norm()
            depends = bool(change > 10 * weighing.limit * gradients.norm())
            on_own_row |= depends and other_row == row
            on_another_row |= depends and other_row != row
    return on_own_row and not on_another_row


def _within_one_row(weighing: Weighing) -> bool:
    """Return the same of a batch of one row: True if other tokens in a second row change nothing in the first."""
    checked, loss = weighing.checked, weighing.whole.loss
    slots = np.arange(checked.ids.numel())
    moved = checked.moved(checked.batch, slots)
    doubled = _stacked(checked.batch, checked.batch)
    above_moved = _stacked(checked.batch, moved)
    calls = [checked.called.try_call(batch) for batch in (doubled, above_moved)]
    if loss.aside is None or None in calls or moved["input_ids"].equal(checked.ids):
        return False
    in_doubled = Loss(checked, doubled, checked.pieces).aside
    in_above_moved = Loss(checked, above_moved, checked.pieces).aside
    if in_doubled is None or in_above_moved is None:
        return False
    gradients = in_doubled[slots]  # of the upper row
    change = in_above_moved[slots] - gradients
    return bool(change.norm() <= 10 * weighing.limit * gradients.norm())


def _stacked(batch: dict, lower_batch: dict) -> dict:
    """Join two batches of one row to one of two; fields without rows are taken from the first."""
    ids = batch["input_ids"]
    by_row = [name for name, value in batch.items() if has_slots(value, ids) or is_mask(value, ids)]
    return batch | {name: torch.cat([batch[name], lower_batch[name]]) for name in by_row if batch[name].dim() > 1}


def _parameter_distance(weighing: Weighing) -> float:
    """Return how far the batch's gradient of the parameters is from the weighted sum of those of sequences alone.

    It is relative to the gradient's size; 0 where the two cannot be compared.
    """
    checked, whole = weighing.checked, weighing.whole
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    units = {checked.unit_of[piece.sequence] for piece in whole.loss.pieces}
    if len(whole.loss.pieces) != len(checked.sequences):  # a sequence is there twice, or in pieces
        return 0.0
    if not parameters or checked.called.share_rows or checked.changes_tokens or units != whole.weight.keys():
        return 0.0
    packed_gradient = checked.called.parameter_slope(checked.batch, parameters)
    sum_of_unpacked = sum(weight * checked.called.parameter_slope(whole.unpacked_losses[unit].batch, parameters)
               for unit, weight in whole.weight.items())  # fmt: skip
    return float((packed_gradient - sum_of_unpacked).norm() / packed_gradient.norm().clamp(min=1e-300))


def _has_other_tokens(weighing: Weighing) -> bool:
    """Return whether a sequence has other tokens in the batch than alone, as where rows are cut."""
    loss = weighing.whole.loss
    for unit, unpacked_loss in weighing.whole.unpacked_losses.items():
        pieces = [piece for piece in loss.pieces if weighing.checked.unit_of[piece.sequence] == unit]
        packed_keys = _joined(loss.key[piece.slots] for piece in pieces)
        if set(packed_keys.tolist()) != set(unpacked_loss.key[unpacked_loss.key >= 0].tolist()):
            return True
    return False


def _mean(weighing: Weighing, spoiled: str, leaks: bool, spoiled_heads: bool) -> Finding:
    """Answer which mean of its tokens, or sequences, the loss is, and whether it is the wanted one.

    Args:
        spoiled: why gradients are not those of sequences alone, as where labels are wrong; empty if nothing is.
        leaks: whether sequences see others.
        spoiled_heads: whether targets of further heads are wrong.
    """
    checked = weighing.checked
    if max(checked.loss_noise) > checked.repeat_limit:
        return Finding("mean", INCONCLUSIVE, "The loss of one batch is another one each time: see determinism.")
    outputs_agree = not checked.differing() and not checked.differing_elsewhere
    same_outputs = not leaks and outputs_agree and max(checked.noise) <= checked.repeat_limit
    fitting = list(dict.fromkeys(name for name, _ in weighing.fitting))
    deviation = max((distance for batch in weighing.batches for distance in batch.deviation.values()), default=0.0)
    evidence = _rules_that_fit(weighing, fitting)
    weightless = [unit for unit, weight in weighing.whole.weight.items() if abs(weight) < 1e-6]
    if weightless and same_outputs:
        count, of_all = len(weightless), len(weighing.whole.weight)
        return Finding.failed("mean", f"{evidence}.", "weightless", count=count, of_all=of_all)
    if not fitting or fitting[0] in FAULTS:
        return _no_right_mean(weighing, evidence, fitting, deviation, spoiled, same_outputs)
    if same_outputs and not spoiled and deviation > weighing.limit:
        return _more_than_size(
            weighing, f"{evidence}. Their gradients differ by {deviation:.2g} besides", spoiled_heads
        )
    if weighing.reduction is not None and weighing.reduction not in fitting:
        actual = _WORDS[fitting[0]]
        return Finding.failed("mean", f"{evidence}.", "other mean", found=actual, wanted=weighing.reduction)
    if same_outputs and not spoiled and weighing.by_gradient:
        distance = _parameter_distance(weighing)
        if distance > 10 * weighing.limit:
            evidence += f". The loss agrees and its gradients do not: those of parameters differ by {distance:.2g}"
            return Finding.failed("mean", f"{evidence}.", "gradients alone")
    both_fit = weighing.reduction is not None and {"token", "sequence"} <= set(fitting)
    return Finding("mean", INCONCLUSIVE if both_fit else PASSED, f"{evidence}.")


def _rules_that_fit(weighing: Weighing, fitting: list[str]) -> str:
    """Say which means fit the gradients, or the losses, and what sequences weigh."""
    kind = "gradients" if weighing.by_gradient else "losses"
    means = " or ".join(_WORDS.get(name, f"a {name}") for name in fitting) or "none of the known means"
    evidence = f"In {len(weighing.batches)} batches of {len(weighing.checked.sequences)} sequences {kind} fit {means}"
    if weighing.by_gradient:
        weights = list(weighing.whole.weight.values())
        evidence += f"; together sequences weigh {min(weights):.3g} to {max(weights):.3g} of what they weigh alone"
    return evidence


def _no_right_mean(
    weighing: Weighing, evidence: str, fitting: list[str], deviation: float, spoiled: str, same_outputs: bool
) -> Finding:
    """Answer where no rule fits what sequences weigh, or only the rule of a fault.

    Args:
        evidence: what was measured, without a full stop.
        fitting: the names of rules that fit.
        deviation: how far the gradient of a sequence in a batch is from a multiple of that alone.
        spoiled: as in `_mean`.
        same_outputs: whether sequences have the same outputs in a pack as alone, without noise.
    """
    share_rows = weighing.checked.called.share_rows
    certain = all(batch.loss.certain for batch in weighing.batches)
    if not same_outputs and not (weighing.by_gradient and certain):
        return Finding("mean", INCONCLUSIVE, f"{evidence}; the outputs of sequences differ too.")
    if spoiled and not fitting:
        return Finding("mean", INCONCLUSIVE, f"{evidence}; {spoiled}.")
    if fitting:
        name = fitting[0]
        cause = name if name in ("pack mean", "slot mean") else "scaled"
        return Finding.failed("mean", f"{evidence}.", cause, how=name)
    if same_outputs and deviation > _OTHERWISE and not share_rows:
        evidence += f". Their gradients change by {deviation:.2g} besides their size"
        return _of_two_parts(weighing, evidence) or _asked_otherwise(weighing, evidence)
    return Finding.failed("mean", f"{evidence}.", "parts" if share_rows else "company", how="company")


def _more_than_size(weighing: Weighing, evidence: str, spoiled_heads: bool) -> Finding:
    """Answer where a rule fits what sequences weigh, and their gradients change in more than their size."""
    checked, loss = weighing.checked, weighing.whole.loss
    through_scores = weighing.whole.deviation_through_scores
    if any(checked.differing_in(unpacked_loss.batch) for unpacked_loss in weighing.whole.unpacked_losses.values()):
        evidence += ": a sequence has other outputs in a later batch of its own"
        return Finding.failed("mean", f"{evidence}.", "later batch")
    if loss.certain and loss.value and loss.beside < 3e-6:
        return Finding.failed("mean", f"{evidence}: the loss agrees and its gradients do not.", "gradients alone")
    if _learns_from_others(weighing):
        return Finding.failed("mean", f"{evidence}, and with the labels of another sequence.", "other labels")
    if through_scores is not None and through_scores > weighing.limit:
        return _asked_otherwise(weighing, evidence)
    return _besides_the_scores(weighing, evidence, spoiled_heads)


def _besides_the_scores(weighing: Weighing, evidence: str, spoiled_heads: bool) -> Finding:
    """Answer where only what does not pass through the scores changes in more than its size."""
    loss = weighing.whole.loss
    if spoiled_heads:
        return Finding("mean", INCONCLUSIVE, f"{evidence}: see further heads.")
    if rules := rules_of_heads(weighing):
        return _mean_of_heads(evidence, rules)
    rule = weighing.aside_rule
    if rule in FAULTS:
        evidence += f": a part of the loss that does not pass through the scores is a {rule}"
        return Finding.failed("mean", f"{evidence}.", "aside mean", how=rule)
    if rule is not None:
        mean = _WORDS[rule] + " of its own" * (rule != "own")
        return Finding(
            "mean", PASSED, f"{evidence}: a part of the loss that does not pass through the scores is {mean}."
        )
    if _within_rows(weighing):
        return Finding.failed("mean", f"{evidence}.", "row balance")
    share = f"{loss.beside:.2g} of the loss" if loss.certain and loss.value else "a part of the loss"
    evidence += f": {share} does not pass through the scores and depends on what shares a batch, as a loss that "
    return Finding("mean", INCONCLUSIVE, f"{evidence}balances experts does by design.")
