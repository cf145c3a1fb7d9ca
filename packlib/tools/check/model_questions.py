"""The questions about what a model computes for each token of a pack, each answered from calls alone."""

from collections.abc import Iterator

import numpy as np
import torch

from packlib.tools.check.called_model import EXACT
from packlib.tools.check.causes import Diagnosis, additive, document_mask
from packlib.tools.check.collated_batch import CheckedBatch, found_in
from packlib.tools.check.findings import FAILED, INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.locating import MASK, POSITIONS, Piece, has_slots, is_mask, restarting

_NOISY = 0.1  # of the outputs: if two calls with one batch are so far apart, single differences show nothing
_SURE = 4  # tokens: a shorter piece may be of another sequence with the same tokens
_MIXING = {"rows", "mixed", "state", "convolution", "counted", "ids before"}  # causes that may take in padding as well


def determinism(checked: CheckedBatch) -> Finding:
    """Find out if two calls with one batch give the same, with one seed and with another."""
    rounding = checked.repeat_limit
    same_seed, other_seed = checked.noise
    loss_same_seed, loss_other_seed = checked.loss_noise
    evidence = (
        f"Two calls with one batch differ by {same_seed:.2g} of the outputs with one seed, "
        f"by {other_seed:.2g} with another."
    )
    if max(loss_same_seed, loss_other_seed) > max(same_seed, other_seed, rounding):
        evidence += f" Their losses differ by {loss_same_seed:.2g} and {loss_other_seed:.2g}."
    if max(same_seed, loss_same_seed) > rounding:
        return Finding.failed("determinism", evidence, "kept")
    if max(other_seed, loss_other_seed) > rounding:
        return Finding.failed("determinism", evidence, "dropout")
    if checked.change_by_calls > checked.limit:
        change = f"{checked.change_by_calls:.2g}"
        evidence += f" A short batch gets other outputs after a longer one than before it, by {change}."
        return Finding.failed("determinism", evidence, "kept from another")
    return Finding("determinism", PASSED, evidence)


def tokens(checked: CheckedBatch, concerned: np.ndarray) -> Finding:
    """Find out if the collator keeps the tokens of sequences, in the batch of all and in that of few.

    Args:
        concerned: shape (N,), the slots of the batch of few that must predict a token, or whose token is predicted.
    """
    faults = dict[str, str]()  # by the name of the cause, a phrase on the first sequence with this fault
    last_is_lost = False
    for rows in (checked.all_sequences, checked.sequences):
        batch = checked.collate(rows)
        pieces = found_in(batch, rows)
        for number, row in enumerate(rows):
            pieces_of_row = [piece for piece in pieces if piece.sequence == number]
            times_held = _times_held(batch, row, pieces_of_row)
            fault = _fault_of(times_held, len(pieces_of_row))
            if fault is not None:
                evidence = f"of {len(rows)} sequences, number {number} with {len(times_held)} tokens has "
                evidence += f"{(times_held == 0).sum()} in no pack and {(times_held > 1).sum()} twice, "
                evidence += f"in {len(pieces_of_row)} pieces"
                faults.setdefault(fault, evidence)
                last_is_lost |= fault == "lost" and number == len(rows) - 1
    if stale := _not_given(checked):
        faults["stale"] = f"the batch of {len(checked.parts[1])} sequences holds {stale} others"
    count, token, place = _added(checked, concerned)
    if count:
        faults["added"] = f"{count} slots hold the token {token} {place} of a sequence, and no sequence has it there"
    if faults:
        evidence = f"{'; '.join(faults.values()).capitalize()}."
        which = "the last one" if last_is_lost else "in no batch"
        return Finding.failed("tokens", evidence, faults, which=which, count=count, token=token, where=place)
    count = sum(len(row["input_ids"]) for row in checked.all_sequences)
    return Finding("tokens", PASSED, f"All {count} tokens of {len(checked.all_sequences)} sequences are there once.")


def _times_held(batch: dict, row: dict, pieces: list[Piece]) -> np.ndarray:
    """Count how many times a batch has each token of a sequence, in these pieces of it; shape (tokens,)."""
    offsets = [np.empty(0, int), *(piece.offsets for piece in pieces)]
    times_held = np.bincount(np.concatenate(offsets), minlength=len(row["input_ids"]))
    has_labels = has_slots(batch.get("labels"), batch["input_ids"])
    if len(pieces) == 1 and has_labels and times_held[:-1].all() and not times_held[-1]:
        # labels that are shifted beforehand: the last token is a target alone
        label = int(batch["labels"].flatten()[int(pieces[0].slots[-1])])
        times_held[-1] = label in (row["input_ids"][-1], row.get("labels", row["input_ids"])[-1])
    return times_held


def _fault_of(times_held: np.ndarray, piece_count: int) -> str | None:
    """Name what is wrong with a sequence whose tokens a batch has so many times, in so many pieces; None if nothing."""
    if piece_count == 0:
        return "lost"
    if not times_held.all():
        return "short"
    if times_held.max() > 1:
        return "twice"
    return "cut" if piece_count > 1 else None


def _not_given(checked: CheckedBatch) -> int:
    """Count the sequences in a batch that the collator was not given for it: they are of an earlier batch."""
    given_sequences = checked.parts[1]
    pieces = found_in(checked.collate(given_sequences), checked.sequences)
    rows = [checked.sequences[piece.sequence] for piece in pieces if len(piece.slots) >= _SURE]
    return sum(not any(row is sequence for sequence in given_sequences) for row in rows)


def _added(checked: CheckedBatch, concerned: np.ndarray) -> tuple[int, int, str]:
    """Find a token that the collator adds before or after each sequence, and that others depend on or must predict.

    Returns:
        How many slots hold it, its id, and where it is, in words; 0, 0 and "" if there is none.
    """
    owner = checked.owner.ravel()
    ids = checked.ids.flatten().cpu().numpy()
    width = checked.ids.shape[-1]
    has_effect = concerned if checked.own_slopes is None else concerned | (checked.own_slopes > EXACT).any(0)
    for place, direction in (("before the first", -1), ("after the last", 1)):
        end_slots = np.array([piece.slots[0 if direction < 0 else -1] for piece in checked.pieces])
        slots = end_slots + direction  # next to each piece
        is_in_another_row = slots // width != end_slots // width
        if is_in_another_row.any() or (owner[slots] >= 0).any() or not has_effect[slots].any():
            continue
        slots_beyond = slots + direction
        same_token_beyond = np.take(ids, slots_beyond, mode="clip") == ids[slots]
        goes_on = (slots_beyond // width == slots // width) & same_token_beyond  # as padding does
        if len(set(ids[slots].tolist())) == 1 and goes_on.mean() < 0.5:
            return len(slots), int(ids[slots[0]]), place
    return 0, 0, ""


def isolation(checked: CheckedBatch, diagnosis: Diagnosis | None) -> Iterator[Finding]:
    """Yield a finding on isolation from earlier sequences of the row, and one on later sequences and other rows.

    Args:
        diagnosis: why sequences see others; None if none does.
    """
    pieces_share_rows = len(set(checked.row_of.tolist())) < len(checked.pieces)
    method = "changed tokens" if checked.own_slopes is None else "gradients and changed tokens"
    for relation in ("earlier", "later"):
        question, leak = f"isolation from {relation} sequences", checked.own_leak(relation)
        if leak is not None and diagnosis is not None:
            looking, seen = (checked.pieces[number].sequence for number in (leak.looking, leak.seen))
            evidence = f"Sequence {looking} depends on sequence {seen}, by a {leak.by} of {leak.strength:.2g}"
            met = f"; they meet first in {diagnosis.place}" * bool(diagnosis.place)
            yield Finding.failed(question, f"{evidence}{met}.", diagnosis.causes, name=diagnosis.field)
        elif pieces_share_rows:
            yield Finding(
                question, PASSED, f"{len(checked.pieces)} sequences do not depend on one another, by {method}."
            )
        else:
            count, used_count = len(checked.all_sequences), len(checked.sequences)
            unasked = (
                f"Your {count} sequences share rows, the {used_count} that were used do not: give shorter ones."
                if checked.shape_of_all.most_in_a_row > 1
                else f"No row holds two of your {count} sequences: give more, or shorter ones."
            )
            yield Finding(question, NOT_ASKED, unasked)


def _lacks(checked: CheckedBatch, of_all: bool, feature: str) -> str:
    """Say that the batch of few sequences, or even the batch of all, has no `feature`.

    Args:
        of_all: whether the batch of all sequences has it.
        feature: in words, such as "padding" or "second row".
    """
    if of_all:
        used_count = len(checked.sequences)
        return (
            f"Your {len(checked.all_sequences)} sequences make {feature}, the {used_count} that were used make none."
        )
    return f"The batch of your {len(checked.all_sequences)} sequences has no {feature}."


def lacking(checked: CheckedBatch) -> Iterator[Finding]:
    """Yield a finding for each feature that faults need and the batch lacks: several rows, long sequences."""
    if len(checked.owner) < 2:
        yield Finding("several rows", NOT_ASKED, _lacks(checked, checked.shape_of_all.rows > 1, "second row"))
    longest = max(len(row["input_ids"]) for row in checked.sequences)
    if (window := checked.called.window) >= longest:
        evidence = f"The longest sequence that was used has {longest} tokens, and the model's window {window}"
        advice = ": raise max_tokens" if max(len(row["input_ids"]) for row in checked.all_sequences) > window else ""
        yield Finding("windows", NOT_ASKED, f"{evidence}{advice}.")


def padding(checked: CheckedBatch, diagnosis: Diagnosis | None) -> Finding:
    """Find out if tokens depend on padding."""
    slopes, slots = checked.own_slopes, checked.padding
    if not len(slots):
        return Finding("padding", NOT_ASKED, _lacks(checked, checked.shape_of_all.padding > 0, "padding"))
    if slopes is None:
        change = checked.distance(checked.called(checked.moved(checked.batch, slots)).outputs, checked.call.outputs)
        kind = "move"
        strength = float(change[checked.owner.ravel() >= 0].max())
        limit = checked.limit
    else:
        kind = "gradient"
        strength = float(slopes[:, slots].max())
        limit = EXACT
    evidence = f"Tokens depend on the {len(slots)} slots of padding by a {kind} of {strength:.2g}."
    if strength <= limit:
        return Finding("padding", PASSED, evidence)
    if np.isnan(strength):
        return Finding.failed("padding", evidence, "nan")
    is_mixed = diagnosis is not None and not _MIXING.isdisjoint(diagnosis.causes)
    return Finding.failed("padding", evidence, "padding mixed" if is_mixed else "padding")


def positions(checked: CheckedBatch, diagnosis: Diagnosis | None) -> Finding:
    """Find out if each token has the position that it has alone.

    If sequences see others, outputs differ for that reason too. So the batch of the diagnosis is compared then, in
    which nothing leaks.

    Args:
        diagnosis: why sequences see others; None if none does.
    """
    if max(checked.noise) > _NOISY:
        evidence = f"Calls that should be the same differ by {max(checked.noise):.2g}."
        return Finding("positions", INCONCLUSIVE, evidence)
    if (worst := _of_images(checked)) > checked.limit:
        evidence = f"With the positions that the model makes for its images, a sequence alone differs by {worst:.2g}."
        return Finding.failed("positions", evidence, "image positions")
    if checked.has_images and not diagnosis and (differing := checked.differing()):
        return _beside_images(checked, differing)
    if POSITIONS in checked.blamed or (not checked.takes_bare_tokens and _uneven(checked)):
        return _wrong_positions(checked)
    batch = diagnosis.cured if diagnosis else checked.batch
    if batch is None:
        return Finding("positions", INCONCLUSIVE, "Sequences see others, and no change of the batch stops it.")
    if (
        checked.takes_bare_tokens
        and POSITIONS in checked.batch
        and (diagnosis or not checked.only_later_pieces_differ)
    ):
        return Finding("positions", PASSED, "Each sequence alone is the same with the position_ids of the batch.")
    fields = {name: value for name, value in batch.items() if name != POSITIONS or name in checked.batch}
    differing = checked.differing(fields)
    evidence = f"{len(differing)} of {len(checked.pieces)} sequences differ from what they are alone"
    if not differing:
        unknown = "; where they begin is unknown, as the model takes no tokens by themselves"
        return Finding("positions", PASSED, f"{evidence}{unknown * (not checked.takes_bare_tokens)}.")
    if not checked.differing(
        {**fields, POSITIONS: restarting(checked.ids, checked.pieces, checked.first_position or 0)}
    ):
        evidence += f", by {max(differing.values()):.2g}, and none with position_ids that restart."
        return Finding.failed("positions", evidence, "positions run on")
    if checked.only_later_pieces_differ:
        return Finding.failed("positions", f"{evidence}, and none that begins a row.", "own positions")
    return Finding("positions", INCONCLUSIVE, f"{evidence}, whatever position_ids they get.")


def _of_images(checked: CheckedBatch) -> float:
    """Compute how far a sequence with images, alone, moves if the model makes its positions instead of the collator.

    Returns:
        The largest distance of any sequence; 0 without images, or if the model makes no positions.
    """
    worst = 0.0
    for unpacked in checked.unpacked if checked.has_images else []:
        if unpacked is None or POSITIONS not in unpacked.batch:
            continue
        if unpacked.batch["input_ids"].numel() != len(unpacked.slots):
            continue
        marks = checked.called.kinds(unpacked.batch["input_ids"])
        other_fields = {name: value for name, value in unpacked.batch.items() if name not in (POSITIONS, MASK)}
        with_marks = {**other_fields, "mm_token_type_ids": marks}  # which some models read to make positions
        for batch in (with_marks, other_fields):
            if (call := checked.called.try_call(batch)) is not None:
                worst = max(worst, checked.distance(call.outputs[unpacked.slots], unpacked.outputs).max().item())
                break
    return worst


def _beside_images(checked: CheckedBatch, differing: dict[int, float]) -> Finding:
    """Answer where sequences of a pack with images differ from what they are alone.

    Positions are at fault if no sequence differs with the positions that the collator gives it alone.

    Args:
        differing: the distances of outputs by piece, as `CheckedBatch.differing` returns them.
    """
    evidence = f"{len(differing)} of {len(checked.pieces)} sequences differ from what they are alone"
    positions = checked.batch.get(POSITIONS)
    if isinstance(positions, torch.Tensor) and positions.shape[-1] == checked.ids.shape[-1]:
        own_positions = positions.clone(memory_format=torch.contiguous_format)
        flat = own_positions.view(*own_positions.shape[: own_positions.dim() - checked.ids.dim()], -1)
        for piece, unpacked in zip(checked.pieces, checked.unpacked, strict=True):
            if unpacked is not None and POSITIONS in unpacked.batch:
                positions_alone = unpacked.batch[POSITIONS]
                flat[..., piece.slots] = positions_alone.reshape(*flat.shape[:-1], -1)[..., unpacked.slots]
        if not checked.differing({**checked.batch, POSITIONS: own_positions}):
            evidence += ", and none with the position_ids that the collator gives it alone."
            return Finding.failed("positions", evidence, "image positions")
    return Finding("positions", INCONCLUSIVE, f"{evidence}, whatever position_ids they get: see same as alone.")


def _positions_by_piece(checked: CheckedBatch) -> list[np.ndarray]:
    """Return the position_ids of each piece, shape (tokens,); [] if the batch does not have one for each slot."""
    positions = checked.batch.get(POSITIONS)
    if positions is None or positions.shape != checked.ids.shape:
        return []
    return [positions.flatten()[piece.slots].cpu().numpy() for piece in checked.pieces]


def _uneven(checked: CheckedBatch) -> bool:
    """Return True if positions do not go up by 1 in a sequence, and the model reads them."""
    positions = _positions_by_piece(checked)
    if not any((np.diff(values) != 1).any() for values in positions):
        return False
    begin = int(positions[0][0])  # the first position of the first piece, for all pieces
    call = checked.called.try_call({**checked.batch, POSITIONS: restarting(checked.ids, checked.pieces, begin)})
    return call is None or not bool(checked.distance(call.outputs, checked.call.outputs).max() <= checked.limit)


def _wrong_positions(checked: CheckedBatch) -> Finding:
    """Name what is wrong with the position_ids of a batch, which are known to change the model's outputs."""
    positions = _positions_by_piece(checked)
    own_start = checked.first_position
    starts = np.array([values[0] for values in positions])  # the first position of each piece
    first_slots = np.array([piece.slots[0] for piece in checked.pieces])
    columns = first_slots % checked.ids.shape[-1]  # the same slots, counted in their rows
    evidence = f"They begin at {', '.join(map(str, starts))}"
    if POSITIONS in checked.blamed:
        number, distance = checked.blamed[POSITIONS]  # of the piece
        evidence += f", and the model's own at {own_start}" * (own_start is not None) + ". With them, "
        evidence += f"sequence {checked.pieces[number].sequence} alone differs by {distance:.2g}"
    uneven = [
        (number, int(place))
        for number, values in enumerate(positions)
        for place in np.flatnonzero(np.diff(values) != 1)
    ]  # (piece, token after which its positions do not go up by 1)
    name = "first position"
    if uneven:
        name, (number, place) = "uneven positions", uneven[0]
        position, next_position = positions[number][place : place + 2]
        evidence += f". In sequence {checked.pieces[number].sequence} {next_position} comes after {position}"
        restarts = [(number, place) for number, place in uneven if positions[number][place + 1] == starts[number]]
        restart_lengths = [int(positions[number][place]) + 1 for number, place in restarts]
        overflows = not any(length & (length - 1) for length in restart_lengths)  # all are powers of 2
        if all((values == values[0]).all() for values in positions):
            name = "constant positions"
        elif len(restarts) == len(uneven) and not overflows:  # small integers overflow at a power of 2
            name = "border inside"
    elif columns.any() and (starts - starts[0] == columns).all():
        name = "positions run on"
    elif own_start is None or (starts == own_start).all():
        name = "changed positions"
    wrong = next((start for start in starts if start != own_start), starts[0])
    return Finding.failed("positions", f"{evidence}.", name, given=wrong, own=own_start or 0)


def sameness(checked: CheckedBatch, diagnosis: Diagnosis | None) -> Finding:
    """Find out if each sequence has the outputs in the pack that it has alone, and if not, which cause is left.

    Causes that other questions name come first; then what the mask, images or another sequence's values do.

    Args:
        diagnosis: why sequences see others; None if none does.
    """
    question, differing = "same as alone", checked.differing()
    if max(checked.noise) > _NOISY or None in checked.unpacked:
        evidence = "The model takes no sequence alone, or gives it other outputs each time."
        return Finding(question, INCONCLUSIVE, evidence)
    farthest = max(differing.values(), default=0.0)
    evidence = f"{len(differing)} of {len(checked.pieces)} sequences differ, by {farthest:.2g} of the outputs; "
    evidence += f"what is below {checked.limit:.2g} is noise or rounding."
    if name := next((name for name in checked.blamed if name != POSITIONS), ""):
        about_mask = checked.takes_bare_tokens and (name == MASK or is_mask(checked.batch[name], checked.ids))
        cause, window = _mask_cause(checked, name) if about_mask else ("input", 0)
        return Finding.failed(question, evidence, cause, name=name, window=window)
    if not differing:
        return _in_later_batches(checked, evidence)
    if checked.has_images and not diagnosis and _from_images_on(checked, differing):
        if _beside_images(checked, differing).verdict == FAILED:
            return Finding.failed(question, evidence, "above")
        return Finding.failed(question, evidence, "images")
    sees_padding = checked.own_slopes is not None and checked.own_slopes[:, checked.padding].max(initial=0) > EXACT
    if diagnosis or sees_padding or checked.only_later_pieces_differ or POSITIONS in checked.blamed:
        return Finding.failed(question, evidence, "above")
    if checked.exchanged_field:
        return Finding.failed(question, evidence, "exchanged", name=checked.exchanged_field)
    number = max(differing, key=lambda number: len(checked.pieces[number].slots))
    dependence = checked.dependence_within(number)
    if dependence is not None:
        packed, unpacked = dependence
        hidden_in_pack = bool(((packed == 0) & (unpacked > EXACT)).any())  # a sharper softmax leaves more than 0
        hidden_alone = bool(((unpacked == 0) & (packed > EXACT)).any())
        if hidden_in_pack != hidden_alone:
            tokens = len(checked.pieces[number].slots)
            evidence += f" In the pack the first and the last of {tokens} tokens depend on {_counts(packed)} of them, "
            evidence += f"alone on {_counts(unpacked)}."
            return Finding.failed(question, evidence, "sees less" if hidden_in_pack else "sees more")
    return Finding.failed(question, evidence, "otherwise")


def _counts(dependence: np.ndarray) -> str:
    """Say on how many tokens the first and the last one depend.

    Args:
        dependence: shape (2, tokens), of the first and of the last token on each.
    """
    of_first, of_last = (dependence > 0).sum(1)
    return f"{of_first} and {of_last}"


def _in_later_batches(checked: CheckedBatch, evidence: str) -> Finding:
    """Answer where no sequence differs in the first batch: do some differ in later batches?

    Args:
        evidence: what was measured in the first batch.
    """
    question, differing = "same as alone", checked.differing_elsewhere
    if not differing:
        return Finding(question, PASSED, evidence)
    evidence += f" In later batches of the same sequences, in another order or of fewer, {len(differing)} differ from "
    evidence += f"that, by {max(differing.values()):.2g}."
    return Finding.failed(question, evidence, "later batch")


def _from_images_on(checked: CheckedBatch, differing: dict[int, float]) -> bool:
    """Return True if sequences differ from what they are alone at an image and behind it, and not before."""
    for number in differing:
        piece, unpacked = checked.pieces[number], checked.unpacked[number]
        is_image = np.isin(checked.ids.flatten()[piece.slots].cpu().numpy(), checked.called.keep)
        differs = checked.distance(checked.call.outputs[piece.slots], unpacked.outputs) > checked.limit  # type: ignore[union-attr]
        if not is_image.any() or (checked.causal and differs[: int(is_image.argmax())].any()):
            return False
    return True


def _mask_cause(checked: CheckedBatch, name: str) -> tuple[str, int]:
    """Name what is wrong with a mask, by the change of it with which a sequence has the outputs that it has alone.

    Args:
        name: the field of the batch that is the mask.

    Returns:
        The name of the cause, and the width of the window if it is one; else 0.
    """
    dtype = checked.call.outputs.dtype
    number, _ = checked.blamed[name]
    piece = checked.pieces[number]
    unpacked_batch, _, unpacked_outputs = checked.unpacked[number]  # type: ignore[misc]
    length = len(piece.slots)
    mask = checked.part_of(checked.batch[name], piece)
    if not is_mask(mask, unpacked_batch["input_ids"]):
        return "hides", 0
    allowed = document_mask(
        unpacked_batch["input_ids"], [Piece(0, np.arange(length), np.arange(length))], checked.causal
    )
    distance = (torch.arange(length)[:, None] - torch.arange(length)).abs().to(allowed.device)  # between two tokens
    changes = [("transposed", 0, mask.transpose(-1, -2)), ("inside", 0, additive(allowed, dtype))]
    if mask.dtype == torch.bool:
        changes.insert(1, ("boolean", 0, additive(mask, dtype)))
    changes += [("window", width, additive(allowed & (distance < width), dtype)) for width in range(1, length)]
    for cause, width, other_mask in changes:
        call = checked.called.try_call({**unpacked_batch, name: other_mask})
        if call is not None and bool(checked.distance(call.outputs, unpacked_outputs).max() <= checked.limit):
            return cause, width
    return "windows", 0
