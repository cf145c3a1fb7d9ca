"""A batch that a collator made: where sequences are in it, what each is alone, and which field changes that."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from packlib.check.called_model import CalledModel
from packlib.check.causes import MASK, POSITIONS, is_mask, restarting
from packlib.check.locating import Piece, locate, owners
from packlib.checks import one_line, shown


class CollatedBatch:
    """A batch of few sequences, and what each of them is alone; each answer is computed once.

    Args:
        given: all sequences, and `few` of them, with which the model is called.
        group: the column that says which of them belong together.

    Attributes:
        batch, seen: of few, from the collator and from the model.
        unit_of: the number of the group of each of few, or its own.
    """

    def __init__(
        self, called: CalledModel, collate: Callable, given: list[dict], few: list[dict], group: str | None
    ) -> None:
        self.called, self._collate, self.given, self.few = called, collate, given, few
        self.unit_of, self.grouped = _units(few, group), group is not None
        (self.batch, *more) = self.collate(few)
        if more:
            raise ValueError(f"collate must return one batch of {len(few)} short sequences, not {1 + len(more)}.")
        self.ids, self.pieces = self.batch["input_ids"], found_in(self.batch, few)
        if not self.pieces:
            raise ValueError("collate must keep the tokens of the sequences: none of them is in its input_ids.")
        with in_one_sentence("model must take the batches of collate"):
            self.seen = called(self.batch)
        called.refuse_parts(self.seen)
        self.owner = owners(self.ids, self.pieces)
        self.padding = np.flatnonzero(self.owner < 0)
        self.rows = np.array([piece.slots[0] // self.ids.shape[-1] for piece in self.pieces])
        self.rounding = self.seen.rounding

    def collate(self, sequences: list[dict]) -> list[dict]:
        """The batches that the collator makes, as tensors."""
        self.called.reseed()
        with in_one_sentence(f"collate must take a list of sequences, here of {len(sequences)}"):
            made = self._collate(deepcopy(sequences))
        batches = []
        for batch in made if isinstance(made, list | tuple) else [made]:
            if not isinstance(batch, Mapping) or "input_ids" not in batch:
                raise TypeError(f"collate must return a mapping with input_ids, not {shown(batch)}.")
            batches.append({key: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for key, x in batch.items()})
            ids = batches[-1]["input_ids"]
            if not isinstance(ids, Tensor) or ids.is_floating_point() or not ids.numel():
                raise TypeError(f"input_ids of a batch must be a tensor of whole numbers, not {shown(ids)}.")
        return batches

    @cached_property
    def size(self) -> float:
        """Of the outputs of the whole batch, on average."""
        return max(self.seen.outputs.detach().double().square().mean().sqrt().item(), 1e-30)

    def apart(self, outputs: Tensor, others: Tensor) -> Tensor:
        """How far the outputs of each slot are apart, relative to their size in the whole batch; shape (N,)."""
        kind = torch.promote_types(outputs.dtype, torch.float32)
        far = outputs.detach().to(kind) - others.detach().to(kind)
        return far.square_().mean(1).double().sqrt() / self.size

    @cached_property
    def noise(self) -> tuple[float, float]:
        """How far outputs of one batch are apart: in a second call with the same seed, and with another one."""
        (same, _), (other, _) = self.repeats
        return same, other

    @cached_property
    def repeats(self) -> list[tuple[float, float]]:
        """How far outputs and losses of one batch are apart, in a second call with the same seed, and with another."""
        found = []
        for reseed in (True, False):
            again = self.called(self.batch, reseed=reseed)
            off = 0.0
            if again.loss is not None and self.seen.loss is not None:
                off = float((again.loss - self.seen.loss).detach().abs() / self.seen.loss.detach().abs().clamp(min=1))
            found.append((self.apart(again.outputs, self.seen.outputs).max().item(), off))
        return found

    @cached_property
    def limit(self) -> float:
        """Outputs that are no farther apart are the same: ten times their noise, or rounding.

        Noise is also what a sequence alone is apart from itself in a batch of two.
        """
        noise, single = max(self.noise), self.alone_batch(self.pieces[0])
        double = {name: torch.cat([x, x]) if isinstance(x, Tensor) else x for name, x in single.items()}
        one, two = self.called.runs(single), self.called.runs(double)
        if one and two and len(two.outputs) == 2 * len(one.outputs):
            noise = max(noise, self.apart(two.outputs[: len(one.outputs)], one.outputs).max().item())
        return max(10 * noise, (8 if self.rounding > 1e-4 else 256) * self.rounding)

    @cached_property
    def halves(self) -> tuple[list[dict], list[dict]]:
        """All sequences in two parts, which differ in tokens and in number as far as may be; a group stays together."""
        length = dict.fromkeys(self.unit_of, 0)
        for row, unit in zip(self.few, self.unit_of, strict=True):
            length[unit] += len(row["input_ids"])
        longest = sorted(length, key=lambda unit: -length[unit])

        def apart(first: list[int]) -> float:
            tokens = sum(length[unit] for unit in first) / sum(length.values())
            units = len(first) / len(length)
            return min(abs(tokens - 0.5), abs(units - 0.5), abs(tokens - units))

        first = max((longest[:many] for many in range(1, len(longest))), key=apart)
        rows = list(zip(self.few, self.unit_of, strict=True))
        parts = [[row for row, unit in rows if (unit in first) is one] for one in (True, False)]
        return parts[0], parts[1]

    @cached_property
    def changes_tokens(self) -> bool:
        """Whether the collator puts other tokens in their place, as masking does."""
        flat = self.ids.flatten().cpu().numpy()
        return any(
            (flat[p.slots] != np.asarray(self.few[p.sequence]["input_ids"])[p.places]).any() for p in self.pieces
        )

    def unit_batches(self, unit: int) -> list[dict]:
        """What the collator makes of a unit alone."""
        return self.collate([row for row, its in zip(self.few, self.unit_of, strict=True) if its == unit])

    def part_of(self, value: Any, piece: Piece, ids: Tensor | None = None) -> Any:
        """What a field of a batch holds for a piece, as of a batch of one row; None if it has no such part."""
        ids = self.ids if ids is None else ids
        width = ids.shape[-1]
        if isinstance(value, Tensor) and value.shape == ids.shape:
            return value.flatten()[piece.slots].view(*[1] * (value.dim() - 1), -1)
        if is_mask(value, ids):
            row, columns = piece.slots[0] // width, piece.slots % width
            rows = value[row : row + 1] if value.dim() > 2 and len(value) > 1 else value
            return rows[..., columns, :][..., columns]
        return None

    def alone_batch(self, piece: Piece, batch: dict | None = None) -> dict:
        """The tokens of a piece, their labels, and the other columns of its sequence that the batch has too."""
        batch, row = self.batch if batch is None else batch, self.few[piece.sequence]
        own = {
            name: self.part_of(batch[name], piece, batch["input_ids"])
            for name in ("input_ids", "labels", *self.kept)
            if name in batch
        }
        for name in set(row).intersection(batch) - {"input_ids", "labels", MASK}:
            if np.ndim(row[name]) == 1 and len(row[name]) == len(row["input_ids"]):
                own[name] = torch.as_tensor(np.asarray(row[name])[piece.places]).view_as(own["input_ids"])
        return {name: value for name, value in own.items() if value is not None}

    @cached_property
    def bare(self) -> bool:
        """Whether the model takes the tokens of a sequence without anything that the collator says of them.

        Where ranks share a row the collator is asked: it has as many slots as they can share.
        """
        return not self.called.share_rows and self.called.runs(self.alone_batch(self.pieces[0])) is not None

    @cached_property
    def singles(self) -> list[tuple[dict, np.ndarray] | None]:
        """Each piece in a batch alone, and its slots there; where the model is not bare, in one from the collator."""
        if self.bare:
            return [(self.alone_batch(piece), np.arange(len(piece.slots))) for piece in self.pieces]
        return [self._collated(piece) for piece in self.pieces]

    @cached_property
    def kept(self) -> list[str]:
        """The fields by slot that the collator makes of each sequence alone as it does in the pack."""
        told = "input_ids", "labels", MASK, POSITIONS
        names = [name for name, value in self.batch.items() if name not in told and _by_slot(value, self.ids)]
        for piece in self.pieces if names else []:
            alone, slots = self._collated(piece) or ({"input_ids": self.ids}, piece.slots)
            mine = {name: self.batch[name].flatten()[piece.slots] for name in names}
            names = [name for name in names if _fits(alone, name, slots)
                     and torch.equal(alone[name].flatten()[slots], mine[name])]  # fmt: skip
        return names

    def _collated(self, piece: Piece) -> tuple[dict, np.ndarray] | None:
        for batch in self.unit_batches(self.unit_of[piece.sequence]):
            for found in found_in(batch, self.few):
                if found.sequence == piece.sequence and len(found.slots) == len(piece.slots):
                    return batch, found.slots
        return None

    @cached_property
    def alone(self) -> list[Tensor | None]:
        """The outputs of each piece alone."""
        seen = [None if single is None else self.called.runs(single[0]) for single in self.singles]
        return [None if one is None or single is None else one.outputs[single[1]]
                for one, single in zip(seen, self.singles, strict=True)]  # fmt: skip

    def differing(self, batch: dict | None = None) -> dict[int, float]:
        """The pieces whose outputs in a batch differ from what they are alone, and how far."""
        seen = self.seen if batch is None else self.called.runs(batch)
        found = {}
        for number, (piece, alone) in enumerate(zip(self.pieces, self.alone, strict=True)):
            if alone is not None:
                found[number] = np.inf if seen is None else self.apart(seen.outputs[piece.slots], alone).max().item()
        return {number: far for number, far in found.items() if not far <= self.limit}

    @cached_property
    def blamed(self) -> dict[str, list[tuple[int, float]]]:
        """The fields of the batch that change what a sequence is alone: which pieces, and how far."""
        found: dict[str, list[tuple[int, float]]] = {}
        asked = range(len(self.pieces)) if self.bare else self.differing()
        for number in asked:
            piece = self.pieces[number]
            if not self.bare and self.unit_of.count(self.unit_of[piece.sequence]) > 1:
                continue
            for name in [name for name in self.batch if name not in ("input_ids", "labels")]:
                part = self.part_of(self.batch[name], piece)
                far = 0.0 if part is None else self.changed(number, {name: part})
                if not far <= self.limit:
                    found.setdefault(name, []).append((number, far))
        return found

    def changed(self, number: int, fields: dict) -> float:
        """How far a piece alone is from itself with these fields of the batch; 0 if the model does not take them."""
        single, alone = self.singles[number], self.alone[number]
        if single is None or alone is None:
            return 0.0
        batch, slots = single
        if not self.bare:
            fields = {
                name: _put(batch[name], slots, part) for name, part in fields.items() if _fits(batch, name, slots)
            }
        seen = self.called.runs({**batch, **fields}) if fields else None
        return 0.0 if seen is None else self.apart(seen.outputs[slots], alone).max().item()

    @cached_property
    def start(self) -> int | None:
        """The first position that the model gives a sequence alone; None if it is not among 0 to 4."""
        if not self.bare:
            return None
        ids = self.alone_batch(self.pieces[0])["input_ids"]
        whole = [Piece(0, np.arange(ids.numel()), self.pieces[0].places)]
        given = [{POSITIONS: restarting(ids, whole, start)} for start in range(5)]
        starts = (start for start in range(5) if self.changed(0, given[start]) <= self.limit)
        return next(starts, None)

    @cached_property
    def late_alone(self) -> bool:
        """Whether all that does not begin a row differs, and nothing else, while no field of the batch is to blame."""
        firsts = set(np.unique(self.rows, return_index=True)[1].tolist())
        return not self.blamed and set(self.differing()) == set(range(len(self.pieces))) - firsts != set()


def _units(rows: list[dict], group: str | None) -> list[int]:
    """The number of what each sequence belongs to: its group, or itself."""
    if group is None:
        return list(range(len(rows)))
    values = [row[group] for row in rows]
    return [values.index(value) for value in values]


def _by_slot(value: Any, ids: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == ids.shape


def _fits(batch: dict, name: str, slots: np.ndarray) -> bool:
    return _by_slot(batch.get(name), batch["input_ids"]) and batch["input_ids"].numel() > slots[-1]


def _put(value: Tensor, slots: np.ndarray, part: Tensor) -> Tensor:
    """A field with other values in some slots."""
    flat = value.flatten().clone()
    flat[slots] = part.flatten().to(flat)
    return flat.view_as(value)


@contextmanager
def in_one_sentence(what: str) -> Iterator[None]:
    """Say in one sentence what is expected of a function that raises."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what}; it raised {type(error).__name__}: {one_line(str(error), 200)}") from error


def found_in(batch: dict, sequences: Sequence[dict]) -> list[Piece]:
    """Where the sequences are in a batch."""
    return locate(batch["input_ids"].cpu().numpy(), [np.asarray(row["input_ids"]) for row in sequences])
