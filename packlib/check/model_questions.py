"""The questions about what a model computes for each token of a pack, each answered from calls alone."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from packlib.check.black_box import EXACT
from packlib.check.case import Case
from packlib.check.causes import MASK, POSITIONS, additive, document_mask, is_mask, restarting
from packlib.check.collated import found_in
from packlib.check.findings import PASSED, UNKNOWN, Finding
from packlib.check.locating import Piece


def determinism(case: Case) -> Iterator[Finding]:
    same, other = case.noise
    evidence = (
        f"Two calls with one batch differ by {same:.2g} of the outputs with one seed, by {other:.2g} with another."
    )
    if max(same, other) > 256 * case.rounding:
        yield Finding.failed("determinism", evidence, "kept" if same > 256 * case.rounding else "dropout")
    else:
        yield Finding("determinism", PASSED, evidence)


def tokens(case: Case, asked: np.ndarray) -> Iterator[Finding]:
    """What the collator makes of all sequences, and of few.

    Args:
        asked: shape (N,), the slots that the loss asks for, or asks.
    """
    said = dict[str, str]()
    last = False
    for rows in (case.given, case.few):
        pieces = [piece for batch in case.collate(rows) for piece in found_in(batch, rows)]
        for index, row in enumerate(rows):
            mine = [piece.places for piece in pieces if piece.sequence == index]
            held = np.bincount(np.concatenate([np.empty(0, int), *mine]), minlength=len(row["input_ids"]))
            kind = "lost" if not mine else "short" if not held.all() else "twice" if held.max() > 1 else "cut"
            if kind != "cut" or len(mine) > 1:
                text = (
                    f"of {len(rows)} sequences, number {index} with {len(held)} tokens has {(held == 0).sum()} in no "
                )
                said.setdefault(kind, text + f"pack and {(held > 1).sum()} twice, in {len(mine)} pieces")
                last |= kind == "lost" and index == len(rows) - 1
    many, token, where = _added(case, asked)
    if many:
        said["added"] = f"{many} slots hold the token {token} {where} of a sequence, and no sequence has it there"
    if said:
        evidence = f"{'; '.join(said.values()).capitalize()}."
        which = "the last one" if last else "in no batch"
        yield Finding.failed("tokens", evidence, said, which=which, many=many, token=token, where=where)
    else:
        count = sum(len(row["input_ids"]) for row in case.given)
        yield Finding("tokens", PASSED, f"All {count} tokens of {len(case.given)} sequences are there once.")


def _added(case: Case, asked: np.ndarray) -> tuple[int, int, str]:
    """Tokens of no sequence beside each of them that count for something: how many, which, and where."""
    owner, ids, width = case.owner.ravel(), case.ids.flatten().cpu().numpy(), case.ids.shape[-1]
    used = asked if case.own.slopes is None else asked | (case.own.slopes > EXACT).any(0)
    for where, beside in (("before the first", -1), ("after the last", 1)):
        slots = np.array([piece.slots[0 if beside < 0 else -1] for piece in case.pieces]) + beside
        if (slots // width != (slots - beside) // width).any() or (owner[slots] >= 0).any() or not used[slots].any():
            continue
        beyond = slots + beside  # padding goes on
        more = (beyond // width == slots // width) & (np.take(ids, beyond, mode="clip") == ids[slots])
        if len(set(ids[slots].tolist())) == 1 and more.mean() < 0.5:
            return len(slots), int(ids[slots[0]]), where
    return 0, 0, ""


def isolation(case: Case) -> Iterator[Finding]:
    """In both directions."""
    shared = len(set(case.rows.tolist())) < len(case.pieces)
    how = "changed tokens" if case.own.slopes is None else "gradients and changed tokens"
    for where in ("earlier", "later"):
        question, leak = f"isolation from {where} sequences", case.leak(case.own, where)
        if leak is not None:
            looks, sees = (case.pieces[number].sequence for number in (leak.looks, leak.sees))
            evidence = f"Sequence {looks} depends on sequence {sees}, by a {leak.by} of {leak.strength:.2g}"
            met = f"; they meet first in {case.why.place}" * bool(case.why.place)
            yield Finding.failed(question, f"{evidence}{met}.", case.why.causes, name=case.why.name)
        elif shared:
            yield Finding(question, PASSED, f"{len(case.pieces)} sequences do not depend on one another, by {how}.")
        else:
            yield Finding(question, UNKNOWN, "No row holds two sequences: give more, or shorter ones.")


def padding(case: Case) -> Iterator[Finding]:
    slopes, slots = case.own.slopes, case.padding
    if not len(slots):
        yield Finding("padding", PASSED, "The batch holds no padding.")
        return
    change = case.apart(case.box(case.moved(case.batch, slots)).outputs, case.seen.outputs)[case.owner.ravel() >= 0]
    by, strength, limit = ("move", float(change.max()), case.limit) if slopes is None else (
        "gradient", float(slopes[:, slots].max()), EXACT)  # fmt: skip
    evidence = f"Tokens depend on the {len(slots)} slots of padding by a {by} of {strength:.2g}."
    if strength <= limit:
        yield Finding("padding", PASSED, evidence)
    else:
        yield Finding.failed("padding", evidence, "nan" if np.isnan(strength) else "padding")


def positions(case: Case) -> Iterator[Finding]:
    if max(case.noise) > 0.1:
        yield Finding("positions", UNKNOWN, f"Calls that should be the same differ by {max(case.noise):.2g}.")
    elif POSITIONS in case.blamed or (not case.bare and _uneven(case)):
        yield _wrong_positions(case)
    elif (batch := case.why.cured if case.leaks else case.batch) is None:
        yield Finding("positions", UNKNOWN, "Sequences see others, and no change of the batch stops it.")
    elif case.bare and POSITIONS in case.batch and (case.leaks or not case.late_alone):
        yield Finding("positions", PASSED, "Each sequence alone is the same with the position_ids of the batch.")
    else:
        given = {name: value for name, value in batch.items() if name != POSITIONS or name in case.batch}
        differing = case.differing(given)
        evidence = f"{len(differing)} of {len(case.pieces)} sequences differ from what they are alone"
        mended = {**given, POSITIONS: restarting(case.ids, case.pieces, case.start or 0)}
        if not differing:
            start = (
                "" if case.bare else "; where they begin cannot be told, as the model takes no tokens by themselves"
            )
            yield Finding("positions", PASSED, f"{evidence}{start}.")
        elif not case.differing(mended):
            evidence += f", by {max(differing.values()):.2g}, and none with position_ids that restart."
            yield Finding.failed("positions", evidence, "positions run on")
        elif case.late_alone:
            yield Finding.failed("positions", f"{evidence}, and none that begins a row.", "own positions")
        else:
            yield Finding("positions", UNKNOWN, f"{evidence}, whatever position_ids they get.")


def _given(case: Case) -> list[np.ndarray]:
    """The position_ids that the batch has for each piece; none if it has no one for each slot."""
    given = case.batch.get(POSITIONS)
    if given is None or given.shape != case.ids.shape:
        return []
    return [given.flatten()[piece.slots].cpu().numpy() for piece in case.pieces]


def _uneven(case: Case) -> bool:
    """Whether positions do not go up by 1 in a sequence, and the model reads them."""
    given = _given(case)
    if not any((np.diff(values) != 1).any() for values in given):
        return False
    begin = int(given[0][0])
    seen = case.box.runs({**case.batch, POSITIONS: restarting(case.ids, case.pieces, begin)})
    return seen is None or not bool(case.apart(seen.outputs, case.seen.outputs).max() <= case.limit)


def _wrong_positions(case: Case) -> Finding:
    given, own = _given(case), case.start
    starts = np.array([values[0] for values in given])
    columns = np.array([piece.slots[0] for piece in case.pieces]) % case.ids.shape[-1]
    evidence = f"They begin at {', '.join(map(str, starts))}"
    if POSITIONS in case.blamed:
        number, far = case.blamed[POSITIONS][0]
        evidence += f", and the model's own at {own}" * (own is not None) + ". With them, "
        evidence += f"sequence {case.pieces[number].sequence} alone differs by {far:.2g}"
    names = "first position"
    if any((np.diff(values) != 1).any() for values in given):
        names, at = "uneven positions", next(at for at, values in enumerate(given) if (np.diff(values) != 1).any())
        place = int((np.diff(given[at]) != 1).argmax())
        evidence += f". In sequence {case.pieces[at].sequence} {given[at][place + 1]} comes after {given[at][place]}"
    elif columns.any() and (starts - starts[0] == columns).all():
        names = "positions run on"
    elif own is None or (starts == own).all():
        names = "changed positions"
    wrong = next((start for start in starts if start != own), starts[0])
    return Finding.failed("positions", f"{evidence}.", names, given=wrong, own=own or 0)


def sameness(case: Case) -> Iterator[Finding]:
    """Whether each sequence gets in the pack what it gets alone, for whatever reason."""
    question, differing = "same as alone", case.differing()
    if max(case.noise) > 0.1 or any(alone is None for alone in case.alone):
        yield Finding(question, UNKNOWN, "The model takes no sequence alone, or gives it other outputs each time.")
        return
    evidence = (
        f"{len(differing)} of {len(case.pieces)} sequences differ, by {max(differing.values(), default=0.0):.2g} of "
    )
    evidence += f"the outputs; what is below {case.limit:.2g} is noise or rounding."
    name = next((name for name in case.blamed if name != POSITIONS), None)
    if name is not None:
        number = case.blamed[name][0][0]
        about_mask = name == MASK or is_mask(case.batch[name], case.ids)
        names, window = _mask_cause(case, name, number) if about_mask and case.bare else ("input", 0)
        yield Finding.failed(question, evidence, names, name=name, window=window)
    elif not differing:
        yield Finding(question, PASSED, evidence)
    else:
        padded = case.own.slopes is not None and case.own.slopes[:, case.padding].max(initial=0) > EXACT
        above = case.leaks or padded or case.late_alone or POSITIONS in case.blamed
        yield Finding.failed(question, evidence, "above" if above else "otherwise")


def _mask_cause(case: Case, name: str, number: int) -> tuple[str, int]:
    """Which change of its mask makes a sequence what it is alone; and the window, if it is one."""
    piece, dtype = case.pieces[number], case.seen.outputs.dtype
    mask, length = case.part_of(case.batch[name], piece), len(piece.slots)

    def mends(mask: Tensor) -> bool:
        seen = case.box.runs({**case.alone_batch(piece), name: mask})
        return seen is not None and bool(case.apart(seen.outputs, case.alone[number]).max() <= case.limit)  # type: ignore[arg-type]

    if not is_mask(mask, case.alone_batch(piece)["input_ids"]):
        return "hides", 0
    if mends(mask.transpose(-1, -2)):
        return "transposed", 0
    if mask.dtype == torch.bool and mends(additive(mask, dtype)):
        return "boolean", 0
    whole = document_mask(
        case.alone_batch(piece)["input_ids"], [Piece(0, np.arange(length), np.arange(length))], case.causal
    )
    if mends(additive(whole, dtype)):
        return "inside", 0
    back = (torch.arange(length)[:, None] - torch.arange(length)).abs().to(whole.device)
    window = next((w for w in range(1, length) if mends(additive(whole & (back < w), dtype))), 0)
    return ("window" if window else "windows"), window
