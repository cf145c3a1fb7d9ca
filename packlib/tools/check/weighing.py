"""What each sequence weighs in a loss, alone, together, and regrouped: its company must not matter.

Nothing is assumed of the loss. The gradient of a sequence's tokens in a batch, beside that in a batch of its own, says
how much the sequence weighs there. A mean over tokens, sequences or groups, and a sum, have a rule for that, and so
have the usual faults. Where no rule fits all batches, or a gradient changes in more than its size, company matters.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch

from packlib.batches import IGNORED
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.locating import Piece
from packlib.tools.check.slot_gradients import Loss

REDUCTIONS = "token", "sequence", "group", "constant"


def amounts(loss: Loss, by_labels: bool, unit: int | None = None, asked: np.ndarray | None = None) -> dict[str, int]:
    """Count everything in a batch that a loss may be divided by.

    How many "tokens" are predicted, and of how many "sequences" and "groups"; its "length", "rows" and "slots"; and the
    predicted tokens "in the row" of a unit. Tokens count as the loss predicts them, or as the data label them: a
    clipped one has no gradient. Or those that are `asked`, as of a further head.
    """
    width, unit_of = loss.batch["input_ids"].shape[-1], loss.checked.unit_of
    if asked is None:
        asked = loss.wanted != IGNORED if by_labels else loss.predicted
    some = {piece.sequence for piece in loss.pieces if asked[piece.slots].any()}
    in_row = (asked & (loss.owner >= 0)).reshape(-1, width).sum(1)
    row = next((piece.slots[0] // width for piece in loss.pieces if unit_of[piece.sequence] == unit), 0)
    return {
        "tokens": max(1, int(asked.sum())),
        "sequences": max(1, len(some)),
        "groups": max(1, len({unit_of[number] for number in some})),
        "length": int((loss.owner >= 0).sum()),
        "rows": len(asked) // width,
        "slots": len(asked),
        "in the row": max(1, int(in_row[row])),
    }


_OF_TWO = 0.01  # how far gradients may be from two parts, also in half precision, where more would fit anything
Rule = Callable[[dict[str, int]], float]
RULES: dict[str, Rule] = {  # what a token, or a sequence, of a unit weighs
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


def _by(rule: Rule, loss: Loss, alone: Loss, by_labels: bool, unit: int) -> float:
    """Return what a unit weighs in a batch by a rule, relative to what it weighs alone."""
    return rule(amounts(loss, by_labels, unit)) / rule(amounts(alone, by_labels, unit))


class Weighed:
    """A batch beside each of its units (sequences, or groups of them) alone.

    Attributes:
        loss, alone: of the batch, and of each unit.
        weight: how many times the gradient of the unit alone that in the batch is; empty without gradients.
        off: how far that gradient is from a multiple, relative to it.
    """

    def __init__(self, checked: CheckedBatch, batch: dict, known: dict[int, Loss]) -> None:
        self.loss, of_unit = Loss(checked, batch), dict[int, list[Piece]]()
        for piece in self.loss.pieces:
            of_unit.setdefault(checked.unit_of[piece.sequence], []).append(piece)
        found = {unit: self._alone(checked, unit, pieces, known) for unit, pieces in of_unit.items()}
        self.alone = {unit: alone for unit, alone in found.items() if alone is not None}
        self.weight, self.off = dict[int, float](), dict[int, float]()
        for unit, alone in self.alone.items():
            factor, pull = _times(self.loss, alone, "factors"), _times(self.loss, alone, "pull")
            if first := factor or pull:  # factors stay what they are where sequences see each other
                self.weight[unit], off = first
                if pull:
                    off = max(off, pull[1], abs(pull[0] / first[0] - 1) if first[0] else 1)
                self.off[unit] = off

    @property
    def is_silent(self) -> bool:
        """Return whether the loss of the batch has no gradient, as where all advantages are 0."""
        return _is_silent(self.loss)

    @property
    def off_through(self) -> float | None:
        """The largest `off` of what passes through the scores; None if nothing does."""
        found = [_times(self.loss, alone, "through") for alone in self.alone.values()]
        return max((times[1] for times in found if times), default=None)

    def _alone(self, checked: CheckedBatch, unit: int, pieces: list[Piece], known: dict[int, Loss]) -> Loss | None:
        """Compute the loss of a unit alone, or, where the collator changes tokens at random, of this batch's tokens."""
        if checked.changes_tokens:
            if len(pieces) > 1 or not checked.bare:
                return None
            alone = [Piece(pieces[0].sequence, np.arange(len(pieces[0].slots)), pieces[0].offsets)]
            return Loss(checked, checked.alone_batch(pieces[0], self.loss.batch), alone)
        if unit not in known:
            known[unit] = Loss(checked, checked.collate(checked.of_units([unit])))
        return known[unit]


def _is_silent(loss: Loss) -> bool:
    return not loss.touched.any() and loss.pull is not None and not bool(loss.pull.any())


def _times(loss: Loss, alone: Loss, name: str) -> tuple[float, float] | None:
    """Return which multiple of a unit alone its rows of this gradient are, and how far from it, relatively."""
    mine, others = getattr(loss, name), getattr(alone, name)
    keys, at, where = np.intersect1d(loss.key, alone.key, return_indices=True)
    if mine is None or others is None:
        return None
    a, b = mine[at[keys >= 0]], others[where[keys >= 0]]
    size = float(b.square().sum())
    if not size > 0:
        return None
    times = float((a * b).sum()) / size
    return times, float((a - times * b).norm() / a.norm().clamp(min=1e-300))


class Weighing:
    """The batch of all units, the same in reverse, and two smaller ones; and the rules that weights follow in all."""

    def __init__(self, checked: CheckedBatch, wanted: str | None) -> None:
        self.checked, self.near, self.wanted = checked, 0.05 if checked.rounding > 1e-4 else 0.01, wanted
        known: dict[int, Loss] = {}
        whole = Weighed(checked, checked.batch, known)
        silent = {unit for unit in whole.alone if whole.weight and unit not in whole.weight}
        others = (checked.collate(rows) for rows in (checked.few[::-1], *checked.parts_beside(silent)))
        self.batches = [whole, *(Weighed(checked, batch, known) for batch in others)]

    @property
    def limit(self) -> float:
        """Gradients that are no farther from a multiple of one another are one, relative to their size."""
        return max(
            1e-4, 50 * max(self.checked.noise), 12 * self.checked.rounding if self.checked.rounding > 1e-4 else 0
        )

    @property
    def whole(self) -> Weighed:
        return self.batches[0]

    @cached_property
    def is_silent(self) -> bool:
        """Return whether no loss has a value or a gradient, neither that of the batch nor that of a unit alone."""
        losses = [self.whole.loss, *self.whole.alone.values()]
        return all(loss.value == 0 and _is_silent(loss) for loss in losses)

    @cached_property
    def by_gradient(self) -> bool:
        """Return True if weights are known; otherwise rules are tried on the losses themselves.

        A batch without a gradient, as of groups whose advantages are all 0, has no weights, and speaks for each rule.
        """
        return bool(self.whole.weight) and all(batch.weight or batch.is_silent for batch in self.batches)

    @cached_property
    def fitting(self) -> list[tuple[str, bool]]:
        """The rules that fit, and whether tokens count by labels in each; faulty ones only if no other does."""
        for rules in (RULES, FAULTS):
            names = [name for name in rules if name != "group" or self.checked.grouped]
            ways = itertools.product(names, (False, True))
            if found := [(name, by_labels) for name, by_labels in ways if self._fits(rules[name], by_labels)]:
                return found
        own = self.by_gradient and self._steady([batch.weight for batch in self.batches if batch.weight])
        return [("own", False)] if own else []

    @cached_property
    def two_parts(self) -> tuple[str, str] | None:
        """The rules of two parts of a loss, as of an entropy bonus beside a policy gradient; None if no two fit.

        The gradient of a unit is the sum of two then, which each batch weighs by their rules.
        """
        names = [name for name in RULES if name != "group" or self.checked.grouped]
        for pair in itertools.combinations(names, 2):
            off = [self._off_two(unit, [RULES[name] for name in pair]) for unit in self.whole.alone]
            if off and max(off) <= min(10 * self.limit, _OF_TWO):
                return pair
        return None

    def _off_two(self, unit: int, rules: Sequence[Rule]) -> float:
        """Return how far the gradients of a unit are from two parts that batches weigh by two rules, relatively."""
        alone = self.whole.alone[unit]
        held = [batch.loss for batch in self.batches if unit in batch.alone]
        weights = [[_by(rule, loss, alone, True, unit) for rule in rules] for loss in (alone, *held)]
        rows = []
        for loss in (alone, *held):
            keys, at, _ = np.intersect1d(loss.key, alone.key, return_indices=True)
            if loss.pull is None or (keys >= 0).sum() != (alone.key >= 0).sum():
                return np.inf
            rows.append(loss.pull[at[keys >= 0]].flatten())
        if np.linalg.matrix_rank(weights, tol=1e-3) < 2:
            return np.inf
        values, matrix = torch.stack(rows), torch.tensor(weights, dtype=torch.float64)
        rest = values - matrix @ torch.linalg.lstsq(matrix, values).solution
        return float(rest.norm() / values.norm().clamp(min=1e-300))

    def _fits(self, rule: Rule, by_labels: bool) -> bool:
        if not self.by_gradient and not by_labels:
            return False
        near = self.near if self.by_gradient else max(1e-5, 8 * self.checked.rounding)
        for batch in self.batches:
            wanted = {unit: _by(rule, batch.loss, alone, by_labels, unit) for unit, alone in batch.alone.items()}
            pairs = [(weight, wanted[unit]) for unit, weight in batch.weight.items()]
            if not self.by_gradient:
                total = sum(wanted[unit] * (its.value or 0) for unit, its in batch.alone.items())
                pairs = [(batch.loss.value or 0.0, total)]
            if not all(abs(weight - other) <= near * abs(other) for weight, other in pairs):
                return False
        return True

    def _steady(self, weights: Sequence[dict[int, float]]) -> bool:
        """Return True if each unit has a weight of its own, with which each batch is a mean.

        Args:
            weights: of the units of each batch, the whole one first.
        """
        own = weights[0]
        for of_batch in weights:
            total = sum(own[unit] for unit in of_batch if unit in own)
            pairs = [(weight * total, own[unit]) for unit, weight in of_batch.items() if unit in own]
            if any(abs(mine - its) > self.near * abs(its) for mine, its in pairs):
                return False
        return abs(sum(own.values()) - 1) <= self.near

    @cached_property
    def aside_rule(self) -> str | None:
        """The rule of what does not pass through the scores, where no sequence changes another's; None if none fits."""
        found = [{unit: _times(batch.loss, alone, "aside") for unit, alone in batch.alone.items()}
                 for batch in self.batches]  # fmt: skip
        if any(times is None or times[1] > 10 * self.limit for of_batch in found for times in of_batch.values()):
            return None
        weights = [{unit: times[0] for unit, times in of_batch.items()} for of_batch in found]  # type: ignore[index]
        for name, rule in (RULES | FAULTS).items():
            apart = [
                abs(weights[at][unit] / _by(rule, batch.loss, alone, True, unit) - 1)
                for at, batch in enumerate(self.batches)
                for unit, alone in batch.alone.items()
            ]
            if max(apart) <= self.near:
                return name
        return "own" if self._steady(weights) else None

    @property
    def rule(self) -> tuple[str, bool] | None:
        """Return the rule by which a batch weighs in an update, or is wanted to weigh; None if neither is known."""
        for name, by_labels in self.fitting:
            if name not in FAULTS:
                return name, by_labels
        return None if self.wanted is None else (self.wanted, False)

    def shares(self, parts: Sequence[Loss]) -> list[float]:
        """Return the share of each of these batches in an update of all of them, by the rule."""
        name, by_labels = self.rule or ("token", False)
        if name == "own":
            totals = [sum(self.whole.weight[self.checked.unit_of[p.sequence]] for p in part.pieces) for part in parts]
            return [total / sum(totals) for total in totals]
        counts, rule = [amounts(part, by_labels) for part in parts], RULES[name]
        whole = {what: sum(mine[what] for mine in counts) for what in counts[0]}
        return [rule(whole) / rule(mine) for mine in counts]
