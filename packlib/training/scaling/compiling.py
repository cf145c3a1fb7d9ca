"""Static shapes for torch.compile: one graph for each, all made at the start, and nothing compiled later."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from packlib.batches import IGNORED, PackedBatch
from packlib.batches.curriculum import warm_memory
from packlib.checks import one_of, whole_number
from packlib.distributed.collectives import Collectives
from packlib.training.scaling.compile_counter import CompileCounter

CUDA_GRAPHS = ("reduce-overhead", "max-autotune")  # the modes of torch.compile that record them
MODES = ("auto", "default", *CUDA_GRAPHS, "max-autotune-no-cudagraphs")
Shape = tuple[int, int]  # rows and slots of a batch


def shape_of(batch: Mapping[str, Any]) -> Shape:
    """Rows and slots of a batch: the shape of its `input_ids`, or else of its first tensor with two dimensions."""
    tensors = [batch.get("input_ids"), *batch.values()]
    shape = next((value.shape for value in tensors if isinstance(value, Tensor) and value.dim() == 2), None)
    if shape is None:
        raise TypeError(f"A batch needs a tensor of the shape (rows, slots); this one has {', '.join(batch)}.")
    return tuple(shape)


def blank_batch(rows: int, length: int) -> PackedBatch:
    """A padded batch to warm up with: full rows of token 0, one sequence each, its first token to be predicted."""
    ids = torch.zeros(whole_number("rows", rows, 1), whole_number("length", length, 1), dtype=torch.int64)
    labels = torch.full_like(ids, IGNORED)
    labels[:, 0] = 0
    return PackedBatch(input_ids=ids, segment_ids=ids + 1, labels=labels, sequence_labels=torch.zeros_like(ids[:, 0]))


class ShapeGraphs:
    """The graphs that `compile_for_shapes` made for a model: `release` them when they are done.

    Used with `with`, all are released at the end of the block.

    Attributes:
        compiles: a `CompileCounter` that saw them being made.
        mode: the mode of torch.compile.
    """

    def __init__(self, model: nn.Module, mode: str, backend: str | Callable) -> None:
        self._bare = model.module if isinstance(model, DistributedDataParallel) else model
        self.mode, self._backend = mode, backend
        self._graphs: dict[Shape, tuple[dict[str, tuple], Callable, Callable]] = {}
        self._released: set[Shape] = set()
        self._sealed = False
        self.compiles = CompileCounter()

    @property
    def shapes(self) -> list[Shape]:
        """Rows and slots of the batches that there is a graph for."""
        return list(self._graphs)

    def release(self, shapes: Iterable[Shape] | None = None) -> None:
        """Free the graphs of `shapes`; by default of all, after which the model runs as it did before.

        CUDA graphs share one pool of memory, which is freed with the last of them.

        Raises:
            ValueError: if there is no graph of a shape.
        """
        for shape in self.shapes if shapes is None else list(shapes):
            if shape not in self._graphs:
                raise ValueError(f"There is no graph of shape {shape} to release: {self._known(shape)}.")
            _, own, _ = self._graphs.pop(shape)
            torch._dynamo.eval_frame.remove_from_cache(own)  # else torch keeps it as long as the process runs
            self._released.add(shape)
        if shapes is None and self._bare._compiled_call_impl is self:
            self._bare._compiled_call_impl = None

    def __enter__(self) -> "ShapeGraphs":
        return self

    def __exit__(self, *error: Any) -> None:
        self.release()

    def __call__(self, **batch: Any) -> Any:
        """What the model's call becomes. Without gradients (an evaluation, of any shape) it runs uncompiled."""
        if not torch.is_grad_enabled():
            return self._bare._call_impl(**batch)
        shape, sizes = shape_of(batch), {k: tuple(v.shape) for k, v in batch.items() if isinstance(v, Tensor)}
        if shape not in self._graphs:
            if self._sealed:
                raise ValueError(f"A batch has the shape {shape}: {self._known(shape)}.")
            self._graphs[shape] = (sizes, *self._compile(shape))
        expected, _, graph = self._graphs[shape]
        if sizes != expected:
            name = next(name for name in {**expected, **sizes} if sizes.get(name) != expected.get(name))
            raise ValueError(
                f"In a batch of shape {shape} {name} has the shape {sizes.get(name)}; its graph is for "
                f"{expected.get(name)}: collate with static shapes (max_sequences_per_pack of a PackingCollator)."
            )
        if not self._sealed:
            return graph(**batch)
        if self.mode in CUDA_GRAPHS:
            self._keep_gradients()
        with torch.compiler.set_stance("fail_on_recompile"):
            return graph(**batch)

    def _compile(self, shape: Shape) -> tuple[Callable, Callable]:
        """A function of its own for each shape: torch keeps graphs by function, and its limit is for each."""
        bare = self._bare

        def run(**batch: Any) -> Any:
            return bare._call_impl(**batch)

        run.__code__ = run.__code__.replace(co_name="shape_{}x{}".format(*shape))
        mode = self.mode if self._backend == "inductor" else None
        return run, torch.compile(run, backend=self._backend, mode=mode, dynamic=False, fullgraph=True)

    def _keep_gradients(self) -> None:
        """CUDA graphs write gradients to one place: before the next ones come, keep those that add up."""
        for parameter in self._bare.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()

    def _known(self, shape: Shape) -> str:
        if shape in self._released:
            return "its graph was released"
        some = ", ".join(map(str, self.shapes[:8])) + (", …" if len(self._graphs) > 8 else "")
        return f"graphs were made for {some or 'none'}"


def compile_for_shapes(
    model: nn.Module,
    shapes: Iterable[Shape | Mapping[str, Any]],
    mode: str = "auto",
    *,
    loss: Callable[[nn.Module, Mapping], Tensor] | None = None,
    backend: str | Callable = "inductor",
) -> ShapeGraphs:
    """Compile `model` in place, a static graph for each shape, all of them now.

    Each shape is warmed by one forward and backward pass in training mode, the largest first; gradients, random state
    and buffers are left as they were. Then `model(**batch)` runs the graph of its batch, and what would compile
    anything else is an error. Weights keep their names, and so a checkpoint its form; a copy of the model is not
    compiled. torch's recompile limit, past which it would run eagerly, is not reached: each shape counts by itself.

    With several ranks give the model in its `DistributedDataParallel`: every rank compiles the same shapes in the
    same order, else all raise. torch then splits each graph where a bucket of gradients is full, so that they are
    summed while backward goes on (`torch._dynamo.config.optimize_ddp = False` makes it one graph).

    Args:
        shapes: (rows, slots) of padded batches of one sequence a row; or an example batch for each shape, where the
            model takes other inputs, or packs: a `PackedBatch` made with `max_sequences_per_pack`, and a `PackedBert`
            with `max_predictions_per_pack`, have one shape whatever they hold.
        mode: of torch.compile; "auto" is "reduce-overhead", with CUDA graphs, where they can work: on a GPU, with
            one process; else "default".
        loss: a scalar from model and batch; by default `model(**batch).loss`.
        backend: of torch.compile; "eager" only traces, to count graphs in little time.

    Raises:
        ValueError: for a mode that cannot work here, a shape that is there twice, or ranks with different shapes.
        torch._dynamo.exc.Unsupported: if the model is not one graph; it says where the graph breaks.
    """
    device = next(model.parameters()).device
    graphs = ShapeGraphs(model, _mode(mode, device), backend)
    batches = [dict(shape if isinstance(shape, Mapping) else blank_batch(*shape)) for shape in shapes]
    batches.sort(key=lambda batch: (-shape_of(batch)[0] * shape_of(batch)[1], shape_of(batch)))
    wanted = [shape_of(batch) for batch in batches]
    _check(wanted)
    graphs._bare._compiled_call_impl = graphs  # as nn.Module.compile does: in place, and not copied
    training = {module: module.training for module in model.modules()}
    model.train()
    try:
        with graphs.compiles:
            for batch in batches:
                batch = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in batch.items()}
                for _ in range(3 if graphs.mode in CUDA_GRAPHS else 1):  # run, record, replay
                    warm_memory(model, batch, loss)
    except BaseException:
        graphs.release()
        raise
    finally:
        for module, was in training.items():
            module.training = was
    graphs._sealed = True
    return graphs


def _mode(mode: str, device: torch.device) -> str:
    one_of("mode", mode, MODES)
    ranks = Collectives().size
    can = device.type == "cuda" and ranks == 1
    if mode == "auto":
        return "reduce-overhead" if can else "default"
    if mode in CUDA_GRAPHS and not can:
        raise ValueError(
            f"mode {mode!r} records CUDA graphs, which need a GPU and one process; here the model is on "
            f"{device.type}, with {ranks} process{'es' * (ranks > 1)}."
        )
    return mode


def _check(shapes: list[Shape]) -> None:
    if not shapes:
        raise ValueError("There is no shape to compile for; at least one is needed.")
    twice = next((shape for i, shape in enumerate(shapes) if shape in shapes[:i]), None)
    if twice is not None:
        raise ValueError(f"The shape {twice} is there twice.")
    on_ranks = Collectives().gather_objects(shapes)
    for rank, others in enumerate(on_ranks):
        if others != on_ranks[0]:
            raise ValueError(f"Rank {rank} has the shapes {others}; rank 0 has {on_ranks[0]}.")


def onset_schedule(batches: Iterable[Any], world_size: int, shape: Callable[[Any], Shape] = shape_of) -> list:
    """Reorder batches, dealt to ranks in turn, so that every rank meets every shape once at the start.

    All ranks then compile the same shape at the same time, and the memory of the largest, which comes first, is there
    from the beginning. The other batches keep their order. Rank r takes `schedule[r::world_size]`.

    Args:
        batches: of any kind.
        shape: the shape of one; by default rows and slots of a mapping.

    Raises:
        ValueError: if there are fewer batches of a shape than ranks.
    """
    batches, world_size = list(batches), whole_number("world_size", world_size, 1)
    by_shape: dict[Shape, list[int]] = {}
    for i, batch in enumerate(batches):
        by_shape.setdefault(shape(batch), []).append(i)
    onset: list[int] = []
    for size in sorted(by_shape, key=lambda size: (-size[0] * size[1], size)):
        if len(by_shape[size]) < world_size:
            raise ValueError(
                f"{len(by_shape[size])} of the batches have the shape {size}; each of {world_size} ranks needs one: "
                "leave out incomplete batches, or take fewer shapes."
            )
        onset += by_shape[size][:world_size]
    return [batches[i] for i in dict.fromkeys([*onset, *range(len(batches))])]
