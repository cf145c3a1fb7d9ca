"""What asks something else of a sequence in a pack than alone, where the model gives it the same in both."""

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
    """Return the name of a part that does not learn, and gives a sequence other outputs in the pack than alone.

    Such is a teacher or a reference, whose outputs are not those of the model.
    """
    module = checked.called.module
    frozen = list[tuple[str, nn.Module]]()
    for name, part in module.named_modules():
        parameters = list(part.parameters())
        within = any(name.startswith(f"{outer}.") for outer, _ in frozen)
        if name and not within and parameters and not any(p.requires_grad for p in parameters):
            frozen.append((name, part))
    if not frozen:
        return ""
    together = _outputs(checked, frozen, checked.batch)
    for piece, alone in zip(checked.pieces, checked.alone, strict=True):
        if alone is None:
            continue
        single = _outputs(checked, frozen, alone.batch)
        for name in together.keys() & single.keys():
            mine, its = together[name][piece.slots], single[name][alone.slots]
            if mine.shape == its.shape and float((mine - its).norm()) > checked.limit * float(its.norm()):
                return name
    return ""


def _outputs(checked: CheckedBatch, parts: list[tuple[str, nn.Module]], batch: dict) -> dict[str, Tensor]:
    """Call the model, and return the outputs of some parts by slot."""
    found = dict[str, Tensor]()
    with _watched(parts, batch, found):
        checked.called.runs(batch)
    return found


@contextmanager
def _watched(parts: list[tuple[str, nn.Module]], batch: dict, found: dict[str, Tensor]) -> Iterator[None]:
    """In here the outputs of parts are written down: of each the first tensor that has numbers for each slot."""

    def write_down(name: str, output: Any) -> None:
        for value in tensors(output).values():
            by_token = by_slot(value, batch["input_ids"])
            if by_token is not None:
                found.setdefault(name, by_token.detach().double())

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
            if all(_lies(flat, checked, name, slots)) and not all(_lies(flat, checked, name, 0)):
                return {"name": name, "slots": f"{slots:+d}"}
    return None


def _lies(values: np.ndarray, checked: CheckedBatch, name: str, slots: int) -> Iterator[bool]:
    """Say of each piece whether the values of its column lie so many slots behind its tokens, but for its ends."""
    for piece in checked.pieces:
        row = checked.few[piece.sequence]
        if name not in row or np.shape(row[name]) != np.shape(row["input_ids"]):
            yield False
            continue
        own = np.asarray(row[name], dtype=float)[piece.offsets]
        there = values[piece.slots]
        if slots:
            own, there = (own[:-1], there[1:]) if slots > 0 else (own[1:], there[:-1])
        yield bool(np.allclose(own, there, rtol=1e-4))
