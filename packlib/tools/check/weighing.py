"""What each sequence weighs in a loss, alone, in a batch, and in other batches: its company must not matter.

Nothing is assumed of the loss. The gradient of a sequence's tokens in a batch is compared with that in a batch of its
own: their ratio is what the sequence weighs there. A mean over tokens, sequences or groups, and a sum, each give these
weights by a rule, and so do the usual faults. If no rule fits all batches, or if a gradient changes in more than its
size, what a sequence weighs depends on its company, the others of its batch.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from packlib.batches import IGNORED
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.locating import Piece
from packlib.tools.check.slot_gradients import Loss

REDUCTIONS = "token", "sequence", "group", "constant"


def amounts(
    loss: Loss, by_labels: bool, unit: int | None = None, has_target: np.ndarray | None = None
) -> dict[str, int]:
    """Count everything in a batch that a loss may be divided by.

    Args:
        by_labels: whether the tokens count that have a label in the data, and not those that the loss predicts: a
            clipped token has a label and no gradient.
        unit: the sequence or group whose row is counted.
        has_target: the slots that count, as for a further head; then `by_labels` has no effect. Shape (N,).

    Returns:
        How many "tokens" are predicted, and of how many "sequences" and "groups"; the "length" (slots of sequences),
        the "rows" and the "slots" of the batch; and how many predicted tokens are "in the row" of the unit. Each count
        of predictions is at least 1.
    """
    width, unit_of = loss.batch["input_ids"].shape[-1], loss.checked.unit_of
    if has_target is None:
        has_target = loss.expected_target != IGNORED if by_labels else loss.predicted
    sequences = {piece.sequence for piece in loss.pieces if has_target[piece.slots].any()}
    in_row = (has_target & (loss.owner >= 0)).reshape(-1, width).sum(1)
    row = next((piece.slots[0] // width for piece in loss.pieces if unit_of[piece.sequence] == unit), 0)
    return {
        "tokens": max(1, int(has_target.sum())),
        "sequences": max(1, len(sequences)),
        "groups": max(1, len({unit_of[number] for number in sequences})),
        "length": int((loss.owner >= 0).sum()),
        "rows": len(has_target) // width,
        "slots": len(has_target),
        "in the row": max(1, int(in_row[row])),
    }


_OF_TWO = 0.01  # how far gradients may be from two parts at most: in half precision more would fit anything
Rule = Callable[[dict[str, int]], float]  # from `amounts` of a batch to what a token, or a sequence, weighs in it
RULES: dict[str, Rule] = {
    "token": lambda has: 1 / has["tokens"],
    "sequence": lambda has: 1 / has["sequences"],
    "group": lambda has: 1 / has["groups"],
    "constant": lambda has: 1,
    "length": lambda has: 1 / has["length"],
}
FAULTS: dict[str, Rule] = {
    "pack mean": lambda has: 1 / has["rows"] / has["in the row"],
    "slot mean": lambda has: 1 / has["slots"],
    "multiplied by the number of rows": lambda has: has["rows"] / has["tokens"],
    "divided by the number of rows": lambda has: 1 / has["tokens"] / has["rows"],
    "multiplied by the number of slots": lambda has: has["slots"] / has["tokens"],
    "multiplied by the number of sequences": lambda has: has["sequences"] / has["tokens"],
    "divided by the number of sequences": lambda has: 1 / has["tokens"] / has["sequences"],
}


def _expected_weight(rule: Rule, loss: Loss, unpacked_loss: Loss, by_labels: bool, unit: int) -> float:
    """Return what a unit weighs in a batch by a rule, relative to what it weighs alone."""
    return rule(amounts(loss, by_labels, unit)) / rule(amounts(unpacked_loss, by_labels, unit))


class Weighed:
    """A batch, and what each of its units (a sequence, or a group of them) weighs in the loss, compared with it alone.

    Attributes:
        loss: of the batch.
        unpacked_losses: by unit, the loss of a batch of this unit alone.
        weight: by unit, the factor by which its gradient alone must be multiplied to get that in the batch. Units
            without a gradient are left out.
        deviation: by unit, how far the gradient in the batch is from this multiple, relative to its size.

    Args:
        known_losses: by unit, those that were computed for other batches; new ones are added.
    """

    def __init__(self, checked: CheckedBatch, batch: dict, known_losses: dict[int, Loss]) -> None:
        self.loss = Loss(checked, batch)
        pieces_of_unit = dict[int, list[Piece]]()
        for piece in self.loss.pieces:
            pieces_of_unit.setdefault(checked.unit_of[piece.sequence], []).append(piece)
        losses_by_unit = {
            unit: self._unpacked_loss(checked, unit, pieces, known_losses) for unit, pieces in pieces_of_unit.items()
        }
        self.unpacked_losses = {
            unit: unpacked_loss for unit, unpacked_loss in losses_by_unit.items() if unpacked_loss is not None
        }
        self.weight = dict[int, float]()
        self.deviation = dict[int, float]()
        for unit, unpacked_loss in self.unpacked_losses.items():
            of_factors = _multiple(self.loss, unpacked_loss, "factors")
            of_pull = _multiple(self.loss, unpacked_loss, "pull")
            multiple = of_factors or of_pull  # factors do not change if sequences see each other, so they come first
            if multiple is None:
                continue
            self.weight[unit] = multiple.times
            self.deviation[unit] = multiple.deviation
            if of_pull is not None:
                from_weight = abs(of_pull.times / multiple.times - 1) if multiple.times else 1
                self.deviation[unit] = max(multiple.deviation, of_pull.deviation, from_weight)

    @property
    def is_silent(self) -> bool:
        """Return whether the loss of the batch has no gradient, as where all advantages are 0."""
        return _is_silent(self.loss)

    @property
    def deviation_through_scores(self) -> float | None:
        """The largest `deviation` of what passes through the scores; None if nothing does."""
        multiples = [_multiple(self.loss, unpacked_loss, "through") for unpacked_loss in self.unpacked_losses.values()]
        return max((multiple.deviation for multiple in multiples if multiple), default=None)

    def _unpacked_loss(
        self, checked: CheckedBatch, unit: int, pieces: list[Piece], known_losses: dict[int, Loss]
    ) -> Loss | None:
        """Compute the loss of a unit alone, or, where the collator changes tokens at random, of this batch's tokens."""
        if checked.changes_tokens:
            if len(pieces) > 1 or not checked.takes_bare_tokens:
                return None
            whole_piece = [Piece(pieces[0].sequence, np.arange(len(pieces[0].slots)), pieces[0].offsets)]
            return Loss(checked, checked.unpacked_batch(pieces[0], self.loss.batch), whole_piece)
        if unit not in known_losses:
            known_losses[unit] = Loss(checked, checked.collate(checked.of_units([unit])))
        return known_losses[unit]


def _is_silent(loss: Loss) -> bool:
    """Return whether a loss has a gradient, but one that is 0 at all scores and embeddings."""
    return not loss.touched.any() and loss.pull is not None and not bool(loss.pull.any())


class Multiple(NamedTuple):
    """A unit's gradient in a batch as a multiple of its gradient alone, by least squares.

    Attributes:
        times: the factor.
        deviation: how far the gradient in the batch is from the multiple, relative to its size.
    """

    times: float
    deviation: float


def _multiple(loss: Loss, unpacked_loss: Loss, name: str) -> Multiple | None:
    """Compare a unit's gradient in a batch with that alone; None if one of them is not known, or is 0.

    Args:
        name: the gradient that is compared, an attribute of `Loss`.
    """
    packed_gradients = getattr(loss, name)
    unpacked_gradients = getattr(unpacked_loss, name)
    if packed_gradients is None or unpacked_gradients is None:
        return None
    keys, packed_slots, unpacked_slots = np.intersect1d(loss.key, unpacked_loss.key, return_indices=True)
    packed = packed_gradients[packed_slots[keys >= 0]]
    unpacked = unpacked_gradients[unpacked_slots[keys >= 0]]
    size = float(unpacked.square().sum())
    if not size > 0:
        return None
    times = float((packed * unpacked).sum()) / size
    return Multiple(times, float((packed - times * unpacked).norm() / packed.norm().clamp(min=1e-300)))


class Weighing:
    """What each unit weighs in four batches, and the rules that these weights follow.

    Attributes:
        reduction: the mean that is meant, as in `check_packing`.
        tolerance: how far a weight may be from a rule, relative to it.
        batches: of all units, of all in reverse, and two smaller ones, which have all units between them.
    """

    def __init__(self, checked: CheckedBatch, reduction: str | None) -> None:
        self.checked = checked
        self.reduction = reduction
        self.tolerance = 0.05 if checked.rounding > 1e-4 else 0.01
        known_losses: dict[int, Loss] = {}
        whole = Weighed(checked, checked.batch, known_losses)
        silent = {unit for unit in whole.unpacked_losses if whole.weight and unit not in whole.weight}
        other_batches = (checked.collate(rows) for rows in (checked.sequences[::-1], *checked.in_two_parts(silent)))
        self.batches = [whole, *(Weighed(checked, batch, known_losses) for batch in other_batches)]

    @property
    def limit(self) -> float:
        """Return the largest deviation of a gradient from a multiple of another that counts as noise or rounding."""
        rounding = self.checked.rounding
        of_half_precision = 12 * rounding if rounding > 1e-4 else 0
        return max(1e-4, 50 * max(self.checked.noise), of_half_precision)

    @property
    def whole(self) -> Weighed:
        """Return the batch of all units."""
        return self.batches[0]

    @property
    def smaller_batches(self) -> list[Weighed]:
        """Return the two batches that have all units between them: the longer ones, and the shortest third."""
        return self.batches[2:]

    @cached_property
    def is_silent(self) -> bool:
        """Return whether no loss has a value or a gradient, neither that of the batch nor that of a unit alone."""
        losses = [self.whole.loss, *self.whole.unpacked_losses.values()]
        return all(loss.value == 0 and _is_silent(loss) for loss in losses)

    @cached_property
    def by_gradient(self) -> bool:
        """Return True if weights are known; otherwise rules are tried on the losses themselves.

        A batch without a gradient, as of groups whose advantages are all 0, has no weights, and speaks for each rule.
        """
        return bool(self.whole.weight) and all(batch.weight or batch.is_silent for batch in self.batches)

    @cached_property
    def fitting(self) -> list[tuple[str, bool]]:
        """The rules that fit all batches, each with its name and whether tokens count by labels.

        Faulty rules are tried only if no other one fits; and "own", a weight of its own for each unit, last.
        """
        for rules in (RULES, FAULTS):
            names = [name for name in rules if name != "group" or self.checked.grouped]
            ways = itertools.product(names, (False, True))
            if fitting_rules := [(name, by_labels) for name, by_labels in ways if self._fits(rules[name], by_labels)]:
                return fitting_rules
        is_steady = self.by_gradient and self._is_steady([batch.weight for batch in self.batches if batch.weight])
        return [("own", False)] if is_steady else []

    @cached_property
    def two_parts(self) -> tuple[str, str] | None:
        """The rules of two parts of a loss, as of an entropy bonus beside a policy gradient; None if no two fit.

        The gradient of a unit is the sum of two then, which each batch weighs by their rules.
        """
        names = [name for name in RULES if name != "group" or self.checked.grouped]
        for pair in itertools.combinations(names, 2):
            deviations = [
                self._deviation_from_two_parts(unit, [RULES[name] for name in pair])
                for unit in self.whole.unpacked_losses
            ]
            if deviations and max(deviations) <= min(10 * self.limit, _OF_TWO):
                return pair
        return None

    def _deviation_from_two_parts(self, unit: int, rules: Sequence[Rule]) -> float:
        """Return how far the gradients of a unit are from two parts that batches weigh by two rules, relatively."""
        unpacked_loss = self.whole.unpacked_losses[unit]
        packed_losses = [batch.loss for batch in self.batches if unit in batch.unpacked_losses]
        weights = [
            [_expected_weight(rule, loss, unpacked_loss, True, unit) for rule in rules]
            for loss in (unpacked_loss, *packed_losses)
        ]
        rows = []
        for loss in (unpacked_loss, *packed_losses):
            keys, slots, _ = np.intersect1d(loss.key, unpacked_loss.key, return_indices=True)
            if loss.pull is None or (keys >= 0).sum() != (unpacked_loss.key >= 0).sum():
                return np.inf
            rows.append(loss.pull[slots[keys >= 0]].flatten())
        if np.linalg.matrix_rank(weights, tol=1e-3) < 2:
            return np.inf
        values, matrix = torch.stack(rows), torch.tensor(weights, dtype=torch.float64)
        residual = values - matrix @ torch.linalg.lstsq(matrix, values).solution
        return float(residual.norm() / values.norm().clamp(min=1e-300))

    def _fits(self, rule: Rule, by_labels: bool) -> bool:
        """Return whether units weigh in all batches as a rule says; without gradients, whether the losses add up so."""
        if not self.by_gradient and not by_labels:
            return False
        tolerance = self.tolerance if self.by_gradient else max(1e-5, 8 * self.checked.rounding)
        for batch in self.batches:
            expected = {unit: _expected_weight(rule, batch.loss, loss, by_labels, unit)
                        for unit, loss in batch.unpacked_losses.items()}  # fmt: skip
            if self.by_gradient:
                pairs = [(weight, expected[unit]) for unit, weight in batch.weight.items()]
            else:
                total = sum(expected[unit] * (loss.value or 0) for unit, loss in batch.unpacked_losses.items())
                pairs = [(batch.loss.value or 0.0, total)]
            if any(not abs(weight - by_rule) <= tolerance * abs(by_rule) for weight, by_rule in pairs):
                return False
        return True

    def _is_steady(self, weights: Sequence[dict[int, float]]) -> bool:
        """Return True if each unit has a weight of its own, and each batch is a mean with these weights.

        Args:
            weights: of the units of each batch, the whole one first.
        """
        unit_weights = weights[0]
        for of_batch in weights:
            # the unit's own weight is divided by the sum of those in the batch
            total = sum(unit_weights[unit] for unit in of_batch if unit in unit_weights)
            for unit, weight in of_batch.items():
                if unit not in unit_weights:
                    continue
                expected = unit_weights[unit]
                if abs(weight * total - expected) > self.tolerance * abs(expected):
                    return False
        return abs(sum(unit_weights.values()) - 1) <= self.tolerance

    @cached_property
    def aside_rule(self) -> str | None:
        """The rule of what does not pass through the scores, where no sequence changes another's; None if none fits."""
        multiples = [
            {unit: _multiple(batch.loss, loss, "aside") for unit, loss in batch.unpacked_losses.items()}
            for batch in self.batches
        ]
        weights = list[dict[int, float]]()
        for of_batch in multiples:
            if any(multiple is None or multiple.deviation > 10 * self.limit for multiple in of_batch.values()):
                return None
            weights.append({unit: multiple.times for unit, multiple in of_batch.items()})  # type: ignore[union-attr]
        for name, rule in (RULES | FAULTS).items():
            deviations = [
                abs(of_batch[unit] / _expected_weight(rule, batch.loss, unpacked_loss, True, unit) - 1)
                for of_batch, batch in zip(weights, self.batches, strict=True)
                for unit, unpacked_loss in batch.unpacked_losses.items()
            ]
            if max(deviations) <= self.tolerance:
                return name
        return "own" if self._is_steady(weights) else None

    @property
    def rule(self) -> tuple[str, bool] | None:
        """Return the rule by which a batch weighs in an update, or is wanted to weigh; None if neither is known."""
        for name, by_labels in self.fitting:
            if name not in FAULTS:
                return name, by_labels
        return None if self.reduction is None else (self.reduction, False)

    def shares(self, parts: Sequence[Loss]) -> list[float]:
        """Return the share of each of these batches in an update of all of them, by the rule."""
        rule_name, by_labels = self.rule or ("token", False)
        if rule_name == "own":
            weights = [sum(self.whole.weight[self.checked.unit_of[p.sequence]] for p in part.pieces) for part in parts]
            return [weight / sum(weights) for weight in weights]
        rule = RULES[rule_name]
        counts = [amounts(part, by_labels) for part in parts]
        totals = {name: sum(count[name] for count in counts) for name in counts[0]}
        return [rule(totals) / rule(count) for count in counts]
