"""A model and a collator under question: what moves what each sequence gets in a batch, and why."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from packlib.check.called_model import EXACT, gradients, meeting
from packlib.check.causes import Cut, leak_causes
from packlib.check.collated_batch import CollatedBatch, in_one_sentence

_NO_MASK = "none", "run on", "ones", "mask", "attention"


class Influence(NamedTuple):
    """What pieces depend on; P pieces, N slots.

    Attributes:
        moves: shape (P, P), how far the outputs of each piece move with the tokens of each, relative to their size.
        slopes: shape (P, N), the gradients of each piece's outputs by slot, relative to the largest; None without any.
    """

    moves: np.ndarray
    slopes: np.ndarray | None


class Leak(NamedTuple):
    """How strong an influence is, by "gradient" or by "move", and the numbers of the piece that looks and is seen."""

    strength: float
    by: str
    looks: int
    sees: int


class Why(NamedTuple):
    """Names in causes.csv, where in the model, and the batch that is changed so that nothing leaks, if there is one."""

    causes: list[str]
    place: str
    cured: dict | None
    name: str = ""  # of the field of the batch that is to blame


class CheckedBatch(CollatedBatch):
    """What the questions ask: attributes as in `CollatedBatch`."""

    def moved(self, batch: dict, slots: np.ndarray) -> dict:
        """The batch with other tokens at these slots, of those that it holds."""
        pool = self.ids.flatten()[np.flatnonzero(self.owner >= 0)].unique()
        flat = batch["input_ids"].flatten().clone()
        flat[slots] = pool[(torch.searchsorted(pool, flat[slots]) + 1) % len(pool)]
        return {**batch, "input_ids": flat.view_as(batch["input_ids"])}

    def moves(self, batch: dict) -> Iterator[np.ndarray]:
        """How far the outputs of all pieces move with the tokens of one, relative to their size; piece by piece."""
        still = self.called(batch).outputs
        for piece in self.pieces:
            change = self.apart(self.called(self.moved(batch, piece.slots)).outputs, still)
            yield np.array([change[looks.slots].max().item() for looks in self.pieces])

    def slopes(self, batch: dict) -> np.ndarray | None:
        """The gradients of each piece's outputs by slot, relative to the largest, shape (P, N); None without any."""
        seen = self.called(batch)
        found = gradients(self.called, seen.outputs, seen.embeddings, self.ids, [piece.slots for piece in self.pieces])
        return None if found is None else (found / found.amax(1, keepdim=True)).numpy()

    def influence(self, batch: dict) -> Influence:
        """Of each piece on each, by changing its tokens and by gradients."""
        return Influence(np.stack(list(self.moves(batch)), 1), self.slopes(batch))

    @cached_property
    def own(self) -> Influence:
        """The influence in the batch as it is; of gradients the larger of evaluation and of training, if it trains."""
        moves, slopes = self.influence(self.batch)
        if slopes is not None and self.called.trains:
            wanted = "model must take torch.autograd.grad in training, so checkpoint with use_reentrant=False"
            with self.called.mode(train=True), in_one_sentence(wanted):
                slopes = np.maximum(slopes, self.slopes(self.batch))  # type: ignore[arg-type]
        return Influence(moves, slopes)

    @property
    def least(self) -> float:
        """The least move of outputs that is no rounding, where shapes are the same."""
        return max(10 * self.noise[0], (4 if self.rounding > 1e-4 else 16) * self.rounding)

    def leak(self, influence: Influence, where: str = "any") -> Leak | None:
        """The strongest influence of a piece on another, if there is one.

        Args:
            where: of "any" other piece, only of an "earlier" one of its row, only in "another row", or of the "later"
                ones and those in other rows.
        """
        order, same = np.arange(len(self.pieces)), self.rows[:, None] == self.rows
        earlier, others = same & (order < order[:, None]), order != order[:, None]
        allowed = {"any": others, "earlier": earlier, "later": others & ~earlier, "another row": ~same}[where]
        moves, slopes = influence
        by_piece = None if slopes is None else np.stack([slopes[:, piece.slots].max(1) for piece in self.pieces], 1)
        for by, values, limit in (("gradient", by_piece, EXACT), ("move", moves, self.least)):
            if values is not None and (values[allowed] > limit).any():
                looks, sees = divmod(int(np.where(allowed, values, -1).argmax()), len(order))
                return Leak(float(values[looks, sees]), by, looks, sees)
        return None

    @cached_property
    def leaks(self) -> bool:
        """Whether a piece depends on another one."""
        return self.leak(self.own) is not None

    @cached_property
    def why(self) -> Why:
        """Why pieces see others."""
        place, reach = meeting(self.called, self.batch, [piece.slots for piece in self.pieces], self.owner)
        limit = max(10 * self.noise[0], 2e-6)  # what is cut moves nothing, not even by rounding

        def leaks(batch: dict, cut: Cut | None = None) -> bool:
            if cut is None:
                return self.called.runs(batch) is None or self.leak(self.influence(batch)) is not None
            with sdpa_kernel(SDPBackend.MATH), cut:
                return any((np.delete(moves, at) > limit).any() for at, moves in enumerate(self.moves(batch)))

        slopes = self.slopes(self.batch)  # of evaluation alone
        by_gradient = self.leak(Influence(np.zeros_like(self.own.moves), slopes))
        by_move = self.leak(Influence(self.own.moves, None))
        if by_gradient and by_gradient.strength > 1e3 * self.least and not by_move:
            return Why(["backward"], place, None)
        if self.leak(self.own, "another row"):
            return Why(["rows"], place, None)
        if not leaks(self.batch):
            with self.called.mode(train=True):
                stops = leaks(self.batch) and not leaks(self.batch, Cut(self.owner, attention=True, convolution=True))
            return Why(["training" if stops else "rows"], place, None)
        causes, cured = leak_causes(self.batch, self.pieces, self.causal, self.seen.outputs.dtype, leaks, reach)
        if self.called.share_rows and causes == [
            "state"
        ]:  # which may be an attention: no rank has all of it to be cut
            return Why(["shared rows"], place, None)
        both = causes == ["state"] and self.leak(self.own, "later")
        if causes == ["attention"] and self._partly:
            causes = ["some"]
        hooks = [hook for part in self.called.module.modules() for hook in part._forward_pre_hooks.values()]
        again, _, name = causes[0].partition(":")
        if name:
            return Why([again, *causes[1:]], place, cured, name)
        if causes[0] in _NO_MASK and any("context_parallel" in getattr(hook, "__qualname__", "") for hook in hooks):
            causes[0] = "context parallel"
        return Why([*causes, *(["rows"] if both else [])], place, cured)

    @property
    def _partly(self) -> bool:
        """Whether some pieces of a row are kept apart, and others are not."""
        moves, order = self.own.moves, np.arange(len(self.pieces))
        before = (self.rows[:, None] == self.rows) & (order < order[:, None])
        return bool((moves[before] > self.least).any() and (moves[before] <= self.least).any())

    @cached_property
    def causal(self) -> bool:
        """Whether the first token of the longest sequence, alone, does not depend on the last one."""
        piece = max(self.pieces, key=lambda piece: len(piece.slots))
        batch = self.alone_batch(piece) if self.bare else self.batch
        first, last = (0, len(piece.slots) - 1) if self.bare else piece.slots[[0, -1]]
        seen, ids = self.called(batch), batch["input_ids"]
        depends = gradients(self.called, seen.outputs, seen.embeddings, ids, [np.array([first])])
        if depends is not None:
            return not depends[0, last] > EXACT * depends.max()
        other = self.called(self.moved(batch, np.array([last])))
        return not self.apart(other.outputs, seen.outputs)[first] > self.least
