"""Heads besides the scores, as those that predict several tokens ahead: what they are asked for, and what it weighs."""

import numpy as np

from packlib.batches import IGNORED
from packlib.tools.check.findings import NOT_ASKED, PASSED, Finding
from packlib.tools.check.slot_gradients import Loss
from packlib.tools.check.weighing import FAULTS, RULES, Rule, Weighed, Weighing, amounts

_FARTHEST = 9  # heads that predict fewer tokens ahead are known by their targets


def further_heads(weighing: Weighing) -> Finding:
    """Find out if heads must predict nothing beyond the end of a sequence, and if a pack has all of their targets."""
    question = "further heads"
    loss = weighing.whole.loss
    ids = weighing.checked.ids.flatten().cpu().numpy()
    last_slot = len(loss.owner) - 1
    distances = list[str]()
    beyond_end = leaked = 0  # targets behind the end of a sequence, and those that are tokens of the next
    for head in loss.further.values():
        has_target = (head.target != IGNORED) & (loss.owner >= 0)
        # how many of its targets are the token so many slots ahead
        hits = {shift: int((has_target & (loss.ahead(loss.token, shift) == head.target)).sum())
                for shift in range(1, _FARTHEST)}  # fmt: skip
        shift = max(hits, key=lambda shift: hits[shift])
        if hits[shift] <= has_target.sum() / 2:
            continue
        is_past_end = has_target & (loss.ahead(loss.token, shift) == IGNORED)
        beyond_end += int(is_past_end.sum())
        to = np.minimum(np.arange(last_slot + 1) + shift, last_slot)
        leaked += int((is_past_end & (loss.owner[to] >= 0) & (ids[to] == head.target)).sum())
        distances.append(f"{shift} ahead")
    if not distances:
        evidence = "Outputs as wide as the scores have a part in the loss, and what they are to predict is unknown."
        return Finding(question, NOT_ASKED, evidence)
    evidence = f"{len(distances)} besides the scores ({', '.join(distances)}) are asked {beyond_end} times for what "
    evidence += f"lies beyond a sequence, {leaked} times for a token of the next."
    if beyond_end:
        return Finding.failed(question, evidence, "leaked ahead" if leaked > beyond_end / 2 else "ends ahead")
    lacking, of_all = _lacking(weighing.whole)
    if lacking:
        evidence += f" Of {of_all} targets that they have for sequences alone, they lack {lacking} in the pack."
        return Finding.failed(question, evidence, "lacks ahead")
    return Finding(question, PASSED, evidence)


def _lacking(weighed: Weighed) -> tuple[int, int]:
    """Count the targets of heads that sequences have alone and not in the batch, and all that they have alone."""
    lacking = of_all = 0
    for unpacked_loss in weighed.unpacked_losses.values():
        for number, head in unpacked_loss.further.items():
            unpacked_keys = unpacked_loss.key[(head.target != IGNORED) & (unpacked_loss.owner >= 0)]
            packed_head = weighed.loss.further.get(number)
            packed_keys = np.empty(0, np.int64)
            if packed_head is not None:
                packed_keys = weighed.loss.key[packed_head.target != IGNORED]
            is_cut_off = ~np.isin(unpacked_keys, weighed.loss.key)
            of_all += len(unpacked_keys)
            lacking += int((~np.isin(unpacked_keys, packed_keys) & ~is_cut_off).sum())
    return lacking, of_all


def rules_of_heads(weighing: Weighing) -> dict[int, str]:
    """Find by which rule each head weighs its own targets, as the scores do theirs.

    Returns:
        For each head the rule; "scores" if its targets weigh what those of the scores do, "" if no rule fits. Nothing
        if a part of the loss passes neither through the scores nor through a head.
    """
    loss = weighing.whole.loss
    if not loss.further or loss.aside is None or loss.through_heads is None:
        return {}
    if (loss.aside - loss.through_heads).norm() > weighing.limit * loss.aside.norm():
        return {}
    return {number: _rule_of_head(weighing, number) for number in loss.further}


def _rule_of_head(weighing: Weighing, number: int) -> str:
    """Name the first rule that gives each unit's targets of a head what they weigh in every batch; "" if none does."""
    weights = [_weights(batch, number) for batch in weighing.batches]
    by_scores = [
        abs(weight / batch.weight.get(unit, 0.0) - 1) if batch.weight.get(unit) else np.inf
        for batch, of_batch in zip(weighing.batches, weights, strict=True)
        for unit, weight in of_batch.items()
    ]
    if max(by_scores, default=np.inf) <= weighing.tolerance:
        return "scores"
    for name, rule in (RULES | FAULTS).items():
        deviations = [
            abs(weight / _expected_weight(rule, batch, number, unit) - 1)
            for batch, of_batch in zip(weighing.batches, weights, strict=True)
            for unit, weight in of_batch.items()
        ]
        if max(deviations, default=np.inf) <= weighing.tolerance:
            return name
    return ""


def _weights(batch: Weighed, number: int) -> dict[int, float]:
    """Return how many times what each unit's targets of a head weigh alone they weigh in a batch."""
    weights = dict[int, float]()
    head = batch.loss.further.get(number)
    for unit, unpacked_loss in batch.unpacked_losses.items():
        unpacked_head = unpacked_loss.further.get(number)
        if head is None or unpacked_head is None:
            continue
        keys, packed_slots, unpacked_slots = np.intersect1d(batch.loss.key, unpacked_loss.key, return_indices=True)
        packed_factors = head.factor[packed_slots[keys >= 0]]
        unpacked_factors = unpacked_head.factor[unpacked_slots[keys >= 0]]
        weights[unit] = float(packed_factors @ unpacked_factors) / float(unpacked_factors @ unpacked_factors)
    return weights


def _expected_weight(rule: Rule, batch: Weighed, number: int, unit: int) -> float:
    """Return what a unit's targets of a head weigh in a batch by a rule, relative to what they weigh alone."""
    return rule(_amounts(batch.loss, number, unit)) / rule(_amounts(batch.unpacked_losses[unit], number, unit))


def _amounts(loss: Loss, number: int, unit: int) -> dict[str, int]:
    """Count all that a loss of a head may be divided by, as `weighing.amounts` does for the scores."""
    return amounts(loss, False, unit, has_target=loss.further[number].target != IGNORED)
