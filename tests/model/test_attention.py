"""Backends against each other, and refusals where a backend cannot work."""

import itertools

import pytest
import torch
from model_cases import make_batch, make_model
from torch.nn.functional import scaled_dot_product_attention

from packlib.model import attention, choose_backend


@pytest.mark.parametrize("causal", [False, True])
def test_block_mask_equals_the_dense_one(causal):
    ids = make_batch().segment_ids
    dense = attention.allowed_pairs(ids, causal)
    mask = attention.block_mask(ids, causal)
    b, q, k = torch.meshgrid(*map(torch.arange, dense.shape), indexing="ij")
    assert torch.equal(mask.mask_mod(b, 0, q, k).expand_as(dense), dense)
    assert mask.shape == (dense.shape[0], 1, *dense.shape[1:])


def varlen_by_hand(query, key, value, bounds_q, bounds_k, longest_q, longest_k):
    """What a variable-length kernel does, one segment at a time: shapes (tokens, H, D)."""
    assert torch.equal(bounds_q, bounds_k) and bounds_q.diff().max() == longest_q == longest_k
    assert bounds_q[0] == 0 and bounds_q[-1] == len(query)
    assert bounds_q.dtype == torch.int32 and query.stride(-1) == key.stride(-1) == 1
    out = torch.empty_like(query)
    for a, b in itertools.pairwise(bounds_q.tolist()):
        q, k, v = (x[a:b].transpose(0, 1) for x in (query, key, value))
        out[a:b] = scaled_dot_product_attention(q, k, v).transpose(0, 1)
    return out


def test_varlen_backend_with_a_kernel_by_hand(monkeypatch):
    """No CPU has the kernel; what is handed to it and what is made of its answer is tested with a stand-in."""
    model, batch = make_model("bert"), make_batch()
    expected = model(**batch).token_logits
    monkeypatch.setattr(attention, "_varlen_attn", lambda: varlen_by_hand)
    monkeypatch.setattr(attention, "_refusal", lambda *_: None)
    model.backend = "varlen"
    assert (model(**batch).token_logits - expected).abs().max() < 1e-10
    assert model.config._attn_implementation == "packlib_varlen"


BFLOAT16, SINGLE = torch.bfloat16, torch.float32


@pytest.mark.parametrize("backend, device, dtype, dropout, reason", [
    ("flex", "cuda", BFLOAT16, 0.1, "the model asks for a dropout of 0.1"),
    ("flex", "cpu", SINGLE, 0.0, "no backward pass on the CPU"),
    ("varlen", "cuda", SINGLE, 0.0, "take float16 and bfloat16, not torch.float32"),
    ("varlen", "cuda", BFLOAT16, 0.1, "dropout of 0.1"), ("varlen", "cpu", BFLOAT16, 0.0, "need a GPU"),
    ("varlen", "cuda", BFLOAT16, 0.0, r"has no torch\.nn\.attention\.varlen"),
])  # fmt: skip
def test_a_backend_that_cannot_work_is_refused(backend, device, dtype, dropout, reason, monkeypatch):
    monkeypatch.setattr(attention, "_varlen_attn", lambda: None)  # an older torch
    with pytest.raises(ValueError, match=f"The attention backend '{backend}' cannot work here: .*{reason}"):
        choose_backend(backend, device, dtype, True, dropout)
    assert choose_backend("auto", device, dtype, True, dropout) == "sdpa"


def test_auto_takes_what_is_right(monkeypatch):
    monkeypatch.setattr(attention, "_varlen_attn", lambda: varlen_by_hand)  # whatever torch this is
    for device, dtype, dropout, backend in (
        ("cpu", BFLOAT16, 0.0, "sdpa"), ("cuda", SINGLE, 0.0, "sdpa"), ("cuda", BFLOAT16, 0.1, "sdpa"),
        ("cuda", BFLOAT16, 0.0, "varlen"),
    ):  # fmt: skip
        assert choose_backend("auto", device, dtype, True, dropout) == backend
    assert choose_backend("flex", "cpu", SINGLE, False) == "flex"
    with pytest.raises(ValueError, match="backend must be 'auto', 'sdpa', 'eager', 'flex' or 'varlen', not 'flash'"):
        choose_backend("flash", "cpu", SINGLE, False)


def test_a_model_asks_for_what_it_is_doing():
    """Gradients, and dropout in training alone."""
    model, batch = make_model("bert", backend="flex"), make_batch(packs=1)
    model.config.attention_probs_dropout_prob = 0.1
    with pytest.raises(ValueError, match="no backward pass on the CPU"):
        model.eval()(**batch)
    with torch.no_grad():
        with pytest.raises(ValueError, match="the model asks for a dropout of"):
            model.train()(**batch)
        assert model.eval()(**batch).loss.isfinite()


def test_under_autocast_the_backend_is_chosen_for_its_precision(monkeypatch):
    seen = []
    monkeypatch.setattr("packlib.model.packed.choose_backend", lambda *given: seen.append(given[2]) or "sdpa")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        make_model("bert", torch.float32)(**make_batch())
    assert seen == [torch.bfloat16]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="FlexAttention's backward pass and varlen need a GPU")
@pytest.mark.parametrize(
    "backend, dtype, tolerance",
    [("flex", torch.float32, 1e-3), ("flex", torch.bfloat16, 0.1), ("varlen", torch.bfloat16, 0.1)],
)
def test_gpu_backends_equal_sdpa_in_float32_with_gradients(backend, dtype, tolerance):
    batch = make_batch().to("cuda")
    runs = []
    for way, precision in (("sdpa", torch.float32), (backend, dtype)):
        model = make_model("bert", precision, backend=way).to("cuda")
        loss = model(**batch).loss
        loss.backward()
        gradients = torch.cat([p.grad.float().flatten() for p in model.parameters() if p.grad is not None])
        runs.append((loss.float(), gradients))
    assert abs(runs[0][0] - runs[1][0]) < tolerance
    assert (runs[0][1] - runs[1][1]).norm() < tolerance * runs[0][1].norm()
