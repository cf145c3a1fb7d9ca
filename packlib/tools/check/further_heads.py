"""Heads besides the scores, as those that predict several tokens ahead: what they are asked for, and what it weighs."""

import numpy as np

from packlib.batches import IGNORED
from packlib.tools.check.findings import NOT_ASKED, PASSED, Finding
from packlib.tools.check.slot_gradients import Loss
from packlib.tools.check.weighing import FAULTS, RULES, Weighed, Weighing, amounts

_FARTHEST = 9  # how far ahead heads may predict


def further_heads(weighing: Weighing) -> Finding:
    """Ask what heads are to predict behind the end of a sequence, and whether a pack has all of their targets."""
    loss, question, said = weighing.whole.loss, "further heads", list[str]()
    ids, last = weighing.checked.ids.flatten().cpu().numpy(), len(loss.owner) - 1
    beyond, leaked = 0, 0
    for head in loss.further.values():
        asked = (head.target != IGNORED) & (loss.owner >= 0)
        hits = {shift: int((asked & (loss.ahead(loss.token, shift) == head.target)).sum())
                for shift in range(1, _FARTHEST)}  # fmt: skip
        shift = max(hits, key=lambda shift: hits[shift])
        if hits[shift] <= asked.sum() / 2:
            continue
        over = asked & (loss.ahead(loss.token, shift) == IGNORED)
        beyond += int(over.sum())
        to = np.minimum(np.arange(last + 1) + shift, last)
        leaked += int((over & (loss.owner[to] >= 0) & (ids[to] == head.target)).sum())
        said.append(f"{shift} ahead")
    if not said:
        why = "Outputs as wide as the scores have a part in the loss, and what they are to predict is unknown."
        return Finding(question, NOT_ASKED, why)
    evidence = f"{len(said)} besides the scores ({', '.join(said)}) are asked {beyond} times for what lies beyond a "
    evidence += f"sequence, {leaked} times for a token of the next."
    if beyond:
        return Finding.failed(question, evidence, "leaked ahead" if leaked > beyond / 2 else "ends ahead")
    lacking, of_all = _lacking(weighing.whole)
    if lacking:
        evidence += f" Of {of_all} targets that they have for sequences alone, they lack {lacking} in the pack."
        return Finding.failed(question, evidence, "lacks ahead")
    return Finding(question, PASSED, evidence)


def _lacking(weighed: Weighed) -> tuple[int, int]:
    """Count the targets of heads that sequences have alone and not in the batch, and all that they have alone."""
    lacking = of_all = 0
    for alone in weighed.alone.values():
        for number, head in alone.further.items():
            own = alone.key[(head.target != IGNORED) & (alone.owner >= 0)]
            there = weighed.loss.further.get(number)
            held = weighed.loss.key[:0] if there is None else weighed.loss.key[there.target != IGNORED]
            held = np.concatenate([held, alone.key[~np.isin(alone.key, weighed.loss.key)]])  # what was cut off
            of_all += len(own)
            lacking += int((~np.isin(own, held)).sum())
    return lacking, of_all


def rules_of_heads(weighing: Weighing) -> dict[int, str]:
    """Find by which rule each head weighs its own targets, as the scores do theirs.

    Returns:
        For each head the rule; "scores" if its targets weigh what those of the scores do, "" if no rule fits. Nothing
        if a part of the loss passes neither through the scores nor through a head.
    """
    whole = weighing.whole.loss
    if not whole.further or whole.aside is None or whole.through_heads is None:
        return {}
    if (whole.aside - whole.through_heads).norm() > weighing.limit * whole.aside.norm():
        return {}
    return {number: _rule_of_head(weighing, number) for number in whole.further}


def _rule_of_head(weighing: Weighing, number: int) -> str:
    weights = [_weights(batch, number) for batch in weighing.batches]
    by_scores = [
        abs(weight / batch.weight.get(unit, 0.0) - 1) if batch.weight.get(unit) else np.inf
        for batch, of_batch in zip(weighing.batches, weights, strict=True)
        for unit, weight in of_batch.items()
    ]
    if max(by_scores, default=np.inf) <= weighing.near:
        return "scores"
    for name, rule in (RULES | FAULTS).items():
        apart = [
            abs(weight * rule(_held(batch.alone[unit], number, unit)) / rule(_held(batch.loss, number, unit)) - 1)
            for batch, of_batch in zip(weighing.batches, weights, strict=True)
            for unit, weight in of_batch.items()
        ]
        if max(apart, default=np.inf) <= weighing.near:
            return name
    return ""


def _weights(batch: Weighed, number: int) -> dict[int, float]:
    """Return how many times what each unit's targets of a head weigh alone they weigh in a batch."""
    weights = dict[int, float]()
    head = batch.loss.further.get(number)
    for unit, alone in batch.alone.items():
        own = alone.further.get(number)
        if head is None or own is None:
            continue
        keys, at, where = np.intersect1d(batch.loss.key, alone.key, return_indices=True)
        together, single = head.factor[at[keys >= 0]], own.factor[where[keys >= 0]]
        weights[unit] = float(together @ single) / float(single @ single)
    return weights


def _held(loss: Loss, number: int, unit: int) -> dict[str, int]:
    """Count what a batch holds for a head."""
    return amounts(loss, False, unit, asked=loss.further[number].target != IGNORED)
