"""A batch that a collator made, and the model's outputs for it.

Which sequence moves which, and by what gradient; what the model gives for each sequence alone; and which field of the
batch changes that.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from packlib.arguments import shown
from packlib.tools.check.called_model import EXACT, CalledModel, Refused, gradients
from packlib.tools.check.choosing import Shape, shape_of
from packlib.tools.check.locating import MASK, POSITIONS, Piece, has_slots, is_mask, locate, owners, restarting

# How many roundings two calls may be apart. Small models that are right are 4 apart at most, and each layer adds some;
# in half precision, where a rounding is 1 / 128 or 1 / 1024 of a number, as many would hide a fault.
_APART, _APART_IN_HALF = 256, 8  # where rows have other lengths, and kernels add up in another order
_MOVED, _MOVED_IN_HALF = 16, 4  # where shapes are the same
_HALF = 1e-4  # roundings above are those of half precision


class Leak(NamedTuple):
    """Influence of one piece of a batch on another.

    Attributes:
        strength: the gradient relative to the largest, or the move of outputs relative to their size.
        by: "gradient" or "move".
        looks: the number of the piece whose outputs depend on the other one.
        sees: the number of that other one.
    """

    strength: float
    by: str
    looks: int
    sees: int


class Unpacked(NamedTuple):
    """A piece alone: a batch with it and no other piece, its slots there, and their outputs."""

    batch: dict
    slots: np.ndarray
    outputs: Tensor


class CalledBatch:
    """A batch, what the model gives for it, and where some contents are in it.

    Attributes:
        pieces, owner: where the contents are, and the number of the piece in each slot, below 0 on padding.
        call: what the model gives.
        noise, loss_noise: how far outputs and losses are apart in a second call with the same seed, and with another.

    Args:
        like: a batch of which that is known; then there is no second call.
    """

    def __init__(
        self, called: CalledModel, batch: dict, pieces: list[Piece], like: "CalledBatch | None" = None
    ) -> None:
        self.called = called
        self.batch = batch
        self.ids = batch["input_ids"]
        self.pieces = pieces
        self.owner = owners(self.ids, pieces)
        self.call = called(batch)
        called.refuse_parts(self.call)
        self.rounding, loss = self.call.rounding, self.call.loss
        self._size = max(self.call.outputs.detach().double().square().mean().sqrt().item(), 1e-30)
        self.noise: list[float] = [] if like is None else like.noise
        self.loss_noise: list[float] = [] if like is None else like.loss_noise
        if like is not None:
            return
        repeats = [called(batch, reseed=reseed) for reseed in (True, False)]
        self.noise = [self.distance(repeat.outputs, self.call.outputs).max().item() for repeat in repeats]
        self.loss_noise = [0.0, 0.0]
        if loss is not None:
            size = loss.detach().abs().clamp(min=1)
            self.loss_noise = [
                0.0 if x.loss is None else float((x.loss - loss).detach().abs() / size) for x in repeats
            ]

    @property
    def without_numbers(self) -> int:
        """Count the tokens that get NaN or infinity."""
        finite = self.call.outputs.detach().isfinite().all(1).cpu().numpy()
        return int((~finite & (self.owner.ravel() >= 0)).sum())

    def distance(self, outputs: Tensor, other_outputs: Tensor) -> Tensor:
        """Compare outputs slot by slot, relative to their size in the whole batch; shape (N,)."""
        kind = torch.promote_types(outputs.dtype, torch.float32)
        difference = outputs.detach().to(kind) - other_outputs.detach().to(kind)
        return difference.square_().mean(1).double().sqrt() / self._size

    def moved(self, batch: dict, slots: np.ndarray) -> dict:
        """Return the batch with the tokens at these slots exchanged for other tokens of the batch.

        Placeholders and ends stay.
        """
        tokens = self.ids.flatten()[self.owner.ravel() >= 0].unique()
        for stay in ([*self.called.keep, *self.called.ends], self.called.keep):
            pool = tokens[~torch.isin(tokens, torch.tensor(stay, dtype=tokens.dtype, device=tokens.device))]
            if len(pool) > 1:  # else nothing would change, and all would seem apart
                break
        flat = batch["input_ids"].flatten().clone()
        slots = slots[~np.isin(flat.cpu().numpy()[slots], stay)]
        flat[slots] = pool[(torch.searchsorted(pool, flat[slots]) + 1) % len(pool)]
        return {**batch, "input_ids": flat.view_as(batch["input_ids"])}

    def moves(self, batch: dict) -> np.ndarray:
        """Measure how far outputs of each piece (row) move if the tokens of each piece (column) are exchanged.

        Returns:
            Shape (P, P), relative to the size of the outputs.
        """
        still, moves_by_piece = self.called(batch).outputs, []
        for piece in self.pieces:
            change = self.distance(self.called(self.moved(batch, piece.slots)).outputs, still)
            moves_by_piece.append([change[looks.slots].max().item() for looks in self.pieces])
        return np.array(moves_by_piece).T


class CheckedBatch(CalledBatch):
    """A batch of few sequences, and what each of them is alone; each answer is computed once.

    Args:
        all_sequences, sequences: all that are given, and the few of them with which the model is called.
        group: the column that says which of them belong together.
        like: a batch of the same model and collator, of which its noise and whether it is causal are known.

    Attributes:
        unit_of: the number of the group of each of few, or its own.
        row_of: shape (pieces,), the row of each piece.
        short: a batch of the two shortest units, with which the model is called before all others.
        moved_by_calls: how far apart its outputs are before and after the first call with the whole batch.
        padding: the slots that hold no sequence.
    """

    def __init__(
        self,
        called: CalledModel,
        collate: Callable,
        all_sequences: list[dict],
        sequences: list[dict],
        group: str | None,
        like: "CheckedBatch | None" = None,
    ) -> None:
        self.called = called
        self._collate = collate
        self.all_sequences = all_sequences
        self.sequences = sequences
        self.grouped = group is not None
        names = list(range(len(sequences))) if group is None else [row[group] for row in sequences]
        self.unit_of = [names.index(name) for name in names]
        batch = self.collate(sequences)
        pieces = found_in(batch, sequences)
        if not pieces:
            raise ValueError("collate must keep the tokens of the sequences: none of them is in its input_ids.")
        _refuse_reordered(batch["input_ids"], pieces, sequences)
        first_call = None
        if like is None:
            self.short = self.collate(self.of_units(self._shortest_units()))
            first_batch = called.first_batch
            first_call = called.runs(self.short)
            called.first_batch = first_batch  # what is said of a refused batch is said of that of all
        super().__init__(called, batch, pieces, like)
        if like is not None:
            self.causal = like.causal
        later_call = called.runs(self.short) if first_call is not None else None
        self.moved_by_calls = 0.0
        if first_call is not None and later_call is not None:
            self.moved_by_calls = float(self.distance(later_call.outputs, first_call.outputs).max())
        self.padding = np.flatnonzero(self.owner < 0)
        self.row_of = np.array([piece.slots[0] // self.ids.shape[-1] for piece in self.pieces])

    def _shortest_units(self) -> list[int]:
        """Return the two units of the fewest tokens."""
        tokens = {unit: sum(len(row["input_ids"]) for row in self.of_units([unit])) for unit in set(self.unit_of)}
        return sorted(tokens, key=lambda unit: tokens[unit])[:2]

    def collate(self, sequences: list[dict]) -> dict:
        """Return the batch of tensors that the collator makes."""
        return collated(self.called, self._collate, sequences)

    @cached_property
    def shape_of_all(self) -> Shape:
        """Return the features of the batch of all sequences."""
        return shape_of(self.collate(self.all_sequences), self.all_sequences)

    def slopes(self, batch: dict) -> np.ndarray | None:
        """Compute each piece's gradients by slot, relative to the largest, shape (P, N); None without any."""
        call = self.called(batch)
        by_piece = gradients(
            self.called, call.outputs, call.embeddings, self.ids, [piece.slots for piece in self.pieces]
        )
        return None if by_piece is None else (by_piece / by_piece.amax(1, keepdim=True)).numpy()

    @cached_property
    def own_moves(self) -> np.ndarray:
        """`moves` in the batch as it is.

        A model may tell sequences apart by their first or last tokens. If these are exchanged, borders disappear, and
        each sequence moves the next without any fault. So if there is a leak, the moves are measured again with such
        tokens kept. The second measurement counts, and the tokens are kept from here on, if it still finds a leak, or
        if each sequence has the outputs that it has alone. Else the leak comes through these tokens, and the first
        measurement counts.
        """
        moves, end_tokens = self.moves(self.batch), _ends(self.sequences)
        if not end_tokens or self.leak(moves, None) is None:
            return moves
        self.called.ends = end_tokens
        without = self.moves(self.batch)
        if self.leak(without, None) or not self.differing():
            return without
        self.called.ends = []
        return moves

    @cached_property
    def own_slopes(self) -> np.ndarray | None:
        """`slopes` in the batch as it is; the larger of evaluation and of training, if the model trains."""
        slopes = self.slopes(self.batch)
        if slopes is not None and self.called.trains:
            sentence = (
                "model failed in training, when gradients of its parts were taken: it must take torch.autograd.grad, "
                "so checkpoint with use_reentrant=False"
            )
            with self.called.mode(train=True), in_one_sentence(sentence):
                slopes = np.maximum(slopes, self.slopes(self.batch))  # type: ignore[arg-type]
        return slopes

    @property
    def least(self) -> float:
        """The least move of outputs that is no rounding, where shapes are the same."""
        return max(10 * self.noise[0], (_MOVED_IN_HALF if self.rounding > _HALF else _MOVED) * self.rounding)

    def leak(self, moves: np.ndarray | None, slopes: np.ndarray | None, relation: str = "any") -> Leak | None:
        """Find the strongest influence of a piece on another by gradients, or else by moves, if there is one.

        Args:
            relation: which influences count: of "any" other piece; of an "earlier" one of the same row; of one in
                "another row"; or "later", all that are not "earlier": of later ones of the row, and of other rows.
        """
        order = np.arange(len(self.pieces))
        same_row = self.row_of[:, None] == self.row_of
        other_pieces = order != order[:, None]
        earlier = same_row & (order < order[:, None])
        allowed = {
            "any": other_pieces,
            "earlier": earlier,
            "later": other_pieces & ~earlier,
            "another row": ~same_row,
        }[relation]
        by_piece = None if slopes is None else np.stack([slopes[:, piece.slots].max(1) for piece in self.pieces], 1)
        for kind, values, limit in (("gradient", by_piece, EXACT), ("move", moves, self.least)):
            if values is not None and (values[allowed] > limit).any():
                looks, sees = divmod(int(np.where(allowed, values, -1).argmax()), len(order))
                return Leak(float(values[looks, sees]), kind, looks, sees)
        return None

    def own_leak(self, relation: str = "any") -> Leak | None:
        """Find the strongest influence in the batch as it is."""
        return self.leak(self.own_moves, self.own_slopes, relation)

    @cached_property
    def causal(self) -> bool:
        """Return True if the first token of the longest sequence, alone, does not depend on the last one."""
        piece = max(self.pieces, key=lambda piece: len(piece.slots))
        batch = self.unpacked_batch(piece) if self.bare else self.batch
        first_slot, last_slot = (0, len(piece.slots) - 1) if self.bare else piece.slots[[0, -1]]
        call, ids = self.called(batch), batch["input_ids"]
        depends = gradients(self.called, call.outputs, call.embeddings, ids, [np.array([first_slot])])
        if depends is not None:
            return not depends[0, last_slot] > EXACT * depends.max()
        changed_call = self.called(self.moved(batch, np.array([last_slot])))
        return not self.distance(changed_call.outputs, call.outputs)[first_slot] > self.least

    @cached_property
    def limit(self) -> float:
        """The largest distance of outputs that counts as noise or rounding, relative to their size.

        It is ten times the noise of two calls, or some roundings if these are more. The outputs of a sequence in a
        batch of its own, and in a batch of two copies of it, are compared as such calls, too.
        """
        noise, single = max(self.noise), self.unpacked_batch(self.pieces[0])
        double = {name: torch.cat([x, x]) if isinstance(x, Tensor) else x for name, x in single.items()}
        single_call, double_call = self.called.runs(single), self.called.runs(double)
        if single_call and double_call and len(double_call.outputs) == 2 * len(single_call.outputs):
            distance = self.distance(double_call.outputs[: len(single_call.outputs)], single_call.outputs).max().item()
            noise = max(noise, min(distance, 64 * self.rounding))  # what is more is no rounding, but a fault
        return max(10 * noise, (_APART_IN_HALF if self.rounding > _HALF else _APART) * self.rounding)

    def of_units(self, units: Collection[int]) -> list[dict]:
        """Return the sequences of some units."""
        return [row for row, unit in zip(self.sequences, self.unit_of, strict=True) if unit in units]

    @cached_property
    def parts(self) -> tuple[list[dict], list[dict]]:
        """All sequences in two parts, as `parts_beside` makes them."""
        return self.parts_beside(set())

    def parts_beside(self, silent: Collection[int]) -> tuple[list[dict], list[dict]]:
        """All sequences in two parts that differ in number, and still more in tokens; a group stays together.

        Sequences of one token, of which nothing is predicted, are in the larger part, if there are others.

        Args:
            silent: units that no loss learns from; they are in the larger part too, if there are others.
        """
        units = set(self.unit_of)
        size = {unit: [len(row["input_ids"]) for row in self.of_units([unit])] for unit in units}
        by_length = sorted(units, key=lambda unit: (unit in silent, max(size[unit]) < 2, sum(size[unit])))
        shortest = by_length[: max(1, len(units) // 3)]
        return self.of_units(units.difference(shortest)), self.of_units(shortest)

    @cached_property
    def changes_tokens(self) -> bool:
        """Return True if the collator puts other tokens in their place, as masking does."""
        flat = self.ids.flatten().cpu().numpy()
        return any(
            (flat[p.slots] != np.asarray(self.sequences[p.sequence]["input_ids"])[p.offsets]).any()
            for p in self.pieces
        )

    def part_of(self, value: Any, piece: Piece, ids: Tensor | None = None) -> Any:
        """Cut a piece out of a field of a batch, as of a batch of one row; None if the field has no such part."""
        ids = self.ids if ids is None else ids
        width = ids.shape[-1]
        if isinstance(value, Tensor) and value.shape == ids.shape:
            return value.flatten()[piece.slots].view(*[1] * (value.dim() - 1), -1)
        if is_mask(value, ids):
            row, columns = piece.slots[0] // width, piece.slots % width
            rows = value[row : row + 1] if value.dim() > 2 and len(value) > 1 else value
            return rows[..., columns, :][..., columns]
        return None

    def unpacked_batch(self, piece: Piece, batch: dict | None = None) -> dict:
        """Make a batch of a piece's tokens, their labels, and its sequence's other columns that the batch has too."""
        batch, row = self.batch if batch is None else batch, self.sequences[piece.sequence]
        fields = {
            name: self.part_of(batch[name], piece, batch["input_ids"])
            for name in ("input_ids", "labels", *self.unchanged_fields)
            if name in batch
        }
        for name in set(row).intersection(batch) - {"input_ids", "labels", MASK}:
            if np.ndim(row[name]) == 1 and len(row[name]) == len(row["input_ids"]):
                fields[name] = torch.as_tensor(np.asarray(row[name])[piece.offsets]).view_as(fields["input_ids"])
        return {name: value for name, value in fields.items() if value is not None}

    @cached_property
    def bare(self) -> bool:
        """Return True if the model takes a sequence's tokens without the collator's other fields.

        Where ranks share a row the collator is asked: it has as many slots as they can share.
        """
        if self.illustrated:  # its images are not by slot, and only the collator knows which are whose
            return False
        return not self.called.share_rows and self.called.runs(self.unpacked_batch(self.pieces[0])) is not None

    @cached_property
    def illustrated(self) -> bool:
        """Return True if the batch has placeholders, and something that stands for them."""
        is_placeholder = np.isin(self.ids.flatten().cpu().numpy(), self.called.keep)
        other_fields = (x for x in self.batch.values() if isinstance(x, Tensor) and x.is_floating_point())
        return bool(is_placeholder.any()) and any(
            not is_mask(x, self.ids) and not has_slots(x, self.ids) for x in other_fields
        )

    @cached_property
    def unchanged_fields(self) -> list[str]:
        """The fields by slot that the collator makes of each sequence alone as it does in the pack."""
        standard_fields = "input_ids", "labels", MASK, POSITIONS
        names = [
            name for name, value in self.batch.items() if name not in standard_fields and has_slots(value, self.ids)
        ]
        for piece in self.pieces if names else []:
            single, slots = self._collated(piece) or ({"input_ids": self.ids}, piece.slots)
            in_the_pack = {name: self.batch[name].flatten()[piece.slots] for name in names}
            names = [name for name in names if has_slots(single.get(name), single["input_ids"])
                     and torch.equal(single[name].flatten()[slots], in_the_pack[name])]  # fmt: skip
        return names

    def _collated(self, piece: Piece) -> tuple[dict, np.ndarray] | None:
        """Return the batch that the collator makes of a piece's unit alone, and the slots of the piece there."""
        batch = self.collate(self.of_units([self.unit_of[piece.sequence]]))
        slots_of_whole = [
            candidate.slots
            for candidate in found_in(batch, self.sequences)
            if candidate.sequence == piece.sequence and len(candidate.slots) == len(piece.slots)
        ]
        return (batch, slots_of_whole[0]) if slots_of_whole else None

    @cached_property
    def unpacked(self) -> list[Unpacked | None]:
        """Each piece alone: as it is, or where the model is not bare, in a batch that the collator makes."""
        of_pieces: list[Unpacked | None] = []
        for piece in self.pieces:
            single = (self.unpacked_batch(piece), np.arange(len(piece.slots))) if self.bare else self._collated(piece)
            batch, slots = single or (None, piece.slots)
            call = None if batch is None else self.called.runs(batch)
            of_pieces.append(None if batch is None or call is None else Unpacked(batch, slots, call.outputs[slots]))
        return of_pieces

    def differing(self, batch: dict | None = None) -> dict[int, float]:
        """Find the pieces whose outputs in a batch differ from what they are alone, and how far."""
        call = self.call if batch is None else self.called.runs(batch)
        distances = {
            number: np.inf if call is None else self.distance(call.outputs[piece.slots], unpacked.outputs).max().item()
            for number, (piece, unpacked) in enumerate(zip(self.pieces, self.unpacked, strict=True))
            if unpacked is not None
        }
        return {number: distance for number, distance in distances.items() if not distance <= self.limit}

    @cached_property
    def differing_elsewhere(self) -> dict[int, float]:
        """The pieces whose outputs are others in a later batch, of all sequences in reverse or of a part; and how far.

        Nothing where the collator changes tokens, as masking does.
        """
        distances = dict[int, float]()
        for rows in [] if self.changes_tokens else (self.sequences[::-1], *self.parts):
            of_batch = self.differing_in(self.collate(rows))
            distances |= {number: max(distance, distances.get(number, 0.0)) for number, distance in of_batch.items()}
        return distances

    def differing_in(self, batch: dict) -> dict[int, float]:
        """Find the pieces whose outputs in another batch differ from those in this one, and how far."""
        call = self.called.runs(batch)
        piece_of = {piece.sequence: piece for piece in found_in(batch, self.sequences)}
        distances = dict[int, float]()
        for number, piece in enumerate(self.pieces):
            other_piece = piece_of.get(piece.sequence)
            if call is not None and other_piece is not None and np.array_equal(other_piece.offsets, piece.offsets):
                distances[number] = float(
                    self.distance(call.outputs[other_piece.slots], self.call.outputs[piece.slots]).max()
                )
        return {number: distance for number, distance in distances.items() if not distance <= self.limit}

    @cached_property
    def blamed(self) -> dict[str, tuple[int, float]]:
        """The fields of the batch that change what a sequence is alone: the first such piece, and how far."""
        first_differences: dict[str, tuple[int, float]] = {}
        for number in range(len(self.pieces)) if self.bare else self.differing():
            piece = self.pieces[number]
            if not self.bare and self.unit_of.count(self.unit_of[piece.sequence]) > 1:
                continue
            for name in [name for name in self.batch if name not in ("input_ids", "labels", *first_differences)]:
                part = self.part_of(self.batch[name], piece)
                distance = 0.0 if part is None else self.changed(number, {name: part})
                if not distance <= self.limit:
                    first_differences[name] = number, distance
        return first_differences

    def changed(self, number: int, fields: dict) -> float:
        """Compare a piece alone with itself and these fields of the batch; 0 if the model does not take them."""
        unpacked = self.unpacked[number]
        if unpacked is None:
            return 0.0
        if not self.bare:
            fields = {name: _put(unpacked.batch[name], unpacked.slots, part) for name, part in fields.items()
                      if has_slots(unpacked.batch.get(name), unpacked.batch["input_ids"])}  # fmt: skip
        call = self.called.runs({**unpacked.batch, **fields}) if fields else None
        return 0.0 if call is None else self.distance(call.outputs[unpacked.slots], unpacked.outputs).max().item()

    @cached_property
    def start(self) -> int | None:
        """The first position that the model gives a sequence alone; None if it is not among 0 to 4."""
        if not self.bare:
            return None
        ids = self.unpacked_batch(self.pieces[0])["input_ids"]
        whole_piece = [Piece(0, np.arange(ids.numel()), self.pieces[0].offsets)]
        for start in range(5):
            if self.changed(0, {POSITIONS: restarting(ids, whole_piece, start)}) <= self.limit:
                return start
        return None

    @cached_property
    def exchanged(self) -> str:
        """The name of a field with a value for each sequence, if a sequence gets that of another one; else nothing."""
        for name, value in self.batch.items():
            is_per_sequence = isinstance(value, Tensor) and value.dim() > 0 and len(value) == len(self.pieces) > 1
            if not is_per_sequence or name == "input_ids" or has_slots(value, self.ids) or is_mask(value, self.ids):
                continue
            for number in range(len(value)):
                exchanged = value.clone()
                exchanged[number] = value[number - 1]
                call = self.called.runs({**self.batch, name: exchanged})
                if call is None:
                    continue
                change = self.distance(call.outputs, self.call.outputs)
                if any(
                    change[piece.slots].max() > self.limit
                    for index, piece in enumerate(self.pieces)
                    if index != number
                ):
                    return name
        return ""

    def dependence_within(self, number: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Measure how much the first and the last token of a piece depend on each of it, in the batch and alone.

        Returns:
            Two of shape (2, tokens), relative to the largest; None if gradients do not say.
        """
        piece, unpacked = self.pieces[number], self.unpacked[number]
        unpacked_call = None if unpacked is None else self.called.runs(unpacked.batch)
        if unpacked is None or unpacked_call is None:
            return None
        depends_in_each = []
        for call, ids, slots in (
            (self.call, self.ids, piece.slots),
            (unpacked_call, unpacked.batch["input_ids"], unpacked.slots),
        ):
            end_slots = [slots[:1], slots[-1:]]
            depends = gradients(self.called, call.outputs, call.embeddings, ids, end_slots)
            if depends is None:
                return None
            depends_in_each.append((depends / depends.amax(1, keepdim=True)).numpy()[:, slots])
        return depends_in_each[0], depends_in_each[1]

    @cached_property
    def only_later_pieces_differ(self) -> bool:
        """Return True if exactly the pieces that do not begin a row differ, while no field of the batch is to blame."""
        firsts = set(np.unique(self.row_of, return_index=True)[1].tolist())
        late = not self.blamed and set(self.differing()) == set(range(len(self.pieces))) - firsts != set()
        return late and not self.exchanged


def _ends(rows: list[dict]) -> list[int]:
    """Return the tokens that at least half of the sequences begin with, or end in."""
    counts = [Counter(int(row["input_ids"][place]) for row in rows) for place in (0, -1)]
    return sorted({token for count in counts for token, times in count.items() if times >= max(2, len(rows) / 2)})


def _put(value: Tensor, slots: np.ndarray, part: Tensor) -> Tensor:
    """Return a copy of a field with other values in some slots."""
    flat = value.flatten().clone()
    flat[slots] = part.flatten().to(flat)
    return flat.view_as(value)


@contextmanager
def in_one_sentence(sentence: str) -> Iterator[None]:
    """Say in one sentence what failed, and what to do."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(sentence, error) from error


def collated(called: CalledModel, collate: Callable, sequences: list[dict]) -> dict:
    """Return the batch of tensors that a collator makes."""
    called.reseed()
    count = len(sequences)
    failed = f"collate failed with a list of {count} of your sequences: it must take any number of them, in any order"
    with in_one_sentence(failed):
        returned = collate(deepcopy(sequences))
    if isinstance(returned, tuple | list):
        raise TypeError(
            f"collate returned a {type(returned).__name__}: return one mapping, whose tokens are input_ids."
        )
    if not isinstance(returned, Mapping) or "input_ids" not in returned:
        raise TypeError(f"collate must return a mapping with input_ids, not {shown(returned)}.")
    batch = {key: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for key, x in returned.items()}
    ids = batch["input_ids"]
    if isinstance(ids, tuple | list):
        kind = type(ids).__name__
        raise TypeError(
            f"input_ids of a batch must be a tensor of whole numbers, not a {kind}: convert it in collate."
        )
    if not isinstance(ids, Tensor) or ids.is_floating_point() or not ids.numel():
        raise TypeError(f"input_ids of a batch must be a tensor of whole numbers, not {shown(ids)}.")
    return batch


def found_in(batch: dict, sequences: Sequence[dict]) -> list[Piece]:
    """Find the sequences in a batch."""
    return locate(batch["input_ids"].cpu().numpy(), [np.asarray(row["input_ids"]) for row in sequences])


def _refuse_reordered(ids: Tensor, pieces: Sequence[Piece], sequences: Sequence[dict]) -> None:
    """Refuse a batch in which the tokens of a sequence come in another order, as by fill-in-the-middle.

    Then what a pack does to a sequence cannot be told from what the collator does to it.

    Raises:
        ValueError: if they do.
    """
    reordered = _scattered(ids, pieces, sequences)
    for number in range(len(sequences)):
        starts = [(int(piece.slots[0]), int(piece.offsets[0])) for piece in pieces if piece.sequence == number]
        offsets = [offset for _, offset in sorted(starts)]
        if len(set(offsets)) == len(offsets) and offsets != sorted(offsets):
            reordered.append(number)
    if reordered:
        raise ValueError(
            f"collate puts the tokens of sequence {min(reordered)} in another order, as fill-in-the-middle does: "
            "reorder the sequences first, and give the check what they are then."
        )


def _scattered(ids: Tensor, pieces: Sequence[Piece], sequences: Sequence[dict]) -> list[int]:
    """Return the sequences that lack tokens, if all of these lie elsewhere in the batch, with little besides.

    What lies there besides is padding, and a few tokens that mark the parts of a sequence.
    """
    contents = [np.asarray(row["input_ids"]) for row in sequences]
    slots = ids.cpu().numpy().ravel()
    elsewhere = np.ones(len(slots), bool)
    lacking = [np.ones(len(content), bool) for content in contents]
    for piece in pieces:
        equal = slots[piece.slots] == contents[piece.sequence][piece.offsets]
        elsewhere[piece.slots[equal]] = False
        lacking[piece.sequence][piece.offsets[equal]] = False
    lost = Counter(np.concatenate([content[lacks] for content, lacks in zip(contents, lacking, strict=True)]).tolist())
    tokens_elsewhere = Counter(slots[elsewhere].tolist())
    besides = tokens_elsewhere.total() - lost.total() - max(tokens_elsewhere.values(), default=0)
    # one token alone may be an end that the collator takes off, and pads with
    if len(lost) < 2 or lost - tokens_elsewhere or besides > 4 * len(sequences):
        return []
    return [number for number, lacks in enumerate(lacking) if lacks.any()]
