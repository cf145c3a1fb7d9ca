"""What follows an update: does the next one begin anew, and does one of sequences without labels stay finite?"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from packlib.tools.check.called_model import ranks, tensors
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.findings import INCONCLUSIVE, NOT_ASKED, PASSED, Finding
from packlib.tools.check.recorded_updates import NEAR, all_near, record_update, record_updates, weights_in
from packlib.tools.check.slot_gradients import labeled
from packlib.tools.check.weighing import Weighing

_UPDATES = 3  # in a row


def next_update(checked: CheckedBatch, weighing: Weighing, step: Callable | None) -> Iterator[Finding]:
    """Ask whether an update right after another one has nothing of it: its gradients were cleared."""
    if step is None or weighing.whole.loss.value is None or weighing.is_silent:
        return
    question = "next update"
    batches = [batch.loss.batch for batch in weighing.batches[2:]]
    parted = ranks() > 1 and not checked.called.share_rows
    if parted and ranks() > 2:
        return
    parameters = [p for p in checked.called.module.parameters() if p.requires_grad]
    if not parameters:
        return
    own = [batches[dist.get_rank()]] if parted else batches
    first, *later = record_updates(checked, parameters, [own] * _UPDATES, step)
    if any(update.searches or not bool(update.applied.isfinite().all()) for update in (first, *later)):
        yield Finding(question, NOT_ASKED, "What step applies is not known: see accumulation.")
        return
    if not first.steps or not all(update.steps for update in later):
        yield Finding(question, NOT_ASKED, "No optimizer steps in step, so what follows an update is not known.")
        return
    evidence = f"step made {_UPDATES} updates of the same weights and micro-batches, one right after the other"
    for update in later:
        if not update.stale:
            continue
        evidence += f"; {update.stale} of {update.reached} parameters still had the gradient of the one before"
        new_optimizer = not any(one is other for one in first.optimizers for other in update.optimizers)
        if new_optimizer and update.stale == update.reached:
            why = "step makes a new optimizer in each call, and does not say what clears gradients between updates."
            yield Finding(
                question, NOT_ASKED, f"{evidence}, but {why} Make the optimizer once, and let step clear them."
            )
        else:
            yield Finding.failed(question, f"{evidence}.", "stay")
        return
    size = first.applied.norm().clamp(min=1e-300)
    apart = max(float((update.applied - first.applied).norm() / size) for update in later)
    evidence += (
        f"; the gradients that its optimizer applied differ from those of the first by {apart:.2g} of their size"
    )
    if apart <= NEAR:
        yield Finding(question, PASSED, f"{evidence}.")
        return
    if not parted and not checked.called.share_rows:
        gradients = [checked.called.parameter_slope(batch, parameters) for batch in batches]
        farthest = max(later, key=lambda update: float((update.applied - first.applied).norm()))
        weights, first_weights = (weights_in(update.applied, gradients) for update in (farthest, first))
        explained = torch.stack(gradients, 1) @ torch.from_numpy(weights)
        if float((farthest.applied - explained).norm()) <= NEAR * float(size) and not all_near(
            weights / first_weights
        ):
            evidence += f": micro-batches weigh {weights[0]:.3g} and {weights[1]:.3g}, and "
            evidence += f"{first_weights[0]:.3g} and {first_weights[1]:.3g} in the first."
            yield Finding.failed(question, evidence, "other update")
            return
    yield Finding(
        question, INCONCLUSIVE, f"{evidence}: step keeps a count or a state besides the gradients, or draws noise."
    )


def without_labels(checked: CheckedBatch, step: Callable | None) -> Iterator[Finding]:
    """Ask what an update of sequences without any label does, if the data have such."""
    question = "updates without labels"
    rows = [row for row in checked.given if not labeled(row)]
    if not rows:
        return
    evidence = f"{len(rows)} of {len(checked.given)} sequences have no label"
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
