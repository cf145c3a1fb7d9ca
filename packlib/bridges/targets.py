"""What a loss asks of each token: read off its gradient, so that no name of a label or a mean is believed.

The gradient of a cross entropy with respect to a row of logits is w (softmax − 1 at the target): its least entry is the
target, and how large it is says how much the row weighs in the loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from packlib.bridges.asking import Asked
from packlib.bridges.findings import FAILED, PASSED, UNKNOWN, Finding
from packlib.bridges.probing import Piece, Seen

IGNORED = -100
_SHIFTS = {0: "its own token", 1: "the next token", 2: "the token after the next", -1: "the token before"}


@dataclass(frozen=True)
class Targets:
    """For each slot of a batch what it is asked to predict and with which weight; arrays of shape (N,)."""

    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, seen: Seen, slots: int) -> "Targets | None":
        """None if the loss is not made of the logits that the model returned."""
        if seen.loss is None or not seen.loss.requires_grad or not seen.scores.requires_grad:
            return None
        (slope,) = torch.autograd.grad(seen.loss, seen.scores, retain_graph=True, allow_unused=True)
        if slope is None:
            return None
        width = seen.scores.shape[-1]
        slope, scores = slope.reshape(-1, width).double().cpu(), seen.scores.detach().reshape(-1, width).double().cpu()
        least, at = slope.min(1)
        chance = scores.softmax(1).gather(1, at[:, None])[:, 0]
        weights = -least / (1 - chance).clamp(min=1e-6)
        weights[~(weights > 1e-7 * weights.max())] = 0
        target, weight = np.full(slots, IGNORED), np.zeros(slots)
        kept = weights > 0
        places = seen.at.cpu()[kept].numpy()
        target[places], weight[places] = at[kept].numpy(), weights[kept].numpy()
        return cls(target, weight)


class Asking:
    """What the loss of a case asks of each place of each sequence."""

    def __init__(self, case: Asked, batch: dict, pieces: list[Piece], rows: list[dict]) -> None:
        self.case, self.batch, self.pieces, self.given = case, batch, pieces, rows
        self.seen = case.box(batch)
        self.targets = Targets.of(self.seen, batch["input_ids"].numel())

    def labels(self, piece: Piece) -> np.ndarray:
        """What the data say that each place of the whole sequence is: -100 where it is not to be predicted."""
        row = self.given[piece.sequence]
        ids = np.asarray(row["input_ids"])
        labels = np.asarray(row.get("labels", ids))
        if "labels" in row and labels.shape == ids.shape:
            return labels
        if not self.case.causal:  # masked by the collator: its labels are all there is
            given = self.batch.get("labels")
            labels = np.full(len(ids), IGNORED)
            if given is not None and given.shape == self.batch["input_ids"].shape:
                labels[piece.places] = given.flatten()[piece.slots].cpu().numpy()
            return labels
        return ids

    @cached_property
    def shift(self) -> int:
        """How many places after a token its target is, for most of them."""
        natural = 1 if self.case.causal else 0
        hits = {shift: sum(self._hits(piece, shift) for piece in self.pieces) for shift in _SHIFTS}
        return max(hits, key=lambda shift: (hits[shift], shift == natural))

    @cached_property
    def hits(self) -> int:
        return sum(self._hits(piece, self.shift) for piece in self.pieces)

    def _hits(self, piece: Piece, shift: int) -> int:
        content = np.asarray(self.given[piece.sequence]["input_ids"])
        labels = self.labels(piece)
        known = np.where(labels == IGNORED, content, labels)  # a prompt's token is a target where it should be none
        at = piece.places + shift
        inside = (at >= 0) & (at < len(known))
        asked = self.targets.weight[piece.slots] > 0
        return int((known[np.clip(at, 0, len(known) - 1)] == self.targets.target[piece.slots])[inside & asked].sum())


def loss_questions(case: Asked) -> Iterator[Finding]:
    """Targets at the borders, labels, and the mean."""
    asking = Asking(case, case.batch, case.pieces, case.few)
    asking_some = asking.targets is not None and (asking.targets.weight > 0).any()
    if not asking_some or asking.hits < 0.5 * (asking.targets.weight > 0).sum():
        why = "The model returns no loss: give labels, or pass loss." if asking.seen.loss is None else (
            "The loss is no cross entropy of the logits that the model returns, as far as its gradient tells."
        )  # fmt: skip
        for question in ("targets at borders", "labels", "mean"):
            yield Finding(question, UNKNOWN, why)
        return
    yield _borders(asking)
    yield _labels(asking)
    yield _mean(asking)


def _borders(asking: Asking) -> Finding:
    case, targets = asking.case, asking.targets
    flat, width = asking.batch["input_ids"].flatten().cpu().numpy(), asking.batch["input_ids"].shape[-1]
    leaked = []
    for number, piece in enumerate(case.pieces):
        length = len(case.few[piece.sequence]["input_ids"])
        for slot, place in zip(piece.slots, piece.places, strict=True):
            for ahead in (1, 2):
                if targets.weight[slot] > 0 and place + ahead >= length and slot // width == (slot + ahead) // width:
                    other = case.owner[slot + ahead] if slot + ahead < len(case.owner) else -1
                    if other not in (-1, number) and targets.target[slot] == flat[slot + ahead] and slot not in leaked:
                        leaked.append(int(slot))
    if not leaked:
        return Finding("targets at borders", PASSED, f"None of {len(case.pieces)} sequences predicts a token of the next.")
    evidence = f"{len(leaked)} of {len(case.pieces)} borders: the token in slot {leaked[0]} is to predict the next sequence's "
    evidence += f"token {targets.target[leaked[0]]}, with {targets.weight[leaked].sum() / targets.weight.sum():.2g} of the loss."
    return Finding("targets at borders", FAILED, evidence,
                   "a leaked target: the last token of a sequence is asked for the first of the next",
                   "Let the label of each sequence's first token be -100 (as separator_id of transformers does).")  # fmt: skip


def _labels(asking: Asking) -> Finding:
    case, targets, shift = asking.case, asking.targets, asking.shift
    natural = 1 if case.causal else 0
    prompts = lost = wrong = ends = count = 0
    for piece in case.pieces:
        labels = asking.labels(piece)
        at = piece.places + shift
        inside = (at >= 0) & (at < len(labels))
        wanted = np.full(len(at), IGNORED)
        wanted[inside] = labels[at[inside]]
        asked = targets.weight[piece.slots] > 0
        prompts += int((asked & inside & (wanted == IGNORED)).sum())
        missing = ~asked & (wanted != IGNORED)
        lost += int(missing.sum())
        ends += bool(missing.any()) and bool((at[missing] == len(labels) - 1).all())
        wrong += int((asked & (wanted != IGNORED) & (wanted != targets.target[piece.slots])).sum())
        count += int((wanted != IGNORED).sum())
    padding = int((targets.weight[case.padding] > 0).sum())
    evidence = f"Of {count} labels {lost} are lost and {wrong} are other ones; {prompts} tokens without a label are predicted, "
    evidence += f"and {padding} slots of padding. A token is asked for {_SHIFTS[shift]}."
    if shift != natural:
        twice = "the labels are shifted twice, by the collator and in the loss" if shift == 2 else (
            "the labels are not shifted: each token is asked for itself, which it sees" if shift == 0 else
            "the labels are shifted the wrong way" if shift < 0 or not case.causal else "the labels are shifted wrongly"
        )  # fmt: skip
        return Finding("labels", FAILED, evidence, twice, "Shift in one place: the loss of transformers does it.")
    if prompts:
        cause = "prompt labels are lost: what has the label -100 is trained on"
        return Finding("labels", FAILED, evidence, cause, "Carry the column labels along with input_ids.")
    if lost and ends == sum(piece.places[-1] + shift >= len(asking.labels(piece)) - 1 for piece in case.pieces) and ends:
        cause = "the last token of each sequence is never a target"
        return Finding("labels", FAILED, evidence, cause, "Cut off the last logit of a sequence, not its last label.")
    if lost or wrong:
        cause = "labels are lost" if lost else "labels do not belong to their tokens"
        return Finding("labels", FAILED, evidence, cause, "Carry the column labels along with input_ids.")
    if padding > len(case.pieces):
        return Finding("labels", FAILED, evidence, "padding is trained on", "Let labels be -100 on padding.")
    return Finding("labels", PASSED, evidence)


def _mean(asking: Asking) -> Finding:
    case, weight = asking.case, asking.targets.weight
    found, evidence = _reduction(asking)
    wanted = case.reduction
    remedies = {"token": "Divide the sum over tokens by their number in the whole update.",
                "sequence": "Give each token the weight 1 / (sequences × labels of its sequence)."}  # fmt: skip
    if not found:
        if wanted is None:
            return Finding("mean", UNKNOWN, f"{evidence} The weights follow none of the known means.")
        return Finding("mean", FAILED, evidence, f"the loss is no mean over each {wanted}", remedies[wanted])
    alike = " or ".join(_MEANS[name] for name in found)
    evidence = f"It is {alike}: {evidence}"
    if wanted is not None:
        if wanted in found:
            others = [name for name in found if name != wanted]
            return Finding("mean", UNKNOWN if others else PASSED, evidence)
        cause = f"{_MEANS[found[0]]} where a mean over each {wanted} was asked for"
        return Finding("mean", FAILED, evidence, cause, remedies[wanted])
    if found[0] == "pack":
        cause = "a mean over packs: how much a sequence weighs depends on which others share its pack"
        return Finding("mean", FAILED, evidence, cause, remedies["token"])
    if found[0] == "slot":
        cause = "a mean over all slots: padding and prompts are counted, and so the loss depends on its company"
        return Finding("mean", FAILED, evidence, cause, remedies["token"])
    return Finding("mean", PASSED, evidence)


_MEANS = {
    "token": "a mean over tokens", "sequence": "a mean over sequences", "pack": "a mean over packs",
    "sum": "a sum over tokens", "slot": "a mean over all slots", "sum by sequence": "a sum over tokens by sequences",
    "sum by row": "a sum over tokens by rows",
}  # fmt: skip


def _reduction(asking: Asking) -> tuple[list[str], str]:
    """The means that fit the weights, and what was measured."""
    case, weight = asking.case, asking.targets.weight
    width = asking.batch["input_ids"].shape[-1]
    slots = np.flatnonzero((weight > 0) & (case.owner >= 0))
    owner, row = case.owner[slots], slots // width
    by_piece, by_row = np.bincount(owner, minlength=len(case.pieces)), np.bincount(row)
    sequences, packs, total = (by_piece > 0).sum(), (by_row > 0).sum(), len(slots)
    ones = np.ones(total)
    expected = {
        "token": ones / total, "sequence": 1 / (sequences * by_piece[owner]), "pack": 1 / (packs * by_row[row]),
        "sum": ones, "slot": ones / len(weight), "sum by sequence": ones / sequences, "sum by row": ones / packs,
    }  # fmt: skip
    near = 0.05 if torch.finfo(case.dtype).eps > 1e-4 else 0.01
    found = [name for name, values in expected.items() if np.abs(weight[slots] / values - 1).max() < near]
    low, high = weight[slots].min(), weight[slots].max()
    evidence = f"{total} tokens of {sequences} sequences in {packs} packs weigh from {low:.3g} to {high:.3g}."
    return found, evidence


def accumulation(case: Asked) -> Iterator[Finding]:
    """Whether micro-batches of different sizes are added up to one mean."""
    half = max(len(case.few) // 3, 1)
    parts = [case.few[:half], case.few[half:]]
    batches = [batch for rows in parts for batch in case.collate(rows)]
    asked = [Asking(case, batch, case.found_in(batch, case.few), case.few) for batch in batches]
    if len(batches) != 2 or any(one.targets is None or one.seen.loss is None for one in asked):
        yield Finding("accumulation", UNKNOWN, "There is no loss of two micro-batches whose gradient can be read.")
        return
    counts = [int((one.targets.weight > 0).sum()) for one in asked]
    losses = [float(one.seen.loss) for one in asked]
    means = sum(losses) / 2
    right = sum(a * b for a, b in zip(counts, losses, strict=True)) / sum(counts)
    evidence = f"Micro-batches of {counts[0]} and {counts[1]} labels: their losses' mean is {means:.5g}, that of all tokens {right:.5g}."
    told = [case.box.runs({**batch, "num_items_in_batch": torch.tensor(sum(counts))}) for batch in batches]
    if case.step is not None:
        yield _stepped(case, batches, counts, evidence)
    elif all(seen is not None and seen.loss is not None for seen in told) and _divides(case, batches, told, asked, counts):
        evidence += f" Told of {sum(counts)} labels (num_items_in_batch), the model divides by them."
        yield Finding("accumulation", PASSED, evidence)
    else:
        evidence += " A trainer's way is not among what was given: pass step."
        yield Finding("accumulation", UNKNOWN, evidence)


def _divides(case: Asked, batches: list, told: list, asked: list, counts: list) -> bool:
    ratios = [float(seen.loss) / float(one.seen.loss) * sum(counts) / count
              for seen, one, count in zip(told, asked, counts, strict=True)]  # fmt: skip
    return all(abs(ratio - 1) < 0.02 for ratio in ratios)


def _stepped(case: Asked, batches: list[dict], counts: list[int], evidence: str) -> Finding:
    """How much each micro-batch weighs in the gradient that a trainer's step adds up."""
    model = case.box.model
    if not isinstance(model, nn.Module):
        return Finding("accumulation", UNKNOWN, "With step, model must be a torch module, whose gradients can be read.")
    parameters = [p for p in model.parameters() if p.requires_grad]
    before = [(p.detach().clone(), p.grad) for p in parameters]
    alone = []
    for batch in batches:
        parts = torch.autograd.grad(case.box(batch).loss, parameters, allow_unused=True)
        alone.append(_flat(parts, parameters))
    sums = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    hooks = [p.register_hook(lambda grad, total=total: total.add_(grad) and None)
             for p, total in zip(parameters, sums, strict=True)]  # fmt: skip
    try:
        for p in parameters:
            p.grad = None
        case.box.reseed()
        case.step(model, [{name: x.clone() if isinstance(x, Tensor) else x for name, x in batch.items()} for batch in batches])
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for p, (value, grad) in zip(parameters, before, strict=True):
                p.copy_(value)
                p.grad = grad
    got = torch.cat([total.flatten() for total in sums])
    shares = torch.linalg.lstsq(torch.stack(alone, 1), got[:, None]).solution[:, 0].tolist()
    evidence += f" In the step they weigh {shares[0]:.3g} and {shares[1]:.3g}; their labels are {counts[0] / sum(counts):.3g} and "
    evidence += f"{counts[1] / sum(counts):.3g} of all."
    if all(abs(share * sum(counts) / count - 1) < 0.05 for share, count in zip(shares, counts, strict=True)):
        return Finding("accumulation", PASSED, evidence)
    remedy = "Divide the summed loss of each micro-batch by the labels of the whole update (num_items_in_batch)."
    if abs(shares[0] / shares[1] - 1) < 0.05:
        cause = "a mean of means: each micro-batch weighs the same, whatever it holds"
        if abs(shares[0] - 1) < 0.05:
            cause = "a sum of means: the loss grows with the number of micro-batches, and each weighs the same"
        return Finding("accumulation", FAILED, evidence, cause, remedy)
    return Finding("accumulation", FAILED, evidence, "micro-batches weigh otherwise than their labels", remedy)


def _flat(parts: tuple, parameters: list) -> Tensor:
    return torch.cat([(torch.zeros_like(p) if part is None else part).double().flatten()
                      for part, p in zip(parts, parameters, strict=True)])  # fmt: skip
