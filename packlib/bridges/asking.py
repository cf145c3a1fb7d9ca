"""The questions of a check, each answered from calls of the model alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from packlib.bridges.causes import (
    LEAKS,
    MASK,
    POSITIONS,
    Meeting,
    additive,
    document_mask,
    is_mask,
    leak_causes,
    restarting,
)
from packlib.bridges.findings import FAILED, PASSED, UNKNOWN, Finding
from packlib.bridges.probing import EXACT, Box, Piece, gradients, locate
from packlib.checks import shown

_OF_SEQUENCES = ("input_ids", "labels", MASK)  # columns that a batch changes


class Asked:
    """One model and collator under question: the batch, where its sequences are, and what each gives alone."""

    def __init__(self, box: Box, collate: Callable, given: list[dict], few: list[dict], reduction: str | None,
                 step: Callable | None, reference: Callable | None) -> None:  # fmt: skip
        self.box, self._collate, self.given, self.few = box, collate, given, few
        self.reduction, self.step, self.reference = reduction, step, reference
        (self.batch, *more) = self.collate(few)
        if more:
            raise ValueError(f"collate must return one batch, not {1 + len(more)}.")
        self.pieces = self.found_in(self.batch, few)
        if not self.pieces:
            raise ValueError("collate must keep the tokens of the sequences: none of them is in its input_ids.")
        self.seen = box(self.batch)
        self.ids: Tensor = self.batch["input_ids"]
        self.rows = [int(piece.slots[0]) // self.ids.shape[-1] for piece in self.pieces]
        self.owner = np.full(self.ids.numel(), -1)
        for number, piece in enumerate(self.pieces):
            self.owner[piece.slots] = number
        self.padding = np.flatnonzero(self.owner < 0)
        self.dtype = self.seen.outputs.dtype
        self.cured: dict | None = None

    def collate(self, sequences: list[dict]) -> list[dict]:
        self.box.reseed()
        made = self._collate(deepcopy(sequences))
        batches = list(made) if isinstance(made, list | tuple) else [made]
        for batch in batches:
            if not isinstance(batch, Mapping) or "input_ids" not in batch:
                raise TypeError(f"collate must return a mapping with input_ids, not {shown(batch)}.")
        batches = [{name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in batch.items()}
                   for batch in batches]  # fmt: skip
        for batch in batches:
            if not isinstance(batch["input_ids"], Tensor) or batch["input_ids"].is_floating_point():
                raise TypeError(f"input_ids of a batch must be a tensor of integers, not {shown(batch['input_ids'])}.")
        return batches

    @staticmethod
    def found_in(batch: dict, sequences: Sequence[dict]) -> list[Piece]:
        return locate(batch["input_ids"].cpu().numpy(), [np.asarray(row["input_ids"]) for row in sequences])

    @cached_property
    def noise(self) -> float:
        """How far outputs are apart that should be the same, relative to their size: rounding, and what is random."""
        again = self.box(self.batch, reseed=False).outputs
        apart = self.apart(again, self.seen.outputs).max().item()
        single = self.box.runs(self.alone_input(self.pieces[0]))
        double = self.box.runs({name: torch.cat([x, x]) if isinstance(x, Tensor) else x
                                for name, x in self.alone_input(self.pieces[0]).items()})  # fmt: skip
        if single is None or double is None or len(double.outputs) != 2 * len(single.outputs):
            return apart
        return max(apart, self.apart(double.outputs[: len(single.outputs)], single.outputs).max().item())

    @property
    def limit(self) -> float:
        """Outputs that are no farther apart are the same."""
        rounding = torch.finfo(self.dtype).eps
        return max(10 * self.noise, (8 if rounding > 1e-4 else 256) * rounding)

    def apart(self, outputs: Tensor, others: Tensor) -> Tensor:
        """How far the outputs of each slot are apart, relative to their size in the whole batch; shape (N,)."""
        size = self.seen.outputs.double().square().mean().sqrt().clamp(min=1e-30)
        return (outputs.detach().double() - others.detach().double()).square().mean(1).sqrt() / size

    def alone_input(self, piece: Piece, given: bool = False) -> dict:
        """The batch of one piece alone: its tokens and the columns of its sequence; if `given`, what the batch says."""
        if given:
            return {name: part for name, value in self.batch.items() if (part := self.part_of(value, piece)) is not None}
        if self.reference is not None and self.whole(piece):
            return dict(self.reference(self.few[piece.sequence]))
        own = {name: self.part_of(self.batch[name], piece) for name in ("input_ids", "labels") if name in self.batch}
        row = self.few[piece.sequence]
        for name, value in row.items():
            if name not in _OF_SEQUENCES and np.ndim(value) == 1 and len(value) == len(row["input_ids"]):
                if name in self.batch:
                    own[name] = torch.as_tensor(np.asarray(value)[piece.places]).view_as(own["input_ids"])
        return {name: value for name, value in own.items() if value is not None}

    def part_of(self, value: Any, piece: Piece) -> Any:
        """What a field of the batch holds for a piece, as of a batch of one row; None if it has no such part."""
        if isinstance(value, bool | str):
            return value
        width, row = self.ids_width, int(piece.slots[0]) // self.ids_width
        columns = torch.from_numpy(piece.slots % width)
        if isinstance(value, Tensor) and value.shape == self.batch["input_ids"].shape:
            part = value.flatten()[piece.slots]
            return part[None] if value.dim() > 1 else part
        if is_mask(value, self.batch["input_ids"]):
            rows = value[row : row + 1] if value.dim() > 2 and value.shape[0] > 1 else value
            return rows[..., columns, :][..., columns]
        return None

    @property
    def ids_width(self) -> int:
        return self.batch["input_ids"].shape[-1]

    def whole(self, piece: Piece) -> bool:
        return len(piece.slots) == len(self.few[piece.sequence]["input_ids"])

    @cached_property
    def bare(self) -> bool:
        """Whether the model takes the tokens of a sequence without anything that `collate` says of them."""
        return self.box.runs(self.alone_input(self.pieces[0])) is not None

    @cached_property
    def alone(self) -> list[Tensor | None]:
        """The outputs of each piece alone."""
        return [self._alone(piece) for piece in self.pieces]

    def _alone(self, piece: Piece) -> Tensor | None:
        if self.bare:
            return self.box(self.alone_input(piece)).outputs.detach()
        if not self.whole(piece):
            return None
        (batch, *_) = self.collate([self.few[piece.sequence]])
        (found, *_) = self.found_in(batch, [self.few[piece.sequence]])
        seen = self.box.runs(batch)
        return None if seen is None else seen.outputs[found.slots].detach()

    def differing(self, batch: dict | None = None) -> dict[int, float]:
        """The pieces whose outputs in a batch differ from what they are alone, and how far."""
        seen = self.seen if batch is None else self.box.runs(batch)
        found = {}
        for number, (piece, alone) in enumerate(zip(self.pieces, self.alone, strict=True)):
            far = torch.inf if seen is None else 0.0
            if seen is not None and alone is not None:
                far = self.apart(seen.outputs[piece.slots], alone).max().item()
            if not far <= self.limit:
                found[number] = far
        return found

    @cached_property
    def causal(self) -> bool:
        """Whether the first token of a sequence, alone, does not depend on the last."""
        piece = max(self.pieces, key=lambda piece: len(piece.slots))
        batch = self.alone_input(piece) if self.bare else self.batch
        first, last = (0, len(piece.slots) - 1) if self.bare else (piece.slots[0], piece.slots[-1])
        seen = self.box(batch)
        depends = gradients(seen.outputs, seen.embeddings, batch["input_ids"], [np.array([first])])
        if depends is not None:
            return not depends[0, last] > EXACT * depends.max()
        moved = self.box(self.moved(batch, np.array([last])))
        return not self.apart(moved.outputs, seen.outputs)[first] > self.limit

    def moved(self, batch: dict, slots: np.ndarray) -> dict:
        """The batch with other tokens at these slots, of those that it holds."""
        ids = batch["input_ids"].clone()
        pool = self.ids_of_pieces.to(ids.device)
        flat = ids.flatten()
        flat[slots] = pool[(torch.searchsorted(pool, flat[slots].contiguous()) + 1) % len(pool)]
        return {**batch, "input_ids": flat.view_as(ids)}

    @cached_property
    def ids_of_pieces(self) -> Tensor:
        return self.batch["input_ids"].flatten()[np.concatenate([piece.slots for piece in self.pieces])].unique()

    def influence(self, batch: dict | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """How much each piece depends on each slot, shape (P, N), by gradients; and on each piece, (P, P), by moving.

        Both are relative to the largest of all; the first is None without gradients.
        """
        batch = self.batch if batch is None else batch
        seen = self.box(batch)
        targets = [piece.slots for piece in self.pieces]
        depends = gradients(seen.outputs, seen.embeddings, batch["input_ids"], targets)
        by_gradient = None if depends is None else (depends / depends.max()).numpy()
        by_moving = np.zeros((len(targets),) * 2)
        for source, slots in enumerate(targets):
            change = self.apart(self.box(self.moved(batch, slots)).outputs, seen.outputs)
            by_moving[:, source] = [change[slots].max().item() for slots in targets]
        return by_moving, by_gradient

    def leak(self, influence: tuple, earlier: bool | None = None) -> tuple[float, str, int, int] | None:
        """The strongest influence of a piece on another: how strong, by what, which sees which.

        Args:
            earlier: only of pieces that come earlier in the row (or later), rows apart; None for any.
        """
        by_moving, by_gradient = influence
        least = max(10 * self.repeated, (4 if torch.finfo(self.dtype).eps > 1e-4 else 16) * torch.finfo(self.dtype).eps)
        found = None
        for by, values, limit in (("gradient", by_gradient, EXACT), ("change", by_moving, least)):
            if values is None or found is not None:
                continue
            for looks in range(len(self.pieces)):
                for sees in range(len(self.pieces)):
                    same = self.rows[looks] == self.rows[sees]
                    if looks == sees or (earlier is not None and (sees < looks or not same) != earlier):
                        continue
                    value = values[looks, self.pieces[sees].slots].max() if by == "gradient" else values[looks, sees]
                    if not value <= limit and (found is None or value > found[0]):
                        found = float(value), by, looks, sees
        return found

    @cached_property
    def repeated(self) -> float:
        """How far two calls with one batch and one seed are apart."""
        return self.apart(self.box(self.batch).outputs, self.seen.outputs).max().item()

    @cached_property
    def own_influence(self) -> tuple[np.ndarray, np.ndarray | None]:
        return self.influence()

    @cached_property
    def leak_found(self) -> tuple[list[str], Meeting | None]:
        """Why sequences see others: names in `LEAKS`, and where."""

        def leaks(batch: dict) -> bool | None:
            return None if self.box.runs(batch) is None else self.leak(self.influence(batch)) is not None

        causes, self.cured, place = leak_causes(self.box, self.batch, self.pieces, self.causal, self.dtype, leaks)
        return causes, place

    @cached_property
    def blamed(self) -> dict[str, list[tuple[int, float]]]:
        """The fields of the batch that change what a sequence is alone: which pieces, and how far."""
        return _blamed(self)

    @cached_property
    def start(self) -> int | None:
        """The first position that the model gives a sequence alone; None if it is not among 0 to 4."""
        batch = self.alone_input(self.pieces[0])
        for start in range(5):
            whole = [Piece(0, np.arange(batch["input_ids"].numel()), self.pieces[0].places)]
            seen = self.box.runs({**batch, POSITIONS: restarting(batch, whole, start)})
            if seen is not None and not self.apart(seen.outputs, self.alone[0]).max() > self.limit:
                return start
        return None

    def name(self, number: int) -> str:
        return f"sequence {self.pieces[number].sequence}"

    @property
    def shared(self) -> bool:
        """Whether a row holds more than one piece."""
        return len(set(self.rows)) < len(self.rows)


def determinism(case: Asked) -> Iterator[Finding]:
    random = case.apart(case.box(case.batch, reseed=False).outputs, case.seen.outputs).max().item()
    evidence = f"Two calls with one batch differ by {case.repeated:.2g} with one seed and by {random:.2g} without."
    if case.repeated > 256 * torch.finfo(case.dtype).eps:
        cause = "something is kept from call to call: a cache that is left on, or a state that is not reset"
        yield Finding("determinism", FAILED, evidence, cause, "Keep nothing between calls, or clear it before each.")
    elif random > 256 * torch.finfo(case.dtype).eps:
        cause = "random numbers are drawn although the model evaluates: dropout is left on"
        yield Finding("determinism", FAILED, evidence, cause, "Let dropout follow module.training; it hides other faults.")
    else:
        yield Finding("determinism", PASSED, evidence)


def tokens(case: Asked) -> Iterator[Finding]:
    """What `collate` makes of all sequences, and of few."""
    said = {"lost": [], "cut": [], "twice": [], "short": []}
    for rows in (case.given, case.few):
        pieces = [piece for batch in case.collate(rows) for piece in case.found_in(batch, rows)]
        for index, row in enumerate(rows):
            length = len(row["input_ids"])
            mine = [piece for piece in pieces if piece.sequence == index]
            held = np.bincount(np.concatenate([piece.places for piece in mine]), minlength=length) if mine else np.zeros(length)
            lacking = int((held == 0).sum())
            if not mine:
                said["lost"].append((index, length, len(rows)))
            elif lacking:
                said["short"].append((index, lacking, len(rows)))
            elif (held > 1).any():
                said["twice"].append((index, int((held > 1).sum()), len(rows)))
            elif len(mine) > 1:
                said["cut"].append((index, len(mine), len(rows)))
    texts = {
        "lost": ("sequence {} with its {} tokens, of {}, is in no batch", "a sequence is lost{}",
                 "Make a batch of what is left over at the end."),
        "short": ("sequence {} lacks {} tokens (of {} sequences)", "tokens are lost: sequences are truncated",
                  "Split what is longer than a row, or say so."),
        "twice": ("sequence {} has {} tokens twice (of {} sequences)", "a sequence is there twice",
                  "Put each sequence into one pack."),
        "cut": ("sequence {} is cut into {} pieces (of {} sequences), which do not see each other",
                "sequences are cut at the end of a row (wrapped packing)", "Pack whole sequences, as bfd does."),
    }  # fmt: skip
    kinds = [kind for kind, found in said.items() if found]
    if not kinds:
        evidence = f"All {sum(len(row['input_ids']) for row in case.given)} tokens of {len(case.given)} sequences are there once."
        yield Finding("tokens", PASSED, evidence)
        return
    evidence = "; ".join(texts[kind][0].format(*said[kind][0]) for kind in kinds) + "."
    last = all(index == total - 1 for index, _, total in said["lost"])
    cause = "; ".join(texts[kind][1].format(": the last one" if last else "") for kind in kinds)
    yield Finding("tokens", FAILED, evidence, cause, " ".join(texts[kind][2] for kind in kinds))


def isolation(case: Asked) -> Iterator[Finding]:
    for question, earlier in (("isolation from earlier sequences", True), ("isolation from later sequences", False)):
        if len(case.pieces) < 2:
            yield Finding(question, UNKNOWN, "The batch holds one sequence.")
            continue
        leak = case.leak(case.own_influence, earlier)
        how = "gradients and changed tokens" if case.own_influence[1] is not None else "changed tokens"
        if leak is None:
            note = "" if case.shared else " Each row holds one sequence."
            yield Finding(question, PASSED, f"No influence, by {how}, between {len(case.pieces)} sequences.{note}")
            continue
        strength, by, looks, sees = leak
        causes, place = case.leak_found
        where = f" They meet first in {place.path}, {place.reach} tokens apart at most." if place and place.path else ""
        evidence = (
            f"{case.name(looks).capitalize()} depends on {case.name(sees)}: a {by} of {strength:.2g} of the largest."
            f"{where}"
        )
        cause = "; and ".join(LEAKS[name][0] for name in causes)
        yield Finding(question, FAILED, evidence, cause, LEAKS[causes[0]][1])


def padding(case: Asked) -> Iterator[Finding]:
    if not len(case.padding):
        yield Finding("padding", PASSED, "The batch holds no padding.")
        return
    by_moving, by_gradient = case.own_influence
    if by_gradient is not None:
        strength, limit, by = by_gradient[:, case.padding].max(), EXACT, "gradient"
    else:
        change = case.apart(case.box(case.moved(case.batch, case.padding)).outputs, case.seen.outputs)
        strength, limit, by = change[case.owner >= 0].max().item(), case.limit, "change"
    evidence = f"Of {len(case.padding)} slots of padding tokens depend by a {by} of {strength:.2g} of the largest."
    if np.isnan(strength):
        cause = "gradients are NaN: padding has a row of the mask in which everything is hidden by -inf"
        yield Finding("padding", FAILED, evidence, cause, "Hide with torch.finfo(dtype).min, or let padding see itself.")
    elif strength > limit:
        cause = "padding is attended: the mask does not hide it"
        yield Finding("padding", FAILED, evidence, cause, "Give an attention_mask that is 0 on padding, or a 4D one.")
    else:
        yield Finding("padding", PASSED, evidence)


def positions(case: Asked) -> Iterator[Finding]:
    if POSITIONS in case.blamed:
        yield _wrong_positions(case)
        return
    batch = case.batch if case.leak(case.own_influence) is None else case.cured
    if batch is None:
        yield Finding("positions", UNKNOWN, "Sequences see others, and no change of the batch stops it.")
        return
    if case.bare and POSITIONS in case.batch:
        yield Finding("positions", PASSED, "Each sequence alone is the same with the position_ids of the batch.")
        return
    without = {name: value for name, value in batch.items() if name != POSITIONS or name in case.batch}
    differing = case.differing(without)
    evidence = f"{len(differing)} of {len(case.pieces)} sequences differ from what they are alone"
    cause = "the positions run on: each row is numbered from its first slot, not from the first token of a sequence"
    firsts = {number for number, row in enumerate(case.rows) if row not in case.rows[:number]}
    if not differing:
        start = "" if case.bare else " Where they begin cannot be told, as the model takes no tokens without collate."
        yield Finding("positions", PASSED, f"{evidence}.{start}")
    elif not case.differing({**without, POSITIONS: restarting(batch, case.pieces, case.start or 0)}):
        evidence += f", by {max(differing.values()):.2g} of the outputs, and none with position_ids that restart"
        yield Finding("positions", FAILED, f"{evidence}.", cause, "Give position_ids that restart with each sequence.")
    elif case.shared and not firsts & set(differing):
        yield Finding("positions", FAILED, f"{evidence}, and none that begins a row.", cause, "Restart them in the model.")
    else:
        yield Finding("positions", UNKNOWN, f"{evidence}, whatever position_ids they get.")


def _wrong_positions(case: Asked) -> Finding:
    number, far = case.blamed[POSITIONS][0]
    given = [case.batch[POSITIONS].flatten()[piece.slots].tolist() for piece in case.pieces]
    starts = [values[0] for values in given]
    uneven = [values for values in given if any(b - a != 1 for a, b in zip(values, values[1:], strict=False))]
    own = "unlike these" if case.start is None else f"from {case.start}"
    evidence = f"They begin at {', '.join(map(str, starts))}; the model numbers a sequence alone {own}. With them "
    evidence += f"{case.name(number)} alone differs by {far:.2g} of its outputs."
    if uneven:
        cause = f"position_ids do not go up by 1 inside a sequence: {shown(uneven[0])}"
    elif len(set(starts)) > 1:
        cause = "position_ids run on: they do not restart with each sequence"
    else:
        cause = f"position_ids begin in the wrong place: at {starts[0]} where the model begins at {case.start}"
    return Finding("positions", FAILED, evidence, cause, f"Let them go up by 1 from {case.start or 0} in each sequence.")


def sameness(case: Asked) -> Iterator[Finding]:
    """Whether each sequence gets in the pack what it gets alone, for whatever reason."""
    question, differing = "same as alone", case.differing()
    if case.noise > 0.1:
        yield Finding(question, UNKNOWN, f"Calls that should be the same differ by {case.noise:.2g} of the outputs.")
        return
    if any(alone is None for alone in case.alone):
        yield Finding(question, UNKNOWN, "The model takes no sequence alone: pass reference.")
        return
    far = max(differing.values(), default=0.0)
    evidence = f"{len(differing)} of {len(case.pieces)} sequences differ, by {far:.2g} of the outputs at most; the limit "
    evidence += f"is {case.limit:.2g}, ten times their noise or rounding."
    others = [name for name in case.blamed if name != POSITIONS]
    if others and is_mask(case.batch[others[0]], case.ids) or others == [MASK]:
        yield Finding(question, FAILED, evidence, *_mask_cause(case, others[0], case.blamed[others[0]][0][0]))
    elif others:
        cause = f"{others[0]} are not the sequence's own: without them it is as alone"
        yield Finding(question, FAILED, evidence, cause, f"Carry {others[0]} along with each sequence's tokens.")
    elif not differing:
        yield Finding(question, PASSED, evidence)
    else:
        named = [case.leak(case.own_influence) is not None, POSITIONS in case.blamed, POSITIONS not in case.batch]
        named.append(case.own_influence[1] is not None and case.own_influence[1][:, case.padding].max(initial=0) > EXACT)
        cause = "the failures named above" if any(named) else (
            "inside a sequence the model computes otherwise than alone: packs replace its own window or mask, or it "
            "numbers the positions of a row itself"
        )  # fmt: skip
        yield Finding(question, FAILED, evidence, cause, "Compare a sequence alone with the same one in a pack.")


def _mask_cause(case: Asked, name: str, number: int) -> tuple[str, str]:
    """Which change of its mask makes a sequence what it is alone."""
    piece, alone = case.pieces[number], case.alone_input(case.pieces[number])
    part, length = case.part_of(case.batch[name], piece), len(piece.slots)

    def mends(mask: Tensor) -> bool:
        seen = case.box.runs({**alone, name: mask})
        return seen is not None and not case.apart(seen.outputs, case.alone[number]).max() > case.limit

    if not is_mask(part, alone["input_ids"]):
        return f"the {name} hides tokens of the sequence", f"Let {name} be 0 on padding alone."
    if mends(part.transpose(-1, -2)):
        return "the mask is transposed: queries are its rows, and keys its columns", "Transpose its last two dimensions."
    if part.dtype == torch.bool and mends(additive(part, case.dtype)):
        return LEAKS["boolean"]
    if mends(additive(document_mask(alone, [Piece(0, np.arange(length), np.arange(length))], case.causal), case.dtype)):
        return "the mask hides or shows other tokens of the sequence than the model does alone", "Make it block-diagonal."
    back = torch.arange(length)[:, None] - torch.arange(length)
    for window in range(1, length):
        near = (back < window) & ((back >= 0) if case.causal else (-back < window))
        if mends(additive(near, case.dtype)[None, None]):
            text = f"a sliding window is replaced by the packed mask: with one of {window} it would be exact"
            return text, "Build the model's own window into the mask of packs."
    text = "the packed mask replaces the model's own: a sliding window, of some layers perhaps, or chunks"
    return text, "Let the model make its masks, or give each kind of layer its own."


def _blamed(case: Asked) -> dict[str, list[tuple[int, float]]]:
    """The fields of the batch that change what a sequence is alone: which sequences, and how far."""
    found: dict[str, list[tuple[int, float]]] = {}
    for number, (piece, output) in enumerate(zip(case.pieces, case.alone, strict=True)):
        alone = case.alone_input(piece)
        for name, value in case.alone_input(piece, given=True).items():
            if name in ("input_ids", "labels") or not isinstance(value, Tensor) or not case.bare:
                continue
            seen = case.box.runs({**alone, name: value})
            if seen is None or len(seen.outputs) != len(output):
                continue
            far = case.apart(seen.outputs, output).max().item()
            if not far <= case.limit:
                found.setdefault(name, []).append((number, far))
    return found
