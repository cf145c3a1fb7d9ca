"""What the loss of a batch asks of each slot, read off its gradients, so that no name of a label or a mean is believed.

The gradient of a log-probability with respect to a row of logits is c (softmax − 1 at the target), with any sign of c:
cross entropies, policy gradients and clipped ratios have that form, and smoothing or a z-loss add a (softmax) + b. Of a
loss without it, such as a distillation, it is still known which slots it depends on.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from packlib.batches import IGNORED
from packlib.tools.check.called_model import ModelCall, by_slot
from packlib.tools.check.collated_batch import CheckedBatch, found_in
from packlib.tools.check.locating import Piece, owners
from packlib.tools.rows.loss_masks import LOSS_MASKS, trained_in_row

SHIFTS = {0: "itself", 1: "the next token", 2: "the token after the next", -1: "the token before"}
_FAINT = 0.25  # of the largest slope of a row: below this the slot has no target, only an extra term of the loss
_AT_ONCE = 64  # rows of logits
_LONGEST = 1 << 32  # of a sequence


class Head(NamedTuple):
    """A head besides the scores: its target, and what that weighs, of each slot, as a `Loss` has them."""

    target: np.ndarray
    factor: np.ndarray


class Loss:
    """A loss of N slots.

    Attributes:
        pieces, owner: where the sequences are, and the number of the piece in each slot, below 0 on padding.
        key: shape (N,), which token of which sequence it is, the same in each batch; below 0 on padding.
        token, label: shape (N,), what the data say that it is, and -100 in labels where that is not to be predicted.
        value: the loss, or None.
        target: shape (N,), what each slot is to predict; -100 where that is nothing, or not known.
        factor: shape (N,), how much it weighs, the c above; 0 where it is not known.
        touched: shape (N,), whether the loss depends on its scores.
        predicted: shape (N,), whether it is asked for a target.
        certain: whether each gradient has the form above, so that all factors are known; `known`, all targets.
        pull: shape (N, width), the gradient with respect to the embeddings.
        steepest: the largest slope of a score.
        beside: the share of the loss, or of its gradient, that does not pass through the scores.
        further: further heads by their order, such as those that predict several tokens ahead, if each slope of theirs
            has the form above; those that have no target are left out.

    Args:
        seen: the call of the model, if there was one.
    """

    certain = known = False
    pull: Tensor | None = None
    beside = steepest = 0.0

    def __init__(
        self, checked: CheckedBatch, batch: dict, pieces: list[Piece] | None = None, seen: ModelCall | None = None
    ) -> None:
        self.checked, self.batch = checked, batch
        self.pieces = found_in(batch, checked.few) if pieces is None else pieces
        seen, slots = checked.called(batch) if seen is None else seen, batch["input_ids"].numel()
        self.owner = owners(batch["input_ids"], self.pieces).ravel()
        self.key, self.token, self.label = np.full(slots, -1), np.full(slots, IGNORED), np.full(slots, IGNORED)
        for piece in self.pieces:
            self.key[piece.slots] = piece.sequence * _LONGEST + piece.offsets
            self.token[piece.slots] = np.asarray(checked.few[piece.sequence]["input_ids"])[piece.offsets]
            self.label[piece.slots] = self._labels(piece)
        self.value = None if seen.loss is None else float(seen.loss.detach())
        self.target, self.factor = np.full(slots, IGNORED), np.zeros(slots)
        self.touched, self.predicted = np.zeros(slots, bool), np.zeros(slots, bool)
        self.further: dict[int, Head] = {}
        if seen.loss is None or not seen.loss.requires_grad:
            return
        self.pull = self._pull(seen, seen.loss, None)
        self.further = self._of_further_heads(seen)
        if found := seen.slope():
            scores, slope = (x.detach().flatten(0, -2) for x in found)
            self._read(checked.called.summed(slope), scores, seen.at.cpu().numpy())  # each rank has its part of it

    @cached_property
    def through(self) -> Tensor | None:
        """The part of `pull` that passes through the scores; None if there is none."""
        seen = self.checked.called(self.batch)
        found = seen.slope()
        return None if found is None else self._pull(seen, *found)

    @cached_property
    def aside(self) -> Tensor | None:
        """The part of `pull` that does not pass through the scores, as that of a loss which balances experts."""
        return None if self.pull is None or self.through is None else self.pull - self.through

    def _pull(self, seen: ModelCall, what: Tensor, slope: Tensor | None) -> Tensor | None:
        """Compute gradients, by slot, of a sum that `slope` weighs."""
        if not seen.embeddings:
            return None
        found = torch.autograd.grad(what, seen.embeddings, slope, retain_graph=True, allow_unused=True)
        if all(x is None for x in found):
            return None
        whole = (torch.zeros_like(e) if x is None else x for e, x in zip(seen.embeddings, found, strict=True))
        rows = [by_slot(x, self.batch["input_ids"]) for x in whole]
        kept = [self.checked.called.summed(row.detach().double().cpu()) for row in rows if row is not None]
        return torch.cat(kept, 1) if kept else None

    @cached_property
    def through_heads(self) -> Tensor | None:
        """The part of `pull` that passes through further heads; None if there is none."""
        seen = self.checked.called(self.batch)
        outputs = self._outputs_of_heads(seen)
        parts = []
        for number in self.further:
            (slope,) = torch.autograd.grad(seen.loss, outputs[number], retain_graph=True)  # type: ignore[arg-type]
            parts.append(self._pull(seen, outputs[number], slope))
        known = [part for part in parts if part is not None]
        return sum(known[1:], known[0]) if known else None

    def _of_further_heads(self, seen: ModelCall) -> dict[int, "Head"]:
        """Return what is asked of other outputs as wide as the scores, if each of their slopes has the form above."""
        heads = {}
        for number, output in self._outputs_of_heads(seen).items():
            scores = by_slot(output, self.batch["input_ids"])
            (found,) = torch.autograd.grad(seen.loss, output, retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
            slope = None if found is None else by_slot(found, self.batch["input_ids"])
            asked = None if slope is None else _asked(slope.detach(), scores.detach(), self._near)  # type: ignore[union-attr]
            if asked is not None and len(asked.rows) and asked.fits.all():
                head = Head(np.full(len(self.owner), IGNORED), np.zeros(len(self.owner)))
                head.target[asked.rows] = asked.target
                head.factor[asked.rows] = asked.factor
                heads[number] = head
        return heads

    def _outputs_of_heads(self, seen: ModelCall) -> dict[int, Tensor]:
        """Return the outputs as wide as the scores, by their order, without the scores themselves."""
        heads, width = list[Tensor](), seen.scores.shape[-1]
        for _, _, made in [] if self.checked.called.share_rows else seen.parts:
            scores = by_slot(made, self.batch["input_ids"])
            own = scores is not None and scores.shape[1] == width and made.requires_grad
            if own and not any(made is head for head in heads):
                heads.append(made)
        flat = seen.scores.flatten()
        are_scores = [head.numel() == flat.numel() and torch.equal(head.flatten(), flat) for head in heads]
        return {number: head for number, head in enumerate(heads) if not are_scores[number]}

    @property
    def _near(self) -> float:
        """Return how far, relative to its size, a slope may be from the form above."""
        return 0.1 if self.checked.rounding > 1e-4 else 1e-3

    def _read(self, slope: Tensor, scores: Tensor, at: np.ndarray) -> None:
        found = _asked(slope, scores, self._near)
        self.steepest = float(found.size.max(initial=0))
        if not len(found.rows):
            return
        slots = at[found.rows]
        self.touched[slots] = True
        self.certain = bool(found.fits.all())
        asked = np.ones(len(slots), bool)
        if self.certain:
            self.factor[slots] = found.factor
            asked = np.abs(found.factor) > _FAINT * found.size
            self.beside = abs(1 - float(found.factor @ found.entropy) / (self.value or np.inf))
        self.known = bool((found.fits | found.lone)[asked].all())
        self.predicted[slots[asked]] = True
        if self.known:
            self.target[slots[asked]] = found.target[asked]

    @property
    def concerned(self) -> np.ndarray:
        """Shape (N,), the slots that are asked, and the targets that they are asked for."""
        return self.predicted | np.roll(self.predicted, self.shift) if self.pieces else self.predicted

    @cached_property
    def given(self) -> bool:
        """Return True if the data say which tokens are to be predicted; else a collator may mean what it leaves out."""
        return any(name in row for row in self.checked.few for name in ("labels", *LOSS_MASKS))

    @property
    def factors(self) -> Tensor | None:
        """The factors by slot, shape (N, 1), if they are known."""
        return torch.from_numpy(self.factor)[:, None] if self.certain else None

    @property
    def carried(self) -> np.ndarray:
        """Shape (N,), whether the batch holds the label of each slot, at the slot or where the label stands."""
        given = self.batch.get("labels")
        if not isinstance(given, Tensor) or given.shape != self.batch["input_ids"].shape:
            return np.ones(len(self.owner), bool)
        held = given.flatten().cpu().numpy()
        return (held == self.wanted) | (np.roll(held, -self.shift) == self.wanted)

    def _labels(self, piece: Piece) -> np.ndarray:
        row, given = self.checked.few[piece.sequence], self.batch.get("labels")
        ids = np.asarray(row["input_ids"])
        labels = np.asarray(row.get("labels", ids))
        if "labels" in row and labels.shape == ids.shape:
            return labels[piece.offsets]
        trained = trained_in_row(row, len(ids))
        if trained is not None:
            return np.where(trained, ids, IGNORED)[piece.offsets]
        if not self.checked.causal and given is not None and given.shape == self.batch["input_ids"].shape:
            return given.flatten()[piece.slots].cpu().numpy()  # masked by the collator, whose labels are all there is
        return ids[piece.offsets]

    def ahead(self, values: np.ndarray, shift: int) -> np.ndarray:
        """Return the values so many slots after each one, shape (N,); -100 beyond its piece, and on padding."""
        to = np.arange(len(values)) + shift
        at = np.clip(to, 0, len(values) - 1)
        return np.where((to == at) & (self.owner >= 0) & (self.owner[at] == self.owner), values[at], IGNORED)

    @cached_property
    def shift(self) -> int:
        """Return the number of places from a token to its target, if most agree."""
        natural = int(self.checked.causal)
        if not self.known:  # where labels are, if the loss is asked at those slots
            asked = {shift: (self.ahead(self.label, shift) != IGNORED) for shift in (natural, 1 - natural)}
            return min(asked, key=lambda shift: ((asked[shift] != self.predicted) & (self.owner >= 0)).sum())
        said = np.where(self.label == IGNORED, self.token, self.label)
        hits = {shift: (self.ahead(said, shift) == self.target)[self.predicted].sum() for shift in SHIFTS}
        best = max(SHIFTS, key=lambda shift: (hits[shift], shift == natural))
        return best if hits[best] > self.predicted.sum() / 2 else natural

    @cached_property
    def wanted(self) -> np.ndarray:
        """Shape (N,), the label that each slot should have as its target; -100 for none."""
        wanted = self.ahead(self.label, self.shift)
        for piece in self.pieces if self.shift == 1 and self.checked.causal else []:
            end = len(self.checked.few[piece.sequence]["input_ids"]) - 1
            if piece.offsets[-1] == end - 1:  # the last token is a target alone
                wanted[piece.slots[-1]] = self._labels(Piece(piece.sequence, piece.slots[-1:], np.array([end])))[0]
        return wanted


def labeled(row: dict) -> bool:
    """Return True if a sequence has a token that is to be predicted, as far as its columns say."""
    if "labels" in row:
        return bool((np.asarray(row["labels"]) != IGNORED).any())
    trained = trained_in_row(row, len(row["input_ids"]))
    return trained is None or bool(trained.any())


class _Asked(NamedTuple):
    """The rows of scores that a loss depends on, the size of their slopes, and of each what `_form` says.

    `fits` says whether a slope has the form.
    """

    rows: np.ndarray
    size: np.ndarray
    target: np.ndarray
    lone: np.ndarray
    factor: np.ndarray
    fits: np.ndarray
    entropy: np.ndarray


def _asked(slope: Tensor, scores: Tensor, near: float) -> _Asked:
    """Read off what a loss with this gradient asks of rows of scores.

    Args:
        near: how far a slope may be from the form, relative to its size.
    """
    size = slope.abs().amax(1).double().cpu().numpy()
    rows = np.flatnonzero(size > 1e-7 * size.max(initial=0))
    kind = torch.promote_types(scores.dtype, torch.float32)
    some = np.array_split(rows, -(-len(rows) // _AT_ONCE)) if len(rows) else []
    parts = [_form(slope[part].to(kind), scores[part].to(kind)) for part in some]
    columns = [torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True)] or [np.empty(0)] * 5
    target, lone, factor, off, entropy = columns
    return _Asked(rows, size[rows], target, lone, factor, off <= near * size[rows], entropy)


def _form(slope: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
    """Fit rows to a p + b − c at the target: the target, if its sign is alone, c, what is left over, and −log p."""
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
    chosen = (slope != 0).sum(1) > 1  # a loss of one score alone is no choice among several
    off = torch.where(chosen, off, torch.inf)
    return target[:, 0], (below | above) & chosen, factor, off, -logarithm.gather(1, target)[:, 0]
