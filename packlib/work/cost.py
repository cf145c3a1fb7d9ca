"""The work of a pack: matrix products cost the same for each token, attention the same for each pair of tokens."""

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
    """Cost model of a pack: `per_token` times its tokens, plus `per_square` times the sum of its squared lengths.

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
        TypeError, ValueError: if a cost is negative, infinite or no number, or both are 0.
    """

    per_token: float
    per_square: float

    def __post_init__(self) -> None:
        for name in ("per_token", "per_square"):
            object.__setattr__(self, name, number(name, getattr(self, name), at_least=0))  # a float of Python
        if not self.per_token and not self.per_square:
            raise ValueError("per_token and per_square must not both be 0.")

    @classmethod
    def bert(cls, layers: int = 24, width: int = 1024, feed_forward: int | None = None) -> "Work":
        """Count the FLOP of a BERT's layers in the forward pass.

        A token costs 8 width² + 4 width × feed_forward in each layer, and a pair of tokens 4 width: 2 for the score
        and 2 for the weighted sum (Korthikanti et al. 2022, arXiv 2205.05198, appendix A, which has feed_forward =
        4 width). A backward pass takes twice as much, which changes no ratio.
        """
        layers = whole_number("layers", layers, 1)
        width = whole_number("width", width, 1)
        feed_forward = 4 * width if feed_forward is None else whole_number("feed_forward", feed_forward, 1)
        return cls(per_token=layers * (8 * width**2 + 4 * width * feed_forward), per_square=layers * 4 * width)

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
        """Count the FLOP of a causal decoder's layers in the forward pass; by default those of Llama 3 8B.

        The decoder has grouped queries and a gated feed-forward. With q = heads × head_width and v = key_value_heads ×
        head_width, a token costs 2 width (2 q + 2 v) for the projections and 6 width × feed_forward for the gated
        feed-forward's three matrices in each layer. The l (l + 1) / 2 pairs of a causal sequence cost 4 q each.

        The count of matrix products is that of Korthikanti et al. 2022 (arXiv 2205.05198, appendix A); the grouped
        queries are those of Ainslie et al. 2023 (arXiv 2305.13245), the gate that of Shazeer 2020 (arXiv 2002.05202).
        """
        sizes = dict(layers=layers, width=width, feed_forward=feed_forward, heads=heads, head_width=head_width)
        layers, width, feed_forward, heads, head_width = (whole_number(name, sizes[name], 1) for name in sizes)
        key_value_heads = whole_number("key_value_heads", key_value_heads, 1, heads)
        query_width = heads * head_width
        value_width = key_value_heads * head_width
        projections = 2 * width * (2 * query_width + 2 * value_width)
        # a sequence of l tokens has l (l + 1) / 2 = l² / 2 + l / 2 pairs, each for 4 query_width
        per_square = 2 * query_width
        per_token = projections + 6 * width * feed_forward + 2 * query_width
        return cls(layers * per_token, layers * per_square)

    @classmethod
    def fitted(cls, tokens: Iterable[int], squares: Iterable[int], seconds: Iterable[float]) -> "Work":
        """Fit the two costs to measured seconds, by least squares with no cost below 0.

        >>> from packlib.work import Work
        >>> fit = Work.fitted(tokens=[8, 8, 4], squares=[64, 24, 16], seconds=[2.08, 1.28, 0.72])
        >>> f"{fit.per_token:.3f} s a token, {fit.per_square:.3f} s a pair"
        '0.100 s a token, 0.020 s a pair'

        Args:
            tokens: number of tokens of each measured pack, shape (n,).
            squares: sum of the squared lengths of each pack, same shape.
            seconds: measured time of each pack, same shape.
        """
        arguments = {"tokens": tokens, "squares": squares, "seconds": seconds}
        columns = {name: as_floats(name, values) for name, values in arguments.items()}
        for name, column in columns.items():
            if column.ndim != 1:
                raise ValueError(f"{name} must have one dimension, not the shape {column.shape}.")
        sizes = [*map(len, columns.values())]
        if min(sizes) < 2 or len(set(sizes)) > 1:
            raise ValueError(f"tokens, squares and seconds must be two or more of each, not {sizes}.")
        for name, column in columns.items():
            if not (np.isfinite(column) & (column >= 0)).all():
                raise ValueError(f"{name} must be at least 0 and finite, not {shown(column.tolist())}.")
        tokens_and_squares = np.stack([columns["tokens"], columns["squares"]], axis=1)
        scale = np.maximum(tokens_and_squares.max(axis=0), 1)  # squares are far larger numbers than tokens
        per_token, per_square = nonnegative_least_squares(tokens_and_squares / scale, columns["seconds"]) / scale
        return cls(float(per_token), float(per_square))

    def of(self, what: LengthsOfPacks | Iterable[int]) -> np.ndarray:
        """Compute the work of each pack, or of each sequence if it were alone.

        Args:
            what: `Packs`, or other rows that keep sequences apart; or the lengths of sequences.

        Returns:
            float64, shape (number of packs,) or (number of sequences,).

        Raises:
            TypeError, ValueError: naming the first bad length.
        """
        if isinstance(what, LengthsOfPacks):
            lengths = what.lengths.astype(np.int64)  # a sum of squares fits, since a pack has at most 2^24 tokens
            tokens = np.add.reduceat(lengths, what.offsets[:-1])
            squares = np.add.reduceat(lengths**2, what.offsets[:-1])
            return self.total(tokens, squares)
        lengths = as_lengths(what)
        return self.total(lengths, lengths.astype(np.float64) ** 2)

    @property
    def in_words(self) -> str:
        """Words for a model that has this work, to end a sentence with.

        >>> from packlib.work import Work
        >>> Work(per_token=1000, per_square=2).in_words
        'a model whose attention takes half of the work for a sequence of 500 tokens'
        """
        if not self.per_token or not self.per_square:
            return "a model whose attention takes " + ("all the work" if self.per_square else "no work")
        half = f"half of the work for a sequence of {self.per_token / self.per_square:,.0f} tokens"
        like_llama = ", like Llama 3 8B's" if self == Work.decoder() else ""
        return f"a model whose attention takes {half}{like_llama}"

    def total(self, tokens: Any, squares: Any) -> Any:
        """Compute the work of packs from tokens and sums of squared lengths: two numbers, or arrays of one shape."""
        with np.errstate(over="ignore"):  # too much work is infinite, which callers refuse
            return self.per_token * np.asarray(tokens, np.float64) + self.per_square * np.asarray(squares, np.float64)


def check_work(work: Any) -> None:
    """Raise a TypeError unless `work` is a `Work`."""
    if not isinstance(work, Work):
        raise TypeError(f"work must be Work, not {shown(work)}.")
