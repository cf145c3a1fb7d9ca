"""What became of the sequences of a source: by their content where both sides have tokens, else by their lengths."""

from dataclasses import dataclass

import numpy as np

from packlib.checks import percent
from packlib.lengths import LengthHistogram

_NOTHING = "nothing was lost, cut or repeated"


@dataclass(frozen=True)
class SourceComparison:
    """The packed sequences beside those of the source: by their content if both have tokens, else by their lengths.

    Attributes:
        sequences, tokens: of the source.
        tokens_lost, tokens_added: tokens that the packs have fewer or more than the source.
        sequences_lost: sequences of the source with no token in any pack, at least.
        sequences_not_whole: sequences of the source that no pack holds in one piece: cut, split, changed or lost. By
            lengths, at least so many.
        pieces_or_repeats: packed sequences that are no sequence of the source: pieces, changed ones, or those that come
            again. By lengths, at least so many.
        as_if: the one simple cause that gives these lengths exactly; empty if there is none.
        repeats: packed sequences that come again; None by lengths.
        first_missing: the first of the source, counted from 0, that is not whole; None if all are, or by lengths.

    The sequences are None where the packs do not tell them apart.
    """

    sequences: int
    tokens: int
    tokens_lost: int
    tokens_added: int
    sequences_lost: int | None
    sequences_not_whole: int | None
    pieces_or_repeats: int | None
    as_if: str
    repeats: int | None = None
    first_missing: int | None = None

    @property
    def problems(self) -> list[str]:
        """What differs, in one sentence or none."""
        least = "or more " * (self.repeats is None)
        counts = {
            f"tokens of {self.tokens:,} in no pack ({percent(self.tokens_lost / self.tokens, 2)})": self.tokens_lost,
            "tokens more than there were": self.tokens_added,
            "or more sequences in no pack": self.sequences_lost,
            f"{least}sequences not whole in any pack": self.sequences_not_whole,
            f"{least}pieces or repeats": self.pieces_or_repeats,
        }
        said = [f"{count:,} {what}" for what, count in counts.items() if count]
        as_if = f" It is as if {self.as_if}." * bool(self.as_if)
        if self.as_if == _NOTHING and said:
            as_if = (
                " The lengths are all there: other sequences of the same lengths are, or their tokens were changed."
            )
        first = f" The first that is not whole is sequence {self.first_missing}." * (self.first_missing is not None)
        return [f"Beside the source: {', '.join(said)}.{as_if}{first}"] if said else []

    @property
    def unknown(self) -> list[str]:
        """What cannot be told."""
        if self.problems or self.sequences_not_whole is not None:
            return []
        return ["There are as many tokens as in the source; which sequences were cut cannot be told."]

    @property
    def notes(self) -> list[str]:
        """What may be said where nothing differs."""
        if self.problems or self.unknown:
            return []
        if self.repeats is not None:
            return ["Each sequence of the source is there once, with all its tokens."]
        return [
            "Each length is there as often as in the source: by the lengths, nothing was lost, cut or repeated. That "
            "these are the same sequences cannot be seen without tokens on both sides."
        ]


def compare(
    source: LengthHistogram,
    tokens: int,
    sequences: int | None,
    counts: np.ndarray | None,
    contents: tuple[np.ndarray, np.ndarray] | None,
) -> SourceComparison:
    """The packed sequences beside those of the source.

    Args:
        tokens, sequences, counts: of the packs, the last by length; None where they do not tell sequences apart.
        contents: a hash of each sequence of the source, and of each of the packs; None if one side has no tokens.
    """
    added = tokens - source.num_tokens
    totals = source.num_sequences, source.num_tokens, max(0, -added), max(0, added)
    if counts is None or sequences is None:
        return SourceComparison(*totals, None, None, None, "")
    size = max(len(source.counts), len(counts))
    before, after = (np.pad(some, (0, size - len(some))) for some in (source.counts, counts))
    lost, as_if = max(0, source.num_sequences - sequences), _as_if(before, after, len(counts) - 1)
    if contents is None:
        whole = int(np.minimum(before, after).sum())
        return SourceComparison(*totals, lost, source.num_sequences - whole, sequences - whole, as_if)
    not_whole, extra, again, first = _by_content(*contents)
    return SourceComparison(*totals, lost, not_whole, extra, as_if, again, first)


def _by_content(before: np.ndarray, after: np.ndarray) -> tuple[int, int, int, int | None]:
    """How many of the source are whole in no pack, how many packed ones are more than the source has, and how many
    of these come again; and the first of the source that is missing.
    """
    kinds, inverse = np.unique(np.concatenate([before, after]), return_inverse=True)
    had, has = (np.bincount(part, minlength=len(kinds)) for part in (inverse[: len(before)], inverse[len(before) :]))
    missing, more = np.maximum(had - has, 0), np.maximum(has - had, 0)
    first = int((missing[inverse[: len(before)]] > 0).argmax()) if missing.any() else None
    return int(missing.sum()), int(more.sum()), int(more[had > 0].sum()), first


def _as_if(before: np.ndarray, after: np.ndarray, top: int) -> str:
    """What gives the lengths `after` from those `before` exactly; `top` is the longest of `after`."""
    lengths = np.arange(len(before))
    over, kept = before * (lengths > top), before * (lengths <= top)
    pieces = kept.copy()
    np.add.at(pieces, lengths % top, over)
    pieces[0], long = 0, int(over.sum())
    pieces[top] += int((over * (lengths // top)).sum())
    times = max(1, int(after.sum()) // int(before.sum()))
    causes = {
        _NOTHING: before,
        f"each sequence came {times} times": before * times,
        f"the {long:,} longer than {top:,} were cut to it": kept + long * (lengths == top),
        f"the {long:,} longer than {top:,} were split into pieces of it": pieces,
        f"the {long:,} longer than {top:,} were left out": kept,
    }
    return next((cause for cause, counts in causes.items() if np.array_equal(counts, after)), "")
