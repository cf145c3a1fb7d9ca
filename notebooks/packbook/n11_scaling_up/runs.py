"""What notebook 11 runs: replicas, stages, a network with 16-bit weights, and recorded tables."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from packbook.shared.gradients import Gradients, gradients
from packlib.batches import PackedBatch
from packlib.model import PackedBert, PackedOutput, attention_arguments
from packlib.model.attention import BACKENDS
from packlib.training import PretrainingObjective, round_weights
from packlib.training.precision import Rounding
from packlib.training.updates import join_packs, take_packs


def uneven_batches(loader, packs: int) -> list[PackedBatch]:
    """Return two batches of `packs` packs each: those with the fewest sequences, and those with the most."""
    single_packs = [take_packs(batch, i, i + 1) for batch in loader for i in range(batch.num_packs)]
    single_packs.sort(key=lambda pack: pack.num_sequences)
    return [join_packs(single_packs[:packs]), join_packs(single_packs[-packs:])]


def whole_gradients(
    model: nn.Module, batches: Sequence[PackedBatch], forward: Callable[..., PackedOutput] | None = None
) -> Gradients:
    """Compute in one process the gradients of the losses' means over all sequences and tokens of all batches.

    Args:
        forward: runs the model; None calls it.
    """
    objective = PretrainingObjective()
    counts = [objective.counts(batch) for batch in batches]
    sums = [objective(forward or model, batch) for batch in batches]
    losses = []
    for name in counts[0]:  # masked tokens, and sequences
        total = sum(sums_of_batch[name].total for sums_of_batch in sums)
        losses.append(total / sum(counts_of_batch[name] for counts_of_batch in counts))
    return gradients(model, sum(losses))


def replica(rank: int, model: nn.Module, batches: list[PackedBatch]) -> dict[str, Gradients]:
    """Compute this replica's gradients after the all-reduce: by the counts of all replicas, and as a mean of means."""
    objective, gradients = PretrainingObjective(), {}
    own_counts = objective.counts(batches[rank])  # masked tokens, and sequences
    for how in ("counts of all", "mean of means"):
        trained = DistributedDataParallel(deepcopy(model))  # its backward pass takes the mean over replicas
        counts = torch.tensor(list(own_counts.values()), dtype=torch.float64)
        if how == "counts of all":
            dist.all_reduce(counts)
            counts /= dist.get_world_size()
        sums = objective(trained, batches[rank])
        losses = [sums[name].total / count for name, count in zip(own_counts, counts, strict=True)]
        sum(losses).backward()
        named = trained.module.named_parameters()
        gradients[how] = {name: parameter.grad.clone() for name, parameter in named if parameter.grad is not None}
    return gradients


def in_stages(model: PackedBert, first_layers: int) -> Callable[..., PackedOutput]:
    """Return a forward pass of the model in two stages; hidden states and segment ids go between them, and no mask."""
    layers = model.bert.encoder.layer
    model.config._attn_implementation = BACKENDS["sdpa"]

    def forward(**batch):
        hidden = model.bert.embeddings(batch["input_ids"], batch["token_type_ids"], batch["position_ids"])
        for stage in (layers[:first_layers], layers[first_layers:]):
            mask = attention_arguments(batch["segment_ids"], "sdpa", dtype=hidden.dtype)  # each stage makes its own
            for layer in stage:
                hidden = layer(hidden, **mask)
        return model.heads(hidden, batch)  # the last one unpacks the losses

    return forward


def learn_curve(updates: int, seed: int, rate: float = 3e-4) -> tuple[dict[str, float], float]:
    """Train a small network to compute a curve, with its weights in FP32, or rounded to bfloat16 in three ways.

    With "fp32" nothing is rounded. Otherwise weights and gradients are bfloat16, and weights are rounded after each
    update; all else is computed in FP32.

    Args:
        updates: number of AdamW's updates; each takes all 256 points of the curve.
        seed: of the points, the first weights, and stochastic rounding.
        rate: learning rate.

    Returns:
        The last loss by the way in which weights are stored, and the loss of a network that always outputs the mean.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(256, 8, generator=generator)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    ways: tuple[Literal["fp32"] | Rounding, ...] = ("fp32", "master", "stochastic", "nearest")
    losses: dict[str, float] = {}
    for way in ways:
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
        network = network if way == "fp32" else network.bfloat16()
        optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
        if way != "fp32":
            round_weights(optimizer, way, seed)
        for _ in range(updates):
            # the network computes with FP32 copies of its weights; gradients go back to the weights themselves
            weights = {name: parameter.float() for name, parameter in network.named_parameters()}
            loss = nn.functional.mse_loss(torch.func.functional_call(network, weights, (x,)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[way] = loss.item()
    return losses, y.var(correction=0).item()


def who_weighs_more(few: int, many: int) -> str:
    """Explain whose sequences weigh more in a mean of means; replica 0 has `few` sequences, replica 1 has `many`."""
    if few == many:
        return f"Both have {few} sequences, so here the mean of means is right by chance."
    return (
        f"A sequence of replica 0 weighs 1/{few}, halved, and one of replica 1 weighs 1/{many}, halved: "
        f"{many / few:.3g} times as much for replica 0. One process would give each sequence the same weight."
    )
