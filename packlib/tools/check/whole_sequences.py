"""What few sequences, and cut ones, cannot show: all of them whole in one batch, in one comparison at small cost.

The batch is called once, and each sequence alone once, without gradients but those of the scores. If a sequence
differs, the usual questions are asked of it and of its neighbors, which finds the cause. What is too long even for that
is asked of the batch alone: whether positions and labels go on as they do in short sequences.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

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
_SLOTS = 1 << 12  # of the batch of whole sequences, or more if max_tokens is larger

Ask = Callable[[list[dict]], list[Finding]]


def whole_sequences(weighing: Weighing, group: str | None, most: int, ask: Ask) -> list[Finding]:
    """Check the batch of all sequences, whole, if the model has not had it; return the findings, or nothing.

    Args:
        weighing: of the batch that the model has had, in which nothing failed.
        most: of the longest sequence of that batch, in tokens.
        ask: the usual questions of some sequences.

    Returns:
        Failed findings in place of those that passed, if a sequence differs from what it is alone; and one that says
        which sequences the model has had whole, or why it has not.
    """
    few, rows = weighing.checked, weighing.checked.given
    if len(few.few) == len(rows) and all(one is row for one, row in zip(few.few, rows, strict=True)):
        return []
    room = max(_SLOTS, 8 * most, few.ids.numel())
    for cut in (True, False):  # a collator may refuse what is cut
        some = _that_fit(few, rows, group, room, cut)
        if len(some) < 2:
            continue
        said = f"{len(some)} of {len(rows)} sequences, of up to {_longest(some):,} tokens, were in one batch"
        try:
            with torch.no_grad():
                whole = CheckedBatch(few.called, few.collate, rows, some, group, like=few)
                differing = whole.differing()
        except ValueError as error:
            refused = f"{said}, which could not be compared: {error}"
            continue
        break
    else:
        return [Finding(QUESTION, INCONCLUSIVE, refused)]
    said += f" of {whole.ids.numel():,} slots"
    if differing:
        return _why(whole, differing, said, ask)
    short = [row for row in some if any(row is one for one in rows)]
    found = [*_of_fields(few, rows), *(_of_loss(weighing, whole) if len(short) == len(some) else [])]
    if found:
        return [replace(one, evidence=f"{said}. {one.evidence}") for one in found]
    said += f", each compared with what it is alone: none differs by more than {whole.limit:.2g} of the outputs"
    long = [len(row["input_ids"]) for row in rows if len(row["input_ids"]) > _longest(short)]
    if not long:
        return [Finding(QUESTION, PASSED, f"{said}.")]
    said += (
        f". {len(long)} of your sequences, of up to {max(long):,} tokens, were cut to {room // 2:,} for it or left out"
    )
    return [Finding(QUESTION, NOT_ASKED, f"{said}: with max_tokens {-(-max(long) // 4):,} they are taken whole.")]


def _longest(rows: list[dict]) -> int:
    return max((len(row["input_ids"]) for row in rows), default=0)


def _that_fit(few: CheckedBatch, rows: list[dict], group: str | None, room: int, cut: bool) -> list[dict]:
    """Take the longest sequence, cut to half of the room, and others as far as there is room; whole groups."""
    names = list(range(len(rows))) if group is None else [row[group] for row in rows]
    some = cut_apart(rows, room // 2)[0] if cut else rows
    units = list(dict.fromkeys(names))
    tokens = {unit: sum(len(row["input_ids"]) for row, name in zip(some, names, strict=True) if name == unit)
              for unit in units}  # fmt: skip
    taken, used = list[object](), 0
    for unit in [max(units, key=lambda unit: (tokens[unit] <= room, tokens[unit])), *units]:
        if unit not in taken and used + tokens[unit] <= room:
            taken.append(unit)
            used += tokens[unit]

    def of(taken: list[object]) -> list[dict]:
        return [row for row, name in zip(some, names, strict=True) if name in taken]

    while len(taken) > 2 and few.collate(of(taken))["input_ids"].numel() > 2 * room:
        taken = taken[: max(2, len(taken) // 2)]
    return of(taken)


def _why(whole: CheckedBatch, differing: dict[int, float], said: str, ask: Ask) -> list[Finding]:
    """Ask the usual questions of the shortest sequence that differs, with some of its row, or with all."""
    number = min(differing, key=lambda number: len(whole.pieces[number].slots))
    row = [at for at in range(len(whole.pieces)) if whole.rows[at] == whole.rows[number]]
    near = sorted(row, key=lambda at: (at != number, abs(at - number) > 1, len(whole.pieces[at].slots)))[:4]
    tried = [near, range(len(whole.pieces))] if len(whole.pieces) > len(near) else [near]
    evidence = f"{said}; {len(differing)} of them differ from what they are alone, by {max(differing.values()):.2g}."
    for some in tried:
        units = {whole.unit_of[whole.pieces[at].sequence] for at in some}
        rows = whole.of_units(units)
        if len(rows) < 2:
            units |= {min(set(whole.unit_of) - units, key=lambda unit: len(whole.of_units([unit])[0]["input_ids"]))}
            rows = whole.of_units(units)
        try:
            found = ask(rows)
        except ValueError:
            continue
        if any(one.verdict == FAILED for one in found):
            return [replace(one, evidence=f"{one.evidence} {evidence}") if one.verdict == FAILED else one
                    for one in found]  # fmt: skip
    return [Finding.failed("same as alone", evidence, "only whole")]


def _of_loss(weighing: Weighing, whole: CheckedBatch) -> list[Finding]:
    """Find labels that are lost or changed, and sequences that weigh otherwise, than in the batch of few."""
    few = weighing.whole.loss
    if not few.touched.any():
        return []
    seen = whole.called.from_scores(whole.batch, weighing.checked.seen.scores.shape[-1])
    loss = Loss(whole, whole.batch, whole.pieces, seen)
    if not loss.touched.any():
        return []
    labels = labels_of(loss, loss.key[:0])
    if labels.verdict == FAILED:
        return [labels]
    if not (few.certain and loss.certain):
        return []
    of_rules = [
        (_weigh_otherwise(weighing, whole, loss, name, by_labels), name)
        for name, by_labels in weighing.fitting
        if name in RULES
    ]
    apart, name = min(of_rules, default=(0.0, ""))
    if apart <= 2 * weighing.near:
        return []
    evidence = f"There a token weighs up to {apart:.2g} more or less than a mean over each {name} gives it."
    return [Finding.failed("mean", evidence, "company")]


def _weigh_otherwise(weighing: Weighing, whole: CheckedBatch, loss: Loss, name: str, by_labels: bool) -> float:
    """Return how much more or less a sequence weighs in the whole batch at most than a rule gives it there."""
    few = weighing.whole.loss
    wanted = RULES[name](amounts(loss, by_labels)) / RULES[name](amounts(few, by_labels))
    apart = [0.0]
    for at, row in enumerate(weighing.checked.few):
        mine = _factors(loss, next((number for number, one in enumerate(whole.few) if one is row), -1))
        before = _factors(few, at)
        both = mine.keys() & before.keys()
        if size := sum(before[offset] ** 2 for offset in both):
            apart.append(abs(sum(mine[offset] * before[offset] for offset in both) / size / wanted - 1))
    return max(apart)


def _factors(loss: Loss, sequence: int) -> dict[int, float]:
    """Return the weight of each token of a sequence in a loss, by its place."""
    return {
        int(offset): float(loss.factor[slot])
        for piece in loss.pieces
        if piece.sequence == sequence
        for offset, slot in zip(piece.offsets, piece.slots, strict=True)
    }


def _of_fields(few: CheckedBatch, rows: list[dict]) -> list[Finding]:
    """Find positions and labels in the batch of all that differ from those in the batch of few."""
    batch = few.collate(rows)
    pieces = [piece for piece in found_in(batch, rows) if len(piece.slots) == len(rows[piece.sequence]["input_ids"])]
    found = []
    if has_slots(batch.get(POSITIONS), batch["input_ids"]) and not _uneven(few.batch, few.pieces):
        uneven = _uneven(batch, pieces)
        if uneven and _reads_positions(few):
            piece, place, before, after = uneven[0]
            evidence = (
                f"In {len(uneven)} of {len(rows)} sequences position_ids do not go up by 1: in sequence "
                f"{piece.sequence}, of {len(piece.slots):,} tokens, {after} comes after {before} at token "
                f"{place + 1:,}."
            )
            found.append(Finding.failed("positions", evidence, "uneven positions", own=few.start or 0))
    lost_before, _ = _not_carried(few.batch, few.pieces, few.few)
    lost, first = _not_carried(batch, pieces, rows)
    if lost and not lost_before:
        evidence = f"The batch of all {len(rows)} sequences has not {lost:,} of their labels: the first is {first}."
        found.append(Finding.failed("labels", evidence, "labels"))
    return found


def _uneven(batch: dict, pieces: Sequence[Piece]) -> list[tuple[Piece, int, int, int]]:
    """Find the pieces whose positions do not go up by 1, where, and the two positions there."""
    given, found = batch.get(POSITIONS), []
    if not has_slots(given, batch["input_ids"]):
        return []
    for piece in pieces:
        values = given.flatten()[piece.slots].cpu().numpy()  # type: ignore[union-attr]
        wrong = np.flatnonzero(np.diff(values) != 1)
        if len(wrong):
            found.append((piece, int(wrong[0]), int(values[wrong[0]]), int(values[wrong[0] + 1])))
    return found


def _reads_positions(few: CheckedBatch) -> bool:
    """Return True if other position_ids change what the model gives."""
    seen = few.called.runs({**few.batch, POSITIONS: few.batch[POSITIONS] // 2})
    return seen is None or not bool(few.apart(seen.outputs, few.seen.outputs).max() <= few.limit)


def _not_carried(batch: dict, pieces: Sequence[Piece], rows: list[dict]) -> tuple[int, str]:
    """Count the labels that a batch lacks, at their slot and the one before, and say where the first is."""
    given = batch.get("labels")
    if not has_slots(given, batch["input_ids"]):
        return 0, ""
    flat, count, first = given.flatten().cpu().numpy(), 0, ""  # type: ignore[union-attr]
    for piece in pieces:
        row, ids = rows[piece.sequence], np.asarray(rows[piece.sequence]["input_ids"])
        trained = trained_in_row(row, len(ids))
        own = ids if trained is None else np.where(trained, ids, IGNORED)
        own = np.asarray(row.get("labels", own))[piece.offsets][1:]  # no model predicts the first one
        mine = flat[piece.slots]
        lost = (own != IGNORED) & (mine[1:] != own) & (mine[:-1] != own)
        if lost.any():
            place = int(lost.argmax()) + 2
            first = first or f"that of token {place:,} of sequence {piece.sequence}, of {len(ids):,} tokens"
            count += int(lost.sum())
    return count, first
