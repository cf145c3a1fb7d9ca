"""What was cut before the lengths were counted, as the lengths from before that cut tell."""

from typing import NamedTuple

import numpy as np

from packlib.advice.depths import best_plans
from packlib.advice.row_lengths import OVERLONG, count_cut, cut
from packlib.lengths import LengthHistogram

_DONE = {"truncate": "cut to it", "drop": "left out", "split": "split"}


class Upstream(NamedTuple):
    """A data set against its source.

    Attributes:
        source: the lengths before they were cut.
        longest: tokens of the longest sequence of the data.
        overlong: sequences of the source that are longer.
        lost: tokens that the source has and the data has not.
        done: what was done to those: "cut to it", "left out" or "split"; empty if none gives exactly the data.
        packs: that all tokens of the source need in rows as advised, where longer sequences are split.
    """

    source: LengthHistogram
    longest: int
    overlong: int
    lost: int
    done: str
    packs: int

    @property
    def longest_source(self) -> int:
        """Tokens of the longest sequence of the source."""
        return int(self.source.counts.nonzero()[0][-1])


def weigh(whole: LengthHistogram, source: LengthHistogram, max_length: int, depth: int | None) -> Upstream:
    """Weigh the lengths of a data set against those from before it was cut.

    >>> from packlib.advice.upstream import weigh
    >>> from packlib.lengths import LengthHistogram
    >>> data, source = (LengthHistogram.from_lengths(lengths) for lengths in ([3, 8, 8], [3, 8, 12]))
    >>> found = weigh(data, source, max_length=8, depth=None)
    >>> found.overlong, found.lost, found.done, found.packs
    (1, 4, 'cut to it', 3)

    Args:
        max_length, depth: slots of a row and sequences in a pack at most, as advised.
    """
    longest = int(whole.counts.nonzero()[0][-1])
    return Upstream(
        source,
        longest,
        count_cut(source, longest, "truncate")[0],
        source.num_tokens - whole.num_tokens,
        next((_DONE[how] for how in OVERLONG if _gives(source, longest, how, whole)), ""),
        best_plans(cut(source, max_length, "split"), depth)[0].num_packs,
    )


def _gives(source: LengthHistogram, longest: int, overlong: str, whole: LengthHistogram) -> bool:
    """Whether this is what becomes of the source where what is longer is treated so."""
    if overlong == "drop" and not source.counts[: longest + 1].any():
        return False
    return np.array_equal(cut(source, longest, overlong).counts, whole.counts[: longest + 1])
