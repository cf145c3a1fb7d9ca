"""Train the arms of an experiment and record their curves in data/runs/NAME.csv.

    python -m tests.experiments.pretraining curves    # three seeds; stop it and start it again as you like
    python -m tests.experiments.pretraining ablations --seeds 0 --sequences 20000 --out out/try.csv

The text is WordNet's 32,929 definitions with an example, each a sentence pair, in rows of 64 tokens: about two pairs
fit in a pack, as in the papers. A run that is in the file already is not made again, and one that was stopped goes on
from its checkpoint in out/experiments/. "continued" starts from the padded run of "curves". Each row is one evaluation
on 2,000 held-out pairs: masked-token and next-sentence loss and accuracy. Times are those of training, on one core:
`seconds` by the clock, `cpu_seconds` of the processor.
"""

import argparse
import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig

from packlib.batches import (
    MlmMasking,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    wordnet_tokenizer,
)  # fmt: skip
from packlib.checks import one_of
from packlib.model import PackedBert
from packlib.training import Recipe, evaluate, fit
from packlib.workbook.chapters.shared.wordnet import wordnet_store
from tests.experiments.arms import EXPERIMENTS, PADDED, Arm
from tests.experiments.recording import ROOT, check_sequences, has_run, path_of, read, write

HELD_OUT, EVALUATIONS = 2000, 20
COLUMNS = (
    "arm", "seed", "update", "sequences", "tokens", "seconds", "cpu_seconds", "spread", "loss",
    "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy",
)  # fmt: skip


def split(seed: int = 0) -> tuple[TokenStore, TokenStore]:
    """WordNet's sentence pairs without, and with only, the held-out ones."""
    store = wordnet_store(max_length=PADDED.max_length)
    store = store.take(np.flatnonzero(store.sequence_labels >= 0))
    order = np.random.default_rng(seed).permutation(len(store))
    return store.take(np.sort(order[HELD_OUT:])), store.take(np.sort(order[:HELD_OUT]))


def loader(store: TokenStore, packed: bool, batch_size: int, seed: int, **options) -> tuple[PackLoader, float]:
    """The loader and its packing factor."""
    packs = pack_lengths(store.lengths, PADDED.max_length, "lpfhp", None if packed else 1, seed)
    collator = PackingCollator(PADDED.max_length, MlmMasking.for_tokenizer(wordnet_tokenizer(), seed))
    return pack_loader(store, packs, collator, batch_size, seed=seed, **options), len(store) / len(packs)


def new_model(seed: int, device: str) -> PackedBert:
    """Two layers, width 128: small enough for a CPU. Without dropout, since it sees each text a few times at most."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=4000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config).to(device)


def lap_timer() -> Callable[[], float]:
    """A clock of the processor: each call answers the seconds since the last one, or since this."""
    last = time.process_time()

    def lap() -> float:
        nonlocal last
        before, last = last, time.process_time()
        return last - before

    return lap


def run(arm: Arm, padded: Recipe, seed: int, folder: Path, start: Path | None, stores, device: str) -> list[dict]:
    """Train one arm with one seed, or go on; returns its records."""
    train, held_out = stores
    data, factor = loader(train, arm.packed, padded.micro_batch, seed)
    recipe = arm.recipe(padded, factor)
    model = new_model(seed, device)
    if start is not None:
        model.load_state_dict(torch.load(start / "checkpoint.pt", map_location=device, weights_only=True)["model"])
    test, _ = loader(held_out, True, 32, seed=0, shuffle=False)
    every = -(-recipe.total_sequences // EVALUATIONS)
    lap = lap_timer()

    def look(record: dict) -> dict:
        found = {"cpu_seconds": lap()}  # of this update; `rows` adds them up
        before = record["sequences"] - record["update_sequences"]
        if record["sequences"] // every != before // every or record["sequences"] >= recipe.total_sequences:
            test.load_state_dict({**test.state_dict(), "epoch": 0, "batches_done": 0})  # the same masks each time
            found |= {f"held_out_{name}": value for name, value in evaluate(model, test).items()}
            lap()
        return found

    return fit(
        model, data, recipe, arm.objective, folder=folder, even_updates=arm.even_updates, on_update=look,
        optimizer=None if arm.optimizer is None else arm.optimizer(model, recipe), save_every=50,
    )  # fmt: skip


def rows(name: str, seed: int, records: list[dict]) -> list[dict]:
    """The evaluations, as rows of the table; `spread`: the deviation of the sequences an update so far."""
    found, cpu = [], np.cumsum([record["cpu_seconds"] for record in records])
    sizes = [record["update_sequences"] for record in records]
    for record, used in zip(records, cpu, strict=True):
        held_out = {k.removeprefix("held_out_"): v for k, v in record.items() if k.startswith("held_out_")}
        if held_out:
            row = {**record, **held_out, "arm": name, "seed": seed, "cpu_seconds": float(used)}
            row["spread"] = float(np.std(sizes[: record["update"]]))
            found.append({k: f"{row[k]:.6g}" if isinstance(row[k], float) else row[k] for k in COLUMNS})
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.experiments.pretraining", description=__doc__.splitlines()[0]
    )
    parser.add_argument("experiment", help=", ".join(EXPERIMENTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sequences", type=int, default=PADDED.total_sequences, help="to train on")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="default: data/runs/EXPERIMENT.csv")
    options = parser.parse_args(arguments)
    experiment, planned = one_of("experiment", options.experiment, EXPERIMENTS), options.sequences
    torch.set_num_threads(1)  # the same sums in the same order wherever it runs, and times of one core
    warm = planned * PADDED.warmup_sequences // PADDED.total_sequences
    padded = replace(PADDED, total_sequences=planned, warmup_sequences=warm)
    stores, path = split(), options.out or path_of(experiment)
    found = read(path)
    check_sequences(path, found, planned)

    def place(experiment: str, name: str, seed: int, sequences: int = planned) -> Path:
        key = hashlib.sha256(name.encode()).hexdigest()[:8]
        return ROOT / "out" / "experiments" / experiment / str(sequences) / f"{key}-{seed}"

    for seed in options.seeds:
        for name, arm in EXPERIMENTS[experiment].items():
            if has_run(found, arm=name, seed=seed):
                continue
            print(f"{experiment}: {name}, seed {seed}", flush=True)
            start = arm.start and place("curves", arm.start, seed, PADDED.total_sequences)
            folder = place(experiment, name, seed)
            found += rows(name, seed, run(arm, padded, seed, folder, start, stores, options.device))
            print("  " + ", ".join(f"{k} {found[-1][k]}" for k in COLUMNS[3:]), flush=True)
            write(path, found, COLUMNS, f"tests.experiments.pretraining {experiment}", f"--sequences {planned}")


if __name__ == "__main__":
    main()
