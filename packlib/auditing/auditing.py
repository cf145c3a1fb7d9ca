"""What does it cost? Packed data that others made, counted: packs above the least, what is lost, and how many steps."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm.auto import tqdm

from packlib.auditing.audit_waits import MOST_HELD, waits_of
from packlib.auditing.columns import NEMO, Labels, hashes
from packlib.auditing.packed_files import MEGATRON, PackedData, open_packed, token_lists
from packlib.auditing.packing_audit import PackingAudit, Updates
from packlib.auditing.source_comparison import compare
from packlib.checks import depth_limit, flag, number, shown, whole_number
from packlib.lengths import LengthHistogram, load
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH, as_lengths, count_lengths
from packlib.packing import plan
from packlib.packing.search.bound import direct_bound
from packlib.work import Work

_NO_WAITS = "How long ranks wait cannot be told: that takes the lengths in each pack, and packs for a whole update."


class Packed(Protocol):
    """What is read of a `datasets.Dataset`."""

    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def with_format(self, type: str | None = None) -> Any: ...


def audit(
    data: str | os.PathLike | Packed,
    source: str | os.PathLike | Packed | LengthHistogram | Iterable[int] | None = None,
    *,
    column: str | None = None,
    max_length: int | None = None,
    max_sequences_per_pack: int | None = None,
    batch_size: int | None = None,
    gradient_accumulation_steps: int = 1,
    ranks: int = 1,
    steps: int | None = None,
    work: Work | None = None,
    tolerance: float = 0.05,
    progress: bool = False,
) -> PackingAudit:
    """Count what packed data costs, and what became of the sequences that went into it.

    >>> from datasets import Dataset
    >>> from packlib.auditing import audit
    >>> packed = Dataset.from_dict({"input_ids": [[1] * 6, [1] * 8], "seq_lengths": [[4, 2], [8]]})
    >>> found = audit(packed, source=[4, 2, 9])
    >>> found.packs, found.lower_bound, found.padding_slots, found.source.tokens_lost, found.source.as_if
    (2, 2, 2, 1, 'the 1 longer than 8 were cut to it')

    Args:
        data: a `datasets.Dataset` or a file: Parquet or Arrow with `seq_lengths` (as TRL writes), `cu_seqlens`,
            `seq_start_id` (NeMo), `position_ids` that start again, `segment_ids`, `document_ids` or `seq_idx`; NeMo's
            `.npy`; Megatron's `.idx`. All of these columns must agree. It is read in chunks, but for NeMo's `.npy`.
        source: what was packed: a Parquet file or a `datasets.Dataset` with tokens, which are compared by their
            content; or lengths: an array, a `LengthHistogram`, a file or data set as `packlib.lengths.load` takes, a
            Megatron `.idx`.
        column: of the source file; by default `input_ids` if it has that.
        max_length: slots of a pack; by default those of the fullest pack.
        max_sequences_per_pack: the depth limit of the proven least, or None.
        batch_size, gradient_accumulation_steps, ranks: packs in a batch of one rank, batches in an update, ranks.
        steps: updates that are meant to be trained.
        work: what a pack costs the ranks, which wait for the slowest once in an update; by default `Work.decoder()`.
        tolerance: share by which the packs may be more than `lpfhp` makes before that is a problem.
        progress: show a bar.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the argument, or the file and what is wrong with it.
    """
    top = None if max_length is None else whole_number("max_length", max_length, 1, MAX_LENGTH)
    depth = depth_limit(max_sequences_per_pack)
    number("tolerance", tolerance, at_least=0)
    setting = {"gradient_accumulation_steps": gradient_accumulation_steps, "ranks": ranks}
    for name, value in (setting | {"batch_size": batch_size, "steps": steps}).items():
        if value is not None:
            whole_number(name, value, 1, INT64_MAX)
    if batch_size is None and (steps is not None or gradient_accumulation_steps > 1 or ranks > 1):
        raise ValueError("batch_size must be given with steps, gradient_accumulation_steps or ranks, not left out.")
    if work is not None and not isinstance(work, Work):
        raise TypeError(f"work must be Work, not {shown(work)}.")
    if work is not None and ranks == 1:
        raise ValueError("ranks must be at least 2 where the work of a model is given, not 1.")
    if column is not None and source is None:
        raise ValueError(f"column must be left out without a source, not {shown(column)}.")
    packed = open_packed(data)
    joined = packed.kind == MEGATRON
    if joined and top is None:
        raise ValueError("max_length must be given for Megatron's .idx, which is cut when it is loaded, not left out.")
    wanted, contents = (None, None) if source is None else _lengths_of_source(source, column)
    if wanted is not None and packed.kind == NEMO:
        wanted = LengthHistogram(np.concatenate([[0], wanted.counts[2:]]))
    contents = contents if packed.tokens else None
    given, hold = top is not None, ranks > 1 and not joined
    seen = _Seen(packed, None if joined else top, flag("progress", progress), hold, contents is not None)
    top = top or seen.widest
    packs = (seen.tokens - 1) // top if joined and seen.tokens else seen.packs
    if packs < 1 or not seen.tokens:
        raise ValueError(f"{packed.name} must fill a pack, not hold {seen.packs:,} rows with {seen.tokens:,} tokens.")
    tokens = packs * top if joined else seen.tokens
    bound, lpfhp, problems, notes = -(-tokens // top), None, seen.problems(top), seen.notes(wanted)
    untold = seen.untold()
    if joined:
        notes.append(
            f"Megatron joins the sequences in an order of its own and cuts that every {top:,} tokens, which leaves "
            f"{seen.tokens - tokens:,} tokens out. Which sequences are cut cannot be told from the file."
        )
    elif seen.counts is not None:
        histogram = LengthHistogram(seen.counts, max_length=max(top, len(seen.counts) - 1))
        histogram = histogram.with_max_length(top, "truncate")
        bound = direct_bound(histogram.counts, depth)
        lpfhp = plan(histogram, method="lpfhp", max_sequences_per_pack=depth).num_packs
        if packs > lpfhp * (1 + tolerance):
            alone = " Nothing is packed: each pack holds one sequence." * (seen.deepest == 1)
            more = f"{packs / lpfhp - 1:.1%} more than the {lpfhp:,} that lpfhp makes of the same sequences"
            problems.append(f"There are {packs:,} packs, {more}.{alone}")
    against = updates = waits = None
    if wanted is None:
        notes.append("What was lost, cut or repeated before packing cannot be told without the source lengths.")
    else:
        both = None if contents is None else (contents, np.concatenate(seen.hashes))
        against = compare(wanted, seen.tokens, seen.sequences, seen.counts, both)
        problems += against.problems
        untold += against.untold
        notes += against.notes
    if batch_size is not None:
        loaded = batch_size * ranks
        rows = loaded * gradient_accumulation_steps
        updates = Updates.of(packs, seen.sequences, rows, loaded * (ranks > 1), steps)
        problems += updates.problems
        if seen.held:
            lengths, depths = map(np.concatenate, zip(*seen.held, strict=True))
            waits = waits_of(lengths, depths, ranks, rows // ranks, work or Work.decoder())
        notes += [waits.sentence if waits else _NO_WAITS] * (ranks > 1)
    return PackingAudit(
        packed.name, packed.kind, packs, seen.sequences, tokens, None if joined else seen.deepest, top,
        given, bound, lpfhp, against, updates, waits, tuple(problems), tuple(untold), tuple(notes),
    )  # fmt: skip


class _Seen:
    """All that is counted, in one pass over the rows."""

    def __init__(self, packed: PackedData, max_length: int | None, progress: bool, hold: bool, hashed: bool = False):
        self.packed, self.max_length, self.progress = packed, max_length, progress
        self.hold, self.hashed = hold, hashed
        self.hashes, self.labels = list[np.ndarray](), Labels()
        self.wrong: dict[str, tuple[int, int]] = {}  # how many rows, and the first
        self.held: list[tuple[np.ndarray, np.ndarray]] = []  # lengths, and how many each pack has
        self.packs = self.tokens = self.stored = self.widest = self.over = self.depths = self.depth = 0
        self.labeled, self.trained = False, Counter[str]()
        self.first, self.at_first = MAX_LENGTH, 0  # where positions start, and how many sequences start there
        chunks = self._lengths()
        first = next(chunks, None)  # where no lengths are known, this goes through all rows
        self.counts = None if first is None else count_lengths(chain([first], chunks), None, "error")[0]
        known = packed.kind != "input_ids"
        self.sequences: int | None = self.depths if known else None
        self.deepest: int | None = self.depth if known else None

    def _lengths(self) -> Iterator[np.ndarray]:
        options: dict[str, Any] = {"leave": False, "disable": not self.progress, "delay": 1}
        with tqdm(total=self.packed.num_rows, desc="audit", unit=" rows", **options) as bar:
            for lengths, depths, used, widths, firsts, wrong, hashes, labels, trained in self.packed.rows(self.hashed):
                for sentence, at in wrong.items():
                    many, first = self.wrong.get(sentence, (0, int(at[0])))
                    self.wrong[sentence] = many + len(at), first
                self.trained.update(trained)
                self.hashes += [] if hashes is None else [hashes]
                self.labels = self.labels.plus(labels or Labels())
                self.labeled |= labels is not None
                self.packs += len(used)
                self.tokens += int(used.sum(dtype=np.int64))
                self.stored += int(widths.sum(dtype=np.int64))
                self.widest = max(self.widest, int(widths.max(initial=0)))
                self.depths += int(depths.sum())
                self.depth = max(self.depth, int(depths.max(initial=0)))
                if firsts is not None and len(firsts):
                    if firsts.min() < self.first:
                        self.first, self.at_first = int(firsts.min()), 0
                    self.at_first += int(np.count_nonzero(firsts == self.first))
                self.over += 0 if self.max_length is None else int(np.count_nonzero(widths > self.max_length))
                bar.update(len(used))
                if lengths is not None and len(lengths):
                    if self.hold and self.depths - len(lengths) < MOST_HELD:
                        self.held.append((lengths.astype(np.int64), depths[depths > 0]))
                    yield lengths

    def problems(self, top: int) -> list[str]:
        resumed, labels = self.depths - self.at_first if self.at_first else 0, self.labels
        later = f"Sequences that do not start at position {self.first}, as what goes on after a cut: {resumed:,}."
        start = f"Sequences start at position {self.first}: models number from 0 (RoBERTa from 2)."
        others = f"Labels are neither the tokens of their row nor the next ones in {labels.rows - labels.right:,} "
        said = {
            f"Packs with more than {top:,} slots: {self.over:,}.": self.over,
            later: resumed,
            start: self.at_first and self.first not in (0, 2),
            "All labels are -100: nothing would be trained on.": self.labeled and not labels.rows,
            f"{others}rows, the first is {labels.first}.": labels.others and not self._masked,
            **{f"{name} is 0 for all tokens: nothing would be trained on.": not n for name, n in self.trained.items()},
        }
        found = [sentence for sentence, true in said.items() if true]
        return found + [
            f"{what}, in {many:,} rows, the first of which is {at}." for what, (many, at) in self.wrong.items()
        ]

    @property
    def _masked(self) -> bool:
        """Whether labels are those of a masked model: most of them stand where one token does."""
        return self.labels.right < self.labels.rows / 2 and self.labels.masked > self.labels.others / 2

    def untold(self) -> list[str]:
        """What the file cannot tell."""
        begin = "Where sequences begin cannot be told: the file has no column that says so."
        never = "The positions never start again: each pack holds one sequence, or hides where the others begin."
        never_again = self.packed.kind == "position_ids" and self.deepest == 1
        return [begin] * (self.packed.kind == "input_ids") + [never] * never_again

    def notes(self, source: LengthHistogram | None) -> list[str]:
        """What else was seen, and what was not looked at."""
        padding, cut = self.stored - self.tokens, self._at_the_longest()
        if source is not None and self.counts is not None and len(source.counts) >= len(self.counts):
            cut = cut if cut > source.counts[len(self.counts) - 1] else 0
        label = "A sequence of n tokens counts as n - 1: as NeMo has it, the last one is a label only."
        as_if = "as if longer ones had been cut or split there. What was cut is not in the file."
        said = {
            label: self.packed.kind == NEMO,
            f"The rows themselves hold {padding:,} tokens of padding.": padding,
            f"Sequences of exactly the longest length: {cut:,}, {as_if}": cut,
            "Labels are those of a masked model.": self.labels.others and self._masked,
            f"Rows without any label: {self.packs - self.labels.rows:,} of {self.packs:,}.": (
                0 < self.labels.rows < self.packs
            ),
            f"Not looked at: the columns {', '.join(self.packed.unread)}.": self.packed.unread,
        }
        return [sentence for sentence, true in said.items() if true]

    def _at_the_longest(self) -> int:
        """How many sequences have the longest length, if far more than have one nearby; else 0."""
        if self.counts is None or len(near := self.counts[len(self.counts) * 9 // 10 : -1]) == 0:
            return 0
        most = int(self.counts[-1])
        return most if most >= max(2, 0.005 * self.depths, 10 * near.mean()) else 0


def _lengths_of_source(source: Any, column: str | None) -> tuple[LengthHistogram, np.ndarray | None]:
    """The lengths of the source, and a hash of each of its sequences where it has tokens."""
    lengths, contents = source, None
    source = Path(source).expanduser() if isinstance(source, str | os.PathLike) else source
    if chunks := [(sizes, hashes(values, sizes)) for sizes, values in token_lists(source, column)]:
        lengths, contents = (np.concatenate(part) for part in zip(*chunks, strict=True))
        lengths = as_lengths(lengths, lambda i: f"row {i} of source")
    elif isinstance(source, Path) and source.suffix == ".idx":
        lengths = np.concatenate([rows.used for rows in open_packed(source).rows(False)])
    elif isinstance(source, Path):
        lengths = load(lengths, column=column)
    return lengths if isinstance(lengths, LengthHistogram) else LengthHistogram.from_lengths(lengths), contents
