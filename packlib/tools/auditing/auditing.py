"""What does it cost? Packed data that others made, counted: packs above the least, what is lost, and how many steps."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from packlib.arguments import depth_limit, listed, number, one_of, percent, shown, text, whole_number
from packlib.bars import progress_bar, wanted
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH, count_lengths
from packlib.lengths.overlong import OVERLONG, CutRule, Overlong
from packlib.packing import plan
from packlib.packing.search.sums import direct_bound
from packlib.tools.auditing.audit_waits import waiting_of
from packlib.tools.auditing.audited_source import OpenSource, ReadSource
from packlib.tools.auditing.bare_rows import BareRows, TokenCounts, fits, read_again, tokens_beside
from packlib.tools.auditing.columns import OTHER_LABELS, MeasuredRows, sums
from packlib.tools.auditing.contents import Chunk, Contents
from packlib.tools.auditing.last_labels import with_last_tokens
from packlib.tools.auditing.names import MASKS, NEMO, columns_asked
from packlib.tools.auditing.packed_files import MEGATRON, PackedData, open_packed
from packlib.tools.auditing.packing_audit import PackingAudit, PlannedUpdates
from packlib.tools.auditing.second_budget import SecondBudget, second_budget_of
from packlib.tools.auditing.source_comparison import PackedSequences, SourceComparison, compare
from packlib.tools.rows.loss_masks import UNTRAINED, MaskWord, mask_option, mask_words, unknown_column
from packlib.tools.rows.row_sources import ArrowRows
from packlib.tools.rows.second_budget import column_and_budget
from packlib.work import Waiting, Work

_NO_WAITS = "How long ranks wait is unknown: that takes the lengths in each pack, and packs for a whole update."


def audit(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ArrowRows,
    source: str | os.PathLike[str] | Sequence[str] | ArrowRows | LengthHistogram | Iterable[int] | None = None,
    *,
    column: str | None = None,
    columns: Mapping[str, str] | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    overlong: Overlong = "error",
    max_length: int | None = None,
    max_sequences_per_pack: int | None = None,
    batch_size: int | None = None,
    gradient_accumulation_steps: int = 1,
    ranks: int = 1,
    steps: int | None = None,
    work: Work | None = None,
    tolerance: float = 0.05,
    second_budget: tuple[str, int] | None = None,
    progress: bool | None = None,
) -> PackingAudit:
    """Count what packed data costs, and what became of the sequences that went into it.

    >>> from datasets import Dataset
    >>> from packlib import audit
    >>> packed = Dataset.from_dict({"input_ids": [[1] * 6, [1] * 8], "seq_lengths": [[4, 2], [8]]})
    >>> found = audit(packed, source=[4, 2, 9])
    >>> found.packs, found.lower_bound, found.padding_slots, found.source.tokens_lost, found.source.as_if
    (2, 2, 2, 1, 'the 1 longer than 8 were cut to it')

    Args:
        data: a `datasets.Dataset`; or a file of Parquet, JSON lines (also compressed, `.jsonl.gz`) or Arrow, several, a
            folder of them, or a pattern such as `packs/*.parquet`. It has `seq_lengths` (as TRL writes), `cu_seqlens`,
            `seq_start_id` (NeMo), `position_ids` that start again, `segment_ids`, `document_ids`, `seq_idx` or an
            `attention_mask` that numbers sequences (LLaMA-Factory), or the columns of torchtune, Grain, MaxText or
            seqio. All of these columns must agree. Or NeMo's `.npy`, or Megatron's `.idx`. It is read in chunks, but
            for NeMo's `.npy`.
        source: what was packed: sequences with tokens, in the same kinds of files, which are compared by their tokens
            and by which of these are trained on; or lengths: an array, a `LengthHistogram`, a file or data set as
            `packlib.lengths.load` takes, a Megatron `.idx`.
        column: column to read from the source file; by default `input_ids` if the file has it.
        columns: the columns of a file whose names are not known, by the names that they have here, such as
            `{"input_ids": "tokens", "segment_ids": "doc_ids"}`. The source is read so as well, where it has them.
        masks: what columns mean, as in `pack_dataset`: "loss" where tokens with 1 are trained on, "prompt" where those
            with 0 are, "next" where 1 says that the next token is, "keep" or "drop" for no mask of the loss. Known are
            the names that `pack_dataset` knows, and `weights` and `loss_weights`, where 0 trains on nothing.
        overlong: what was meant to become of sequences longer than `max_length`: "split", as `bfd_split` of TRL does,
            "truncate" or "drop"; "error" if none was. Without `max_length`, the longest packed sequence is the limit.
        max_length: slots of a pack; by default those of the widest row, padding included. A `.idx` needs it.
        max_sequences_per_pack: the depth limit of the proven least, or None.
        batch_size, gradient_accumulation_steps, ranks: packs in a batch of one rank, batches in an update, ranks.
        steps: updates that are meant to be trained.
        work: what a pack costs the ranks, which wait for the slowest once in an update; by default `Work.decoder()`.
        tolerance: share by which the packs may be more than `lpfhp` makes before that is a problem.
        second_budget: a column that holds, in each pack, a number for each of its sequences, and the most that a pack
            may hold of it, such as `("patches", 125)`. The packs are then compared with those that the scarcer budget
            needs.
        progress: True for a bar, False for none; by default, a terminal gets one after two seconds.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the argument, or the file and what is wrong with it.
    """
    slots_asked = None if max_length is None else whole_number("max_length", max_length, 1, MAX_LENGTH)
    depth = depth_limit(max_sequences_per_pack)
    _check_setting(batch_size, gradient_accumulation_steps, ranks, steps, work, tolerance)
    _check_source(source, column, overlong)
    rule = None if overlong == "error" else overlong
    column_names = columns_asked(columns)
    words = mask_words(masks)

    packed = open_packed(data, column_names, words)
    is_megatron = packed.kind == MEGATRON  # its loader joins and cuts the sequences, so the file has no packs yet
    if is_megatron and slots_asked is None:
        raise ValueError("max_length must be given for Megatron's .idx, which is cut when it is loaded, not left out.")
    second = None if second_budget is None else second_budget_of(data, *column_and_budget(second_budget))
    if second is not None:
        packed = packed._replace(unread=tuple(name for name in packed.unread if name != second.column))
    opened = None if source is None else OpenSource(source, column, column_names, words, packed.columns)
    _refuse_unknown_masks(words, packed, opened)

    keep_contents = opened is not None and opened.has_tokens and packed.tokens
    cost = (work or Work.decoder()) if ranks > 1 and not is_megatron else None
    row_limit = None if is_megatron else slots_asked
    totals = _PackTotals(packed, row_limit, wanted(progress), cost, keep_contents, {**MASKS, **words})
    read_source = _read_source(opened, totals, keep_contents, rule, slots_asked)
    slots = slots_asked or totals.widest
    packs, tokens = _packs_and_tokens(totals, slots)

    packed_sequences = None if opened is None or read_source is None else totals.sequences_beside(opened, read_source)
    findings = _findings_of_packs(totals, slots, read_source, packed_sequences)
    if is_megatron:
        findings.notes.append(
            f"Megatron joins the sequences in an order of its own and cuts that every {slots:,} tokens, which leaves "
            f"{totals.tokens - tokens:,} tokens out. The file does not say which sequences are cut."
        )
    bound = -(-tokens // slots)  # by tokens alone, unless the lengths give a higher one
    lpfhp = None
    if totals.counts is not None and not is_megatron:
        bound, lpfhp = _packs_needed(totals, packs, slots, depth, second, tolerance, findings)
    if opened is None or read_source is None or packed_sequences is None:
        against = None
        findings.notes.append("What was lost, cut or repeated before packing is unknown without a source.")
    else:
        against = _beside_the_source(opened, read_source, totals, packed_sequences, findings)
    updates = waiting = balanced = None
    if batch_size is not None:
        packs_per_update = batch_size * ranks * gradient_accumulation_steps
        loaded_at_once = (
            batch_size * ranks if ranks > 1 else 0
        )  # one rank alone repeats no packs to fill its last batch
        updates = PlannedUpdates.of(packs, totals.sequences, packs_per_update, loaded_at_once, steps)
        findings.problems += updates.problems
        if ranks > 1:
            waiting, balanced, sentence = _waits(totals, cost, ranks, packs_per_update // ranks)
            findings.notes.append(sentence)
    return PackingAudit(
        name=packed.name,
        borders=packed.kind,
        packs=packs,
        sequences=totals.sequences,
        tokens=tokens,
        deepest=None if is_megatron else totals.deepest,
        max_length=slots,
        given=slots_asked is not None,
        lower_bound=bound,
        lpfhp_packs=lpfhp,
        source=against,
        updates=updates,
        waiting=waiting,
        balanced=balanced,
        problems=tuple(findings.problems),
        unknown=tuple(findings.unknown),
        notes=tuple(findings.notes),
    )


def _check_setting(
    batch_size: int | None,
    gradient_accumulation_steps: int,
    ranks: int,
    steps: int | None,
    work: Work | None,
    tolerance: float,
) -> None:
    """Raise an error for a setting of the training that is not allowed, or that needs another one."""
    number("tolerance", tolerance, at_least=0)
    whole_number("gradient_accumulation_steps", gradient_accumulation_steps, 1, INT64_MAX)
    whole_number("ranks", ranks, 1, INT64_MAX)
    for name, value in {"batch_size": batch_size, "steps": steps}.items():
        if value is not None:
            whole_number(name, value, 1, INT64_MAX)
    if batch_size is None and (steps is not None or gradient_accumulation_steps > 1 or ranks > 1):
        raise ValueError("batch_size must be given with steps, gradient_accumulation_steps or ranks, not left out.")
    if work is not None and not isinstance(work, Work):
        raise TypeError(f"work must be Work, not {shown(work)}.")
    if work is not None and ranks == 1:
        raise ValueError("ranks must be at least 2 where the work of a model is given, not 1.")


def _check_source(source: Any, column: str | None, overlong: Overlong) -> None:
    """Raise an error for `column` or `overlong` without a source, and for values that are not allowed."""
    if column is not None:
        text("column", column)
    if column is not None and source is None:
        raise ValueError(f"column must be left out without a source, not {shown(column)}.")
    one_of("overlong", overlong, OVERLONG)
    if overlong != "error" and source is None:
        raise ValueError(f"overlong must be left out without a source, not {shown(overlong)}.")


def _read_source(
    opened: OpenSource | None, totals: "_PackTotals", keep_contents: bool, rule: CutRule | None, slots: int | None
) -> ReadSource | None:
    """Read the source as packs should hold it: cut by the rule that was meant, and as NeMo counts its sequences.

    Args:
        slots: of a pack, if the caller gives `max_length`; else None.
    """
    if opened is None:
        return None
    # a sequence may have one token more than a pack has slots, which is a label only
    has_last_label = slots is not None and totals.longest == slots + 1
    longest = totals.longest if slots is None or has_last_label else slots
    read_source = opened.read(keep_contents, rule, longest, totals.token_counts is not None)
    if totals.packed.kind == NEMO:
        return replace(read_source, lengths=_without_one(read_source.lengths))
    return read_source


def _packs_and_tokens(totals: "_PackTotals", slots: int) -> tuple[int, int]:
    """Return how many packs there are, and their tokens; of Megatron's index, those that a loader will make.

    Raises:
        ValueError: if there is no whole pack.
    """
    packs, tokens = totals.packs, totals.tokens
    if totals.packed.kind == MEGATRON and totals.tokens:
        packs = (totals.tokens - 1) // slots
        tokens = packs * slots
    if packs < 1 or not totals.tokens:
        raise ValueError(
            f"{totals.packed.name} must fill a pack, not hold {totals.packs:,} rows with {totals.tokens:,} tokens."
        )
    return packs, tokens


@dataclass
class _Findings:
    """Sentences about the packs, which `PackingAudit` has under the same names; each step of the audit adds some."""

    problems: list[str]
    unknown: list[str]
    notes: list[str]


def _findings_of_packs(
    totals: "_PackTotals", slots: int, read_source: ReadSource | None, packed_sequences: PackedSequences | None
) -> _Findings:
    """Say what the packs show by themselves, and which notes the lengths of the source answer."""
    lengths = None if read_source is None else read_source.lengths
    if lengths is not None and packed_sequences and packed_sequences.last_labels:
        lengths = _without_one(lengths)
    found_by_tokens = packed_sequences is not None and packed_sequences.contents is not None
    return _Findings(totals.problems(slots), totals.unknown(found_by_tokens), totals.notes(lengths))


def _refuse_unknown_masks(words: Mapping[str, MaskWord], packed: PackedData, source: OpenSource | None) -> None:
    """Raise a ValueError for a mask whose column neither the packs nor their source have."""
    columns = {*packed.columns.values(), *packed.unread}
    if not columns:
        return
    place = packed.name
    if source is not None:
        columns |= source.all_columns
        place = f"{packed.name} and of its source"
    for name, word in words.items():
        if name not in columns:
            raise unknown_column(name, word, place, sorted(columns))


def _packs_needed(
    totals: "_PackTotals",
    packs: int,
    max_length: int,
    depth: int | None,
    second: SecondBudget | None,
    tolerance: float,
    findings: _Findings,
) -> tuple[int, int]:
    """Find how many packs the sequences need at least, and how many `lpfhp` makes of them.

    If there are far more packs, or packs exceed the second budget, `findings` gets a problem.

    Args:
        packs: how many there are.
        max_length, depth: slots and sequences that a pack may have.
        second: the use of the second budget, if there is one.
        tolerance: share by which there may be more packs than `lpfhp` makes.
    """
    assert totals.counts is not None
    histogram = LengthHistogram(totals.counts, max_length=max(max_length, len(totals.counts) - 1))
    histogram = histogram.with_max_length(max_length, "truncate")
    bound = direct_bound(histogram.counts, depth)
    lpfhp = plan(histogram, method="lpfhp", max_sequences_per_pack=depth).num_packs
    baseline = "that lpfhp makes of the same sequences"
    if second is not None:
        findings.problems += second.problems
        bound = max(bound, second.lower_bound)
        if second.lpfhp_packs > lpfhp:
            lpfhp, baseline = second.lpfhp_packs, f"that lpfhp makes where {shown(second.column)} is the only budget"
    if packs > lpfhp * (1 + tolerance):
        nothing_packed = " Nothing is packed: each pack holds one sequence." * (totals.deepest == 1)
        excess = f"{percent(packs / lpfhp - 1)} more than the {lpfhp:,} {baseline}"
        findings.problems.append(f"There are {packs:,} packs, {excess}.{nothing_packed}")
    return bound, lpfhp


def _beside_the_source(
    opened: OpenSource,
    read_source: ReadSource,
    totals: "_PackTotals",
    packed_sequences: PackedSequences,
    findings: _Findings,
) -> SourceComparison:
    """Compare sequences and labels of the packs with those of the source, and add to `findings` what differs."""
    against = compare(read_source, packed_sequences)
    of_labels = _labels_beside(opened, read_source, totals, packed_sequences, against.labels is not None)
    findings.problems += against.problems + of_labels.problems
    findings.unknown += against.unknown + of_labels.unknown
    findings.notes += against.notes + _of_rows(packed_sequences, totals) + of_labels.notes
    if opened.unread:
        findings.notes.append(f"Not looked at: the columns {listed(opened.unread)} of the source.")
    return against


def _waits(
    totals: "_PackTotals", work: Work | None, ranks: int, packs_of_a_rank: int
) -> tuple[Waiting | None, float | None, str]:
    """Estimate how long ranks wait on each other.

    Returns:
        Waiting where packs are dealt at random, its share where they are balanced (None for both if it is unknown), and
        a sentence about them.
    """
    waits = waiting_of(np.concatenate(totals.work), ranks, packs_of_a_rank, work) if totals.work and work else None
    return waits or (None, None, _NO_WAITS)


class _PackTotals:
    """Counts of one pass over the rows of packs.

    Args:
        max_length: slots that a row may have; None for any number.
        work: what a pack costs, if that is needed of each pack.
        keep_contents: whether to keep what is compared with a source.
        masks: the columns that may be masks of the loss, with the word for what each means.

    Attributes:
        packs, empty: rows, and rows of padding alone.
        tokens, stored: slots that sequences fill, and all slots.
        widest: slots of the widest row.
        over: rows with more than `max_length` slots.
        num_sequences: sequences in all rows; 0 if nothing tells them apart.
        most_in_a_row: sequences of the row that has most.
        sequences, deepest: the same two; None if nothing tells sequences apart.
        counts: how many sequences have each length; None if the lengths are not known.
        wrong: for each sentence about faulty rows how many rows it is true of, and the first, in words.
        marked: sums of `MeasuredRows.counts`, by the names there.
        starts: how many sequences start at each position.
        contents: of the sequences, if they are kept.
        token_counts: if contents are kept, and nothing tells sequences apart.
        work: of each pack, in chunks.
        masked: whether labels are those of a masked model, which are at other tokens by design.
    """

    def __init__(
        self,
        packed: PackedData,
        max_length: int | None,
        progress: bool | None,
        work: Work | None,
        keep_contents: bool,
        masks: Mapping[str, str],
    ):
        self.packed = packed
        self.max_length = max_length
        self._masks = masks
        self.contents, self.work = list[Chunk](), list[np.ndarray]()
        self.token_counts = TokenCounts() if keep_contents and packed.kind == "input_ids" else None
        self.wrong: dict[str, tuple[int, str]] = {}
        self.packs = self.empty = self.tokens = self.stored = self.widest = self.over = 0
        self.num_sequences = self.most_in_a_row = 0
        self.marked = Counter[str]()
        self.starts = Counter[int]()
        chunks = self._read(progress, work, keep_contents)
        first_lengths = next(chunks, None)  # if no lengths are known, this goes through all rows
        self.counts = (
            None if first_lengths is None else count_lengths(chain([first_lengths], chunks), None, "error")[0]
        )
        has_borders = packed.kind != "input_ids"
        self.sequences: int | None = self.num_sequences if has_borders else None
        self.deepest: int | None = self.most_in_a_row if has_borders else None
        other_labels, _ = self.wrong.get(OTHER_LABELS, (0, ""))
        most_rows_have_others = other_labels > self.marked["labeled"] / 2
        most_at_one_token = self.marked["masked"] > self.marked["others"] / 2  # that of the mask
        self.masked = most_rows_have_others and most_at_one_token
        if self.masked:
            del self.wrong[OTHER_LABELS]

    def _read(self, progress: bool | None, work: Work | None, keep_contents: bool) -> Iterator[np.ndarray]:
        """Read the rows chunk by chunk, count them, and yield the lengths of sequences where they are known."""
        # the bar is drawn with each chunk, also with the last one, after which it disappears
        options: dict[str, Any] = {
            "leave": False,
            "delay": 1,
            "mininterval": 0,
            "miniters": 1,
        }
        with progress_bar(progress=progress, total=self.packed.num_rows, desc="audit", unit=" rows", **options) as bar:
            for rows in self.packed.rows(keep_contents):
                self._count(rows)
                bar.update(len(rows.used))
                if rows.lengths is not None and len(rows.lengths):
                    if work:
                        squares = sums(rows.lengths.astype(np.int64) ** 2, rows.depths)
                        self.work.append(work.total(rows.used, squares)[rows.depths > 0])
                    yield rows.lengths

    def _count(self, rows: MeasuredRows) -> None:
        """Add some rows to the counts."""
        for sentence, numbers in rows.wrong.items():
            count, first_place = self.wrong.get(sentence, (0, f"{numbers[0]}{rows.file}"))
            self.wrong[sentence] = count + len(numbers), first_place
        self.marked.update(rows.counts)
        self.contents += [] if rows.contents is None else [rows.contents]
        if rows.bare is not None and self.token_counts is not None:
            self.token_counts.add(rows.bare.ids, rows.bare.sizes, rows.bare.trained)
            self.token_counts.add_ends(rows.bare)
        self.packs += len(rows.used)
        self.empty += int(np.count_nonzero(rows.used == 0))
        self.tokens += int(rows.used.sum(dtype=np.int64))
        self.stored += int(rows.widths.sum(dtype=np.int64))
        self.widest = max(self.widest, int(rows.widths.max(initial=0)))
        self.num_sequences += int(rows.depths.sum())
        self.most_in_a_row = max(self.most_in_a_row, int(rows.depths.max(initial=0)))
        if rows.firsts is not None:
            positions, times = np.unique(rows.firsts, return_counts=True)
            self.starts.update(dict(zip(positions.tolist(), times.tolist(), strict=True)))
        self.over += 0 if self.max_length is None else int(np.count_nonzero(rows.widths > self.max_length))

    def tokens_beside(self, source: LengthHistogram) -> int:
        """Return the number of tokens in the packs.

        If slots at the ends of rows may be padding or not, it is as near to the tokens of the source as they allow.
        """
        may_be_padding = self.marked["may be padding"]
        if not may_be_padding:
            return self.tokens
        if source.num_tokens == self.stored:
            return self.stored
        return min(max(source.num_tokens, self.stored - may_be_padding), self.tokens)

    def sequences_beside(self, source: OpenSource, read_source: ReadSource) -> PackedSequences:
        """Return the sequences and tokens of the packs, to be compared with a source.

        By lengths, if one side has no tokens; else by contents. If no column tells sequences apart, those of the source
        are looked for in the rows.
        """
        tokens = self.tokens_beside(read_source.lengths)
        if read_source.contents is None:
            return self._lengths_beside(read_source, tokens)
        if self.token_counts is not None and read_source.token_counts is not None:
            return self._found_in_rows(source, read_source, self.token_counts, read_source.token_counts)
        contents, last_labels = Contents(self.contents), 0
        if self.ahead:
            contents, last_labels = with_last_tokens(contents, read_source.contents)
        return PackedSequences.of(contents, tokens + last_labels, last_labels=last_labels)

    def _lengths_beside(self, read_source: ReadSource, tokens: int) -> PackedSequences:
        """Return the lengths of the packs, or lengths with one token more each, if those fit the source better.

        That is tried if labels are the next tokens, so that the last token of a sequence may be a label only.
        """
        packed = PackedSequences(tokens, self.sequences, self.counts)
        if self.counts is None or not (self.ahead and self.marked["open ends"]):
            return packed
        longer = np.concatenate([[0], self.counts])
        size = max(len(longer), len(read_source.lengths.counts))
        of_source, of_packs, of_longer = (
            np.pad(counts, (0, size - len(counts))) for counts in (read_source.lengths.counts, self.counts, longer)
        )
        if np.minimum(of_source, of_longer).sum() <= np.minimum(of_source, of_packs).sum():
            return packed
        return packed._replace(tokens=tokens + self.num_sequences, counts=longer, last_labels=self.num_sequences)

    def _found_in_rows(
        self, source: OpenSource, read_source: ReadSource, counts: TokenCounts, of_source: TokenCounts
    ) -> PackedSequences:
        """Return the sequences of the source that are found in rows that do not tell where any begins."""
        by_token = tokens_beside(of_source, counts, bool(source.trained and self.trained))
        contents = read_source.contents or Contents([])
        padding, row_ends = fits(read_source.lengths.num_tokens, counts)

        def rows() -> Iterator[BareRows]:
            return (part.bare for part in self.packed.rows(True) if part.bare is not None)

        search = read_again(rows, contents, padding, row_ends, self.ahead)
        tokens = self.tokens_beside(read_source.lengths)
        last_labels = {"none": 0, "last": 1, "each": counts.last_labels.total()}[row_ends]  # tokens in labels alone
        if search.contents is None or (by_token.may_be_hidden and search.whole < len(contents)):
            return PackedSequences(tokens, None, None, None, last_labels, by_token, search.first_other)
        return PackedSequences.of(search.contents, tokens, last_labels=last_labels, by_token=by_token)

    @property
    def ahead(self) -> bool:
        """Return True if labels are the next tokens."""
        return self.marked["ahead"] > self.marked["in place"]

    @property
    def trained(self) -> list[str]:
        """The columns that say which tokens are trained on."""
        return ["labels"] * ("labeled" in self.marked) + [name for name in self._masks if name in self.marked]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence; of the widest row where sequences are not known."""
        if self.counts is None or len(self.counts) < 2:
            return max(self.widest, 1)
        has_last_label = self.packed.kind == NEMO or (self.ahead and self.marked["open ends"] > 0)
        return len(self.counts) - 1 + has_last_label

    def problems(self, slots: int) -> list[str]:
        """Say what is wrong with the packs, in sentences.

        Args:
            slots: that a pack may have; `max_length`, where that is given.
        """
        first_position = min(self.starts, default=0)
        resumed = self.starts.total() - self.starts[first_position]
        start_later = (
            f"Sequences that do not start at position {first_position}, as the rest after a cut: {resumed:,}."
        )
        starts_late = first_position not in (0, 2)
        sentences = {
            f"Packs with more than {slots:,} slots: {self.over:,}.": self.over,
            start_later: resumed,
            f"Sequences start at position {first_position}: models number from 0 (RoBERTa from 2).": starts_late,
            "All labels are -100: nothing would be trained on.": self.marked.get("labeled", 1) == 0,
        }
        untrained = {name: UNTRAINED[word] for name, word in self._masks.items() if self.marked.get(name, 1) == 0}
        sentences |= {
            f"{name} is {value} for all tokens: nothing would be trained on.": True
            for name, value in untrained.items()
        }
        problems = [sentence for sentence, is_true in sentences.items() if is_true]
        return problems + [
            f"{sentence}, in {count:,} rows, the first of which is {place}."
            for sentence, (count, place) in self.wrong.items()
        ]

    def unknown(self, found_by_tokens: bool) -> list[str]:
        """Say what the file does not tell.

        Args:
            found_by_tokens: whether its sequences were found by the tokens of the source.
        """
        begin = "Where sequences begin is unknown: the file has no column that says so."
        begin += " This comparison found them by the tokens of the source; a trainer cannot." * found_by_tokens
        never = "The positions never start again: each pack holds one sequence, or hides where the others begin."
        never_again = self.packed.kind == "position_ids" and self.deepest == 1
        return [begin] * (self.packed.kind == "input_ids") + [never] * never_again

    def notes(self, source: LengthHistogram | None) -> list[str]:
        """Say what else was seen, and what was not looked at.

        Args:
            source: the lengths of the source, if there is one.
        """
        padding = self.stored - self.tokens
        cut = self._at_the_longest()
        if source is not None and self.counts is not None and len(source.counts) >= len(self.counts):
            cut = cut if cut > source.counts[len(self.counts) - 1] else 0  # the source has as many of this length
        label = "A sequence of n tokens counts as n - 1: as NeMo has it, the last one is a label only."
        as_if = "as if longer ones had been cut or split there. What was cut is not in the file."
        has_uncounted_tokens = self.packed.kind in (NEMO, MEGATRON)  # sequences of one token seem empty
        empty_rows = 0 if has_uncounted_tokens else self.empty
        borders = 0 if self.masked else self.marked["over borders"]
        unless = ", unless a collator masks it, as that of transformers for padding-free batches does" * (
            not self.ahead
        )
        rows, sequences = self.marked["rows"], self.marked["sequences"]
        idle_rows, idle_sequences = self.marked["idle rows"], self.marked["idle sequences"]
        ahead = self.marked["ahead"] if self.ahead else 0
        tokens_alone = self.marked["tokens of paths"]
        trees = f"The rows hold trees: {self.num_sequences:,} paths, which alone have {tokens_alone:,} tokens, "
        trees += f"{tokens_alone / max(1, self.tokens):.2f} times as many."
        sentences = {
            label: self.packed.kind == NEMO,
            trees: tokens_alone,
            f"The rows themselves hold {padding:,} tokens of padding.": padding,
            f"Rows of padding alone: {empty_rows:,} of {self.packs:,}.": empty_rows,
            f"Sequences of exactly the longest length: {cut:,}, {as_if}": cut,
            "Labels are those of a masked model.": self.masked,
            f"Labels are the next tokens in {ahead:,} rows, for a model that does not shift them itself.": ahead,
            f"The first token of {borders:,} sequences has a label, though the token before it is another sequence's: "
            f"it is trained on{unless}.": borders,
            f"Rows without any label: {idle_rows:,} of {rows:,}.": 0 < idle_rows < rows,
            f"Sequences without any label: {idle_sequences:,} of {sequences:,}.": 0 < idle_sequences < sequences,
            f"Not looked at: the columns {listed(self.packed.unread)}.": self.packed.unread,
        }
        return [sentence for sentence, is_true in sentences.items() if is_true]

    def _at_the_longest(self) -> int:
        """Return how many sequences have the longest length, if they are far more than have a length nearby; else 0.

        Then longer ones were probably cut to it.
        """
        if self.counts is None or len(nearby_counts := self.counts[len(self.counts) * 9 // 10 : -1]) == 0:
            return 0
        number_longest = int(self.counts[-1])
        return number_longest if number_longest >= max(2, 0.005 * self.num_sequences, 10 * nearby_counts.mean()) else 0


def _without_one(lengths: LengthHistogram) -> LengthHistogram:
    """Return the lengths of sequences without their last tokens; those of one token are left out."""
    return LengthHistogram(np.concatenate([[0], lengths.counts[2:]]))


def _of_rows(packed_sequences: PackedSequences, totals: _PackTotals) -> list[str]:
    """Return notes about tokens that only labels have, and about sequences that go on in a further row."""
    last_labels = packed_sequences.last_labels
    further = 0 if packed_sequences.contents is None else packed_sequences.contents.in_further_rows()
    noun = "sequences" if totals.packed.kind != "input_ids" else "rows"
    sentences = {
        f"The last token of {last_labels:,} {noun} is a label only, as where input_ids are ids[:-1] and labels "
        "ids[1:]: it counts as there.": last_labels,
        f"Sequences that go on in a further row: {further:,}.": further,
    }
    return [sentence for sentence, is_true in sentences.items() if is_true]


def _labels_beside(
    source: OpenSource, read_source: ReadSource, totals: _PackTotals, packed_sequences: PackedSequences, compared: bool
) -> _Findings:
    """Say what is known of the labels of packs and source: whether one side has none, or has shifted its own.

    Args:
        compared: whether labels of single sequences were compared already; those that differ are not repeated here.
    """
    packs = totals.trained  # the columns of the packs that say which tokens are trained on
    if compared or packed_sequences.by_token:
        return _Findings([] if packed_sequences.last_labels else _shifted(read_source, totals), [], [])
    if not packs and not source.trained:
        note = "Labels were not asked about: neither side has labels or a mask of the loss."
        return _Findings([], [], [note] * source.has_tokens)
    inconclusive = "Which tokens are trained on is inconclusive: "
    if packs and source.trained:
        return _Findings([], [inconclusive + "the packs do not tell it of each token of each sequence."], [])
    columns = packs or source.trained
    drop = ", ".join(f"{name!r}: 'drop'" for name in columns)
    in_shell = " ".join(mask_option(name, "drop") for name in columns)
    leave_out = f"leave {'it' if len(columns) == 1 else 'them'} out by masks={{{drop}}} ({in_shell})"
    if packs:
        sentence = (
            f"the packs have {listed(packs)}, and the source has neither labels nor a mask of the loss, so nothing "
        )
        sentence += "says which tokens were meant."
        cure = f" If the source trains on all tokens, give it labels equal to its input_ids, or {leave_out}."
        unread = source.unread
    else:
        sentence = (
            f"the source has {listed(source.trained)}, and the packs have neither labels nor a mask of the loss, so "
        )
        sentence += "nothing says whether the trainer still trains on the same tokens."
        cure = " If labels are made during training, ask its loader (packlib check --loader), and here "
        cure += f"{leave_out}."
        unread = list(totals.packed.unread)
    if packs and not source.has_tokens:
        cure = " Give the tokens with their labels as source, not their lengths."
    elif unread:
        cure = (
            f" Not looked at there: {listed(unread)}; a mask of the loss is named by masks (--mask COLUMN WORD)."
            + cure
        )
    return _Findings([], [f"{inconclusive}{sentence}{cure}"], [])


def _shifted(read_source: ReadSource, totals: _PackTotals) -> list[str]:
    """Say if labels are the tokens themselves on one side, and the next tokens on the other; one sentence or none."""
    if (totals.packed.columns.get("labels"), totals.packed.columns.get("input_ids")) != ("labels", "input_ids"):
        return []  # targets are the next tokens by their name, and the labels of torchtune are
    ahead, in_place = totals.marked["ahead"], totals.marked["in place"]
    template = f"labels of the source are the tokens {{}}, those of the packs {{}}, in {max(ahead, in_place):,} rows"
    if read_source.in_place > read_source.ahead and ahead > in_place:
        sentence = template.format("themselves", "the next ones")
        return [f"Labels were shifted: {sentence}. A model that shifts labels itself would shift them once too often."]
    if read_source.ahead > read_source.in_place and in_place > ahead:
        sentence = template.format("that follow", "themselves")
        return [
            f"Labels were shifted back: {sentence}. A model that does not shift labels would not predict the next "
            "token."
        ]
    return []
