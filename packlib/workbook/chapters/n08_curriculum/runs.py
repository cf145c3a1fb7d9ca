"""What notebook 08 runs: small models on few texts, the same digits every time, and what recorded runs say."""

import time
from collections.abc import Iterable

import numpy as np
import torch

from packlib.batches import PackedBatch, TokenStore, VariableBatchLR, collate, wordnet_tokenizer
from packlib.lengths import wordnet_texts
from packlib.model import PackedCausal


def joined_rows(store: TokenStore, rows: int, width: int = 64) -> list[PackedBatch]:
    """All tokens, one text after the other, cut into rows without padding, `rows` a batch; the rest is dropped."""
    ids = torch.from_numpy(store.input_ids[: len(store.input_ids) // (rows * width) * rows * width].astype(np.int64))
    batches = ids.view(-1, rows, width)
    return [PackedBatch(input_ids=part, segment_ids=torch.ones_like(part)) for part in batches]


def train(
    model: PackedCausal, batches: Iterable[PackedBatch], rate: float = 3e-3, reference: int = 1, rule: str = "none"
) -> list[dict]:
    """An update a batch; of each its sequences, tokens, slots, loss and gradient norm, and the seconds so far."""
    optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule, records, start = VariableBatchLR(optimizer, reference, rule), [], time.process_time()
    for batch in batches:
        schedule.scale(batch.num_sequences)
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        optimizer.step()
        schedule.step()
        records.append({
            "sequences": batch.num_sequences, "tokens": batch.useful_tokens, "slots": batch.input_ids.numel(),
            "loss": loss.item(), "gradient_norm": norm.item(), "seconds": time.process_time() - start,
        })  # fmt: skip
    return records


def total(records: list[dict], name: str) -> int:
    return sum(record[name] for record in records)


def held_out_loss(model: PackedCausal, store: TokenStore) -> float:
    with torch.no_grad():
        return model(**collate(store, [1] * len(store), int(store.lengths.max()))).loss.item()


def until(runs: list[dict[str, np.ndarray]], loss: float, column: str) -> float:
    """What `column` was when the held-out loss first was `loss`, by straight lines; the mean over seeds."""
    values = []
    for run in runs:
        at = int(np.argmax(run["held_out_loss"] <= loss))
        if run["held_out_loss"][at] > loss:
            return float("nan")
        pair = slice(at - 1, at + 1) if at else slice(0, 1)
        values.append(np.interp(loss, run["held_out_loss"][pair][::-1], run[column][pair][::-1]))
    return float(np.mean(values))


def short_sentences(number: int, seed: int, longest_word: int = 5) -> list[str]:
    """Definitions of 9 to 13 tokens, none of which is wider than a cell of a picture."""
    texts, tokenizer = wordnet_texts(), wordnet_tokenizer()
    some = np.flatnonzero((texts.definition_tokens > 8) & (texts.definition_tokens <= 13))
    found = []
    for text in texts.definition[np.random.default_rng(seed).permutation(some)[:400]].tolist():
        words = tokenizer.tokenize(text)
        if max(map(len, words)) <= longest_word and len(set(words)) == len(words):
            found.append(text)
    return sorted(found[:number], key=len, reverse=True)
