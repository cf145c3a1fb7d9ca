"""BERT-base and BERT-large in bfloat16 on Wikipedia's lengths at 512: padded against packed, on one GPU.

    make bench-gpu        (or: python -m tests.benchmarks.bench_model_gpu)

Needs torch and transformers only, and this checkout. Tokens are random: their number and places set the time.
"""

import statistics
import time
from collections.abc import Iterator

import numpy as np
import torch
from transformers import BertConfig

from packlib.batches import MlmMasking, PackDataset, PackedBatch, PackingCollator, TokenStore, pack_lengths
from packlib.lengths import load
from packlib.model import PackedBert
from tests.benchmarks.bench_model import PACKAGES, packed_loss, padded_loss
from tests.benchmarks.table import record, timed

DEVICE, LENGTH, VOCABULARY, SLOTS = "cuda", 512, 30_522, 80
SHAPES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}


def sequences(count: int, seed: int = 0) -> TokenStore:
    """`count` sequences of random tokens, their lengths drawn from Wikipedia's histogram."""
    rng, counts = np.random.default_rng(seed), load("wikipedia").counts
    lengths = rng.choice(len(counts), count, p=counts / counts.sum())
    tokens, offsets = rng.integers(5, VOCABULARY, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
    return TokenStore(tokens, np.zeros(len(tokens), np.uint8), offsets, rng.integers(0, 2, count))


def batches(store: TokenStore, depth: int | None, rows: int, count: int = 3) -> tuple[list[PackedBatch], float]:
    """`count` batches of `rows` packs, and the packing factor of the whole."""
    packs = pack_lengths(store.lengths, LENGTH, "lpfhp", depth)
    masking = MlmMasking(0, 4, VOCABULARY, (0, 1, 2, 3, 4))
    data, collator = (PackDataset(store, packs), PackingCollator(LENGTH, masking, max_predictions_per_pack=SLOTS))
    order = np.random.default_rng(1).permutation(len(packs))[: rows * count].reshape(count, rows)
    made = [collator([data[int(i)] for i in some]).to(DEVICE) for some in order]
    return made, len(store) / len(packs)


def measure(shape: str, rows: int) -> Iterator[dict]:
    """Time and memory of a forward and a backward pass, padded and packed, at one size of the model."""
    config = BertConfig(
        vocab_size=VOCABULARY, max_position_embeddings=LENGTH, attention_probs_dropout_prob=0.0, **SHAPES[shape]
    )
    torch.manual_seed(0)
    model = PackedBert(config, max_predictions_per_pack=SLOTS).to(DEVICE, torch.bfloat16).train()
    store, padded = sequences(20_000), None
    for run, backend in (("padded", "sdpa"), ("packed", "sdpa"), ("packed", "flex"), ("packed", "varlen")):
        model.backend, loss = backend, padded_loss if run == "padded" else packed_loss
        made, factor = batches(store, 1 if run == "padded" else None, rows)

        def step(batch: PackedBatch, loss=loss) -> None:
            model.zero_grad()
            loss(model, batch).backward()
            torch.cuda.synchronize()

        torch.cuda.reset_peak_memory_stats()
        try:
            for batch in 2 * made:  # compiled and warm
                step(batch)
            seconds = statistics.median(
                timed(lambda batch=batch, step=step: step(batch), time.perf_counter)[1] for batch in 5 * made
            )
        except (ValueError, torch.OutOfMemoryError) as error:  # what cannot run here says why
            print(f"{shape}, {backend}: left out: {error}")
            continue
        padded = padded or seconds
        yield {
            "model": shape, "run": run, "backend": backend, "packs": rows, "packing factor": round(factor, 3),
            "ms": round(1e3 * seconds, 2), "realized speed-up": round(factor * padded / seconds, 3),
            "realized / factor": round(padded / seconds, 3),
            "useful tokens a second": round(len(store.input_ids) / len(store) * factor * rows / seconds),
            "peak memory, GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        }  # fmt: skip


def main() -> None:
    if not torch.cuda.is_available():
        print("bench-gpu: this machine has no GPU that torch can use, so nothing was measured.")
    else:
        rows = (row for shape, packs in (("base", 32), ("large", 16)) for row in measure(shape, packs))
        record("model_gpu.csv", rows, "make bench-gpu", PACKAGES, torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
