"""Why a sequence sees another one: something is put right, and the leak stops or it does not.

If simpler causes are excluded, the operations of the model are changed: every softmax over keys, or every convolution,
is cut at the borders of sequences (`Cut`). If the leak stops, it came by these operations; if it stays, a state
carries it. A leak by attention is then looked for in the batch, of which one field after another is put right
(`_cures`): that says how to mend it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from packlib.tools.check.called_model import innermost_leak
from packlib.tools.check.collated_batch import CheckedBatch, found_in
from packlib.tools.check.locating import MASK, POSITIONS, Piece, has_slots, is_mask, owners, restarting

_FAINT = 1e-3  # a gradient, relative to the largest: what is seen so little was meant to be hidden
_CLEARLY = 1e3  # times the limit of moves: a gradient above it would move outputs, if the backward pass were right
_GRAM = 3  # tokens that an n-gram reads before its last one, at most
_NO_MASK = "none", "run on", "ones", "mask", "attention"  # causes by which no mask keeps sequences apart


class Cut(TorchDispatchMode):
    """A context in which attention, or convolutions, keep sequences apart whatever the model does.

    Used with `SDPBackend.MATH`, which computes every attention of torch with a softmax.

    Args:
        owner: shape (rows, T), the number of the piece in each slot, below 0 for none.
        operations: "attention", "convolution", or "attention and convolution".

    Attributes:
        is_foreign: shape (rows, T, T), whether two slots of a row belong to different pieces.
        hold_tokens: shape (rows, T, T), whether both slots belong to pieces, and none to padding.
        kernel: how many slots a convolution that was cut reaches back.
        seen_pairs: pairs (slot that looks, slot of another sequence that it sees), from the first attention that has
            any; slots are counted through all rows; shape (pairs, 2).
    """

    def __init__(self, owner: np.ndarray, operations: str) -> None:
        super().__init__()
        self.owner, self.operations = torch.from_numpy(owner), operations
        self.is_foreign = self.owner[:, :, None] != self.owner[:, None, :]
        self.hold_tokens = (self.owner[:, :, None] >= 0) & (self.owner[:, None, :] >= 0)
        self.seen_pairs = np.empty((0, 2), int)
        self.kernel = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Run an operation of torch; cut its output if it is attention's weights, or that of a convolution over slots.

        A model without a softmax takes `exp` of its scores, and divides by their sum afterwards.
        """
        name = function.__name__.split(".")[0]  # without the overload, such as ".default"
        output = function(*args, **(kwargs or {}))
        if name in ("_softmax", "_safe_softmax", "exp"):
            row_axes = self._axes_of_rows(output)
            if row_axes:
                self._note_seen_pairs(output, row_axes[0])
                if "attention" in self.operations:
                    return self._cut_weights(output, row_axes, is_exp=name == "exp")
        if name == "convolution" and "convolution" in self.operations:
            slots = self.owner.shape[1]
            if output.dim() == 3 and min(output.shape[2], args[0].shape[2]) >= slots:
                return self._cut_convolution(function, args, output)
        return output

    def _cut_weights(self, weights: Tensor, row_axes: list[int], is_exp: bool) -> Tensor:
        """Return attention's weights without those of other sequences; those of a softmax add up to 1 again."""
        for axis in row_axes:
            weights = self._without_foreign(weights, axis)
        return weights if is_exp else weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)

    def _cut_convolution(self, convolution: Any, args: tuple, output: Tensor) -> Tensor:
        """Return what a convolution gives for each sequence if zeros stand in place of all others.

        Args:
            args: of torch's operation: the input, shape (rows, channels, slots and more), the weight, whose last axis
                is the kernel, and sixth the dilation.
        """
        inputs = args[0]
        weight = args[1]
        dilation = args[5][0]
        self.kernel = max(self.kernel, (weight.shape[2] - 1) * dilation)
        slots = self.owner.shape[1]
        padding_before = inputs.shape[2] - slots  # slots of padding in front
        padding_after = output.shape[2] - slots
        for number in range(int(self.owner.max()) + 1):
            of_sequence = (self.owner == number)[:, None].to(output.device)
            output_alone = convolution(inputs * nn.functional.pad(of_sequence, (padding_before, 0)), *args[1:])
            output = torch.where(nn.functional.pad(of_sequence, (0, padding_after)), output_alone, output)
        return output

    def _axes_of_rows(self, weights: Tensor) -> list[int]:
        """Return the axes of attention's weights that may be the rows, or rows times heads; [] if not of pairs.

        If heads have an axis of the same size, both are cut: a leak that does not come by attention stays all the same.
        """
        rows, slots = self.owner.shape
        if weights.dim() < 3 or weights.shape[-2] != slots or not slots <= weights.shape[-1] <= 2 * slots:
            return []
        sizes = list(enumerate(weights.shape[:-2]))
        of_rows = [axis for axis, size in sizes if size == rows]
        of_rows_times_heads = [axis for axis, size in sizes if size % rows == 0]
        return of_rows or of_rows_times_heads[:1]

    def _note_seen_pairs(self, weights: Tensor, axis: int) -> None:
        """Note which slots see those of another sequence, if no attention before did.

        Args:
            axis: the axis of the weights that is the rows, or rows times heads.
        """
        rows, slots = self.owner.shape
        by_row = weights.movedim(axis, 0).reshape(rows, -1, *weights.shape[-2:])
        sees = self._columns_of_slots(by_row.amax(1)) > 0
        # of each pair: the row, the place there of the slot that looks, and that of the slot that it sees
        triples = (sees.cpu() & self.is_foreign & self.hold_tokens).nonzero().numpy()
        if len(triples) and not len(self.seen_pairs):
            self.seen_pairs = triples[:, :1] * slots + triples[:, 1:]

    def _columns_of_slots(self, weights: Tensor) -> Tensor:
        """Return attention's weights to the slots of the row, without those to a sink or a learned prefix.

        A sink is one more column after the slots; a prefix is several more before them.
        """
        slots = self.owner.shape[1]
        return weights[..., :slots] if weights.shape[-1] <= slots + 1 else weights[..., -slots:]

    def _without_foreign(self, weights: Tensor, axis: int) -> Tensor:
        """Return attention's weights with 0 for slots of other sequences; sinks and prefixes stay.

        Args:
            axis: the axis of the weights that is the rows, or rows times heads.
        """
        rows, slots = self.owner.shape
        by_row = weights.movedim(axis, 0)
        extra = weights.shape[-1] - slots  # columns of a sink or a prefix
        foreign = nn.functional.pad(self.is_foreign, (0, extra) if extra <= 1 else (extra, 0)).to(weights.device)
        hidden = by_row.reshape(rows, -1, *weights.shape[-2:]).masked_fill(foreign[:, None], 0)
        return hidden.view_as(by_row).movedim(0, axis)


def document_mask(ids: Tensor, pieces: Sequence[Piece], causal: bool) -> Tensor:
    """Let each slot see its own piece, or all padding if it is padding; bool, shape (rows, 1, T, T)."""
    owner = torch.from_numpy(owners(ids, pieces)).to(ids.device)
    allowed = owner[:, :, None] == owner[:, None, :]
    return (allowed.tril() if causal else allowed)[:, None]


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Make an additive mask: 0 where allowed, else the least number of `dtype`."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, torch.finfo(dtype).min)


class Diagnosis(NamedTuple):
    """Why sequences of a batch see others.

    Attributes:
        causes: names of rows of causes.csv, which has their sentences.
        place: the part of the model in which sequences meet first; empty if no part shows it.
        cured: the batch, changed so that nothing leaks; None if no change is known.
        field: the field of the batch that is to blame, if it is one of the collator's own; else empty.
    """

    causes: list[str]
    place: str
    cured: dict | None = None
    field: str = ""


def diagnose_leak(checked: CheckedBatch) -> Diagnosis:
    """Find why pieces of a batch see others, if one does.

    Each step tries one kind of cause, and the first that explains the leak is the answer:

    1. Gradients leak and outputs do not: the backward pass, or a leak that half precision rounds off.
    2. A sequence sees another row.
    3. Only training leaks.
    4. Every attention, every convolution, or both, are cut at the borders. What stops the leak causes it; if nothing
       does, a state carries it from one sequence to the next.
    5. For attention, the batch is put right in one way after another (`_cures`). The first that stops the leak says
       what is wrong with the batch, unless the pairs of slots that see each other say more (`_of_attention`).
    """
    slots = [piece.slots for piece in checked.pieces]
    # the path of the innermost part of the model in which sequences meet, and how many slots back it reaches
    place, reach = innermost_leak(checked.called, checked.batch, slots, checked.owner)
    cause = _of_gradients_alone(checked)
    if cause is None and checked.own_leak("another row"):
        cause = "rows"
    if cause is None and not _leaks(checked, checked.batch):  # `own_leak` asks in training as well
        cause = _of_training(checked)
    return Diagnosis([cause], place) if cause is not None else _by_cuts(checked, place, reach)


def _leaks(checked: CheckedBatch, batch: dict, cut: Cut | None = None) -> bool:
    """Return whether a sequence of a batch sees another one; True if the model refuses the batch.

    The model is asked in the mode that it is in, to train or to evaluate.

    Args:
        cut: keeps sequences apart while the model is called; None for the model as it is.
    """
    if cut is None:
        refuses = checked.called.try_call(batch) is None
        return refuses or checked.leak(checked.moves(batch), checked.slopes(batch)) is not None
    # a low limit: a cut that stops the leak leaves no influence, not even one of rounding's size
    limit = max(10 * checked.noise.same_seed, 2e-6)
    with sdpa_kernel(SDPBackend.MATH), cut:
        moves_of_others = checked.moves(batch)[~np.eye(len(checked.pieces), dtype=bool)]
    return bool((moves_of_others > limit).any())


def _of_gradients_alone(checked: CheckedBatch) -> str | None:
    """Name the cause if gradients leak and outputs do not; None if outputs leak, too."""
    by_gradient = checked.leak(None, checked.slopes(checked.batch))  # of evaluation alone
    if by_gradient is None or checked.leak(checked.own_moves, None):
        return None
    if by_gradient.strength > _CLEARLY * checked.move_limit:
        return "backward"
    is_half = checked.call.outputs.element_size() == 2
    return "faint" if is_half else None  # half precision rounds off moves as small as this gradient


def _of_training(checked: CheckedBatch) -> str:
    """Name the cause of a leak that only training has: what attention or convolutions see, or statistics of a batch."""
    with checked.called.mode(train=True):
        by_operations = _leaks(checked, checked.batch) and not _leaks(
            checked, checked.batch, Cut(checked.owner, "attention and convolution")
        )
    return "training" if by_operations else "rows"


def _by_cuts(checked: CheckedBatch, place: str, reach: int) -> Diagnosis:
    """Cut operations of the model at the borders, one kind after another, to see which of them the leak comes by.

    Args:
        place, reach: as `innermost_leak` finds them.
    """
    cuts = {name: Cut(checked.owner, name) for name in ("attention", "convolution", "attention and convolution")}
    stopping_cut = next((name for name, cut in cuts.items() if not _leaks(checked, checked.batch, cut)), None)
    by_attention = stopping_cut is not None and "attention" in stopping_cut
    causes = []
    if stopping_cut is None:
        causes = ["state"]
    elif stopping_cut == "convolution" and reach > cuts["convolution"].kernel:
        # it reaches farther back than a convolution can: there is a state too, whose own leak is less than rounding
        causes = ["state", "convolution"]
    elif "convolution" in stopping_cut:
        causes = ["convolution"]

    if by_attention:
        working = (cure for cure in _cures(checked) if not _leaks(checked, cure.batch))
        cure = next(working, None)
        proven = "attention" if cure is None else cure.cause
        cause = _of_attention(checked, cuts["attention"].seen_pairs, proven, only_attention=not causes)
        if cure is None:
            return Diagnosis([cause, *causes], place)
        if cure.cause != "cache" and cure.batch.get("use_cache") != checked.batch.get("use_cache"):
            causes = ["cache", *causes]  # the same cure with the cache on came before, and did not stop the leak
        return Diagnosis([cause, *causes], place, cure.batch, cure.field)
    return Diagnosis(_of_state(checked) if causes == ["state"] else causes, place)


def _of_state(checked: CheckedBatch) -> list[str]:
    """Name the causes of a leak that stays where every attention and every convolution is cut.

    A state goes through a row from left to right, so it takes earlier sequences to later ones. A leak from a "later"
    one or another row is therefore something else.
    """
    gradients_leak = checked.own_slopes is None or checked.leak(None, checked.own_slopes)
    if not gradients_leak:  # a state would pass gradients on
        causes = ["ids before" if _reads_ids_before(checked) else "counted"]
        return [*causes, "rows"] if checked.own_leak("later") else causes
    if checked.called.share_rows:  # it may be an attention after all: no rank has the whole of it to be cut
        return ["shared rows"]
    return ["mixed" if checked.own_leak("later") else "state"]


class Cure(NamedTuple):
    """A way to put a batch right.

    Attributes:
        cause: what it proves if the leak stops: the name of a row of causes.csv.
        batch: the batch that is put right.
        field: the field of the collator's own that is to blame; else empty.
    """

    cause: str
    batch: dict
    field: str = ""


def _cures(checked: CheckedBatch) -> Iterator[Cure]:
    """Yield ways to put the batch right.

    The order is part of the diagnosis, for only the first that stops the leak counts: what changes the batch least
    comes first. That is

    1. with masks of pairs: a boolean mask becomes additive;
    2. without them: the cache is off; the 2D mask is left out; it is left out and the positions restart; each of the
       last two with the cache as it is, then with the cache off;
    3. a field of the collator's own, such as ids of documents, numbers the sequences;
    4. a mask of pairs keeps the sequences apart, additive or boolean.
    """
    batch = checked.batch
    ids = checked.ids
    dtype = checked.call.outputs.dtype
    masks = [name for name, value in batch.items() if is_mask(value, ids)]
    for name in masks:
        if batch[name].dtype == torch.bool:
            yield Cure("boolean", {**batch, name: additive(batch[name], dtype)})

    cause = _fault_of_borders(checked, masks)
    if not masks:
        cache_off = {"use_cache": False}
        unmasked = {name: value for name, value in batch.items() if name != MASK}
        restarted = {**unmasked, POSITIONS: restarting(ids, checked.pieces)}
        yield Cure("cache", {**batch, **cache_off})
        for cured in (unmasked, {**unmasked, **cache_off}, restarted, {**restarted, **cache_off}):
            yield Cure(cause, cured)

    standard_fields = ("input_ids", "labels", MASK, POSITIONS)
    for name, value in batch.items():
        if name in standard_fields or not has_slots(value, ids):
            continue
        if not value.is_floating_point() and len(value.unique()) > 1:
            numbers = torch.from_numpy(checked.owner + 1).to(value).view_as(value)
            yield Cure("again", {**batch, name: numbers}, name)

    allowed = document_mask(ids, checked.pieces, checked.causal)
    for name in masks or [MASK]:
        yield Cure(cause, {**batch, name: additive(allowed, dtype)})
        yield Cure(cause, {**batch, name: allowed})


def _fault_of_borders(checked: CheckedBatch, masks: list[str]) -> str:
    """Name what is wrong with the borders in a batch, as far as its fields show it.

    Args:
        masks: the fields that are masks of pairs.
    """
    batch, pieces = checked.batch, checked.pieces
    if masks:
        return "mask"
    if MASK in batch:
        return "ones"
    if POSITIONS in batch:
        ahead = (batch[POSITIONS] - restarting(checked.ids, pieces)).flatten()
        ahead = ahead[np.concatenate([piece.slots for piece in pieces])]
        if bool((ahead != ahead[0]).any()):
            return "run on"
    return "none"


def _of_attention(checked: CheckedBatch, seen_pairs: np.ndarray, proven_cause: str, only_attention: bool) -> str:
    """Name the row of causes.csv for what lets sequences in through attention.

    The first description that fits is the answer: which pairs of slots see each other says more than which cure works.

    Args:
        seen_pairs: pairs of slots, as a `Cut` has them.
        proven_cause: the one that the first working cure proves; "attention" if no cure works.
        only_attention: whether nothing but attention lets them in.
    """
    looks, sees = (set(slots.tolist()) for slots in seen_pairs.T)
    first_slots = {int(piece.slots[0]) for piece in checked.pieces}
    last_slots = {int(piece.slots[-1]) for piece in checked.pieces}
    hooks = [hook for part in checked.called.module.modules() for hook in part._forward_pre_hooks.values()]
    if looks and _begin_a_row(checked, sees):
        return "sink"
    if looks and _as_in_the_short_batch(checked, seen_pairs):
        return "kept mask"
    if looks and (looks <= first_slots or sees <= last_slots) and proven_cause in ("none", "mask", "attention"):
        return "border"
    if proven_cause == "attention" and only_attention and _partly(checked):
        return "some"
    if proven_cause in _NO_MASK and any("context_parallel" in getattr(hook, "__qualname__", "") for hook in hooks):
        return "context parallel"
    leak = checked.leak(None, checked.own_slopes)
    if proven_cause == "attention" and leak is not None and leak.strength < _FAINT:
        return "faint"
    return proven_cause


def _begin_a_row(checked: CheckedBatch, seen_slots: set[int]) -> bool:
    """Return True if the slots that others see begin a row, and are fewer than its first sequence has."""
    last_column = max(slot % checked.ids.shape[-1] for slot in seen_slots)
    lengths = [len(checked.pieces[number].slots) for number in checked.first_pieces]
    return last_column < max(1, min(lengths) - 1)


def _as_in_the_short_batch(checked: CheckedBatch, seen_pairs: np.ndarray) -> bool:
    """Return True if the borders of the short batch explain which slots of the first row see each other.

    The model had the short batch before this one, and may have kept its mask.

    Args:
        seen_pairs: as a `Cut` has them, of all rows; those of other rows are left out.
    """
    owner = checked.owner[0]
    owner_before = owners(checked.short["input_ids"], found_in(checked.short, checked.sequences))[0]
    width = min(len(owner), len(owner_before))
    owner, owner_before = owner[:width], owner_before[:width]
    hold_tokens = (owner[:, None] >= 0) & (owner >= 0)  # pairs of slots that are no padding
    was_same_sequence = owner_before[:, None] == owner_before
    expected = hold_tokens & (owner[:, None] != owner) & was_same_sequence
    if checked.causal:
        expected &= np.tri(width, dtype=bool)
    is_seen = np.zeros_like(expected)
    for looks, sees in seen_pairs:
        if looks < width and sees < width:
            is_seen[looks, sees] = True
    return bool(expected.any()) and np.array_equal(expected, is_seen)


def _reads_ids_before(checked: CheckedBatch) -> bool:
    """Return True if nothing but the last tokens of a sequence change those of the next, as where n-grams are read."""
    leak = checked.own_leak()
    if leak is None:
        return False
    looking_slots = checked.pieces[leak.looking].slots
    seen_slots = checked.pieces[leak.seen].slots
    all_but_last = seen_slots[:-_GRAM]  # all but those that an n-gram may read
    call = checked.called(checked.moved(checked.batch, all_but_last))
    change = checked.distance(call.outputs, checked.call.outputs)[looking_slots]
    is_next = leak.seen + 1 == leak.looking
    return is_next and len(seen_slots) > _GRAM and not bool((change > checked.move_limit).any())


def _partly(checked: CheckedBatch) -> bool:
    """Return True if some pieces of a row are kept apart, and others are not."""
    order = np.arange(len(checked.pieces))
    is_earlier_in_row = (checked.row_of[:, None] == checked.row_of) & (order < order[:, None])
    is_moved = checked.own_moves[is_earlier_in_row] > checked.move_limit
    return bool(is_moved.any() and not is_moved.all())
