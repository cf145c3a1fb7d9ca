"""Does an update leave something for the next one? And is an update of sequences without labels finite?"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from packlib.tools.check.called_model import ranks, tensors
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.findings import INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.recorded_updates import (
    NEAR,
    RecordedUpdate,
    all_near,
    record_update,
    record_updates,
    weights_in,
)
from packlib.tools.check.slot_gradients import labeled
from packlib.tools.check.weighing import Weighing

_QUESTION = "next update"
_KEEPS_OR_DRAWS = (
    "step keeps a count or a state besides the gradients, or draws noise from a random generator of its own, which the "
    "check cannot put back; if it is noise, let step draw none while it is checked."
)
_UPDATES = 3  # that are made one right after the other


def next_update(checked: CheckedBatch, weighing: Weighing, step: Callable | None) -> Iterator[Finding]:
    """Find out if an update right after another one has nothing of it: its gradients were cleared.

    The updates have the same weights and micro-batches, so what their optimizers apply should be the same.
    """
    if step is None or weighing.whole.loss.value is None or weighing.is_silent:
        return
    batches = [batch.loss.batch for batch in weighing.smaller_batches]
    one_per_rank = ranks() > 1 and not checked.called.share_rows
    if one_per_rank and ranks() > 2:
        return
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    if not parameters:
        return
    own_batches = [batches[dist.get_rank()]] if one_per_rank else batches
    first, *later = record_updates(checked, parameters, [own_batches] * _UPDATES, step)
    if any(
        update.num_idle_copies
        or update.trains_copy_alone()
        or update.searches
        or not bool(update.applied.isfinite().all())
        for update in (first, *later)
    ):
        yield Finding(_QUESTION, NOT_ASKED, "What step applies is not known: see accumulation.")
        return
    if not first.steps or not all(update.steps for update in later):
        yield Finding(_QUESTION, NOT_ASKED, "No optimizer steps in step, so what follows an update is not known.")
        return
    evidence = f"step made {_UPDATES} updates of the same weights and micro-batches, one right after the other"
    with_stale = next((update for update in later if update.num_stale), None)
    if with_stale is not None:
        yield _of_stale_gradients(first, with_stale, evidence)
        return
    farthest = max(later, key=lambda update: _distance(update, first))
    evidence += "; the gradients that its optimizer applied differ from those of the first by "
    evidence += f"{_distance(farthest, first):.2g} of their size"
    if _distance(farthest, first) <= NEAR:
        yield Finding(_QUESTION, PASSED, f"{evidence}.")
        return
    if not one_per_rank and not checked.called.share_rows:
        gradients = [checked.called.parameter_slope(batch, parameters) for batch in batches]
        finding = _of_other_weights(first, farthest, gradients, evidence)
        if finding is not None:
            yield finding
            return
    yield Finding(_QUESTION, INCONCLUSIVE, f"{evidence}: {_KEEPS_OR_DRAWS}")


def _distance(update: RecordedUpdate, first: RecordedUpdate) -> float:
    """Return how far an update is from the first one, relative to that."""
    return float((update.applied - first.applied).norm() / first.applied.norm().clamp(min=1e-300))


def _of_stale_gradients(first: RecordedUpdate, update: RecordedUpdate, evidence: str) -> Finding:
    """Answer where parameters still had the gradient of the update before."""
    evidence += f"; {update.num_stale} of {update.num_reached} parameters still had the gradient of the one before"
    has_new_optimizer = not any(optimizer is known for optimizer in first.optimizers for known in update.optimizers)
    if has_new_optimizer and update.num_stale == update.num_reached:
        evidence += ", but step makes a new optimizer in each call, and does not say what clears gradients between "
        evidence += "updates. Make the optimizer once, and let step clear them."
        return Finding(_QUESTION, NOT_ASKED, evidence)
    return Finding.failed(_QUESTION, f"{evidence}.", "stay")


def _of_other_weights(
    first: RecordedUpdate, update: RecordedUpdate, gradients: list[Tensor], evidence: str
) -> Finding | None:
    """Answer if an update is a sum of the same gradients as the first, with other weights; else None.

    Args:
        gradients: of each micro-batch alone.
    """
    first_weights = weights_in(first.applied, gradients)
    weights = weights_in(update.applied, gradients)
    explained = torch.stack(gradients, 1) @ torch.from_numpy(weights)
    residual = float((update.applied - explained).norm())
    if residual > NEAR * float(first.applied.norm().clamp(min=1e-300)) or all_near(weights / first_weights):
        return None
    evidence += f": micro-batches weigh {weights[0]:.3g} and {weights[1]:.3g}, and "
    evidence += f"{first_weights[0]:.3g} and {first_weights[1]:.3g} in the first."
    return Finding.failed(_QUESTION, evidence, "other update")


def without_labels(checked: CheckedBatch, step: Callable | None) -> Iterator[Finding]:
    """Find out if an update of sequences without any label is finite, if the data have such sequences."""
    question = "updates without labels"
    rows = [row for row in checked.all_sequences if not labeled(row)]
    if not rows:
        return
    evidence = f"{len(rows)} of {len(checked.all_sequences)} sequences have no label"
    if step is None or ranks() > 1:
        yield Finding(question, NOT_ASKED, f"{evidence}; what your trainer does with them is not known: pass step.")
        return
    losses = list[Tensor]()
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]

    def keep_loss(module: nn.Module, arguments: tuple, output: Any) -> None:
        losses.extend(x.detach() for name, x in tensors(output).items() if name == "loss" or x.dim() == 0)

    handle = checked.called.module.register_forward_hook(keep_loss)
    try:
        update = record_update(checked, parameters, [checked.collate(rows[:2])], step)
    except Exception as error:  # whatever a step raises, it is that it does not take this update
        evidence += f"; in an update of them step raised {type(error.__cause__ or error).__name__}."
        yield Finding.failed(question, evidence, "unlabeled")
        return
    finally:
        handle.remove()
    if update.is_finite() and all(bool(loss.isfinite().all()) for loss in losses):
        yield Finding(question, PASSED, f"{evidence}; an update of them is finite.")
    else:
        yield Finding.failed(question, f"{evidence}; an update of them has a loss or gradients of NaN.", "unlabeled")
