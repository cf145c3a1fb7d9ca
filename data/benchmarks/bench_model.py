"""Padded against packed: speed and bytes on this CPU, and on one GPU BERT-base and BERT-large.

`python data/record.py model [speed wikipedia bytes]` writes data/benchmarks/model_speed.csv, model_wikipedia.csv and
model_bytes.csv, or the ones that are named. Everything runs on one core and its time is the processor's, so that others
on the machine hardly matter; what is compared takes turns.

`make bench-gpu`, which is `python data/record.py model gpu`, writes model_gpu.csv: in bfloat16, on
Wikipedia's lengths at 512. It needs torch and transformers only, and this checkout. Tokens are random: their number and
places set the time.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig

from benchmarks.table import in_turn, processor, record_parts, timed
from packbook.shared.wordnet import wordnet_store
from packlib.batches import (
    IGNORED,
    MlmMasking,
    PackedBatch,
    PackingCollator,
    TokenStore,
    pack_lengths,
    pack_loader,
    wordnet_tokenizer,
)
from packlib.lengths import load
from packlib.model import PackedBert

SLOTS = 20  # masked tokens a row of 128, as in the published recipe (max_predictions_per_seq)
PACKS = 16  # rows of a batch
PACKAGES = ("torch", "transformers")
SHAPES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}


def bert_mini(max_predictions_per_pack: int | None, dropout: float = 0.1, max_length: int = 128) -> PackedBert:
    """Make 4 layers, 256 wide: the smallest shape where linear layers are most of the work, as in the large ones."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        max_position_embeddings=max_length, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    return PackedBert(config, max_predictions_per_pack=max_predictions_per_pack).train()


def batches(
    depth: int | None,
    count: int,
    store: TokenStore | None = None,
    length: int = 128,
    slots: int = SLOTS,
    masking: MlmMasking | None = None,
    rows: int = PACKS,
) -> list[PackedBatch]:
    """Make `count` batches of at most `depth` sequences a pack: of WordNet's glosses and pairs, or of the store."""
    store = store or wordnet_store(progress=False)
    packs = pack_lengths(store.lengths, length, "lpfhp", depth)
    masking = masking or MlmMasking.for_tokenizer(wordnet_tokenizer())
    loader = iter(pack_loader(store, packs, PackingCollator(length, masking, max_predictions_per_pack=slots), rows))
    return [next(loader) for _ in range(count)]


def padded_loss(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    """Return the usual loss of padded rows: transformers' own model and mask, NSP on position 0, the same MLM slots."""
    model.config._attn_implementation = "sdpa"
    out = model.bert(batch.input_ids, batch.segment_ids > 0, batch.token_type_ids)
    at = model._predicted(batch.labels != IGNORED)
    labels = batch.labels.flatten()[at.clamp(min=0)].where(at >= 0, IGNORED)
    logits = model.cls.predictions(out.last_hidden_state.flatten(0, 1)[at.clamp(min=0)])
    nsp = model.cls.seq_relationship(out.pooler_output)
    return cross_entropy(logits.float(), labels) + cross_entropy(nsp.float(), batch.sequence_labels)


def packed_loss(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    return model(**batch).loss


def speed() -> Iterator[dict]:
    """Yield training steps on WordNet at 128: packing factor, realized speed-up in useful tokens a second, overhead.

    With the MLM head on a fixed number of slots, as in the papers, a padded row costs what a packed one costs, and the
    speed-up is the factor. With the head on masked tokens only, the padded run does not waste it: its work for a
    useful token is the same in both, and only the rest becomes faster by the factor.
    """
    depths = (1, 2, 3, 4, 8, None)
    data = {"padded": batches(1, 1)[0], **{depth: batches(depth, 1)[0] for depth in depths}}
    store = wordnet_store(progress=False)
    factors = {depth: len(store) / len(pack_lengths(store.lengths, 128, "lpfhp", depth)) for depth in depths}
    for head, slots in (("fixed slots", SLOTS), ("masked tokens only", None)):
        model = bert_mini(slots)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

        def step(name: str | int | None, model: PackedBert = model, optimizer=optimizer) -> None:
            optimizer.zero_grad()
            (padded_loss if name == "padded" else packed_loss)(model, data[name]).backward()
            optimizer.step()

        seconds, _ = in_turn({name: partial(step, name) for name in data}, 11, time.process_time)
        for name in data:
            # a step costs the same whichever packs it holds; what it gets done is the factor of the whole data set
            ratio = seconds["padded"] / seconds[name]
            factor = factors.get(name, 1.0)
            useful = len(store.input_ids) / (len(store) / factor) * PACKS
            yield {
                "MLM head": head, "run": "padded" if name == "padded" else "packed",
                "depth": {None: "unlimited", "padded": 1}.get(name, name), "packing factor": round(factor, 3),
                "seconds a step": round(seconds[name], 4),
                "useful tokens a second": round(useful / seconds[name]),
                "realized speed-up": round(factor * ratio, 3), "realized / factor": round(ratio, 3),
                "overhead %": round(100 * (1 - ratio), 1),
            }  # fmt: skip


def wikipedia(rows: int = 8) -> Iterator[dict]:
    """Time steps on lengths of Wikipedia at 512: padded to the maximum, and packed without a limit of depth."""
    store, masking = like_wikipedia(20_000), MlmMasking(0, 4, 4000, (0, 1, 2, 3, 4))
    store = replace(store, input_ids=5 + store.input_ids % 3995)  # of this model's vocabulary
    model = bert_mini(80, max_length=512)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    data = {
        "padded": batches(1, 1, store, 512, 80, masking, rows)[0],
        "packed": batches(None, 1, store, 512, 80, masking, rows)[0],
    }
    losses = {"padded": padded_loss, "packed": packed_loss}

    def step(run: str) -> None:
        optimizer.zero_grad()
        losses[run](model, data[run]).backward()
        optimizer.step()

    seconds, _ = in_turn({run: partial(step, run) for run in data}, 11, time.process_time)
    factor = len(store) / len(pack_lengths(store.lengths, 512, "lpfhp", None))
    for run, held in (("padded", 1.0), ("packed", factor)):
        useful = store.lengths.mean() * held * rows
        ratio = seconds["padded"] / seconds[run]
        yield {
            "MLM head": "fixed slots", "run": run, "packing factor": round(held, 3),
            "seconds a step": round(seconds[run], 4), "useful tokens a second": round(useful / seconds[run]),
            "realized speed-up": round(held * ratio, 3), "realized / factor": round(ratio, 3),
        }  # fmt: skip


def bytes_sent() -> Iterator[dict]:
    """Yield the bytes that go to the device for each useful token."""
    for name, batch in (("padded", batches(1, 1)[0]), ("packed", batches(None, 1)[0])):
        sent = sum(value.nbytes for value in batch.values() if isinstance(value, torch.Tensor))
        mask = batch.num_packs * batch.max_length**2 * 4
        yield {
            "run": name, "useful tokens": batch.useful_tokens, "bytes": sent,
            "bytes a useful token": round(sent / batch.useful_tokens, 1),
            "bytes a useful token, float32 mask sent too": round((sent + mask) / batch.useful_tokens, 1),
        }  # fmt: skip


def like_wikipedia(count: int) -> TokenStore:
    """Return `count` sequences of random tokens, their lengths drawn from Wikipedia's histogram."""
    rng, counts = np.random.default_rng(0), load("wikipedia").counts
    lengths = rng.choice(len(counts), count, p=counts / counts.sum())
    tokens, offsets = rng.integers(5, 30_522, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
    return TokenStore(tokens, np.zeros(len(tokens), np.uint8), offsets, rng.integers(0, 2, count))


def gpu(device: str = "cuda", sequences: int = 20_000) -> Iterator[dict]:
    """Time and memory of a forward and a backward pass, padded and packed, at two sizes of the model."""
    store, masking = like_wikipedia(sequences), MlmMasking(0, 4, 30_522, (0, 1, 2, 3, 4))
    for (shape, size), rows in zip(SHAPES.items(), (32, 16), strict=True):
        config = BertConfig(max_position_embeddings=512, attention_probs_dropout_prob=0.0, **size)
        torch.manual_seed(0)
        model, padded = PackedBert(config, max_predictions_per_pack=80).to(device, torch.bfloat16).train(), None
        for run, backend in (("padded", "sdpa"), ("packed", "sdpa"), ("packed", "flex"), ("packed", "varlen")):
            model.backend, depth = backend, 1 if run == "padded" else None
            factor = len(store) / len(pack_lengths(store.lengths, 512, "lpfhp", depth))

            def step(batch: PackedBatch, model=model, loss=padded_loss if depth else packed_loss) -> None:
                model.zero_grad()
                loss(model, batch).backward()
                torch.cuda.synchronize()

            made = [batch.to(device) for batch in batches(depth, 3, store, 512, 80, masking, rows)]
            torch.cuda.reset_peak_memory_stats()
            try:
                for batch in 2 * made:  # compiled and warm
                    step(batch)
                seconds = statistics.median(timed(partial(step, batch), time.perf_counter)[1] for batch in 5 * made)
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


def main(*names: str) -> None:
    if names != ("gpu",):
        torch.set_num_threads(1)
        record_parts(
            "model",
            names,
            {"speed": speed, "wikipedia": wikipedia, "bytes": bytes_sent},
            PACKAGES,
            f"{processor()}, one used",
        )
    elif torch.cuda.is_available():
        record_parts("model", names, {"gpu": gpu}, PACKAGES, torch.cuda.get_device_name())
    else:
        print("bench-gpu: this machine has no GPU that torch can use, so nothing was measured.")
