"""What the columns of some rows of packs say: where sequences begin, what is padding, and whether columns agree."""

from typing import Any, NamedTuple

import numpy as np

from packlib.packing.ragged import ranges
from packlib.tools.rows.loss_masks import LOSS_MASKS, trained_tokens
from packlib.tools.rows.row_columns import IGNORED

NEMO = "seq_start_id"
SEGMENTS = "segment_ids", "document_ids", "seq_idx"
KINDS = ("seq_lengths", "cu_seqlens", "cu_seq_lens_q", "cu_seq_lens", NEMO, "position_ids", *SEGMENTS, "input_ids")
BY_TOKEN = ("labels", "attention_mask", *LOSS_MASKS, "token_type_ids", "position_ids", *SEGMENTS)
READ = tuple(dict.fromkeys((*KINDS, *BY_TOKEN)))
OTHER_LABELS = "Labels are neither the tokens of their row nor the next ones"
Columns = dict[str, tuple[np.ndarray, np.ndarray]]  # how many numbers each row has, and all of them


class Rows(NamedTuple):
    """Some packs.

    Attributes:
        lengths: slots of each sequence, one pack after the other; None where they are not known.
        depths: sequences in each pack, shape (packs,).
        used, widths: slots that sequences fill, and all that the row has; shape (packs,).
        firsts: the position at which each sequence starts; None where there are no positions.
        wrong: sentences about rows, and the numbers of the rows that they are true of.
        hashes: of the tokens of each sequence; None unless they are asked for.
        counts: for each mask of the loss, how many tokens it lets be trained on; and what `_labels` counts.
    """

    lengths: np.ndarray | None
    depths: np.ndarray
    used: np.ndarray
    widths: np.ndarray
    firsts: np.ndarray | None = None
    wrong: dict[str, np.ndarray] = {}  # noqa: RUF012
    hashes: np.ndarray | None = None
    counts: dict[str, int] = {}  # noqa: RUF012


class _Sequences(NamedTuple):
    """Where sequences lie: the slot of each among all slots of the rows, its length, and how many each row has."""

    starts: np.ndarray
    lengths: np.ndarray
    depths: np.ndarray
    firsts: np.ndarray | None = None


def read_rows(kinds: list[str], columns: Columns, at: int, hashed: bool) -> Rows:
    """The sequences of some rows, the first of which is row `at` of the file, by the first of `kinds`.

    Raises:
        ValueError: naming a row in which a column of bounds cannot be right.
    """
    kind, wrong = kinds[0], dict[str, np.ndarray]()

    def say(sentence: str, rows: np.ndarray) -> None:
        if rows.any():
            wrong[sentence] = at + np.flatnonzero(rows)

    sizes, ids = columns.get("input_ids", (None, np.empty(0)))
    mask = columns.get("attention_mask")
    if kind in ("position_ids", *SEGMENTS, "input_ids"):
        for name, given in (("input_ids", sizes), ("attention_mask", None if mask is None else mask[0])):
            _refuse([] if given is None else given != columns[kind][0], at, f"has not as many {name} as {kind}")
        sizes = columns[kind][0]
    for name in BY_TOKEN if sizes is not None else ():
        if name in columns:
            say(f"{name} has not as many numbers as input_ids", columns[name][0] != sizes)
    real = None if mask is None or sizes is None or (mask[0] != sizes).any() else mask[1] != 0
    short = {sentence.split()[0] for sentence in wrong}
    counts = {
        name: int(np.count_nonzero(trained_tokens(word, columns[name][1], np.empty(0, int))))
        for name, word in LOSS_MASKS.items()
        if name in columns
    }
    if sizes is not None and len(ids) and "labels" in columns and "labels" not in short:
        found, others = _labels(sizes, ids, columns["labels"][1])
        counts |= found
        say(OTHER_LABELS, others)
    if kind == "input_ids":
        widths = columns[kind][0]
        used = widths if real is None else sums(real, widths)
        return Rows(None, np.zeros_like(used), used, widths, wrong=wrong, counts=counts)
    sequences = {
        name: _sequences(name, columns, sizes, real, ids, at) for name in kinds if name not in ("input_ids", *short)
    }
    mine = sequences[kind]
    for name, other in sequences.items():
        if name != kind and NEMO not in (name, kind):
            same = hashes(mine.lengths, mine.depths) == hashes(other.lengths, other.depths)
            say(f"{kind} and {name} tell other sequences", (mine.depths != other.depths) | ~same)
        if name in SEGMENTS:
            say(f"{name} give two sequences of the row the same number", _again(other, columns[name][1]))
    used = sums(mine.lengths, mine.depths)
    widths = used if kind == NEMO or sizes is None else sizes
    _refuse(used > widths, at, f"has more tokens by its {kind} than input_ids")
    if real is not None and kind != NEMO:
        say(f"attention_mask has not as many tokens as {kind}", sums(real, widths) != used)
    tokens = None
    if hashed:
        whole = mine.lengths + (kind == NEMO)
        slots = ranges(mine.starts, whole)
        tokens = hashes(ids[slots] if len(slots) < len(ids) else ids, whole)
    firsts = sequences["position_ids"].firsts if "position_ids" in sequences else None
    return Rows(mine.lengths, mine.depths, used, widths, firsts, wrong, tokens, counts)


def _sequences(
    kind: str,
    columns: Columns,
    widths: np.ndarray | None,
    real: np.ndarray | None,
    ids: np.ndarray,
    at: int,
) -> _Sequences:
    """The sequences that one column tells, without padding."""
    sizes, values = columns[kind]
    firsts = None
    if kind == "position_ids" or kind in SEGMENTS:
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
    keep = np.ones(len(lengths), bool)
    if real is None and kind in SEGMENTS:
        keep = ~_blank(values[where], depths)
    elif real is None and len(ids) and len(lengths) and (kind == "position_ids" or kind.startswith("cu_")):
        ends = np.cumsum(columns["input_ids"][0])
        keep = ~_padding(ends - columns["input_ids"][0], lengths, depths, ids)
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
    return (values == -1) | (last & (values == 0) & (begins != 0))


def _padding(begins: np.ndarray, lengths: np.ndarray, depths: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Which sequences are padding that no mask tells: the last ones of a row, if they hold the id of padding alone.

    Rows begin at the slots `begins`. The id is that of most rows that end in two such slots or more. The first piece
    of a row is none, nor is any where the whole row is of one id.
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
    other = ids[ranges(begins, ends - begins)] != token.repeat(ends - begins)
    number, first = np.arange(len(lengths)), np.cumsum(depths) - depths
    last_other = np.maximum.reduceat(np.where(sums(other, lengths) > 0, number, first.repeat(depths)), first)
    found = (number > last_other.repeat(depths)) & (sums(other, ends - begins) > 0).repeat(depths)
    kinds, times = np.unique(token[sums(lengths * found, depths) > 1], return_counts=True)
    if len(kinds):
        padding[among] = found & (token == kinds[times.argmax()]).repeat(depths)
    return padding


def _between(kind: str, sizes: np.ndarray, values: np.ndarray, widths: np.ndarray | None, at: int) -> tuple:
    """Lengths between bounds: all are given, or where sequences start, and the row's end is the last."""
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


def _labels(sizes: np.ndarray, ids: np.ndarray, labels: np.ndarray) -> tuple[dict[str, int], np.ndarray]:
    """Whether labels are the tokens, or the next ones.

    Returns:
        How many rows are "labeled"; how many labels of those that are neither stand at another token ("others"), and
        how many of these at the one token that has most, as those of a mask do ("masked"). And which rows are neither.
    """
    asked = labels != IGNORED
    other, later = asked & (labels != ids), asked & (labels != np.append(ids[1:], -1))
    later[np.cumsum(sizes)[sizes > 0] - 1] = False  # the token after the row is not known
    labeled, off = sums(asked, sizes) > 0, (sums(other, sizes) > 0) & (sums(later, sizes) > 0)
    at_them = ids[other & np.repeat(off, sizes)]
    masked = int(np.unique(at_them, return_counts=True)[1].max(initial=0))
    return {"labeled": int(labeled.sum()), "others": len(at_them), "masked": masked}, off


def hashes(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """A number of 64 bits for the first `sizes[0]` values, for the next `sizes[1]`, and so on.

    Equal lists have equal numbers in this process; another one has others, since Python's hash is drawn anew.
    """
    data, ends = values.astype(np.int64).tobytes(), 8 * np.cumsum(sizes)
    spans = zip((ends - 8 * sizes).tolist(), ends.tolist(), strict=True)
    return np.fromiter((hash(data[start:end]) for start, end in spans), np.int64, len(sizes))


def sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sum of the first `sizes[0]` values, of the next `sizes[1]`, and so on."""
    if len(sizes) and sizes.min() > 0:
        return np.add.reduceat(values, np.cumsum(sizes) - sizes, dtype=np.int64)
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[np.cumsum(sizes)], prepend=0)


def _refuse(wrong: Any, at: int, what: str) -> None:
    if np.any(wrong):
        raise ValueError(f"row {at + int(np.argmax(wrong))} {what}.")
