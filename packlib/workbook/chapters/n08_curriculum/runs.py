"""Runs of notebook 08: live ones, the same digits every time and in seconds, and recorded ones as figures."""

import time
from collections.abc import Iterable
from copy import deepcopy

import numpy as np
import torch
from matplotlib.axes import Axes

from packlib.batches import (
    PackedBatch,
    TokenStore,
    VariableBatchLR,
    collate,
    sentence_pairs,
    tokenize,
    wordnet_tokenizer,
)
from packlib.lengths import wordnet_texts
from packlib.model import PackedCausal
from packlib.workbook.chapters.n05_packed_attention.lesson import small_gpt
from packlib.workbook.figures import INK, series

Found = dict[str, list[dict[str, np.ndarray]]]  # by arm, for each seed, columns of shape (evaluations,)
WITHOUT, WITH = series("maximum"), series("packed")  # a length warm-up


def pairs(number: int, seed: int, max_length: int = 64) -> TokenStore:
    """WordNet's sentence pairs as tokens, `number` at random."""
    examples, labels = sentence_pairs(seed)
    some = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))[:number]
    definitions = wordnet_texts().definition[some]
    return tokenize(wordnet_tokenizer(), definitions, examples[some], labels[some], max_length, "truncate")


def joined_rows(store: TokenStore, rows: int, width: int = 64) -> list[PackedBatch]:
    """All tokens, one text after the other, cut into rows without padding, `rows` a batch; the rest is dropped."""
    ids = torch.from_numpy(
        store.input_ids[: len(store.input_ids) // (rows * width) * rows * width].astype(np.int64)
    )
    batches = ids.view(-1, rows, width)
    return [PackedBatch(input_ids=part, segment_ids=torch.ones_like(part)) for part in batches]


def fresh_model(seed: int) -> PackedCausal:
    """The small causal model of notebook 05, in float64, with the same random weights each time."""
    return deepcopy(small_gpt(2, seed))


def train(
    model: PackedCausal,
    batches: Iterable[PackedBatch],
    rate: float = 3e-3,
    reference: int = 1,
    rule: str = "none",
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


# Recorded


def by_arm(rows: list[dict]) -> Found:
    """The runs of a recorded experiment."""
    runs: dict[tuple, list[dict]] = {}
    for row in rows:
        runs.setdefault((str(row["arm"]), row["seed"]), []).append(row)
    found: Found = {}
    for (arm, _), records in runs.items():
        columns = {name: np.array([record[name] for record in records]) for name in records[0]}
        found.setdefault(arm, []).append(columns)
    return found


def at_end(found: Found, column: str = "held_out_loss") -> dict[str, np.ndarray]:
    """By arm: the last value of each seed."""
    return {arm: np.array([run[column][-1] for run in runs]) for arm, runs in found.items()}


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


def draw_by_duration(ax: Axes, values: dict[str, np.ndarray | float], special: str) -> None:
    """Points over the duration, one a seed, their mean a line; `special` is an arm beside the line, and named."""
    plain = {float(arm): np.atleast_1d(value) for arm, value in values.items() if arm != special}
    for duration, seeds in plain.items():
        ax.plot(np.full(len(seeds), duration), seeds, **{**WITH, "linestyle": ""})
    ax.plot(list(plain), [seeds.mean() for seeds in plain.values()], **{**WITH, "marker": ""})
    at, name = special.split(", ")
    other = np.atleast_1d(values[special])
    ax.plot(np.full(len(other), float(at)), other, **{**series("random"), "linestyle": ""})
    beside = {"xytext": (12, 26), "textcoords": "offset points", "ha": "center"}
    ax.annotate(name, (float(at), other.mean()), **beside, arrowprops={"arrowstyle": "-", "color": INK})
    ax.set_xlabel("duration of the warm-up")


def draw_runs(
    ax: Axes, runs: list[dict[str, np.ndarray]], y: str, look: dict, label: str, x: str = "update"
) -> None:
    """A line for each seed."""
    for number, run in enumerate(runs):
        ax.plot(run[x], run[y], **{**look, "marker": ""}, label="" if number else label)
