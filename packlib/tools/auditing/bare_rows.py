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
_MOST = 0.9  # of the sequences, which must be those of the source in its order


Ends: TypeAlias = Literal["each", "last", "none"]  # the rows whose last label is a token more


class BareRows(NamedTuple):
    """Some rows.

    Attributes:
        ids: the tokens of all, one row after the other.
        sizes, used: tokens of each row, and those that are surely no padding, which begin the row.
        trained: by column, whether each token is trained on.
        labels: of each slot, if labels are the next tokens; else None.
        padding: the token that may be padding, and how many slots at the ends of rows it takes, if it is.
        first_row, file: the row that comes first, and its file in words.
    """

    ids: np.ndarray
    sizes: np.ndarray
    used: np.ndarray
    trained: dict[str, np.ndarray]
    labels: np.ndarray | None
    padding: tuple[int, int] = (0, 0)
    first_row: int = 0
    file: str = ""

    def kept(self, padding: bool, has_last_token: np.ndarray) -> "BareRows":
        """Keep rows with or without what may be padding, and with the token that only the last label of a row has.

        Args:
            padding: whether to keep it.
            has_last_token: rows that get the token of their last label, if they have one.
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
        """Return the label in the last slot of each row, with or without what may be padding; -100 if it has none."""
        sizes = self.sizes if padding else self.used
        last_labels = np.full(len(sizes), IGNORED, np.int64)
        if self.labels is not None:
            has_slots = sizes > 0
            last_labels[has_slots] = self.labels[(np.cumsum(self.sizes) - self.sizes + sizes - 1)[has_slots]]
        return last_labels

    def blocks(self) -> Iterator["BareRows"]:
        """Yield the rows, some at a time, without their labels."""
        row_ends, row = np.cumsum(self.sizes), 0
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
    """Counts of each token, in whatever order.

    Attributes:
        tokens: how often.
        trained: how often it is trained on, the first tokens of sequences left out.
        firsts: how often it is the first token of a sequence and would be trained on if something predicted it.
        padding, last_labels: how often what may be padding has it, and how often the last label of a row.
        spare: slots that are most likely padding.
        hidden: rows without a last label, whose labels are the next tokens.
    """

    def __init__(self) -> None:
        self.tokens = Counter[int]()
        self.trained = Counter[int]()
        self.firsts = Counter[int]()
        self.padding, self.last_labels = Counter[int](), Counter[int]()
        self.hidden = self.spare = 0

    def add(self, ids: np.ndarray, sizes: np.ndarray, trained: Mapping[str, np.ndarray]) -> None:
        """Count sequences, or rows."""
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
    """Compare how often each token is there; with `labels`, also how often it is trained on."""
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
    """Return a number for the first 1, 2, 4, … tokens of each sequence, as many of these as it has; uint64."""
    has_tokens = lengths > 0
    sizes = np.where(has_tokens, 1 << _levels(np.maximum(lengths, 1)), 0)
    return hashes(ids[ranges(np.cumsum(lengths) - lengths, sizes)], sizes)


def _levels(lengths: np.ndarray) -> np.ndarray:
    """Return the largest power of 2 that is at most each length, as its exponent."""
    return np.frexp(lengths)[1].astype(np.int64) - 1


class Found(NamedTuple):
    """The sequences that were found in rows.

    Attributes:
        contents: their sequences; None if they cannot be told apart.
        whole: how many are in the source.
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
        rows, source: with `ends` as in `read_again`. If each row has a last token that is only a label, none has the
            label of the first token of a row: what the source says of it is taken.
        ahead: whether labels are the next tokens, so that the last token of all is not there if nothing trains on it.
    """
    source_ends = np.concatenate([[0], np.cumsum(source.lengths())])
    cut = 0
    num_alike = 0
    chunks = list[Chunk]()
    first_other: int | None = None
    uncut_rows: BareRows | None = None  # rows, of which the sequences up to the slot `first_slot` are cut
    first_slot, last_is_same = 0, False
    for rows_read in rows:
        block = rows_read if uncut_rows is None else _joined(uncut_rows, rows_read)
        until = int(np.searchsorted(source_ends, source_ends[cut] + len(block.ids) - first_slot, side="right")) - 1
        starts, lengths = first_slot + source_ends[cut:until] - source_ends[cut], np.diff(source_ends[cut : until + 1])
        if ends == "each":
            block = _with_first_labels(block, starts, lengths, source, cut)
        chunk = _cut(block, starts, lengths)
        is_alike = chunk.tokens == source.tokens[cut:until]
        if first_other is None and not is_alike.all():
            first_other = cut + int(is_alike.argmin())
        num_alike += int(np.count_nonzero(is_alike))
        if num_alike < _MOST * until:
            break
        last_is_same = bool(is_alike[-1]) if len(is_alike) else last_is_same
        chunks.append(chunk)
        first_slot += int(source_ends[until] - source_ends[cut])
        cut = until
        uncut_rows, first_slot = _from_row_of(block, first_slot)
        if cut == len(source) and _has_more(uncut_rows, first_slot):
            break
    end_tokens = source.ends()
    if (
        ahead
        and uncut_rows is not None
        and len(uncut_rows.sizes)
        and end_tokens is not None
        and cut + 1 == len(source)
    ):
        last_rows = _with_one_more(uncut_rows, int(end_tokens[cut]))
        chunk = _cut(last_rows, np.array([first_slot]), np.array([len(last_rows.ids) - first_slot]))
        if last_is_same := bool(chunk.tokens[0] == source.tokens[cut]):
            chunks.append(chunk)
            uncut_rows = None
            cut += 1
            num_alike += 1
    if cut == len(source) and last_is_same and (uncut_rows is None or not _has_more(uncut_rows, first_slot)):
        return Found(Contents(chunks), num_alike)
    return Found(None, 0, cut if first_other is None else first_other)


def _with_first_labels(
    rows: BareRows, starts: np.ndarray, lengths: np.ndarray, source: Contents, number: int
) -> BareRows:
    """Return the rows whose first tokens are trained on if the source trains on them, where a sequence goes on.

    Args:
        starts, lengths: of sequences, the first of which is sequence `number` of the source.
    """
    if not len(starts):
        return rows
    row_starts = (np.cumsum(rows.sizes) - rows.sizes)[rows.sizes > 0]
    sequence_of = np.searchsorted(starts, row_starts, side="right") - 1
    begins_before = (sequence_of >= 0) & (row_starts > starts[sequence_of])
    inner = begins_before & (row_starts < starts[sequence_of] + lengths[sequence_of])
    row_starts, sequence_of = row_starts[inner], sequence_of[inner]
    if not len(row_starts) or not source.columns:
        return rows
    sequences, place_of = np.unique(sequence_of, return_inverse=True)
    places = (np.cumsum(lengths[sequences]) - lengths[sequences])[place_of] + row_starts - starts[sequence_of]
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
    """Return the rows from that with a slot on, and the slot there."""
    row_ends = np.cumsum(rows.sizes)
    row = int(np.searchsorted(row_ends, slot, side="right"))
    begin = int(row_ends[row - 1]) if row else 0
    trained = {name: bits[begin:] for name, bits in rows.trained.items()}
    sizes = rows.sizes[row:]
    rows_from_there = rows._replace(ids=rows.ids[begin:], sizes=sizes, used=sizes, trained=trained)
    return rows_from_there._replace(first_row=rows.first_row + row), slot - begin


def _cut(rows: BareRows, starts: np.ndarray, lengths: np.ndarray) -> Chunk:
    """Return the sequences that begin at some slots; they may go on in further rows."""
    slots = ranges(starts, lengths)
    chunk = chunk_of(rows.ids[slots], lengths, {name: bits[slots] for name, bits in rows.trained.items()})
    row_ends = np.cumsum(rows.sizes)
    row = np.searchsorted(row_ends, starts, side="right")
    return chunk._replace(
        starts=starts - (row_ends - rows.sizes)[row],
        depths=np.bincount(row, minlength=len(rows.sizes)),
        widths=rows.sizes,
        first_row=rows.first_row,
        file=rows.file,
    )


class Sequences:
    """The sequences of a source, by their first tokens."""

    def __init__(self, source: Contents) -> None:
        lengths, first_hashes = source.lengths(), source.begins()
        kinds, first_places = np.unique(source.tokens, return_index=True)  # equal sequences are one
        lengths, first_hashes = lengths[first_places], first_hashes[first_places]
        levels = _levels(np.maximum(lengths, 1))
        self._levels = []  # the longest first: how many tokens begin the sequences, and the sequences
        for level in np.unique(levels[lengths > 0])[::-1]:
            of_level = np.flatnonzero((levels == level) & (lengths > 0))
            order = of_level[np.lexsort((-lengths[of_level], first_hashes[of_level]))]
            self._levels.append((1 << int(level), first_hashes[order], lengths[order], kinds[order]))

    def longest_at(self, parts: Parts, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Find the longest sequence that begins at each slot and ends at `ends` at the latest; 0 for none."""
        longest = np.zeros(len(starts), np.int64)
        for size, first_hashes, lengths, kinds in self._levels:
            open_slots = np.flatnonzero((longest == 0) & (starts + size <= ends))
            if not len(open_slots):
                continue
            hashes_there = parts.hashes(starts[open_slots], np.full(len(open_slots), size))
            candidate = np.searchsorted(first_hashes, hashes_there)
            while len(open_slots):
                has_hash = candidate < len(first_hashes)
                has_hash[has_hash] = first_hashes[candidate[has_hash]] == hashes_there[has_hash]
                open_slots = open_slots[has_hash]
                candidate = candidate[has_hash]
                hashes_there = hashes_there[has_hash]
                fits = np.flatnonzero(starts[open_slots] + lengths[candidate] <= ends[open_slots])
                is_equal = parts.hashes(starts[open_slots[fits]], lengths[candidate[fits]]) == kinds[candidate[fits]]
                longest[open_slots[fits[is_equal]]] = lengths[candidate[fits[is_equal]]]
                is_open = np.ones(len(open_slots), bool)
                is_open[fits[is_equal]] = False
                open_slots = open_slots[is_open]
                candidate = candidate[is_open] + 1
                hashes_there = hashes_there[is_open]
        return longest


def in_rows(rows: Iterable[BareRows], source: Contents) -> Found:
    """Read each row as whole sequences of the source, one after the other, the longest that is there.

    What is none of them is a piece of its own, up to where one begins again. Padding at the end of a row is left out.
    Sequences are not told apart if most rows cannot be read so; or if some cannot, or some sequences come more often
    than in the source, and one of those that were found begins with another one: that may be there in its place.
    """
    sequences, chunks = Sequences(source), list[Chunk]()
    rows_read = rows_seen = in_others = whole_sequences = 0
    for part in rows:
        for block in part.blocks():
            parts = Parts(block.ids)
            row_ends = np.cumsum(block.sizes)
            reached = row_ends - block.sizes  # the slot up to which each row is read
            pieces = list[np.ndarray]()
            padding = _padding_from(block)
            reading = np.arange(len(reached))
            while len(reading := reading[reached[reading] < row_ends[reading]]):
                lengths = sequences.longest_at(parts, reached[reading], row_ends[reading])
                reading, lengths = reading[lengths > 0], lengths[lengths > 0]
                pieces.append(np.stack([reached[reading], lengths]))
                reached[reading] += lengths
            stuck = np.flatnonzero(reached < padding)
            rows_read += int(np.count_nonzero(block.sizes)) - len(stuck)
            rows_seen += len(block.sizes)
            if 2 * rows_read < rows_seen:
                return Found(None)
            pieces += _past_changes(sequences, parts, reached[stuck], row_ends[stuck], padding[stuck])
            starts, lengths = np.concatenate(pieces, axis=1) if pieces else np.empty((2, 0), np.int64)
            in_others += int(np.count_nonzero(sequences.longest_at(parts, starts, starts + lengths - 1)))
            order = np.argsort(starts)
            chunks.append(_cut(block, starts[order], lengths[order]))
    contents = Contents(chunks)
    whole_sequences = len(in_pairs(contents.tokens, source.tokens)[0])
    return Found(None) if in_others and whole_sequences < len(contents) else Found(contents, whole_sequences)


def _past_changes(
    sequences: Sequences, parts: Parts, reached: np.ndarray, row_ends: np.ndarray, padding: np.ndarray
) -> list[np.ndarray]:
    """Return the sequences behind slots at which none begins, and what lies between as pieces."""
    pieces, begin_of_piece = list[np.ndarray](), reached.copy()  # where a piece that is no sequence begins
    reading = np.arange(len(reached))
    while len(reading := reading[reached[reading] < row_ends[reading]]):
        lengths = sequences.longest_at(parts, reached[reading], row_ends[reading])
        is_known = lengths > 0
        rows_with_sequence, lengths = reading[is_known], lengths[is_known]
        piece = rows_with_sequence[begin_of_piece[rows_with_sequence] < reached[rows_with_sequence]]
        pieces += [
            np.stack([begin_of_piece[piece], reached[piece] - begin_of_piece[piece]]),
            np.stack([reached[rows_with_sequence], lengths]),
        ]
        reached[rows_with_sequence] += lengths
        begin_of_piece[rows_with_sequence] = reached[rows_with_sequence]
        reached[reading[~is_known]] += 1
    piece = np.flatnonzero(begin_of_piece < padding)
    return [*pieces, np.stack([begin_of_piece[piece], padding[piece] - begin_of_piece[piece]])]


def _padding_from(rows: BareRows) -> np.ndarray:
    """Find for each row where its padding may begin, as a slot counted through all rows; shape (rows,).

    From there on the row has only the token that may be padding.
    """
    row_ends = np.cumsum(rows.sizes)
    last_other = np.where(rows.ids != rows.padding[0], np.arange(len(rows.ids)), -1)
    has_slots, padding_from = rows.sizes > 0, row_ends.copy()
    if has_slots.any():
        row_starts = (row_ends - rows.sizes)[has_slots]
        padding_from[has_slots] = np.maximum(np.maximum.reduceat(last_other, row_starts), row_starts - 1) + 1
    return padding_from


def read_again(
    rows: Callable[[], Iterable[BareRows]], source: Contents, padding: bool, ends: Ends, ahead: bool
) -> Found:
    """Look for the sequences of a source in rows: in their order, or else as whole sequences in each row.

    Args:
        rows: reads them.
        padding: whether to keep what may be padding.
        ends: the rows whose last label is a token more.
        ahead: whether labels are the next tokens.
    """

    def kept() -> Iterator[BareRows]:
        trained_next = False  # whether the row before has the label of the next row's first token
        part: BareRows | None = None
        for next_part in chain(rows(), [None]):
            if part is not None:
                has_last_token = np.full(len(part.sizes), ends == "each")
                has_last_token[-1:] |= ends == "last" and next_part is None
                kept_rows = part.kept(padding, has_last_token)
                if ends != "each":
                    labeled = part.last_labels(padding) != IGNORED
                    row_starts = np.cumsum(kept_rows.sizes) - kept_rows.sizes
                    is_labeled = np.append(trained_next, labeled[:-1]) & (kept_rows.sizes > 0)
                    for bits in kept_rows.trained.values():
                        bits[row_starts[is_labeled]] = True
                    trained_next = bool(labeled[-1]) if len(labeled) else trained_next
                yield kept_rows
            part = next_part

    in_their_order = in_order(kept(), source, ends, ahead)
    if in_their_order.contents is not None and in_their_order.whole == len(source):
        return in_their_order
    in_any_order = in_rows(kept(), source)
    if in_any_order.contents is None or in_any_order.whole < in_their_order.whole:
        return in_their_order
    return in_any_order


def fits(source: int, packs: TokenCounts) -> tuple[bool, Ends]:
    """Choose the tokens of rows whose count is nearest to the source's: with padding or not, and which labels.

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
