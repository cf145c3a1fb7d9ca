"""How long the slowest rank takes: packs dealt at random, by peers, and by `balance`; one step alone, and shared.

`python data/record.py balance` writes balance.csv, balance_step.csv, balance_groups.csv and balance_measured.csv
in data/benchmarks/. Lengths are synthetic: log-normal, mean 7.0 and standard deviation 1.3 of the logarithm, cut to the
row. Work is 6 d l + l² / 2, d = 4096.
"""

import heapq
import itertools
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch.nn import GELU, Linear, Sequential
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.table import record, timed
from packlib.batches import pack_lengths
from packlib.lengths.synthetic import log_normal
from packlib.packing import Packs, plan
from packlib.work import Work, balance, balance_step, share_sequences

WORK = Work(6 * 4096, 0.5)
SEQUENCES = {8192: (60_000, 420_000), 32_768: (200_000, 1_400_000), 131_072: (720_000, 5_800_000)}
STEPS = [(number, *of) for number in (512, 1024) for of in ((6000, 32_768), (3000, 16_384), (2000, 16_384))]
FEW = (512, 1800, 65_536), (512, 3000, 131_072), (256, 6000, 131_072)  # two or three packs a rank
PEERS = 512, 40  # packs that the slow peers are tried on, and steps at most; ours and random are tried on all
WIDTH = 64  # of the measured layer
ROW, RANKS, EACH, MEASURED_STEPS, RUNS = 4096, 4, 2, 3, 9


def karmarkar_karp(weights: np.ndarray, parts: int) -> np.ndarray:
    """Return the part of each weight by the largest differencing method (Karmarkar and Karp, 1982), for several parts.

    Every weight begins as a partial solution with one part that is not empty. The two solutions whose parts differ most
    are joined, the heaviest part of one with the lightest of the other, until one is left.
    """
    heap: list[tuple] = []
    for i, weight in enumerate(weights.tolist()):
        sums = np.zeros(parts)
        sums[0] = weight
        heapq.heappush(heap, (-weight, i, sums, [[i], *([] for _ in range(parts - 1))]))
    for number in itertools.count(len(weights)):
        _, _, one, held = heapq.heappop(heap)
        if not heap:
            break
        _, _, two, other = heapq.heappop(heap)
        sums = one + two[::-1]
        joined = [a + b if a and b else a or b for a, b in zip(held, reversed(other), strict=True)]
        order = np.argsort(-sums, kind="stable")
        sums = sums[order]
        heapq.heappush(heap, (sums[-1] - sums[0], number, sums, [joined[i] for i in order]))
    part = np.empty(len(weights), int)
    for p, ids in enumerate(held):
        part[ids] = p
    return part


def peers(packs: Packs, ranks: int, each: int) -> dict[str, float]:
    """Compute Σ slowest ÷ Σ mean of each peer on the same random steps, and how often one is over the cap."""
    step, work = ranks * each, WORK.of(packs)
    order = np.random.default_rng([0, 0]).permutation(len(packs))
    order = order[: len(packs) // step * step].reshape(-1, step)
    random = work[order].reshape(len(order), each, ranks).sum(axis=1)
    totals = dict.fromkeys(("snaked", "Karmarkar-Karp", "with the cap"), 0.0)
    mean, over = 0.0, 0
    few = order[: min(max(PEERS[0] // step, 3), PEERS[1])]
    for ids in few:
        here = work[ids]
        forth_and_back = np.sort(here)[::-1].reshape(each, ranks)
        forth_and_back[1::2] = forth_and_back[1::2, ::-1]
        totals["snaked"] += forth_and_back.sum(axis=0).max()
        items = np.concatenate([packs.lengths[packs._row(i)] for i in ids])
        part = karmarkar_karp(WORK.of(items), ranks)
        slowest = np.bincount(part, WORK.of(items)).max()
        kept = np.bincount(part, items).max() <= each * packs.max_length
        totals["Karmarkar-Karp"] += slowest
        totals["with the cap"] += slowest if kept else here.reshape(each, ranks).sum(axis=0).max()
        mean, over = mean + here.sum() / ranks, over + (not kept)
    found = {name: total / mean for name, total in totals.items()}
    return {"random": random.max(1).sum() / random.mean(1).sum(), **found, "over the cap": over / len(few)}


def settings() -> Iterator[dict]:
    for (row, (some, many)), ranks, each in itertools.product(SEQUENCES.items(), (8, 64), (1, 2, 4, 8)):
        histogram = log_normal(many if ranks * each > 128 else some, row, 7.0, 1.3)
        packs = plan(histogram, method="lpfhp").assign(histogram.expand(), seed=0)
        made, seconds = timed(partial(balance, packs, ranks, each, work=WORK))
        others = {window: balance(packs, ranks, each, window, work=WORK) for window in (1, 32)}
        found = peers(packs, ranks, each)
        over = found.pop("over the cap")
        yield {
            "row": row,
            "ranks": ranks,
            "packs a rank": each,
            "sequences": histogram.num_sequences,
            **{name: f"{ratio:.3f}" for name, ratio in found.items()},
            "Karmarkar-Karp over the cap": f"{over:.0%} of steps",
            "ours": f"{made.slowest / made.mean:.4f}",
            "bound": f"{made.lower_bound / made.mean:.4f}",
            "above the bound": f"{made.slowest / made.lower_bound - 1:.2%}",
            **{f"window {window}": f"{other.slowest / other.mean:.4f}" for window, other in others.items()},
            "CPU seconds": f"{seconds:.2f}",
        }


def with_retry(lengths: np.ndarray, ranks: int, cap: int) -> tuple[int, float]:
    """Count each rank's micro-batches, and the share waited, as trainers of today deal steps of reinforcement learning.

    Karmarkar and Karp's method deals the sequences to ranks by work, and those of each rank to micro-batches by tokens.
    Where a micro-batch is over the cap, all ranks try with one more (verl, pull request 7553).
    """
    each = WORK.of(lengths)
    rank = karmarkar_karp(each, ranks)
    number = max(-(-int(lengths[rank == r].sum()) // cap) for r in range(ranks))
    while True:
        parts = (lengths[rank == r] for r in range(ranks))
        if all(np.bincount(karmarkar_karp(some, number), some).max() <= cap for some in parts):
            done = np.bincount(rank, each)
            return number, 1 - done.mean() / done.max()
        number += 1


def log_normal_step(number: int, median: int, sigma: float, top: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(np.log(median), sigma, number).astype(int).clip(16, top)


def steps() -> Iterator[dict]:
    """Yield one step of 8 ranks: synthetic log-normal lengths of 256 to 1,024 rollouts."""
    balance_step([2, 1], 1, 2, work=WORK)  # imports are not timed
    for (number, median, cap), seed in itertools.product((*STEPS, *FEW), range(3)):
        lengths = log_normal_step(number, median, 0.8, cap, seed)
        made, seconds = timed(partial(balance_step, lengths, 8, cap, work=WORK))
        often = balance_step(lengths, 8, cap, meet="micro-batch", work=WORK)
        made.verify(), often.verify()
        (batches, waited), its_seconds = timed(partial(with_retry, lengths, 8, cap))
        yield {
            "sequences": number,
            "median": median,
            "cap": cap,
            "seed": seed,
            "at least": -(-plan(lengths, cap, "lpfhp").lower_bound // 8),
            "ours": made.packs_per_rank,
            "waiting": f"{made.waiting:.3%}",
            "ms": f"{1000 * seconds:.0f}",
            "waiting, after each": f"{often.waiting:.2%}",
            "Karmarkar-Karp": batches,
            "its waiting": f"{waited:.3%}",
            "its ms": f"{1000 * its_seconds:.0f}",
        }


def shared() -> Iterator[dict]:
    """Yield one step whose long sequences are on groups of ranks: log-normal lengths, deviation 1 of the logarithm."""
    draws = (512, 6000, 16_384, 131_072), (1024, 3000, 16_384, 131_072), (256, 9000, 65_536, 1 << 20)
    for (number, median, cap, longest), ranks, seed in itertools.product(draws, (8, 64), range(3)):
        lengths = log_normal_step(number, median, 1.0, longest, seed)
        made, seconds = timed(partial(share_sequences, lengths, ranks, cap, work=WORK))
        done = [0.0] * ranks
        for work in sorted(WORK.of(lengths).tolist(), reverse=True):  # Graham's rule without groups, and without a cap
            heapq.heapreplace(done, done[0] + work)
        yield {
            "sequences": number,
            "median": median,
            "longest": int(lengths.max()),
            "tokens a rank": cap,
            "ranks": ranks,
            "seed": seed,
            **{f"on {size}": int((made.group_sizes == size).sum()) for size in (1, 2, 4, 8, 16, 32, 64)},
            "above the bound": f"{made.above_bound:.2%}",
            "nothing shared": f"{max(done) / made.bound - 1:.0%}",
            "sent, of all on all ranks": f"{made.exchanged_tokens / (lengths.sum() * (ranks - 1)):.1%}",
            "ms": f"{1000 * seconds:.0f}",
        }


class Layer(torch.nn.Module):
    """Attention and feed-forward on sequences that are kept apart: the work of one pack."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = Linear(WIDTH, 3 * WIDTH), Linear(WIDTH, WIDTH)
        self.inner = Sequential(Linear(WIDTH, 4 * WIDTH), GELU(), Linear(4 * WIDTH, WIDTH))

    def forward(self, tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        each = (part[None, None].chunk(3, dim=-1) for part in self.qkv(tokens).split(lengths))
        mixed = torch.cat([scaled_dot_product_attention(*qkv)[0, 0] for qkv in each])
        hidden = tokens + self.out(mixed)
        return hidden + self.inner(hidden)


def measured() -> Iterator[dict]:
    """Time steps: one thread plays the ranks one after the other, and a step takes as long as its slowest rank.

    Both deals have the same packs; the balanced ones are one window.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer, rng, count = Layer(), np.random.default_rng(0), MEASURED_STEPS * RANKS * EACH
    lengths = rng.permutation(log_normal(4_000, ROW, 6.0, 1.0).expand())
    lengths = lengths[np.cumsum(lengths) <= count * ROW]
    while len(packs := pack_lengths(lengths, ROW, "lpfhp")) > count:
        lengths = lengths[1:]

    def seconds(pack: list[int]) -> float:
        tokens, start = torch.zeros(sum(pack), WIDTH), time.thread_time()
        layer(tokens, pack).square().mean().backward()
        return time.thread_time() - start

    known = [[ROW // n] * n for n in (1, 2, 4, 8, 16)] + [[ROW // 2], [ROW // 8] * 4]
    known += [[ROW >> i for i in range(1, 6)], [ROW >> i for i in range(2, 6)] * 2]  # mixed, as packs are
    for pack in known:
        seconds(pack)
    times = [float(np.median([seconds(pack) for _ in range(5)])) for pack in known]
    work = Work.fitted([sum(pack) for pack in known], [sum(n * n for n in pack) for pack in known], times)

    made = balance(packs, RANKS, EACH, window=MEASURED_STEPS, work=work)
    balanced = [lengths[ids].tolist() for ids in made]
    deals = [[balanced[i] for i in np.random.default_rng([0, 0]).permutation(count)], balanced]

    def total(each: np.ndarray | list) -> float:
        return float(np.reshape(each, (MEASURED_STEPS, RANKS, EACH)).sum(axis=2).max(axis=1).sum())

    taken = np.array([[[seconds(deal[i]) for deal in deals] for i in range(count)] for _ in range(RUNS)])
    ratios = sorted(total(run[:, 0]) / total(run[:, 1]) for run in taken)
    low, high = ratios[0], ratios[-1]  # of nine: this interval covers the median with 99.6 %
    random, even = (total(deal) for deal in np.median(taken, axis=0).T)
    predicted = total([work.of(pack).sum() for pack in deals[0]]) / total([work.of(pack).sum() for pack in balanced])
    yield {
        "row": ROW,
        "ranks": RANKS,
        "packs a rank": EACH,
        "steps": MEASURED_STEPS,
        "runs": RUNS,
        "seconds, random": f"{random:.3f}",
        "seconds, balanced": f"{even:.3f}",
        "ratio": f"{random / even:.3f}",
        "low": f"{low:.3f}",
        "high": f"{high:.3f}",
        "predicted": f"{predicted:.3f}",
        "inside": low <= predicted <= high,
        "seconds a token": f"{work.per_token:.3e}",
        "seconds a pair": f"{work.per_square:.3e}",
    }


def main() -> None:
    command = "python data/record.py balance"
    record("balance_measured.csv", measured(), command, ("numpy", "torch"))
    record("balance_step.csv", steps(), command, ("numpy",))
    record("balance_groups.csv", shared(), command, ("numpy",))
    record("balance.csv", settings(), command, ("numpy",))
