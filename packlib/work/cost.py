"""How long a pack takes: a matrix product costs the same for each token, attention for each pair of tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from packlib.arguments import as_floats, number, shown, whole_number
from packlib.lengths.counting import as_lengths
from packlib.packing.least_squares import nonnegative_least_squares


@runtime_checkable
class LengthsOfPacks(Protocol):
    """`Packs`, or other rows that keep sequences apart: row `i` has the `lengths[offsets[i]:offsets[i + 1]]`."""

    @property
    def lengths(self) -> np.ndarray: ...
    @property
    def offsets(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Work:
    """A pack's work is `per_token` times its tokens plus `per_square` times the sum of its squared lengths.

    A sequence attends to itself alone, so a pack of 6 and 2 tokens has 36 + 4 pairs, and not 64. The unit is free:
    FLOP, seconds, or anything that is the same for all packs.

    >>> from packlib import plan
    >>> from packlib.work import Work
    >>> work = Work(per_token=10, per_square=1)
    >>> work.of([8, 4, 2, 2])
    array([144.,  56.,  24.,  24.])
    >>> work.of(plan([8, 4, 2, 2], max_length=8).assign([8, 4, 2, 2]))  # a pack of one, and a pack of three
    array([144., 104.])

    Raises:
        TypeError, ValueError: if one is negative, infinite or no number, or both are 0.
    """

    per_token: float
    per_square: float

    def __post_init__(self) -> None:
        for name in ("per_token", "per_square"):
            object.__setattr__(self, name, number(name, getattr(self, name), at_least=0))  # Python's own
        if not self.per_token and not self.per_square:
            raise ValueError("per_token and per_square must not both be 0.")

    @classmethod
    def bert(cls, layers: int = 24, width: int = 1024, feed_forward: int | None = None) -> "Work":
        """Count the FLOP of a BERT's layers, forward.

        A token costs 8 width² + 4 width × feed_forward in each layer, and a pair of tokens 4 width: 2 for the score
        and 2 for the weighted sum (Korthikanti et al. 2022, arXiv 2205.05198, appendix A, which has feed_forward =
        4 width). A backward pass takes twice as much, which changes no ratio.
        """
        layers, width = whole_number("layers", layers, 1), whole_number("width", width, 1)
        inner = 4 * width if feed_forward is None else whole_number("feed_forward", feed_forward, 1)
        return cls(layers * (8 * width**2 + 4 * width * inner), layers * 4 * width)

    @classmethod
    def decoder(
        cls,
        layers: int = 32,
        width: int = 4096,
        feed_forward: int = 14_336,
        heads: int = 32,
        key_value_heads: int = 8,
        head_width: int = 128,
    ) -> "Work":
        """Count a causal decoder's FLOP, forward, with grouped queries and gated feed-forward; by default Llama 3 8B's.

        With q = heads × head_width and v = key_value_heads × head_width, a token costs 2 width (2 q + 2 v) for the
        projections and 6 width × feed_forward for the gated feed-forward's three matrices in each layer. The
        l (l + 1) / 2 pairs of a causal sequence cost 4 q each. The count of matrix products is that of Korthikanti et
        al. 2022 (arXiv 2205.05198, appendix A); the grouped queries are those of Ainslie et al. 2023 (arXiv
        2305.13245), the gate that of Shazeer 2020 (arXiv 2002.05202).
        """
        sizes = dict(layers=layers, width=width, feed_forward=feed_forward, heads=heads, head_width=head_width)
        layers, width, feed_forward, heads, head_width = (whole_number(name, sizes[name], 1) for name in sizes)
        queries, keys = heads * head_width, whole_number("key_value_heads", key_value_heads, 1, heads) * head_width
        layer = 2 * width * (2 * queries + 2 * keys) + 6 * width * feed_forward + 2 * queries
        return cls(layers * layer, layers * 2 * queries)

    @classmethod
    def fitted(cls, tokens: Iterable[int], squares: Iterable[int], seconds: Iterable[float]) -> "Work":
        """Fit the two costs to measured `seconds` (least squares, neither below 0).

        >>> from packlib.work import Work
        >>> fit = Work.fitted(tokens=[8, 8, 4], squares=[64, 24, 16], seconds=[2.08, 1.28, 0.72])
        >>> f"{fit.per_token:.3f} s a token, {fit.per_square:.3f} s a pair"
        '0.100 s a token, 0.020 s a pair'

        Args:
            tokens, squares, seconds: of each measured pack, shape (n,).
        """
        named = {"tokens": tokens, "squares": squares, "seconds": seconds}
        columns = [as_floats(name, column) for name, column in named.items()]
        for name, column in zip(named, columns, strict=True):
            if column.ndim != 1:
                raise ValueError(f"{name} must have one dimension, not the shape {column.shape}.")
        if not len(columns[0]) == len(columns[1]) == len(columns[2]) > 1:
            raise ValueError(f"tokens, squares and seconds must be two or more of each, not {[*map(len, columns)]}.")
        for name, column in zip(named, columns, strict=True):
            if not (np.isfinite(column) & (column >= 0)).all():
                raise ValueError(f"{name} must be at least 0 and finite, not {shown(column.tolist())}.")
        counts = np.stack(columns[:2], axis=1)
        scale = np.maximum(counts.max(axis=0), 1)  # squares would dwarf the tokens
        costs = nonnegative_least_squares(counts / scale, columns[2])
        return cls(*(costs / scale).tolist())

    def of(self, what: LengthsOfPacks | Iterable[int]) -> np.ndarray:
        """Compute the work of each pack of `Packs`, or of each sequence of these lengths; float64, shape (n,).

        Raises:
            TypeError, ValueError: naming the first bad length.
        """
        if isinstance(what, LengthsOfPacks):
            each = what.lengths.astype(np.int64)  # the squares of a pack fit, since its tokens are at most 2^24
            return self.total(*(np.add.reduceat(values, what.offsets[:-1]) for values in (each, each**2)))
        each = as_lengths(what)
        return self.total(each, each.astype(np.float64) ** 2)

    @property
    def in_words(self) -> str:
        """Name of the model that the work is that of, to end a sentence with.

        >>> from packlib.work import Work
        >>> Work(per_token=1000, per_square=2).in_words
        'a model whose attention takes half of the work for a sequence of 500 tokens'
        """
        if not self.per_token or not self.per_square:
            return "a model whose attention takes " + ("all the work" if self.per_square else "no work")
        half = f"half of the work for a sequence of {self.per_token / self.per_square:,.0f} tokens"
        return f"a model whose attention takes {half}" + ", like Llama 3 8B's" * (self == Work.decoder())

    def total(self, tokens: Any, squares: Any) -> Any:
        """Compute the work of packs from tokens and sums of squared lengths: two numbers, or arrays of one shape."""
        with np.errstate(over="ignore"):
            return self.per_token * np.asarray(tokens, np.float64) + self.per_square * np.asarray(squares, np.float64)


def check_work(work: Any) -> None:
    """Refuse, with a TypeError, what is no `Work`."""
    if not isinstance(work, Work):
        raise TypeError(f"work must be Work, not {shown(work)}.")
