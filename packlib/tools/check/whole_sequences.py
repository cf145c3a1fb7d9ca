"""What few sequences, and cut ones, cannot show: all of them whole in one batch, in one comparison at small cost.

The batch is called once, and each sequence alone once, without gradients but those of the scores. If a sequence
differs, the usual questions are asked of it and of its neighbors, which finds the cause. What is too long even for that
is asked of the batch alone: whether positions and labels go on as they do in short sequences.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from packlib.batches import IGNORED
from packlib.tools.check.choosing import cut_apart
from packlib.tools.check.collated_batch import CheckedBatch, found_in
from packlib.tools.check.findings import FAILED, INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.locating import POSITIONS, Piece, has_slots
from packlib.tools.check.loss_questions import labels_of
from packlib.tools.check.slot_gradients import Loss
from packlib.tools.check.weighing import RULES, Weighing, amounts
from packlib.tools.rows.loss_masks import trained_in_row

QUESTION = "whole sequences"
_SLOTS = 1 << 12  # of the batch of whole sequences at most, or more if max_tokens is larger
_NEIGHBORS = 4  # pieces that are asked about first, of which the shortest that differs is one

Ask = Callable[[list[dict]], list[Finding]]


def whole_sequences(weighing: Weighing, group: str | None, max_tokens: int, ask: Ask) -> list[Finding]:
    """Check the batch of all sequences, whole, if the model has not had it; return the findings, or nothing.

    Args:
        weighing: of the batch of few sequences, in which nothing failed.
        group: the column of sequences that are never parted, or None.
        max_tokens: tokens of the longest sequence of that batch.
        ask: asks the usual questions of a batch of some sequences.

    Returns:
        Failed findings, if a sequence differs from what it is alone, or positions, labels or weights do. Else one on
        the question "whole sequences", which says how many were compared whole, or why none was.
    """
    checked = weighing.checked
    rows = checked.all_sequences
    if _are_the_same(checked.sequences, rows):
        return []
    max_slots = max(_SLOTS, 8 * max_tokens, checked.ids.numel())
    whole_batch, evidence = _called_with(checked, rows, group, max_slots)
    if whole_batch is None:
        return [Finding(QUESTION, INCONCLUSIVE, evidence)]
    differing = whole_batch.differing()
    if differing:
        return _cause_of_difference(whole_batch, differing, evidence, ask)
    uncut = [row for row in whole_batch.sequences if any(row is original for original in rows)]
    failed = _failed_fields(checked, rows)
    if len(uncut) == len(whole_batch.sequences):
        failed += _failed_loss(weighing, whole_batch)
    if failed:
        return [replace(finding, evidence=f"{evidence}. {finding.evidence}") for finding in failed]
    evidence += (
        f", each compared with what it is alone: none differs by more than {whole_batch.limit:.2g} of the outputs"
    )
    cut_lengths = [len(row["input_ids"]) for row in rows if len(row["input_ids"]) > _longest(uncut)]
    if not cut_lengths:
        return [Finding(QUESTION, PASSED, f"{evidence}.")]
    evidence += (
        f". {len(cut_lengths)} of your sequences, of up to {max(cut_lengths):,} tokens, were cut to "
        f"{max_slots // 2:,} for it or left out: with max_tokens {-(-max(cut_lengths) // 4):,} they are taken whole."
    )
    return [Finding(QUESTION, NOT_ASKED, evidence)]


def _are_the_same(sequences: list[dict], rows: list[dict]) -> bool:
    """Return whether these sequences are all rows, and none is cut: the same objects in the same order."""
    return len(sequences) == len(rows) and all(sequence is row for sequence, row in zip(sequences, rows, strict=True))


def _called_with(
    checked: CheckedBatch, rows: list[dict], group: str | None, max_slots: int
) -> tuple[CheckedBatch | None, str]:
    """Call the model with a batch of the longest sequence and others, as far as they fit.

    Sequences of more than half of the slots are cut; if no such batch can be compared, they are whole.

    Returns:
        The batch, and the begin of a sentence on it. None if no batch could be compared, and why.
    """
    for cut in (True, False):  # a collator may refuse what is cut
        sequences = _that_fit(checked, rows, group, max_slots, cut)
        if len(sequences) < 2:
            continue
        evidence = (
            f"{len(sequences)} of {len(rows)} sequences, of up to {_longest(sequences):,} tokens, were in one batch"
        )
        try:
            with torch.no_grad():
                whole_batch = CheckedBatch(checked.called, checked.collate, rows, sequences, group, like=checked)
                whole_batch.differing()
        except ValueError as error:
            why_not = f"{evidence}, which could not be compared: {error}"
            continue
        return whole_batch, f"{evidence} of {whole_batch.ids.numel():,} slots"
    return None, why_not


def _longest(rows: list[dict]) -> int:
    """Return the tokens of the longest sequence; 0 without any."""
    return max((len(row["input_ids"]) for row in rows), default=0)


def _that_fit(checked: CheckedBatch, rows: list[dict], group: str | None, max_slots: int, cut: bool) -> list[dict]:
    """Return the group with the most tokens that fits into the slots, and further groups as long as they fit.

    Args:
        cut: whether sequences of more than half of the slots are cut to that.
    """
    names = list(range(len(rows))) if group is None else [row[group] for row in rows]
    cut_rows = cut_apart(rows, max_slots // 2)[0] if cut else rows
    units = list(dict.fromkeys(names))
    tokens = {unit: sum(len(row["input_ids"]) for row, name in zip(cut_rows, names, strict=True) if name == unit)
              for unit in units}  # fmt: skip
    longest = max(units, key=lambda unit: (tokens[unit] <= max_slots, tokens[unit]))
    fitting = list[object]()
    token_count = 0
    for unit in [longest, *units]:
        if unit not in fitting and token_count + tokens[unit] <= max_slots:
            fitting.append(unit)
            token_count += tokens[unit]

    def rows_of(units: list[object]) -> list[dict]:
        return [row for row, name in zip(cut_rows, names, strict=True) if name in units]

    while len(fitting) > 2 and checked.collate(rows_of(fitting))["input_ids"].numel() > 2 * max_slots:
        fitting = fitting[: max(2, len(fitting) // 2)]
    return rows_of(fitting)


def _cause_of_difference(
    whole_batch: CheckedBatch, differing: dict[int, float], beginning: str, ask: Ask
) -> list[Finding]:
    """Ask the usual questions of the shortest sequence that differs, with some of its row, or with all.

    Args:
        differing: the distances of outputs by piece, as `CheckedBatch.differing` returns them.
        beginning: the begin of a sentence on the batch.

    Returns:
        The findings of the first such batch in which a question failed; without one, that only the whole batch fails.
    """
    evidence = (
        f"{beginning}; {len(differing)} of them differ from what they are alone, by {max(differing.values()):.2g}."
    )
    for units in _units_to_ask(whole_batch, differing):
        try:
            findings = ask(whole_batch.of_units(units))
        except ValueError:
            continue
        if any(finding.verdict == FAILED for finding in findings):
            return [_with_evidence(finding, evidence) for finding in findings]
    return [Finding.failed("same as alone", evidence, "only whole")]


def _with_evidence(finding: Finding, evidence: str) -> Finding:
    """Add to a finding that failed what was seen in the batch of whole sequences."""
    return replace(finding, evidence=f"{finding.evidence} {evidence}") if finding.verdict == FAILED else finding


def _units_to_ask(whole_batch: CheckedBatch, differing: dict[int, float]) -> Iterator[set[int]]:
    """Yield sets of units, at least two, around the shortest sequence that differs: a few of its row, then all."""
    pieces, row_of = whole_batch.pieces, whole_batch.row_of
    shortest = min(differing, key=lambda number: len(pieces[number].slots))
    row = [number for number in range(len(pieces)) if row_of[number] == row_of[shortest]]

    def order(number: int) -> tuple[bool, bool, int]:
        """Sort the shortest one first, then its direct neighbors, then others by their length."""
        return number != shortest, abs(number - shortest) > 1, len(pieces[number].slots)

    neighbors = sorted(row, key=order)[:_NEIGHBORS]
    for numbers in [neighbors, range(len(pieces))] if len(pieces) > len(neighbors) else [neighbors]:
        units = {whole_batch.unit_of[pieces[number].sequence] for number in numbers}
        if len(whole_batch.of_units(units)) < 2:
            other_units = set(whole_batch.unit_of) - units
            units.add(min(other_units, key=lambda unit: len(whole_batch.of_units([unit])[0]["input_ids"])))
        yield units


def _failed_loss(weighing: Weighing, whole_batch: CheckedBatch) -> list[Finding]:
    """Return a failed finding if labels of the whole batch are lost or changed, or sequences weigh otherwise in it.

    Otherwise means: than the rule gives them that fits the batch of few. [] if nothing failed.
    """
    loss_of_few = weighing.whole.loss
    if not loss_of_few.touched.any():
        return []
    call = whole_batch.called.from_scores(whole_batch.batch, weighing.checked.call.scores.shape[-1])
    loss = Loss(whole_batch, whole_batch.batch, whole_batch.pieces, call)
    if not loss.touched.any():
        return []
    labels = labels_of(loss, np.empty(0, np.int64))
    if labels.verdict == FAILED:
        return [labels]
    if not (loss_of_few.certain and loss.certain):
        return []
    of_rules = [
        (_weigh_otherwise(weighing, whole_batch, loss, name, by_labels), name)
        for name, by_labels in weighing.fitting
        if name in RULES
    ]
    deviation, name = min(of_rules, default=(0.0, ""))
    if deviation <= 2 * weighing.tolerance:
        return []
    evidence = f"There a token weighs up to {deviation:.2g} more or less than a mean over each {name} gives it."
    return [Finding.failed("mean", evidence, "company")]


def _weigh_otherwise(weighing: Weighing, whole_batch: CheckedBatch, loss: Loss, name: str, by_labels: bool) -> float:
    """Return by which share a sequence weighs more or less in the whole batch than by a rule, at most.

    Args:
        name: of the rule, in `RULES`.
        by_labels: whether tokens count by labels in it, as in `amounts`.
    """
    loss_of_few = weighing.whole.loss
    expected = RULES[name](amounts(loss, by_labels)) / RULES[name](amounts(loss_of_few, by_labels))
    deviations = [0.0]
    for number, row in enumerate(weighing.checked.sequences):
        number_in_whole = next(
            (index for index, whole_row in enumerate(whole_batch.sequences) if whole_row is row), -1
        )
        factors_of_whole = _factors(loss, number_in_whole)
        factors_of_few = _factors(loss_of_few, number)
        shared_offsets = factors_of_whole.keys() & factors_of_few.keys()
        if size := sum(factors_of_few[offset] ** 2 for offset in shared_offsets):
            # by least squares, product / size times the factors in the batch of few are those in the whole batch
            product = sum(factors_of_whole[offset] * factors_of_few[offset] for offset in shared_offsets)
            deviations.append(abs(product / size / expected - 1))
    return max(deviations)


def _factors(loss: Loss, sequence: int) -> dict[int, float]:
    """Return the factor of each token of a sequence in a loss, by its place in the sequence."""
    return {
        int(offset): float(loss.factor[slot])
        for piece in loss.pieces
        if piece.sequence == sequence
        for offset, slot in zip(piece.offsets, piece.slots, strict=True)
    }


def _failed_fields(checked: CheckedBatch, rows: list[dict]) -> list[Finding]:
    """Return failed findings on positions and labels of the batch of all sequences that are right in the batch of few.

    The model is not called with that batch, which may be too large for it.
    """
    batch = checked.collate(rows)
    pieces = [piece for piece in found_in(batch, rows) if len(piece.slots) == len(rows[piece.sequence]["input_ids"])]
    findings = []
    if has_slots(batch.get(POSITIONS), batch["input_ids"]) and not _uneven(checked.batch, checked.pieces):
        uneven = _uneven(batch, pieces)
        if uneven and _reads_positions(checked):
            jump = uneven[0]
            evidence = (
                f"In {len(uneven)} of {len(rows)} sequences position_ids do not go up by 1: in sequence "
                f"{jump.piece.sequence}, of {len(jump.piece.slots):,} tokens, {jump.next_position} comes after "
                f"{jump.position} at token {jump.place + 1:,}."
            )
            findings.append(Finding.failed("positions", evidence, "uneven positions", own=checked.first_position or 0))
    lost_before, _ = _not_carried(checked.batch, checked.pieces, checked.sequences)
    lost, first_place = _not_carried(batch, pieces, rows)
    if lost and not lost_before:
        evidence = f"The batch of all {len(rows)} sequences has not {lost:,} of their labels: "
        evidence += f"the first is {first_place}."
        findings.append(Finding.failed("labels", evidence, "labels"))
    return findings


class _Jump(NamedTuple):
    """A place in a piece after which its positions do not go up by 1.

    Attributes:
        place: of the token before the jump, in the piece.
        position, next_position: of this token, and of the next one.
    """

    piece: Piece
    place: int
    position: int
    next_position: int


def _uneven(batch: dict, pieces: Sequence[Piece]) -> list[_Jump]:
    """Return the first jump of positions in each piece that has one."""
    positions = batch.get(POSITIONS)
    jumps = list[_Jump]()
    if not has_slots(positions, batch["input_ids"]):
        return []
    for piece in pieces:
        values = positions.flatten()[piece.slots].cpu().numpy()  # type: ignore[union-attr]
        wrong = np.flatnonzero(np.diff(values) != 1)
        if len(wrong):
            place = int(wrong[0])
            jumps.append(_Jump(piece, place, int(values[place]), int(values[place + 1])))
    return jumps


def _reads_positions(checked: CheckedBatch) -> bool:
    """Return True if the model's outputs change with other position_ids, or the model refuses these."""
    call = checked.called.try_call({**checked.batch, POSITIONS: checked.batch[POSITIONS] // 2})
    return call is None or not bool(checked.distance(call.outputs, checked.call.outputs).max() <= checked.limit)


def _not_carried(batch: dict, pieces: Sequence[Piece], rows: list[dict]) -> tuple[int, str]:
    """Count the labels of the data that a batch has neither at their slot nor at the slot before.

    Returns:
        Their number, and in words where the first one is; "" if the batch lacks none.
    """
    batch_labels = batch.get("labels")
    if not has_slots(batch_labels, batch["input_ids"]):
        return 0, ""
    flat = batch_labels.flatten().cpu().numpy()  # type: ignore[union-attr]
    count = 0
    first_lost = ""
    for piece in pieces:
        row, ids = rows[piece.sequence], np.asarray(rows[piece.sequence]["input_ids"])
        trained = trained_in_row(row, len(ids))
        expected = ids if trained is None else np.where(trained, ids, IGNORED)
        expected = np.asarray(row.get("labels", expected))[piece.offsets][1:]  # no model predicts the first one
        labels_there = flat[piece.slots]
        is_at_its_slot = labels_there[1:] == expected
        is_at_slot_before = labels_there[:-1] == expected
        lost = (expected != IGNORED) & ~is_at_its_slot & ~is_at_slot_before
        if lost.any():
            place = int(lost.argmax()) + 2  # counted from 1, and the first token is left out
            first_lost = first_lost or f"that of token {place:,} of sequence {piece.sequence}, of {len(ids):,} tokens"
            count += int(lost.sum())
    return count, first_lost
