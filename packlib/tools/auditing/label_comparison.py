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
        column: of the packs; "all columns" for what all of them train on together.
        against: the column of the source, or "all columns".
        sequences, of: how many sequences differ, and how many were compared.
        lost, added: labels that the packs lack, and labels that only the packs have.
        moved: labels that stand at another token; these are in neither of the two.
        early, late: sequences whose labels are those of the source one token earlier, or one later; their labels are in
            none of the three.
        labels: of the source, in all that was compared.
        row, position: where the first of them is: the row of the packs, in words, and the slot in it.
        source_sequence, token: the same place in the source: the number of its sequence, and the token in that.
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
        said = [f"{count:,} {what}" for what, count in counts.items() if count]
        shifts = {"earlier": self.early, "later": self.late}
        for where, count in shifts.items():
            said += [f"all labels of {count:,} sequences one token {where} (shifted once too often)"] * (count > 0)
        return (
            f"Labels differ from the source in {self.sequences:,} of {self.of:,} sequences ({self.column} beside "
            f"{self.against} of the source): {', '.join(said)}. The first is at position {self.position} of "
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
    found = []
    whole = np.delete(np.arange(len(source)), not_whole), np.delete(np.arange(len(packs)), extra)
    for column in packs.columns:
        names = [column] * (column in source.columns) + [TOGETHER]
        pairs = {name: _differing(source, packs, whole, name, column) for name in names}
        least = min(names, key=lambda name: len(pairs[name][0]))
        found += _difference(source, packs, least, column, *pairs[least])
    if not found and (TOGETHER, TOGETHER) in _pairs(source, packs):
        found += _difference(source, packs, TOGETHER, TOGETHER, *_differing(source, packs, whole, TOGETHER, TOGETHER))
    return found


def _pairs(source: Contents, packs: Contents) -> list[tuple[str, str]]:
    """Return the columns of the packs, and of the source, that are compared first."""
    pairs = [(column, column if column in source.columns else TOGETHER) for column in packs.columns]
    alone = len(pairs) == 1 and pairs[0][1] == TOGETHER  # one column is all that the packs train on together
    return pairs + [(TOGETHER, TOGETHER)] * bool(set(source.columns) - set(packs.columns) and not alone)


def _equal(before: np.ndarray, after: np.ndarray) -> bool:
    return len(before) == len(after) and np.array_equal(np.sort(before), np.sort(after))


def _differing(
    source: Contents, packs: Contents, whole: tuple[np.ndarray, np.ndarray], of_source: str, column: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sequences of the source and of the packs with equal tokens and other labels, in pairs.

    Args:
        whole: the sequences of both with equal tokens, as many as there are pairs.
    """
    before, after = source.marked(of_source), packs.marked(column)
    if _equal(before[whole[0]], after[whole[1]]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    left, right = without_partner(before, after)
    one, other = in_pairs(source.tokens[left], packs.tokens[right])
    return left[one], right[other]


def _difference(
    source: Contents, packs: Contents, of_source: str, column: str, before: np.ndarray, after: np.ndarray
) -> list[LabelDifference]:
    """Compare the labels of pairs of sequences; return one difference, or none."""
    if not len(before):
        return []
    order = np.argsort(after)
    before, after = before[order], after[order]
    lengths = packs.lengths()[after]
    lost, added, early, late = (np.zeros(len(after), np.int64) for _ in range(4))
    for part in _parts(lengths):
        sizes = lengths[part]
        had, has = source.bits(of_source, before[part]), packs.bits(column, after[part])
        lost[part], added[part] = (np.add.reduceat(some, np.cumsum(sizes) - sizes, dtype=np.int64)
                                   for some in (had & ~has, has & ~had))  # fmt: skip
        early[part], late[part] = _shifts(had, has, sizes)
    shifted = ((early | late) > 0) & (lost > 0) & (added > 0)
    moved = np.minimum(lost, added)
    first = slice(0, 1)
    where = source.bits(of_source, before[first]) != packs.bits(column, after[first])
    token = int(where.argmax())
    row, position = packs.place(int(after[0]), token)
    whole = ~shifted
    return [
        LabelDifference(
            column=_said(column, packs.columns),
            against=_said(of_source, source.columns),
            sequences=len(after),
            of=min(len(source), len(packs)),
            lost=int((lost - moved)[whole].sum()),
            added=int((added - moved)[whole].sum()),
            moved=int(moved[whole].sum()),
            early=int(np.count_nonzero(shifted & (early > 0))),
            late=int(np.count_nonzero(shifted & (late > 0) & (early == 0))),
            labels=source.total(of_source),
            row=row,
            position=position,
            source_sequence=source.document(int(before[0])),
            token=token,
        )
    ]


def _parts(lengths: np.ndarray) -> Iterator[slice]:
    """Yield the sequences with about `_TOKENS` tokens at a time, one at least."""
    ends, at = np.cumsum(lengths), 0
    while at < len(lengths):
        done = int(ends[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(ends, done + _TOKENS, side="right")))
        yield slice(at, end)
        at = end


def _shifts(had: np.ndarray, has: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mark the sequences that have the source's labels one token earlier, and those one token later.

    The first token of a sequence has none by definition, and what a shift pushes over the end is not known.
    """
    ends = np.cumsum(sizes)
    begins = ends - sizes
    edge = np.zeros(len(had), bool)
    edge[begins] = edge[ends - 1] = True
    earlier = (has != np.append(had[1:], False)) & ~edge
    edge = np.zeros(len(had), bool)
    edge[begins] = True
    edge[np.minimum(begins + 1, ends - 1)] = True
    later = (has != np.append(False, had[:-1])) & ~edge
    return tuple((np.add.reduceat(wrong, begins, dtype=np.int64) == 0).astype(np.int64) for wrong in (earlier, later))


def _said(column: str, columns: list[str]) -> str:
    if column != TOGETHER:
        return column
    return columns[0] if len(columns) == 1 else f"all of {listed(columns)}"
