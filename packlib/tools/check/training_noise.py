"""Noise that a model draws while it trains: dropout, which an update can go without, and noise that a row makes larger.

A model is checked as it evaluates, where it draws none. While it trains, no two calls are the same, so what is compared
is how large the noise of a sequence is, in a pack and alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from packlib.tools.check.called_model import by_slot, ranks
from packlib.tools.check.collated_batch import CheckedBatch
from packlib.tools.check.findings import INCONCLUSIVE, NOT_ASKED, PASSED, Finding

_CALLS = 8  # by which a variance is estimated
_REPEATS = 4  # of an estimate, if the first one finds another size of noise
_LARGER = np.log(1.5)  # a ratio of variances: twice as many slots in a row halve that of NEFTune's noise
_DROPOUTS = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout}
_WITH_DROPOUT = {F.scaled_dot_product_attention: 4, F.multi_head_attention_forward: 10}  # place of dropout_p


class WithoutDropout(TorchFunctionMode):
    """A context in which dropout keeps everything, whatever the mode of the model."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        named = dict(kwargs or {})
        if function in _DROPOUTS:
            return args[0] if args else named["input"]
        place = _WITH_DROPOUT.get(function)
        if place is not None and len(args) > place:
            args = (*args[:place], 0.0, *args[place + 1 :])
        elif place is not None and "dropout_p" in named:
            named["dropout_p"] = 0.0
        return function(*args, **named)


@contextmanager
def without_training() -> Iterator[None]:
    """Keep every model from being set to train in the block, so that it draws no noise of any kind."""
    train = nn.Module.train
    try:
        nn.Module.train = lambda self, mode=True: self  # type: ignore[method-assign]
        yield
    finally:
        nn.Module.train = train  # type: ignore[method-assign]


def training(checked: CheckedBatch) -> Iterator[Finding]:
    """Find out if a model that trains changes from call to call, and if its noise depends on the row."""
    question, called = "training", checked.called
    if not isinstance(called.model, nn.Module):
        return
    if not called.trains:
        reason = "model was given as it evaluates, so noise of training was not looked at: call model.train() first."
        yield Finding(question, NOT_ASKED, reason)
        return
    with called.mode(train=True):
        call = called.try_call(checked.batch)
        repeats = [called.try_call(checked.batch, reseed=reseed) for reseed in (True, False)]
        if call is None or None in repeats:
            yield Finding(question, INCONCLUSIVE, "The model does not take the batch while it trains.")
            return
        same_seed, other_seed = (float(checked.distance(repeat.outputs, call.outputs).max()) for repeat in repeats)  # type: ignore[union-attr]
        evidence = (
            f"While the model trains, two calls with one batch differ by {same_seed:.2g} of the outputs with one seed"
        )
        evidence += f", by {other_seed:.2g} with another"
        if same_seed > checked.repeat_limit:
            yield Finding.failed(question, f"{evidence}.", "moves in training")
        elif other_seed <= checked.repeat_limit:
            yield Finding(question, PASSED, f"{evidence}.")
        else:
            yield _of_noise(checked, evidence)


def _of_noise(checked: CheckedBatch, evidence: str) -> Finding:
    """Find out if the noise of sequences is as large in the pack as it is alone.

    Args:
        evidence: what was measured before, to which this adds.
    """
    if ranks() > 1 or None in checked.unpacked:
        reason = (
            "; on several ranks, or where the model takes no sequence alone, how large the noise is was not compared."
        )
        return Finding("training", NOT_ASKED, f"{evidence}{reason}")
    first_ratio = _log_ratio_of_noise(checked)
    ratios = [first_ratio]
    # a large ratio may be by chance, as where a layer is skipped at times
    if first_ratio is not None and abs(first_ratio) > _LARGER / 2:
        ratios += [_log_ratio_of_noise(checked) for _ in range(_REPEATS - 1)]
    known_ratios = [ratio for ratio in ratios if ratio is not None]
    if len(known_ratios) < len(ratios):
        reason = "calls go through other parts of the model, or no part of it has noise at the tokens of both."
        return Finding("training", NOT_ASKED, f"{evidence}; how large the noise is was not compared: {reason}")
    ratio = float(np.mean(known_ratios))
    evidence += f"; the noise of a sequence is {np.exp(ratio / 2):.2g} times as large in the pack as alone."
    all_agree = min(np.sign(ratio) * np.array(known_ratios)) >= _LARGER / 2
    if abs(ratio) <= _LARGER or not all_agree:
        return Finding("training", PASSED, evidence)
    return Finding.failed("training", evidence, "noise of a row")


def _log_ratio_of_noise(checked: CheckedBatch) -> float | None:
    """Return the logarithm of a sequence's noise variance in the pack over that alone, on average over sequences.

    Noise is measured at the first part of the model whose input has some: what follows, such as a normalization, may
    hide how large it is.

    Returns:
        None if the model calls other parts for a sequence alone, or in another call (LayerDrop), or has no noise.
    """
    ratios = list[float]()
    packed_variances = _variances(checked, checked.batch)
    if packed_variances is None:
        return None
    first_noisy = next((index for index, variance in enumerate(packed_variances) if bool(variance.any())), -1)
    for piece, unpacked in zip(checked.pieces, checked.unpacked, strict=True):
        unpacked_variances = _variances(checked, unpacked.batch)  # type: ignore[union-attr]
        if unpacked_variances is None or len(unpacked_variances) != len(packed_variances):
            return None
        packed_noise = packed_variances[first_noisy][piece.slots].sum()
        unpacked_noise = unpacked_variances[first_noisy][unpacked.slots].sum()  # type: ignore[union-attr]
        if packed_noise > 0 and unpacked_noise > 0:
            ratios.append(float((packed_noise / unpacked_noise).log()))
    return float(np.mean(ratios)) if ratios else None


def _variances(checked: CheckedBatch, batch: dict) -> list[Tensor] | None:
    """Compute the variance over some calls of each part's input, and of the outputs.

    Returns:
        For each part in the order in which they end, and last for the outputs: shape (N,), summed over the width. None
        if not all calls go through the same parts.
    """
    ids = batch["input_ids"]
    calls = [checked.called(batch, reseed=False) for _ in range(_CALLS)]
    if any([part for part, _, _ in call.parts] != [part for part, _, _ in calls[0].parts] for call in calls):
        return None
    values = [
        [by_slot(part_input.detach(), ids) for _, part_input, _ in call.parts] + [call.outputs.detach()]
        for call in calls
    ]
    return [torch.stack(column).double().var(0).sum(1) for column in zip(*values, strict=True)]  # type: ignore[arg-type]
