"""What notebook 12 computes: the learner's decisions, and their costs, in sentences that depend on the data."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from packbook.parameters import ParameterError
from packbook.results import keep
from packlib.arguments import one_of, percent, whole_number
from packlib.lengths import LengthHistogram
from packlib.tools.advice import Advice, Today
from packlib.tools.advice.row_lengths import LOSSY
from packlib.tools.advice.row_lengths import count_cut as count_cut

METHODS = ("next_fit", "spfhp", "lpfhp")
ALIKE = 0.02  # smaller differences of slots, or of sequences per update, count as none: no reason to change a trainer
# by what is done with longer sequences, what happens to the tokens that do not fit into a row
BEYOND = {"truncate": "cut off and lost", "drop": "lost with their sequences", "split": "cut off into further pieces"}


class Bill(NamedTuple):
    """The cost of one pass over the data.

    Attributes:
        row: slots in a row.
        method: name of the packing method, or of the way in which today's batches are made.
        packs: rows in one pass.
        slots: slots in one pass.
        beyond: share of the tokens that do not fit into rows, and are lost or cut off into further pieces.
        per_update: sequences per update.
        forward: slots in the largest forward pass.
        updates: updates in one pass.
    """

    row: int
    method: str
    packs: int
    slots: float
    beyond: float
    per_update: float
    forward: int
    updates: int


def decided(name: str, answer: Any, otherwise: Any, check: Callable[[str, Any], Any]) -> Any:
    """Return the learner's decision, or `otherwise` while it has dots.

    Args:
        name: of the decision, for the error.
        check: returns the checked decision, given its name and value; raises TypeError or ValueError.

    Raises:
        ParameterError: for a decision that cannot be carried out; a notebook shows its sentence alone.
    """
    if answer is ... or (isinstance(answer, tuple) and ... in answer):
        return otherwise
    try:
        return check(name, answer)
    except (TypeError, ValueError) as error:
        raise ParameterError(str(error)) from None


def decide_row(answer: Any, otherwise: int, whole: LengthHistogram, overlong: str) -> int:
    """Return the slots of a row that the learner chose; if longer sequences are dropped, some must be short enough."""
    shortest = int(whole.counts.nonzero()[0][0]) if overlong == "drop" else 1
    return decided("my_row", answer, otherwise, lambda name, value: whole_number(name, value, shortest, 1 << 20))


def decide_method(answer: Any) -> str:
    """Return the name of the method that the learner chose; "next_fit", the order of the data, while there are dots."""
    return decided("my_method", answer, "next_fit", lambda name, value: one_of(name, value, METHODS))


def decide_update(answer: Any, otherwise: tuple[int, int]) -> tuple[int, int]:
    """Return the micro batch and the accumulation that the learner chose, or `otherwise` while there are dots."""

    def check(name: str, value: Any) -> tuple[int, int]:
        if not isinstance(value, tuple) or len(value) != 2:
            raise ValueError(f"{name} must be a micro batch and an accumulation, such as 4, 8, not {value!r}.")
        micro_batch, accumulation = value
        return whole_number(name, micro_batch, 1, 1 << 30), whole_number(name, accumulation, 1, 1 << 30)

    return decided("my_update", answer, otherwise, check)


def rows_around(row: int, whole: LengthHistogram, overlong: str) -> list[int]:
    """Return half of a row length, the row length, and twice as much, without those too short for all sequences."""
    shortest = int(whole.counts.nonzero()[0][0]) if overlong == "drop" else 1
    return sorted({length for length in (row // 2, row, 2 * row) if shortest <= length <= 1 << 20})


def rest_in_words(histogram: LengthHistogram) -> str:
    """Say in a clause whether the rest of the rows is padding."""
    return "and the rest of the rows is padding" if histogram.padding_fraction > 0 else "so nothing is padding"


def longer_in_words(whole: LengthHistogram, row: int, overlong: str) -> str:
    """Return a sentence on how sequences longer than a row count; "" if there are none."""
    counted = {"split": "count as their pieces", "truncate": "count as they are cut", "drop": "are left out"}
    return f"Sequences longer than a row {counted[overlong]}. " if whole.counts[row + 1 :].any() else ""


def median_in_words(histogram: LengthHistogram) -> str:
    """Compare the mean of the lengths with their median in a sentence that says why."""
    mean = histogram.mean_length
    median = int(np.searchsorted(np.cumsum(histogram.counts), histogram.num_sequences / 2))
    words = f"the median, {median:,}"
    if abs(mean - median) <= 0.05 * median:
        return f"The mean is about the same as {words}, so either would have done for the guess."
    if mean > median:
        why = "the longer half exceeds the median by more than the shorter half falls below it"
        return f"The mean is above {words}: {why}."
    why = "the shorter half falls below the median by more than the longer half exceeds it"
    return f"The mean is below {words}: {why}."


def full_in_words(now: float, then: float) -> str:
    """Describe how full packs are, and whether longer rows can save slots.

    Args:
        now: share of the slots with a token, in current rows.
        then: the same in rows twice as long.
    """
    sentence = f"Packs are {percent(now)} full now, and {percent(then)} then."
    return f"{sentence} Of full packs longer rows can save next to nothing." if now >= 1 - ALIKE else sentence


def today_in_words(today: Today, tokens: int) -> str:
    """Say why the share of today's slots that hold tokens is what it is.

    Args:
        tokens: of one pass.
    """
    full = percent(tokens / today.slots)
    if today.habit == "packed":
        return f"Today's rows are packs already, filled in random order, and {full} of their slots hold tokens."
    if today.habit == "maximum":
        return f"Today each sequence takes a row of full length, and {full} of the slots hold tokens."
    size = min(today.batch_size, today.rows)
    if size == 1:
        return "Today a batch holds one sequence, so it has no padding at all, but it keeps a device less busy."
    if today.habit == "sorted":
        return f"Sorted batches hold sequences of nearly one length, so {full} of their slots hold tokens."
    if today.habit in ("buckets", "megabatches"):
        source = "one range of lengths" if today.habit == "buckets" else "a sorted window"
        return f"A batch takes its sequences from {source}, so {full} of its slots hold tokens."
    return f"A random batch is as wide as the longest of its {size} sequences: {full} of the slots hold tokens."


def sorted_in_words(advice: Advice) -> str:
    """Describe the cost of sorting today's batches, compared with packs."""
    batches_by_habit = {batches.habit: batches for batches in (advice.today, *advice.habits)}
    change = batches_by_habit["sorted"].slots / advice.slots - 1
    is_alike = abs(change) <= ALIKE
    difference = f"{percent(abs(change))} {'more' if change >= 0 else 'fewer'}"
    if advice.today.batch_size == 1:
        comparison = "about as many slots as" if is_alike else f"{difference} slots than"
        return f"Batches of one sequence take {comparison} the advised packs; they have no padding."
    batches = f"Sorted batches of {advice.today.batch_size:,}"
    if not is_alike:
        return f"{batches} take {difference} slots than the advised packs."
    in_parentheses = "" if percent(abs(change)) == percent(0) else f" ({difference})"
    return (
        f"{batches} take about as many slots as the advised packs{in_parentheses}. If slots are all that "
        "counts, sorting is enough, and it needs no mask. Packs keep lengths mixed within an update, and every forward "
        "pass has the same shape."
    )


def _times(value: float, base: float) -> str:
    """Return the ratio of two numbers in words: "1.25 times"."""
    return f"{value / base:.2f} times"


def compared(mine: Bill, advised: Bill, today: Bill, overlong: str) -> list[str]:
    """Compare the learner's bill with the advice's and with today's, in sentences; differences within 2 % are none.

    Args:
        overlong: what is done with longer sequences: "truncate", "drop" or "split".
    """
    sentences = []
    change = mine.slots / advised.slots - 1
    if abs(change) <= ALIKE:
        sentences.append("Slots: your packs take as many slots as the advised ones, within 2 %.")
    else:
        word = "more" if change > 0 else "fewer"
        sentences.append(f"Slots: your packs take {percent(abs(change))} {word} slots than the advised ones.")
    saved = 1 - mine.slots / today.slots
    if saved < -ALIKE:
        sentences.append(
            f"Your packs take {percent(-saved)} more slots than today's batches, so they are not worth a change."
        )
    elif saved <= ALIKE:
        sentences.append("Your packs save less than 2 % of today's slots, so they are not worth a change.")
    if abs(mine.beyond - advised.beyond) > 1e-9:
        words = BEYOND[overlong]
        sentences.append(
            f"Tokens: with your rows {percent(mine.beyond, 2)} of the tokens are {words}, "
            f"with the advised rows {percent(advised.beyond, 2)}."
        )
    if overlong != "split" and mine.beyond > LOSSY:
        sentences.append(
            f"Tokens: {percent(mine.beyond, 2)} of the tokens are {BEYOND[overlong]}. "
            "If you split long sequences, none is."
        )
    if abs(mine.per_update / today.per_update - 1) <= ALIKE:
        sentences.append("Update: your updates have as many sequences as today, within 2 %, so the recipe stays.")
    else:
        sentences.append(
            f"Update: your updates have {_times(mine.per_update, today.per_update)} as many sequences as today, "
            "so learning rate and betas were tuned for another update."
        )
    if mine.forward > (1 + ALIKE) * today.forward:
        sentences.append(
            f"Memory: your largest forward pass has {_times(mine.forward, today.forward)} as many slots as today's "
            f"largest, {mine.forward:,} instead of {today.forward:,}, so it may not fit."
        )
    return sentences


def largest_batch(today: Today, histogram: LengthHistogram) -> int:
    """Return the slots of the largest batch that today's way of making batches allows.

    Args:
        histogram: in rows of today's maximum length.
    """
    longest = int(histogram.counts.nonzero()[0][-1])
    width = longest if today.sized else histogram.max_length
    return min(today.batch_size, today.rows) * width


def whole_updates(packs: int, per_update: int) -> int:
    """Return the updates in one pass, `per_update` packs each; the last one may have fewer packs."""
    return math.ceil(packs / per_update)


def keep_files(advice: Advice) -> None:
    """Write the advice and its plan beside the report of `packbook run`."""
    keep("advice.json", advice.to_json())
    keep("plan.json", advice.plan.to_json())
