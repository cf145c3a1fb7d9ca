"""Train the arms of an experiment and record their curves in data/runs/NAME.csv.

    python data/record.py pretraining curves-lamb      # five seeds; stop it and start it again as you like
    python data/record.py pretraining ablations --seeds 0 --sequences 4000 --out out/try.csv

The texts are the docstrings of Python's own library that fit into 128 bytes, each text once, byte by byte after a
token that begins a text: about two fit in a pack, as in the papers. A small causal model is trained on them, and each
row of a file is one evaluation on the held-out ones. A "sweep" takes a third of the sequences and two seeds that are
used for nothing else. "checkpoints" trains a small BERT on WordNet's definitions with an example, each a sentence pair,
in rows of 64 tokens, as `finetuning` can start from it. A run that is in the file already is not made again, and one
that was stopped goes on from its checkpoint in out/experiments/. Times are those of training, on one core: `seconds` by
the clock, `cpu_seconds` of the processor.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, PreTrainedModel

from packbook.shared.wordnet import wordnet_store
from packlib.arguments import one_of
from packlib.batches import (
    MlmMasking,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    wordnet_tokenizer,
)
from packlib.model import PackedBert
from packlib.training import Recipe, evaluate
from runs import documents
from runs.arms import ADAMW, EXPERIMENTS, PAIRS, Arm
from runs.recording import ROOT, Runs, arguments, path_of
from runs.resuming import fit

HELD_OUT, EVALUATIONS = 2000, 10
COLUMNS = (
    "arm", "seed", "update", "sequences", "tokens", "seconds", "cpu_seconds", "spread", "loss", "held_out_loss",
)  # fmt: skip
Stores = tuple[TokenStore, TokenStore]


def split(seed: int = 0) -> Stores:
    """Return WordNet's sentence pairs without, and with only, the held-out ones."""
    store = wordnet_store(max_length=PAIRS.max_length)
    store = store.take(np.flatnonzero(store.sequence_labels >= 0))
    order = np.random.default_rng(seed).permutation(len(store))
    return store.take(np.sort(order[HELD_OUT:])), store.take(np.sort(order[:HELD_OUT]))


def docstrings() -> Stores:
    """Return the documents of `documents` that fit into a row: to train on, and held out."""
    return tuple(
        TokenStore.from_samples([{"input_ids": ids} for ids in part if len(ids) <= ADAMW.max_length])
        for part in documents.documents()
    )


def new_model(seed: int) -> PackedBert:
    """Make two layers, width 128, for a CPU; without dropout, since it sees each text a few times at most."""
    torch.manual_seed(seed)
    return PackedBert(BertConfig(
        vocab_size=4000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))  # fmt: skip


@dataclass(frozen=True)
class Text:
    """What is trained on: texts and held-out ones, the model of a seed, and what draws the tokens to predict."""

    stores: Callable[[], Stores]
    model: Callable[[int], PreTrainedModel]
    masking: Callable[[int], MlmMasking | None] = lambda seed: None


TEXTS = {
    "docstrings": Text(docstrings, partial(documents.new_model, activation_function="gelu_pytorch_tanh")),
    "pairs": Text(split, new_model, lambda seed: MlmMasking.for_tokenizer(wordnet_tokenizer(), seed)),
}


def loader(
    store: TokenStore, length: int, packed: bool, batch_size: int, seed: int, masking: MlmMasking | None, **options
) -> tuple[PackLoader, float]:
    """Return the loader and its packing factor."""
    packs = pack_lengths(store.lengths, length, "lpfhp", None if packed else 1, seed)
    collator = PackingCollator(length, masking)
    return pack_loader(store, packs, collator, batch_size, seed=seed, **options), len(store) / len(packs)


def lap_timer() -> Callable[[], float]:
    """Return a clock of the processor: each call answers the seconds since the last one, or since this."""
    last = time.process_time()

    def lap() -> float:
        nonlocal last
        before, last = last, time.process_time()
        return last - before

    return lap


def run(arm: Arm, padded: Recipe, seed: int, folder: Path, text: Text, stores: Stores) -> list[dict]:
    """Train one arm with one seed, or go on; returns its records."""
    padded = replace(padded, learning_rate=arm.times * padded.learning_rate)
    length, masking = padded.max_length, text.masking(seed)
    data, factor = loader(stores[0], length, arm.packed, padded.micro_batch, seed, masking)
    test, _ = loader(stores[1], length, True, 32, 0, text.masking(0), shuffle=False)
    recipe, model = arm.recipe(padded, factor), text.model(seed)
    every = -(-recipe.total_sequences // EVALUATIONS)
    lap = lap_timer()

    def measure(record: dict) -> dict:
        """Measure the seconds of an update, and after each `every` sequences and the last the held-out loss."""
        measured = {"cpu_seconds": lap()}  # of this update; `rows` adds them up
        sequences = record["sequences"]
        sequences_before = sequences - record["update_sequences"]
        if sequences // every != sequences_before // every or sequences >= recipe.total_sequences:
            test.load_state_dict({**test.state_dict(), "epoch": 0, "batches_done": 0})  # the same masks each time
            means = evaluate(model, test)
            measured["held_out_loss"] = sum(mean for name, mean in means.items() if name.endswith("_loss"))
            lap()
        return measured

    return fit(
        model, data, recipe, arm.objective, folder=folder, on_update=measure, save_every=200,
        even_updates=arm.even, optimizer=None if arm.optimizer is None else arm.optimizer(model, recipe),
    )  # fmt: skip


def rows(records: list[dict]) -> list[dict]:
    """Return the evaluations, as rows of the table; `spread`: the deviation of the sequences an update so far."""
    found, cpu = [], np.cumsum([record["cpu_seconds"] for record in records])
    sizes = [record["update_sequences"] for record in records]
    for record, used in zip(records, cpu, strict=True):
        if "held_out_loss" in record:
            spread = float(np.std(sizes[: record["update"]]))
            found.append({**record, "cpu_seconds": float(used), "spread": spread})
    return found


def main(*given: str) -> None:
    parser = arguments("pretraining", __doc__)
    parser.add_argument("experiment", help=", ".join(EXPERIMENTS))
    parser.add_argument("--sequences", type=int, help="to train on; by default those of the experiment's recipe")
    options = parser.parse_args(given)
    name = one_of("experiment", options.experiment, EXPERIMENTS)
    experiment, padded = EXPERIMENTS[name], EXPERIMENTS[name].padded
    planned = options.sequences or padded.total_sequences
    torch.set_num_threads(1)  # the same sums in the same order wherever it runs, and times of one core
    warm = planned * padded.warmup_sequences // padded.total_sequences
    padded = replace(padded, total_sequences=planned, warmup_sequences=warm)
    text = TEXTS[experiment.text]
    stores, found = text.stores(), Runs(options.out or path_of(name), COLUMNS)
    found.check("sequences", planned, near=0.05)

    def make(arm: str, seed: int) -> list[dict]:
        key = hashlib.sha256(arm.encode()).hexdigest()[:8]
        folder = ROOT / "out" / "experiments" / name / str(planned) / f"{key}-{seed}"
        return rows(run(experiment.arms[arm], padded, seed, folder, text, stores))

    runs = [{"arm": arm, "seed": seed} for seed in options.seeds for arm in experiment.arms]
    found.make(runs, make, f"pretraining {name}", f"--sequences {planned}")
