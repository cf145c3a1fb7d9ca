"""Unmodified models on packs with real flash kernels, on one GPU: how far from each sequence alone, and how fast.

    python -m tests.benchmarks.bench_forms_gpu

Needs torch, transformers, flash-attn (or `kernels`, with its kernels at hand) and this checkout. Nobody has run it yet:
the tests compare the same arguments on a CPU, with a kernel in plain PyTorch.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from packlib.batches import PackedBatch, TokenStore, collate, pack_lengths, pad
from packlib.lengths import log_normal
from packlib.model import for_transformers
from tests.benchmarks.table import record, show

LENGTH, ROWS, VOCABULARY = 2048, 8, 32_000
SHAPE = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "vocab_size": VOCABULARY}
MODELS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", {"max_position_embeddings": LENGTH}),
    "Mistral, window 512": ("MistralForCausalLM", "MistralConfig", {"sliding_window": 512}),
    "Gemma 2, window 512": ("Gemma2ForCausalLM", "Gemma2Config", {"sliding_window": 512}),
    "ModernBERT": ("ModernBertForMaskedLM", "ModernBertConfig", {"max_position_embeddings": LENGTH}),
}


def packs() -> PackedBatch:
    rng = np.random.default_rng(0)
    lengths = rng.permutation(log_normal(10_000, LENGTH, 5.5, 1.0).expand())[:400]
    made = pack_lengths(lengths, LENGTH)
    ids = np.concatenate([made[i] for i in range(ROWS)])
    tokens = [{"input_ids": (some := rng.integers(5, VOCABULARY, n)), "labels": some} for n in lengths[ids]]
    return collate(TokenStore.from_samples(tokens), [len(made[i]) for i in range(ROWS)], LENGTH).to("cuda")


def logits(model: PreTrainedModel, batch: PackedBatch, form: str) -> torch.Tensor:
    """Of the tokens, shape (tokens, vocabulary)."""
    out = model(**for_transformers(batch, model, form)).logits
    return out[0] if form == "padding_free" else out[batch.segment_ids > 0]


def alone(model: PreTrainedModel, batch: PackedBatch) -> torch.Tensor:
    pieces = batch.input_ids[batch.segment_ids > 0].split(batch.lengths.tolist())
    return torch.cat([model(input_ids=piece[None]).logits[0] for piece in pieces])


def seconds(model: PreTrainedModel, given: dict, runs: int = 5) -> float:
    """Of a forward and a backward pass."""
    times = []
    for _ in range(runs + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model(**given).loss.backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:]))


def rows(batch: PackedBatch) -> Iterator[dict]:
    padded = pad(batch)
    for name, (own, config, more) in MODELS.items():
        settings = getattr(transformers, config)(**SHAPE, **more)
        model = getattr(transformers, own)(settings).to("cuda", torch.bfloat16).eval()
        model.set_attn_implementation("sdpa")
        with torch.no_grad():
            exact = alone(model.float(), batch)
            model.to(torch.bfloat16)
            scale = exact.abs().max()
            rounding = (alone(model, batch) - exact).abs().max() / scale
        base = seconds(model, for_transformers(padded, model, "dense"))
        for backend, form in (("sdpa", "dense"), ("flash_attention_2", "padding_free")):
            model.set_attn_implementation(backend)
            with torch.no_grad():
                apart = (logits(model, batch, form) - exact).abs().max() / scale
            step = seconds(model, for_transformers(batch, model, form))
            yield {
                "model": name, "backend": backend, "form": form, "ms a step": f"{1000 * step:.1f}",
                "times the padded batch": f"{base / step:.2f}", "differs by": f"{apart:.1e}",
                "bfloat16 alone differs by": f"{rounding:.1e}", "must be": "twice the rounding at most",
            }  # fmt: skip


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("bench_forms_gpu needs a GPU.")
    torch.manual_seed(0)
    found = list(rows(packs()))
    show(found)
    device = torch.cuda.get_device_name()
    print(record("forms_gpu", found, "python -m tests.benchmarks.bench_forms_gpu", device, ("torch", "transformers")))


if __name__ == "__main__":
    main()
