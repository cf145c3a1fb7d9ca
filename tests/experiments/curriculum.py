"""Short sequences first, and ways to batch: train small causal models, record data/runs/curriculum-NAME.csv.

    python -m tests.experiments.curriculum duration     # or: stability, batch-size, alibi, comparison, rates
    python -m tests.experiments.curriculum alibi --seeds 0 --sequences 800 --out out/try.csv

WordNet's texts are joined and cut into rows of 128 tokens, sixteen of them an update; "comparison" takes the texts one
by one, and so does "rates", about sixteen an update in batches by tokens. One core. A run that is in the file already
is not made again. Each row of a file is one evaluation on held-out rows of full length; the seconds are those of
training alone, the processor's and the clock's.
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import GPT2Config
from transformers.utils import ModelOutput

from packlib.batches import SequenceLengthWarmup, TokenStore, VariableBatchLR
from packlib.batches.variable_rate import RATE_RULES
from packlib.checks import one_of, whole_number
from packlib.model import PackedCausal
from packlib.model.attention import additive_mask
from tests.benchmarks import table
from tests.experiments.batchings import BATCHINGS, SEQUENCES, Update, batched_updates, batches, padded_loss
from tests.experiments.pretraining import split

ROOT = Path(__file__).resolve().parents[2]
BY_TEXT = {"comparison": 9_600, "rates": 6_400}  # experiments on single texts, and how many they take
LENGTH, ROWS, HELD_OUT_ROWS, EVALUATIONS = 128, 16, 48, 25
RATE, LARGE_RATE = 3e-3, 2.4e-2
COLUMNS = (
    "arm", "seed", "planned", "update", "sequences", "tokens", "slots", "length", "rate", "cpu_seconds", "seconds",
    "loss", "held_out_loss", "gradient_norm", "largest_gradient_norm", "largest_variance",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One way to train on rows of joined text.

    Attributes:
        duration: of the length warm-up, a share of the run.
        truncate: drop the tokens beyond the length, or reshape.
        rate: the highest learning rate.
        rows_at_first: rows of the first update, if the batch size is warmed up, over 30 % of the run.
        alibi: a penalty that grows with the distance, in place of learned positions.
    """

    duration: float = 0.0
    truncate: bool = True
    rate: float = RATE
    rows_at_first: int = ROWS
    alibi: bool = False


EXPERIMENTS: dict[str, dict[str, Arm]] = {
    "duration": {
        **{f"{tenths / 10}": Arm(tenths / 10) for tenths in range(10)},
        "0.3, reshaped": Arm(0.3, truncate=False),
    },
    "stability": {
        f"{name} rate, {way}": Arm(duration, truncate, rate)
        for name, rate in (("normal", RATE), ("large", LARGE_RATE))
        for way, duration, truncate in (
            ("no length warm-up", 0.0, True),
            ("truncated", 0.3, True),
            ("reshaped", 0.3, False),
        )
    },
    "batch-size": {
        "no warm-up": Arm(),
        "length": Arm(0.3),
        "batch size": Arm(rows_at_first=4),
        "both": Arm(0.3, rows_at_first=4),
    },
    "alibi": {
        f"{'ALiBi' if alibi else 'learned positions'}, {'with' if duration else 'without'} length warm-up": Arm(
            duration, alibi=alibi
        )
        for alibi in (False, True)
        for duration in (0.0, 0.3)
    },
}

RATES = {  # batches by tokens: the rule that scales the rate, and the order of the batches
    f"{order}, {rule}": (rule, batching)
    for order, batching in (("shuffled", "token budget"), ("ascending", "ascending"))
    for rule in RATE_RULES
}


class AlibiCausal(PackedCausal):
    """Head h of H lowers a score by 2^(-8h/H) for each token of distance; there are no positions else.

    Source: Press, Smith, Lewis 2021, "Train short, test long" (arXiv 2108.12409), section 3.
    """

    def base_states(self, segment_ids: Tensor, position_ids: Tensor | None = None, **inputs) -> ModelOutput:
        self.config._attn_implementation = "sdpa"
        heads, slots = self.config.n_head, torch.arange(segment_ids.shape[1])
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        bias = -slopes[:, None, None] * (slots[:, None] - slots).clamp(min=0)
        mask = additive_mask(segment_ids, causal=True) + bias
        nowhere = torch.zeros_like(segment_ids)
        return self.base_model(position_ids=nowhere, attention_mask=mask, use_cache=False, **inputs)


def new_model(seed: int, alibi: bool = False) -> PackedCausal:
    """Two layers, width 64, no dropout."""
    torch.manual_seed(seed)
    return (AlibiCausal if alibi else PackedCausal)(GPT2Config(
        vocab_size=4000, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=2, eos_token_id=3,
        embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0,
    ))  # fmt: skip


def joined_rows(store: TokenStore, seed: int) -> Tensor:
    """The texts in random order, joined, in rows of full length."""
    order = np.random.default_rng(seed).permutation(len(store))
    tokens = store.take(order).input_ids.astype(np.int64)
    return torch.from_numpy(tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH))


def row_updates(arm: Arm, seed: int, store: TokenStore, updates: int) -> Iterator[Update]:
    rows, at, first = joined_rows(store, seed), 0, min(arm.rows_at_first, ROWS)
    warmup = SequenceLengthWarmup(arm.duration, 8, LENGTH, 8, arm.truncate)
    for done in range(updates):
        size = min(ROWS, round(first + (ROWS - first) * done / (0.3 * updates)))
        ids = rows[torch.arange(at, at + size) % len(rows)]
        at += size
        batch = warmup({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, done, updates)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        loss = partial(rows_loss, ids=ids, mask=mask)
        yield Update(loss, size, int(mask.sum()), ids.numel(), ids.shape[1])


def rows_loss(model: PackedCausal, ids: Tensor, mask: Tensor) -> Tensor:
    return model(input_ids=ids, segment_ids=mask).loss


def train(
    model: nn.Module,
    updates: Iterable[Update],
    planned: int,
    rate: float,
    rule: str,
    reference: int,
    held_out: Callable,
    evaluations: int = EVALUATIONS,
) -> list[dict]:
    """Train on all updates; a record each time that a further share of the planned sequences is done.

    The rate rises over the first 5 % of the sequences and falls to a tenth, whatever the updates hold; `rule` and
    `reference` scale it by their size.
    """
    optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    done = 0

    def share(_: int) -> float:
        progress = done / planned
        return min(1.0, (progress + 0.01) / 0.05) * (1 - 0.9 * min(progress, 1.0))

    schedule = VariableBatchLR(LambdaLR(optimizer, share), reference, rule)
    total = {"sequences": 0, "tokens": 0, "slots": 0, "cpu_seconds": 0.0, "seconds": 0.0}
    records, losses, norms = [], [], []
    for number, update in enumerate(updates, 1):
        cpu, clock = time.process_time(), time.perf_counter()
        schedule.scale(update.sequences)
        used = schedule.get_last_lr()[0]
        optimizer.zero_grad()
        loss = update.loss(model)
        loss.backward()
        norms.append(float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])))
        optimizer.step()
        done += update.sequences
        schedule.step()
        losses.append(float(loss.detach()))
        total["cpu_seconds"] += time.process_time() - cpu
        total["seconds"] += time.perf_counter() - clock
        for name in ("sequences", "tokens", "slots"):
            total[name] += getattr(update, name)
        finite = np.isfinite(losses[-1]) and np.isfinite(norms[-1])
        if done * evaluations // planned > (done - update.sequences) * evaluations // planned or not finite:
            variances = [float(state["exp_avg_sq"].max()) for state in optimizer.state.values()]
            with torch.no_grad():
                test = float(held_out(model))
            records.append({
                "update": number, **total, "length": update.length, "rate": used, "loss": float(np.mean(losses)),
                "held_out_loss": test, "gradient_norm": float(np.mean(norms)),
                "largest_gradient_norm": max(norms), "largest_variance": max(variances),
            })  # fmt: skip
            losses, norms = [], []
        if not finite:
            break
    return records


def run(experiment: str, name: str, seed: int, planned: int, stores: tuple[TokenStore, TokenStore]) -> list[dict]:
    """Train one arm with one seed."""
    if experiment in BY_TEXT:
        store = stores[0].take(np.random.default_rng(seed).permutation(len(stores[0]))[:planned])
        held_out = partial(padded_loss, batch=next(batches("packed", stores[1], 0, LENGTH, 320)))
        if experiment == "rates":
            rule, batching, size, times = *RATES[name], ROWS, 5
        else:
            rule, batching, size, times = "sqrt" if name == "token budget" else "none", name, SEQUENCES, EVALUATIONS
        updates = batched_updates(batching, store, seed, LENGTH, size)
        records = train(new_model(seed), updates, planned, RATE, rule, size, held_out, times)
    else:
        arm, rows = EXPERIMENTS[experiment][name], joined_rows(stores[1], 0)[:HELD_OUT_ROWS]
        held_out = partial(rows_loss, ids=rows, mask=torch.ones_like(rows))
        updates = row_updates(arm, seed, stores[0], planned // ROWS)
        records = train(new_model(seed, arm.alibi), updates, planned, arm.rate, "none", ROWS, held_out)
    return [{"arm": name, "seed": seed, "planned": planned, **record} for record in records]


def reached(records: list[dict], loss: float) -> tuple[float, float] | None:
    """Updates and seconds of the processor until the held-out loss is `loss`, by straight lines; None if never."""
    for before, after in pairwise(records):
        high, low = float(before["held_out_loss"]), float(after["held_out_loss"])
        if high > loss >= low:
            part = (high - loss) / (high - low)
            return tuple(
                float(before[key]) + part * (float(after[key]) - float(before[key]))
                for key in ("update", "cpu_seconds")
            )
    return None


def read(path: Path) -> list[dict]:
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write(path: Path, found: list[dict], command: str) -> None:
    rows = [{k: f"{row[k]:.6g}" if isinstance(row[k], float) else row[k] for k in COLUMNS} for row in found]
    table.record(path.stem, rows, command, packages=("torch", "transformers"), path=path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.experiments.curriculum", description=__doc__.splitlines()[0]
    )
    names = (*EXPERIMENTS, *BY_TEXT)
    parser.add_argument("experiment", help=", ".join(names))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--sequences", type=int, help="to train on: rows of 128, or texts")
    parser.add_argument("--out", type=Path, help="default: data/runs/curriculum-EXPERIMENT.csv")
    options = parser.parse_args(arguments)
    experiment = one_of("experiment", options.experiment, names)
    arms = {"comparison": BATCHINGS, "rates": RATES}.get(experiment) or EXPERIMENTS[experiment]
    planned = BY_TEXT.get(experiment, 3_200) if options.sequences is None else options.sequences
    whole_number("sequences", planned, EVALUATIONS * ROWS)
    torch.set_num_threads(1)
    path = options.out or ROOT / "data" / "runs" / f"curriculum-{experiment}.csv"
    found, stores = read(path), split()
    if others := {int(row["planned"]) for row in found} - {planned}:
        raise ValueError(f"{path} holds runs on {min(others)} sequences; this one has {planned}: name another --out.")
    for seed in options.seeds:
        for name in arms:
            if any(row["arm"] == name and int(row["seed"]) == seed for row in found):
                continue
            records = run(experiment, name, seed, planned, stores)
            found += records
            seeds = " ".join(map(str, sorted({int(row["seed"]) for row in found})))
            command = f"python -m tests.experiments.curriculum {experiment} --seeds {seeds} --sequences {planned}"
            write(path, found, command)
            last = records[-1]
            print(f"{experiment}: {name}, seed {seed}: {last['cpu_seconds']:.1f} s of the processor, "
                  f"{last['tokens'] / last['cpu_seconds']:,.0f} tokens/s, "
                  f"held-out loss {last['held_out_loss']:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
