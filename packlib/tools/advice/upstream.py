"""How much was cut before the lengths were counted: by the lengths from before that cut, or by a pile at one length."""

from typing import NamedTuple

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.tools.advice.depths import quick_plan
from packlib.tools.advice.row_lengths import count_cut
from packlib.tools.advice.words import longest

_NEAR = 16  # lengths on each side with which the number of sequences of one length is compared
_PILED = 10  # times the mean of these: more is no accident; fewer sequences than this are no pile either
_SHARE = 0.001  # of all sequences: a smaller share is no pile


class Upstream(NamedTuple):
    """A data set compared with its source, from which it was cut.

    Attributes:
        source: the lengths before the cut.
        longest: tokens of the longest sequence of the data, or the length below it at which sequences pile up.
        overlong: number of sequences of the source that are longer than `longest`.
        left: number of sequences of the data that are longer than `longest`.
        lost: number of tokens that the source has more than the data.
        packs: number of packs for all tokens of the source, in rows as advised, where longer sequences are split.
    """

    source: LengthHistogram
    longest: int
    overlong: int
    left: int
    lost: int
    packs: int


def find_pile(whole: LengthHistogram) -> tuple[int, int]:
    """Return the length to which sequences look cut before they were counted, and how many have it; else (0, 0).

    At this length there are far more sequences than at the lengths around it. Besides, few sequences are longer, or the
    length is a round number, as limits are.

    >>> from packlib.tools.advice.upstream import find_pile
    >>> from packlib.lengths import LengthHistogram
    >>> find_pile(LengthHistogram.from_lengths([*range(1, 3000), *[2048] * 50]))
    (2048, 51)
    """
    counts = whole.counts.copy()
    lengths = counts.nonzero()[0]  # those that occur
    counts[lengths[-1]] -= whole.truncated  # sequences that the histogram itself has cut to its longest length
    counts = counts[lengths]
    num_longer = whole.num_sequences - np.cumsum(counts)
    pile = 0, 0
    for index in np.flatnonzero(counts > max(_PILED, _SHARE * whole.num_sequences)).tolist():
        length, count = int(lengths[index]), int(counts[index])
        near = counts[index - _NEAR : index].sum(), counts[index + 1 : index + 1 + _NEAR].sum()
        usual_count = max(*near, _NEAR) / _NEAR
        is_limit = num_longer[index] <= count or length % 128 == 0 or length % 100 == 0
        has_enough_below = index >= _NEAR  # where few lengths occur, many sequences may have each
        if has_enough_below and is_limit and count > max(_PILED * usual_count, pile[1]):
            pile = length, count
    return pile


def compare_with_source(
    whole: LengthHistogram, source: LengthHistogram, max_length: int, depth: int | None, piled_up: int = 0
) -> Upstream:
    """Compare the lengths of a data set with those from before it was cut.

    >>> from packlib.tools.advice.upstream import compare_with_source
    >>> from packlib.lengths import LengthHistogram
    >>> data, source = (LengthHistogram.from_lengths(lengths) for lengths in ([3, 8, 8], [3, 8, 12]))
    >>> found = compare_with_source(data, source, max_length=8, depth=None)
    >>> found.overlong, found.left, found.lost, found.packs
    (1, 0, 4, 3)

    Args:
        whole: the lengths of the data set as it is stored, before the advice cuts any to a row.
        source: the lengths from before the data set was cut.
        max_length: slots of a row, as advised.
        depth: the most sequences in a pack, as advised; None for no limit.
        piled_up: the length at which sequences pile up; 0 stands for the longest length of the data.
    """
    length = piled_up or longest(whole)
    overlong, _ = count_cut(source, length, "truncate")  # how many are longer is the same for each rule
    left, _ = count_cut(whole, length, "truncate")
    packs = quick_plan(source.with_max_length(max_length, "split"), depth).num_packs
    return Upstream(source, length, overlong, left, source.num_tokens - whole.num_tokens, packs)
