"""A model that is only called, and what a call shows: which tokens its outputs depend on."""

import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from packlib.arguments import listed, one_line, shown
from packlib.tools.check.places import place_of

_PLACEHOLDER = re.compile(r"(image|video|vision|audio|boi|eoi|boa|eoa).*token_(id|index)$")
_SAMPLED = 1 << 14  # about how many numbers of each parameter are compared
_SMALL = 10**7  # parameters: several threads compute a smaller model no faster, they wait for one another
_WINDOWS = "sliding_window", "local_attention", "attention_chunk_size", "window_size"  # of transformers' configs
_DISTURBED = 3.0  # noise that changes what a model says, relative to the spread of what it is added to
EXACT = 1e-6  # a token that is masked has a gradient of exactly 0 in every precision; Fourier transforms leave 1e-7


class Refused(ValueError):
    """Error that says what failed, where, and what to do; what was raised comes after it, as a detail."""

    def __init__(self, sentence: str, error: Exception) -> None:
        place, detail = place_of(error), one_line(str(error), 200).rstrip(".")
        detail = ": ".join(filter(None, [type(error).__name__, detail]))
        super().__init__(f"{sentence}{f' ({place})' * bool(place)}. Detail: {detail}.")


@dataclass(frozen=True)
class ModelCall:
    """Record of one call of the model with a batch of N slots.

    Attributes:
        outputs: shape (N, width), one row a slot: logits, or hidden states.
        loss: scalar, or None.
        scores: the logits that the loss is made of, shape (…, vocabulary), M rows of them.
        score_slots: the slot of each row of scores, shape (M,): all N slots, or those of the predicted tokens alone.
        embeddings: outputs of the parts that read token ids. Gradients end at them if the call detached them.
        rounding: the largest relative rounding error of a number, of all formats that parts of the model computed in.
        parts: (part of the model, its input, its output) in the order in which parts ended, of those whose input and
            output have numbers for each slot.
    """

    outputs: Tensor
    loss: Tensor | None
    scores: Tensor
    score_slots: Tensor
    embeddings: list[Tensor]
    rounding: float
    parts: list[tuple[nn.Module, Tensor, Tensor]]

    def slope(self) -> tuple[Tensor, Tensor] | None:
        """Return the scores that the loss is made of, and its gradient with respect to them; None if there are none.

        The scores that a model returns may be a copy, through which no gradient passes. Then the last part of the model
        with equal outputs has the original.
        """
        if self.loss is None or not self.loss.requires_grad:
            return None
        flat_scores = self.scores.flatten()
        part_outputs = [output for _, _, output in reversed(self.parts)]
        originals = (
            x for x in part_outputs if x.numel() == flat_scores.numel() and torch.equal(x.flatten(), flat_scores)
        )
        for scores in (x for x in (self.scores, *originals) if x.requires_grad):
            (gradient,) = torch.autograd.grad(self.loss, scores, retain_graph=True, allow_unused=True)
            if gradient is not None:
                return scores, gradient
        return None


class CalledModel:
    """A model that is only called. `mode` puts its mode and the state of random numbers back.

    Args:
        model, loss: as in `check_packing`.
        share_rows: whether each row lies on all ranks, which then call the model together, each with the whole batch.
        keep: tokens that are never changed, besides the placeholders of images that the model's config names.

    Attributes:
        outer: the model as it was given. A step gets this one, which may add up gradients over ranks.
        model: the model without DistributedDataParallel.
        module: the same, or an empty module if the model is a plain function.
        trains: whether the model was given in training mode.
        keep: all tokens that are never changed, sorted.
        ends: tokens that begin or end sequences, by which the model tells them apart; set by `CheckedBatch.own_moves`.
        first_batch: the first batch that the model took; None before.
        compiled: whether a part of the model is compiled.
    """

    def __init__(
        self, model: Callable, loss: Callable | None, share_rows: bool = False, keep: Collection[int] = ()
    ) -> None:
        for name, function in (("model", model), ("loss", loss)):
            if isinstance(function, type):
                raise TypeError(f"{name} must be a {name}, not the class {function.__name__}: make one of it.")
            if not callable(function) and (name == "model" or function is not None):
                raise TypeError(f"{name} must be callable, not {shown(function)}.")
        self.first_batch: dict[str, Any] | None = None
        self.share_rows = share_rows and ranks() > 1
        self.outer = model
        model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
        self.model, self.loss = model, loss
        self.module = model if isinstance(model, nn.Module) else nn.Module()
        self.trains = model is self.module and model.training
        self.keep = sorted({*keep, *placeholders(self.module)})
        self.ends: list[int] = []
        self.device = next((p.device for p in self.module.parameters()), None)
        if any(p.is_meta for p in self.module.parameters()):
            raise ValueError(
                "model must have no parameter on the device meta, which holds no numbers: load its weights."
            )
        self.compiled = any(hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
                            for part in self.module.modules())  # fmt: skip

    @contextmanager
    def mode(self, train: bool) -> Iterator[None]:
        """Train or evaluate the model in the block, with random numbers of the check's own."""
        buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]  # such as a batch's statistics
        python_state = random.getstate()
        numpy_state = np.random.get_state()  # noqa: NPY002
        threads = torch.get_num_threads()
        is_small = sum(p.numel() for p in self.module.parameters()) < _SMALL
        try:
            torch.set_num_threads(1 if is_small else threads)
            # compiled code runs as it is written: each shape, and each hook of a call, would be a graph of its own
            eager = torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()
            with keeping_modes(self.module), torch.random.fork_rng(devices=[]), torch.enable_grad(), eager:
                self.module.train(train)
                yield
        finally:
            for buffer, value in buffers:
                buffer.copy_(value)
            torch.set_num_threads(threads)
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002

    def reseed(self, seed: int = 0) -> None:
        """Set the seed of all random numbers."""
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)

    @property
    def window(self) -> int:
        """Return the tokens of the widest window of an attention, by the model's config; 0 without windows."""
        whole_config = getattr(self.module, "config", None)
        configs = (whole_config, getattr(whole_config, "text_config", None))
        sizes = (getattr(config, name, None) for config in configs for name in _WINDOWS)
        return max((size for size in sizes if isinstance(size, int)), default=0)

    def kinds(self, ids: Tensor) -> Tensor:
        """Mark placeholders of images with 1, of videos with 2, all else with 0, as processors of transformers do."""
        config = getattr(self.module, "config", None)
        marks = torch.zeros_like(ids)
        for kind, name in enumerate(("image_token_id", "video_token_id"), start=1):
            marks[ids == getattr(config, name, -1)] = kind  # -1 is no token
        return marks

    def try_call(self, batch: Mapping[str, Any], reseed: bool = True) -> ModelCall | None:
        """Call the model as `__call__` does; None if it refuses such a batch."""
        try:
            return self(batch, reseed=reseed)
        except Exception:  # whatever a model raises, it is that it does not take this batch
            return None

    def parameter_slope(
        self, batch: Mapping[str, Any], parameters: Sequence[nn.Parameter], through_scores: bool = False
    ) -> Tensor:
        """Compute the loss's gradient with respect to some numbers of each parameter; float64, shape (numbers,).

        Args:
            through_scores: whether to leave out what does not pass through the scores, such as a router's loss.
        """
        call = self(batch, detach_embeddings=False)
        loss = call.loss
        if through_scores and (slope_of_scores := call.slope()) is not None:
            scores, slope = slope_of_scores
            loss = (scores * slope.detach()).sum()  # its gradient with respect to the scores is that of the loss
        if any(isinstance(p, DTensor) for p in parameters):  # a sharded model sums gradients in backward alone
            kept_gradients = [(p, p.grad) for p in parameters]
            for p in parameters:
                p.grad = None
            loss.backward()  # type: ignore[union-attr]
            gradient_sums = torch.cat([sampled_numbers(p, p.grad) for p in parameters])
            for p, gradient in kept_gradients:
                p.grad = gradient
            return gradient_sums
        slopes = torch.autograd.grad(loss, parameters, allow_unused=True)  # type: ignore[arg-type]
        return torch.cat([sampled_numbers(*pair) for pair in zip(parameters, slopes, strict=True)])

    def summed(self, gradient: Tensor) -> Tensor:
        """Sum a gradient over the ranks, if each of them has the gradient of its part of the rows."""
        if self.share_rows:
            dist.all_reduce(gradient := gradient.contiguous())
        return gradient

    def from_scores(self, batch: Mapping[str, Any], width: int) -> ModelCall:
        """Call the model so that gradients end at the scores, and nothing before them is kept in memory.

        Args:
            width: of the scores, by which the part of the model that makes them is known.
        """
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        try:
            for p in parameters:
                p.requires_grad_(False)
            return self(batch, detach_embeddings=False, score_width=width)
        finally:
            for p in parameters:
                p.requires_grad_()

    def disturbed(self, batch: Mapping[str, Any], width: int, seed: int) -> ModelCall:
        """Call the model so that it says something else: its embeddings and its scores get noise.

        Seeds take turns: much noise; another sign, so that what is likely becomes unlikely; and all nearly alike.

        Args:
            width: of the scores, by which the part of the model that makes them is known.
        """
        draw = torch.Generator().manual_seed(seed)

        def disturb(module: nn.Module, arguments: tuple, named: dict, output: Any) -> Tensor | None:
            if any(module.children()) or not isinstance(output, Tensor):
                return None
            inputs = [value for value in (*arguments, *named.values()) if isinstance(value, Tensor)]
            by_token = by_slot(output, batch["input_ids"])
            are_scores = by_token is not None and by_token.shape[1] == width
            are_embeddings = _reads(batch["input_ids"], inputs)
            if not are_scores and not are_embeddings:
                return None
            noise = output.detach().std() * torch.randn(output.shape, generator=draw).to(output)
            ways = output + _DISTURBED * noise, noise - output, 0.1 * (output + noise)
            return ways[seed % len(ways)]

        handle = nn.modules.module.register_module_forward_hook(disturb, with_kwargs=True)
        try:
            return self(batch)
        finally:
            handle.remove()

    def __call__(
        self, batch: Mapping[str, Any], reseed: bool = True, detach_embeddings: bool = True, score_width: int = 0
    ) -> ModelCall:
        """Call the model with a copy of `batch`.

        Args:
            reseed: whether to set the seed of random numbers before.
            detach_embeddings: whether embeddings are leaves of the graph: gradients reach them and go no further.
            score_width: if not 0, scores of this width for each slot are leaves as well.
        """
        if reseed:
            self.reseed()
        batch = {
            name: x.clone().to(self.device or x.device) if isinstance(x, Tensor) else x for name, x in batch.items()
        }
        watch = _Watch(batch["input_ids"], detach_embeddings, score_width)
        handle = nn.modules.module.register_module_forward_hook(watch.part_ended, with_kwargs=True)
        try:
            output = self.model(**batch)
        except Exception as error:
            raise Refused(self._why_refused(batch), error) from error
        finally:
            handle.remove()
        self.first_batch = self.first_batch or batch
        outputs, loss, scores, score_slots = self._read(output, batch)
        rounding = max(torch.finfo(dtype).eps for dtype in (*watch.dtypes, outputs.dtype))
        return ModelCall(outputs, loss, scores, score_slots, watch.embeddings, rounding, watch.parts)

    def _why_refused(self, batch: dict[str, Any]) -> str:
        """Say what the model does not take, and what to do, in a sentence without its full stop."""
        ids = batch["input_ids"]
        shape = tuple(ids.shape)
        size = getattr(getattr(self.module, "config", None), "vocab_size", None)
        if isinstance(size, int) and int(ids.max()) >= size:
            return f"input_ids hold the token {int(ids.max())}, and the model's vocabulary has {size}"
        if self.first_batch is None:
            fields = listed(batch)
            return (
                f"model failed when it was called as model(**batch) with the batch that collate makes, of tokens of "
                f"the shape {shape} and the fields {fields}: see that it takes this batch before it is checked"
            )
        first_ids = self.first_batch["input_ids"]
        if first_ids.shape == ids.shape and not torch.equal(first_ids, ids):
            count = int((first_ids != ids).sum())
            return (
                f"model took the batch of collate, and failed when {count} of its tokens were exchanged for others of "
                "the batch: name those that must stay, such as placeholders of images, in keep (--keep)"
            )
        missing = sorted(self.first_batch.keys() - batch.keys())
        without = f" without {listed(missing)}" if missing else ""
        return (
            f"model took a batch of tokens of the shape {tuple(first_ids.shape)}, and failed with another of {shape}"
            f"{without}: it must take batches of other sequences too, and of one alone"
        )

    def refuse_parts(self, call: ModelCall) -> None:
        """Raise a ValueError if ranks that share rows have other outputs or losses.

        The check decides by them what to ask next, and that must be the same on all ranks.
        """
        if not self.share_rows:
            return
        for name, value in (("outputs", call.outputs), ("loss", call.loss)):
            norm = torch.zeros(()) if value is None else value.detach().double().norm().cpu()
            norms: list[Any] = [None] * ranks()
            dist.all_gather_object(norms, float(norm))
            if not np.allclose(norms, norms[0], rtol=1e-6, equal_nan=True):
                raise ValueError(
                    f"model must give each rank the {name} of whole rows, gathered or summed over ranks, where "
                    f'ranks_share is "rows", and not each its own (of norm {" and ".join(f"{x:.4g}" for x in norms)}).'
                )

    def _read(self, output: Any, batch: dict) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """Return the `outputs`, `loss`, `scores` and `score_slots` of a `ModelCall`."""
        ids = batch["input_ids"]
        fields = tensors(output)
        by_token = {
            name: x
            for name, x in fields.items()
            if x.is_floating_point() and x.dim() > ids.dim() and x.shape[: ids.dim()] == ids.shape
        }
        if not by_token:
            raise self._nothing_by_token(output, ids)
        loss = self._loss_of(output, batch)
        name = "logits" if "logits" in by_token else max(by_token, key=lambda name: by_token[name].shape[-1])
        outputs = by_token[name].flatten(0, ids.dim() - 1).flatten(1)
        if {"token_positions", "token_logits"} <= set(fields):  # logits of the predicted tokens alone
            return outputs, loss, fields["token_logits"], fields["token_positions"]
        return outputs, loss, by_token[name], torch.arange(len(outputs))

    def _nothing_by_token(self, output: Any, ids: Tensor) -> ValueError:
        """Return the error for an output that has no numbers for each token."""
        fields = tensors(output)
        returned = ", ".join(f"{name} {tuple(value.shape)}" for name, value in fields.items()) or _kinds(output)
        expected = f".logits of the shape ({', '.join(map(str, ids.shape))}, width)"
        slots_axis = ids.dim() - 1
        extra_slots = [
            x.shape[slots_axis] - ids.shape[-1]
            for x in fields.values()
            if x.is_floating_point() and x.dim() > ids.dim() and x.shape[:slots_axis] == ids.shape[:-1]
        ]
        prompt = "slots more, as a soft prompt (prompt tuning) puts before each row, and not before each sequence"
        surplus = f": {extra_slots[0]} {prompt}" if extra_slots and extra_slots[0] > 0 else ""
        return ValueError(f"model must return numbers for each token, such as {expected}, not {returned}{surplus}.")

    def _loss_of(self, output: Any, batch: dict) -> Tensor | None:
        """Return the loss, a scalar: that of the caller's function, or else what the model returns; None if nothing."""
        floats = {name: value for name, value in tensors(output).items() if value.is_floating_point()}
        loss = floats.get("loss", next((x for x in floats.values() if x.dim() == 0), None))
        if self.loss is not None:
            try:
                loss = self.loss(output, batch)
            except Exception as error:
                sentence = (
                    "loss failed when it was called as loss(output, batch): see that it takes what model returns"
                )
                raise Refused(sentence, error) from error
            if loss is not None and not isinstance(loss, Tensor):
                raise TypeError(
                    f"loss must return a tensor of one number, which gradients pass through, not {shown(loss)}."
                )
        if loss is not None and loss.numel() != 1:
            raise ValueError(
                f"loss must be one number, not a tensor of the shape {tuple(loss.shape)}: add it up, as a trainer does."
            )
        return None if loss is None else loss.reshape(())


class _Watch:
    """What a hook writes down of the parts of a model while it is called.

    Args:
        ids: the tokens that the model is called with.
        detach_embeddings, score_width: as in `CalledModel.__call__`.

    Attributes:
        embeddings, parts: as in `ModelCall`.
        dtypes: the formats of the outputs of parts.
    """

    def __init__(self, ids: Tensor, detach_embeddings: bool, score_width: int) -> None:
        self.ids = ids
        self.detach_embeddings = detach_embeddings
        self.score_width = score_width
        self.embeddings = list[Tensor]()
        self.parts = list[tuple[nn.Module, Tensor, Tensor]]()
        self.dtypes = set[torch.dtype]()

    def part_ended(self, module: nn.Module, arguments: tuple, named: dict, output: Any) -> Tensor | None:
        """Write down a part that has ended; return the output that takes the place of its own, or None."""
        inputs = [value for value in (*arguments, *named.values()) if isinstance(value, Tensor)]
        first_output = output[0] if isinstance(output, tuple | list) and output else output
        if not isinstance(first_output, Tensor) or not first_output.is_floating_point():
            return None
        self.dtypes.add(first_output.dtype)
        by_token = by_slot(first_output, self.ids)
        is_innermost = first_output is output and not any(module.children())
        if is_innermost and self.detach_embeddings and _reads(self.ids, inputs):
            self.embeddings.append(first_output.detach().requires_grad_())  # frozen weights have gradients here too
            return self.embeddings[-1]
        if is_innermost and self.score_width and by_token is not None and by_token.shape[1] == self.score_width:
            return first_output.detach().requires_grad_()
        slot_input = next((x for x in inputs if x.requires_grad and by_slot(x, self.ids) is not None), None)
        if slot_input is not None and slot_input is not first_output and by_token is not None:
            self.parts.append((module, slot_input, first_output))
        return None


@contextmanager
def keeping_modes(module: nn.Module) -> Iterator[None]:
    """Let each part of a model train or evaluate, after the block, as it did before."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def tensors(output: Any) -> dict[str, Tensor]:
    """Return the tensors of an output by name: of a mapping, a tuple, an object with attributes, or one tensor."""
    if isinstance(output, tuple | list):
        output = dict(zip(getattr(output, "_fields", map(str, range(len(output)))), output, strict=True))
    elif isinstance(output, Tensor):
        output = {"logits": output}
    fields = dict(output) if isinstance(output, Mapping) else getattr(output, "__dict__", {})
    return {name: value for name, value in fields.items() if isinstance(value, Tensor)}


def _reads(ids: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Return whether one of the inputs of a part of a model is these tokens, in whatever shape."""
    return any(x.numel() == ids.numel() and torch.equal(x.flatten(), ids.flatten()) for x in inputs)


def _kinds(output: Any) -> str:
    """Describe an output without tensors, in words."""
    if isinstance(output, tuple | list):
        output = dict(zip(map(str, range(len(output))), output, strict=True))
    if isinstance(output, Mapping) and output:
        return ", ".join(f"{name}: {type(value).__name__}" for name, value in islice(output.items(), 9))
    return shown(output) if output is None or isinstance(output, int | float | str) else f"a {type(output).__name__}"


def placeholders(module: nn.Module) -> set[int]:
    """Return the tokens that stand for images, videos or sound, as the model's config names them."""
    config = getattr(module, "config", None)
    named = {} if config is None else {name: value for name, value in vars(config).items() if _PLACEHOLDER.match(name)}
    return {value for value in named.values() if isinstance(value, int)}


def ranks() -> int:
    """Return the number of processes that check together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def sampled_numbers(parameter: Tensor, gradient: Tensor | None) -> Tensor:
    """Copy some numbers of a parameter's gradient, spread over it; zeros if there is no gradient."""
    values = torch.zeros_like(parameter) if gradient is None else gradient.detach()
    flat = (values.full_tensor() if isinstance(values, DTensor) else values).flatten()
    return flat[:: max(1, flat.numel() // _SAMPLED)].to("cpu", torch.float64, copy=True)


def by_slot(values: Tensor, ids: Tensor) -> Tensor | None:
    """Return the numbers that `values` has for each slot, shape (N, width); None if it has none.

    For ids of shape (2, 5), values of shape (2, 5, 8), (10, 8), or (2, 8, 5) with channels first all give (10, 8).
    """
    width = ids.shape[-1]
    rows = ids.numel() // width
    if not values.is_floating_point() or values.dim() < 2:
        return None
    if tuple(values.shape[:2]) == (rows, width):
        return values.reshape(rows * width, -1)
    if values.shape[0] == rows * width:
        return values.flatten(1)
    # channels first; a convolution's padding may be behind the slots
    if values.dim() == 3 and values.shape[0] == rows and width <= values.shape[2] < 2 * width:
        return values[..., :width].transpose(1, 2).flatten(0, 1)
    return None


def gradients(
    called: CalledModel, outputs: Tensor, inputs: Sequence[Tensor], ids: Tensor, targets: Sequence[np.ndarray]
) -> Tensor | None:
    """Measure how much outputs depend on each slot, by norms of gradients.

    Outputs are weighted at random and summed: the plain sum of a normalized row is constant.

    Args:
        outputs: shape (N, width).
        inputs: the tensors with numbers for each slot that gradients are taken with respect to.
        targets: groups of slots, such as those of each sequence, whose outputs are summed.

    Returns:
        Shape (targets, N); None without inputs, or if the outputs have no graph.
    """
    if not inputs or not outputs.requires_grad:
        return None
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1)).to(outputs.device)
    weighted = outputs.to(torch.promote_types(outputs.dtype, torch.float32)) * weights
    by_target = []
    for slots in targets:
        slopes = torch.autograd.grad(weighted[slots].sum(), inputs, retain_graph=True, allow_unused=True)
        rows = [by_slot(slope, ids) for slope in slopes if slope is not None]
        zero = torch.zeros(ids.numel(), dtype=torch.float64)
        by_target.append(sum((called.summed(row.double()).norm(dim=1).cpu() for row in rows if row is not None), zero))
    return torch.stack(by_target)


def innermost_leak(
    called: CalledModel, batch: dict, targets: Sequence[np.ndarray], owner: np.ndarray
) -> tuple[str, int]:
    """Find the innermost part of the model that lets one sequence into another, and how many slots back it reaches.

    The parts are asked in the order in which they end, so what is inside a part comes before it. The first part in
    which a sequence depends on another is the answer, unless more leaks in a part around it. Such a part takes its
    place if it has over 1.5 times as many pairs of a sequence and a slot of another one that it depends on. A layer
    with a state may have a convolution inside: the convolution is found first, but the state leaks from farther back.

    Args:
        targets: the slots of each sequence.
        owner: the number of the sequence in each slot, below 0 for none.

    Returns:
        The path of the part, and the reach; an empty path and 0 if no part shows it.
    """
    paths, ids = {part: path for path, part in called.module.named_modules()}, batch["input_ids"]
    innermost = ""
    most_pairs = 0.0
    reach = 0
    foreign = (np.arange(len(targets))[:, None] != owner.ravel()) & (owner.ravel() >= 0)  # sequence × slot
    for part, part_input, part_output in called(batch).parts:
        path, outputs = paths.get(part, ""), by_slot(part_output, ids)
        is_outside = innermost.startswith(f"{path}.")
        if outputs is None or (innermost and not is_outside):
            continue
        depends = gradients(called, outputs, [part_input], ids, targets)
        if depends is None:
            continue
        leaking = foreign & (depends > EXACT * depends.max()).numpy()  # sequence × slot
        if leaking.sum() > 1.5 * most_pairs:
            innermost, most_pairs = path, leaking.sum()
            reach = max(int(slots[0] - row.argmax()) for slots, row in zip(targets, leaking, strict=True) if row.any())
    return innermost, reach
