"""What can go wrong with lengths like these, in sentences with numbers."""

from dataclasses import dataclass

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan

FEW_UPDATES = 100  # in one pass: below, a pack more or less is felt
NEAR, PILED = 16, 10  # so many lengths just below the longest; so many times their mean is no accident
DEEP = 16  # sequences in a pack from which static shapes waste much
SHORT = 8  # tokens; two or three of them are special


@dataclass(frozen=True)
class Risk:
    """What to mind: a name for scripts, a sentence for people."""

    name: str
    sentence: str


def share_of(part: float, whole: float = 1) -> str:
    """A share in percent, with as many digits as it needs: "0.05 %", "3.1 %", "over 99.99 %"."""
    value = 100 * part / whole
    if 0 < abs(value) < 0.005:
        return "under 0.01 %"
    if 99.995 <= value < 100:
        return "over 99.99 %"
    return f"{value:.2f} %" if 0 < abs(value) < 1 or 99 < value < 100 else f"{value:.1f} %"


def many(count: int, noun: str) -> str:
    """A count with its noun: "1 pack", "2,000 packs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def piled_up(histogram: LengthHistogram) -> tuple[int, int]:
    """The longest length, and how many sequences have it uncut if they look cut before they were counted; else 0.

    >>> import numpy as np
    >>> drawn = np.random.default_rng(0).geometric(0.01, 5000)
    >>> piled_up(LengthHistogram.from_lengths(np.minimum(drawn, 200), 512))
    (200, 675)
    """
    counts = histogram.counts
    longest = int(counts.nonzero()[0][-1])
    count = int(counts[longest]) - histogram.truncated  # which are known to be cut
    near = counts[max(1, longest - NEAR) : longest].sum() / NEAR
    different = np.count_nonzero(counts[:longest]) >= NEAR  # data of a few lengths pile up everywhere
    cut = max(PILED * max(near, 1), 0.001 * histogram.num_sequences) < count < histogram.num_sequences and different
    return longest, count if cut else 0


def find_risks(
    histogram: LengthHistogram,
    plan: PackingPlan,
    gap: int,
    tokens_lost: int,
    rows: int,
    recipe_length: int | None = None,
    whole: LengthHistogram | None = None,
) -> tuple[Risk, ...]:
    """The risks of packing these lengths by this plan.

    Args:
        gap: packs of the plan above the best bound known.
        tokens_lost: by cutting or leaving out sequences over the maximum length.
        rows: packs behind one update.
        recipe_length: the row length that the user's recipe states.
        whole: the lengths before they were cut, or None.
    """
    h, top, n = histogram, histogram.max_length, histogram.num_sequences
    below = np.cumsum(h.counts)
    most = int(np.searchsorted(below, 0.99 * n))  # the length that 99 % of the sequences do not pass
    short, long = int(below[min(SHORT, top)]), n - int(below[top // 2])
    longest, piled = piled_up(whole or h)
    lost = f", which loses {share_of(tokens_lost, tokens_lost + h.num_tokens)} of the tokens" * (tokens_lost > 0)
    found = {
        "over-long": h.truncated and f"{_longer(h.truncated, n, top)} cut to {top:,}{lost}.",
        "left out": h.dropped and f"{_longer(h.dropped, n + h.dropped, top)} left out{lost}.",
        "cut before": piled
        and f"{piled:,} sequences ({share_of(piled, n + h.dropped)}) have exactly {longest:,} tokens, the longest of "
        "all, and far more than the lengths just below. They may have been cut before they were counted: look at what "
        "made them.",
        "other maximum": recipe_length not in (None, top)
        and f"The recipe has rows of {recipe_length} tokens, the advice is for {top}: with other rows the packing "
        "factor is another.",
        "few data": plan.num_packs < FEW_UPDATES * rows
        and f"One pass over the data is {plan.num_packs / rows:,.1f} batches of {rows:,} rows. With so few, a pack "
        "more or less is felt, and so is the last, smaller batch.",
        "not proven": gap > 0.001 * plan.num_packs
        and f"The plan may be up to {share_of(gap, plan.num_packs)} above the fewest packs; more time "
        "may find a better one.",
        "long tail": 2 * most <= top
        and f"99 % of the sequences have {most:,} tokens or fewer, and rows have {top:,}. Packing fills the rows, but "
        "attention over a long row costs more for each token, unless its kernel skips what lies between sequences.",
        "short tail": short > 0.05 * n
        and f"{share_of(short, n)} of the sequences have {min(SHORT, top)} tokens or fewer: what each costs once "
        "(special tokens, a place in the class head) weighs more than its text.",
        "deep packs": plan.deepest > DEEP
        and f"A pack holds up to {plan.deepest} sequences. With static shapes every row reserves as many places for "
        "what a sequence has once, such as its class. A lower depth limit costs packs and saves places.",
        "long halves": long > 0.5 * n
        and plan.efficiency < 0.99
        and f"{share_of(long, n)} of the sequences are longer than half a row, and no two of them share one. Longer "
        "rows would pack better.",
        "not measured": h.kind != "measured"
        and f"The lengths are a {h.kind}: count your own before you rely on the last digit.",
    }
    return tuple(Risk(name, sentence) for name, sentence in found.items() if sentence)


def _longer(count: int, whole: int, top: int) -> str:
    """How many sequences are too long, up to what the advice assumes of them."""
    are, they = ("is", "it is") if count == 1 else ("are", "they are")
    return (
        f"{many(count, 'sequence')} ({share_of(count, whole)}) {are} longer than {top:,} tokens. The advice assumes "
        f"that {they}"
    )
