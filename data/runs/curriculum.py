"""Short sequences first, and ways to batch: train small causal models, record data/runs/curriculum-NAME.csv.

    python data/record.py curriculum length               # or: length-rates, comparison, rates
    python data/record.py curriculum rates --sweep          # first, and the same with comparison
    python data/record.py curriculum length --seeds 0 --sequences 800 --out out/try.csv

"length" trains on the modules of Python's own library, byte by byte: rows of 128 bytes, each from a module of at least
64 times as many, sixteen rows an update. All its arms see as many tokens, as in Li, Zhang and He 2022 (arXiv
2108.06084); an arm that cuts its rows takes more of them. "comparison" and "rates" train on the functions of that
library that fit into 256 bytes, each once, about eight an update: long enough for every arm to get below the bigram.
The rate falls by tokens in all three.

Each arm of "comparison" and of "rates" has a rate of its own, from a sweep that is recorded in a file beside the runs:
two seeds, which are not used again, a third of the texts, and rates that double. The rate with the lowest mean of the
two held-out losses at the end is taken. "nested" takes that of "padded", because it computes the same. The arms of
"length" all take the rate that the sweep of its first four arms finds best for "no warm-up"; "length-rates" are the
truncated ones at twice that rate, which the sweep finds best for them.

One core. A run that is in the file already is not made again. Each row of a file is one evaluation on held-out rows of
full length, or on the held-out functions; the seconds are those of training alone, the processor's and the clock's.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import GPT2LMHeadModel
from transformers.utils import ModelOutput

from packbook.shared.recorded_experiments import swept
from packbook.shared.recorded_runs import best_rates
from packlib.arguments import one_of, whole_number
from packlib.batches import PackedBatch, SequenceLengthWarmup, VariableBatchLR
from packlib.batches.variable_rate import RATE_RULES
from runs import documents
from runs.batchings import BATCHINGS, SEQUENCES, Update, batched_updates, batches, padded_loss
from runs.recording import Runs, arguments, path_of
from runs.sources import function_stores, module_rows

# rows of full length, or texts
PLANNED = {"length": 12_000, "length-rates": 12_000, "comparison": 6_257, "rates": 6_257}
LENGTH, ROWS, HELD_OUT_ROWS, TEXT_LENGTH = 128, 16, 96, 256
# of a run; a sweep has the last only
EVALUATIONS = {"length": 10, "length-rates": 10, "comparison": 2, "rates": 5}
RATE, LARGE_RATE = 3e-3, 2.4e-2
SWEEP_RATES, SWEEP_SEEDS = (7.5e-4, 1.5e-3, 3e-3, 6e-3, 1.2e-2), (100, 101)
COLUMNS = (
    "arm", "seed", "planned", "update", "sequences", "tokens", "slots", "length", "rate", "cpu_seconds", "seconds",
    "loss", "held_out_loss", "gradient_norm", "largest_gradient_norm", "largest_variance",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One way to train on rows of joined text.

    Attributes:
        duration: of the length warm-up, a share of the updates that full rows would take.
        truncate: drop the tokens beyond the length, or reshape.
        rate: the highest learning rate.
        rows_at_first: rows of the first update, if the batch size is warmed up, over 30 % of as many updates.
        alibi: a penalty that grows with the distance, in place of learned positions.
    """

    duration: float = 0.0
    truncate: bool = True
    rate: float = RATE
    rows_at_first: int = ROWS
    alibi: bool = False


LENGTH_ARMS = {
    "no warm-up": Arm(),
    "0.3, truncated": Arm(0.3),
    "0.6, truncated": Arm(0.6),
    "0.3, reshaped": Arm(0.3, truncate=False),
    "large rate, no warm-up": Arm(rate=LARGE_RATE),
    "large rate, 0.3, truncated": Arm(0.3, rate=LARGE_RATE),
    "ALiBi, no warm-up": Arm(alibi=True),
    "ALiBi, 0.3, truncated": Arm(0.3, alibi=True),
    "batch size": Arm(rows_at_first=4),
    "batch size and 0.3, truncated": Arm(0.3, rows_at_first=4),
}

TWICE_THE_RATE = {
    f"{name}, {2 * RATE:g}": replace(LENGTH_ARMS[name], rate=2 * RATE) for name in ("0.3, truncated", "0.6, truncated")
}

RATES = {  # batches by tokens: the rule that scales the rate, and the order of the batches
    f"{order}, {rule}": (rule, batching)
    for order, batching in (("shuffled", "token budget"), ("ascending", "ascending"))
    for rule in RATE_RULES
}
ARMS: dict[str, tuple[str, ...]] = {
    "length": tuple(LENGTH_ARMS), "length-rates": tuple(TWICE_THE_RATE), "comparison": BATCHINGS, "rates": tuple(RATES),
}  # fmt: skip
NOT_SWEPT = ("nested", *tuple(LENGTH_ARMS)[4:], *TWICE_THE_RATE)


class AlibiCausal(GPT2LMHeadModel):
    """Head h of H lowers a score by 2^(-8h/H) for each token of distance; there are no positions else.

    Source: Press, Smith, Lewis 2021, "Train short, test long" (arXiv 2108.12409), section 3.
    """

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **others) -> ModelOutput:
        heads, slots = self.config.n_head, torch.arange(input_ids.shape[1])
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        bias = -slopes[:, None, None] * (slots[:, None] - slots).clamp(min=0)
        mask = torch.where(attention_mask, bias.to(self.dtype), torch.finfo(self.dtype).min)
        nowhere = torch.zeros_like(input_ids)
        return super().forward(input_ids, position_ids=nowhere, attention_mask=mask, use_cache=False)


def new_model(seed: int, length: int = LENGTH, alibi: bool = False) -> GPT2LMHeadModel:
    return documents.new_model(seed, AlibiCausal if alibi else GPT2LMHeadModel, n_positions=length)


def row_updates(arm: Arm, seed: int, rows: Tensor, tokens: int) -> Iterator[Update]:
    """Yield the updates on rows in random order, until they have held as many tokens."""
    order, first = np.random.default_rng(seed).permutation(len(rows)), min(arm.rows_at_first, ROWS)
    warmup, full = SequenceLengthWarmup(arm.duration, 8, LENGTH, 8, arm.truncate), tokens // (ROWS * LENGTH)
    done = at = seen = 0
    while seen < tokens:
        size = min(ROWS, round(first + (ROWS - first) * done / (0.3 * full)))
        ids = rows[order[np.arange(at, at + size) % len(rows)]]
        batch = warmup({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, done, full)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        loss = partial(padded_loss, batch=PackedBatch(input_ids=ids, segment_ids=mask))
        yield Update(loss, size, int(mask.sum()), ids.numel(), ids.shape[1])
        done, at, seen = done + 1, at + size, seen + int(mask.sum())


def held_out_rows(rows: Tensor) -> Tensor:
    """Return some of the held-out rows, the same each time."""
    return rows[np.random.default_rng(0).permutation(len(rows))[:HELD_OUT_ROWS]]


def train(
    model: nn.Module,
    updates: Iterable[Update],
    planned: int,
    rate: float,
    rule: str,
    reference: int,
    held_out: Callable,
    evaluations: int,
) -> list[dict]:
    """Train on all updates; a record each time that a further share of the planned tokens is done.

    The rate rises over the first 5 % of them and falls to a tenth, whatever the updates hold; `rule` and `reference`
    scale it by the sequences of each update.
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
        before, done = done, done + update.tokens
        schedule.step()
        losses.append(float(loss.detach()))
        total["cpu_seconds"] += time.process_time() - cpu
        total["seconds"] += time.perf_counter() - clock
        for name in ("sequences", "tokens", "slots"):
            total[name] += getattr(update, name)
        finite = np.isfinite(losses[-1]) and np.isfinite(norms[-1])
        if done * evaluations // planned > before * evaluations // planned or not finite:
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


def run(experiment: str, name: str, seed: int, planned: int, data: tuple, rate: float, evaluations: int) -> list[dict]:
    """Train one arm with one seed; `data` is what to train on, and what is held out."""
    if experiment.startswith("length"):
        arm, rows, tokens = {**LENGTH_ARMS, **TWICE_THE_RATE}[name], held_out_rows(data[1]), planned * LENGTH
        whole = PackedBatch(input_ids=rows, segment_ids=torch.ones_like(rows))
        held_out, model = partial(padded_loss, batch=whole), new_model(seed, LENGTH, arm.alibi)
        updates, rule, size = row_updates(arm, seed, data[0], tokens), "none", ROWS
    else:
        store = data[0].take(np.random.default_rng(seed).permutation(len(data[0]))[:planned])
        tokens, model, size = len(store.input_ids), new_model(seed, TEXT_LENGTH), SEQUENCES
        held_out = partial(padded_loss, batch=next(batches("packed", data[1], 0, TEXT_LENGTH, len(data[1]))))
        rule, batching = RATES[name] if experiment == "rates" else ("sqrt" if name == "token budget" else "none", name)
        updates = batched_updates(batching, store, seed, TEXT_LENGTH)
    return train(model, updates, tokens, rate, rule, size, held_out, evaluations)


def rates_of(experiment: str, name: str, sweep: bool) -> dict[str, float]:
    """Return rates to train an arm with, by the name of the run."""
    if sweep:
        return {f"{name}, {rate:g}": rate for rate in SWEEP_RATES}
    if experiment.startswith("length"):
        return {name: {**LENGTH_ARMS, **TWICE_THE_RATE}[name].rate}
    return {name: best_rates(swept(f"curriculum-{experiment}-sweep"))["padded" if name == "nested" else name]}


def main(*given: str) -> None:
    parser = arguments("curriculum", __doc__)
    parser.set_defaults(seeds=None)
    parser.add_argument("experiment", help=", ".join(ARMS))
    parser.add_argument("--sweep", action="store_true", help="try several rates, on a third of the texts")
    parser.add_argument("--sequences", type=int, help="to train on: rows of 128, or texts")
    options = parser.parse_args(given)
    experiment, sweep = one_of("experiment", options.experiment, ARMS), options.sweep
    planned = PLANNED[experiment] // (3 if sweep else 1) if options.sequences is None else options.sequences
    whole_number("sequences", planned, EVALUATIONS[experiment] * ROWS)
    torch.set_num_threads(1)
    found = Runs(options.out or path_of(f"curriculum-{experiment}{'-sweep' * sweep}"), COLUMNS)
    found.check("planned", planned)
    data = module_rows(LENGTH, 64 * LENGTH) if experiment.startswith("length") else function_stores(TEXT_LENGTH)
    arms = [arm for arm in ARMS[experiment] if not (sweep and arm in NOT_SWEPT)]
    trained = {name: (arm, rate) for arm in arms for name, rate in rates_of(experiment, arm, sweep).items()}

    def make(arm: str, seed: int) -> list[dict]:
        records = run(
            experiment, trained[arm][0], seed, planned, data, trained[arm][1], 1 if sweep else EVALUATIONS[experiment]
        )
        return [{"planned": planned, **record} for record in records]

    seeds = options.seeds or (SWEEP_SEEDS if sweep else range(5))
    runs = [{"arm": arm, "seed": seed} for seed in seeds for arm in trained]
    program = f"curriculum {experiment}{' --sweep' * sweep}"
    found.make(runs, make, program, f"--sequences {planned}")
