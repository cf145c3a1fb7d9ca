"""Train the arms of an experiment and record their curves in data/runs/NAME.csv.

    python -m tests.experiments.pretraining curves    # three seeds; stop it and start it again as you like
    python -m tests.experiments.pretraining ablations --seeds 0 --sequences 20000 --out out/try.csv

A run keeps its checkpoint in out/experiments/ and goes on from there. Each row is one evaluation on 2,000 held-out
sequences of WordNet: masked-token and next-sentence loss and accuracy.
"""

import argparse
import csv
import hashlib
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
    wordnet_store,
    wordnet_tokenizer,
)  # fmt: skip
from packlib.checks import one_of
from packlib.files import atomic_path
from packlib.model import PackedBert
from packlib.training import Recipe, evaluate, fit
from tests.experiments.arms import EXPERIMENTS, PADDED, Arm

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT, EVALUATIONS = 2000, 40
COLUMNS = (
    "arm", "seed", "update", "sequences", "tokens", "seconds", "update_sequences", "loss",
    "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy",
)  # fmt: skip


def split(seed: int = 0) -> tuple[TokenStore, TokenStore]:
    """WordNet without, and with only, the held-out sequences."""
    store = wordnet_store()
    order = np.random.default_rng(seed).permutation(len(store))
    return store.take(np.sort(order[HELD_OUT:])), store.take(np.sort(order[:HELD_OUT]))


def loader(
    store: TokenStore, packed: bool, batch_size: int, seed: int, **options
) -> tuple[PackLoader, float]:
    """The loader and its packing factor."""
    packs = pack_lengths(store.lengths, PADDED.max_length, "lpfhp", None if packed else 1, seed)
    collator = PackingCollator(PADDED.max_length, MlmMasking.for_tokenizer(wordnet_tokenizer(), seed))
    return pack_loader(store, packs, collator, batch_size, seed=seed, **options), len(store) / len(packs)


def new_model(seed: int, device: str) -> PackedBert:
    """Two layers, width 128: small enough for a CPU."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=4000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    return PackedBert(config).to(device)


def run(
    arm: Arm, padded: Recipe, seed: int, folder: Path, start: Path | None, stores, device: str
) -> list[dict]:
    """Train one arm with one seed, or go on; returns its records."""
    train, held_out = stores
    data, factor = loader(train, arm.packed, padded.micro_batch, seed)
    recipe = arm.recipe(padded, factor)
    model = new_model(seed, device)
    if start is not None:
        model.load_state_dict(
            torch.load(start / "checkpoint.pt", map_location=device, weights_only=True)["model"]
        )
    test, _ = loader(held_out, True, 32, seed=0, shuffle=False)
    every = -(-recipe.total_sequences // EVALUATIONS)

    def look(record: dict) -> dict:
        before = record["sequences"] - record["update_sequences"]
        if record["sequences"] // every == before // every and record["sequences"] < recipe.total_sequences:
            return {}
        test.load_state_dict({**test.state_dict(), "epoch": 0, "batches_done": 0})  # the same masks each time
        return {f"held_out_{name}": value for name, value in evaluate(model, test).items()}

    return fit(
        model, data, recipe, arm.objective, folder=folder, even_updates=arm.even_updates, on_update=look,
        optimizer=None if arm.optimizer is None else arm.optimizer(model, recipe), save_every=50,
    )  # fmt: skip


def rows(name: str, seed: int, records: list[dict]) -> list[dict]:
    found = []
    for record in records:
        if "held_out_mlm_loss" in record:
            both = {
                **record,
                **{k.removeprefix("held_out_"): v for k, v in record.items() if "held_out_" in k},
            }
            found.append({"arm": name, "seed": seed, **{k: both[k] for k in COLUMNS[2:]}})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.experiments.pretraining", description=__doc__.splitlines()[0]
    )
    parser.add_argument("experiment", help=", ".join(EXPERIMENTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sequences", type=int, default=PADDED.total_sequences, help="to train on")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="default: data/runs/EXPERIMENT.csv")
    options = parser.parse_args()
    arms = EXPERIMENTS[one_of("experiment", options.experiment, EXPERIMENTS)]
    warm = options.sequences * PADDED.warmup_sequences // PADDED.total_sequences
    padded = replace(PADDED, total_sequences=options.sequences, warmup_sequences=warm)
    stores, found = split(), []
    work = ROOT / "out" / "experiments" / options.experiment / str(options.sequences)

    def place(name: str, seed: int) -> Path:
        return work / f"{hashlib.sha256(name.encode()).hexdigest()[:8]}-{seed}"

    for seed in options.seeds:
        for name, arm in arms.items():
            print(f"{options.experiment}: {name}, seed {seed}", flush=True)
            start = None if arm.start is None else place(arm.start, seed)
            records = run(arm, padded, seed, place(name, seed), start, stores, options.device)
            found += rows(name, seed, records)
            last = found[-1]
            print(f"  {last['seconds']:.0f} s, held-out MLM loss {last['mlm_loss']:.3f}, "
                  f"accuracy {last['mlm_accuracy']:.1%}, NSP accuracy {last['nsp_accuracy']:.1%}")  # fmt: skip
            with atomic_path(options.out or ROOT / "data" / "runs" / f"{options.experiment}.csv") as beside:
                with open(beside, "w", newline="", encoding="utf-8") as file:
                    table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    table.writeheader()
                    table.writerows(
                        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in r.items()} for r in found
                    )


if __name__ == "__main__":
    main()
