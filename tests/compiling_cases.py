"""For the tests of compiling: a small model, a backend that counts, and what two ranks do."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from packlib.training.scaling import compile_for_shapes


class Output(NamedTuple):
    loss: Tensor
    logits: Tensor


class Small(nn.Module):
    """Guesses each token from itself, with dropout and with statistics that a forward pass changes."""

    def __init__(self, width: int = 8, layers: int = 1, dropout: float = 0.0):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm, self.dropout = nn.BatchNorm1d(width), nn.Dropout(dropout)
        self.head = nn.Linear(width, 50)

    def forward(self, input_ids: Tensor, weights: Tensor | None = None) -> Output:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = x + layer(x).tanh()
        logits = self.head(self.dropout(self.norm(x.flatten(0, 1))))
        losses = cross_entropy(logits, input_ids.flatten(), reduction="none")
        return Output(losses.mean() if weights is None else (losses * weights).mean(), logits)


def small(**sizes) -> Small:
    torch.manual_seed(0)
    return Small(**sizes).double()


def batch_of(rows: int, length: int, seed: int = 0) -> dict[str, Tensor]:
    return {"input_ids": torch.randint(50, (rows, length), generator=torch.Generator().manual_seed(seed))}


class Counting:
    """A backend that only counts the graphs it gets; ask `calls`."""

    def __init__(self):
        self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list):
        self.calls += 1
        return graph.forward


def gradients(model: nn.Module, batches: list[dict]) -> list[Tensor]:
    """Of the sum of the losses."""
    model.zero_grad()
    for batch in batches:
        model(**batch).loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def furthest(first: list[Tensor], second: list[Tensor]) -> float:
    return max(float((a - b).detach().abs().max()) for a, b in zip(first, second, strict=True))


def compile_on_ranks(rank: int) -> dict:
    """DistributedDataParallel in eager mode, as one graph and split: graphs, gradients; and what goes wrong."""
    shapes = [(2, 8), (3, 12)]
    batches = [batch_of(*shape, seed=10 * rank + i) for i, shape in enumerate(shapes * 2)]
    found = {}
    for split in (False, True):
        model = DistributedDataParallel(small(width=384, layers=3), bucket_cap_mb=1)
        wanted, counting = gradients(model, batches), Counting()
        with torch._dynamo.config.patch(optimize_ddp=split):
            graphs = compile_for_shapes(model, shapes_of(shapes), backend=counting)
        apart = furthest(wanted, gradients(model, batches))
        found[split] = (counting.calls, graphs.compiles.graphs, apart)
        with model.no_sync():
            alone = gradients(model, batches)
        found["no sync", split] = furthest(wanted, alone)
        found["unseen"] = error_of(lambda: model(**batch_of(2, 9)))  # noqa: B023
        graphs.release()
    others = [(2, 8), (2, 10 + rank)]
    found["shapes differ"] = error_of(lambda: compile_for_shapes(model, shapes_of(others), backend="eager"))
    return found


def shapes_of(shapes: list[tuple[int, int]]) -> list[dict]:
    return [batch_of(*shape) for shape in shapes]


def error_of(call) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return "no error"
