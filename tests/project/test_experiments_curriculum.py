"""The curriculum's experiments: every way to batch costs the same loss, ALiBi is what it says, runs are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from experiments.batchings import BATCHINGS, batches, nested_loss, padded_loss
from experiments.curriculum import LENGTH, LENGTH_ARMS, ROWS, new_model, row_updates
from model_cases import store

from packlib.batches import PackedBatch, TokenStore
from packlib.model import for_transformers


def texts() -> TokenStore:
    """As many ids as there are bytes."""
    return replace(store(), input_ids=store().input_ids % 256)


@pytest.mark.parametrize("name", BATCHINGS)
def test_a_pass_holds_every_text_once(name):
    found = list(batches(name, store(), 0, LENGTH))
    assert sorted(torch.cat([b.sample_ids for b in found]).tolist()) == list(range(len(store())))
    sizes = [b.num_sequences for b in found]
    assert 4 < np.mean(sizes) < 12
    if name != "packed":
        assert all(b.num_packs == b.num_sequences for b in found)


def test_jagged_tensors_cost_what_padding_costs():
    batch = next(batches("nested", texts(), 0, LENGTH))
    gradients = []
    for loss in (padded_loss, nested_loss):
        model = new_model(0).double()
        value = loss(model, batch)
        value.backward()
        gradients.append([value.detach(), *(p.grad for p in model.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_alibi_knows_distance_and_not_the_future():
    model = new_model(0, alibi=True).double().eval()
    model.lm_head = torch.nn.Identity()  # logits are then the last hidden states
    ids = torch.arange(5, 17)[None]
    whole = torch.ones_like(ids)

    def hidden(ids):
        with torch.no_grad():
            return model(**for_transformers(PackedBatch(input_ids=ids, segment_ids=whole), model)).logits

    block, x = (model.transformer.h[0], model.transformer.wte(ids) + model.transformer.wpe(torch.zeros(1).long()))
    query, key, value = block.attn.c_attn(block.ln_1(x)).view(12, 3, 4, 16).unbind(1)
    mixed = torch.zeros(12, 4, 16, dtype=torch.float64)
    for head in range(4):
        for i in range(12):
            scores = torch.stack(
                [query[i, head] @ key[j, head] / 4 - 2.0 ** (-2 * (head + 1)) * (i - j) for j in range(i + 1)]
            )
            mixed[i, head] = scores.softmax(0) @ value[: i + 1, head]
    model.transformer.h = model.transformer.h[:1]
    model.transformer.ln_f = torch.nn.Identity()
    model.config.n_layer = model.config.num_hidden_layers = 1
    x = x[0] + block.attn.c_proj(mixed.flatten(1))
    assert torch.allclose(hidden(ids)[0], x + block.mlp(block.ln_2(x)), atol=1e-12)


def test_the_arms_differ_as_their_names_say():
    rows = torch.arange(300 * LENGTH).reshape(300, LENGTH)

    def shapes(arm):
        return [(u.sequences, u.length, u.tokens, u.slots) for u in row_updates(arm, 0, rows, 50 * ROWS * LENGTH)]

    full = (ROWS, LENGTH, ROWS * LENGTH, ROWS * LENGTH)
    assert shapes(LENGTH_ARMS["no warm-up"]) == [full] * 50
    warm = shapes(LENGTH_ARMS["0.3, truncated"])
    assert warm[0] == (ROWS, 8, ROWS * 8, ROWS * 8) and warm[14][1] < LENGTH and set(warm[15:]) == {full}
    reshaped = shapes(LENGTH_ARMS["0.3, reshaped"])
    assert {tokens for _, _, tokens, _ in reshaped} == {ROWS * LENGTH} and len(reshaped) == 50  # none is lost
    assert [length for _, length, *_ in reshaped[:20]] == [length for _, length, *_ in warm[:20]]
    assert all(slots >= tokens for _, _, tokens, slots in reshaped)
    both = shapes(LENGTH_ARMS["batch size and 0.3, truncated"])
    assert both[0][:2] == (4, 8) and both[15] == full
