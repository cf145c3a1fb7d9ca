"""What the loss of a batch asks of each slot, read off its gradients, so that no name of a label or a mean is believed.

The gradient of a log-probability with respect to a row of logits is c (softmax − 1 at the target), with any sign of c:
cross entropies, policy gradients and clipped ratios have that form, and smoothing or a z-loss add a (softmax) + b. Of a
loss without it, such as a distillation, it is still known which slots it depends on.
"""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from packlib.check.called_model import ModelCall, by_slot
from packlib.check.checked_batch import CheckedBatch
from packlib.check.collated_batch import found_in
from packlib.check.locating import Piece

IGNORED = -100  # as in packlib.batches
SHIFTS = {0: "itself", 1: "the next token", 2: "the token after the next", -1: "the token before"}
_MASKS = "assistant_masks", "completion_mask", "loss_mask"  # columns that are 0 where nothing is to be predicted
_FAINT = 0.25  # of the largest slope of a row: with less, a loss has no target there, but something besides
_AT_ONCE = 64  # rows of logits


class Loss:
    """A loss of N slots.

    Attributes:
        value: the loss, or None.
        target: shape (N,), what each slot is to predict; -100 where that is nothing, or not known.
        factor: shape (N,), how much it weighs, the c above; 0 where it is not known.
        touched: shape (N,), whether the loss depends on its scores.
        predicted: shape (N,), whether it is asked for a target.
        certain: whether each gradient has the form above, so that all factors are known; `known`, all targets.
        pull: shape (N, width), the gradient with respect to the embeddings.
        beside: the share of the loss, or of its gradient, that does not pass through the scores.
    """

    certain = known = False
    pull: Tensor | None = None
    beside = 0.0

    def __init__(self, checked: CheckedBatch, batch: dict, pieces: list[Piece] | None = None) -> None:
        self.checked, self.batch = checked, batch
        self.pieces = found_in(batch, checked.few) if pieces is None else pieces
        seen, slots = checked.called(batch), batch["input_ids"].numel()
        self.value = None if seen.loss is None else float(seen.loss.detach())
        self.target, self.factor = np.full(slots, IGNORED), np.zeros(slots)
        self.touched, self.predicted = np.zeros(slots, bool), np.zeros(slots, bool)
        if seen.loss is None or not seen.loss.requires_grad:
            return
        self.pull = self._pull(seen, seen.loss, None)
        if found := seen.slope():
            scores, slope = (x.detach().flatten(0, -2) for x in found)
            self._read(slope, scores, seen.at.cpu().numpy())

    @cached_property
    def through(self) -> Tensor | None:
        """The part of `pull` that passes through the scores; None if there is none."""
        seen = self.checked.called(self.batch)
        found = seen.slope()
        return None if found is None else self._pull(seen, *found)

    def _pull(self, seen: ModelCall, what: Tensor, slope: Tensor | None) -> Tensor | None:
        """Gradients of a sum that `slope` weighs, by slot."""
        if not seen.embeddings:
            return None
        found = torch.autograd.grad(what, seen.embeddings, slope, retain_graph=True, allow_unused=True)
        rows = [None if x is None else by_slot(x, self.batch["input_ids"]) for x in found]
        kept = [self.checked.called.summed(row.detach().double().cpu()) for row in rows if row is not None]
        return torch.cat(kept, 1) if kept else None

    def _read(self, slope: Tensor, scores: Tensor, at: np.ndarray) -> None:
        size = slope.abs().amax(1).double().cpu().numpy()
        kind = torch.promote_types(scores.dtype, torch.float32)
        rows = np.flatnonzero(size > 1e-7 * size.max(initial=0))
        if not len(rows):
            return
        parts = [_form(slope[part].to(kind), scores[part].to(kind)) for part in np.array_split(
            rows, -(-len(rows) // _AT_ONCE))]  # fmt: skip
        target, lone, factor, off, entropy = (torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True))
        near = 0.1 if self.checked.rounding > 1e-4 else 1e-3
        fits = off <= near * size[rows]
        self.touched[at[rows]] = True
        self.certain = bool(fits.all())
        asked = np.ones(len(rows), bool)
        if self.certain:
            self.factor[at[rows]] = factor
            asked = np.abs(factor) > _FAINT * size[rows]
            self.beside = abs(1 - float(factor @ entropy) / (self.value or np.inf))
        self.known = bool((fits | lone)[asked].all())
        self.predicted[at[rows[asked]]] = True
        if self.known:
            self.target[at[rows[asked]]] = target[asked]

    @property
    def besides(self) -> str:
        """How much of the loss does not pass through the scores."""
        if self.certain and self.value:
            return f"{self.beside:.2g} of the loss is of no token, does not pass through the scores,"
        return "a part of the loss does not pass through the scores"

    @property
    def concerned(self) -> np.ndarray:
        """Shape (N,), the slots that are asked, and the targets that they are asked for."""
        return self.predicted | np.roll(self.predicted, self.shift) if self.pieces else self.predicted

    @cached_property
    def asked(self) -> set[tuple[int, int]]:
        """The sequence and the place in it of each slot that is asked for a target."""
        return {(p.sequence, place) for p in self.pieces for place in p.places[self.predicted[p.slots]].tolist()}

    @cached_property
    def given(self) -> bool:
        """Whether the data say which tokens are to be predicted; else what a collator leaves out may be meant."""
        return any(name in row for row in self.checked.few for name in ("labels", *_MASKS))

    @property
    def factors(self) -> Tensor | None:
        """The factors by slot, shape (N, 1), if they are known."""
        return torch.from_numpy(self.factor)[:, None] if self.certain else None

    def carried(self, piece: Piece) -> np.ndarray:
        """Whether the batch holds the label of each slot of a piece, at the slot or where the label stands."""
        given = self.batch.get("labels")
        if not isinstance(given, Tensor) or given.shape != self.batch["input_ids"].shape:
            return np.ones(len(piece.slots), bool)
        held = given.flatten().cpu().numpy()
        after = np.minimum(piece.slots + self.shift, len(held) - 1)
        return (held[piece.slots] == self.wanted(piece)) | (held[after] == self.wanted(piece))

    def labels(self, piece: Piece) -> np.ndarray:
        """What the data say that each token of a whole sequence is; -100 where it is not to be predicted."""
        row = self.checked.few[piece.sequence]
        ids = np.asarray(row["input_ids"])
        labels, given = np.asarray(row.get("labels", ids)), self.batch.get("labels")
        if "labels" in row and labels.shape == ids.shape:
            return labels
        mask = next((np.asarray(row[name]) for name in _MASKS if name in row), ids[:0])
        if mask.shape == ids.shape:
            return np.where(mask > 0, ids, IGNORED)
        if not self.checked.causal and given is not None and given.shape == self.batch["input_ids"].shape:
            labels = np.full(len(ids), IGNORED)  # masked by the collator, whose labels are all there is
            labels[piece.places] = given.flatten()[piece.slots].cpu().numpy()
            return labels
        return ids

    @cached_property
    def hits(self) -> dict[int, int]:
        """For each shift, how many slots are asked for the token so many places after their own."""
        return {shift: sum(self._hits(piece, shift) for piece in self.pieces) for shift in SHIFTS}

    @cached_property
    def shift(self) -> int:
        """How many places after a token its target is, if most agree."""
        natural = int(self.checked.causal)
        if not self.known:  # where labels are, if the loss is asked at those slots
            return min((natural, 1 - natural), key=self._misses)
        best = max(SHIFTS, key=lambda shift: (self.hits[shift], shift == natural))
        return best if self.hits[best] > self.predicted.sum() / 2 else natural

    def _misses(self, shift: int) -> int:
        return sum(int(((self.wanted(p, shift) != IGNORED) != self.predicted[p.slots]).sum()) for p in self.pieces)

    def _hits(self, piece: Piece, shift: int) -> int:
        labels = self.labels(piece)
        known = np.where(labels == IGNORED, np.asarray(self.checked.few[piece.sequence]["input_ids"]), labels)
        at = piece.places + shift
        inside = (at >= 0) & (at < len(known)) & self.predicted[piece.slots]
        return int((known[at[inside]] == self.target[piece.slots[inside]]).sum())

    def wanted(self, piece: Piece, shift: int | None = None) -> np.ndarray:
        """The label that each slot of a piece should have as its target; -100 for none."""
        at = piece.places + (self.shift if shift is None else shift)
        inside = (at >= piece.places[0]) & (at <= piece.places[-1])
        return np.where(inside, self.labels(piece)[np.where(inside, at, 0)], IGNORED)


def _form(slope: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
    """Of rows a p + b − c at the target: the target, whether its sign is alone, c, what is left over, and −log p."""
    logarithm = scores.log_softmax(1)
    p, least, most = logarithm.exp(), slope.argmin(1), slope.argmax(1)
    below, above = (slope < 0).sum(1) == 1, (slope > 0).sum(1) == 1
    target = torch.where(below, least, torch.where(above, most, slope.abs().argmax(1)))[:, None]
    others = torch.ones_like(slope).scatter_(1, target, 0)
    count = others.sum(1, keepdim=True)
    mean_p, mean = ((x * others).sum(1, keepdim=True) / count for x in (p, slope))
    steep = ((p - mean_p) * slope * others).sum(1, keepdim=True)
    a = steep / ((p - mean_p).square() * others).sum(1, keepdim=True).clamp(min=1e-30)
    line = mean + a * (p - mean_p)
    factor = (line - slope).gather(1, target)[:, 0]
    off = ((slope - line) * others).abs().amax(1)
    return target[:, 0], below | above, factor, off, -logarithm.gather(1, target)[:, 0]
