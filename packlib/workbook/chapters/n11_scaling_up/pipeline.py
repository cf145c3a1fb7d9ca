"""Pipeline parallel training of packed BERT: every rank holds some of the layers, micro-batches flow through."""

import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from packlib.batches import PackedBatch
from packlib.checks import one_of, whole_number
from packlib.distributed.collectives import Collectives
from packlib.model import PackedBert, PackedOutput, Sums, attention_arguments, choose_backend
from packlib.model.attention import BACKENDS
from packlib.training.objective import Objective, PretrainingObjective
from packlib.workbook.chapters.shared.timeline import Bar

_TORCH_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def split_layers(layers: int, stages: int) -> list[int]:
    """How many layers each stage holds, as even as possible.

    >>> from packlib.workbook.chapters.n11_scaling_up.pipeline import split_layers
    >>> split_layers(24, 4), split_layers(3, 2)
    ([6, 6, 6, 6], [1, 2])
    """
    whole_number("stages", stages, 1)
    if stages > layers:
        raise ValueError(f"{stages} stages need at least {stages} layers, one each; the model has {layers}.")
    return [(i + 1) * layers // stages - i * layers // stages for i in range(stages)]


class BertStage(nn.Module):
    """Some of the layers of a `PackedBert`, with the embeddings before the first and the heads after the last.

    It holds the model's own modules, so that parameters and gradients are the model's. Between the stages go the
    hidden states, (B, T, d), and the segment ids, (B, T): each stage makes its mask of B·T² numbers from B·T.
    """

    def __init__(self, model: PackedBert, first_layer: int, layers: int) -> None:
        super().__init__()
        self.layers = model.bert.encoder.layer[first_layer : first_layer + layers]
        self.is_first, self.is_last = first_layer == 0, first_layer + layers == len(model.bert.encoder.layer)
        self.embeddings: Any = model.bert.embeddings if self.is_first else None
        self.heads = nn.ModuleList([model.bert.pooler, model.cls] if self.is_last else [])
        self.config, self.backend = model.config, model.backend
        self.dropout = model.config.attention_probs_dropout_prob

    def forward(self, hidden: Tensor, segment_ids: Tensor, *places: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The first stage takes `input_ids` for `hidden`, and position and token type ids."""
        if self.is_first:
            position_ids, token_type_ids = places
            hidden = self.embeddings(hidden, token_type_ids, position_ids)
        dropout = self.dropout if self.training else 0.0
        backend = choose_backend(self.backend, hidden.device, hidden.dtype, torch.is_grad_enabled(), dropout)
        self.config._attn_implementation = BACKENDS[backend]
        arguments = attention_arguments(segment_ids, backend, dtype=hidden.dtype)
        for layer in self.layers:
            hidden = layer(hidden, **arguments)
        return hidden if self.is_last else (hidden, segment_ids)


class Pipeline:
    """Train a `PackedBert` as a pipeline over the ranks of the default group, rank i being stage i.

    Every rank makes the same `model` and the same pipeline, and calls `step` with the same batches. The first stage
    reads the tokens, the last one the labels; segment ids travel with the hidden states.

    The embedding table is also the MLM head's matrix, so the first and the last stage have a copy each: `step` adds
    up the gradients of the two, and equal optimizers keep them equal.

    Args:
        model: on each rank with the same weights. This rank's part is used as it is, the rest is not touched.
        schedule: "gpipe" or "1f1b", as torch.distributed.pipelining runs them.
        objective: what to train; by default BERT's, each token with equal weight.
        pace: seconds that a forward and a backward pass take at least: to watch more stages than there are cores.

    Attributes:
        stage: this rank's `BertStage`; make an optimizer over it.
        bars: what this rank did in the last step and when, by the clock that all processes of a machine share.

    Raises:
        ValueError: for more stages than layers, or an unknown schedule.
    """

    def __init__(
        self,
        model: PackedBert,
        schedule: str = "1f1b",
        objective: Objective | None = None,
        pace: tuple[float, float] = (0.0, 0.0),
    ):
        self.rank, self.stages = dist.get_rank(), dist.get_world_size()
        layout = split_layers(len(model.bert.encoder.layer), self.stages)
        self.schedule = one_of("schedule", schedule, _TORCH_SCHEDULES)
        self.objective = PretrainingObjective() if objective is None else objective
        self.model, self.bars, self._pace = (model, list[Bar](), dict(zip(("forward", "backward"), pace, strict=True)))
        self.stage = BertStage(model, sum(layout[: self.rank]), layout[self.rank])
        self._ends = dist.new_group(sorted({0, self.stages - 1}))
        self._runs: dict[tuple, Schedule1F1B | ScheduleGPipe] = {}

    def step(self, batches: Sequence[PackedBatch]) -> dict[str, Sums]:
        """Leave the gradients of one update in the stage's parameters, as `fit` does for a whole model.

        Each loss is divided by its count over all micro-batches, not the mean of means.

        Args:
            batches: the micro-batches, all of the same packs × slots; for "1f1b" at least as many as stages.

        Returns:
            On every rank, what the objective measured, over the whole update.
        """
        shapes = sorted({tuple(batch.input_ids.shape) for batch in batches})
        if len(shapes) != 1:
            raise ValueError(f"A pipeline needs micro-batches of one shape, not {shapes}.")
        if self.schedule == "1f1b" and len(batches) < self.stages:
            raise ValueError(f"1f1b over {self.stages} stages needs as many micro-batches, not {len(batches)}.")
        self.stage.zero_grad()
        device = next(self.stage.parameters()).device
        self.bars, self._sums, self._batches = ([], list[dict[str, Sums]](), [batch.to(device) for batch in batches])
        counts = [self.objective.counts(batch) for batch in batches]
        self._counts = {name: max(sum(count[name] for count in counts), 1) for name in counts[0]}
        inputs = []
        if self.stage.is_first:
            names = ("input_ids", "segment_ids", "position_ids", "token_type_ids")
            inputs = [torch.cat([batch[name] for batch in self._batches]) for name in names]
        which = torch.arange(len(batches)) if self.stage.is_last else None
        self._run(shapes[0], len(batches)).step(*inputs, target=which, return_outputs=False)
        if self.stages > 1 and (self.stage.is_first or self.stage.is_last):
            dist.all_reduce(self.model.get_output_embeddings().weight.grad, group=self._ends)
        measured = None
        if self.stage.is_last:
            measured = {name: reduce(add, (one[name] for one in self._sums)) for name in self._sums[0]}
        return Collectives().gather_objects(measured)[-1]

    def _run(self, shape: tuple[int, int], micro_batches: int) -> Schedule1F1B | ScheduleGPipe:
        """torch's schedule for batches of this shape; it is told what it sends, or it would try with random numbers."""
        if (shape, micro_batches) not in self._runs:
            p = next(self.stage.parameters())
            ids = p.new_zeros(shape, dtype=torch.int64)
            hidden = p.new_zeros(*shape, self.model.config.hidden_size, requires_grad=True)
            takes = (ids,) * 4 if self.stage.is_first else (hidden, ids)
            gives = hidden if self.stage.is_last else (hidden, ids)
            at = self.rank, self.stages, p.device
            stage = PipelineStage(self.stage, *at, input_args=takes, output_args=gives)
            stage.forward_one_chunk = self._timed("forward", stage.forward_one_chunk)
            stage.backward_one_chunk = self._timed("backward", stage.backward_one_chunk)
            kind = _TORCH_SCHEDULES[self.schedule]
            self._runs[shape, micro_batches] = kind(stage, micro_batches, self._loss, scale_grads=False)
        return self._runs[shape, micro_batches]

    def _loss(self, hidden: Tensor, which: Tensor) -> Tensor:
        """Unpack at the end: this micro-batch's share of the losses of the whole update."""
        batch = self._batches[int(which)]

        def heads(**fields: Any) -> PackedOutput:
            return self.model.heads(hidden, fields)

        sums = self.objective(heads, batch)
        loss = sum(sums[name].total / count for name, count in self._counts.items())
        self._sums.append({name: Sums(s.total.detach(), s.count) for name, s in sums.items()})
        self.bars[-1] = self.bars[-1]._replace(end=time.perf_counter())  # it belongs to the last stage's forward
        return loss

    def _timed(self, kind: str, compute: Callable) -> Callable:
        """What torch's stage computes, with a stopwatch around it; waiting for others is outside."""

        def timed(micro_batch: int, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = compute(micro_batch, *args, **kwargs)
            time.sleep(max(0.0, start + self._pace[kind] - time.perf_counter()))
            self.bars.append(Bar(self.rank, kind, micro_batch, start, time.perf_counter()))
            return result

        return timed
