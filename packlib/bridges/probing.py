"""A model as a black box: call it, and see which tokens its outputs depend on, and what its loss asks of each."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from packlib.checks import shown

EXACT = 1e-6  # an isolated token has a gradient of exactly 0 in every precision; Fourier transforms leave 1e-7


@dataclass(frozen=True)
class Piece:
    """Tokens of one sequence that lie side by side in a batch."""

    sequence: int
    slots: np.ndarray  # among all slots of the batch
    places: np.ndarray  # in the sequence


@dataclass
class Seen:
    """What one call showed; N slots.

    Attributes:
        outputs: shape (N, width), one row a slot: logits, or hidden states.
        loss: scalar, or None.
        scores: shape (M, vocabulary), the logits that the loss is made of, and `at`, shape (M,), their slots.
        embeddings: each of shape (N, …), what the tokens became before anything else happened to them.
        modules: (module, input, output) in the order in which they ended, for those that were asked to be kept.
    """

    outputs: Tensor
    loss: Tensor | None
    scores: Tensor
    at: Tensor
    embeddings: list[Tensor] = field(default_factory=list)
    modules: list[tuple[nn.Module, Tensor, Tensor]] = field(default_factory=list)


class Box:
    """A model that is only called. Its mode, gradients and the state of random numbers are put back at the end."""

    def __init__(self, model: Callable, loss: Callable | None = None, seed: int = 0) -> None:
        self.model, self.loss, self.seed = model, loss, seed
        self.device = next((p.device for p in model.parameters()), None) if isinstance(model, nn.Module) else None

    @contextmanager
    def closed(self) -> Iterator[None]:
        """In here the model evaluates, and random numbers are the check's own."""
        modes = [(part, part.training) for part in self.model.modules()] if isinstance(self.model, nn.Module) else []
        states = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            if modes:
                self.model.eval()
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                yield
        finally:
            for part, training in modes:
                part.training = training
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002

    def reseed(self) -> None:
        random.seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002
        torch.manual_seed(self.seed)

    def __call__(self, batch: Mapping[str, Any], trace: bool = False, reseed: bool = True) -> Seen:
        """Call the model with a copy of `batch`; with `trace`, keep what each of its modules took and gave."""
        if reseed:
            self.reseed()
        batch = {name: self._copy(value) for name, value in batch.items()}
        ids = batch["input_ids"]
        embeddings: list[Tensor] = []
        modules: list[tuple[nn.Module, Tensor, Tensor]] = []

        def watch(module: nn.Module, arguments: tuple, named: dict, output: Any) -> Any:
            given = [value for value in (*arguments, *named.values()) if isinstance(value, Tensor)]
            reads = any(x.numel() == ids.numel() and not x.is_floating_point() and torch.equal(x.flatten(), ids.flatten())
                        for x in given)  # fmt: skip
            if reads and isinstance(output, Tensor) and output.is_floating_point() and not any(module.children()):
                output = output.detach().requires_grad_()  # frozen weights have a gradient here too
                embeddings.append(output)
                return output
            made = output[0] if isinstance(output, tuple | list) and output else output
            if trace and isinstance(made, Tensor) and by_slot(made, ids) is not None:
                taken = next((x for x in given if x.requires_grad and by_slot(x, ids) is not None), None)
                if taken is not None and made is not taken:
                    modules.append((module, taken, made))
            return None

        handle = nn.modules.module.register_module_forward_hook(watch, with_kwargs=True)
        try:
            output = self.model(**batch)
        finally:
            handle.remove()
        return Seen(*self._read(output, batch), embeddings=embeddings, modules=modules)

    def runs(self, batch: Mapping[str, Any]) -> Seen | None:
        """As a call; None if the model refuses such a batch."""
        try:
            return self(batch)
        except Exception:
            return None

    def _copy(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        return value.clone().to(self.device or value.device) if isinstance(value, Tensor) else value

    def _read(self, output: Any, batch: dict) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        ids = batch["input_ids"]
        parts = _parts(output)
        floats = {name: value for name, value in parts.items() if value.is_floating_point()}
        rows = {name: value for name, value in floats.items()
                if value.dim() > ids.dim() and value.shape[: ids.dim()] == ids.shape}  # fmt: skip
        if not rows:
            shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in parts.items()) or shown(output)
            raise ValueError(
                f"model must return numbers for each token, such as .logits of the shape {(*ids.shape, 'width')}, "
                f"not {shapes}."
            )
        name = "logits" if "logits" in rows else max(rows, key=lambda name: rows[name].shape[-1])
        outputs = rows[name].flatten(0, ids.dim() - 1).flatten(1)
        loss = floats.get("loss", next((value for value in floats.values() if value.dim() == 0), None))
        if self.loss is not None:
            loss = self.loss(output, batch)
        if "token_positions" in parts and "token_logits" in parts:  # logits of the predicted tokens alone
            return outputs, loss, parts["token_logits"], parts["token_positions"]
        return outputs, loss, rows[name], torch.arange(len(outputs))


def _parts(output: Any) -> dict[str, Tensor]:
    """The tensors of an output: a mapping, a tuple, an object with attributes, or one tensor."""
    if isinstance(output, Mapping):
        found = dict(output)
    elif isinstance(output, tuple | list):
        found = dict(zip(getattr(output, "_fields", map(str, range(len(output)))), output, strict=True))
    else:
        found = dict(getattr(output, "__dict__", {})) if not isinstance(output, Tensor | np.ndarray) else {"": output}
    found = {name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in found.items()}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def by_slot(values: Tensor, ids: Tensor) -> Tensor | None:
    """The rows of numbers that `values` has for each slot, shape (N, …); None if it has no such rows."""
    rows, width = ids.numel() // ids.shape[-1], ids.shape[-1]
    if not values.is_floating_point() or values.dim() < 2:
        return None
    if tuple(values.shape[:2]) == (rows, width):
        return values.flatten(0, 1).flatten(1)
    if values.shape[0] == rows * width:
        return values.flatten(1)
    if values.dim() == 3 and values.shape[0] == rows and width <= values.shape[2] < 2 * width:  # channels first
        return values[..., :width].transpose(1, 2).flatten(0, 1)
    return None


def projected(values: Tensor, seed: int = 1) -> Tensor:
    """A random weight for each number: a plain sum of normalized rows would be constant."""
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
    return weights.to(values.device, values.dtype if values.dtype == torch.float64 else torch.float32)


def gradients(outputs: Tensor, inputs: Sequence[Tensor], ids: Tensor, targets: Sequence[np.ndarray]) -> Tensor | None:
    """How much the outputs at each target's slots depend on each slot; shape (targets, N), or None without a graph."""
    if not inputs or not outputs.requires_grad:
        return None
    weighted = outputs.to(projected(outputs[:0]).dtype) * projected(outputs)
    found = []
    for slots in targets:
        parts = torch.autograd.grad(weighted[slots].sum(), inputs, retain_graph=True, allow_unused=True)
        norms = [by_slot(part, ids).double().norm(dim=1).cpu() for part in parts if part is not None]  # type: ignore[union-attr]
        found.append(sum(norms, torch.zeros(ids.numel(), dtype=torch.float64)))
    return torch.stack(found)


class Operations(TorchDispatchMode):
    """Notices whether attention is computed: a softmax over as many keys as queries, or a kernel of it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = False

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, first = str(function), args[0] if args else None
        square = isinstance(first, Tensor) and first.dim() > 2 and first.shape[-1] == first.shape[-2] > 1
        self.attention |= "scaled_dot_product" in name or "flex_attention" in name or ("softmax" in name and square)
        return function(*args, **(kwargs or {}))


def locate(ids: np.ndarray, sequences: Sequence[np.ndarray]) -> list[Piece]:
    """Where in a batch each sequence is, by its content: the longest first, then what was cut off, then copies.

    Tokens inside that were replaced, as masking does, are found by their neighbors.
    """
    rows = ids.reshape(-1, ids.shape[-1])
    width, flat = rows.shape[1], rows.ravel()
    order = np.argsort(flat, kind="stable")
    free, pieces = np.ones(len(flat), bool), list[Piece]()
    missing = {index: np.ones(len(content), bool) for index, content in enumerate(sequences)}

    def claim(index: int, wanted: np.ndarray, least: float) -> bool:
        content, places = sequences[index], wanted.nonzero()[0]
        low, high = (np.searchsorted(flat, content[places], side, sorter=order) for side in ("left", "right"))
        slots = np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)] or [order[:0]])
        places = np.repeat(places, high - low)[free[slots]]
        slots = slots[free[slots]]
        if not len(slots):
            return False
        lines, counts = np.unique(np.stack([slots // width, slots - places]), axis=1, return_counts=True)
        row, start = lines[:, counts.argmax()]
        mine = np.sort(slots[(slots // width == row) & (slots - places == start)])
        if len(mine) < least:
            return False
        end = mine[0] + np.append(~free[mine[0] : mine[-1] + 1], True).argmax()  # up to what another one holds
        found = np.arange(mine[0], end)
        free[found], wanted[found - start] = False, False
        pieces.append(Piece(index, found, found - start))
        return True

    by_length = sorted(missing, key=lambda index: -len(sequences[index]))
    for index in by_length:
        claim(index, missing[index], min(2, len(sequences[index])))
    for at, piece in enumerate(pieces):
        pieces[at] = _with_replaced_ends(piece, len(sequences[piece.sequence]), rows, free, missing[piece.sequence])
    for index in by_length:
        while missing[index].sum() > 1 and claim(index, missing[index], 2):
            pass
    for index in by_length:
        whole = np.ones(len(sequences[index]), bool)
        while len(whole) > 2 and claim(index, whole, 0.7 * len(whole)):
            whole[:] = True
    return sorted(pieces, key=lambda piece: piece.slots[0])


def _with_replaced_ends(piece: Piece, length: int, rows: np.ndarray, free: np.ndarray, missing: np.ndarray) -> Piece:
    """The piece with the slots before and after it whose token was replaced, and is not padding."""
    width, flat = rows.shape[1], rows.ravel()
    start = piece.slots[0] - piece.places[0]
    row = piece.slots[0] // width
    last = (row + 1) * width - 1
    low, high = piece.slots[0], piece.slots[-1]

    def replaced(slot: int) -> bool:
        inside = start <= slot < start + length and slot // width == row
        return inside and bool(free[slot]) and not (free[last] and flat[slot] == flat[last])

    while replaced(low - 1):
        low -= 1
    while replaced(high + 1):
        high += 1
    slots = np.arange(low, high + 1)
    free[slots], missing[slots - start] = False, False
    return Piece(piece.sequence, slots, slots - start)
