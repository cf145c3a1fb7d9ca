"""The questions about what a model computes for each token of a pack, each answered from calls alone."""

from collections.abc import Iterator

import numpy as np
import torch

from packlib.tools.check.called_model import EXACT
from packlib.tools.check.causes import Why, additive, document_mask
from packlib.tools.check.collated_batch import CheckedBatch, found_in
from packlib.tools.check.findings import FAILED, INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.locating import MASK, POSITIONS, Piece, has_slots, is_mask, restarting


def determinism(checked: CheckedBatch) -> Finding:
    (same, other), (loss, other_loss) = checked.noise, checked.loss_noise
    evidence = (
        f"Two calls with one batch differ by {same:.2g} of the outputs with one seed, by {other:.2g} with another."
    )
    if max(loss, other_loss) > max(same, other, 256 * checked.rounding):
        evidence += f" Their losses differ by {loss:.2g} and {other_loss:.2g}."
    if max(same, other, loss, other_loss) <= 256 * checked.rounding:
        if checked.moved_by_calls > checked.limit:
            apart = f"{checked.moved_by_calls:.2g}"
            evidence += f" A short batch gets other outputs after a longer one than before it, by {apart}."
            return Finding.failed("determinism", evidence, "kept from another")
        return Finding("determinism", PASSED, evidence)
    return Finding.failed("determinism", evidence, "kept" if max(same, loss) > 256 * checked.rounding else "dropout")


def tokens(checked: CheckedBatch, asked: np.ndarray) -> Finding:
    """Find out if the collator keeps the tokens of all sequences, and of few.

    Args:
        asked: shape (N,), the slots that the loss asks for, or asks.
    """
    said, last = dict[str, str](), False
    for rows in (checked.given, checked.few):
        batch = checked.collate(rows)
        pieces = found_in(batch, rows)
        aims = batch.get("labels") if has_slots(batch.get("labels"), batch["input_ids"]) else None
        for index, row in enumerate(rows):
            mine = [piece.offsets for piece in pieces if piece.sequence == index]
            held = np.bincount(np.concatenate([np.empty(0, int), *mine]), minlength=len(row["input_ids"]))
            whole = next((piece for piece in pieces if piece.sequence == index and len(mine) == 1), None)
            if whole is not None and aims is not None and held[:-1].all() and not held[-1]:
                # labels that are shifted beforehand: the last token is a target alone
                aim = int(aims.flatten()[int(whole.slots[-1])])
                held[-1] = aim in (row["input_ids"][-1], row.get("labels", row["input_ids"])[-1])
            kind = "lost" if not mine else "short" if not held.all() else "twice" if held.max() > 1 else "cut"
            if kind != "cut" or len(mine) > 1:
                text = (
                    f"of {len(rows)} sequences, number {index} with {len(held)} tokens has {(held == 0).sum()} in no "
                )
                said.setdefault(kind, text + f"pack and {(held > 1).sum()} twice, in {len(mine)} pieces")
                last |= kind == "lost" and index == len(rows) - 1
    if stale := _not_given(checked):
        said["stale"] = f"the batch of {len(checked.parts[1])} sequences holds {stale} others"
    count, token, where = _added(checked, asked)
    if count:
        said["added"] = f"{count} slots hold the token {token} {where} of a sequence, and no sequence has it there"
    if said:
        evidence = f"{'; '.join(said.values()).capitalize()}."
        which = "the last one" if last else "in no batch"
        return Finding.failed("tokens", evidence, said, which=which, count=count, token=token, where=where)
    count = sum(len(row["input_ids"]) for row in checked.given)
    return Finding("tokens", PASSED, f"All {count} tokens of {len(checked.given)} sequences are there once.")


def _not_given(checked: CheckedBatch) -> int:
    """Count the sequences of a batch that are not among those that it was asked for."""
    few = checked.parts[1]
    found = found_in(checked.collate(few), checked.few)
    whole = [checked.few[piece.sequence] for piece in found if len(piece.slots) >= 4]
    return sum(not any(row is one for one in few) for row in whole)


def _added(checked: CheckedBatch, asked: np.ndarray) -> tuple[int, int, str]:
    """Find tokens of no sequence next to each sequence that count for something: how many, which, and where."""
    owner, ids, width = checked.owner.ravel(), checked.ids.flatten().cpu().numpy(), checked.ids.shape[-1]
    used = asked if checked.own_slopes is None else asked | (checked.own_slopes > EXACT).any(0)
    for where, beside in (("before the first", -1), ("after the last", 1)):
        slots = np.array([piece.slots[0 if beside < 0 else -1] for piece in checked.pieces]) + beside
        if (slots // width != (slots - beside) // width).any() or (owner[slots] >= 0).any() or not used[slots].any():
            continue
        beyond = slots + beside  # padding goes on
        more = (beyond // width == slots // width) & (np.take(ids, beyond, mode="clip") == ids[slots])
        if len(set(ids[slots].tolist())) == 1 and more.mean() < 0.5:
            return len(slots), int(ids[slots[0]]), where
    return 0, 0, ""


def isolation(checked: CheckedBatch, why: Why | None) -> Iterator[Finding]:
    """Yield a finding on isolation from earlier sequences, and one on later sequences."""
    shared = len(set(checked.rows.tolist())) < len(checked.pieces)
    how = "changed tokens" if checked.own_slopes is None else "gradients and changed tokens"
    for where in ("earlier", "later"):
        question, leak = f"isolation from {where} sequences", checked.own_leak(where)
        if leak is not None and why is not None:
            looks, sees = (checked.pieces[number].sequence for number in (leak.looks, leak.sees))
            evidence = f"Sequence {looks} depends on sequence {sees}, by a {leak.by} of {leak.strength:.2g}"
            met = f"; they meet first in {why.place}" * bool(why.place)
            yield Finding.failed(question, f"{evidence}{met}.", why.causes, name=why.name)
        elif shared:
            yield Finding(question, PASSED, f"{len(checked.pieces)} sequences do not depend on one another, by {how}.")
        else:
            count, few = len(checked.given), len(checked.few)
            unasked = (
                f"Your {count} sequences share rows, the {few} that were used do not: give shorter ones."
                if checked.shape_of_all.together > 1
                else f"No row holds two of your {count} sequences: give more, or shorter ones."
            )
            yield Finding(question, NOT_ASKED, unasked)


def _lacks(checked: CheckedBatch, of_all: bool, what: str) -> str:
    """Say why a question is not asked: a batch has no `what`.

    Args:
        of_all: whether the batch of all sequences has it.
    """
    if of_all:
        return f"Your {len(checked.given)} sequences make {what}, the {len(checked.few)} that were used make none."
    return f"The batch of your {len(checked.given)} sequences has no {what}."


def lacking(checked: CheckedBatch) -> Iterator[Finding]:
    """Yield a finding for each feature that faults need and the batch lacks: several rows, long sequences."""
    if len(checked.owner) < 2:
        yield Finding("several rows", NOT_ASKED, _lacks(checked, checked.shape_of_all.rows > 1, "second row"))
    longest = max(len(row["input_ids"]) for row in checked.few)
    if (window := checked.called.window) >= longest:
        evidence = f"The longest sequence that was used has {longest} tokens, and the model's window {window}"
        more = ": raise max_tokens" if max(len(row["input_ids"]) for row in checked.given) > window else ""
        yield Finding("windows", NOT_ASKED, f"{evidence}{more}.")


def padding(checked: CheckedBatch) -> Finding:
    slopes, slots = checked.own_slopes, checked.padding
    if not len(slots):
        return Finding("padding", NOT_ASKED, _lacks(checked, checked.shape_of_all.padding > 0, "padding"))
    if slopes is None:
        change = checked.apart(checked.called(checked.moved(checked.batch, slots)).outputs, checked.seen.outputs)
        by, strength, limit = "move", float(change[checked.owner.ravel() >= 0].max()), checked.limit
    else:
        by, strength, limit = "gradient", float(slopes[:, slots].max()), EXACT
    evidence = f"Tokens depend on the {len(slots)} slots of padding by a {by} of {strength:.2g}."
    if strength <= limit:
        return Finding("padding", PASSED, evidence)
    return Finding.failed("padding", evidence, "nan" if np.isnan(strength) else "padding")


def positions(checked: CheckedBatch, why: Why | None) -> Finding:
    if max(checked.noise) > 0.1:
        evidence = f"Calls that should be the same differ by {max(checked.noise):.2g}."
        return Finding("positions", INCONCLUSIVE, evidence)
    if (worst := _of_images(checked)) > checked.limit:
        evidence = f"With the positions that the model makes for its images, a sequence alone differs by {worst:.2g}."
        return Finding.failed("positions", evidence, "image positions")
    if checked.illustrated and not why and (differing := checked.differing()):
        return _beside_images(checked, differing)
    if POSITIONS in checked.blamed or (not checked.bare and _uneven(checked)):
        return _wrong_positions(checked)
    batch = why.cured if why else checked.batch
    if batch is None:
        return Finding("positions", INCONCLUSIVE, "Sequences see others, and no change of the batch stops it.")
    if checked.bare and POSITIONS in checked.batch and (why or not checked.late_alone):
        return Finding("positions", PASSED, "Each sequence alone is the same with the position_ids of the batch.")
    given = {name: value for name, value in batch.items() if name != POSITIONS or name in checked.batch}
    differing = checked.differing(given)
    evidence = f"{len(differing)} of {len(checked.pieces)} sequences differ from what they are alone"
    if not differing:
        unknown = "; where they begin is unknown, as the model takes no tokens by themselves"
        return Finding("positions", PASSED, f"{evidence}{unknown * (not checked.bare)}.")
    if not checked.differing({**given, POSITIONS: restarting(checked.ids, checked.pieces, checked.start or 0)}):
        evidence += f", by {max(differing.values()):.2g}, and none with position_ids that restart."
        return Finding.failed("positions", evidence, "positions run on")
    if checked.late_alone:
        return Finding.failed("positions", f"{evidence}, and none that begins a row.", "own positions")
    return Finding("positions", INCONCLUSIVE, f"{evidence}, whatever position_ids they get.")


def _of_images(checked: CheckedBatch) -> float:
    """Compare a sequence with images, alone, with itself and the model's own positions; 0 if it makes none."""
    worst = 0.0
    for alone in checked.alone if checked.illustrated else []:
        if alone is None or POSITIONS not in alone.batch or alone.batch["input_ids"].numel() != len(alone.slots):
            continue
        marks = checked.called.kinds(alone.batch["input_ids"])
        rest = {name: value for name, value in alone.batch.items() if name not in (POSITIONS, MASK)}
        for batch in ({**rest, "mm_token_type_ids": marks}, rest):  # which some models read to make positions
            if (seen := checked.called.runs(batch)) is not None:
                worst = max(worst, checked.apart(seen.outputs[alone.slots], alone.outputs).max().item())
                break
    return worst


def _beside_images(checked: CheckedBatch, differing: dict[int, float]) -> Finding:
    """Blame the positions of a pack with images if none differs with those that sequences have alone."""
    evidence = f"{len(differing)} of {len(checked.pieces)} sequences differ from what they are alone"
    given = checked.batch.get(POSITIONS)
    if isinstance(given, torch.Tensor) and given.shape[-1] == checked.ids.shape[-1]:
        own = given.clone(memory_format=torch.contiguous_format)
        flat = own.view(*own.shape[: own.dim() - checked.ids.dim()], -1)
        for piece, alone in zip(checked.pieces, checked.alone, strict=True):
            if alone is not None and POSITIONS in alone.batch:
                places = alone.batch[POSITIONS]
                flat[..., piece.slots] = places.reshape(*flat.shape[:-1], -1)[..., alone.slots]
        if not checked.differing({**checked.batch, POSITIONS: own}):
            evidence += ", and none with the position_ids that the collator gives it alone."
            return Finding.failed("positions", evidence, "image positions")
    return Finding("positions", INCONCLUSIVE, f"{evidence}, whatever position_ids they get: see same as alone.")


def _given(checked: CheckedBatch) -> list[np.ndarray]:
    """Return the position_ids that the batch has for each piece; none if it has no one for each slot."""
    given = checked.batch.get(POSITIONS)
    if given is None or given.shape != checked.ids.shape:
        return []
    return [given.flatten()[piece.slots].cpu().numpy() for piece in checked.pieces]


def _uneven(checked: CheckedBatch) -> bool:
    """Return True if positions do not go up by 1 in a sequence, and the model reads them."""
    given = _given(checked)
    if not any((np.diff(values) != 1).any() for values in given):
        return False
    begin = int(given[0][0])
    seen = checked.called.runs({**checked.batch, POSITIONS: restarting(checked.ids, checked.pieces, begin)})
    return seen is None or not bool(checked.apart(seen.outputs, checked.seen.outputs).max() <= checked.limit)


def _wrong_positions(checked: CheckedBatch) -> Finding:
    given, own = _given(checked), checked.start
    starts = np.array([values[0] for values in given])
    columns = np.array([piece.slots[0] for piece in checked.pieces]) % checked.ids.shape[-1]
    evidence = f"They begin at {', '.join(map(str, starts))}"
    if POSITIONS in checked.blamed:
        number, distance = checked.blamed[POSITIONS]
        evidence += f", and the model's own at {own}" * (own is not None) + ". With them, "
        evidence += f"sequence {checked.pieces[number].sequence} alone differs by {distance:.2g}"
    uneven = [(at, int(place)) for at, values in enumerate(given) for place in np.flatnonzero(np.diff(values) != 1)]
    name = "first position"
    if uneven:
        name, (at, place) = "uneven positions", uneven[0]
        before, after = given[at][place : place + 2]
        evidence += f". In sequence {checked.pieces[at].sequence} {after} comes after {before}"
        again = [int(given[at][place]) + 1 for at, place in uneven if given[at][place + 1] == starts[at]]
        if all((values == values[0]).all() for values in given):
            name = "constant positions"
        elif len(again) == len(uneven) and any(length & (length - 1) for length in again):  # no integers that overflow
            name = "border inside"
    elif columns.any() and (starts - starts[0] == columns).all():
        name = "positions run on"
    elif own is None or (starts == own).all():
        name = "changed positions"
    wrong = next((start for start in starts if start != own), starts[0])
    return Finding.failed("positions", f"{evidence}.", name, given=wrong, own=own or 0)


def sameness(checked: CheckedBatch, why: Why | None) -> Finding:
    """Find out if each sequence gets in the pack what it gets alone, for whatever reason."""
    question, differing = "same as alone", checked.differing()
    if max(checked.noise) > 0.1 or None in checked.alone:
        evidence = "The model takes no sequence alone, or gives it other outputs each time."
        return Finding(question, INCONCLUSIVE, evidence)
    most = max(differing.values(), default=0.0)
    evidence = f"{len(differing)} of {len(checked.pieces)} sequences differ, by {most:.2g} of the outputs; "
    evidence += f"what is below {checked.limit:.2g} is noise or rounding."
    if name := next((name for name in checked.blamed if name != POSITIONS), ""):
        about_mask = checked.bare and (name == MASK or is_mask(checked.batch[name], checked.ids))
        cause, window = _mask_cause(checked, name) if about_mask else ("input", 0)
        return Finding.failed(question, evidence, cause, name=name, window=window)
    if not differing:
        return _in_later_batches(checked, evidence)
    if checked.illustrated and not why and _from_images_on(checked, differing):
        if _beside_images(checked, differing).verdict == FAILED:
            return Finding.failed(question, evidence, "above")
        return Finding.failed(question, evidence, "images")
    padded = checked.own_slopes is not None and checked.own_slopes[:, checked.padding].max(initial=0) > EXACT
    above = why or padded or checked.late_alone or POSITIONS in checked.blamed
    if above:
        return Finding.failed(question, evidence, "above")
    if checked.exchanged:
        return Finding.failed(question, evidence, "exchanged", name=checked.exchanged)
    number = min(differing, key=lambda number: -len(checked.pieces[number].slots))
    within = checked.seen_within(number)
    if within is not None:
        here, alone = within
        hidden_here = bool(((here == 0) & (alone > EXACT)).any())  # a sharper softmax leaves more than 0
        hidden_alone = bool(((alone == 0) & (here > EXACT)).any())
        if hidden_here != hidden_alone:
            in_pack, on_its_own = (f"{(own[0] > 0).sum()} and {(own[1] > 0).sum()}" for own in within)
            tokens = len(checked.pieces[number].slots)
            evidence += f" In the pack the first and the last of {tokens} tokens depend on {in_pack} of them, "
            evidence += f"alone on {on_its_own}."
            return Finding.failed(question, evidence, "sees less" if hidden_here else "sees more")
    return Finding.failed(question, evidence, "otherwise")


def _in_later_batches(checked: CheckedBatch, evidence: str) -> Finding:
    """Let sequences pass that are in a batch what they are alone, if they are so in later batches too."""
    question, differing = "same as alone", checked.differing_elsewhere
    if not differing:
        return Finding(question, PASSED, evidence)
    evidence += f" In later batches of the same sequences, in another order or of fewer, {len(differing)} differ from "
    evidence += f"that, by {max(differing.values()):.2g}."
    return Finding.failed(question, evidence, "later batch")


def _from_images_on(checked: CheckedBatch, differing: dict[int, float]) -> bool:
    """Return True if sequences differ from what they are alone at an image and behind it, and not before."""
    for number in differing:
        piece, alone = checked.pieces[number], checked.alone[number]
        held = np.isin(checked.ids.flatten()[piece.slots].cpu().numpy(), checked.called.keep)
        apart = checked.apart(checked.seen.outputs[piece.slots], alone.outputs) > checked.limit  # type: ignore[union-attr]
        if not held.any() or (checked.causal and apart[: int(held.argmax())].any()):
            return False
    return True


def _mask_cause(checked: CheckedBatch, name: str) -> tuple[str, int]:
    """Name the change of its mask that makes a sequence what it is alone; and the window, if it is one."""
    number, dtype = checked.blamed[name][0], checked.seen.outputs.dtype
    piece, (alone, _, own) = checked.pieces[number], checked.alone[number]  # type: ignore[misc]
    mask, length = checked.part_of(checked.batch[name], piece), len(piece.slots)
    if not is_mask(mask, alone["input_ids"]):
        return "hides", 0
    whole = document_mask(alone["input_ids"], [Piece(0, np.arange(length), np.arange(length))], checked.causal)
    back = (torch.arange(length)[:, None] - torch.arange(length)).abs().to(whole.device)
    tried = [("transposed", 0, mask.transpose(-1, -2)), ("inside", 0, additive(whole, dtype))]
    if mask.dtype == torch.bool:
        tried.insert(1, ("boolean", 0, additive(mask, dtype)))
    tried += [("window", width, additive(whole & (back < width), dtype)) for width in range(1, length)]
    for cause, width, other in tried:
        seen = checked.called.runs({**alone, name: other})
        if seen is not None and bool(checked.apart(seen.outputs, own).max() <= checked.limit):
            return cause, width
    return "windows", 0
