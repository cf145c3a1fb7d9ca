"""Padded against packed on this CPU: speed and bytes.

`python -m tests.benchmarks.bench_model [speed bytes]` writes data/benchmarks/model_speed.csv and model_bytes.csv, or
the one that is named. Everything runs on one core and its time is the processor's, so that others on the machine hardly
matter; what is compared takes turns.
"""

import time
from collections.abc import Iterator
from functools import partial

import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig

from packlib.batches import (
    IGNORED,
    MlmMasking,
    PackedBatch,
    PackingCollator,
    pack_lengths,
    pack_loader,
    wordnet_tokenizer,
)
from packlib.model import PackedBert
from packlib.workbook.chapters.shared.wordnet import wordnet_store
from tests.benchmarks.table import in_turn, processor, record_parts

SLOTS = 20  # masked tokens a row of 128, as in the published recipe (max_predictions_per_seq)
PACKS = 16  # rows of a batch
PACKAGES = ("torch", "transformers")


def bert_mini(max_predictions_per_pack: int | None, dropout: float = 0.1) -> PackedBert:
    """4 layers, 256 wide: the smallest shape whose linear layers, as in the large ones, are most of the work."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        max_position_embeddings=128, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    return PackedBert(config, max_predictions_per_pack=max_predictions_per_pack).train()


def batches(depth: int | None, count: int) -> list[PackedBatch]:
    """`count` batches of WordNet's glosses and sentence pairs at 128, at most `depth` sequences a pack."""
    store = wordnet_store(progress=False)
    packs = pack_lengths(store.lengths, 128, "lpfhp", depth)
    collator = PackingCollator(128, MlmMasking.for_tokenizer(wordnet_tokenizer()), max_predictions_per_pack=SLOTS)
    loader = iter(pack_loader(store, packs, collator, PACKS))
    return [next(loader) for _ in range(count)]


def padded_loss(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    """The usual loss of padded rows: transformers' own model and mask, NSP on position 0, the same MLM slots."""
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
    """Training steps on WordNet at 128: packing factor, realized speed-up in useful tokens a second, overhead.

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


def bytes_sent() -> Iterator[dict]:
    """What goes to the device for each useful token."""
    for name, batch in (("padded", batches(1, 1)[0]), ("packed", batches(None, 1)[0])):
        sent = sum(value.nbytes for value in batch.values() if isinstance(value, torch.Tensor))
        mask = batch.num_packs * batch.max_length**2 * 4
        yield {
            "run": name, "useful tokens": batch.useful_tokens, "bytes": sent,
            "bytes a useful token": round(sent / batch.useful_tokens, 1),
            "bytes a useful token, float32 mask sent too": round((sent + mask) / batch.useful_tokens, 1),
        }  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    record_parts("model", {"speed": speed, "bytes": bytes_sent}, PACKAGES, f"{processor()}, one used")


if __name__ == "__main__":
    main()
