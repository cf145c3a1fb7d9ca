"""What a model takes of each device that trains it: bytes and time, for models of today and one of 2021."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Model:
    """A transformer, and the device that people train it on.

    Attributes:
        layers, width, feed_forward: as usual; `feed_forward` is of one expert.
        kv_width: of keys, and of values.
        vocabulary: tokens; embedding and head are two matrices, or one if they are `tied`.
        matrices: of width × feed_forward in a layer: 3 with a gate, as today, and 2 without.
        experts, used: feed-forward parts of a layer, and how many of them a token goes through.
        predicted: share of the tokens that the head computes: 1 of a causal model.
        scores: 0, or the heads that hold a square of scores for each row.
        state: bytes that training holds for each parameter: weight, gradient, both moments.
        memory: bytes of a device.
        speed: FLOP that a device computes in a second; assumed, never measured here.
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
    """A division of the work.

    Attributes:
        replicas: groups of devices that each hold the whole model, and see rows of their own.
        stages: of a pipeline.
        tensor: devices that share each matrix of a stage.
        sharded: every replica holds its share of weights, gradients and moments alone, as FSDP2 does.
        row: slots of a row.
        micro_batch: rows.
        accumulation: micro-batches of a replica in an update.
        recompute: hold the input of each layer alone, and compute the layer twice.
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
        stages: for each stage, bytes by what they hold.
        seconds: of an update.
        bubble: share of the time in which a stage waits for the others.
        rows: behind an update.
    """

    stages: list[dict[str, float]]
    seconds: float
    bubble: float
    rows: int

    @property
    def fullest(self) -> float:
        """Bytes of the fullest device."""
        return max(sum(sizes.values()) for sizes in self.stages)


def layer_parameters(model: Model, experts: int) -> int:
    """Return the parameters of a layer with so many experts: all of them, or those that a token goes through."""
    attention = 2 * model.width * (model.width + model.kv_width)
    router = model.width * model.experts if model.experts > 1 else 0
    return attention + experts * model.matrices * model.width * model.feed_forward + router + 2 * model.width


def parameters(model: Model) -> int:
    """Return all parameters, without the biases that BERT has."""
    embedding = model.vocabulary * model.width * (1 if model.tied else 2)
    return model.layers * layer_parameters(model, model.experts) + embedding + model.width


def forward_work(model: Model, row: int) -> float:
    """Return FLOP of a token in the forward pass, if its row of `row` slots is one sequence."""
    attention = 4 * row * model.width / (1 if model.scores else 2)  # a causal model sees half of the row
    head = 2 * model.predicted * model.width * model.vocabulary
    return model.layers * (2 * layer_parameters(model, model.used) + attention) + head


def bill(model: Model, split: Split) -> Bill:
    """Work out memory and time, by the order 1f1b; sending takes no time here.

    Activations are those of Korthikanti et al. 2022 (arXiv 2205.05198) without dropout, in 16 bits.
    """
    layers = [len(part) for part in np.array_split(np.arange(model.layers), split.stages)]
    tokens = split.micro_batch * split.row
    inputs = 2 * tokens * model.width  # bytes of the hidden states
    whole_layer = (
        tokens * 2 * (6 * model.width + 2 * model.kv_width + model.matrices * model.used * model.feed_forward)
    )
    whole_layer += 5 * tokens * split.row * model.scores
    shares = split.replicas if split.sharded else 1
    stages = []
    for stage, layers_of_stage in enumerate(layers):
        ends = (stage == 0) + (stage == split.stages - 1 and not (model.tied and split.stages == 1))
        stage_parameters = (
            layers_of_stage * layer_parameters(model, model.experts) + ends * model.vocabulary * model.width
        )
        in_flight = min(split.accumulation, split.stages - stage)
        kept_bytes = in_flight * layers_of_stage * (inputs if split.recompute else whole_layer)
        logits = 6 * tokens * model.predicted * model.vocabulary if stage == split.stages - 1 else 0
        # a shard is gathered layer by layer, in 16 bits; without shards the 16-bit copy is whole
        at_work = layer_parameters(model, model.experts) if split.sharded else stage_parameters
        copy = 2 * at_work if model.state[0] > 2 or split.sharded else 0
        names = ("weights", "gradients", "moments")
        sizes = {
            name: size * stage_parameters / split.tensor / shares
            for name, size in zip(names, model.state, strict=True)
        }
        sizes["weights"] += copy / split.tensor
        sizes["activations"] = (kept_bytes + logits + (whole_layer if split.recompute else 0)) / split.tensor
        stages.append(sizes)
    passes = 4 if split.recompute else 3
    of_a_stage = passes * tokens * forward_work(model, split.row) / split.stages / split.tensor / model.speed
    steps = split.accumulation + split.stages - 1
    return Bill(
        stages,
        steps * of_a_stage,
        (split.stages - 1) / steps,
        split.replicas * split.micro_batch * split.accumulation,
    )
