"""`check_packing` where each row lies on two ranks, as in context parallelism."""

import check_cases as cases
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn import functional as F

from packlib.distributed import run_ranks
from packlib.tools.check import check_packing


def mine(whole):
    """The part of this rank."""
    return whole.chunk(dist.get_world_size(), 1)[dist.get_rank()]


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(_, part):
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, 1)

    @staticmethod
    def backward(_, slopes):
        dist.all_reduce(slopes := slopes.clone(memory_format=torch.contiguous_format))
        return mine(slopes)


def gathered(part):
    """The parts of all ranks, side by side; gradients are summed over the ranks."""
    return Gather.apply(part)


class OnRanks(nn.Module):
    """An attention of the slots of this rank over the keys of all ranks, which are gathered; and a fault."""

    def __init__(self, fault=None, width=16):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = nn.Embedding(cases.VOCABULARY, width), nn.Embedding(64, width)
        self.qkv, self.head, self.fault = nn.Linear(width, 3 * width), nn.Linear(width, cases.VOCABULARY), fault

    def forward(self, input_ids, position_ids, labels):
        first, order = position_ids == 0, torch.arange(input_ids.shape[1])[None]
        numbers = first.cumsum(1)
        if self.fault == "each numbers its own":
            numbers = gathered(mine(first).cumsum(1))
        if self.fault == "embeds whole rows":  # which is none
            embedded = mine(self.tokens(input_ids))
        else:
            embedded = self.tokens(mine(input_ids))
        x = embedded + self.places(mine(position_ids))
        query, key, value = self.qkv(x).chunk(3, -1)
        allowed = (mine(numbers)[..., None] == numbers[:, None]) & (mine(order)[..., None] >= order[:, None])
        x = x + F.scaled_dot_product_attention(query, gathered(key), gathered(value), attn_mask=allowed)
        logits, targets = gathered(self.head(x)), F.pad(labels[:, 1:], (0, 1), value=-100)
        if self.fault == "a mean of each rank":
            parts = zip(logits.chunk(2, 1), targets.chunk(2, 1), strict=True)
            loss = torch.stack([mean_of(*part) for part in parts]).mean()
        elif self.fault == "a loss of its own":
            loss = mean_of(mine(logits), mine(targets))
        elif self.fault == "a part each, summed":  # which is none: each rank's slope is that of its own slots
            part = F.cross_entropy(mine(logits).flatten(0, 1), mine(targets).flatten(), reduction="sum")
            loss = all_reduce(part) / (targets != -100).sum()
        else:
            loss = mean_of(logits, targets)
        return {"logits": logits, "loss": loss}


def mean_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / (targets != -100).sum().clamp(1)


def step(model, batches):
    counts = [(batch["labels"] != -100).sum() for batch in batches]
    for batch, count in zip(batches, counts, strict=True):
        (model(**batch)["loss"] * count / sum(counts)).backward()
    for p in model.parameters() if model.fault != "not summed" else ():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def asked(fault=None):
    return {"model": OnRanks(fault), "collate": cases.multiples, "sequences": cases.sequences(),
            "step": step, "ranks_share": "rows"}  # fmt: skip


RIGHT = None, "embeds whole rows", "a part each, summed"
FAULTS = {
    "each numbers its own": ("isolation from earlier sequences", "ranks that share a row let its sequences see"),
    "a mean of each rank": ("mean", "where each rank takes a mean of its part"),
    "not summed": ("accumulation", "ranks apply different gradients"),
}


def checked(rank):
    """What a rank finds of each model: whether it is exact, and the causes; or why it is refused."""
    found = {fault: check_packing(**asked(fault)) for fault in (*RIGHT, *FAULTS)}
    causes = {fault: {one.question: one.cause for one in each.findings if one.cause} for fault, each in found.items()}
    with pytest.raises(ValueError, match="model must give each rank the loss of whole rows, gathered or summed"):
        check_packing(**asked("a loss of its own"))
    return causes


def test_rows_on_two_ranks_are_exact_or_the_fault_is_named():
    for causes in run_ranks(checked, 2):
        assert {name: causes[name] for name in RIGHT} == {name: {} for name in RIGHT}
        for fault, (question, words) in FAULTS.items():
            assert words in causes[fault][question], causes[fault]
