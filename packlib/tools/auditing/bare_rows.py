"""Rows that do not tell where sequences begin: the sequences of the source are looked for in them by their tokens."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from packlib.packing.ragged import ranges
from packlib.tools.auditing.contents import TOGETHER, Chunk, Contents, chunk_of
from packlib.tools.auditing.hashing import Parts, hashes
from packlib.tools.auditing.multisets import in_pairs
from packlib.tools.rows.token_labels import IGNORED

_SLOTS = 1 << 21  # of the rows in which sequences are looked for at once
_MOST = 0.9  # share of the sequences that must have the tokens of the source, if rows are read in its order

Ends: TypeAlias = Literal["each", "last", "none"]  # which rows have a token more that is only their last label


class BareRows(NamedTuple):
    """Some rows that do not tell where sequences begin.

    Attributes:
        ids: the tokens of all, one row after the other; shape (slots,).
        sizes: tokens of each row, shape (rows,).
        used: how many of these, from the begin of the row, are surely no padding; shape (rows,).
        trained: by column, whether each token is trained on; shape (slots,).
        labels: of each slot, if labels are the next tokens; else None.
        padding: the token that may be padding, and how many slots at the ends of rows hold it.
        first_row, file: the number of the first row, and its file in words.
    """

    ids: np.ndarray
    sizes: np.ndarray
    used: np.ndarray
    trained: dict[str, np.ndarray]
    labels: np.ndarray | None
    padding: tuple[int, int] = (0, 0)
    first_row: int = 0
    file: str = ""

    def with_ends(self, padding: bool, has_last_token: np.ndarray) -> "BareRows":
        """Return the rows with or without what may be padding, and with the tokens that only last labels have.

        Args:
            padding: whether to keep what may be padding.
            has_last_token: the rows that get the token of their last label, if they have one; shape (rows,).
        """
        sizes = self.sizes if padding else self.used
        slots = ranges(np.cumsum(self.sizes) - self.sizes, sizes)
        ids, trained = self.ids[slots], {name: bits[slots] for name, bits in self.trained.items()}
        labels_at_ends = self.last_labels(padding)
        row_ends = np.cumsum(sizes)
        has_last_token = has_last_token & (labels_at_ends != IGNORED)
        ids = np.insert(ids, row_ends[has_last_token], labels_at_ends[has_last_token])
        trained = {name: np.insert(bits, row_ends[has_last_token], True) for name, bits in trained.items()}
        sizes = sizes + has_last_token
        return self._replace(ids=ids, sizes=sizes, used=sizes, trained=trained, labels=None)

    def last_labels(self, padding: bool) -> np.ndarray:
        """Return the label in the last slot of each row, -100 if it has none; shape (rows,).

        Args:
            padding: whether slots that may be padding count to the row.
        """
        sizes = self.sizes if padding else self.used
        last_labels = np.full(len(sizes), IGNORED, np.int64)
        if self.labels is not None:
            has_slots = sizes > 0
            last_slots = np.cumsum(self.sizes) - self.sizes + sizes - 1
            last_labels[has_slots] = self.labels[last_slots[has_slots]]
        return last_labels

    def blocks(self) -> Iterator["BareRows"]:
        """Yield the rows, about `_SLOTS` slots at a time, without their labels."""
        row_ends = np.cumsum(self.sizes)
        row = 0
        while row < len(row_ends):
            slots_before = int(row_ends[row - 1]) if row else 0
            next_row = max(row + 1, int(np.searchsorted(row_ends, slots_before + _SLOTS, side="right")))
            slots = slice(slots_before, int(row_ends[next_row - 1]))
            yield self._replace(
                ids=self.ids[slots],
                sizes=self.sizes[row:next_row],
                used=self.used[row:next_row],
                trained={name: bits[slots] for name, bits in self.trained.items()},
                labels=None,
                first_row=self.first_row + row,
            )
            row = next_row


class TokenCounts:
    """Counts of each token in sequences, or in rows.

    Attributes:
        tokens: how often each token is there.
        trained: how often each is trained on, without the first tokens of sequences.
        firsts: how often each is the first token of a sequence, and would be trained on if something predicted it.
        padding: how often each is in slots that may be padding.
        last_labels: how often each is the last label of a row.
        spare: how many slots are most likely padding.
        hidden: how many rows have no last label, though labels are the next tokens.
    """

    def __init__(self) -> None:
        self.tokens = Counter[int]()
        self.trained = Counter[int]()
        self.firsts = Counter[int]()
        self.padding = Counter[int]()
        self.last_labels = Counter[int]()
        self.hidden = self.spare = 0

    def add(self, ids: np.ndarray, sizes: np.ndarray, trained: Mapping[str, np.ndarray]) -> None:
        """Add the tokens of some sequences, or rows.

        Args:
            sizes: tokens of each.
            trained: by column, whether each token is trained on; tokens count that are by all columns.
        """
        _count(self.tokens, ids)
        if trained:
            is_trained = np.logical_and.reduce(list(trained.values()))
            starts = (np.cumsum(sizes) - sizes)[sizes > 0]
            _count(self.firsts, ids[starts][is_trained[starts]])
            is_trained[starts] = False
            _count(self.trained, ids[is_trained])

    def add_ends(self, rows: BareRows) -> None:
        """Count what may be padding at the ends of rows, and their last labels."""
        token, slots = rows.padding
        self.padding[token] += slots
        self.spare += int(rows.sizes.sum() - rows.used.sum())
        if rows.labels is not None:
            labels = rows.last_labels(False)
            _count(self.last_labels, labels[labels != IGNORED])
            self.hidden += int(np.count_nonzero(labels == IGNORED))
            row_starts = (np.cumsum(rows.sizes) - rows.sizes)[rows.sizes > 0]
            _count(self.firsts, rows.ids[row_starts])  # their labels are in the rows before, if anywhere


def _count(counts: Counter[int], values: np.ndarray) -> None:
    """Add to `counts` how often each value is there."""
    kinds, times = np.unique(values, return_counts=True)
    counts.update(dict(zip(kinds.tolist(), times.tolist(), strict=True)))


class Often(NamedTuple):
    """Tokens that come more often on one side than on the other.

    Attributes:
        times: how much more often, all together.
        kinds: how many different tokens.
        most: up to three of them, and how much more often they come.
    """

    times: int
    kinds: int
    most: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, counts: Counter[int]) -> "Often":
        """Summarize the counts by what they count."""
        most_frequent = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        return cls(counts.total(), len(counts), tuple(most_frequent))

    def __str__(self) -> str:
        examples = ", ".join(f"token {token} {times:,} time{'s' * (times > 1)}" for token, times in self.most)
        return examples + f" and {self.kinds - len(self.most):,} other tokens" * (self.kinds > len(self.most))


class TokensBeside(NamedTuple):
    """The tokens of rows beside those of the source, in whatever order.

    Attributes:
        lost, added: those that come less often, and those that come more often.
        may_be_hidden: how many rows have no last label, where others have one: their last tokens may be in no column.
        hidden: how many of those that are lost may be such tokens.
        labels_lost, labels_added: those that are trained on less often, and more often.
        labels: how many tokens of the source are trained on.
    """

    lost: Often
    added: Often
    may_be_hidden: int
    hidden: int
    labels_lost: Often
    labels_added: Often
    labels: int


def tokens_beside(source: TokenCounts, packs: TokenCounts, labels: bool) -> TokensBeside:
    """Compare how often each token is in the source and in packs, in whatever order.

    Args:
        labels: whether to compare how often each is trained on, too.
    """
    lost_tokens = source.tokens - packs.tokens - packs.last_labels
    added_tokens = packs.tokens - packs.padding - source.tokens
    labels_lost = labels_added = Counter[int]()
    if labels:
        labels_lost = source.trained - packs.trained - packs.firsts - packs.last_labels
        labels_added = packs.trained - source.trained - source.firsts
    may_be_hidden = packs.hidden if packs.last_labels or packs.hidden == 1 else 0
    hidden = min(may_be_hidden, lost_tokens.total())
    trained = source.trained.total() if labels else 0
    return TokensBeside(
        Often.of(lost_tokens),
        Often.of(added_tokens),
        may_be_hidden,
        hidden,
        Often.of(labels_lost),
        Often.of(labels_added),
        trained,
    )


def first_tokens(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return for each sequence a number that stands for its first tokens: the largest power of 2 that it has; uint64.

    Of a sequence of 5 tokens these are the first 4, of one of 9 the first 8.
    """
    has_tokens = lengths > 0
    sizes = np.where(has_tokens, 1 << _levels(np.maximum(lengths, 1)), 0)
    return hashes(ids[ranges(np.cumsum(lengths) - lengths, sizes)], sizes)


def _levels(lengths: np.ndarray) -> np.ndarray:
    """Return the exponent of the largest power of 2 that is at most each length: 0 for 1, 1 for 2 and 3, 2 for 4."""
    return np.frexp(lengths)[1].astype(np.int64) - 1


class Found(NamedTuple):
    """The sequences that were found in rows.

    Attributes:
        contents: of these sequences; None if they cannot be told apart.
        whole: how many of them are sequences of the source.
        first_other: the first sequence of the source with other tokens in the rows, if these have its order up to
            there; None if they have not.
    """

    contents: Contents | None
    whole: int = 0
    first_other: int | None = None


def in_order(rows: Iterable[BareRows], source: Contents, ends: Ends, ahead: bool) -> Found:
    """Take rows as one long text that holds the source in its order, and cut it where its sequences end.

    A few sequences may have other tokens of the same number; if more differ, the sequences are not told apart.

    Args:
        rows, source: as in `read_again`.
        ends: as in `read_again`. With "each", no row has a label for its first token, so that the source's is taken.
        ahead: whether labels are the next tokens, so that the last token of all is not there if nothing trains on it.
    """
    text = _LongText(source, ends)
    for rows_read in rows:
        if not text.cut(rows_read):
            break
    if ahead:
        text.cut_last_without_its_end()
    return text.found()


class _LongText:
    """Rows end to end, which are cut into sequences as long as those of the source, in its order.

    Attributes:
        source_ends: the place behind each sequence of the source in a text of all of them, after a 0; int64.
        num_cut: how many sequences are cut, the first of the source.
        num_alike: how many of these have the tokens of the source.
        last_is_alike: whether the last of them has.
        first_other: the first of them that has not; None if all have.
        chunks: the sequences that are cut.
        uncut_rows: the last rows that were read, from the row on that has slots of no sequence yet; None before any.
        first_slot: the first of these slots in `uncut_rows`.
    """

    def __init__(self, source: Contents, ends: Ends) -> None:
        self.source = source
        self.ends = ends
        self.source_ends = np.concatenate([[0], np.cumsum(source.lengths())])
        self.num_cut = 0
        self.num_alike = 0
        self.last_is_alike = False
        self.first_other: int | None = None
        self.chunks = list[Chunk]()
        self.uncut_rows: BareRows | None = None
        self.first_slot = 0

    def cut(self, rows: BareRows) -> bool:
        """Cut the sequences that end in some further rows; return whether more of the source may follow.

        It may not if too many sequences differ from the source, or if the rows hold more than all of it.
        """
        block = rows if self.uncut_rows is None else _joined(self.uncut_rows, rows)
        num_before = self.num_cut
        place = self.source_ends[num_before] + len(block.ids) - self.first_slot  # where the rows end in the source
        num_cut = int(np.searchsorted(self.source_ends, place, side="right")) - 1
        starts = self.first_slot + self.source_ends[num_before:num_cut] - self.source_ends[num_before]
        lengths = np.diff(self.source_ends[num_before : num_cut + 1])
        if self.ends == "each":
            block = _with_first_labels(block, starts, lengths, self.source, num_before)
        chunk = _cut(block, starts, lengths)
        is_alike = chunk.tokens == self.source.tokens[num_before:num_cut]
        if self.first_other is None and not is_alike.all():
            self.first_other = num_before + int(is_alike.argmin())
        self.num_alike += int(np.count_nonzero(is_alike))
        if self.num_alike < _MOST * num_cut:
            return False
        if len(is_alike):
            self.last_is_alike = bool(is_alike[-1])
        self.chunks.append(chunk)
        self.num_cut = num_cut
        slot = self.first_slot + int(self.source_ends[num_cut] - self.source_ends[num_before])
        self.uncut_rows, self.first_slot = _from_row_of(block, slot)
        return not (self._all_are_cut and _has_more(self.uncut_rows, self.first_slot))

    @property
    def _all_are_cut(self) -> bool:
        return self.num_cut == len(self.source)

    def cut_last_without_its_end(self) -> None:
        """Cut the last sequence of the source, if the rows have all of it but its last token: no label has that."""
        rows = self.uncut_rows
        end_tokens = self.source.ends()
        if rows is None or not len(rows.sizes) or end_tokens is None or self.num_cut + 1 != len(self.source):
            return
        last_rows = _with_one_more(rows, int(end_tokens[self.num_cut]))
        length = len(last_rows.ids) - self.first_slot
        chunk = _cut(last_rows, np.array([self.first_slot]), np.array([length]))
        self.last_is_alike = bool(chunk.tokens[0] == self.source.tokens[self.num_cut])
        if self.last_is_alike:
            self.chunks.append(chunk)
            self.uncut_rows = None
            self.num_cut += 1
            self.num_alike += 1

    def found(self) -> Found:
        """Return the sequences, if all of the source are cut, the last one is there, and only padding follows."""
        has_more = self.uncut_rows is not None and _has_more(self.uncut_rows, self.first_slot)
        if self._all_are_cut and self.last_is_alike and not has_more:
            return Found(Contents(self.chunks), self.num_alike)
        return Found(None, 0, self.num_cut if self.first_other is None else self.first_other)


def _with_first_labels(
    rows: BareRows, starts: np.ndarray, lengths: np.ndarray, source: Contents, number: int
) -> BareRows:
    """Let the first token of a row be trained on as the source says, if a sequence goes on there from the row before.

    Args:
        starts, lengths: the slots at which sequences begin in the rows, and their tokens.
        number: of the first of these sequences in the source; the others follow it.
    """
    if not len(starts):
        return rows
    row_starts = (np.cumsum(rows.sizes) - rows.sizes)[rows.sizes > 0]
    sequence_of = np.searchsorted(starts, row_starts, side="right") - 1
    begins_before = (sequence_of >= 0) & (row_starts > starts[sequence_of])
    goes_on = begins_before & (row_starts < starts[sequence_of] + lengths[sequence_of])
    row_starts, sequence_of = row_starts[goes_on], sequence_of[goes_on]
    if not len(row_starts) or not source.columns:
        return rows
    sequences, index_of = np.unique(sequence_of, return_inverse=True)
    first_places = np.cumsum(lengths[sequences]) - lengths[sequences]  # if these sequences are put end to end
    places = first_places[index_of] + row_starts - starts[sequence_of]
    trained = {}
    for name, bits in rows.trained.items():
        trained[name] = bits.copy()
        column = name if name in source.columns else TOGETHER
        trained[name][row_starts] = source.bits(column, number + sequences)[places]
    return rows._replace(trained=trained)


def _has_more(rows: BareRows, slot: int) -> bool:
    """Return True if the rows hold more than padding from a slot on."""
    return bool((rows.ids[slot:] != rows.padding[0]).any())


def _joined(rows: BareRows, next_rows: BareRows) -> BareRows:
    """Return the rows and the next ones as one block."""
    trained = {name: np.concatenate([bits, next_rows.trained[name]]) for name, bits in rows.trained.items()}
    ids, sizes = np.concatenate([rows.ids, next_rows.ids]), np.concatenate([rows.sizes, next_rows.sizes])
    return rows._replace(ids=ids, sizes=sizes, used=sizes, trained=trained)


def _with_one_more(rows: BareRows, token: int) -> BareRows:
    """Return the rows with one more token at the end of the last, which is not trained on."""
    sizes = rows.sizes.copy()
    sizes[-1] += 1
    trained = {name: np.append(bits, False) for name, bits in rows.trained.items()}
    return rows._replace(ids=np.append(rows.ids, token), sizes=sizes, used=sizes, trained=trained)


def _from_row_of(rows: BareRows, slot: int) -> tuple[BareRows, int]:
    """Return the rows from the one on that has a slot, and the number of this slot among those that are returned."""
    row_ends = np.cumsum(rows.sizes)
    row = int(np.searchsorted(row_ends, slot, side="right"))
    begin = int(row_ends[row - 1]) if row else 0
    trained = {name: bits[begin:] for name, bits in rows.trained.items()}
    sizes = rows.sizes[row:]
    rows_from_there = rows._replace(ids=rows.ids[begin:], sizes=sizes, used=sizes, trained=trained)
    return rows_from_there._replace(first_row=rows.first_row + row), slot - begin


def _cut(rows: BareRows, starts: np.ndarray, lengths: np.ndarray) -> Chunk:
    """Return the contents of the sequences with these starts and lengths; they may go on in further rows."""
    slots = ranges(starts, lengths)
    chunk = chunk_of(rows.ids[slots], lengths, {name: bits[slots] for name, bits in rows.trained.items()})
    row_ends = np.cumsum(rows.sizes)
    row_of = np.searchsorted(row_ends, starts, side="right")  # in which each sequence begins
    return chunk._replace(
        starts=starts - (row_ends - rows.sizes)[row_of],
        depths=np.bincount(row_of, minlength=len(rows.sizes)),
        widths=rows.sizes,
        first_row=rows.first_row,
        file=rows.file,
    )


class _Level(NamedTuple):
    """The sequences of a source that are looked up by the same number of first tokens; S of them.

    They are sorted by `first_hashes`, and those with the same ones by their lengths, the longest first.

    Attributes:
        size: how many first tokens.
        first_hashes: the number for these tokens, as `first_tokens` returns it; shape (S,).
        lengths: tokens of each sequence, shape (S,).
        hashes: the number for all its tokens, shape (S,).
    """

    size: int
    first_hashes: np.ndarray
    lengths: np.ndarray
    hashes: np.ndarray


class Sequences:
    """The different sequences of a source, by their first tokens."""

    def __init__(self, source: Contents) -> None:
        hashes_of_all, places = np.unique(source.tokens, return_index=True)  # equal sequences are one
        lengths = source.lengths()[places]
        first_hashes = source.begins()[places]
        levels = _levels(np.maximum(lengths, 1))
        self._levels = list[_Level]()  # that of the longest sequences first
        for level in np.unique(levels[lengths > 0])[::-1]:
            of_level = np.flatnonzero((levels == level) & (lengths > 0))
            order = of_level[np.lexsort((-lengths[of_level], first_hashes[of_level]))]
            self._levels.append(_Level(1 << int(level), first_hashes[order], lengths[order], hashes_of_all[order]))

    def longest_at(self, parts: Parts, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Find the longest sequence that begins at each start, and ends at its end at the latest.

        Args:
            parts: the tokens of all rows.
            starts, ends: slots, shape (places,).

        Returns:
            How many tokens each of these sequences has, 0 where none begins; shape (places,).
        """
        longest = np.zeros(len(starts), np.int64)
        for level in self._levels:  # the longest sequences first: what is found first is the longest
            places = np.flatnonzero((longest == 0) & (starts + level.size <= ends))  # where no sequence is found yet
            hashes_there = parts.hashes(starts[places], np.full(len(places), level.size))
            candidate = np.searchsorted(level.first_hashes, hashes_there)
            while len(places):
                # a place is done if no further sequence begins with its first tokens
                has_candidate = candidate < len(level.first_hashes)
                has_candidate[has_candidate] = (
                    level.first_hashes[candidate[has_candidate]] == hashes_there[has_candidate]
                )
                places = places[has_candidate]
                candidate = candidate[has_candidate]
                hashes_there = hashes_there[has_candidate]

                lengths = level.lengths[candidate]
                fitting = np.flatnonzero(starts[places] + lengths <= ends[places])
                hashes_of_all = parts.hashes(starts[places[fitting]], lengths[fitting])
                is_equal = np.zeros(len(places), bool)
                is_equal[fitting] = hashes_of_all == level.hashes[candidate[fitting]]
                longest[places[is_equal]] = lengths[is_equal]

                places = places[~is_equal]
                candidate = candidate[~is_equal] + 1
                hashes_there = hashes_there[~is_equal]
        return longest


def in_rows(rows: Iterable[BareRows], source: Contents) -> Found:
    """Read each row as whole sequences of the source, one after the other, at each slot the longest that begins there.

    Slots at which no sequence begins are a piece of their own, up to the next sequence. Padding at the end of a row is
    left out. The result has no contents if most rows cannot be read up to their padding. It has none either if some of
    the sequences and pieces found are not in the source, or more often than there, while a sequence that was found
    begins with a shorter one of the source: the row may hold the shorter one in its place.
    """
    sequences = Sequences(source)
    chunks = list[Chunk]()
    rows_read = rows_seen = num_with_shorter = 0
    for part in rows:
        for block in part.blocks():
            parts = Parts(block.ids)
            row_ends = np.cumsum(block.sizes)
            padding_starts = _padding_starts(block)
            pieces, reached = _whole_sequences(sequences, parts, row_ends - block.sizes, row_ends)
            stuck = np.flatnonzero(reached < padding_starts)  # rows that are not read up to their padding
            num_rows = int(np.count_nonzero(block.sizes))  # without those of padding alone
            rows_seen += num_rows
            rows_read += num_rows - len(stuck)
            if 2 * rows_read < rows_seen:
                return Found(None)
            pieces += _past_changes(sequences, parts, reached[stuck], row_ends[stuck], padding_starts[stuck])
            starts, lengths = np.concatenate(pieces, axis=1) if pieces else np.empty((2, 0), np.int64)
            shorter = sequences.longest_at(parts, starts, starts + lengths - 1)  # at the begin of those found
            num_with_shorter += int(np.count_nonzero(shorter))
            order = np.argsort(starts)
            chunks.append(_cut(block, starts[order], lengths[order]))
    contents = Contents(chunks)
    num_whole = len(in_pairs(contents.tokens, source.tokens)[0])
    is_ambiguous = num_with_shorter > 0 and num_whole < len(contents)
    return Found(None) if is_ambiguous else Found(contents, num_whole)


def _whole_sequences(
    sequences: Sequences, parts: Parts, row_starts: np.ndarray, row_ends: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Read each row from its start as sequences of the source, one after the other, as far as there are some.

    Returns:
        The starts and lengths of sequences, in arrays of shape (2, sequences); and the slot up to which each row is
        read, shape (rows,).
    """
    pieces = list[np.ndarray]()
    reached = row_starts.copy()
    reading = np.arange(len(reached))  # the rows in which sequences go on
    while len(reading := reading[reached[reading] < row_ends[reading]]):
        lengths = sequences.longest_at(parts, reached[reading], row_ends[reading])
        reading, lengths = reading[lengths > 0], lengths[lengths > 0]
        pieces.append(np.stack([reached[reading], lengths]))
        reached[reading] += lengths
    return pieces, reached


def _past_changes(
    sequences: Sequences, parts: Parts, reached: np.ndarray, row_ends: np.ndarray, padding_starts: np.ndarray
) -> list[np.ndarray]:
    """Read rows on from slots at which no sequence begins; the slots up to the next sequence are a piece of their own.

    Args:
        reached: the slot from which each row is read, shape (rows,).
        row_ends: the slot behind each row, same shape.
        padding_starts: the slot at which each row's padding begins, same shape.

    Returns:
        The starts and lengths of sequences and pieces, in arrays of shape (2, pieces).
    """
    pieces = list[np.ndarray]()
    reached = reached.copy()
    piece_starts = reached.copy()  # the first slot of each row that is in no sequence and in no piece yet
    reading = np.arange(len(reached))
    while len(reading := reading[reached[reading] < row_ends[reading]]):
        lengths = sequences.longest_at(parts, reached[reading], row_ends[reading])
        has_sequence = lengths > 0
        with_sequence, lengths = reading[has_sequence], lengths[has_sequence]
        # the rows of these in which a piece ends where the sequence begins
        with_piece = with_sequence[piece_starts[with_sequence] < reached[with_sequence]]
        pieces += [
            np.stack([piece_starts[with_piece], reached[with_piece] - piece_starts[with_piece]]),
            np.stack([reached[with_sequence], lengths]),
        ]
        reached[with_sequence] += lengths
        piece_starts[with_sequence] = reached[with_sequence]
        reached[reading[~has_sequence]] += 1  # the next slot is tried
    with_last_piece = np.flatnonzero(piece_starts < padding_starts)
    last_lengths = padding_starts[with_last_piece] - piece_starts[with_last_piece]
    return [*pieces, np.stack([piece_starts[with_last_piece], last_lengths])]


def _padding_starts(rows: BareRows) -> np.ndarray:
    """Find for each row where its padding may begin, as a slot counted through all rows; shape (rows,).

    From there on the row has only the token that may be padding.
    """
    row_ends = np.cumsum(rows.sizes)
    other_slots = np.where(rows.ids != rows.padding[0], np.arange(len(rows.ids)), -1)
    has_slots = rows.sizes > 0
    padding_starts = row_ends.copy()
    if has_slots.any():
        row_starts = (row_ends - rows.sizes)[has_slots]
        last_other = np.maximum(np.maximum.reduceat(other_slots, row_starts), row_starts - 1)
        padding_starts[has_slots] = last_other + 1
    return padding_starts


def read_again(
    rows: Callable[[], Iterable[BareRows]], source: Contents, padding: bool, ends: Ends, ahead: bool
) -> Found:
    """Look for the sequences of a source in rows: in their order, or else as whole sequences in each row.

    Args:
        rows: reads them; called once for each way.
        padding: whether to keep what may be padding.
        ends: the rows whose last label is a token more.
        ahead: whether labels are the next tokens.
    """

    def kept_rows() -> Iterator[BareRows]:
        """Yield the rows with the tokens to keep; a label at the end of a row trains on the first token of the next."""
        trained_next = False  # whether the row before has the label of the next row's first token
        part: BareRows | None = None
        for next_part in chain(rows(), [None]):  # one part ahead, to know which is the last
            if part is not None:
                has_last_token = np.full(len(part.sizes), ends == "each")
                has_last_token[-1:] |= ends == "last" and next_part is None
                block = part.with_ends(padding, has_last_token)
                if ends != "each":
                    labeled = part.last_labels(padding) != IGNORED
                    row_starts = np.cumsum(block.sizes) - block.sizes
                    is_labeled = np.append(trained_next, labeled[:-1]) & (block.sizes > 0)
                    for bits in block.trained.values():
                        bits[row_starts[is_labeled]] = True
                    trained_next = bool(labeled[-1]) if len(labeled) else trained_next
                yield block
            part = next_part

    in_their_order = in_order(kept_rows(), source, ends, ahead)
    if in_their_order.contents is not None and in_their_order.whole == len(source):
        return in_their_order
    in_any_order = in_rows(kept_rows(), source)
    if in_any_order.contents is None or in_any_order.whole < in_their_order.whole:
        return in_their_order
    return in_any_order


def fits(source: int, packs: TokenCounts) -> tuple[bool, Ends]:
    """Choose which tokens of rows to keep, so that their number is nearest to that of the source.

    Args:
        source: number of tokens of the source.

    Returns:
        `padding` and `ends` as `read_again` takes them.
    """
    stored, spare = packs.tokens.total(), packs.spare
    last_tokens: dict[Ends, int] = {
        "none": 0,
        "last": min(1, packs.last_labels.total()),
        "each": packs.last_labels.total(),
    }
    tokens = {(padding, ends): stored - (0 if padding else spare) + last_tokens[ends]
              for padding in (False, True) for ends in last_tokens}  # fmt: skip
    return min(tokens, key=lambda choice: abs(tokens[choice] - source))
