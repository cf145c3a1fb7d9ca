"""Why a loss asks something else of a sequence in a pack than alone, though its outputs are the same in both.

The parts of the model that do not learn (a teacher, a reference) and the columns of the data are looked at.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor, nn

from packlib.tools.check.called_model import by_slot, tensors
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.locating import has_slots


def why_asked_otherwise(checked: CheckedBatch) -> tuple[str, dict[str, object]]:
    """Find why a loss asks something else of a sequence in a pack.

    Returns:
        The name of the cause in causes.csv, and the values of its texts.
    """
    if part := _frozen_part_apart(checked):
        return "frozen part", {"name": part}
    if misplaced := misplaced_column(checked):
        return "misplaced column", misplaced
    return "asked otherwise", {}


def _frozen_part_apart(checked: CheckedBatch) -> str:
    """Return the name of a frozen part, such as a teacher, that gives a sequence other outputs in the pack than alone.

    "" if there is none.
    """
    module = checked.called.module
    frozen = list[tuple[str, nn.Module]]()
    for name, part in module.named_modules():
        parameters = list(part.parameters())
        is_inside = any(name.startswith(f"{outer}.") for outer, _ in frozen)
        if name and not is_inside and parameters and not any(p.requires_grad for p in parameters):
            frozen.append((name, part))
    if not frozen:
        return ""
    packed_outputs = _outputs(checked, frozen, checked.batch)
    for piece, unpacked in zip(checked.pieces, checked.unpacked, strict=True):
        if unpacked is None:
            continue
        unpacked_outputs = _outputs(checked, frozen, unpacked.batch)
        for name in packed_outputs.keys() & unpacked_outputs.keys():
            packed_part = packed_outputs[name][piece.slots]
            unpacked_part = unpacked_outputs[name][unpacked.slots]
            if packed_part.shape != unpacked_part.shape:
                continue
            distance = float((packed_part - unpacked_part).norm())
            if distance > checked.limit * float(unpacked_part.norm()):
                return name
    return ""


def _outputs(checked: CheckedBatch, parts: list[tuple[str, nn.Module]], batch: dict) -> dict[str, Tensor]:
    """Call the model, and return the outputs of some parts by their names, each of shape (N, width)."""
    outputs_by_part = dict[str, Tensor]()
    with _watched(parts, batch, outputs_by_part):
        checked.called.try_call(batch)
    return outputs_by_part


@contextmanager
def _watched(parts: list[tuple[str, nn.Module]], batch: dict, outputs_by_part: dict[str, Tensor]) -> Iterator[None]:
    """Write down outputs of parts while the model is called: of each part the first tensor with a value by slot."""

    def write_down(name: str, output: Any) -> None:
        for value in tensors(output).values():
            by_token = by_slot(value, batch["input_ids"])
            if by_token is not None:
                outputs_by_part.setdefault(name, by_token.detach().double())

    handles = [part.register_forward_hook(lambda _, __, output, name=name: write_down(name, output))
               for name, part in parts]  # fmt: skip
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def misplaced_column(checked: CheckedBatch) -> dict[str, object] | None:
    """Find a column of the data whose values lie in the batch one slot behind their tokens, or before them.

    Returns:
        Its `name`, and by how many `slots`; None if there is no such column.
    """
    for name, value in checked.batch.items():
        if name in ("input_ids", "labels") or not has_slots(value, checked.ids):
            continue
        flat = value.flatten().double().cpu().numpy()
        for slots in (1, -1):
            is_shifted = all(_is_shifted_by(slots, flat, checked, name))
            is_in_place = all(_is_shifted_by(0, flat, checked, name))
            if is_shifted and not is_in_place:
                return {"name": name, "slots": f"{slots:+d}"}
    return None


def _is_shifted_by(slots: int, values: np.ndarray, checked: CheckedBatch, name: str) -> Iterator[bool]:
    """Say of each piece whether the values of a column are so many slots (-1, 0 or 1) behind its tokens.

    The value that is shifted out of the piece is not compared.

    Args:
        values: the field of the batch, by slot.
        name: of the column.
    """
    for piece in checked.pieces:
        row = checked.sequences[piece.sequence]
        if name not in row or np.shape(row[name]) != np.shape(row["input_ids"]):
            yield False
            continue
        column = np.asarray(row[name], dtype=float)[piece.offsets]
        values_there = values[piece.slots]
        if slots > 0:
            column, values_there = column[:-1], values_there[1:]
        elif slots < 0:
            column, values_there = column[1:], values_there[:-1]
        yield bool(np.allclose(column, values_there, rtol=1e-4))
