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
from packlib.tools.check.called_model import EXACT, CalledModel, ModelCall, Refused, gradients
from packlib.tools.check.choosing import Shape, shape_of
from packlib.tools.check.locating import MASK, POSITIONS, Piece, has_slots, is_mask, locate, owners, restarting

# By how many roundings the outputs of two calls may differ. Small models that are right differ by at most 4, and each
# layer adds some. In half precision a rounding is 1 / 128 or 1 / 1024 of a number, so 256 of them would hide a fault.
_APART, _APART_IN_HALF = 256, 8  # if batches have other shapes, so that kernels add up in another order
_MOVED, _MOVED_IN_HALF = 16, 4  # if batches have the same shape
_REPEATED = 256  # if two calls have the same batch: noise is far larger, as dropout is
_HALF = 1e-4  # a rounding error above it is that of half precision


class Noise(NamedTuple):
    """How far a second call of the model with the same batch is from the first one, with the same seed and another."""

    same_seed: float
    other_seed: float


class Leak(NamedTuple):
    """Influence of one piece of a batch on another.

    Attributes:
        strength: the gradient relative to the largest, or the move of outputs relative to their size.
        by: "gradient" or "move", which `strength` is.
        looking: the number of the piece whose outputs depend on the other one.
        seen: the number of that other one.
    """

    strength: float
    by: str
    looking: int
    seen: int


class Unpacked(NamedTuple):
    """A piece alone.

    Attributes:
        batch: a batch with this piece and no other one.
        slots: the slots of the piece in that batch, shape (tokens,).
        outputs: the model's outputs at these slots, shape (tokens, width).
    """

    batch: dict
    slots: np.ndarray
    outputs: Tensor


class Blame(NamedTuple):
    """A piece whose outputs a field of the batch changes, by its number, and by how much."""

    number: int
    distance: float


class CalledBatch:
    """A batch, the model's outputs for it, and where some contents are in it.

    Attributes:
        ids: the tokens of the batch, shape (rows, T) or (T,).
        pieces: where the contents are.
        owner: shape (rows, T), the number of the piece in each slot, below 0 on padding.
        call: the model's call with the batch.
        rounding: the largest relative error of a number, as in `ModelCall`.
        noise: of outputs, relative to their size (see `distance`).
        loss_noise: of losses, relative to the loss, or absolute if that is below 1; 0 without a loss.

    Args:
        like: a batch whose noise is taken for that of this one, so that no call is repeated.
    """

    noise: Noise
    loss_noise: Noise

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
        self.rounding = self.call.rounding
        self._size = max(self.call.outputs.detach().double().square().mean().sqrt().item(), 1e-30)
        if like is not None:
            self.noise, self.loss_noise = like.noise, like.loss_noise
            return
        repeats = [called(batch, reseed=reseed) for reseed in (True, False)]
        self.noise = Noise(*(self.distance(repeat.outputs, self.call.outputs).max().item() for repeat in repeats))
        self.loss_noise = Noise(*(self._loss_distance(repeat.loss) for repeat in repeats))

    def _loss_distance(self, other_loss: Tensor | None) -> float:
        """Compare the loss of another call with that of the first, relative to this; 0 if there is none."""
        loss = self.call.loss
        if loss is None or other_loss is None:
            return 0.0
        return float((other_loss - loss).detach().abs() / loss.detach().abs().clamp(min=1))

    @property
    def repeat_limit(self) -> float:
        """The largest difference of two calls with the same batch that counts as rounding, and not as noise."""
        return _REPEATED * self.rounding

    @property
    def without_numbers(self) -> int:
        """Count the tokens whose outputs have a NaN or an infinity."""
        finite = self.call.outputs.detach().isfinite().all(1).cpu().numpy()
        return int((~finite & (self.owner.ravel() >= 0)).sum())

    def distance(self, outputs: Tensor, other_outputs: Tensor) -> Tensor:
        """Compare outputs slot by slot, relative to their size in the whole batch; shape (N,)."""
        kind = torch.promote_types(outputs.dtype, torch.float32)
        difference = outputs.detach().to(kind) - other_outputs.detach().to(kind)
        return difference.square_().mean(1).double().sqrt() / self._size

    def moved(self, batch: dict, slots: np.ndarray) -> dict:
        """Return the batch with the token at each of these slots exchanged for the next larger one of the batch.

        The largest is exchanged for the smallest. Placeholders stay, and so do tokens that begin or end sequences,
        unless fewer than two other tokens are left.
        """
        tokens = self.ids.flatten()[self.owner.ravel() >= 0].unique()
        for stay in ([*self.called.keep, *self.called.ends], self.called.keep):
            pool = tokens[~torch.isin(tokens, torch.tensor(stay, dtype=tokens.dtype, device=tokens.device))]
            if len(pool) > 1:  # of one token nothing would change, so that no sequence would seem to see another
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
        outputs = self.called(batch).outputs
        moves_by_exchanged = []
        for piece in self.pieces:
            change = self.distance(self.called(self.moved(batch, piece.slots)).outputs, outputs)
            moves_by_exchanged.append([change[other_piece.slots].max().item() for other_piece in self.pieces])
        return np.array(moves_by_exchanged).T


class CheckedBatch(CalledBatch):
    """A batch of few sequences, and the model's outputs for it and for each sequence alone.

    What takes calls of the model is computed when it is first asked for, and once.

    Args:
        all_sequences: all sequences that the check was given.
        sequences: the few of them that this batch is made of.
        group: the column that says which sequences belong together; None if each is a group.
        like: a batch of the same model and collator, whose noise and whose `causal` are taken for those of this one.

    Attributes:
        unit_of: for each of `sequences` the number of its unit: its group or, without groups, itself.
        grouped: whether there are groups.
        row_of: shape (pieces,), the row of each piece.
        short: a batch of the two shortest units, with which the model is called before all others.
        change_by_calls: the distance of the outputs for `short` before and after the first call with this batch.
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
        self.change_by_calls = 0.0
        if like is None:
            call_before = self._call_short_batch()
            super().__init__(called, batch, pieces)
            call_after = None if call_before is None else called.try_call(self.short)
            if call_before is not None and call_after is not None:
                self.change_by_calls = float(self.distance(call_after.outputs, call_before.outputs).max())
        else:
            super().__init__(called, batch, pieces, like)
            self.causal = like.causal
        self.padding = np.flatnonzero(self.owner < 0)
        self.row_of = np.array([piece.slots[0] // self.ids.shape[-1] for piece in self.pieces])

    def _call_short_batch(self) -> ModelCall | None:
        """Make the batch of the two shortest units, and call the model with it; None if the model refuses it."""
        self.short = self.collate(self.of_units(self._shortest_units()))
        first_batch = self.called.first_batch
        call = self.called.try_call(self.short)
        self.called.first_batch = first_batch  # errors compare a refused batch with that of all, not with this
        return call

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
        """Compute how much the outputs of each piece depend on each slot, by gradients.

        Returns:
            Shape (P, N), for each piece relative to the slot that it depends on most; None if there are no gradients.
        """
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
        moves = self.moves(self.batch)
        end_tokens = _ends(self.sequences)
        if not end_tokens or self.leak(moves, None) is None:
            return moves
        self.called.ends = end_tokens
        moves_with_ends_kept = self.moves(self.batch)
        if self.leak(moves_with_ends_kept, None) or not self.differing():
            return moves_with_ends_kept
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
    def move_limit(self) -> float:
        """The largest move of outputs that counts as noise or rounding, between batches of the same shape.

        `limit` is its counterpart for batches of other shapes.
        """
        return max(10 * self.noise.same_seed, (_MOVED_IN_HALF if self.rounding > _HALF else _MOVED) * self.rounding)

    def leak(self, moves: np.ndarray | None, slopes: np.ndarray | None, relation: str = "any") -> Leak | None:
        """Find the strongest influence of a piece on another by gradients, or else by moves, if there is one.

        Args:
            moves: shape (P, P), as `moves` returns them; None to judge by gradients alone.
            slopes: shape (P, N), as `slopes` returns them; None to judge by moves alone.
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
        for kind, values, limit in (("gradient", by_piece, EXACT), ("move", moves, self.move_limit)):
            if values is not None and (values[allowed] > limit).any():
                place_of_largest = int(np.where(allowed, values, -1).argmax())
                looking, seen = divmod(place_of_largest, len(order))
                return Leak(float(values[looking, seen]), kind, looking, seen)
        return None

    def own_leak(self, relation: str = "any") -> Leak | None:
        """Find the strongest influence in the batch as it is."""
        return self.leak(self.own_moves, self.own_slopes, relation)

    @cached_property
    def causal(self) -> bool:
        """Return True if the first token of the longest sequence does not depend on its last one.

        The sequence is alone for that, if the model takes its bare tokens; else it is in the batch.
        """
        piece = max(self.pieces, key=lambda piece: len(piece.slots))
        batch = self.unpacked_batch(piece) if self.takes_bare_tokens else self.batch
        first_slot, last_slot = (0, len(piece.slots) - 1) if self.takes_bare_tokens else piece.slots[[0, -1]]
        call, ids = self.called(batch), batch["input_ids"]
        depends = gradients(self.called, call.outputs, call.embeddings, ids, [np.array([first_slot])])
        if depends is not None:
            return not depends[0, last_slot] > EXACT * depends.max()
        changed_call = self.called(self.moved(batch, np.array([last_slot])))
        return not self.distance(changed_call.outputs, call.outputs)[first_slot] > self.move_limit

    @cached_property
    def limit(self) -> float:
        """The largest distance of outputs that counts as noise or rounding, between batches of other shapes.

        It is relative to the size of outputs: ten times the noise of two calls, or some roundings if these are more.
        The outputs of a sequence in a batch of its own, and in a batch of two copies of it, count as such calls too.
        """
        noise = max(self.noise)
        single = self.unpacked_batch(self.pieces[0])
        double = {name: torch.cat([x, x]) if isinstance(x, Tensor) else x for name, x in single.items()}
        single_call, double_call = self.called.try_call(single), self.called.try_call(double)
        if single_call and double_call and len(double_call.outputs) == 2 * len(single_call.outputs):
            distance = self.distance(double_call.outputs[: len(single_call.outputs)], single_call.outputs).max().item()
            noise = max(noise, min(distance, 64 * self.rounding))  # a larger distance is a fault, not rounding
        return max(10 * noise, (_APART_IN_HALF if self.rounding > _HALF else _APART) * self.rounding)

    def of_units(self, units: Collection[int]) -> list[dict]:
        """Return the sequences of some units."""
        return [row for row, unit in zip(self.sequences, self.unit_of, strict=True) if unit in units]

    @cached_property
    def parts(self) -> tuple[list[dict], list[dict]]:
        """The sequences in two parts, as `in_two_parts` makes them: the longer ones, and the shortest third."""
        return self.in_two_parts(set())

    def in_two_parts(self, silent: Collection[int]) -> tuple[list[dict], list[dict]]:
        """Divide the sequences into two parts of whole units: the longer ones, and the shortest third of the units.

        Nothing is learned from `silent` units, nor from those whose sequences have one token each. They count as longer
        than all others, so that the shortest third has them only if there are too few others.

        Args:
            silent: the numbers of units that no loss learns from.

        Returns:
            The sequences of the longer units, and those of the shortest third.
        """
        units = set(self.unit_of)
        lengths = {unit: [len(row["input_ids"]) for row in self.of_units([unit])] for unit in units}
        by_length = sorted(units, key=lambda unit: (unit in silent, max(lengths[unit]) < 2, sum(lengths[unit])))
        shortest = by_length[: max(1, len(units) // 3)]
        return self.of_units(units.difference(shortest)), self.of_units(shortest)

    @cached_property
    def changes_tokens(self) -> bool:
        """Return True if the collator exchanges tokens for others, as masking does."""
        flat = self.ids.flatten().cpu().numpy()
        return any(
            (flat[piece.slots] != np.asarray(self.sequences[piece.sequence]["input_ids"])[piece.offsets]).any()
            for piece in self.pieces
        )

    def part_of(self, value: Any, piece: Piece, ids: Tensor | None = None) -> Any:
        """Cut a piece out of a field of a batch, as a batch of this piece alone would have it.

        Args:
            ids: the tokens of that batch; None for this batch.

        Returns:
            Shape (1, tokens), or (tokens,) if ids have one axis; (…, tokens, tokens) of a mask of pairs. None if the
            field has no value for each slot or pair of slots.
        """
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
        for name in set(row).intersection(batch) - {"input_ids", "labels", MASK}:  # columns of the data
            if np.ndim(row[name]) == 1 and len(row[name]) == len(row["input_ids"]):
                fields[name] = torch.as_tensor(np.asarray(row[name])[piece.offsets]).view_as(fields["input_ids"])
        return {name: value for name, value in fields.items() if value is not None}

    @cached_property
    def takes_bare_tokens(self) -> bool:
        """Return True if the model takes a sequence's tokens without the collator's other fields.

        False where ranks share a row: only the collator knows which number of slots they can share.
        """
        if self.has_images:  # images have no slots, and only the collator knows which belong to which sequence
            return False
        return not self.called.share_rows and self.called.try_call(self.unpacked_batch(self.pieces[0])) is not None

    @cached_property
    def has_images(self) -> bool:
        """Return True if the batch has placeholders of images, and a field of numbers that may be the images."""
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
            collated_alone = self._collated(piece)
            if collated_alone is None:
                return []
            single, slots = collated_alone
            in_the_pack = {name: self.batch[name].flatten()[piece.slots] for name in names}
            names = [name for name in names if has_slots(single.get(name), single["input_ids"])
                     and torch.equal(single[name].flatten()[slots], in_the_pack[name])]  # fmt: skip
        return names

    def _collated(self, piece: Piece) -> tuple[dict, np.ndarray] | None:
        """Return the batch that the collator makes of a piece's unit alone, and the slots of the piece there.

        None if the piece is not there in the same length.
        """
        batch = self.collate(self.of_units([self.unit_of[piece.sequence]]))
        slots_of_whole = [
            candidate.slots
            for candidate in found_in(batch, self.sequences)
            if candidate.sequence == piece.sequence and len(candidate.slots) == len(piece.slots)
        ]
        return (batch, slots_of_whole[0]) if slots_of_whole else None

    @cached_property
    def unpacked(self) -> list[Unpacked | None]:
        """Each piece alone: its bare tokens if the model takes them, else in a batch that the collator makes.

        None for a piece of which no such batch is made, or that the model refuses.
        """
        return [self._alone(piece) for piece in self.pieces]

    def _alone(self, piece: Piece) -> Unpacked | None:
        if self.takes_bare_tokens:
            batch, slots = self.unpacked_batch(piece), np.arange(len(piece.slots))
        else:
            collated_alone = self._collated(piece)
            if collated_alone is None:
                return None
            batch, slots = collated_alone
        call = self.called.try_call(batch)
        return None if call is None else Unpacked(batch, slots, call.outputs[slots])

    def differing(self, batch: dict | None = None) -> dict[int, float]:
        """Find the pieces whose outputs in a batch differ from what they are alone.

        Args:
            batch: this batch with other fields; None for this batch. All pieces differ if the model refuses it.

        Returns:
            The distances of outputs that are above `limit`, by the number of the piece.
        """
        call = self.call if batch is None else self.called.try_call(batch)
        distances = {
            number: np.inf if call is None else self.distance(call.outputs[piece.slots], unpacked.outputs).max().item()
            for number, (piece, unpacked) in enumerate(zip(self.pieces, self.unpacked, strict=True))
            if unpacked is not None
        }
        return {number: distance for number, distance in distances.items() if not distance <= self.limit}

    @cached_property
    def differing_elsewhere(self) -> dict[int, float]:
        """The pieces whose outputs in a later batch, of all sequences in reverse or of a part, differ from those here.

        By the number of the piece, the distance of outputs. {} where the collator changes tokens, as masking does.
        """
        distances = dict[int, float]()
        for rows in [] if self.changes_tokens else (self.sequences[::-1], *self.parts):
            of_batch = self.differing_in(self.collate(rows))
            distances |= {number: max(distance, distances.get(number, 0.0)) for number, distance in of_batch.items()}
        return distances

    def differing_in(self, batch: dict) -> dict[int, float]:
        """Find the pieces whose outputs in another batch of the same sequences differ from those in this one.

        Pieces that the other batch has not, or has cut otherwise, are left out. The distances are as in `differing`.
        """
        call = self.called.try_call(batch)
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
    def blamed(self) -> dict[str, Blame]:
        """The fields of the batch with which a sequence alone has other outputs, and the first such piece for each."""
        blamed = dict[str, Blame]()
        for number in range(len(self.pieces)) if self.takes_bare_tokens else self.differing():
            piece = self.pieces[number]
            if not self.takes_bare_tokens and self.unit_of.count(self.unit_of[piece.sequence]) > 1:
                continue
            for name in [name for name in self.batch if name not in ("input_ids", "labels", *blamed)]:
                part = self.part_of(self.batch[name], piece)
                distance = 0.0 if part is None else self.changed(number, {name: part})
                if not distance <= self.limit:  # also if it is NaN
                    blamed[name] = Blame(number, distance)
        return blamed

    def changed(self, number: int, fields: dict) -> float:
        """Compute how far the outputs of a piece alone move if it gets these fields of the batch.

        0 if the model does not take them.
        """
        unpacked = self.unpacked[number]
        if unpacked is None:
            return 0.0
        if not self.takes_bare_tokens:
            fields = {name: _with_part(unpacked.batch[name], unpacked.slots, part) for name, part in fields.items()
                      if has_slots(unpacked.batch.get(name), unpacked.batch["input_ids"])}  # fmt: skip
        call = self.called.try_call({**unpacked.batch, **fields}) if fields else None
        return 0.0 if call is None else self.distance(call.outputs[unpacked.slots], unpacked.outputs).max().item()

    @cached_property
    def first_position(self) -> int | None:
        """The first position that the model gives a sequence alone; None if it is not among 0 to 4."""
        if not self.takes_bare_tokens:
            return None
        ids = self.unpacked_batch(self.pieces[0])["input_ids"]
        whole_piece = [Piece(0, np.arange(ids.numel()), self.pieces[0].offsets)]
        for start in range(5):
            if self.changed(0, {POSITIONS: restarting(ids, whole_piece, start)}) <= self.limit:
                return start
        return None

    @cached_property
    def exchanged_field(self) -> str:
        """The name of a field with a value for each sequence, if a sequence gets the value of another one; else "".

        To see it, the value of one sequence is replaced: outputs of no other sequence should move.
        """
        for name, value in self.batch.items():
            is_per_sequence = isinstance(value, Tensor) and value.dim() > 0 and len(value) == len(self.pieces) > 1
            if not is_per_sequence or name == "input_ids" or has_slots(value, self.ids) or is_mask(value, self.ids):
                continue
            for number in range(len(value)):
                exchanged = value.clone()
                exchanged[number] = value[number - 1]
                call = self.called.try_call({**self.batch, name: exchanged})
                if call is None:
                    continue
                change = self.distance(call.outputs, self.call.outputs)
                other_pieces = [piece for index, piece in enumerate(self.pieces) if index != number]
                if any(change[piece.slots].max() > self.limit for piece in other_pieces):
                    return name
        return ""

    def dependence_within(self, number: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Measure how much the first and the last token of a piece depend on each of its tokens, by gradients.

        Returns:
            In the batch, and alone: each of shape (2, tokens), relative to the largest over all slots. None without
            gradients, or if the piece has no batch of its own that the model takes.
        """
        piece, unpacked = self.pieces[number], self.unpacked[number]
        unpacked_call = None if unpacked is None else self.called.try_call(unpacked.batch)
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
        later_pieces = set(range(len(self.pieces))) - set(self.first_pieces.tolist())
        only_later = bool(later_pieces) and not self.blamed and set(self.differing()) == later_pieces
        return only_later and not self.exchanged_field

    @property
    def first_pieces(self) -> np.ndarray:
        """The number of the first piece of each row that has pieces."""
        return np.unique(self.row_of, return_index=True)[1]


def _ends(rows: list[dict]) -> list[int]:
    """Return the tokens that at least two and at least half of the sequences begin with, or end in."""
    first_tokens, last_tokens = (Counter(int(row["input_ids"][place]) for row in rows) for place in (0, -1))
    minimum = max(2, len(rows) / 2)
    times_of_tokens = [*first_tokens.items(), *last_tokens.items()]
    return sorted({token for token, times in times_of_tokens if times >= minimum})


def _with_part(value: Tensor, slots: np.ndarray, part: Tensor) -> Tensor:
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
    """Return where the sequences are in a batch, by their tokens alone.

    A `Piece` for each run of tokens: the number of the sequence, the slots, and the places of these tokens in it. A
    sequence that is whole has one piece, one that is cut has several, and one that is lost has none.
    """
    return locate(batch["input_ids"].cpu().numpy(), [np.asarray(row["input_ids"]) for row in sequences])


def _refuse_reordered(ids: Tensor, pieces: Sequence[Piece], sequences: Sequence[dict]) -> None:
    """Raise a ValueError if the tokens of a sequence come in another order in the batch, as by fill-in-the-middle.

    Outputs of such a sequence would differ whether or not packing changes them.
    """
    reordered = _scattered(ids, pieces, sequences)
    for number in range(len(sequences)):
        starts = [(int(piece.slots[0]), int(piece.offsets[0])) for piece in pieces if piece.sequence == number]
        offsets = [offset for _, offset in sorted(starts)]  # of its pieces, in the order of their slots
        is_there_once = len(set(offsets)) == len(offsets)
        if is_there_once and offsets != sorted(offsets):
            reordered.append(number)
    if reordered:
        raise ValueError(
            f"collate puts the tokens of sequence {min(reordered)} in another order, as fill-in-the-middle does: "
            "reorder the sequences first, and give the check what they are then."
        )


def _scattered(ids: Tensor, pieces: Sequence[Piece], sequences: Sequence[dict]) -> list[int]:
    """Return the sequences that lack tokens in their pieces, if all of these tokens are outside of pieces.

    Outside of pieces there may also be padding, which is the most frequent token there, and up to four tokens a
    sequence that mark its parts. If there is more, the tokens there may be others: no sequence is returned.
    """
    contents = [np.asarray(row["input_ids"]) for row in sequences]
    flat = ids.cpu().numpy().ravel()
    is_outside = np.ones(len(flat), bool)  # by slot
    lacking = [np.ones(len(content), bool) for content in contents]  # by token of each sequence
    for piece in pieces:
        is_equal = flat[piece.slots] == contents[piece.sequence][piece.offsets]
        is_outside[piece.slots[is_equal]] = False
        lacking[piece.sequence][piece.offsets[is_equal]] = False
    lacked_tokens = Counter(
        np.concatenate([content[lacks] for content, lacks in zip(contents, lacking, strict=True)]).tolist()
    )
    tokens_outside = Counter(flat[is_outside].tolist())
    padding_count = max(tokens_outside.values(), default=0)
    marker_count = tokens_outside.total() - lacked_tokens.total() - padding_count
    all_are_outside = not lacked_tokens - tokens_outside
    # a single kind of token may be an end token that the collator takes off, and pads with
    if len(lacked_tokens) < 2 or not all_are_outside or marker_count > 4 * len(sequences):
        return []
    return [number for number, lacks in enumerate(lacking) if lacks.any()]
