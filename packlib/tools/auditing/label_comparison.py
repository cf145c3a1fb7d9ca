"""Which tokens packs train on, beside those that their source trains on: lost, added, moved or shifted labels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from packlib.arguments import listed, percent
from packlib.tools.auditing.contents import TOGETHER, Contents
from packlib.tools.auditing.multisets import in_pairs, without_partner

_TOKENS = 1 << 21  # of the sequences that are compared token by token at once


@dataclass(frozen=True)
class LabelDifference:
    """Difference of one column of the packs from the source, in sequences whose tokens are the same.

    Attributes:
        column: of the packs; "all of" several, in words, for what these train on together.
        against: the column of the source, or several in the same words.
        sequences: how many sequences differ.
        of: how many were compared.
        lost: how many labels the packs lack.
        added: how many labels only the packs have.
        moved: how many labels are at another token; they are counted neither as lost nor as added.
        early, late: how many sequences have all labels of the source one token earlier, or one later; their labels are
            not counted as lost, added or moved.
        labels: how many labels the source has.
        row, position: of the first token that differs in the packs: its row, in words, and its slot there.
        source_sequence, token: of the same token in the source: the number of its sequence, and its place there.
    """

    column: str
    against: str
    sequences: int
    of: int
    lost: int
    added: int
    moved: int
    early: int
    late: int
    labels: int
    row: str
    position: int
    source_sequence: int
    token: int

    @property
    def sentence(self) -> str:
        """Say what differs, how often, and where first."""
        share = f"lost ({percent(self.lost / max(1, self.labels))} of the {self.labels:,} in the source)"
        counts = {share: self.lost, "added": self.added, "moved to another token": self.moved}
        parts = [f"{count:,} {noun}" for noun, count in counts.items() if count]
        shifts = {"earlier": self.early, "later": self.late}
        for direction, count in shifts.items():
            parts += [f"all labels of {count:,} sequences one token {direction} (shifted once too often)"] * (
                count > 0
            )
        return (
            f"Labels differ from the source in {self.sequences:,} of {self.of:,} sequences ({self.column} beside "
            f"{self.against} of the source): {', '.join(parts)}. The first is at position {self.position} of "
            f"{self.row}: token {self.token} of sequence {self.source_sequence} of the source."
        )


def equal(source: Contents, packs: Contents) -> bool:
    """Return whether both sides hold the same sequences, and train on the same tokens of each by every column."""
    return all(_equal(source.marked(name), packs.marked(column)) for column, name in _pairs(source, packs))


def differences(source: Contents, packs: Contents, not_whole: np.ndarray, extra: np.ndarray) -> list[LabelDifference]:
    """Compare which tokens are trained on, for sequences with equal tokens.

    A column of the packs must be that of the same name in the source, or what all columns of the source train on
    together. If the packs lack a column of the source, what all of theirs train on must be that too, since a mask that
    was dropped trains on what it hid.

    Args:
        not_whole, extra: the sequences of the source, and of the packs, that the other side lacks.
    """
    label_differences = []
    whole = np.delete(np.arange(len(source)), not_whole), np.delete(np.arange(len(packs)), extra)
    for column in packs.columns:
        names = [column] * (column in source.columns) + [TOGETHER]
        pairs = {name: _differing(source, packs, whole, name, column) for name in names}
        nearest = min(names, key=lambda name: len(pairs[name][0]))
        label_differences += _difference(source, packs, nearest, column, *pairs[nearest])
    if not label_differences and (TOGETHER, TOGETHER) in _pairs(source, packs):
        label_differences += _difference(
            source, packs, TOGETHER, TOGETHER, *_differing(source, packs, whole, TOGETHER, TOGETHER)
        )
    return label_differences


def _pairs(source: Contents, packs: Contents) -> list[tuple[str, str]]:
    """Return the columns of the packs, and of the source, that are compared first."""
    pairs = [(column, column if column in source.columns else TOGETHER) for column in packs.columns]
    is_same_pair = len(pairs) == 1 and pairs[0][1] == TOGETHER  # one column is all that the packs train on together
    return pairs + [(TOGETHER, TOGETHER)] * bool(set(source.columns) - set(packs.columns) and not is_same_pair)


def _equal(marks_of_source: np.ndarray, marks_of_packs: np.ndarray) -> bool:
    """Return whether both have the same numbers, in whatever order."""
    return len(marks_of_source) == len(marks_of_packs) and np.array_equal(
        np.sort(marks_of_source), np.sort(marks_of_packs)
    )


def _differing(
    source: Contents,
    packs: Contents,
    equal_sequences: tuple[np.ndarray, np.ndarray],
    source_column: str,
    pack_column: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sequences of the source and of the packs with equal tokens and other labels, in pairs.

    Args:
        equal_sequences: the numbers of the sequences of the source, and of the packs, that have equal tokens.
        source_column, pack_column: the columns that are compared, of the source and of the packs.

    Returns:
        The numbers of the sequences of the source, and of the packs; the same index is a pair.
    """
    # for each sequence, a number that stands for its tokens and its labels
    marks_of_source, marks_of_packs = source.marked(source_column), packs.marked(pack_column)
    # the usual case, without a search for pairs: the same labels on both sides
    if _equal(marks_of_source[equal_sequences[0]], marks_of_packs[equal_sequences[1]]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    source_places, pack_places = without_partner(marks_of_source, marks_of_packs)
    in_source, in_packs = in_pairs(source.tokens[source_places], packs.tokens[pack_places])
    return source_places[in_source], pack_places[in_packs]


def _difference(
    source: Contents,
    packs: Contents,
    source_column: str,
    pack_column: str,
    source_numbers: np.ndarray,
    pack_numbers: np.ndarray,
) -> list[LabelDifference]:
    """Compare the labels of pairs of sequences with equal tokens; return one difference, or none without pairs.

    Args:
        source_column, pack_column: as of `_differing`.
        source_numbers, pack_numbers: of the sequences, as `_differing` returns them.
    """
    if not len(source_numbers):
        return []
    order = np.argsort(pack_numbers)
    source_numbers, pack_numbers = source_numbers[order], pack_numbers[order]
    lengths = packs.lengths()[pack_numbers]
    lost_labels, added_labels, early, late = (np.zeros(len(pack_numbers), np.int64) for _ in range(4))
    for part in _parts(lengths):
        sizes = lengths[part]
        starts = np.cumsum(sizes) - sizes
        bits_of_source = source.bits(source_column, source_numbers[part])
        bits_of_packs = packs.bits(pack_column, pack_numbers[part])
        lost_labels[part] = np.add.reduceat(bits_of_source & ~bits_of_packs, starts, dtype=np.int64)
        added_labels[part] = np.add.reduceat(bits_of_packs & ~bits_of_source, starts, dtype=np.int64)
        early[part], late[part] = _shifts(bits_of_source, bits_of_packs, sizes)
    shifted = ((early | late) > 0) & (lost_labels > 0) & (added_labels > 0)
    moved = np.minimum(lost_labels, added_labels)  # as many of each are taken for one label at another token
    first_pair = slice(0, 1)
    first_source_bits = source.bits(source_column, source_numbers[first_pair])
    differs = first_source_bits != packs.bits(pack_column, pack_numbers[first_pair])
    token = int(differs.argmax())
    row, position = packs.place(int(pack_numbers[0]), token)
    is_unshifted = ~shifted
    return [
        LabelDifference(
            column=_said(pack_column, packs.columns),
            against=_said(source_column, source.columns),
            sequences=len(pack_numbers),
            of=min(len(source), len(packs)),
            lost=int((lost_labels - moved)[is_unshifted].sum()),
            added=int((added_labels - moved)[is_unshifted].sum()),
            moved=int(moved[is_unshifted].sum()),
            early=int(np.count_nonzero(shifted & (early > 0))),
            late=int(np.count_nonzero(shifted & (late > 0) & (early == 0))),
            labels=source.total(source_column),
            row=row,
            position=position,
            source_sequence=source.document(int(source_numbers[0])),
            token=token,
        )
    ]


def _parts(lengths: np.ndarray) -> Iterator[slice]:
    """Yield slices of the sequences that have about `_TOKENS` tokens, of one sequence at least."""
    token_ends = np.cumsum(lengths)
    sequence = 0
    while sequence < len(lengths):
        tokens_before = int(token_ends[sequence - 1]) if sequence else 0
        next_sequence = max(sequence + 1, int(np.searchsorted(token_ends, tokens_before + _TOKENS, side="right")))
        yield slice(sequence, next_sequence)
        sequence = next_sequence


def _shifts(bits_of_source: np.ndarray, bits_of_packs: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mark the sequences that have the source's labels one token earlier, and those one token later; 1 or 0 for each.

    Not compared are the first token, which never has a label here, the token that would get its label by the shift, and
    the last token, whose label would come from behind the end.

    Args:
        bits_of_source, bits_of_packs: whether each token of the sequences has a label.
        sizes: tokens of each sequence.
    """
    sequence_ends = np.cumsum(sizes)
    sequence_starts = sequence_ends - sizes
    is_inner = np.ones(len(bits_of_source), bool)
    is_inner[sequence_starts] = is_inner[sequence_ends - 1] = False
    is_not_earlier = (bits_of_packs != np.append(bits_of_source[1:], False)) & is_inner
    is_inner = np.ones(len(bits_of_source), bool)
    is_inner[sequence_starts] = False
    is_inner[np.minimum(sequence_starts + 1, sequence_ends - 1)] = False
    is_not_later = (bits_of_packs != np.append(False, bits_of_source[:-1])) & is_inner
    earlier, later = (
        (np.add.reduceat(differs, sequence_starts, dtype=np.int64) == 0).astype(np.int64)
        for differs in (is_not_earlier, is_not_later)
    )
    return earlier, later


def _said(column: str, columns: list[str]) -> str:
    """Return the name of a column as sentences say it; `TOGETHER` is the only one, or "all of" several."""
    if column != TOGETHER:
        return column
    return columns[0] if len(columns) == 1 else f"all of {listed(columns)}"
