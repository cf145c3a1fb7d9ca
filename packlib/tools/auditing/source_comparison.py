"""What became of the sequences of a source: by their content where both sides have tokens, else by their lengths."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from packlib.arguments import percent
from packlib.tools.auditing.audited_source import Cut, ReadSource
from packlib.tools.auditing.bare_rows import TokensBeside
from packlib.tools.auditing.contents import Contents
from packlib.tools.auditing.label_comparison import LabelDifference, differences, equal
from packlib.tools.auditing.multisets import without_partner

_NOTHING = "nothing was lost, cut or repeated"
_AS_IF_CUT = {" were cut to it": "truncate", " pieces of it": "split", " were left out": "drop"}  # how `as_if` ends
_MEANT = {  # what a rule does to longer sequences, in words
    "split": "are split into pieces of {:,}",
    "truncate": "are cut to {:,} tokens",
    "drop": "of more than {:,} tokens are left out",
}


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
        cut: what of the source need not be in the packs, since it was too long; None if nothing was said of that. All
            numbers above but the first two are beside what the packs should hold then.
        labels: where the packs train on other tokens than the source; None if that could not be compared.
        by_token: how often each token is there, where nothing in the packs tells where sequences begin.
        first_other: the first sequence of the source with other tokens in the packs, if these have its order.

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
    cut: Cut | None = None
    labels: tuple[LabelDifference, ...] | None = None
    by_token: TokensBeside | None = None
    first_other: int | None = None

    @property
    def problems(self) -> list[str]:
        """Say what differs, in sentences."""
        return self._tokens + self._labels + [difference.sentence for difference in self.labels or ()]

    @property
    def labels_lost(self) -> int:
        """Tokens that the packs train on less often than the source, where sequences cannot be told apart."""
        return self.by_token.labels_lost.times if self.by_token and self.labels is None else 0

    @property
    def labels_added(self) -> int:
        """Tokens that the packs train on more often than the source, where sequences cannot be told apart."""
        return self.by_token.labels_added.times if self.by_token and self.labels is None else 0

    @property
    def _labels(self) -> list[str]:
        """Say how many labels are missing or added where sequences cannot be told apart; one sentence or none."""
        if self.by_token is None or not (self.labels_lost or self.labels_added):
            return []
        share = percent(self.labels_lost / max(1, self.by_token.labels), 2)
        counts = {
            f"{self.labels_lost:,} fewer labels of {self.by_token.labels:,} ({share})": self.by_token.labels_lost,
            f"{self.labels_added:,} more labels than there were": self.by_token.labels_added,
        }
        parts = [f"{phrase}, {tokens}" for phrase, tokens in counts.items() if tokens.times]
        return [f"Labels differ from the source: {'; '.join(parts)}."]

    @property
    def _tokens(self) -> list[str]:
        """Say which tokens and sequences differ; one sentence or none."""
        least = "or more " * (self.repeats is None)
        counts = {
            f"tokens of {self.tokens:,} in no pack ({percent(self.tokens_lost / self.tokens, 2)})": self.tokens_lost,
            "tokens more than there were": self.tokens_added,
            "or more sequences in no pack": self.sequences_lost,
            f"{least}sequences not whole in any pack": self.sequences_not_whole,
            f"{least}pieces or repeats": self.pieces_or_repeats,
        }
        parts = [f"{count:,} {phrase}" for phrase, count in counts.items() if count]
        as_if = f" It is as if {self.as_if}." * bool(self.as_if)
        rule = next((rule for words, rule in _AS_IF_CUT.items() if self.as_if.endswith(words)), None)
        if rule is not None and self.cut is None:
            as_if += f" If that was meant, say so by overlong={rule!r} (--overlong {rule})."
        if self.as_if == _NOTHING and parts:
            as_if = (
                " The lengths are all there: other sequences of the same lengths are, or their tokens were changed."
            )
        places = f" The first that is not whole is sequence {self.first_missing}." * (self.first_missing is not None)
        if self.by_token is not None and self.sequences_not_whole is None:
            kinds = {"Missing": self.by_token.lost, "More than there were": self.by_token.added}
            places += "".join(f" {phrase}: {tokens}." for phrase, tokens in kinds.items() if tokens.times)
            if self.first_other:
                places += f" In the order of the source, the packs first differ in sequence {self.first_other}."
        meant = f", where the longer sequences {_MEANT[self.cut.rule].format(self.cut.max_length)}" if self.cut else ""
        return [f"Beside the source{meant}: {', '.join(parts)}.{as_if}{places}"] if parts else []

    @property
    def unknown(self) -> list[str]:
        """Say what is inconclusive."""
        if self._tokens or self.sequences_not_whole is not None:
            return []
        as_often = "There are as many tokens as in the source"
        if self.by_token is not None:
            as_often = "Each token is there as often as in the source, in whatever order"
            if self.by_token.labels and not self._labels:
                as_often = "Each token is there and trained on as often as in the source, in whatever order"
        return [f"{as_often}; whether each sequence is whole is unknown without their borders."]

    @property
    def notes(self) -> list[str]:
        """Say what was meant, and what holds where nothing differs."""
        sentences = [] if self.cut is None or not self.cut.sequences else [_of_cut(self.cut, self.tokens)]
        if self._tokens or self.unknown:
            return sentences
        if self.repeats is not None:
            unless_cut = " or is cut as was meant" * bool(sentences)
            labels = ", and the same tokens are trained on" if self.labels == () else ""
            return [f"Each sequence of the source is there once, with all its tokens{unless_cut}{labels}.", *sentences]
        return [
            *sentences,
            "Each length is there as often as in the source: by the lengths, nothing was lost, cut or repeated. That "
            "these are the same sequences cannot be seen without tokens on both sides.",
        ]


class PackedSequences(NamedTuple):
    """Sequences and tokens of packs, to be compared with a source.

    Attributes:
        tokens: all of them.
        sequences: how many; None where nothing tells them apart.
        counts: how many sequences have each length, from 0 on; None like these.
        contents: None if one side has no tokens, or nothing tells the sequences of the packs apart.
        last_labels: tokens that only the last label of a sequence, or of a row, has.
        by_token, first_other: as in `SourceComparison`.
    """

    tokens: int
    sequences: int | None
    counts: np.ndarray | None
    contents: Contents | None = None
    last_labels: int = 0
    by_token: TokensBeside | None = None
    first_other: int | None = None

    @classmethod
    def of(cls, contents: Contents, tokens: int, **fields: Any) -> "PackedSequences":
        """Describe packed sequences by their contents."""
        counts = np.bincount(contents.lengths(), minlength=1)
        return cls(tokens, len(contents), counts, contents, **fields)


def compare(source: ReadSource, packed: PackedSequences) -> SourceComparison:
    """Compare the packed sequences with those of the source.

    By their contents if both sides have tokens, else by how many sequences have each length; by the number of tokens
    alone if nothing tells sequences apart.
    """
    lengths = source.lengths
    packs = packed.contents
    by_token = packed.by_token
    counts, sequences = packed.counts, packed.sequences
    totals = source.sequences, source.tokens, *_lost_and_added(source, packed)
    if counts is None or sequences is None:
        nothing = None, None, None, ""
        return SourceComparison(*totals, *nothing, cut=source.cut, by_token=by_token, first_other=packed.first_other)

    size = max(len(lengths.counts), len(counts))
    counts_of_source = np.pad(lengths.counts, (0, size - len(lengths.counts)))
    counts_of_packs = np.pad(counts, (0, size - len(counts)))
    sequences_lost = max(0, lengths.num_sequences - sequences)
    as_if = _as_if(counts_of_source, counts_of_packs, len(counts) - 1)
    if packs is None or source.contents is None:
        number_whole = int(np.minimum(counts_of_source, counts_of_packs).sum())
        missing = lengths.num_sequences - number_whole
        return SourceComparison(*totals, sequences_lost, missing, sequences - number_whole, as_if, cut=source.cut)

    labels: tuple[LabelDifference, ...] | None = None
    not_whole = extra = np.empty(0, np.int64)
    if source.contents.columns and packs.columns and equal(source.contents, packs):
        labels = ()
    else:
        not_whole, extra = without_partner(source.contents.tokens, packs.tokens)
        if source.contents.columns and packs.columns:
            labels = tuple(differences(source.contents, packs, not_whole, extra))
    return SourceComparison(
        *totals,
        sequences_lost,
        len(not_whole),
        len(extra),
        as_if,
        repeats=_repeats(source.contents.tokens, packs.tokens[extra]),
        first_missing=source.contents.document(int(not_whole[0])) if len(not_whole) else None,
        cut=source.cut,
        labels=labels,
        by_token=by_token,
    )


def _lost_and_added(source: ReadSource, packed: PackedSequences) -> tuple[int, int]:
    """Count the tokens of the source that the packs lack, and those that only the packs have."""
    by_token = packed.by_token
    if by_token is None:
        surplus = packed.tokens - source.lengths.num_tokens
        return max(0, -surplus), max(0, surplus)
    lost = by_token.lost.times - by_token.hidden
    if packed.contents is None:
        return lost, by_token.added.times
    packed_tokens = int(packed.contents.lengths().sum())  # without padding, since the sequences are found
    return lost, packed_tokens - source.lengths.num_tokens + lost


def _repeats(source_tokens: np.ndarray, extra_tokens: np.ndarray) -> int:
    """Count the packed sequences beyond those of the source whose tokens are in the source too.

    Args:
        source_tokens, extra_tokens: a number for the tokens of each sequence.
    """
    return int(np.count_nonzero(np.isin(extra_tokens, source_tokens)))


def _as_if(counts_of_source: np.ndarray, counts_of_packs: np.ndarray, top: int) -> str:
    """Name the rule that makes exactly the lengths of the packs of those of the source; "" if none does.

    Args:
        counts_of_source, counts_of_packs: how many sequences have each length, from 0 on.
        top: the longest length in the packs.
    """
    if top < 1:
        return ""
    lengths = np.arange(len(counts_of_source))
    long_counts = counts_of_source * (lengths > top)
    short_counts = counts_of_source * (lengths <= top)
    long_count = int(long_counts.sum())
    pieces = short_counts.copy()  # how many pieces have each length, if longer sequences are split
    np.add.at(pieces, lengths % top, long_counts)  # what is left at the end of each
    pieces[0] = 0
    pieces[top] += int((long_counts * (lengths // top)).sum())
    times = max(1, int(counts_of_packs.sum()) // int(counts_of_source.sum()))
    causes = {
        _NOTHING: counts_of_source,
        f"each sequence came {times} times": counts_of_source * times,
        f"the {long_count:,} longer than {top:,} were cut to it": short_counts + long_count * (lengths == top),
        f"the {long_count:,} longer than {top:,} were split into pieces of it": pieces,
        f"the {long_count:,} longer than {top:,} were left out": short_counts,
    }
    return next((cause for cause, counts in causes.items() if np.array_equal(counts, counts_of_packs)), "")


def _of_cut(cut: Cut, tokens: int) -> str:
    """Say in one sentence what became of the sequences that were too long."""
    meant = _MEANT[cut.rule].format(cut.max_length)
    sentence = f"As was meant, the {cut.sequences:,} longer sequences {meant}"
    if cut.tokens:
        sentence += f": {cut.tokens:,} tokens of {tokens:,} are lost by that ({percent(cut.tokens / tokens)})"
    if cut.labels is not None:
        sentence += f"{',' if cut.tokens else ':'} {cut.labels:,} labels are no longer trained on"
        sentence += f", and {cut.unlabeled:,} sequences have no label left" * bool(cut.unlabeled)
    return sentence + "."
