"""Which few sequences a model is called with: what the batch of all sequences has, their batch has too."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from packlib.tools.check.locating import POSITIONS, has_slots, locate

_SEQUENCES = 8  # that the model is called with, if their batch has all that the batch of all sequences has
_COUNTS = 12, 16, 24, 32, 64  # that are tried next


class Shape(NamedTuple):
    """Features of a batch that faults need.

    Attributes:
        rows, padding: how many rows, and how many slots of padding.
        together: the most sequences of a row.
        again: the fields that give two sequences of a row the same number, as segment ids that come again.
    """

    rows: int
    padding: int
    together: int
    again: frozenset[str]

    def has_all_of(self, other: "Shape") -> bool:
        """Return True if it has several rows, padding and several sequences in a row wherever `other` does."""
        pairs = ((self.rows, other.rows, 1), (self.padding, other.padding, 0), (self.together, other.together, 1))
        return self.again >= other.again and all(mine > least or its <= least for mine, its, least in pairs)


class Chosen(NamedTuple):
    """Some sequences as the model gets them, and as they are given, and what is to be said of those left out."""

    few: list[dict]
    whole: list[dict]
    note: str


def shape_of(batch: dict, rows: list[dict]) -> Shape:
    """Describe the shape of a batch of these sequences, which are found in it by their content."""
    ids = batch["input_ids"].cpu().numpy()
    pieces = locate(ids, [np.asarray(row["input_ids"]) for row in rows])
    row_of = np.array([piece.slots[0] // ids.shape[-1] for piece in pieces], int)
    held = sum(len(piece.slots) for piece in pieces)
    again = set()
    for name, value in batch.items():
        if name in ("input_ids", "labels", POSITIONS) or not has_slots(value, batch["input_ids"]):
            continue
        numbers = value.flatten()[[int(piece.slots[0]) for piece in pieces]].cpu().numpy()
        if len(set(zip(row_of.tolist(), numbers.tolist(), strict=True))) < len(pieces):
            again.add(name)
    together = int(np.bincount(row_of, minlength=1).max())
    return Shape(ids.size // ids.shape[-1], ids.size - held, together, frozenset(again))


def choose(collate: Callable[[list[dict]], dict], rows: list[dict], group: str | None, most: int) -> Chosen:
    """Choose few sequences, the longest among them, whose batch has rows and padding if the batch of all has.

    Args:
        group: the column of those that are never parted, or None.
        most: tokens of the longest; a longer one is cut. A batch of 8 such sequences is the largest that is tried.
    """
    wanted, best = shape_of(collate(rows), rows), None
    for some in _candidates(rows, group, most):
        few, tail = cut_apart(some, most)
        if best is not None and sum(len(row["input_ids"]) for row in few) > _SEQUENCES * most:
            continue
        try:
            enough = shape_of(collate(few), few).has_all_of(wanted)
        except ValueError:  # it refuses what is cut: the check says so, or takes the sequences whole
            enough = best is None
        if best is None or enough:
            best = few, some, tail
        if enough:
            break
    few, whole, tail = best  # type: ignore[misc]
    return Chosen(few, whole, _said(rows, whole, most, tail))


def _candidates(rows: list[dict], group: str | None, most: int) -> Iterator[list[dict]]:
    """Yield whole groups: some of all lengths, then the longest ones, then more and more."""
    names = list(range(len(rows))) if group is None else [row[group] for row in rows]
    units = list(dict.fromkeys(names))
    longest = {unit: max(len(row["input_ids"]) for row, name in zip(rows, names, strict=True) if name == unit)
               for unit in units}  # fmt: skip
    by_length = sorted(units, key=lambda unit: longest[unit])
    short = [unit for unit in by_length if longest[unit] <= most]
    pool = by_length[: len(short) + 2] if len(short) >= 4 else by_length  # of those to be cut the two longest
    pool[len(short) :] = by_length[len(by_length) - (len(pool) - len(short)) :]

    def of(some: list) -> list[dict]:
        return [row for row, name in zip(rows, names, strict=True) if name in some]

    def held(some: list) -> int:
        return sum(name in some for name in names)

    def spread(units: list, count: int) -> list:
        return [units[at] for at in np.linspace(0, len(units) - 1, min(count, len(units))).round().astype(int)]

    count = max(count for count in range(1, _SEQUENCES + 1) if count <= 2 or held(spread(pool, count)) <= _SEQUENCES)
    yield of(spread(pool, count))
    yield of(pool[-count:])
    for more in _COUNTS:
        if count < more and len(pool) > count:
            yield of(spread(pool, more * count // _SEQUENCES))
    yield rows


def cut_apart(rows: list[dict], most: int) -> tuple[list[dict], int]:
    """Cut longer sequences so that no two become equal; return all, and how many last tokens the cut ones keep.

    One, or half of what is kept where a long prompt is shared; if that does not tell them apart, none is cut.
    """
    for tail in (1, most // 2):
        few = [_cut(row, most, tail) for row in rows]
        if len({tuple(row["input_ids"]) for row in few}) == len(few):
            return few, tail
    return rows, 0


def _cut(row: dict, most: int, tail: int) -> dict:
    """Cut a sequence of more than `most` tokens to its first ones and its last `tail`."""
    if (length := len(row["input_ids"])) <= most:
        return row
    kept = np.r_[: most - tail, length - tail : length]
    by_token = {name: np.asarray(x) for name, x in row.items() if np.ndim(x) == 1 and len(x) == length}
    return row | {name: x[kept].tolist() for name, x in by_token.items()}


def _said(rows: list[dict], whole: list[dict], most: int, tail: int) -> str:
    """Say which sequences are left out, and which are cut, by number."""
    lengths, taken = [len(row["input_ids"]) for row in rows], {id(row) for row in whole}
    left = sorted(length for row, length in zip(rows, lengths, strict=True) if id(row) not in taken)
    long = sum(len(row["input_ids"]) > most for row in whole)
    said = [
        f"The model got {len(whole)} of {len(rows)} sequences, the longest among them; "
        f"{len(left)} of {_span(left)} tokens {'was' if len(left) == 1 else 'were'} left out."
    ] if left else []  # fmt: skip
    if long and tail:
        last = "the last" if tail == 1 else f"the last {tail}"
        said.append(
            f"Of {len(whole)} sequences {long} were cut to {most} tokens, the first {most - tail} and {last}: "
            "see max_tokens."
        )  # fmt: skip
    return " ".join(said)


def _span(lengths: list[int]) -> str:
    return str(lengths[0]) if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
