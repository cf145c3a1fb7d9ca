"""`check_packing` on two ranks: an update that lies on both."""

from functools import partial

import check_cases as cases
import check_kinds as kinds
import pytest
import torch
import torch.distributed as dist
from processes import check_on_two_ranks, ranks_that_have
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import DataCollatorWithFlattening

from packlib.distributed import run_ranks
from packlib.tools.check import check_packing


@pytest.fixture(scope="module", autouse=True)
def ranks_have_models():
    models = [f"transformers.models.{name}.modeling_{name}" for name in ("llama", "llava", "qwen2_vl")]
    with ranks_that_have("packlib.distributed.ranks", "packlib.tools.check.checking", *models):
        yield


# What a rank multiplies its mean with, given its share of all labels, and the ranks; whether in parallel; and words
STEPS = {
    "right": (lambda share, ranks: share * ranks, True, ""),
    "the number of ranks twice": (lambda share, ranks: share * ranks**2, True, "2 times what it should be"),
    "no ranks": (lambda share, ranks: share, True, "0.5 times what it should be"),
    "not in parallel": (lambda share, ranks: share * ranks, False, "ranks apply different gradients"),
}


def clipped(model, batches, first):
    """An update whose gradients each rank clips `first`, before they are added up, or after that."""
    (batch,) = batches
    mine = (batch["labels"][:, 1:] != -100).sum()
    dist.all_reduce(every := mine.clone())
    with model.no_sync():
        (model(**batch).loss * mine / every).backward()
    if first:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
    if not first:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()


PAST = "ranks apply different gradients"  # of an update whose passes go past DistributedDataParallel

# A model, whether its gradients are clipped before they are added up, and words of the cause
CLIPPED = {
    "clipped after the sum": (lambda: cases.make("LlamaForCausalLM"), False, ""),
    "clipped before the sum": (lambda: cases.make("LlamaForCausalLM"), True, "on each rank before they are added"),
    "LoRA, clipped after the sum": (kinds.adapted, False, ""),
}


def checked(rank):
    """What a rank finds of each update."""
    found = {}
    for name, (make, first, _) in CLIPPED.items():
        one = check_packing(DistributedDataParallel(make()), DataCollatorWithFlattening(), cases.sequences(),
                            step=partial(clipped, first=first))  # fmt: skip
        found[name] = one.exact, one["accumulation"].cause
    for name, (scale, parallel, _) in (STEPS | {"past": (STEPS["right"][0], True, PAST)}).items():

        def step(model, batches, scale=scale, past=name == "past"):
            (batch,) = batches
            mine = (batch["labels"] != -100).sum()
            dist.all_reduce(every := mine.clone())
            made = (model.module if past else model)(**batch)
            (made.loss * scale(mine / every, dist.get_world_size())).backward()
            torch.optim.SGD(model.parameters(), lr=0.1).step()

        model = cases.make("LlamaForCausalLM")
        model = DistributedDataParallel(model) if parallel else model
        one = check_packing(model, DataCollatorWithFlattening(), cases.sequences(), step=step)
        found[name] = one.exact, one["accumulation"].cause
    return found


def test_updates_on_two_ranks():
    for found in run_ranks(checked, 2, timeout=300):
        for name, (exact, cause) in found.items():
            words = PAST if name == "past" else (STEPS | CLIPPED)[name][2]
            assert exact is (not words) and words in cause, (name, cause)


SHARDED = {  # what a rank multiplies its mean with, a bound for gradients, what clears them, and words of the cause
    "right": (lambda share: share * 2, None, "after", ""),
    "right, clipped": (lambda share: share * 2, 0.05, "after", ""),
    "right, one update alone": (lambda share: share * 2, None, "a new optimizer", ""),
    "never cleared": (lambda share: share * 2, None, "nothing", "gradients stay for the next update"),
    "no ranks": (lambda share: share, None, "after", "0.5 times what it should be"),
    "a mean of means": (lambda share: torch.tensor(1.0), None, "after", "a mean of means"),
}


def checked_sharded(rank):
    """What a rank finds of each update of a model whose parameters lie on both ranks."""
    found = {}
    for name, (scale, bound, clears, _) in SHARDED.items():
        kept = []

        def step(model, batches, scale=scale, bound=bound, clears=clears, kept=kept):
            (batch,) = batches
            mine = (batch["labels"][:, 1:] != -100).sum()
            dist.all_reduce(every := mine.clone())
            (model(**batch).loss * scale(mine / every)).backward()
            if bound:
                torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
            if not kept or clears == "a new optimizer":
                kept[:] = [torch.optim.SGD(model.parameters(), lr=0.1)]
            kept[0].step()
            if clears == "after":
                kept[0].zero_grad()

        model, mesh = cases.make("LlamaForCausalLM"), init_device_mesh("cpu", (2,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        one = check_packing(model, DataCollatorWithFlattening(), cases.sequences(), step=step)
        found[name] = one.exact, one["accumulation"].cause + one["next update"].cause
    return found


def test_updates_of_a_model_that_is_sharded():
    for found in run_ranks(checked_sharded, 2, timeout=300):
        for name, (exact, cause) in found.items():
            words = SHARDED[name][-1]
            assert exact is (not words) and words in cause, (name, cause)


ON_TWO = """
import check_cases as cases
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import DataCollatorWithFlattening


def step(model, batches):
    for batch in batches:
        model(**batch).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def make():
    model = DistributedDataParallel(cases.make("LlamaForCausalLM"))
    return {"model": model, "collate": DataCollatorWithFlattening(), "sequences": cases.sequences(), "step": step}
"""


def test_torchrun_starts_the_command(tmp_path):
    done = check_on_two_ranks(tmp_path, ON_TWO)
    assert done.returncode == 1
    assert done.stdout.count("accumulation: failed") == 1 and "They lie on 2 ranks." in done.stdout


def test_what_both_ranks_refuse_is_said_once(tmp_path):
    done = check_on_two_ranks(tmp_path, "def make():\n    return 3\n")
    said = [line for line in done.stderr.splitlines() if line.startswith("packlib: ")]
    assert done.returncode and len(said) == 1, done.stderr
    assert "must return model, collate and sequences, not 3." in said[0] and "Rank" not in said[0]


ALONE = """
import torch.distributed as dist


def make():
    assert dist.get_rank() == 0, "not ready"
    dist.barrier()
"""


def test_a_rank_that_raises_alone_is_named_and_none_waits_for_it(tmp_path):
    done = check_on_two_ranks(tmp_path, ALONE)
    assert done.returncode and done.stderr.count("packlib: Rank 1 of 2: ") == 1, done.stderr
    assert "AssertionError: not ready" in done.stderr
