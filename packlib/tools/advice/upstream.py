"""What was cut before the lengths were counted, as the lengths from before that cut tell."""

from typing import NamedTuple

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.tools.advice.depths import quick_plan
from packlib.tools.advice.row_lengths import count_cut
from packlib.tools.advice.words import longest

_NEAR, _PILED = 16, 10  # so many lengths before and after one; so many times their mean is no accident
_SHARE = 0.001  # of the sequences: fewer are no pile


class Upstream(NamedTuple):
    """A data set against its source.

    Attributes:
        source: the lengths before they were cut.
        longest: tokens of the longest sequence of the data, or a length below it at which sequences pile up.
        overlong, left: sequences that are longer, of the source and of the data.
        lost: tokens that the source has and the data has not.
        packs: that all tokens of the source need in rows as advised, where longer sequences are split.
    """

    source: LengthHistogram
    longest: int
    overlong: int
    left: int
    lost: int
    packs: int


def find_pile(whole: LengthHistogram) -> tuple[int, int]:
    """Find the length at which most look cut before they were counted, and how many; zeros if there is none.

    So many sequences have it that it is no accident beside the lengths around it. Besides, few sequences are longer, or
    it is a round number, as limits are.

    >>> from packlib.tools.advice.upstream import find_pile
    >>> from packlib.lengths import LengthHistogram
    >>> find_pile(LengthHistogram.from_lengths([*range(1, 3000), *[2048] * 50]))
    (2048, 51)
    """
    counts = whole.counts.copy()
    lengths = counts.nonzero()[0]
    counts[lengths[-1]] -= whole.truncated  # which are known to be cut
    number, longer = counts[lengths], whole.num_sequences - np.cumsum(counts[lengths])
    pile = 0, 0
    for index in np.flatnonzero(number > max(_PILED, _SHARE * whole.num_sequences)).tolist():
        length, count = int(lengths[index]), int(number[index])
        usual = max(number[index - _NEAR : index].sum(), number[index + 1 : index + 1 + _NEAR].sum(), _NEAR) / _NEAR
        is_limit = longer[index] <= count or not length % 128 or not length % 100
        if index >= _NEAR and is_limit and max(_PILED * usual, pile[1]) < count:  # a few lengths pile up everywhere
            pile = length, count
    return pile


def weigh(
    whole: LengthHistogram, source: LengthHistogram, max_length: int, depth: int | None, piled_up: int = 0
) -> Upstream:
    """Weigh the lengths of a data set against those from before it was cut.

    >>> from packlib.tools.advice.upstream import weigh
    >>> from packlib.lengths import LengthHistogram
    >>> data, source = (LengthHistogram.from_lengths(lengths) for lengths in ([3, 8, 8], [3, 8, 12]))
    >>> found = weigh(data, source, max_length=8, depth=None)
    >>> found.overlong, found.left, found.lost, found.packs
    (1, 0, 4, 3)

    Args:
        max_length, depth: slots of a row and sequences in a pack at most, as advised.
        piled_up: a length at which sequences pile up; by default the longest is looked at.
    """
    top = piled_up or longest(whole)
    return Upstream(
        source,
        top,
        count_cut(source, top, "truncate")[0],
        count_cut(whole, top, "truncate")[0],
        source.num_tokens - whole.num_tokens,
        quick_plan(source.with_max_length(max_length, "split"), depth).num_packs,
    )
