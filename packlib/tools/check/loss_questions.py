"""The questions about a loss: which slots it asks for which targets, and whether what a sequence weighs is its own."""

from collections.abc import Iterator, Mapping

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

_OTHERWISE = 0.01  # what the gradients of a sequence change by besides their size, where it is asked something else
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
        why = "The model returns no loss: give labels, or pass loss."
        yield from (Finding(question, INCONCLUSIVE, why) for question in ("targets at borders", "labels", "mean"))
        return
    if not np.isfinite(loss.value):
        said = f"The loss of a batch of {len(weighing.checked.few)} sequences is {loss.value}"
        yield from (Finding(question, INCONCLUSIVE, f"{said}.") for question in ("targets at borders", "labels"))
        yield Finding.failed("mean", f"{said}.", "nan loss")
        return
    if weighing.is_silent:
        yield from (Finding(question, INCONCLUSIVE, _SILENT) for question in ("targets at borders", "labels", "mean"))
        return
    steep = loss.steepest * loss.touched.sum()  # a mean divides what rounding leaves, too
    if loss.touched.any() and max(abs(loss.value), steep) <= 4 * weighing.checked.rounding:
        why = f"The loss is 0 to rounding ({loss.value:.2g}), and so are its gradients: none shows what it asks for, "
        why += "as where a teacher or a reference equals the model. Give another one."
        yield from (Finding(question, INCONCLUSIVE, why) for question in ("targets at borders", "labels", "mean"))
        return
    if loss.touched.any():
        found = [_borders(weighing), _labels(weighing)]
    else:
        why = "The loss has no gradient with respect to the scores that the model returns."
        found = [Finding(question, INCONCLUSIVE, why) for question in ("targets at borders", "labels")]
    yield from found
    spoiled = any(finding.verdict == FAILED for finding in found)
    of_heads = [further_heads(weighing)] if loss.further else []
    yield from of_heads
    yield _mean(weighing, spoiled, leaks, any(finding.verdict == FAILED for finding in of_heads))


def _borders(weighing: Weighing) -> Finding:
    """Find slots before a border that must predict the first token of the next sequence."""
    loss, ids = weighing.whole.loss, weighing.checked.ids
    owner, width, slots = loss.owner, ids.shape[-1], np.arange(ids.numel())
    shift = max(loss.shift, 0) if loss.known else 1
    to = slots + shift
    to -= width * (to // width != slots // width)  # the head of the row again, where labels are rolled
    beyond = (owner >= 0) & (owner[to] >= 0) & (loss.ahead(loss.token, shift) == IGNORED)
    if loss.known:
        leaked = np.flatnonzero(beyond & loss.predicted & (loss.target == ids.flatten().cpu().numpy()[to]))
    else:
        alone = np.concatenate([loss.key[:0], *(its.key[its.touched] for its in weighing.whole.alone.values())])
        leaked = np.flatnonzero(beyond & (to > slots) & loss.touched & ~np.isin(loss.key, alone))
    evidence = f"{len(leaked)} tokens before a border of {len(loss.pieces)} sequences are to predict one of the next"
    if not len(leaked):
        return Finding("targets at borders", PASSED, f"{evidence}.")
    share = np.abs(loss.factor[leaked]).sum() / max(np.abs(loss.factor).sum(), 1e-300)
    names = (
        ["rolled"] if (to < slots)[leaked].all() else ["leaked", "shifted twice"] if loss.shift == 2 else ["leaked"]
    )
    return Finding.failed("targets at borders", f"{evidence}: {share:.2g} of the loss.", names)


def _of_two_parts(weighing: Weighing, evidence: str) -> Finding | None:
    """Answer if the loss is made of two parts, each of which is a mean, or one a mean and the other a sum."""
    if weighing.two_parts is None:
        return None
    first, second = (_WORDS[name] for name in weighing.two_parts)
    evidence += f", as of two parts: {first}, and {second}"
    if "constant" not in weighing.two_parts or weighing.wanted == "constant":
        return Finding("mean", PASSED, f"{evidence}.")
    if weighing.wanted is not None:
        found = f"{_WORDS['constant']}, in a part of the loss"
        return Finding.failed("mean", f"{evidence}.", "other mean", found=found, wanted=weighing.wanted)
    evidence += (
        ". So what one part weighs beside the other depends on what a batch holds: right if a sum is meant, as where "
        "it is divided by a fixed number, and wrong if a mean is. Say by reduction which is meant"
    )
    return Finding("mean", INCONCLUSIVE, f"{evidence}.")


def _asked_otherwise(weighing: Weighing, evidence: str) -> Finding:
    name, values = why_asked_otherwise(weighing.checked)
    if name == "asked otherwise" and all(batch.loss.certain for batch in weighing.batches):
        name = "weighed otherwise"
    return Finding.failed("mean", f"{evidence}.", name, **values)


def _mean_of_heads(evidence: str, rules: dict[int, str]) -> Finding:
    """Answer by what the targets of further heads weigh, of which each head has its own number."""
    count = len(rules)
    wrong = [rule for rule in rules.values() if rule == "" or rule in FAULTS]
    if wrong:
        how = f"a {wrong[0]}" if wrong[0] else "none of the known means"
        evidence += f": of {count} further heads {len(wrong)} fit {how}"
        return Finding.failed("mean", f"{evidence}.", "head mean", how=how)
    said = " and ".join(dict.fromkeys(_WORDS.get(rule, "weighed as the scores are") for rule in rules.values()))
    return Finding("mean", PASSED, f"{evidence}: {count} further heads, each by its own targets, are {said}.")


def _labels(weighing: Weighing) -> Finding:
    loss = weighing.whole.loss
    elsewhere = [other.key[other.predicted] for batch in weighing.batches
                 for other in (batch.loss, *batch.alone.values()) if other is not loss]  # fmt: skip
    return labels_of(loss, np.concatenate([loss.key[:0], *elsewhere]))


def labels_of(loss: Loss, elsewhere: np.ndarray) -> Finding:
    """Find out if a loss asks each slot for its label, and no other slot.

    Args:
        elsewhere: the keys of slots that are asked in other batches.
    """
    checked, shift, asked, labeled = loss.checked, loss.shift, loss.predicted, loss.wanted != IGNORED
    missing, inside = labeled & ~asked, loss.ahead(loss.token, shift) != IGNORED
    count, lost, padding = int(labeled.sum()), int(missing.sum()), int(asked[checked.padding].sum())
    wrong = int((asked & labeled & (loss.wanted != loss.target)).sum()) * loss.known
    prompts = int((asked & inside & ~labeled).sum())
    picked = int((missing & loss.carried & np.isin(loss.key, elsewhere)).sum())
    aside = int((loss.touched & ~asked & ~labeled).sum())
    lasts = [piece.slots[labeled[piece.slots]][-1] for piece in loss.pieces if labeled[piece.slots].any()]
    evidence = (
        f"Of {count} labels {lost} are lost and {wrong} are others; {prompts} tokens without a label and {padding} "
        f"slots of padding are predicted. "
    )
    evidence += f"A token is asked for {SHIFTS[shift]}." if loss.known else "What a token is asked for is unknown."
    evidence += f" Of those that are lost {picked} are there in other batches of the same sequences." * bool(picked)
    evidence += f" The loss depends on the scores of {aside} slots without a label besides." * bool(aside)
    misplaced = misplaced_column(checked) if picked else None
    crosses = loss.certain and bool((loss.factor[asked] > 0).all())  # else an advantage or a clip may be the reason
    by_place = {
        "ahead": shift == 1 and not checked.causal and loss.known,
        "shifted twice": shift == 2,
        "not shifted": shift == 0 and checked.causal and loss.known,
        "shifted back": shift == -1,
        "last label": lost and missing[lasts].sum() == lost == len(loss.pieces),
        "misplaced column": picked and misplaced is not None,
        "picked": picked,
        "labels": wrong,
    }
    besides = {
        "prompts": prompts and loss.known,
        "trained padding": padding > len(loss.pieces),  # one after each sequence is an end token
        "prompts besides": prompts and loss.given and not loss.known,
        "aside": aside,
    }
    name = _first(by_place)
    why: LeftOut | None = LeftOut(PASSED, "as with a clipped ratio, or an advantage of 0")
    if name is None and lost and crosses and loss.given:
        why = why_left_out(loss, missing, labeled)
    name = name or ("labels" if why is None else _first(besides))
    if name is not None:
        return Finding.failed("labels", evidence, name, **(misplaced or {}))
    if prompts or not lost:
        return Finding("labels", INCONCLUSIVE if prompts else PASSED, evidence)
    evidence = f"{count - lost} of {count} labels have a gradient; the other {lost} have none in any batch"
    return Finding("labels", why.verdict, f"{evidence}: {why.said}.")  # type: ignore[union-attr]


def _first(names: Mapping[str, object]) -> str | None:
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
        asked = piece.slots[(flat[piece.slots] != IGNORED).cpu().numpy()]
        flat[asked] = flat[asked].roll(1)
        pull = Loss(checked, {**checked.batch, "labels": flat.view_as(labels)}, loss.pieces).pull
        others = np.delete(np.arange(labels.numel()), piece.slots)
        if pull is not None and (pull - loss.pull)[others].norm() > weighing.limit * loss.pull[others].norm():
            return True
    return False


def _within_rows(weighing: Weighing) -> bool:
    """Return True if what bypasses the scores depends on other sequences of its row, and on no other row."""
    checked, loss = weighing.checked, weighing.whole.loss
    rows, depends = checked.rows, {True: False, False: False}
    if len(checked.owner) == 1:
        return _within_one_row(weighing)
    if len(set(rows.tolist())) < 2 or loss.aside is None:
        return False
    for piece, row in zip(checked.pieces, rows, strict=True):
        moved = Loss(checked, checked.moved(checked.batch, piece.slots), checked.pieces).aside
        for other, its in zip(checked.pieces, rows, strict=True):
            if other is piece or moved is None:
                continue
            mine, before = moved[other.slots], loss.aside[other.slots]
            depends[bool(its == row)] |= bool((mine - before).norm() > 10 * weighing.limit * before.norm())
    return depends[True] and not depends[False]


def _within_one_row(weighing: Weighing) -> bool:
    """Ask the same of a batch of one row: whether a second row that is put below it changes nothing in the first."""
    checked, loss = weighing.checked, weighing.whole.loss
    slots = np.arange(checked.ids.numel())
    moved = checked.moved(checked.batch, slots)
    below = [checked.called.runs(_stacked(checked.batch, other)) for other in (checked.batch, moved)]
    if loss.aside is None or None in below or moved["input_ids"].equal(checked.ids):
        return False
    first, second = (Loss(checked, _stacked(checked.batch, other), checked.pieces).aside
                     for other in (checked.batch, moved))  # fmt: skip
    if first is None or second is None:
        return False
    first, second = first[slots], second[slots]  # of the upper row
    return bool((second - first).norm() <= 10 * weighing.limit * first.norm())


def _stacked(batch: dict, other: dict) -> dict:
    """Join two batches of one row to one of two; fields without rows are taken from the first."""
    ids = batch["input_ids"]
    by_row = [name for name, value in batch.items() if has_slots(value, ids) or is_mask(value, ids)]
    return batch | {name: torch.cat([batch[name], other[name]]) for name in by_row if batch[name].dim() > 1}


def _parameters_apart(weighing: Weighing) -> float:
    """Compare the gradient of the parameters with the sequences' own, weighted; relative to its size."""
    checked, whole = weighing.checked, weighing.whole
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    units = {checked.unit_of[piece.sequence] for piece in whole.loss.pieces}
    if len(whole.loss.pieces) != len(checked.few):  # a sequence is there twice, or in pieces
        return 0.0
    if not parameters or checked.called.share_rows or checked.changes_tokens or units != whole.weight.keys():
        return 0.0
    together = checked.called.parameter_slope(checked.batch, parameters)
    made = sum(weight * checked.called.parameter_slope(whole.alone[unit].batch, parameters)
               for unit, weight in whole.weight.items())  # fmt: skip
    return float((together - made).norm() / together.norm().clamp(min=1e-300))


def _mean(weighing: Weighing, spoiled: bool, leaks: bool, spoiled_heads: bool) -> Finding:
    """Answer which mean of its tokens, or sequences, the loss is, and whether it is the wanted one.

    Args:
        spoiled: whether targets or labels are wrong, which changes gradients too.
        leaks: whether sequences see others.
        spoiled_heads: whether targets of further heads are wrong.
    """
    checked, wanted = weighing.checked, weighing.wanted
    fitting = list(dict.fromkeys(name for name, _ in weighing.fitting))
    if max(checked.loss_noise) > 256 * checked.rounding:
        return Finding("mean", INCONCLUSIVE, "The loss of one batch is another one each time: see determinism.")
    same = not checked.differing() and not checked.differing_elsewhere
    clean = not leaks and same and max(checked.noise) <= 256 * checked.rounding
    certain = all(batch.loss.certain for batch in weighing.batches)
    by = "gradients" if weighing.by_gradient else "losses"
    evidence = f"In {len(weighing.batches)} batches of {len(checked.few)} sequences {by} fit "
    evidence += f"{' or '.join(_WORDS.get(name, f'a {name}') for name in fitting) or 'none of the known means'}"
    if weighing.by_gradient:
        weights = list(weighing.whole.weight.values())
        evidence += f"; together sequences weigh {min(weights):.3g} to {max(weights):.3g} of what they weigh alone"
    off = max((distance for batch in weighing.batches for distance in batch.off.values()), default=0.0)
    weightless = [unit for unit, weight in weighing.whole.weight.items() if abs(weight) < 1e-6]
    if weightless and clean:
        count, of_all = len(weightless), len(weighing.whole.weight)
        return Finding.failed("mean", f"{evidence}.", "weightless", count=count, of_all=of_all)
    if not fitting or fitting[0] in FAULTS:
        if not clean and not (weighing.by_gradient and certain):
            return Finding("mean", INCONCLUSIVE, f"{evidence}; the outputs of sequences differ too.")
        if spoiled and not fitting:
            return Finding("mean", INCONCLUSIVE, f"{evidence}; other slots are asked than there are labels for.")
        name = next(iter(fitting), "company")
        if name == "company" and clean and off > _OTHERWISE and not checked.called.share_rows:
            evidence += f". Their gradients change by {off:.2g} besides their size"
            return _of_two_parts(weighing, evidence) or _asked_otherwise(weighing, evidence)
        names = name if name in ("pack mean", "slot mean", "company") else "scaled"
        names = "parts" if names == "company" and checked.called.share_rows else names
        return Finding.failed("mean", f"{evidence}.", names, how=name)
    if clean and not spoiled and off > weighing.limit:
        evidence += f". Their gradients differ by {off:.2g} besides"
        through = weighing.whole.off_through
        if _learns_from_others(weighing):
            return Finding.failed("mean", f"{evidence}, and with the labels of another sequence.", "other labels")
        if any(checked.differing_in(alone.batch) for alone in weighing.whole.alone.values()):
            evidence += ": a sequence has other outputs in a later batch of its own"
            return Finding.failed("mean", f"{evidence}.", "later batch")
        loss = weighing.whole.loss
        if loss.certain and loss.value and loss.beside < 3e-6:
            return Finding.failed("mean", f"{evidence}: the loss agrees and its gradients do not.", "gradients alone")
        if through is None or through <= weighing.limit:
            if spoiled_heads:
                return Finding("mean", INCONCLUSIVE, f"{evidence}: see further heads.")
            if rules := rules_of_heads(weighing):
                return _mean_of_heads(evidence, rules)
            rule = weighing.aside_rule
            if rule in FAULTS:
                evidence += f": a part of the loss that does not pass through the scores is a {rule}"
                return Finding.failed("mean", f"{evidence}.", "aside mean", how=rule)
            if rule is not None:
                by = _WORDS[rule] + " of its own" * (rule != "own")
                evidence += f": a part of the loss that does not pass through the scores is {by}"
                return Finding("mean", PASSED, f"{evidence}.")
            if _within_rows(weighing):
                return Finding.failed("mean", f"{evidence}.", "row balance")
            share = f"{loss.beside:.2g} of the loss" if loss.certain and loss.value else "a part of the loss"
            evidence += f": {share} does not pass through the scores and depends on what shares a batch, as a loss "
            return Finding("mean", INCONCLUSIVE, f"{evidence}that balances experts does by design.")
        return _asked_otherwise(weighing, evidence)
    if wanted is not None and wanted not in fitting:
        return Finding.failed("mean", f"{evidence}.", "other mean", found=_WORDS[fitting[0]], wanted=wanted)
    if clean and not spoiled and weighing.by_gradient and (apart := _parameters_apart(weighing)) > 10 * weighing.limit:
        evidence += f". The loss agrees and its gradients do not: those of parameters differ by {apart:.2g}"
        return Finding.failed("mean", f"{evidence}.", "gradients alone")
    alike = wanted is not None and {"token", "sequence"} <= set(fitting)
    return Finding("mean", INCONCLUSIVE if alike else PASSED, f"{evidence}.")
