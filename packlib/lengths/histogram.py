"""Histograms of lengths: how many sequences have each length, which is all that a plan needs to know of a data set."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from packlib.arguments import escaped, in_html, one_line, one_of, percent, text, whole_number
from packlib.files import atomic_path, has_exactly, naming, naming_text, parse_json, read_text, write_text
from packlib.lengths.counting import (
    INT64_MAX,
    MAX_LENGTH,
    WAYS_OUT,
    Place,
    as_int64,
    count_lengths,
    exact_dot,
    position,
)
from packlib.lengths.overlong import OVERLONG, Overlong
from packlib.lengths.own_files import read_counts

Kind = Literal["measured", "reconstruction", "synthetic"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_ABOUT = ("name", "kind", "source", "max_length", "truncated", "dropped")  # attributes beside the counts


@dataclass(frozen=True, eq=False, init=False)  # it takes lists of counts, too, and holds an array
class LengthHistogram:
    """`counts[l]` sequences have `l` tokens, for `l` from 0 to `max_length`.

    Attributes:
        counts: int64, shape (max_length + 1,); `counts[0]` is 0, for an empty sequence trains nothing.
        name: what the data is called in tables and figures; kept on one line, shortened if it is long.
        max_length: the length of a pack, in tokens; by default the last index of `counts`.
        kind: "measured", "reconstruction" or "synthetic"; shown wherever the histogram is shown.
        source: where the numbers come from.
        truncated, dropped: how many sequences were longer than `max_length` and were cut, or left out.
        num_sequences, num_tokens: the sums over all counts.

    Two histograms are equal if all of these are: with other sequences cut or left out, `assign` chooses other samples.

    Raises:
        TypeError, ValueError: if a count is no whole number or negative, if the tokens do not fit in 64 bits,
            or if another attribute is not as described.

    >>> from packlib import LengthHistogram
    >>> three = LengthHistogram([0, 0, 1, 2], name="mine", max_length=8)  # one of length 2, two of length 3
    >>> three.num_sequences, three.num_tokens, three.max_length
    (3, 8, 8)
    >>> LengthHistogram.from_json(three.to_json()) == three
    True
    """

    counts: np.ndarray
    name: str
    max_length: int
    kind: Kind
    source: str
    truncated: int
    dropped: int
    num_sequences: int = field(init=False)
    num_tokens: int = field(init=False)

    def __init__(
        self,
        counts: Iterable[int],
        name: str = "lengths",
        max_length: int | None = None,
        kind: Kind = "measured",
        source: str = "",
        truncated: int = 0,
        dropped: int = 0,
    ) -> None:
        counts = as_int64(counts, "Count", "length {}".format)
        if (counts < 0).any():
            length = int(np.flatnonzero(counts < 0)[0])
            raise ValueError(f"A count cannot be negative, but length {length} has {counts[length]}.")
        if counts.size and counts[0]:
            raise ValueError(f"Lengths start at 1, but {counts[0]} sequences have length 0.")
        occurring = np.flatnonzero(counts)
        if occurring.size == 0:
            raise ValueError("The histogram holds no sequence; it needs at least one.")
        longest = int(occurring[-1])
        max_length = whole_number("max_length", len(counts) - 1 if max_length is None else max_length, 1, MAX_LENGTH)
        if longest > max_length:
            raise ValueError(f"Length {longest} is over the maximum length {max_length}.")
        counts = np.pad(counts[: max_length + 1], (0, max(0, max_length + 1 - len(counts))))  # shape (max_length + 1,)
        counts.flags.writeable = False
        tokens = exact_dot(counts[occurring], occurring)
        if tokens > INT64_MAX:
            raise ValueError(f"The histogram holds {tokens} tokens; at most {INT64_MAX} fit in 64 bits.")
        attributes = {
            "counts": counts,
            "name": one_line(text("name", name)),
            "max_length": max_length,
            "kind": one_of("kind", kind, KINDS),
            "source": text("source", source),
            "truncated": whole_number("truncated", truncated, 0, INT64_MAX),
            "dropped": whole_number("dropped", dropped, 0, INT64_MAX),
            "num_sequences": int(counts.sum()),  # no more than tokens
            "num_tokens": tokens,
        }
        for attribute, value in attributes.items():
            object.__setattr__(self, attribute, value)

    @classmethod
    def from_lengths(
        cls, lengths: Iterable[int], max_length: int | None = None, overlong: Overlong = "error", **fields: Any
    ) -> "LengthHistogram":
        """Make the histogram of these lengths.

        >>> from packlib import LengthHistogram
        >>> LengthHistogram.from_lengths([5, 3, 3, 2, 8]).counts
        array([0, 0, 1, 2, 0, 1, 0, 0, 1])
        >>> LengthHistogram.from_lengths([5, 3, 9], max_length=8, overlong="truncate").truncated
        1

        Args:
            lengths: whole numbers, in tokens: an array, a list or another iterable.
            max_length: the length of a pack; by default the longest length.
            overlong: what to do with a longer sequence: refuse it as an "error", "truncate" it to `max_length`, "drop"
                it, or "split" it into full rows and a remainder, each of which counts as a sequence from then on; see
                `packlib.lengths.overlong`.
            fields: `name`, `kind`, `source` of the histogram.

        Raises:
            TypeError, ValueError: naming the first bad length and its position.
        """
        return cls.from_chunks([lengths], max_length, overlong, **fields)

    @classmethod
    def from_chunks(
        cls,
        chunks: Iterable[Iterable[int]],
        max_length: int | None = None,
        overlong: Overlong = "error",
        place: Place = position,
        **fields: Any,
    ) -> "LengthHistogram":
        """Make the histogram of lengths that come as a stream of chunks; only one chunk is in memory at a time.

        Args:
            chunks: the lengths, in any division.
            max_length, overlong, fields: as in `from_lengths`.
            place: makes the words for a length's place in an error, from its index among all lengths.
        """
        one_of("overlong", overlong, OVERLONG)
        if max_length is not None:
            max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
        counts, num_over = count_lengths(chunks, max_length, overlong, place)
        cut_or_left_out = {"truncate": {"truncated": num_over}, "drop": {"dropped": num_over}}.get(overlong, {})
        return cls(counts, **{**fields, **cut_or_left_out})

    def with_max_length(self, max_length: int, overlong: Overlong = "error") -> "LengthHistogram":
        """Return a histogram of the same sequences for another length of a pack; `overlong` as in `from_lengths`.

        >>> from packlib import LengthHistogram
        >>> LengthHistogram.from_lengths([3, 9, 4, 6]).with_max_length(4, overlong="split").expand()
        array([1, 2, 3, 4, 4, 4, 4])

        Raises:
            ValueError: if a sequence is longer and `overlong` is "error", or if all are longer and it is "drop".
        """
        one_of("overlong", overlong, OVERLONG)
        max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
        counts = self.counts[: max_length + 1].copy()
        num_over = int(self.counts[max_length + 1 :].sum())
        if num_over and overlong == "error":
            longest = np.flatnonzero(self.counts)[-1]
            raise ValueError(
                f"{num_over} sequences of {self.name}, the longest of {longest} tokens, are over the maximum length "
                f"{max_length}: {WAYS_OUT}"
            )
        if overlong == "drop" and not counts.any():
            all_longer = f"All {num_over:,} sequences of {self.name} are longer than {max_length} tokens"
            raise ValueError(f'{all_longer}: overlong="drop" leaves none.')
        if overlong == "truncate":
            counts[-1] += num_over
        if num_over and overlong == "split":
            lengths = np.flatnonzero(self.counts)
            longer = lengths[lengths > max_length]
            np.add.at(counts, longer % max_length, self.counts[longer])  # remainders
            counts[0] = 0  # those of sequences that fill their last row
            counts[max_length] += (longer // max_length) @ self.counts[longer]  # full rows
        truncated = self.truncated + num_over * (overlong == "truncate")
        dropped = self.dropped + num_over * (overlong == "drop")
        return replace(self, counts=counts, max_length=max_length, truncated=truncated, dropped=dropped)

    @classmethod
    def from_csv(
        cls, path: str | os.PathLike[str], max_length: int | None = None, overlong: Overlong = "error", **fields: Any
    ) -> "LengthHistogram":
        """Read `length,count` lines (a header is welcome; the order is free); arguments as in `from_lengths`.

        Raises:
            FileNotFoundError, ValueError: naming the file and the line that is wrong.
        """
        counts = read_counts(path)
        with naming(path, "histogram of lengths"):
            histogram = cls(counts, **{"name": Path(path).stem, "source": Path(path).name, **fields})
        return histogram if max_length is None else histogram.with_max_length(max_length, overlong)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write `length,count` lines for the lengths that occur and `max_length`; whole or not at all.

        `from_csv` gives the counts and `max_length` back; it does not know the name, the kind and the source.
        """
        lengths = np.union1d(np.flatnonzero(self.counts), self.max_length)
        with atomic_path(path) as partial:
            rows = np.stack([lengths, self.counts[lengths]], axis=1)
            np.savetxt(partial, rows, "%d", ",", header="length,count", comments="")

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes, and the counts of the lengths that occur, as JSON holds them."""
        lengths = np.flatnonzero(self.counts)
        about = {name: getattr(self, name) for name in _ABOUT}
        return about | {"lengths": lengths.tolist(), "counts": self.counts[lengths].tolist()}

    @classmethod
    def from_dict(cls, raw: Any) -> "LengthHistogram":
        """Read a histogram that `as_dict` wrote; nothing is rounded or guessed.

        Raises:
            TypeError, ValueError: with the first thing that is wrong.
        """
        has_exactly(raw, "A histogram", {*_ABOUT, "lengths", "counts"})
        max_length = whole_number("max_length", raw["max_length"], 1, MAX_LENGTH)
        lengths, counts = as_int64(raw["lengths"], "Length"), as_int64(raw["counts"], "Count")
        if len(lengths) != len(counts):
            raise ValueError(f"The histogram has {len(lengths)} lengths, but {len(counts)} counts.")
        if any(length >= longer for length, longer in pairwise([0, *lengths.tolist(), max_length + 1])):
            raise ValueError(f"The lengths of the histogram must ascend from 1 to at most {max_length}.")
        all_counts = np.zeros(max(lengths.tolist(), default=0) + 1, np.int64)
        all_counts[lengths] = counts
        return cls(all_counts, **{name: raw[name] for name in _ABOUT})

    def to_json(self) -> str:
        """Write the histogram as JSON text, with all that is known about it."""
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> "LengthHistogram":
        """Read a histogram that `to_json` wrote; nothing is rounded or guessed.

        Raises:
            ValueError: if it is no valid histogram, with the first thing that is wrong.
        """
        with naming_text("histogram of lengths"):
            return cls.from_dict(parse_json(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the histogram as JSON, whole or not at all."""
        write_text(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "LengthHistogram":
        """Read what `save` wrote.

        Raises:
            FileNotFoundError, ValueError: naming the file and what is wrong.
        """
        with naming(path, "histogram of lengths") as file:
            return cls.from_dict(parse_json(read_text(file)))

    def __eq__(self, other: object) -> bool:
        """Compare all attributes, so that equal histograms can stand for each other."""
        has_same_counts = isinstance(other, LengthHistogram) and np.array_equal(self.counts, other.counts)
        return has_same_counts and self._about() == cast(LengthHistogram, other)._about()

    def __hash__(self) -> int:
        return hash((self.counts.tobytes(), *self._about()))

    def _about(self) -> list[Any]:
        """Return all attributes beside the counts, in the order of `_ABOUT`."""
        return [getattr(self, name) for name in _ABOUT]

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
        """Sequences in an average pack when no slot is wasted: `max_length / mean_length`."""
        return self.max_length * self.num_sequences / self.num_tokens

    def expand(self) -> np.ndarray:
        """List every sequence's length, in ascending order; int64, shape (num_sequences,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def __repr__(self) -> str:
        mark = "" if self.kind == "measured" else f", {self.kind}"
        cut_or_left_out = {"truncated": self.truncated, "dropped": self.dropped}
        in_words = "".join(f", {count:,} {word}" for word, count in cut_or_left_out.items() if count)
        return (
            f"LengthHistogram({self.name}{mark}: {self.num_sequences:,} sequences, "
            f"{self.num_tokens:,} tokens, maximum {self.max_length}, mean {self.mean_length:.1f}, "
            f"padding {percent(self.padding_fraction)}, best packing factor {self.max_packing_factor:.3f}{in_words})"
        )

    def _repr_html_(self) -> str:
        bins = min(64, self.max_length)
        bin_of_length = np.arange(self.max_length + 1) * bins // (self.max_length + 1)
        sequences_in_bins = np.bincount(bin_of_length, weights=self.counts)
        heights = sequences_in_bins * (40 / sequences_in_bins.max())  # pixels
        bars = "".join(
            f'<rect x="{4 * i}" y="{40 - height:.1f}" width="3" height="{height:.1f}" fill="#0072B2"/>'
            for i, height in enumerate(heights)
        )
        text = in_html(repr(self).removeprefix("LengthHistogram(").removesuffix(")"))
        label = escaped(f"Histogram of the lengths 1 to {self.max_length} of {self.name}")
        picture = f'<svg role="img" aria-label="{label}" width="{4 * bins}" height="42">{bars}</svg>'
        return f"<div>{picture}<div>{text}</div></div>"
