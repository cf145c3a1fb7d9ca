"""Why labels have no gradient in any batch: by a weight of 0, by the model's scores, by a length, or for no reason.

What leaves them out is changed, and they are asked for or they are not: lost labels stay lost whatever a model says.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.findings import INCONCLUSIVE, PASSED
from packlib.tools.check.slot_gradients import Loss
from packlib.tools.rows.loss_masks import LOSS_MASKS

_DRAWS = 16  # calls with other scores; a label that is chosen by scores is asked for in about half of them
_OFTEN = 5  # draws: if half of the chosen labels are asked for this often, a label that never is was not chosen
_MEANT = "If that is meant, give them the label -100 in your sequences, as the check cannot know it"


class LeftOut(NamedTuple):
    """A reason why labels are left out: the verdict on the question of labels, and the end of a sentence."""

    verdict: str
    sentence: str


def why_left_out(loss: Loss, missing: np.ndarray, labeled: np.ndarray) -> LeftOut | None:
    """Find why labels have no gradient in any batch.

    Args:
        missing: shape (N,), the slots whose label is left out.
        labeled: shape (N,), the slots that have a label.

    Returns:
        The reason; None if there is none, so that the labels are lost.
    """
    if _have_a_weight_of_zero(loss, missing, labeled):
        return LeftOut(PASSED, "a column of the sequences is 0 there")
    times = _times_asked(loss, missing)
    chosen = missing & (times > 0)
    if chosen.any():
        return _by_scores(int(missing.sum()), int(chosen.sum()), float(np.median(times[chosen])))
    return _by_length(loss, missing, labeled)


def _have_a_weight_of_zero(loss: Loss, missing: np.ndarray, labeled: np.ndarray) -> bool:
    """Return whether a column of the data is 0 at all labels that are missing, and at no other: it may be a weight.

    It has a number for each token, which may stand at a label or at the token before it, or one for a sequence.
    """
    standard_fields = {"input_ids", "labels", "attention_mask", "token_type_ids", "position_ids", *LOSS_MASKS}
    for name in loss.checked.sequences[0].keys() - standard_fields:
        values = np.ones(len(loss.owner))
        for piece in loss.pieces:
            row = loss.checked.sequences[piece.sequence]
            try:
                of_row = np.asarray(row.get(name, "none"))
            except (TypeError, ValueError):  # lists of several lengths, or what is no array
                break  # the column is no weight
            if of_row.dtype.kind not in "fiub" or of_row.shape not in ((), (len(row["input_ids"]),)):
                break
            values[piece.slots] = np.broadcast_to(of_row, len(row["input_ids"]))[piece.offsets]
        else:  # all rows have numbers
            at_token = values
            at_label = loss.ahead(values, loss.shift)
            if any(np.array_equal(missing, labeled & (weights == 0)) for weights in (at_token, at_label)):
                return True
    return False


def _times_asked(loss: Loss, missing: np.ndarray) -> np.ndarray:
    """Count in how many calls with other scores each missing label is asked for; shape (N,).

    A model that chooses tokens by their loss, alone or beside that of a reference, chooses others then.
    """
    checked = loss.checked
    times = np.zeros(len(missing), int)
    width = checked.call.scores.shape[-1]
    for seed in range(_DRAWS):
        call = checked.called.disturbed(loss.batch, width, seed)
        times += missing & Loss(checked, loss.batch, loss.pieces, call).predicted
    return times


def _by_scores(missing: int, chosen: int, times: float) -> LeftOut | None:
    """Say that labels are chosen by scores; None if others among the missing ones are lost.

    Args:
        missing: how many labels are left out.
        chosen: how many of these are asked for in a call with other scores.
        times: in how many calls with other scores a chosen label is asked for, at the median.
    """
    if chosen == missing:
        return LeftOut(PASSED, "with other scores they have one: the loss chooses tokens by what the model says")
    if times >= _OFTEN:
        return None
    never = missing - chosen
    sentence = (
        f"with other scores {chosen} of them have one, so the loss chooses tokens by what the model says; {never} have "
        f"none in {_DRAWS} calls, and whether they are lost is not known. Check once with a loss that takes all labels"
    )
    return LeftOut(INCONCLUSIVE, sentence)


def _by_length(loss: Loss, missing: np.ndarray, labeled: np.ndarray) -> LeftOut | None:
    """Say that whole sequences are left out by their length; None if they are not.

    It is so if they have labels once they are cut or lengthened to the nearest length of a sequence that has some.
    """
    checked = loss.checked
    left_out, used = set[int](), set[int]()
    for piece in loss.pieces:
        is_missing = missing[piece.slots]
        if is_missing.any() and not np.array_equal(is_missing, labeled[piece.slots]):
            return None  # a part of the sequence has labels
        if labeled[piece.slots].any():
            (left_out if is_missing.any() else used).add(piece.sequence)
    lengths = {number: len(checked.sequences[number]["input_ids"]) for number in left_out | used}
    if not left_out or not used or left_out & used:
        return None
    used_lengths = [lengths[number] for number in used]
    nearest = {number: min(used_lengths, key=lambda length: abs(length - lengths[number])) for number in left_out}
    rows = [
        _of_length(row, nearest[number]) if number in left_out else row for number, row in enumerate(checked.sequences)
    ]
    with suppress(ValueError):  # a collator may refuse what is cut
        other_batch = CheckedBatch(checked.called, checked.collate, checked.all_sequences, rows, None, like=checked)
        predicted = Loss(other_batch, other_batch.batch, other_batch.pieces, other_batch.call).predicted
        with_labels = {piece.sequence for piece in other_batch.pieces if predicted[piece.slots].any()}
        if left_out <= with_labels:
            sentence = (
                f"these are all labels of {len(left_out)} of {len(lengths)} sequences, of {_listed(lengths, left_out)} "
                f"tokens, which have some if they are cut or lengthened to {_listed(nearest, left_out)}: a rule leaves "
                f"out sequences by their length. {_MEANT}"
            )
            return LeftOut(INCONCLUSIVE, sentence)
    return None


def _of_length(row: dict, length: int) -> dict:
    """Return a sequence of this length: cut to its last tokens, or with its tokens repeated."""
    own_length = len(row["input_ids"])
    by_token = {name: np.asarray(x) for name, x in row.items() if np.ndim(x) == 1 and len(x) == own_length}
    return row | {name: np.resize(x[::-1], length)[::-1].tolist() for name, x in by_token.items()}


def _listed(lengths: dict[int, int], numbers: set[int]) -> str:
    """List the different lengths of the sequences of these numbers."""
    return ", ".join(str(length) for length in sorted({lengths[number] for number in numbers}))
