"""What the columns of some rows of packs say: where sequences begin, what is padding, and whether columns agree."""

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import numpy as np

from packlib.packing.ragged import ranges
from packlib.tools.auditing.bare_rows import BareRows
from packlib.tools.auditing.contents import Chunk, chunk_of
from packlib.tools.auditing.hashing import hashes
from packlib.tools.auditing.names import NEMO, PADDED_BOUNDS, SEGMENTS, TARGETS
from packlib.tools.rows.loss_masks import trained_tokens
from packlib.tools.rows.token_labels import IGNORED

OTHER_LABELS = "Labels are neither the tokens of their row nor the next ones"
Columns = dict[str, tuple[np.ndarray, np.ndarray]]  # how many numbers each row has, and those of all rows end to end
_BY_SLOT = ("position_ids", "attention_mask", *SEGMENTS, "input_ids")  # columns with a number for each slot


class MeasuredRows(NamedTuple):
    """Some packs, measured.

    Attributes:
        lengths: slots of each sequence, one pack after the other; None where they are not known.
        depths: sequences in each pack, shape (packs,).
        used: slots of each pack that sequences fill, shape (packs,).
        widths: all slots of each pack, shape (packs,).
        firsts: the position at which each sequence starts; None where there are no positions.
        wrong: for each sentence about faulty rows, the numbers of the rows that it is true of.
        contents: of the sequences; None unless they are asked for.
        bare: the rows, where nothing tells where sequences begin; None unless contents are asked for.
        counts: by the name of each mask of the loss, how many tokens it trains on; and by names of their own, what
            `labels_trained` and `_untrained` count, "over borders", "open ends" and "may be padding".
        file: of these rows, in words, where there are several files.
    """

    lengths: np.ndarray | None
    depths: np.ndarray
    used: np.ndarray
    widths: np.ndarray
    firsts: np.ndarray | None = None
    wrong: dict[str, np.ndarray] = {}  # noqa: RUF012
    contents: Chunk | None = None
    bare: BareRows | None = None
    counts: dict[str, int] = {}  # noqa: RUF012
    file: str = ""


class _Sequences(NamedTuple):
    """Places of sequences in some rows.

    Attributes:
        starts: the first slot of each, counted through all rows; shape (sequences,).
        lengths: slots of each, shape (sequences,).
        depths: how many sequences each row has, shape (rows,).
        firsts: the first number of each in its column, such as its first position; None for columns of lengths.

    For rows with the `position_ids` [0 1 2 0 1] and [0 1 2 3] these are starts [0 3 5], lengths [3 2 4], depths [2 1]
    and firsts [0 0 0].
    """

    starts: np.ndarray
    lengths: np.ndarray
    depths: np.ndarray
    firsts: np.ndarray | None = None


def read_rows(
    kinds: list[str], columns: Columns, first_row: int, masks: Mapping[str, str], keep_contents: bool
) -> MeasuredRows:
    """Measure some rows by the first of `kinds`, and compare what the others tell.

    Args:
        kinds: the columns that tell where sequences begin; ["input_ids"] if none does.
        first_row: the number of the first row in its file.
        masks: the columns that are masks of the loss, with the word for what each means.
        keep_contents: whether to return the contents of the sequences.

    Raises:
        ValueError: naming a row in which a column of bounds cannot be right.
    """
    rows = _RowReader(kinds[0], columns, first_row, masks)
    return rows.bare(keep_contents) if kinds[0] == "input_ids" else rows.divided(kinds, keep_contents)


class _RowReader:
    """Some rows of packs, read column by column.

    Attributes:
        kind: the column that tells where sequences begin.
        columns: those of these rows, by name.
        first_row: the number of the first row in its file.
        masks: by column that is a mask of the loss, the word for what it means.
        sizes: slots of each row, shape (rows,); None where no column has a number for each slot.
        ids: the tokens of all rows.
        short: columns that have not as many numbers as `input_ids`; they are not read.
        real: which slots are no padding by the attention mask; None if there is no mask.
        has_label: which slots have a label that is trained on; None without labels.
        surely_real: which slots are no padding, since they have a label or are trained on; None if nothing says so.
        counts, wrong: as in `MeasuredRows`; each step adds some.
    """

    def __init__(self, kind: str, columns: Columns, first_row: int, masks: Mapping[str, str]) -> None:
        self.kind = kind
        self.columns = columns
        self.first_row = first_row
        self.masks = {name: word for name, word in masks.items() if name in columns}
        self.wrong = dict[str, np.ndarray]()
        self.ids = columns["input_ids"][1] if "input_ids" in columns else np.empty(0)
        self.sizes = self._sizes()
        self.short = self._short_columns()
        self.real = self._real_slots()
        no_starts = np.empty(0, int)  # where sequences start is not known yet, so their first tokens count, too
        self.counts = {
            name: int(np.count_nonzero(trained_tokens(word, columns[name][1], no_starts)))
            for name, word in self.masks.items()
        }
        has_ids = self.sizes is not None and len(self.ids) == self.sizes.sum()
        has_labels = "labels" in columns and "labels" not in self.short
        self.has_label = asked_labels(columns, self.short) if has_ids and has_labels else None
        self.surely_real = self._surely_real() if has_ids else None

    def say(self, sentence: str, rows: np.ndarray) -> None:
        """Keep a sentence that is true of the rows that are marked; bool, shape (rows,)."""
        if rows.any():
            self.wrong[sentence] = self.first_row + np.flatnonzero(rows)

    def refuse(self, rows: Any, fault: str) -> None:
        """Raise a ValueError that names the first row that is marked, if one is, and says its fault."""
        _refuse(rows, self.first_row, fault)

    def _sizes(self) -> np.ndarray | None:
        """Return the slots of each row; refuse rows whose tokens or mask have another size than their `kind`."""
        sizes = self.columns["input_ids"][0] if "input_ids" in self.columns else None
        if self.kind not in _BY_SLOT:
            return sizes
        own_sizes = self.columns[self.kind][0]
        for name in ("input_ids", "attention_mask"):
            if name in self.columns:
                differ = self.columns[name][0] != own_sizes
                self.refuse(differ, f"has not as many {name} as {self.kind}")
        return own_sizes

    def _short_columns(self) -> set[str]:
        """Return the columns that have not as many numbers as `input_ids` in some row, and say so."""
        if self.sizes is None:
            return set()
        by_token = ("labels", *self.masks, "token_type_ids", *_BY_SLOT[:-1])
        short = set[str]()
        for name in by_token:
            if name in self.columns and (differs := self.columns[name][0] != self.sizes).any():
                self.say(f"{name} has not as many numbers as input_ids", differs)
                short.add(name)
        return short

    def _real_slots(self) -> np.ndarray | None:
        """Mark the slots that the attention mask shows; None without one of the right size."""
        if "attention_mask" not in self.columns or self.sizes is None:
            return None
        sizes, mask = self.columns["attention_mask"]
        return None if (sizes != self.sizes).any() else mask != 0

    def _surely_real(self) -> np.ndarray | None:
        """Mark the slots that have a label, or that a mask of the loss trains on; None without any."""
        by_labels = [] if self.has_label is None else [self.has_label]
        by_masks = [
            self.columns[name][1] != 0
            for name, word in self.masks.items()
            if word != "prompt" and name not in self.short  # a mask of prompts is 0 on what is trained on
        ]
        return np.logical_or.reduce(by_labels + by_masks) if by_labels or by_masks else None

    def bare(self, keep_contents: bool) -> MeasuredRows:
        """Measure rows in which nothing tells where sequences begin: how much of them may be padding, and labels."""
        widths = self.columns["input_ids"][0]
        if self.real is None:
            used = widths - padding_at_ends(widths, self.ids, self.surely_real)
            padding, may_be_padding = _runs_at_ends(widths, self.ids)
        else:
            used = sums(self.real, widths)
            padding, may_be_padding = 0, 0
        self.counts["may be padding"] = may_be_padding
        whole_rows = _Sequences(np.cumsum(widths) - widths, widths, np.ones_like(widths))
        trained = self.trained(whole_rows)
        if trained:
            of_rows = _untrained(trained, whole_rows)
            self.counts |= {name: of_rows[name] for name in ("rows", "idle rows")}
        bare = None
        if keep_contents:
            next_labels = None
            if self.has_label is not None and self.counts["ahead"] > self.counts["in place"]:
                next_labels = np.where(self.has_label, self.columns["labels"][1], IGNORED)
            bare = _bare(self.ids, widths, used, trained, next_labels, self.real)
            bare = bare._replace(padding=(padding, may_be_padding), first_row=self.first_row)
        return MeasuredRows(None, np.zeros_like(used), used, widths, wrong=self.wrong, bare=bare, counts=self.counts)

    def divided(self, kinds: list[str], keep_contents: bool) -> MeasuredRows:
        """Measure rows whose sequences are told by the first of `kinds`, and say which rows have others by another."""
        kind, sizes = self.kind, self.sizes
        sequences = self.sequences(kind, self.real)
        used = sums(sequences.lengths, sequences.depths)
        widths = used if kind == NEMO or sizes is None else sizes
        self.refuse(used > widths, f"has more tokens by its {kind} than input_ids")
        with_ends = sequences._replace(lengths=sequences.lengths + (kind == NEMO))  # NeMo leaves out last tokens
        has_other_slots = sizes is not None and bool(with_ends.lengths.sum() < sizes.sum())
        slots = ranges(with_ends.starts, with_ends.lengths) if has_other_slots else None  # those of sequences

        by_column = {kind: sequences} | self._compare_columns(kinds, sequences, slots)
        for name, sequences_told in by_column.items():
            if name in SEGMENTS or name == "attention_mask":
                twice = _has_number_twice(sequences_told, self.columns[name][1])
                self.say(f"{name} give two sequences of the row the same number", twice)
        if self.real is not None and kind != NEMO:
            self.say(f"attention_mask has not as many tokens as {kind}", sums(self.real, widths) != used)

        trained = self.trained(with_ends)
        labels_at_ends = (
            None if kind == NEMO else _labels_at_ends(self.columns, self.has_label, sequences, self.counts)
        )
        contents = None
        if sizes is not None and (trained or keep_contents):
            contents = self._contents(with_ends, slots, trained, labels_at_ends, keep_contents)
        firsts = by_column["position_ids"].firsts if "position_ids" in by_column else None
        return MeasuredRows(
            sequences.lengths, sequences.depths, used, widths, firsts, self.wrong, contents, counts=self.counts
        )

    def _compare_columns(
        self, kinds: list[str], sequences: _Sequences, slots: np.ndarray | None
    ) -> dict[str, _Sequences]:
        """Read the sequences by the other columns that tell them, and say in which rows these differ from `sequences`.

        Args:
            kinds: the columns that tell where sequences begin; the first is `self.kind`.
            sequences: by the first of `kinds`.
            slots: those of sequences, if rows have others too, such as padding; else None.

        Returns:
            The sequences by each other column, by its name.
        """
        mask = self.columns.get("attention_mask")
        is_numbered = self.real is not None and mask is not None and mask[1].max(initial=0) > 1
        if is_numbered and self.kind != "attention_mask":  # it numbers the sequences, as LLaMA-Factory has it
            kinds = [*kinds, "attention_mask"]
        by_column = {}
        for name in kinds:
            if name in (self.kind, "input_ids") or name in self.short:
                continue
            sequences_told = self.sequences(name, self.real)
            if NEMO not in (name, self.kind):  # NeMo leaves out last tokens, so its lengths are others anyway
                differ = _differ(sequences, sequences_told)
                # padding may look like a sequence by this column
                may_be_padding = self.real is None and name in _BY_SLOT and len(self.ids) > 0 and differ.any()
                if may_be_padding and self.sizes is not None and slots is not None:
                    sequences_told = self.sequences(name, _all_but_padding(self.sizes, self.ids, slots))
                    differ = _differ(sequences, sequences_told)
                self.say(f"{self.kind} and {name} tell other sequences", differ)
            by_column[name] = sequences_told
        return by_column

    def _contents(
        self,
        sequences: _Sequences,
        slots: np.ndarray | None,
        trained: dict[str, np.ndarray],
        labels_at_ends: np.ndarray | None,
        keep_contents: bool,
    ) -> Chunk | None:
        """Count what trains on nothing, and return the contents of sequences, without the other slots.

        Args:
            slots: those of sequences, if rows have others too, such as padding; else None.
            trained: by column, which slots hold a token that is trained on.
            labels_at_ends: the label in the last slot of each sequence, if labels are the next tokens; else None.
        """
        ids = self.ids
        if slots is not None:
            ids = ids[slots] if len(ids) else ids
            trained = {name: of_slots[slots] for name, of_slots in trained.items()}
        if trained:
            starts_among_these = np.cumsum(sequences.lengths) - sequences.lengths
            self.counts |= _untrained(trained, sequences._replace(starts=starts_among_these))
        if not keep_contents or self.sizes is None:
            return None
        row_begins = np.cumsum(self.sizes) - self.sizes
        return chunk_of(ids, sequences.lengths, trained)._replace(
            starts=(sequences.starts - np.repeat(row_begins, sequences.depths)).astype(np.int32),
            depths=sequences.depths.astype(np.int32),
            first_row=self.first_row,
            ends=labels_at_ends,
        )

    def trained(self, sequences: _Sequences) -> dict[str, np.ndarray]:
        """Find which slots hold a token that is trained on, by column; count and say what `labels_trained` finds."""
        trained = dict[str, np.ndarray]()
        if self.sizes is None:
            return trained
        filled = sequences.lengths > 0
        starts = sequences.starts[filled]
        if self.has_label is not None:
            last_slots = (sequences.starts + sequences.lengths - 1)[filled]
            trained["labels"], numbers, is_neither = labels_trained(self.has_label, self.columns, starts, last_slots)
            self.counts |= numbers | {"over borders": _over_borders(self.has_label, self.sizes, starts, numbers)}
            self.say(OTHER_LABELS, is_neither)
        masks = self.masks
        if self.kind == NEMO and "loss_mask" in masks:
            masks = {**masks, "loss_mask": "next"}
        return trained | trained_by_masks(self.columns, masks, starts, self.short)

    def sequences(self, name: str, real: np.ndarray | None) -> _Sequences:
        """Return the sequences that one column tells, without padding.

        Args:
            real: which slots are no padding, if that is known.
        """
        by_runs = name == "position_ids" or _is_numbered(name)
        sequences = self._runs(name, real) if by_runs else self._between_bounds(name, real)
        if name == "position_ids" and real is None and len(self.ids) and len(sequences.lengths):
            return self._positions_without_padding(sequences)
        keep = self._no_padding(name, real, sequences)
        return sequences if keep is None or keep.all() else _only(sequences, keep)

    def _runs(self, name: str, real: np.ndarray | None) -> _Sequences:
        """Return the runs of a column as sequences: of positions that go up by 1, or of equal numbers.

        Args:
            real: which slots are no padding, if that is known: a run goes on over padding.
        """
        sizes, values = self.columns[name]
        slots = np.arange(len(values))
        if real is not None:
            slots = np.flatnonzero(real)
            sizes, values = sums(real, sizes), values[slots]
        begins_run = np.ones(len(values), bool)
        step = values.dtype.type(name == "position_ids")  # 1 for positions, 0 for numbers
        np.not_equal(values[1:], values[:-1] + step, out=begins_run[1:])
        begins_run[(np.cumsum(sizes) - sizes)[sizes > 0]] = True  # each row begins one
        run_starts = np.flatnonzero(begins_run)
        return _Sequences(
            slots[run_starts], np.diff(run_starts, append=len(values)), sums(begins_run, sizes), values[run_starts]
        )

    def _between_bounds(self, name: str, real: np.ndarray | None) -> _Sequences:
        """Return the sequences of a column of lengths, or of bounds, without those of 0 tokens.

        Args:
            real: as in `sequences`.

        Raises:
            ValueError: naming a row with a sequence of fewer than 0 tokens, or with bounds that cannot be right.
        """
        sizes, values = self.columns[name]
        if name == "seq_lengths":
            lengths, depths = values.astype(np.int64), sizes
        else:
            lengths, depths = _lengths_between(name, sizes, values.astype(np.int64), self.sizes, self.first_row)
        if lengths.min(initial=1) < 1:
            self.refuse(sums(lengths < 0, depths) > 0, f"has a sequence of fewer than 0 tokens by its {name}")
            lengths, depths = lengths[lengths > 0], sums(lengths > 0, depths)
        starts = np.empty(0, np.int64) if self.sizes is None else self._starts(name, real, lengths, depths)
        return _Sequences(starts, lengths, depths)

    def _starts(self, name: str, real: np.ndarray | None, lengths: np.ndarray, depths: np.ndarray) -> np.ndarray:
        """Return the first slot of each sequence: they follow one another, unless bounds or a mask tell gaps."""
        assert self.sizes is not None
        if padded_column := _padded_beside(name, self.columns):
            return _padded_starts(padded_column, self.columns, lengths, depths, self.sizes, self.first_row)
        if real is not None and name != NEMO and (sums(lengths, depths) == sums(real, self.sizes)).all():
            return np.append(np.flatnonzero(real), len(real))[np.cumsum(lengths) - lengths]
        with_ends = lengths + (name == NEMO)
        free = self.sizes - sums(with_ends, depths)  # slots at the end of each row
        return np.cumsum(with_ends) - with_ends + np.repeat(np.cumsum(free) - free, depths)

    def _no_padding(self, name: str, real: np.ndarray | None, sequences: _Sequences) -> np.ndarray | None:
        """Mark the sequences that are no padding; None if all are kept.

        Args:
            name: of the column by which they were read.
            real: which slots are no padding by the attention mask, if there is one. Then only bounds (cu_seqlens) may
                have a sequence of padding.
        """
        if real is not None:
            if not name.startswith("cu_"):
                return None
            real_before = np.concatenate([[0], np.cumsum(real)])
            sequence_ends = np.minimum(sequences.starts + sequences.lengths, len(real))
            return real_before[sequence_ends] > real_before[np.minimum(sequences.starts, len(real))]
        if _is_numbered(name) and sequences.firsts is not None:
            return ~_blank(sequences.firsts, sequences.depths)
        if not len(self.ids) or not len(sequences.lengths) or name == NEMO or _padded_beside(name, self.columns):
            return None
        row_sizes = self.columns["input_ids"][0]
        of_one_size = bool((row_sizes == row_sizes[0]).all())
        fill_rows = bool((sums(sequences.lengths, sequences.depths) == row_sizes).all())
        # sequences that fill all rows up to one size: the last ones may be padding
        return ~self._padding(sequences, of_one_size) if of_one_size and fill_rows else None

    def _positions_without_padding(self, sequences: _Sequences) -> _Sequences:
        """Return sequences by positions without those that are padding; padding that counts on is cut from the last."""
        row_sizes = self.columns["input_ids"][0]
        keep = ~self._padding(sequences, bool((row_sizes == row_sizes[0]).all()))
        tails = padding_at_ends(row_sizes, self.ids, self.surely_real, sequences.starts + sequences.lengths - 1)
        row_ends = np.repeat(np.cumsum(row_sizes) - tails, sequences.depths)
        shortened = sequences._replace(lengths=np.clip(row_ends - sequences.starts, 0, sequences.lengths))
        return _only(shortened, keep & (shortened.lengths > 0))

    def _padding(self, sequences: _Sequences, of_one_size: bool) -> np.ndarray:
        """Mark the sequences that are padding; bool.

        Args:
            of_one_size: whether all rows have the same number of slots.
        """
        row_sizes = self.columns["input_ids"][0]
        row_begins = np.cumsum(row_sizes) - row_sizes
        return _padding(row_begins, sequences.lengths, sequences.depths, self.ids, self.surely_real, of_one_size)


def _is_numbered(name: str) -> bool:
    """Return whether a column has the number of its sequence for each slot."""
    return name in SEGMENTS or name == "attention_mask"


def _only(sequences: _Sequences, keep: np.ndarray) -> _Sequences:
    """Return the sequences that are marked."""
    starts, lengths, depths, firsts = sequences
    return _Sequences(
        starts[keep] if len(starts) else starts,
        lengths[keep],
        sums(keep, depths),
        None if firsts is None else firsts[keep],
    )


def _bare(
    ids: np.ndarray,
    widths: np.ndarray,
    used: np.ndarray,
    trained: dict[str, np.ndarray],
    labels: np.ndarray | None,
    real: np.ndarray | None,
) -> BareRows:
    """Return the rows, without padding if their mask tells it.

    Args:
        widths, used: slots of each row, and those that are no padding.
        real: which slots are no padding by the mask; None without a mask.
    """
    if real is None:
        return BareRows(ids, widths, used, trained, labels)
    trained = {name: bits[real] for name, bits in trained.items()}
    return BareRows(ids[real], used, used, trained, None if labels is None else labels[real])


def _labels_at_ends(
    columns: Columns, has_label: np.ndarray | None, sequences: _Sequences, counts: dict[str, int]
) -> np.ndarray | None:
    """Return the label in the last slot of each sequence, -100 if it is not trained on; int64.

    None unless labels are the next tokens. `counts` gets how many such labels there are, as "open ends".
    """
    if has_label is None or counts["in place"] > counts["ahead"]:
        return None
    last_slots = sequences.starts + sequences.lengths - 1
    counts["open ends"] = int(np.count_nonzero(has_label[last_slots]))
    return np.where(has_label[last_slots], columns["labels"][1][last_slots], IGNORED).astype(np.int64)


def _differ(sequences: _Sequences, other_sequences: _Sequences) -> np.ndarray:
    """Mark the rows that have other sequences, or of other lengths, by one column than by another."""
    row_hashes = hashes(sequences.lengths, sequences.depths)
    other_row_hashes = hashes(other_sequences.lengths, other_sequences.depths)
    return (sequences.depths != other_sequences.depths) | (row_hashes != other_row_hashes)


def _all_but_padding(sizes: np.ndarray, ids: np.ndarray, used_slots: np.ndarray) -> np.ndarray:
    """Mark the slots that are not padding, in rows that may have padding between their sequences.

    Args:
        used_slots: the slots of sequences. The others of a row are padding if all of them have one id.
    """
    unused = np.ones(len(ids), bool)
    unused[used_slots] = False
    row_of = np.repeat(np.arange(len(sizes)), sizes)[unused]
    lowest = np.full(len(sizes), np.iinfo(np.int64).max)  # id of an unused slot of each row
    highest = np.full(len(sizes), -1, np.int64)
    np.minimum.at(lowest, row_of, ids[unused])
    np.maximum.at(highest, row_of, ids[unused])
    have_one_id = lowest == highest
    return ~(unused & np.repeat(have_one_id, sizes))


def _over_borders(has_label: np.ndarray, sizes: np.ndarray, starts: np.ndarray, numbers: Mapping[str, int]) -> int:
    """Count the sequences, but for the first of each row, whose first token has a label.

    The label is at this token or, where labels are the next tokens, at the one before.
    """
    inner_starts = starts[~np.isin(starts, np.cumsum(sizes) - sizes)]  # of sequences that do not begin a row
    labels_are_ahead = numbers["ahead"] > numbers["in place"]
    return int(np.count_nonzero(has_label[inner_starts - labels_are_ahead]))


def asked_labels(columns: Columns, left_out: Container[str] = ()) -> np.ndarray:
    """Mark the slots whose label is trained on: it is not -100, nor hidden by a mask of targets; bool, shape (slots,).

    Args:
        left_out: columns that are not read.
    """
    has_label = columns["labels"][1] != IGNORED
    if TARGETS in columns and TARGETS not in left_out:
        return has_label & (columns[TARGETS][1] != 0)
    return has_label


def trained_by_masks(
    columns: Columns, masks: Mapping[str, str], starts: np.ndarray, left_out: Container[str] = ()
) -> dict[str, np.ndarray]:
    """Mark the slots whose token is trained on, by each mask of the loss.

    Args:
        starts: the first slot of each sequence.
        left_out: masks that are not read. That of targets is part of the labels, where there are some.
    """
    return {
        name: trained_tokens(word, columns[name][1], starts)
        for name, word in masks.items()
        if name in columns and name not in left_out and not (name == TARGETS and "labels" in columns)
    }


def _untrained(trained: Mapping[str, np.ndarray], sequences: _Sequences) -> dict[str, int]:
    """Count the rows and sequences that have tokens, and those of them that train on nothing ("idle").

    Args:
        trained: by column, whether each token is trained on; a token is if it is by all of them.
        sequences: that follow one another without a gap.
    """
    is_trained = np.logical_and.reduce(list(trained.values()))
    has_tokens = sequences.lengths > 0
    is_trained[sequences.starts[has_tokens]] = False
    trains = _any(is_trained, sequences.lengths)  # by sequence
    row_trains = _any(trains, sequences.depths)
    return {
        "sequences": int(np.count_nonzero(has_tokens)),
        "idle sequences": int(np.count_nonzero(has_tokens & ~trains)),
        "rows": int(np.count_nonzero(sequences.depths)),
        "idle rows": int(np.count_nonzero(~row_trains & (sequences.depths > 0))),
    }


def _any(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return whether one of the first `sizes[0]` values is true, then of the next `sizes[1]`, and so on; bool."""
    has_any = np.zeros(len(sizes), bool)
    has_slots = sizes > 0
    if has_slots.any():
        has_any[has_slots] = np.logical_or.reduceat(values, (np.cumsum(sizes) - sizes)[has_slots])
    return has_any


def _blank(values: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Mark the runs of segment ids that are padding: -1, or a last 0 where the row does not begin with 0.

    A row that is one run of 0 is padding too, if another row does not begin with 0.

    Args:
        values: the segment id of each run.
        depths: how many runs each row has.
    """
    run_ends = np.cumsum(depths)
    is_last = np.zeros(len(values), bool)
    is_last[run_ends[depths > 0] - 1] = True
    first_values = np.repeat(values[(run_ends - depths)[depths > 0]], depths[depths > 0])  # of the row, for each run
    is_last_zero = is_last & (values == 0) & (first_values != 0)
    is_row_of_padding = np.repeat(depths == 1, depths) & (first_values == 0) & (first_values != 0).any()
    return (values == -1) | is_last_zero | is_row_of_padding


def _padded_beside(kind: str, columns: Columns) -> str:
    """Return the column with the bounds of padded sequences, if there is one for the bounds `kind`; else ""."""
    return next((name for name, bounds in PADDED_BOUNDS.items() if bounds == kind and name in columns), "")


def _padded_starts(
    name: str, columns: Columns, lengths: np.ndarray, depths: np.ndarray, widths: np.ndarray, first_row: int
) -> np.ndarray:
    """Return the slots at which sequences begin that are padded one by one, by the bounds of the padded ones.

    Args:
        name: the column with these bounds.
        lengths, depths: of the sequences without padding.
        widths: slots of each row.
    """
    sizes, bounds = columns[name]
    padded, padded_depths = _lengths_between(name, sizes, bounds.astype(np.int64), widths, first_row)
    padded, padded_depths = padded[padded > 0], sums(padded > 0, padded_depths)  # lengths with padding
    _refuse(padded_depths < depths, first_row, f"has fewer sequences by its {name} than by its bare bounds")
    number_in_row = ranges(np.zeros_like(padded_depths), padded_depths)
    is_surplus = number_in_row >= np.repeat(depths, padded_depths)  # may be padding alone, behind all sequences
    surplus = sums(padded * is_surplus, padded_depths)
    padded = padded[~is_surplus]
    _refuse(sums(padded < lengths, depths) > 0, first_row, f"has sequences that are shorter by their {name} than bare")
    free = widths - sums(padded, depths)
    _refuse(free < surplus, first_row, f"has more tokens by its {name} than input_ids")
    return np.cumsum(padded) - padded + np.repeat(np.cumsum(free) - free, depths)


def padding_at_ends(
    sizes: np.ndarray, ids: np.ndarray, trains: np.ndarray | None = None, sequence_ends: np.ndarray | None = None
) -> np.ndarray:
    """Count the slots at the end of each row that are padding which no mask tells, if all rows have one size.

    Padding is one id alone. It ends rows in runs of two slots or more, and has no label. The id is 0, or one that
    comes nowhere else, or the one that ends sequences: then the first of each run is the end of the last sequence. A
    row of this id alone is no padding if no other row ends in padding, or if columns tell its sequences.

    Args:
        trains: which slots have a label, or are trained on by a mask; None where nothing says so.
        sequence_ends: the last slot of each sequence, if that is known. Without it, the id that ends sequences is not
            known, and only 0 and an id that comes nowhere else are padding.
    """
    none = np.zeros_like(sizes)
    if not len(ids) or (sizes != sizes[0]).any() or len(ids) != sizes.sum():
        return none
    rows = ids.reshape(len(sizes), -1)
    last_ids = rows[:, -1]
    ends_in_two = rows[:, -2:].min(axis=1) == rows[:, -2:].max(axis=1)  # equal ids
    if trains is not None:
        ends_in_two &= ~trains.reshape(rows.shape)[:, -2:].any(axis=1)
    kinds, times = np.unique(last_ids[ends_in_two], return_counts=True)
    if rows.shape[1] < 2 or not len(kinds):
        return none
    padding_id = kinds[times.argmax()]
    is_other = rows[:, ::-1] != padding_id  # each row from its end
    if trains is not None:
        is_other |= trains.reshape(rows.shape)[:, ::-1]
    has_other = is_other.any(axis=1)
    run_lengths = np.where(has_other, is_other.argmax(axis=1), 0)
    if sequence_ends is None and (run_lengths > 1).any():
        run_lengths[~has_other] = rows.shape[1]  # beside rows that end in padding, a row of it alone is empty
    elsewhere = int(np.count_nonzero(ids == padding_id)) - int(run_lengths.sum())
    if padding_id == 0 or not elsewhere:
        return run_lengths
    if sequence_ends is None:
        return none
    inner_ends = sequence_ends[~np.isin(sequence_ends, np.cumsum(sizes) - 1)]  # that are no ends of rows
    ends_sequences = np.count_nonzero(ids[inner_ends] == padding_id) > len(inner_ends) / 2
    if not ends_sequences:
        return none
    # the first of a run is the end of the last sequence, unless it is trained on, and so not in the run
    return np.maximum(run_lengths - 1, 0) if trains is None else run_lengths


def _runs_at_ends(sizes: np.ndarray, ids: np.ndarray) -> tuple[int, int]:
    """Return the most frequent last token of rows, and how many slots at the ends of rows hold it in a run.

    These slots may be padding, if nothing tells.
    """
    row_ends = np.cumsum(sizes)[sizes > 0]
    if not len(row_ends):
        return 0, 0
    kinds, times = np.unique(ids[row_ends - 1], return_counts=True)
    most_frequent = kinds[times.argmax()]
    other_slots = np.where(ids != most_frequent, np.arange(len(ids)), -1)
    row_starts = row_ends - sizes[sizes > 0]
    last_other = np.maximum(np.maximum.reduceat(other_slots, row_starts), row_starts - 1)
    return int(most_frequent), int((row_ends - 1 - last_other).sum())


def _padding(
    row_starts: np.ndarray,
    lengths: np.ndarray,
    depths: np.ndarray,
    ids: np.ndarray,
    trains: np.ndarray | None,
    of_one_size: bool,
) -> np.ndarray:
    """Mark the sequences that are padding which no mask tells: last ones of a row, of the padding's id alone; bool.

    The id of padding is the one in which most rows end, of those that end in two such slots or more; 0 without any. If
    rows have several sizes and nothing says what is trained on, only 0 counts. The first sequence of a row is no
    padding, nor is one with a token that is trained on, nor any if the whole row has one id.

    Args:
        row_starts: the first slot of each row.
        lengths, depths: slots of each sequence, and sequences of each row.
        trains: which slots have a label, or are trained on by a mask; None where nothing says so.
        of_one_size: whether all rows have the same number of slots.
    """
    padding = np.zeros(len(lengths), bool)
    has_sequences = depths > 0
    row_starts, depths = row_starts[has_sequences], depths[has_sequences]
    row_ends = row_starts + sums(lengths, depths)
    if row_ends.max() > len(ids):
        return padding  # what tells this is refused

    # Rows that may have padding: several sequences, and the last one begins and ends with the same id.
    last_lengths = lengths[np.cumsum(depths) - 1]
    may_have_some = (depths > 1) & (ids[row_ends - 1] == ids[row_ends - last_lengths])
    in_these_rows = may_have_some.repeat(depths)
    row_starts = row_starts[may_have_some]
    row_ends = row_ends[may_have_some]
    depths = depths[may_have_some]
    lengths = lengths[in_these_rows]
    end_ids = ids[row_ends - 1]

    # Their sequences after the last one that has another id than the end of its row, or a token that is trained on.
    slots = ranges(row_starts, row_ends - row_starts)
    is_other_id = ids[slots] != end_ids.repeat(row_ends - row_starts)
    is_real = is_other_id if trains is None else is_other_id | trains[slots]
    numbers = np.arange(len(lengths))
    first_numbers = np.cumsum(depths) - depths
    real_numbers = np.where(sums(is_real, lengths) > 0, numbers, first_numbers.repeat(depths))
    last_real = np.maximum.reduceat(real_numbers, first_numbers)
    has_several_ids = sums(is_other_id, row_ends - row_starts) > 0
    is_behind = (numbers > last_real.repeat(depths)) & has_several_ids.repeat(depths)

    # The id of padding, in which most rows end whose end has two such slots or more.
    kinds, times = np.unique(end_ids[sums(lengths * is_behind, depths) > 1], return_counts=True)
    padding_id = kinds[times.argmax()] if len(kinds) else 0
    if of_one_size or trains is not None or padding_id == 0:
        padding[in_these_rows] = is_behind & (end_ids == padding_id).repeat(depths)
    return padding


def _lengths_between(
    kind: str, sizes: np.ndarray, values: np.ndarray, widths: np.ndarray | None, first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of the sequences between bounds, and how many each row has.

    A row of n sequences has n + 1 bounds from 0 to the last; those of NeMo are n starts, and the row's end is the last
    bound. Bounds may be filled up to the same number in each row, by repeating the last, or by -1 as Megatron does.
    Bounds [0 3 5] are lengths [3 2]. NeMo's starts [0 4] of a row of 7 slots are lengths [3 2] as well: NeMo leaves out
    the last token of each sequence.

    Args:
        kind: the column of bounds.
        sizes, values: how many bounds each row has, and all of them.
        widths: slots of each row, for NeMo's.
    """
    if kind != NEMO and (filled := values == -1).any():
        sizes, values = sums(~filled, sizes), values[~filled]
    bound_ends = np.cumsum(sizes)
    _refuse(sizes < 1, first_row, f"has no {kind}")
    _refuse(values[bound_ends - sizes] != 0, first_row, f"has {kind} that do not start at 0")
    if kind != NEMO:
        lengths = np.delete(np.diff(values), bound_ends[:-1] - 1)  # without those from one row's end to the next row
        return lengths, sizes - 1
    next_bounds = np.append(values[1:], 0)
    next_bounds[bound_ends - 1] = widths
    return next_bounds - values - 1, sizes


def _has_number_twice(sequences: _Sequences, values: np.ndarray) -> np.ndarray:
    """Mark the rows in which two runs have the same number.

    Args:
        sequences: the runs.
        values: the numbers of all slots.
    """
    row = np.repeat(np.arange(len(sequences.depths)), sequences.depths)
    pairs = np.unique(np.stack([row, values[sequences.starts].astype(np.int64)]), axis=1)
    return np.bincount(pairs[0], minlength=len(sequences.depths)) < sequences.depths


def labels_trained(
    has_label: np.ndarray, columns: Columns, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, dict[str, int], np.ndarray]:
    """Mark the tokens that are trained on by labels, and find out if labels are the tokens themselves or the next ones.

    Args:
        has_label: which slots have a label that is trained on.
        starts, ends: the first and the last slot of each sequence; the token after the last is another's.

    Returns:
        Which slots hold a token that is trained on: those with a label, or the next ones if labels are ahead. Counts by
        name. And which rows have labels that are neither all their tokens nor all the next ones.

        Three counts are of rows. "labeled" rows have labels. Rows are "in place" if all their labels are their tokens
        and some are not the next ones, and "ahead" the other way round; but if every label of all rows is its token,
        all labeled rows are "in place". Two counts are of labels, in rows whose labels are neither all their tokens nor
        all the next ones: "others" are the labels that are not their own token, and "masked" those of them at the token
        that has the most, which is the mask in data of a masked model.
    """
    sizes, ids = columns["input_ids"]
    _, labels = columns["labels"]
    is_not_own = has_label & (labels != ids)
    row_has_label = _any(has_label, sizes)
    if not is_not_own.any():  # this saves the comparison with the next tokens
        labeled = int(np.count_nonzero(row_has_label))
        counts = {"labeled": labeled, "others": 0, "masked": 0, "in place": labeled, "ahead": 0}
        return has_label, counts, np.zeros(len(sizes), bool)
    is_not_next = has_label & (labels != np.append(ids[1:], -1))
    is_not_next[np.cumsum(sizes)[sizes > 0] - 1] = False  # the token after the row is not known
    is_not_next[ends] = False
    not_all_own, not_all_next = _any(is_not_own, sizes), _any(is_not_next, sizes)
    is_neither = not_all_own & not_all_next
    tokens_there = ids[is_not_own & np.repeat(is_neither, sizes)]
    counts = {
        "labeled": int(np.count_nonzero(row_has_label)),
        "in place": int(np.count_nonzero(not_all_next & ~not_all_own)),
        "ahead": int(np.count_nonzero(not_all_own & ~not_all_next)),
        "others": len(tokens_there),
        "masked": int(np.unique(tokens_there, return_counts=True)[1].max(initial=0)),
    }
    labels_are_ahead = counts["ahead"] > counts["in place"]
    trained = trained_tokens("next" if labels_are_ahead else "loss", has_label, starts)
    return trained, counts, is_neither


def sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the sum of the first `sizes[0]` values, of the next `sizes[1]`, and so on; int64.

    >>> import numpy as np
    >>> from packlib.tools.auditing.columns import sums
    >>> sums(np.array([1, 2, 3, 4]), np.array([3, 0, 1])).tolist()
    [6, 0, 4]
    """
    if len(sizes) and sizes.min() > 0:
        return np.add.reduceat(values, np.cumsum(sizes) - sizes, dtype=np.int64)
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[np.cumsum(sizes)], prepend=0)


def _refuse(wrong: Any, first_row: int, fault: str) -> None:
    """Raise a ValueError that names the first row that is marked, if one is, and says its fault."""
    if np.any(wrong):
        raise ValueError(f"row {first_row + int(np.argmax(wrong))} {fault}.")
