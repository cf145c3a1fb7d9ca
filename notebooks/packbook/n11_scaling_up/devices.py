"""The memory and time that training a model takes on each device, for current models and one of 2021."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Model:
    """A transformer, and the device that people train it on.

    Attributes:
        layers: number of layers.
        width: of the hidden states.
        feed_forward: inner width of the feed-forward part of a layer, of one expert.
        kv_width: width of the keys, and of the values.
        vocabulary: number of tokens in it.
        tied: whether embedding and head are one matrix.
        matrices: number of matrices of width × feed_forward in a layer: 3 with a gate, 2 without.
        experts: feed-forward parts of a layer.
        used: experts that a token goes through.
        predicted: share of the tokens for which the head computes logits; 1 for a causal model.
        scores: heads whose attention scores, a square for each row, are stored; 0 with kernels that store none.
        state: bytes that training holds for each parameter: for its weight, its gradient, and both moments.
        memory: bytes of a device.
        speed: FLOP that a device computes in a second; assumed, not measured here.
    """

    layers: int
    width: int
    feed_forward: int
    kv_width: int
    vocabulary: int
    tied: bool = False
    matrices: int = 3
    experts: int = 1
    used: int = 1
    predicted: float = 1.0
    scores: int = 0
    state: tuple[int, int, int] = (4, 4, 8)
    memory: float = 80e9
    speed: float = 4e14


MODELS = {
    "8B": Model(32, 4096, 14_336, 1024, 128_256),
    "70B": Model(80, 8192, 28_672, 1024, 128_256),
    "8x7B": Model(32, 4096, 14_336, 1024, 32_000, experts=8, used=2),
    "BERT-Large": Model(
        24, 1024, 4096, 1024, 30_522, tied=True, matrices=2, predicted=20 / 128, scores=16,
        state=(2, 2, 8), memory=900e6, speed=3e13,
    ),
}  # fmt: skip


class Split(NamedTuple):
    """A division of the training work among devices.

    Attributes:
        replicas: groups of devices that each hold the whole model, and see rows of their own.
        stages: stages of a pipeline.
        tensor: devices that share each matrix of a stage.
        sharded: whether a replica holds only its share of weights, gradients and moments, as FSDP2 does.
        row: slots in a row.
        micro_batch: rows in a micro-batch.
        accumulation: micro-batches of a replica in an update.
        recompute: whether only the input of each layer is stored, and the layer computed again for the backward pass.
    """

    replicas: int = 8
    stages: int = 1
    tensor: int = 1
    sharded: bool = True
    row: int = 8192
    micro_batch: int = 1
    accumulation: int = 8
    recompute: bool = True

    @property
    def devices(self) -> int:
        """Return the number of all devices."""
        return self.replicas * self.stages * self.tensor


SPLITS = {  # a way to divide each model into which it fits
    "8B": Split(),
    "70B": Split(replicas=8, tensor=8),
    "8x7B": Split(replicas=16),
    "BERT-Large": Split(replicas=16, stages=4, row=512, micro_batch=2, accumulation=512),
}


class Bill(NamedTuple):
    """The memory of one device of each stage, and the time of an update.

    Attributes:
        stages: for each stage, bytes of weights, gradients, moments and activations, by these names.
        seconds: that an update takes.
        bubble: share of the time in which a stage waits for the others.
        rows: in an update.
    """

    stages: list[dict[str, float]]
    seconds: float
    bubble: float
    rows: int

    @property
    def fullest(self) -> float:
        """Return the bytes of the fullest device."""
        return max(sum(sizes.values()) for sizes in self.stages)


def layer_parameters(model: Model, experts: int) -> int:
    """Return the parameters of a layer if `experts` of its experts are counted, all or those that a token uses."""
    attention = 2 * model.width * (model.width + model.kv_width)
    router = model.width * model.experts if model.experts > 1 else 0
    return attention + experts * model.matrices * model.width * model.feed_forward + router + 2 * model.width


def parameters(model: Model) -> int:
    """Return all parameters, without the biases that BERT has."""
    embedding = model.vocabulary * model.width * (1 if model.tied else 2)
    return model.layers * layer_parameters(model, model.experts) + embedding + model.width


def forward_work(model: Model, row: int) -> float:
    """Return the FLOP of a token's forward pass, if its row of `row` slots is one sequence."""
    attention = 4 * row * model.width / (1 if model.scores else 2)  # a causal model sees half of the row
    head = 2 * model.predicted * model.width * model.vocabulary
    return model.layers * (2 * layer_parameters(model, model.used) + attention) + head


def bill(model: Model, split: Split) -> Bill:
    """Work out memory and time, by the order 1f1b; sending takes no time here.

    Activations are those of Korthikanti et al. 2022 (arXiv 2205.05198) without dropout, in 16 bits.
    """
    layers = [len(part) for part in np.array_split(np.arange(model.layers), split.stages)]  # of each stage
    parameters_of_layer = layer_parameters(model, model.experts)
    tokens = split.micro_batch * split.row

    # bytes of activations for one micro-batch and layer
    layer_input = 2 * tokens * model.width
    values_of_token = 6 * model.width + 2 * model.kv_width + model.matrices * model.used * model.feed_forward
    scores = 5 * tokens * split.row * model.scores
    whole_layer = 2 * tokens * values_of_token + scores
    stored_of_layer = layer_input if split.recompute else whole_layer

    stages = []
    for stage, layers_of_stage in enumerate(layers):
        is_first, is_last = stage == 0, stage == split.stages - 1
        shares_one_matrix = model.tied and split.stages == 1  # embedding and head
        num_vocabulary_matrices = is_first + (is_last and not shares_one_matrix)
        parameters_of_stage = layers_of_stage * parameters_of_layer
        parameters_of_stage += num_vocabulary_matrices * model.vocabulary * model.width

        shards = split.replicas if split.sharded else 1
        sizes = {}
        for name, size in zip(("weights", "gradients", "moments"), model.state, strict=True):
            sizes[name] = size * parameters_of_stage / split.tensor / shards
        # with shards, a layer at a time is gathered in 16 bits; without, weights of over 16 bits have a whole copy
        copied = parameters_of_layer if split.sharded else parameters_of_stage
        has_copy = model.state[0] > 2 or split.sharded
        sizes["weights"] += (2 * copied if has_copy else 0) / split.tensor

        in_flight = min(split.accumulation, split.stages - stage)  # micro-batches that wait for their backward pass
        activations: float = in_flight * layers_of_stage * stored_of_layer
        activations += 6 * tokens * model.predicted * model.vocabulary if is_last else 0  # logits
        activations += whole_layer if split.recompute else 0  # of the layer that is computed again
        sizes["activations"] = activations / split.tensor
        stages.append(sizes)

    passes = 4 if split.recompute else 3  # a backward pass takes two forward passes
    work_of_stage = passes * tokens * forward_work(model, split.row) / split.stages / split.tensor
    steps = split.accumulation + split.stages - 1
    return Bill(
        stages,
        seconds=steps * (work_of_stage / model.speed),
        bubble=(split.stages - 1) / steps,
        rows=split.replicas * split.micro_batch * split.accumulation,
    )
