"""What target the loss of a batch asks each slot for, read off its gradients: no name of a label is believed.

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
from packlib.tools.check.locating import Piece, has_slots, owners
from packlib.tools.rows.loss_masks import LOSS_MASKS, trained_in_row

SHIFTS = {0: "itself", 1: "the next token", 2: "the token after the next", -1: "the token before"}
_FAINT = 0.25  # of the largest slope of a row: below this the slot has no target, only an extra term of the loss
_AT_ONCE = 64  # rows of logits that are fitted at once, to save memory
_LONGEST = 1 << 32  # tokens; a key is the number of the sequence times this, plus the place of the token


class Head(NamedTuple):
    """The `target` and the `factor` of each slot, as a `Loss` has them, for a head besides the scores."""

    target: np.ndarray
    factor: np.ndarray


class Loss:
    """The loss of a batch of N slots, and what it asks of each slot.

    Attributes of each slot, of shape (N,):
        owner: the number of the piece; below 0 on padding.
        key: which token of which sequence it is, the same number in each batch; below 0 on padding.
        token: the token that the data have there; -100 on padding.
        label: the same token, or -100 where the data say that it is not to be predicted.
        target: the token that the slot must predict; -100 if there is none, or if it is not known.
        factor: how much the slot weighs, the c above; 0 where it is not known.
        touched: whether the loss depends on the scores of the slot.
        predicted: whether the slot must predict a token.

    Attributes:
        pieces: where the sequences are.
        value: the loss, or None.
        certain: whether each gradient has the form above, so that all factors are known.
        known: whether all targets are known.
        pull: shape (N, width), the gradient with respect to the embeddings; None without one.
        steepest: the largest slope of a score.
        beside: the share of the loss that does not pass through the scores; 0 unless `certain`.
        further: by their order, heads besides the scores whose slopes all have the form above, such as those that
            predict several tokens ahead.

    Args:
        pieces: where the sequences are, if that is known.
        call: of the model with this batch, if there was one.
    """

    certain = known = False
    pull: Tensor | None = None
    beside = steepest = 0.0

    def __init__(
        self, checked: CheckedBatch, batch: dict, pieces: list[Piece] | None = None, call: ModelCall | None = None
    ) -> None:
        self.checked, self.batch = checked, batch
        self.pieces = found_in(batch, checked.sequences) if pieces is None else pieces
        call = checked.called(batch) if call is None else call
        slots = batch["input_ids"].numel()
        self.owner = owners(batch["input_ids"], self.pieces).ravel()
        self.key = np.full(slots, -1)
        self.token = np.full(slots, IGNORED)
        self.label = np.full(slots, IGNORED)
        for piece in self.pieces:
            self.key[piece.slots] = piece.sequence * _LONGEST + piece.offsets
            self.token[piece.slots] = np.asarray(checked.sequences[piece.sequence]["input_ids"])[piece.offsets]
            self.label[piece.slots] = self._labels(piece)
        self.value = None if call.loss is None else float(call.loss.detach())
        self.target = np.full(slots, IGNORED)
        self.factor = np.zeros(slots)
        self.touched = np.zeros(slots, bool)
        self.predicted = np.zeros(slots, bool)
        self.further: dict[int, Head] = {}
        if call.loss is None or not call.loss.requires_grad:
            return
        self.pull = self._pull(call, call.loss, None)
        self.further = self._of_further_heads(call)
        if slope_of_scores := call.slope():
            scores, slope = (x.detach().flatten(0, -2) for x in slope_of_scores)
            slope = checked.called.summed(slope)  # each rank has its part of it
            self._read(slope, scores, call.score_slots.cpu().numpy())

    @cached_property
    def through(self) -> Tensor | None:
        """The part of `pull` that passes through the scores; None if there is none."""
        call = self.checked.called(self.batch)
        slope_of_scores = call.slope()
        return None if slope_of_scores is None else self._pull(call, *slope_of_scores)

    @cached_property
    def aside(self) -> Tensor | None:
        """The part of `pull` that does not pass through the scores, as that of a loss which balances experts."""
        return None if self.pull is None or self.through is None else self.pull - self.through

    def _pull(self, call: ModelCall, output: Tensor, slope: Tensor | None) -> Tensor | None:
        """Compute the gradient with respect to the embeddings; None if it reaches none of them.

        Args:
            output: what is differentiated: the loss, or scores.
            slope: the weights of the scores in the sum that is differentiated; None for the loss.

        Returns:
            Shape (N, width), of all embeddings next to each other.
        """
        if not call.embeddings:
            return None
        gradients = torch.autograd.grad(output, call.embeddings, slope, retain_graph=True, allow_unused=True)
        if all(x is None for x in gradients):
            return None
        of_embeddings = (
            torch.zeros_like(e) if x is None else x for e, x in zip(call.embeddings, gradients, strict=True)
        )
        rows = [by_slot(x, self.batch["input_ids"]) for x in of_embeddings]
        summed_rows = [self.checked.called.summed(row.detach().double().cpu()) for row in rows if row is not None]
        return torch.cat(summed_rows, 1) if summed_rows else None

    @cached_property
    def through_heads(self) -> Tensor | None:
        """The part of `pull` that passes through further heads; None if there is none."""
        call = self.checked.called(self.batch)
        outputs = self._outputs_of_heads(call)
        parts = []
        for number in self.further:
            (slope,) = torch.autograd.grad(call.loss, outputs[number], retain_graph=True)  # type: ignore[arg-type]
            parts.append(self._pull(call, outputs[number], slope))
        of_heads = [part for part in parts if part is not None]
        return sum(of_heads[1:], of_heads[0]) if of_heads else None

    def _of_further_heads(self, call: ModelCall) -> dict[int, "Head"]:
        """Return the heads, by their order, that have targets and whose slopes all have the form above."""
        heads = {}
        for number, output in self._outputs_of_heads(call).items():
            scores = by_slot(output, self.batch["input_ids"])
            (gradient,) = torch.autograd.grad(call.loss, output, retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
            slope = None if gradient is None else by_slot(gradient, self.batch["input_ids"])
            reading = None if slope is None else _read_slopes(slope.detach(), scores.detach(), self._tolerance)  # type: ignore[union-attr]
            if reading is not None and len(reading.rows) and reading.fits.all():
                head = Head(np.full(len(self.owner), IGNORED), np.zeros(len(self.owner)))
                head.target[reading.rows] = reading.target
                head.factor[reading.rows] = reading.factor
                heads[number] = head
        return heads

    def _outputs_of_heads(self, call: ModelCall) -> dict[int, Tensor]:
        """Return the outputs as wide as the scores, by their order, without the scores themselves."""
        heads = list[Tensor]()
        width = call.scores.shape[-1]
        for _, _, output in [] if self.checked.called.share_rows else call.parts:
            scores = by_slot(output, self.batch["input_ids"])
            is_head = scores is not None and scores.shape[1] == width and output.requires_grad
            if is_head and not any(output is head for head in heads):
                heads.append(output)
        flat = call.scores.flatten()
        are_scores = [head.numel() == flat.numel() and torch.equal(head.flatten(), flat) for head in heads]
        return {number: head for number, head in enumerate(heads) if not are_scores[number]}

    @property
    def _tolerance(self) -> float:
        """Return how far, relative to its size, a slope may be from the form above."""
        return 0.1 if self.checked.rounding > 1e-4 else 1e-3

    def _read(self, slope: Tensor, scores: Tensor, score_slots: np.ndarray) -> None:
        """Set what the gradient with respect to the scores shows: `touched`, `certain`, `target` and the like.

        Args:
            slope, scores: shape (M, vocabulary).
            score_slots: the slot of each row, shape (M,).
        """
        reading = _read_slopes(slope, scores, self._tolerance)
        self.steepest = float(reading.size.max(initial=0))
        if not len(reading.rows):
            return
        slots = score_slots[reading.rows]
        self.touched[slots] = True
        self.certain = bool(reading.fits.all())
        has_target = np.ones(len(slots), bool)  # of these slots
        if self.certain:
            self.factor[slots] = reading.factor
            has_target = np.abs(reading.factor) > _FAINT * reading.size
            through_scores = float(reading.factor @ reading.entropy)  # the sum of weighted cross entropies
            self.beside = abs(1 - through_scores / (self.value or np.inf))
        self.known = bool((reading.fits | reading.lone)[has_target].all())
        self.predicted[slots[has_target]] = True
        if self.known:
            self.target[slots[has_target]] = reading.target[has_target]

    @property
    def concerned(self) -> np.ndarray:
        """Mark the slots that must predict a token, and the slots of these tokens; shape (N,)."""
        return self.predicted | np.roll(self.predicted, self.shift) if self.pieces else self.predicted

    @cached_property
    def data_has_labels(self) -> bool:
        """Return True if the data say which tokens are to be predicted; else a collator may mean what it leaves out."""
        return any(name in row for row in self.checked.sequences for name in ("labels", *LOSS_MASKS))

    @property
    def factors(self) -> Tensor | None:
        """The factors by slot as a tensor, shape (N, 1); None if they are not known."""
        return torch.from_numpy(self.factor)[:, None] if self.certain else None

    @cached_property
    def _batch_labels(self) -> np.ndarray | None:
        """The labels that the batch has for each slot, shape (N,); None if it has none."""
        labels = self.batch.get("labels")
        return labels.flatten().cpu().numpy() if has_slots(labels, self.batch["input_ids"]) else None  # type: ignore[union-attr]

    @property
    def _labels_are_ahead(self) -> bool:
        """Whether labels of the batch are the next tokens, and not those at their slots; True if it has no labels."""
        labels = self._batch_labels
        if labels is None:
            return True
        is_label = labels != IGNORED
        ahead = np.count_nonzero(is_label & (labels == self.ahead(self.token, 1)))
        return bool(ahead > np.count_nonzero(is_label & (labels == self.token)))

    @property
    def carried(self) -> np.ndarray:
        """Shape (N,), whether the batch holds the label of each slot, at the slot or where the label stands."""
        labels = self._batch_labels
        if labels is None:
            return np.ones(len(self.owner), bool)
        return (labels == self.expected_target) | (np.roll(labels, -self.shift) == self.expected_target)

    def _labels(self, piece: Piece) -> np.ndarray:
        """Return the labels that the data have for the tokens of a piece, -100 where there is none; shape (tokens,)."""
        row = self.checked.sequences[piece.sequence]
        ids = np.asarray(row["input_ids"])
        labels = np.asarray(row.get("labels", ids))
        if "labels" in row and labels.shape == ids.shape:
            return labels[piece.offsets]
        trained = trained_in_row(row, len(ids))
        if trained is not None:
            return np.where(trained, ids, IGNORED)[piece.offsets]
        if not self.checked.causal and self._batch_labels is not None:
            return self._batch_labels[piece.slots]  # masked by the collator, whose labels are all there is
        return ids[piece.offsets]

    def ahead(self, values: np.ndarray, shift: int) -> np.ndarray:
        """Return for each slot the value `shift` slots after it, shape (N,); -100 beyond its piece, and on padding.

        For two pieces with the values 5 6 7 and 8 9, one ahead is 6 7 -100 and 9 -100.
        """
        to = np.arange(len(values)) + shift
        clipped = np.clip(to, 0, len(values) - 1)
        is_in_piece = (to == clipped) & (self.owner >= 0) & (self.owner[clipped] == self.owner)
        return np.where(is_in_piece, values[clipped], IGNORED)

    @cached_property
    def shift(self) -> int:
        """Return by how many slots the target of a slot is ahead: the shift that fits most slots.

        If targets are not known, it is the one of 0 and 1 by which slots with a label are most nearly those that must
        predict. If no shift fits half of the slots, it is 1 for a causal model, else 0.
        """
        natural = int(self.checked.causal)
        if not self.known:
            has_label = {shift: (self.ahead(self.label, shift) != IGNORED) for shift in (natural, 1 - natural)}
            return min(has_label, key=lambda shift: ((has_label[shift] != self.predicted) & (self.owner >= 0)).sum())
        tokens = np.where(self.label == IGNORED, self.token, self.label)
        hits = {shift: (self.ahead(tokens, shift) == self.target)[self.predicted].sum() for shift in SHIFTS}
        best = max(SHIFTS, key=lambda shift: (hits[shift], shift == natural))
        return best if hits[best] > self.predicted.sum() / 2 else natural

    @cached_property
    def expected_target(self) -> np.ndarray:
        """Shape (N,), the label that each slot should predict; -100 for none.

        A batch whose labels are the next tokens may hold all tokens of a sequence but the last, which is a label alone.
        """
        targets = self.ahead(self.label, self.shift)
        last_may_be_a_label_alone = self.shift == 1 and self.checked.causal and self._labels_are_ahead
        for piece in self.pieces if last_may_be_a_label_alone else []:
            end = len(self.checked.sequences[piece.sequence]["input_ids"]) - 1
            if piece.offsets[-1] == end - 1:
                targets[piece.slots[-1]] = self._labels(Piece(piece.sequence, piece.slots[-1:], np.array([end])))[0]
        return targets


def labeled(row: dict) -> bool:
    """Return True if a sequence has a token that is to be predicted, as far as its columns say."""
    if "labels" in row:
        return bool((np.asarray(row["labels"]) != IGNORED).any())
    trained = trained_in_row(row, len(row["input_ids"]))
    return trained is None or bool(trained.any())


class _SlopeReading(NamedTuple):
    """What a loss asks of some rows of scores, read off its gradient with respect to them.

    Attributes:
        rows: the rows that the loss depends on; the other arrays have a value for each of these.
        size: the largest slope of the row.
        target: the score that the row is to predict.
        lone: whether the slope of the target has another sign than all others.
        factor: the c of the form above.
        fits: whether the slope has that form.
        entropy: −log p of the target.
    """

    rows: np.ndarray
    size: np.ndarray
    target: np.ndarray
    lone: np.ndarray
    factor: np.ndarray
    fits: np.ndarray
    entropy: np.ndarray


def _read_slopes(slope: Tensor, scores: Tensor, tolerance: float) -> _SlopeReading:
    """Read off what a loss with this gradient asks of rows of scores.

    Args:
        tolerance: how far a slope may be from the form, relative to its size.
    """
    size = slope.abs().amax(1).double().cpu().numpy()
    rows = np.flatnonzero(size > 1e-7 * size.max(initial=0))
    kind = torch.promote_types(scores.dtype, torch.float32)
    chunks = np.array_split(rows, -(-len(rows) // _AT_ONCE)) if len(rows) else []
    of_chunks = [_form(slope[chunk].to(kind), scores[chunk].to(kind)) for chunk in chunks]
    columns = [torch.cat(column).cpu().numpy() for column in zip(*of_chunks, strict=True)] or [np.empty(0)] * 5
    target, lone, factor, deviation, entropy = columns
    return _SlopeReading(rows, size[rows], target, lone, factor, deviation <= tolerance * size[rows], entropy)


def _form(slope: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
    """Fit each row of slopes to a p + b − c at the target; p is the softmax of the scores.

    c is how far the slope of the target is below the line a p + b through the slopes of the other scores.

    >>> import torch
    >>> from packlib.tools.check.slot_gradients import _form
    >>> scores = torch.tensor([[0.5, 0.25, 0.25]]).log().requires_grad_()
    >>> loss = 0.5 * torch.nn.functional.cross_entropy(scores, target=torch.tensor([1]))
    >>> (slope,) = torch.autograd.grad(loss, scores)
    >>> slope  # half of the softmax, less 0.5 at the target
    tensor([[ 0.2500, -0.3750,  0.1250]])
    >>> target, is_lone, factor, deviation, entropy = _form(slope, scores.detach())
    >>> target, is_lone, factor, deviation < 1e-6
    (tensor([1]), tensor([True]), tensor([0.5000]), tensor([True]))

    Args:
        slope, scores: shape (rows, vocabulary).

    Returns:
        Five of shape (rows,): the target, whether its sign is alone, c, the largest distance of another score's slope
        from the line, and −log p of the target.
    """
    log_p = scores.log_softmax(1)
    target, has_sign_of_its_own = _targets(slope)
    is_other = torch.ones_like(slope).scatter_(1, target, 0)
    line = _line_through(log_p.exp(), slope, is_other)
    factor = (line - slope).gather(1, target)[:, 0]
    deviation_of_others = ((slope - line) * is_other).abs().amax(1)
    entropy = -log_p.gather(1, target)[:, 0]

    is_choice = (slope != 0).sum(1) > 1  # a loss of one score alone is no choice among several
    deviation = torch.where(is_choice, deviation_of_others, torch.inf)
    return target[:, 0], has_sign_of_its_own & is_choice, factor, deviation, entropy


def _targets(slope: Tensor) -> tuple[Tensor, Tensor]:
    """Find the target of each row: the score whose slope has another sign than all others, or else the steepest one.

    Args:
        slope: shape (rows, vocabulary).

    Returns:
        The targets, shape (rows, 1); and whether the slope of each has another sign than all others, shape (rows,).
    """
    one_below = (slope < 0).sum(1) == 1  # a single slope is negative
    one_above = (slope > 0).sum(1) == 1
    target = slope.abs().argmax(1)
    target = torch.where(one_above, slope.argmax(1), target)
    target = torch.where(one_below, slope.argmin(1), target)
    return target[:, None], one_below | one_above


def _line_through(x: Tensor, y: Tensor, is_used: Tensor) -> Tensor:
    """Draw the line through some points of each row that is nearest to them, by least squares.

    Args:
        x, y: the points; shape (rows, points).
        is_used: 1 for the points that the line is drawn through, 0 for all others; same shape.

    Returns:
        The y of the line at each x, those of all other points included; same shape.
    """
    count = is_used.sum(1, keepdim=True)
    mean_x = (x * is_used).sum(1, keepdim=True) / count
    mean_y = (y * is_used).sum(1, keepdim=True) / count
    x_from_mean = x - mean_x
    covariance = (x_from_mean * y * is_used).sum(1, keepdim=True)  # times count, as the variance is
    variance = (x_from_mean.square() * is_used).sum(1, keepdim=True)
    rise = covariance / variance.clamp(min=1e-30)
    return mean_y + rise * x_from_mean
