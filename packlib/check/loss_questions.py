"""The questions about a loss: what it asks of each token, and how much each weighs, is read off its gradient.

The gradient of a cross entropy with respect to a row of logits is w (softmax − 1 at the target): its least entry is the
target, and how large it is says how much the row weighs in the loss. So no name of a label or of a mean is believed.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from packlib.check.case import Case, found_in
from packlib.check.findings import PASSED, UNKNOWN, Finding
from packlib.check.locating import Piece, owners

IGNORED = -100  # as in packlib.batches
_SHIFTS = {0: "itself", 1: "the next token", 2: "the token after the next", -1: "the token before"}
_MEANS = {"token": "a mean over tokens", "sequence": "a mean over sequences", "pack": "a mean over packs",
          "slot": "a mean over all slots", "sum": "a sum over tokens"}  # fmt: skip
_FAINT = 0.02  # of what a label weighs: with less, a slot is touched by what a loss has besides its cross entropy
_SCALES = {  # what the weights of a batch may add up to, of what is counted in it; only the first do no harm
    "": lambda n: 1, "sum over tokens": lambda n: n["tokens"], "sum over sequences": lambda n: n["sequences"],
    "multiplied by the number of rows": lambda n: n["rows"], "divided by the number of rows": lambda n: 1 / n["rows"],
    "multiplied by the number of slots": lambda n: n["slots"],
    "divided by the number of slots": lambda n: 1 / n["slots"],
    "divided by the number of sequences": lambda n: 1 / n["sequences"],
}  # fmt: skip


class Loss:
    """What the loss of a batch asks of each of its N slots.

    Attributes:
        value: the loss.
        target: shape (N,), what each slot is to predict.
        weight: shape (N,), how much it weighs in the loss; 0 for nothing to predict.
        touched: shape (N,), whether the loss depends on its scores at all.
        certain: whether each gradient has the form of one target.
    """

    certain = False

    def __init__(self, case: Case, batch: dict) -> None:
        self.case, self.batch, self.pieces = case, batch, found_in(batch, case.few)
        seen, slots = case.box(batch), batch["input_ids"].numel()
        self.value = None if seen.loss is None else float(seen.loss.detach())
        self.target, self.weight, self.touched = np.full(slots, IGNORED), np.zeros(slots), np.zeros(slots, bool)
        slope = None
        if seen.loss is not None and seen.loss.requires_grad and seen.scores.requires_grad:
            (slope,) = torch.autograd.grad(seen.loss, seen.scores, allow_unused=True)
        if slope is None and self.value is not None:
            self._guess(seen.outputs)
        elif slope is not None:
            slope, scores = (x.detach().flatten(0, -2).double().cpu() for x in (slope, seen.scores))
            least, target = slope.min(1)
            weight = -least / (1 - scores.softmax(1).gather(1, target[:, None])[:, 0]).clamp(min=1e-6)
            kept, size = weight > 1e-7 * weight.max(), slope.abs().amax(1)
            self.touched[seen.at.cpu().numpy()] = (size > 1e-7 * size.max()).numpy()
            self.certain = bool(((slope[kept] < 0).sum(1) == 1).all())
            at = seen.at.cpu()[kept].numpy()
            self.target[at], self.weight[at] = target[kept].numpy(), weight[kept].numpy()

    def _guess(self, outputs: Tensor) -> None:
        """Without gradients: the targets and weights whose weighted sum is the loss, the innocent ones first."""
        logarithms = outputs.detach().double().log_softmax(1).cpu()
        tokens, owner = self.batch["input_ids"].flatten().cpu().numpy(), owners(self.batch["input_ids"], self.pieces)
        natural = int(self.case.causal)
        for shift, prompts, border, mean in product((natural, 1 - natural, 2), (False, True), (False, True), _MEANS):
            target = np.full(len(tokens), IGNORED)
            for piece in self.pieces:
                labels = np.asarray(self.case.few[piece.sequence]["input_ids"]) if prompts else self.labels(piece)
                kept = piece.places + shift <= piece.places[-1]
                target[piece.slots[kept]] = labels[piece.places[kept] + shift]
                if border and piece.slots[-1] + 1 < len(tokens) and owner.flat[piece.slots[-1] + 1] >= 0:
                    target[piece.slots[-1]] = tokens[piece.slots[-1] + 1]
            slots = np.flatnonzero((target != IGNORED) & (target < logarithms.shape[1]))
            if len(slots):
                weight = 1 / (self._divisors(slots)[mean] * np.ones(len(slots)))
                value = -float(weight @ logarithms[slots, target[slots]].numpy())
                if abs(value / (self.value or np.inf) - 1) < max(1e-5, 4 * self.case.rounding):
                    self.target, self.weight[slots] = target, weight
                    return

    def _divisors(self, slots: np.ndarray) -> dict[str, Any]:
        """By what each mean divides the sum over these slots of tokens."""
        ids = self.batch["input_ids"]
        row, owner = slots // ids.shape[-1], owners(ids, self.pieces).flat[slots]
        by_row, by_piece = np.bincount(row), np.bincount(owner)
        return {"token": len(slots), "sequence": (by_piece > 0).sum() * by_piece[owner],
                "pack": (by_row > 0).sum() * by_row[row], "slot": len(self.weight), "sum": 1}  # fmt: skip

    @property
    def readable(self) -> bool:
        """Whether it is known what the slots are asked for."""
        return bool(self.weight.any()) and (self.certain or self.hits[self.shift] > (self.weight > 0).sum() / 2)

    def labels(self, piece: Piece) -> np.ndarray:
        """What the data say that each token of a whole sequence is; -100 where it is not to be predicted."""
        row = self.case.few[piece.sequence]
        ids = np.asarray(row["input_ids"])
        labels, given = np.asarray(row.get("labels", ids)), self.batch.get("labels")
        if "labels" in row and labels.shape == ids.shape:
            return labels
        if not self.case.causal and given is not None and given.shape == self.batch["input_ids"].shape:
            labels = np.full(len(ids), IGNORED)  # masked by the collator, whose labels are all there is
            labels[piece.places] = given.flatten()[piece.slots].cpu().numpy()
            return labels
        return ids

    @cached_property
    def hits(self) -> dict[int, int]:
        """For each shift, how many slots are asked for the token so many places after their own."""
        return {shift: sum(self._hits(piece, shift) for piece in self.pieces) for shift in _SHIFTS}

    @cached_property
    def shift(self) -> int:
        """How many places after a token its target is, if most agree."""
        natural = int(self.case.causal)
        best = max(_SHIFTS, key=lambda shift: (self.hits[shift], shift == natural))
        return best if self.hits[best] > (self.weight > 0).sum() / 2 else natural

    def _hits(self, piece: Piece, shift: int) -> int:
        labels = self.labels(piece)
        known = np.where(labels == IGNORED, np.asarray(self.case.few[piece.sequence]["input_ids"]), labels)
        at, asked = piece.places + shift, self.weight[piece.slots] > 0
        inside = (at >= 0) & (at < len(known)) & asked
        return int((known[at[inside]] == self.target[piece.slots[inside]]).sum())

    @cached_property
    def of_sequence(self) -> dict[int, tuple[float, float]]:
        """What each sequence with a target weighs: a token of it, and all of it."""
        weights: dict[int, list[float]] = {}
        for piece in self.pieces:
            weights.setdefault(piece.sequence, []).extend(w for w in self.weight[piece.slots] if w > 0)
        return {sequence: (sum(all_) / len(all_), sum(all_)) for sequence, all_ in weights.items() if all_}

    @property
    def held(self) -> dict[str, int]:
        """What a batch has of what a loss may be divided by."""
        width = self.batch["input_ids"].shape[-1]
        slots = len(self.weight)
        tokens = int((self.weight > 0).sum())
        return {"tokens": tokens, "sequences": len(self.of_sequence), "rows": slots // width, "slots": slots}

    @cached_property
    def means(self) -> tuple[list[str], str]:
        """The names in `_MEANS` that the weights fit, and what was measured."""
        slots = np.flatnonzero((self.weight > 0) & (owners(self.batch["input_ids"], self.pieces).ravel() >= 0))
        weight = self.weight[slots]
        near = 0.05 if self.case.rounding > 1e-4 else 0.01
        found = [name for name, divisor in self._divisors(slots).items() if np.abs(weight * divisor - 1).max() < near]
        many = f"{len(slots)} tokens of {len(self.pieces)} sequences"
        text = f"{many} weigh {weight.min():.3g} to {weight.max():.3g} each"
        return found, f"{text}: {' or '.join(_MEANS[name] for name in found) or 'none of the known means'}."


def loss_questions(case: Case, reduction: str | None) -> Iterator[Finding]:
    """Targets at the borders, labels, and the mean."""
    loss = Loss(case, case.batch)
    if loss.readable:
        yield _borders(loss)
        yield _labels(loss)
        yield _mean(loss, reduction)
        return
    why = "The loss is no cross entropy of the logits that are returned, as far as gradients and sums tell."
    why = "The model returns no loss: give labels, or pass loss." if loss.value is None else why
    yield from (Finding(question, UNKNOWN, why) for question in ("targets at borders", "labels", "mean"))


def _borders(loss: Loss) -> Finding:
    case, shift, flat = loss.case, max(loss.shift, 1), loss.batch["input_ids"].flatten().cpu().numpy()
    owner, rows = case.owner.ravel(), np.arange(case.owner.size) // case.ids.shape[-1]
    slots = np.flatnonzero(loss.weight)
    slots = slots[slots < len(flat) - shift]
    ahead = slots + shift
    across = (rows[slots] == rows[ahead]) & (owner[slots] >= 0) & (owner[ahead] >= 0) & (owner[slots] != owner[ahead])
    leaked = slots[across & (loss.target[slots] == flat[ahead]) & (loss.shift > 0)]
    evidence = f"{len(leaked)} tokens before a border of {len(loss.pieces)} sequences are to predict one of the next"
    if not len(leaked):
        return Finding("targets at borders", PASSED, f"{evidence}.")
    share = loss.weight[leaked].sum() / loss.weight.sum()
    names = ["leaked", "shifted twice"] if shift == 2 else "leaked"
    return Finding.failed("targets at borders", f"{evidence}: {share:.2g} of the loss.", names)


def _labels(loss: Loss) -> Finding:
    case, shift = loss.case, loss.shift
    count = prompts = lost = wrong = ends = 0
    predicted = loss.weight > _FAINT * np.median(loss.weight[loss.weight > 0])
    padding, aside = int(predicted[case.padding].sum()), int((loss.touched & ~predicted)[case.padding].sum())
    for piece in loss.pieces:
        at, asked = piece.places + shift, predicted[piece.slots]
        inside = (at >= piece.places[0]) & (at <= piece.places[-1])
        wanted = np.where(inside, loss.labels(piece)[np.where(inside, at, 0)], IGNORED)
        missing = ~asked & (wanted != IGNORED)
        ends += bool(missing.sum() == 1 and missing[at == piece.places[-1]].any())
        count, lost = count + int((wanted != IGNORED).sum()), lost + int(missing.sum())
        prompts += int((asked & inside & (wanted == IGNORED)).sum())
        aside += int((loss.touched[piece.slots] & ~asked & (wanted == IGNORED)).sum())
        wrong += int((asked & (wanted != IGNORED) & (wanted != loss.target[piece.slots])).sum())
    told = any("labels" in row for row in case.few)  # else what a collator leaves out may be meant
    evidence = (
        f"Of {count} labels {lost} are lost and {wrong} are others; {prompts} tokens without a label and {padding} "
    )
    evidence += f"slots of padding are predicted. A token is asked for {_SHIFTS[shift]}."
    evidence += f" The loss depends on the scores of {aside} slots without a label besides." * bool(aside)
    names = {
        "ahead": shift == 1 and not case.causal,
        "shifted twice": shift == 2,
        "not shifted": shift == 0 and case.causal,
        "shifted back": shift == -1,
        "last label": lost and ends == lost == len(loss.pieces),
        "labels": wrong or (lost and told),
        "prompts": prompts,
        "trained padding": padding > len(loss.pieces),  # one after each sequence is an end token
        "aside": aside,
    }
    name = next((name for name, failed in names.items() if failed), None)
    return Finding("labels", PASSED, evidence) if name is None else Finding.failed("labels", evidence, name)


def _mean(loss: Loss, wanted: str | None) -> Finding:
    found, evidence = loss.means
    if wanted is None and found[:1] in (["pack"], ["slot"]):
        return Finding.failed("mean", evidence, f"{found[0]} mean")
    cause, more = _company(loss)
    if cause:
        return Finding.failed("mean", evidence + more, "scaled" if cause in _SCALES else "company", how=cause)
    if wanted is None:
        return Finding("mean", PASSED, evidence + more)
    if wanted in found:
        return Finding("mean", UNKNOWN if {"token", "sequence"} <= set(found) else PASSED, evidence)
    names = "other mean" if found else "no mean"
    return Finding.failed("mean", evidence, names, found=_MEANS[found[0]] if found else "", wanted=wanted)


def _company(loss: Loss) -> tuple[str, str]:
    """How what a sequence weighs depends on the others of its batch, "" if it does not; and what was measured.

    The same sequences are given in reverse, and in two batches. What a sequence weighs beside the others must stay,
    by its tokens or as a whole, and all weights must add up to the same, or to a sum.
    """
    case, near = loss.case, 0.05 if loss.case.rounding > 1e-4 else 0.01
    groups = case.few[::-1], *_thirds(case)
    batches = [loss, *(Loss(case, batch) for rows in groups for batch in case.collate(rows))]
    batches = [batch for batch in batches if batch.readable]

    def steady(values: Sequence[float]) -> bool:
        return len(values) == 0 or np.ptp(values) <= near * np.mean(values)

    totals = [batch.weight.sum() for batch in batches]
    evidence = f" In {len(batches)} batches of them weights add up to {', '.join(f'{total:.3g}' for total in totals)}."
    for other in batches[1:]:
        pairs = [(loss.of_sequence[s], other.of_sequence[s]) for s in loss.of_sequence.keys() & other.of_sequence]
        if not any(steady([mine[at] / theirs[at] for mine, theirs in pairs]) for at in (0, 1)):
            return "company", evidence
    for name, scale in _SCALES.items():
        if steady([total / scale(batch.held) for total, batch in zip(totals, batches, strict=True)]):
            return ("" if name in list(_SCALES)[:3] else name), evidence
    return "company", evidence


def _thirds(case: Case) -> tuple[list[dict], list[dict]]:
    """Two groups of different sizes."""
    third = max(len(case.few) // 3, 1)
    return case.few[:third], case.few[third:]


def accumulation(case: Case, step: Callable | None, reduction: str | None) -> Iterator[Finding]:
    """Whether two micro-batches of different sizes are added up to one mean."""
    parts = [Loss(case, batch) for rows in _thirds(case) for batch in case.collate(rows)]
    if len(parts) != 2 or not all(part.readable and part.value for part in parts):
        yield Finding("accumulation", UNKNOWN, "There is no loss of two micro-batches whose gradient can be read.")
        return
    means = [reduction] if reduction else parts[1].means[0]
    what = "sequences" if "sequence" in means and "token" not in means else "labels"
    counts = [len(part.pieces) if what == "sequences" else int((part.weight > 0).sum()) for part in parts]
    values, shares = [part.value or 0.0 for part in parts], [count / sum(counts) for count in counts]
    evidence = f"Micro-batches hold {counts[0]} and {counts[1]} {what}: the mean of their losses is "
    evidence += f"{sum(values) / 2:.5g}, that of all {what} {np.dot(values, shares):.5g}."
    if step is not None:
        yield _stepped(case, [part.batch for part in parts], step, shares, evidence)
        return
    told = [case.box.runs({**part.batch, "num_items_in_batch": torch.tensor(sum(counts))}) for part in parts]
    divided = [
        seen is not None and seen.loss is not None and np.isclose(float(seen.loss.detach()), value * share, rtol=0.02)
        for seen, value, share in zip(told, values, shares, strict=True)
    ]
    takes = inspect.signature(getattr(case.box.model, "forward", case.box.model)).parameters
    if all(divided):
        yield Finding("accumulation", PASSED, f"{evidence} Given num_items_in_batch, the model divides by it.")
    elif "num_items_in_batch" in takes and means[:1] == ["token"] and None not in told:
        yield Finding.failed("accumulation", f"{evidence} It takes num_items_in_batch to no effect.", "mean of means")
    else:
        yield Finding("accumulation", UNKNOWN, f"{evidence} What your trainer does is not known: pass step.")


def _stepped(case: Case, batches: list[dict], step: Callable, shares: Sequence[float], evidence: str) -> Finding:
    """How much each micro-batch weighs in the gradient that a trainer's step adds up."""
    parameters = [p for p in case.box.module.parameters() if p.requires_grad]
    before = [(p, p.detach().clone(), p.grad) for p in parameters]

    def flat(parts: Sequence[Tensor | None]) -> Tensor:
        whole = [torch.zeros_like(p) if x is None else x for p, x in zip(parameters, parts, strict=True)]
        return torch.cat([x.detach().double().flatten() for x in whole])

    alone = [flat(torch.autograd.grad(case.box(batch).loss, parameters, allow_unused=True)) for batch in batches]
    sums = [torch.zeros_like(p) for p in parameters]
    hooks = [p.register_hook(partial(_add, total)) for p, total in zip(parameters, sums, strict=True)]
    try:
        for p in parameters:
            p.grad = None
        case.box.reseed()
        step(case.box.model, deepcopy(batches))
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for p, value, grad in before:
                p.copy_(value)
                p.grad = grad
    got = torch.linalg.lstsq(torch.stack(alone, 1), flat(sums)[:, None]).solution[:, 0].tolist()
    evidence += f" In the step they weigh {got[0]:.3g} and {got[1]:.3g}; right is {shares[0]:.3g} and {shares[1]:.3g}."
    if np.allclose(got, shares, rtol=0.05):
        return Finding("accumulation", PASSED, evidence)
    alike = abs(got[0] / got[1] - 1) < 0.05
    names = "sum of means" if alike and abs(got[0] - 1) < 0.05 else "mean of means" if alike else "other weights"
    return Finding.failed("accumulation", evidence, names)


def _add(total: Tensor, gradient: Tensor) -> None:
    total.add_(gradient)
