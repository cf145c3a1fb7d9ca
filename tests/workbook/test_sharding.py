"""Sharding, offloading and recomputation change where numbers live, never the numbers."""

from itertools import pairwise

import pytest
import torch
from model_cases import bert_config, gpt_config, make_batch
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from training_cases import furthest, loader, recipe, weights
from transformers import GPT2LMHeadModel

from packlib.distributed import run_ranks
from packlib.model import PackedBert, for_transformers
from packlib.training import PretrainingObjective, fit, make_optimizer
from packlib.workbook.chapters.n11_scaling_up.activations import SavedActivations
from packlib.workbook.chapters.n11_scaling_up.recomputation import recompute
from packlib.workbook.chapters.n11_scaling_up.sharding import memory_of, offload_state, shard_model, shard_optimizer

KINDS = ("lamb", "adamw")


def model_of(dropout=0.0, layers=2, dtype=torch.float64):
    torch.manual_seed(2)
    config = bert_config(
        hidden_size=32, num_attention_heads=2, intermediate_size=48, num_hidden_layers=layers,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    return PackedBert(config).to(dtype)


def ten_steps(model, optimizer, own, batches, world=1):
    """Rank r trains on its own micro-batches; the losses are divided by the counts of all."""
    objective = PretrainingObjective()
    counts = [objective.counts(batch) for batch in batches]
    for _ in range(10):
        optimizer.zero_grad()
        for batch in own:
            sums = objective(model, batch)
            loss = sum(sums[name].total / sum(c[name] for c in counts) for name in counts[0])
            (loss * world).backward()  # ranks are averaged
        optimizer.step()


def train_sharded(rank, batches):
    """Two ranks, one micro-batch each: with the state sharded, and with everything sharded."""
    out = {}
    for kind in KINDS:
        for how in ("optimizer", "model"):
            model, plan = model_of(), recipe(2, 1, optimizer=kind)
            if how == "model":
                optimizer = make_optimizer(shard_model(model), plan)
                trained = model
            else:
                optimizer = shard_optimizer(model, plan)
                trained = DistributedDataParallel(model)
            ten_steps(trained, optimizer, [batches[rank]], batches, 2)
            found = {n: p.full_tensor() if isinstance(p, DTensor) else p for n, p in model.named_parameters()}
            found = {name: p.detach() for name, p in found.items()}
            out[kind, how] = (found, memory_of(model, optimizer))
    model, plan = model_of(), recipe(2, 2, total=120, replicas=2)
    optimizer = shard_optimizer(model, plan)
    data = loader(2, which=slice(24), shuffle=False)  # of which each rank loads its share
    records = fit(model, data, plan, optimizer=offload_state(optimizer.optim) and optimizer, progress=False)
    out["fit"] = (weights(model), memory_of(model, optimizer), records[-1]["loss"])
    return out


@pytest.mark.slow
def test_sharded_ranks_end_where_one_process_does():
    """Ten updates from 3 and 16 sequences on two ranks, to 1e-10 in fp64; and what each rank holds."""
    batches = [make_batch(depth=2, packs=2), make_batch(packs=2)]
    assert batches[0].num_sequences < batches[1].num_sequences
    ranks = run_ranks(train_sharded, 2, batches, timeout=300)
    for kind in KINDS:
        alone = model_of()
        optimizer = make_optimizer(alone, recipe(2, 1, optimizer=kind))
        ten_steps(alone, optimizer, batches, batches)
        whole = memory_of(alone, optimizer)
        assert whole["gradients"] == whole["weights"] and whole["offloaded state"] == 0
        assert whole["state"] == pytest.approx(2 * whole["weights"], rel=0.01)
        for how in ("optimizer", "model"):
            assert all(furthest(rank[kind, how][0], weights(alone)) < 1e-10 for rank in ranks), (kind, how)
            memory = [rank[kind, how][1] for rank in ranks]
            for name in ("weights", "gradients", "state"):
                sharded = how == "model" or (how, name) == ("optimizer", "state")
                held = sum(one[name] for one in memory) / whole[name]
                assert held == pytest.approx(1 if sharded else 2, rel=0.01), (kind, how, name)
            if how == "model":  # rows are dealt out evenly; whole parameters cannot be
                assert memory[0]["state"] == pytest.approx(memory[1]["state"], rel=0.05)
    alone = model_of()
    records = fit(alone, loader(4, which=slice(24), shuffle=False), recipe(4, 2, total=120), progress=False)
    for rank in ranks:
        assert furthest(rank["fit"][0], weights(alone)) < 1e-10
        assert rank["fit"][2] == pytest.approx(records[-1]["loss"], rel=1e-9)
        assert rank["fit"][1]["state"] == 0 < rank["fit"][1]["offloaded state"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_leaves_after_each_update_and_comes_back(kind):
    """A device that forgets shows both ways: the state went there, and the next step asks for it."""
    batches = [make_batch(packs=2)]
    plain, kept = model_of(), model_of()
    optimizers = [make_optimizer(model, recipe(2, 1, optimizer=kind)) for model in (plain, kept)]
    offload_state(optimizers[1])
    for model, optimizer in zip((plain, kept), optimizers, strict=True):
        ten_steps(model, optimizer, batches, batches)
    assert furthest(weights(plain), weights(kept)) == 0
    memory = [memory_of(model, o) for model, o in zip((plain, kept), optimizers, strict=True)]
    assert memory[0]["state"] == memory[1]["offloaded state"] > 0 == memory[1]["state"]
    model = model_of()
    optimizer = offload_state(make_optimizer(model, recipe(2, 1, optimizer=kind)), "meta")
    model(**batches[0]).loss.backward()
    optimizer.step()
    devices = {v.device.type for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v) and v.dim()}
    assert devices == {"meta"}
    with pytest.raises(NotImplementedError, match="meta"):
        optimizer.step()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_recomputation_keeps_the_gradients_and_drops_the_activations(dropout):
    """Bit for bit, dropout too; each layer saves what the formula says, and its input stays."""
    batch, found = make_batch(packs=4), []
    for layers in (0, 1, 2, 3, None):
        model = model_of(dropout, layers=3).train()
        recompute(model, layers)
        torch.manual_seed(5)
        with SavedActivations(model) as saved:
            loss = model(**batch).loss
        loss.backward()
        found.append((saved.bytes, {n: p.grad for n, p in model.named_parameters()}))
    assert all(furthest(found[0][1], other) == 0 for _, other in found[1:])
    sizes = [size for size, _ in found]
    saved = {before - after for before, after in pairwise(sizes[:4])}
    assert sizes[4] == sizes[3]
    if not dropout:
        tokens, width, wide, heads = batch.input_ids.numel(), 32, 48, 2
        rows = tokens * (8 * width + 2 * wide) * 8
        statistics = tokens * (2 * 2 + heads) * 8  # two norms' means and deviations; a number a head
        assert saved == {rows + statistics - tokens * width * 8}
    recompute(model, 0)
    with SavedActivations(model) as again:
        model(**batch)
    assert again.bytes == sizes[0]


def test_other_models_and_bad_input():
    causal = GPT2LMHeadModel(gpt_config()).train()
    batch = for_transformers(make_batch(masked=False, packs=2), causal)
    sizes = []
    for layers in (0, None):
        recompute(causal, layers)
        with SavedActivations(causal) as saved:
            causal(**batch)
        sizes.append(saved.bytes)
    assert sizes[1] < 0.8 * sizes[0]
    with pytest.raises(ValueError, match="layers must be from 0 to 2, not 3"):
        recompute(causal, 3)
    with pytest.raises(ValueError, match="Linear has no layers that transformers knows"):
        recompute(torch.nn.Linear(2, 2))
