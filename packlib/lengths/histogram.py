"""How many sequences have each length: all that a packing plan needs to know of a data set."""

import html
import operator
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.files import atomic_path

_CHUNK = 1 << 20  # lengths are counted a million at a time, so that memory stays bounded
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, eq=False)
class LengthHistogram:
    """`counts[l]` sequences have `l` tokens, for `l` from 0 to `max_length`.

    Attributes:
        counts: int64, shape (max_length + 1,); `counts[0]` is 0, since an empty sequence has nothing to train on.
        name: what the data is called in tables and figures.
        max_length: the length of a pack, in tokens; by default the last index of `counts`.
        kind: "measured", "reconstruction" or "synthetic"; shown wherever the histogram is shown.
        source: where the numbers come from.
        truncated, dropped: sequences that were longer than `max_length` and were cut, or left out.

    Raises:
        TypeError, ValueError: if the counts are not whole numbers, are negative, or overflow.
    """

    counts: np.ndarray
    name: str = "lengths"
    max_length: int | None = None
    kind: str = "measured"
    source: str = ""
    truncated: int = 0
    dropped: int = 0
    num_sequences: int = field(init=False)
    num_tokens: int = field(init=False)

    def __post_init__(self):
        counts = np.asarray(self.counts)
        if counts.ndim != 1:
            raise ValueError(f"counts must have one dimension, not the shape {counts.shape}.")
        if counts.dtype.kind not in "iu":
            bad = next((c for c in counts.tolist() if not isinstance(c, int)), counts.dtype)
            raise TypeError(f"counts must be whole numbers that fit in 64 bits, not {bad!r}.")
        if counts.dtype == np.uint64 and counts.size and int(counts.max()) > _INT64_MAX:
            raise ValueError(f"counts must fit in 64 bits with sign, not {int(counts.max())}.")
        counts = counts.astype(np.int64)
        if (counts < 0).any():
            length = int(np.flatnonzero(counts < 0)[0])
            raise ValueError(f"A count cannot be negative, but length {length} has {counts[length]}.")
        if counts.size and counts[0]:
            raise ValueError(f"Lengths start at 1, but {counts[0]} sequences have length 0.")
        used = np.flatnonzero(counts)
        if used.size == 0:
            raise ValueError("The histogram holds no sequence; it needs at least one.")
        longest = int(used[-1])
        top = len(counts) - 1 if self.max_length is None else whole_number("max_length", self.max_length, 1)
        if longest > top:
            raise ValueError(f"Length {longest} is over the maximum length {top}.")
        whole = np.zeros(top + 1, np.int64)
        whole[: longest + 1] = counts[: longest + 1]
        whole.flags.writeable = False
        nonzero = list(zip(used.tolist(), whole[used].tolist(), strict=True))
        tokens = sum(length * count for length, count in nonzero)  # Python integers cannot overflow
        if tokens > _INT64_MAX:
            raise ValueError(f"The histogram holds {tokens} tokens; at most {_INT64_MAX} fit in 64 bits.")
        one_of("kind of histogram", self.kind, ("measured", "reconstruction", "synthetic"))
        for name, value in (
            ("counts", whole),
            ("max_length", top),
            ("num_sequences", sum(count for _, count in nonzero)),
            ("num_tokens", tokens),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_lengths(
        cls, lengths: Iterable[int], max_length: int | None = None, overlong: str = "error", **fields
    ) -> "LengthHistogram":
        """Count `lengths` (any sequence or array of whole numbers, in tokens).

        Args:
            max_length: the length of a pack; by default the longest length.
            overlong: what to do with a longer sequence: "error", "truncate" it to `max_length`, or "drop" it.
            fields: `name`, `kind`, `source` of the histogram.

        Raises:
            TypeError, ValueError: naming the first bad length and its position.
        """
        one_of("way to treat overlong sequences", overlong, ("error", "truncate", "drop"))
        lengths = as_lengths(lengths)
        longest = int(lengths.max())
        top = longest if max_length is None else whole_number("max_length", max_length, 1)
        over = 0
        if longest > top:
            over = int(np.count_nonzero(lengths > top))
            if overlong == "error":
                at = int(np.argmax(lengths > top))
                raise ValueError(
                    f"Length {int(lengths[at])} at position {at} is over the maximum length {top}: "
                    'pass overlong="truncate" or "drop", or a larger max_length.'
                )
        counts = np.zeros(top + 1, np.int64)
        for start in range(0, lengths.size, _CHUNK):
            chunk = lengths[start : start + _CHUNK]
            if over:
                chunk = np.minimum(chunk, top) if overlong == "truncate" else chunk[chunk <= top]
            counts += np.bincount(chunk.astype(np.intp, copy=False), minlength=top + 1)
        lost = {"truncate": {"truncated": over}, "drop": {"dropped": over}}.get(overlong, {})
        return cls(counts, max_length=top, **{**fields, **lost})

    @classmethod
    def from_csv(cls, path: str | os.PathLike, max_length: int | None = None, **fields) -> "LengthHistogram":
        """Read `length,count` lines (a header is welcome; the order is free).

        Raises:
            ValueError: naming the file and the line that is wrong.
        """
        path = Path(path)
        rows: dict[int, int] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
            text = line.strip()
            if (
                not text
                or text.startswith("#")
                or (not rows and text.replace(" ", "").lower() == "length,count")
            ):
                continue
            try:
                length, count = map(int, text.split(","))
            except ValueError:
                raise ValueError(
                    f'{path}, line {number}: expected "length,count", not {text[:80]!r}.'
                ) from None
            if length < 1 or count < 0 or count > _INT64_MAX or length in rows:
                raise ValueError(
                    f"{path}, line {number}: lengths are at least 1 and come once, "
                    f"counts fit in 64 bits and are not negative, not {text[:80]!r}."
                )
            rows[length] = count
        if not rows:
            raise ValueError(f"{path} holds no length.")
        counts = np.zeros(max(rows) + 1, np.int64)
        counts[list(rows)] = list(rows.values())
        return cls(
            counts, **{"name": path.stem, "max_length": max_length, "source": str(path.name), **fields}
        )

    def to_csv(self, path: str | os.PathLike) -> None:
        """Write `length,count` lines for every length that occurs; the file is whole or not there."""
        used = np.flatnonzero(self.counts)
        lines = ["length,count", *(f"{length},{self.counts[length]}" for length in used)]
        with atomic_path(path) as beside:
            beside.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __add__(self, other: "LengthHistogram") -> "LengthHistogram":
        """The histogram of both data sets together; the larger maximum length holds."""
        if not isinstance(other, LengthHistogram):
            return NotImplemented
        top = max(self.max_length, other.max_length)
        counts = np.zeros(top + 1, object)  # objects, so that an overflow is seen and not wrapped
        for part in (self, other):
            counts[: len(part.counts)] += part.counts.astype(object)
        if max(counts) > _INT64_MAX:
            raise ValueError(f"A count of {max(counts)} does not fit in 64 bits.")
        kinds = {self.kind, other.kind}
        return LengthHistogram(
            counts.astype(np.int64),
            name=self.name if self.name == other.name else f"{self.name} + {other.name}",
            kind=next(k for k in ("synthetic", "reconstruction", "measured") if k in kinds),
            source="; ".join(dict.fromkeys(s for s in (self.source, other.source) if s)),
            truncated=self.truncated + other.truncated,
            dropped=self.dropped + other.dropped,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LengthHistogram) and np.array_equal(self.counts, other.counts)

    __hash__ = None

    @property
    def mean_length(self) -> float:
        """Tokens in an average sequence."""
        return self.num_tokens / self.num_sequences

    @property
    def padding_fraction(self) -> float:
        """Share of the slots that are padding when every sequence is padded to `max_length`."""
        return 1 - self.num_tokens / (self.num_sequences * self.max_length)

    @property
    def max_packing_factor(self) -> float:
        """The most sequences a pack can hold on average: `max_length / mean_length`, when no slot is wasted."""
        return self.max_length * self.num_sequences / self.num_tokens

    def expand(self) -> np.ndarray:
        """Every sequence's length, in ascending order; int64, shape (num_sequences,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def __repr__(self) -> str:
        mark = "" if self.kind == "measured" else f", {self.kind}"
        lost = "".join(
            f", {n:,} {word}" for n, word in ((self.truncated, "truncated"), (self.dropped, "dropped")) if n
        )
        return (
            f"LengthHistogram({self.name}{mark}: {self.num_sequences:,} sequences, {self.num_tokens:,} tokens, "
            f"maximum {self.max_length}, mean {self.mean_length:.1f}, padding {self.padding_fraction:.1%}, "
            f"best packing factor {self.max_packing_factor:.3f}{lost})"
        )

    def _repr_html_(self) -> str:
        bins = min(64, self.max_length)
        heights = np.bincount(
            np.minimum(np.arange(1, self.max_length + 1) * bins // (self.max_length + 1), bins - 1),
            weights=self.counts[1:],
        )
        scale = 40 / heights.max()
        bars = "".join(
            f'<rect x="{4 * i}" y="{40 - h * scale:.1f}" width="3" height="{h * scale:.1f}" fill="#0072B2"/>'
            for i, h in enumerate(heights)
        )
        text = html.escape(repr(self).removeprefix("LengthHistogram(").removesuffix(")"))
        label = html.escape(f"Histogram of the lengths 1 to {self.max_length} of {self.name}")
        return (
            f'<div><svg role="img" aria-label="{label}" width="{4 * bins}" height="42">{bars}</svg>'
            f"<div>{text}</div></div>"
        )


def as_lengths(lengths: Iterable[int]) -> np.ndarray:
    """Check lengths in tokens and return them as an integer array, shape (n,); no copy if they are one already.

    Raises:
        TypeError, ValueError: if there are none, or naming the first that is fractional, NaN, zero or negative.
    """
    array = lengths if isinstance(lengths, np.ndarray) else np.asarray(list(lengths))
    if array.ndim != 1:
        raise ValueError(f"lengths must have one dimension, not the shape {array.shape}.")
    if array.size == 0:
        raise ValueError("There are no lengths; at least one is needed.")
    if array.dtype.kind not in "iu":
        for at, value in enumerate(array.tolist()):
            try:
                operator.index(value)
            except TypeError:
                raise TypeError(
                    f"Length {value!r} at position {at} is not a whole number of tokens."
                ) from None
        raise ValueError(f"A length does not fit in 64 bits; the longest is {max(array.tolist())}.")
    if int(array.min()) < 1:
        at = int(np.argmax(array < 1))
        raise ValueError(f"Length {int(array[at])} at position {at} is not allowed: lengths start at 1.")
    return array
