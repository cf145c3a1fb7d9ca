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
from packlib.tools.rows.row_columns import IGNORED

OTHER_LABELS = "Labels are neither the tokens of their row nor the next ones"
Columns = dict[str, tuple[np.ndarray, np.ndarray]]  # how many numbers each row has, and all of them


class MeasuredRows(NamedTuple):
    """Some packs.

    Attributes:
        lengths: slots of each sequence, one pack after the other; None where they are not known.
        depths: sequences in each pack, shape (packs,).
        used, widths: slots that sequences fill, and all that the row has; shape (packs,).
        firsts: the position at which each sequence starts; None where there are no positions.
        wrong: sentences about rows, and the numbers of the rows that they are true of.
        contents: of the sequences; None unless they are asked for.
        bare: the rows, where nothing tells where sequences begin; None unless contents are asked for.
        counts: for each mask of the loss, how many tokens it lets be trained on; and what `labels_trained` and
            `_untrained` count.
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
    """Where sequences lie: the slot of each among all slots of the rows, its length, and how many each row has."""

    starts: np.ndarray
    lengths: np.ndarray
    depths: np.ndarray
    firsts: np.ndarray | None = None


def read_rows(kinds: list[str], columns: Columns, at: int, masks: Mapping[str, str], kept: bool) -> MeasuredRows:
    """The sequences of some rows, the first of which is row `at` of the file, by the first of `kinds`.

    Args:
        masks: the columns that are masks of the loss, with the word for what each means.
        kept: whether to return the contents of the sequences.

    Raises:
        ValueError: naming a row in which a column of bounds cannot be right.
    """
    kind, wrong = kinds[0], dict[str, np.ndarray]()

    def say(sentence: str, rows: np.ndarray) -> None:
        if rows.any():
            wrong[sentence] = at + np.flatnonzero(rows)

    sizes, ids = columns.get("input_ids", (None, np.empty(0)))
    mask = columns.get("attention_mask")
    by_slot = ("position_ids", "attention_mask", *SEGMENTS, "input_ids")
    if kind in by_slot:
        for name, given in (("input_ids", sizes), ("attention_mask", None if mask is None else mask[0])):
            _refuse([] if given is None else given != columns[kind][0], at, f"has not as many {name} as {kind}")
        sizes = columns[kind][0]
    by_token = [name for name in ("labels", *masks, "token_type_ids", *by_slot[:-1]) if name in columns]
    for name in by_token if sizes is not None else ():
        say(f"{name} has not as many numbers as input_ids", columns[name][0] != sizes)
    short = {sentence.split()[0] for sentence in wrong}
    real = None if mask is None or sizes is None or (mask[0] != sizes).any() else mask[1] != 0
    counts = {
        name: int(np.count_nonzero(trained_tokens(word, columns[name][1], np.empty(0, int))))
        for name, word in masks.items()
        if name in columns
    }
    asked = None  # which labels are trained on
    if sizes is not None and len(ids) == sizes.sum() and "labels" in columns and "labels" not in short:
        asked = asked_labels(columns, short)
    no_padding = [] if asked is None else [asked]  # slots that are surely none
    if sizes is not None and len(ids) == sizes.sum():
        no_padding += [
            columns[name][1] != 0
            for name, word in masks.items()
            if name in columns and word != "prompt" and name not in short
        ]
    trains = np.logical_or.reduce(no_padding) if len(no_padding) > 1 else next(iter(no_padding), None)
    if kind == "input_ids":
        widths = columns[kind][0]
        used = widths - padding_at_ends(widths, ids, trains) if real is None else sums(real, widths)
        padding, counts["may be padding"] = _runs_at_ends(widths, ids) if real is None else (0, 0)
        alone = _Sequences(np.cumsum(widths) - widths, widths, np.ones_like(widths))
        trained = _trained(columns, masks, short, asked, sizes, ids, alone, kind, counts, say)
        if trained:
            counts |= _untrained(trained, alone)
            del counts["sequences"], counts["idle sequences"]
        bare = None
        if kept:
            next_labels = None
            if asked is not None and counts["ahead"] > counts["in place"]:
                next_labels = np.where(asked, columns["labels"][1], IGNORED)
            bare = _bare(ids, widths, used, trained, next_labels, real)
            bare = bare._replace(padding=(padding, counts["may be padding"]), first_row=at)
        return MeasuredRows(None, np.zeros_like(used), used, widths, wrong=wrong, bare=bare, counts=counts)
    if real is not None and kind != "attention_mask" and mask is not None and mask[1].max(initial=0) > 1:
        kinds = [*kinds, "attention_mask"]  # it numbers the sequences, as LLaMA-Factory has it
    kinds = [name for name in kinds if name != "input_ids" and name not in short]
    mine = _sequences(kind, columns, sizes, real, ids, trains, at)
    used = sums(mine.lengths, mine.depths)
    widths = used if kind == NEMO or sizes is None else sizes
    _refuse(used > widths, at, f"has more tokens by its {kind} than input_ids")
    whole = mine.lengths + (kind == NEMO)
    gaps = sizes is not None and bool(whole.sum() < sizes.sum())
    slots = ranges(mine.starts, whole) if gaps else None
    sequences = {kind: mine}
    for name in kinds[1:]:
        other = _sequences(name, columns, sizes, real, ids, trains, at)
        if NEMO not in (name, kind):
            differ = _differ(mine, other)
            by_slots = real is None and name in by_slot and len(ids) > 0 and differ.any()
            if by_slots and sizes is not None and slots is not None:  # their padding may look like a sequence
                where = _all_but_padding(sizes, ids, slots)
                other = _sequences(name, columns, sizes, where, ids, trains, at)
                differ = _differ(mine, other)
            say(f"{kind} and {name} tell other sequences", differ)
        sequences[name] = other
    for name, its in sequences.items():
        if name in SEGMENTS or name == "attention_mask":
            say(f"{name} give two sequences of the row the same number", _again(its, columns[name][1]))
    if real is not None and kind != NEMO:
        say(f"attention_mask has not as many tokens as {kind}", sums(real, widths) != used)
    trained = _trained(columns, masks, short, asked, sizes, ids, mine._replace(lengths=whole), kind, counts, say)
    ends = _labels_at_ends(columns, asked, mine, counts) if kind != NEMO else None
    contents = None
    if sizes is not None and (trained or kept):
        if slots is not None:
            ids, trained = ids[slots] if len(ids) else ids, {name: its[slots] for name, its in trained.items()}
        if trained:
            counts |= _untrained(trained, mine._replace(lengths=whole, starts=np.cumsum(whole) - whole))
        if kept:
            row_begins = np.cumsum(sizes) - sizes
            contents = chunk_of(ids, whole, trained)._replace(
                starts=(mine.starts - np.repeat(row_begins, mine.depths)).astype(np.int32),
                depths=mine.depths.astype(np.int32),
                first_row=at,
                ends=ends,
            )
    firsts = sequences["position_ids"].firsts if "position_ids" in sequences else None
    return MeasuredRows(mine.lengths, mine.depths, used, widths, firsts, wrong, contents, counts=counts)


def _bare(
    ids: np.ndarray,
    widths: np.ndarray,
    used: np.ndarray,
    trained: dict[str, np.ndarray],
    labels: np.ndarray | None,
    real: np.ndarray | None,
) -> BareRows:
    """Rows without what their mask says is padding."""
    if real is None:
        return BareRows(ids, widths, used, trained, labels)
    trained = {name: its[real] for name, its in trained.items()}
    return BareRows(ids[real], used, used, trained, None if labels is None else labels[real])


def _labels_at_ends(
    columns: Columns, asked: np.ndarray | None, sequences: _Sequences, counts: dict[str, int]
) -> np.ndarray | None:
    """The label in the last slot of each sequence, -100 where nothing is trained on; None unless labels are the next
    tokens. How many are trained on is counted.
    """
    if asked is None or counts["in place"] > counts["ahead"]:
        return None
    last = sequences.starts + sequences.lengths - 1
    counts["open ends"] = int(np.count_nonzero(asked[last]))
    return np.where(asked[last], columns["labels"][1][last], IGNORED).astype(np.int64)


def _differ(mine: _Sequences, other: _Sequences) -> np.ndarray:
    """Which rows have other sequences by one column than by another."""
    same = hashes(mine.lengths, mine.depths) == hashes(other.lengths, other.depths)
    return (mine.depths != other.depths) | ~same


def _all_but_padding(sizes: np.ndarray, ids: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Which slots are not padding, where those that are not `used` are padding if a row has one id in all of them."""
    unused = np.ones(len(ids), bool)
    unused[used] = False
    row = np.repeat(np.arange(len(sizes)), sizes)[unused]
    lowest, highest = np.full(len(sizes), np.iinfo(np.int64).max), np.full(len(sizes), -1, np.int64)
    np.minimum.at(lowest, row, ids[unused])
    np.maximum.at(highest, row, ids[unused])
    return ~(unused & np.repeat(lowest == highest, sizes))


def _trained(
    columns: Columns,
    masks: Mapping[str, str],
    short: set[str],
    asked: np.ndarray | None,
    sizes: np.ndarray | None,
    ids: np.ndarray,
    sequences: _Sequences,
    kind: str,
    counts: dict[str, int],
    say: Any,
) -> dict[str, np.ndarray]:
    """Which slots hold a token that is trained on, by column; what `labels_trained` finds is counted and said."""
    found = dict[str, np.ndarray]()
    if sizes is None:
        return found
    begins = sequences.starts[sequences.lengths > 0]
    if asked is not None:
        ends = (sequences.starts + sequences.lengths - 1)[sequences.lengths > 0]
        found["labels"], numbers, others = labels_trained(asked, columns, begins, ends)
        counts |= numbers | {"over borders": _over_borders(asked, sizes, begins, numbers)}
        say(OTHER_LABELS, others)
    if kind == NEMO and "loss_mask" in masks:
        masks = {**masks, "loss_mask": "next"}
    return found | trained_by_masks(columns, masks, begins, short)


def _over_borders(asked: np.ndarray, sizes: np.ndarray, begins: np.ndarray, numbers: Mapping[str, int]) -> int:
    """How many sequences that are not the first of their row have a label for their first token: at this token, or at
    the one before, where labels are the next tokens.
    """
    inner = begins[~np.isin(begins, np.cumsum(sizes) - sizes)]
    return int(np.count_nonzero(asked[inner - (numbers["ahead"] > numbers["in place"])]))


def asked_labels(columns: Columns, left_out: Container[str] = ()) -> np.ndarray:
    """Which slots have a label that is trained on; bool."""
    asked = columns["labels"][1] != IGNORED
    return asked & (columns[TARGETS][1] != 0) if TARGETS in columns and TARGETS not in left_out else asked


def trained_by_masks(
    columns: Columns, masks: Mapping[str, str], begins: np.ndarray, left_out: Container[str] = ()
) -> dict[str, np.ndarray]:
    """Which slots hold a token that is trained on, by each mask of the loss.

    Args:
        begins: the first slot of each sequence.
        left_out: masks that are not read. That of targets is part of the labels, where there are some.
    """
    return {
        name: trained_tokens(word, columns[name][1], begins)
        for name, word in masks.items()
        if name in columns and name not in left_out and not (name == TARGETS and "labels" in columns)
    }


def _untrained(trained: Mapping[str, np.ndarray], sequences: _Sequences) -> dict[str, int]:
    """How many rows and sequences train on nothing, of how many with tokens.

    Args:
        sequences: that follow one another without a gap.
    """
    together = np.logical_and.reduce(list(trained.values()))
    some = sequences.lengths > 0
    together[sequences.starts[some]] = False
    trains = _any(together, sequences.lengths)
    rows = _any(trains, sequences.depths)
    return {
        "sequences": int(np.count_nonzero(some)),
        "idle sequences": int(np.count_nonzero(some & ~trains)),
        "rows": int(np.count_nonzero(sequences.depths)),
        "idle rows": int(np.count_nonzero(~rows & (sequences.depths > 0))),
    }


def _any(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Whether one of the first `sizes[0]` values is true, of the next `sizes[1]`, and so on; bool."""
    found, some = np.zeros(len(sizes), bool), sizes > 0
    if some.any():
        found[some] = np.logical_or.reduceat(values, (np.cumsum(sizes) - sizes)[some])
    return found


def _sequences(
    kind: str,
    columns: Columns,
    widths: np.ndarray | None,
    real: np.ndarray | None,
    ids: np.ndarray,
    trains: np.ndarray | None,
    at: int,
) -> _Sequences:
    """The sequences that one column tells, without padding."""
    sizes, values = columns[kind]
    firsts, numbered = None, kind in SEGMENTS or kind == "attention_mask"
    if kind == "position_ids" or numbered:
        slots = np.arange(len(values)) if real is None else np.flatnonzero(real)
        if real is not None:
            sizes, values = sums(real, sizes), values[slots]
        begins = np.ones(len(values), bool)
        step = values.dtype.type(kind == "position_ids")
        np.not_equal(values[1:], values[:-1] + step, out=begins[1:])
        begins[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
        where = np.flatnonzero(begins)
        starts, lengths, depths = slots[where], np.diff(where, append=len(values)), sums(begins, sizes)
        firsts = values[where]
    else:
        if kind == "seq_lengths":
            lengths, depths = values.astype(np.int64), sizes
        else:
            lengths, depths = _between(kind, sizes, values.astype(np.int64), widths, at)
        if lengths.min(initial=1) < 1:
            _refuse(sums(lengths < 0, depths) > 0, at, f"has a sequence of fewer than 0 tokens by its {kind}")
            lengths, depths = lengths[lengths > 0], sums(lengths > 0, depths)
        starts = np.empty(0, np.int64)
        if widths is not None:
            whole = lengths + (kind == NEMO)
            free = widths - sums(whole, depths)  # slots at the end of each row
            starts = np.cumsum(whole) - whole + np.repeat(np.cumsum(free) - free, depths)
            if beside := _padded_beside(kind, columns):
                starts = _padded_starts(beside, columns, lengths, depths, widths, at)
            elif real is not None and kind != NEMO and (sums(lengths, depths) == sums(real, widths)).all():
                starts = np.append(np.flatnonzero(real), len(real))[np.cumsum(lengths) - lengths]
    keep = np.ones(len(lengths), bool)
    if real is None and numbered:
        keep = ~_blank(values[where], depths)
    elif real is None and len(ids) and len(lengths) and kind != NEMO and not _padded_beside(kind, columns):
        row_sizes = columns["input_ids"][0]
        of_one_size = bool((row_sizes == row_sizes[0]).all())
        to_the_end = bool((sums(lengths, depths) == row_sizes).all())
        if kind == "position_ids" or (of_one_size and to_the_end):
            keep = ~_padding(np.cumsum(row_sizes) - row_sizes, lengths, depths, ids, trains, of_one_size)
        if kind == "position_ids":
            tails = padding_at_ends(row_sizes, ids, trains, starts + lengths - 1)
            last = np.repeat(np.cumsum(row_sizes) - tails, depths)
            lengths = np.clip(last - starts, 0, lengths)
            keep &= lengths > 0
    elif real is not None and kind.startswith("cu_"):
        seen = np.concatenate([[0], np.cumsum(real)])
        keep = seen[np.minimum(starts + lengths, len(real))] > seen[np.minimum(starts, len(real))]
    if not keep.all():
        lengths, depths = lengths[keep], sums(keep, depths)
        starts = starts[keep] if len(starts) else starts
        firsts = None if firsts is None else firsts[keep]
    return _Sequences(starts, lengths, depths, firsts)


def _blank(values: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Which runs of segment ids are padding: -1, or a last 0 where the row does not begin with 0."""
    ends = np.cumsum(depths)
    last = np.zeros(len(values), bool)
    last[ends[depths > 0] - 1] = True
    begins = np.repeat(values[(ends - depths)[depths > 0]], depths[depths > 0])
    lonely = np.repeat(depths == 1, depths) & (begins == 0) & (begins != 0).any()  # a row of padding alone
    return (values == -1) | (last & (values == 0) & (begins != 0)) | lonely


def _padded_beside(kind: str, columns: Columns) -> str:
    """The column with the bounds of padded sequences beside those of `kind`, or nothing."""
    return next((name for name, bare in PADDED_BOUNDS.items() if bare == kind and name in columns), "")


def _padded_starts(
    name: str, columns: Columns, lengths: np.ndarray, depths: np.ndarray, widths: np.ndarray, at: int
) -> np.ndarray:
    """The slots at which sequences begin that are padded one by one, by the bounds of the padded ones."""
    sizes, bounds = columns[name]
    padded, padded_depths = _between(name, sizes, bounds.astype(np.int64), widths, at)
    padded, padded_depths = padded[padded > 0], sums(padded > 0, padded_depths)
    _refuse(padded_depths < depths, at, f"has fewer sequences by its {name} than by its bare bounds")
    number = ranges(np.zeros_like(padded_depths), padded_depths)
    rest = sums(padded * (number >= np.repeat(depths, padded_depths)), padded_depths)  # which may be padding alone
    padded = padded[number < np.repeat(depths, padded_depths)]
    _refuse(sums(padded < lengths, depths) > 0, at, f"has sequences that are shorter by their {name} than bare")
    free = widths - sums(padded, depths)
    _refuse(free < rest, at, f"has more tokens by its {name} than input_ids")
    return np.cumsum(padded) - padded + np.repeat(np.cumsum(free) - free, depths)


def padding_at_ends(
    sizes: np.ndarray, ids: np.ndarray, trains: np.ndarray | None = None, ends: np.ndarray | None = None
) -> np.ndarray:
    """How many slots at the end of each row are padding that no mask tells, where all rows are of one size.

    Padding is one id alone. It ends rows in runs of two slots or more, and has no label. The id is 0, or one that
    comes nowhere else, or the one that ends sequences: then the first of each run is the end of the last sequence.

    Args:
        trains: which slots have a label, or are trained on by a mask; None where nothing says so.
        ends: the last slot of each sequence, if that is known. Without it, 0 and what comes nowhere else is padding.
    """
    none = np.zeros_like(sizes)
    if not len(ids) or (sizes != sizes[0]).any() or len(ids) != sizes.sum():
        return none
    rows = ids.reshape(len(sizes), -1)
    token = rows[:, -1]
    twice = rows[:, -2:].min(axis=1) == rows[:, -2:].max(axis=1)
    if trains is not None:
        twice &= ~trains.reshape(rows.shape)[:, -2:].any(axis=1)
    kinds, times = np.unique(token[twice], return_counts=True)
    if rows.shape[1] < 2 or not len(kinds):
        return none
    padding = kinds[times.argmax()]
    other = rows[:, ::-1] != padding
    if trains is not None:
        other |= trains.reshape(rows.shape)[:, ::-1]
    run = np.where(other.any(axis=1), other.argmax(axis=1), 0)
    elsewhere = int(np.count_nonzero(ids == padding)) - int(run.sum())
    if padding == 0 or not elsewhere:
        return run
    inner = np.empty(0, int) if ends is None else ends[~np.isin(ends, np.cumsum(sizes) - 1)]
    if len(inner) and np.count_nonzero(ids[inner] == padding) > len(inner) / 2:
        return np.maximum(run - 1, 0) if trains is None else run
    return none


def _runs_at_ends(sizes: np.ndarray, ids: np.ndarray) -> tuple[int, int]:
    """The most frequent last token of rows, and how many slots at the ends of rows repeat it: all that may be padding
    where nothing tells it.
    """
    row_ends = np.cumsum(sizes)[sizes > 0]
    if not len(row_ends):
        return 0, 0
    kinds, times = np.unique(ids[row_ends - 1], return_counts=True)
    most = kinds[times.argmax()]
    other = np.where(ids != most, np.arange(len(ids)), -1)
    last_other = np.maximum(np.maximum.reduceat(other, row_ends - sizes[sizes > 0]), row_ends - sizes[sizes > 0] - 1)
    return int(most), int((row_ends - 1 - last_other).sum())


def _padding(
    begins: np.ndarray,
    lengths: np.ndarray,
    depths: np.ndarray,
    ids: np.ndarray,
    trains: np.ndarray | None,
    of_one_size: bool,
) -> np.ndarray:
    """Which sequences are padding that no mask tells: the last ones of a row, if they hold the id of padding alone.

    Rows begin at the slots `begins`. The id is that of most rows that end in two such slots or more, or 0 if none does.
    It is 0 where rows are of several sizes and nothing says what is trained on. The first piece of a row is none, nor
    is any where the whole row is of one id, nor any with a token that is trained on.
    """
    padding = np.zeros(len(lengths), bool)
    begins, depths = begins[depths > 0], depths[depths > 0]
    ends = begins + sums(lengths, depths)
    if ends.max() > len(ids):
        return padding  # what tells this is refused
    some = (depths > 1) & (
        ids[ends - 1] == ids[ends - lengths[np.cumsum(depths) - 1]]
    )  # the only rows that may have it
    among, begins, ends, depths = some.repeat(depths), begins[some], ends[some], depths[some]
    lengths, token = lengths[among], ids[ends - 1]
    inside = ranges(begins, ends - begins)
    other_id = ids[inside] != token.repeat(ends - begins)
    other = other_id if trains is None else other_id | trains[inside]
    number, first = np.arange(len(lengths)), np.cumsum(depths) - depths
    last_other = np.maximum.reduceat(np.where(sums(other, lengths) > 0, number, first.repeat(depths)), first)
    found = (number > last_other.repeat(depths)) & (sums(other_id, ends - begins) > 0).repeat(depths)
    kinds, times = np.unique(token[sums(lengths * found, depths) > 1], return_counts=True)
    most = kinds[times.argmax()] if len(kinds) else 0
    if of_one_size or trains is not None or most == 0:
        padding[among] = found & (token == most).repeat(depths)
    return padding


def _between(kind: str, sizes: np.ndarray, values: np.ndarray, widths: np.ndarray | None, at: int) -> tuple:
    """Lengths between bounds: all are given, or where sequences start, and the row's end is the last.

    Bounds may be filled up to the same number for each row, by repeating the last, or by -1 as Megatron has it.
    """
    if kind != NEMO and (filled := values == -1).any():
        sizes, values = sums(~filled, sizes), values[~filled]
    ends = np.cumsum(sizes)
    _refuse(sizes < 1, at, f"has no {kind}")
    _refuse(values[ends - sizes] != 0, at, f"has {kind} that do not start at 0")
    if kind != NEMO:
        return np.delete(np.diff(values), ends[:-1] - 1), sizes - 1
    after = np.append(values[1:], 0)
    after[ends - 1] = widths
    return after - values - 1, sizes


def _again(sequences: _Sequences, values: np.ndarray) -> np.ndarray:
    """Whether two runs of a row have the same number, by row."""
    row = np.repeat(np.arange(len(sequences.depths)), sequences.depths)
    pairs = np.unique(np.stack([row, values[sequences.starts].astype(np.int64)]), axis=1)
    return np.bincount(pairs[0], minlength=len(sequences.depths)) < sequences.depths


def labels_trained(
    asked: np.ndarray, columns: Columns, begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, dict[str, int], np.ndarray]:
    """Which slots hold a token that is trained on by its label, and whether labels are the tokens, or the next ones.

    Args:
        asked: which labels are trained on.
        begins, ends: the first and the last slot of each sequence; the token after the last is another's.

    Returns:
        Which slots do. How many rows are "labeled"; how many labels of rows that are neither stand at another token
        ("others"), and how many of these at the one token that has most, as those of a mask do ("masked"); how many
        rows have labels that are their tokens and not the next ones ("in place"), or the other way round ("ahead").
        And which rows are neither.
    """
    (sizes, ids), (_, labels) = columns["input_ids"], columns["labels"]
    other, asked_of = asked & (labels != ids), _any(asked, sizes)
    if not other.any():
        labeled, none = int(np.count_nonzero(asked_of)), np.zeros(len(sizes), bool)
        return asked, {"labeled": labeled, "others": 0, "masked": 0, "in place": labeled, "ahead": 0}, none
    later = asked & (labels != np.append(ids[1:], -1))
    later[np.cumsum(sizes)[sizes > 0] - 1] = False  # the token after the row is not known
    later[ends] = False
    other_of, later_of = _any(other, sizes), _any(later, sizes)
    off = other_of & later_of
    at_them = ids[other & np.repeat(off, sizes)]
    masked = int(np.unique(at_them, return_counts=True)[1].max(initial=0))
    counts = {"labeled": asked_of, "in place": later_of & ~other_of, "ahead": other_of & ~later_of}
    found = {name: int(np.count_nonzero(rows)) for name, rows in counts.items()}
    found |= {"others": len(at_them), "masked": masked}
    trained = trained_tokens("next" if found["ahead"] > found["in place"] else "loss", asked, begins)
    return trained, found, off


def sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sum of the first `sizes[0]` values, of the next `sizes[1]`, and so on."""
    if len(sizes) and sizes.min() > 0:
        return np.add.reduceat(values, np.cumsum(sizes) - sizes, dtype=np.int64)
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[np.cumsum(sizes)], prepend=0)


def _refuse(wrong: Any, at: int, what: str) -> None:
    if np.any(wrong):
        raise ValueError(f"row {at + int(np.argmax(wrong))} {what}.")
