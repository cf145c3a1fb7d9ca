"""What notebook 13 computes: lengths with a long tail, deals of packs, and one step with a long sequence."""

import numpy as np

from packlib.lengths.synthetic import log_normal
from packlib.packing import Packs, plan
from packlib.work import Schedule, Work, balance


def long_tail(number: int, max_length: int, seed: int) -> np.ndarray:
    """Synthetic lengths: the logarithm has mean 7 and standard deviation 1.3, as in the recorded benchmark."""
    histogram = log_normal(number, max_length, 7.0, 1.3)
    return np.random.default_rng(seed).permutation(histogram.expand())


def packed(lengths: np.ndarray, max_length: int) -> Packs:
    """Packs as LPFHP makes them."""
    return plan(lengths, max_length, "lpfhp").assign(lengths)


def dealt(work: np.ndarray, order: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The work of each rank in each whole step when packs come in this order; shape (steps, ranks)."""
    step = ranks * packs_per_rank
    return work[order[: len(order) // step * step]].reshape(-1, packs_per_rank, ranks).sum(axis=1)


def mean_lengths(packs: Packs, order: np.ndarray, step: int) -> np.ndarray:
    """The mean length of the sequences in each whole step when packs come in this order; shape (steps,)."""
    order = order[: len(order) // step * step]
    tokens, sizes = (
        values[order].reshape(-1, step).sum(axis=1) for values in (packs.lengths_used, np.diff(packs.offsets))
    )
    return tokens / sizes


def ends_at_random(packs: Packs, step: int, seed: int, deals: int = 200) -> np.ndarray:
    """Where 95 % of random deals have their smallest and their largest mean length of a step; shape (2, 2)."""
    rng = np.random.default_rng([seed, 1])
    means = [mean_lengths(packs, rng.permutation(len(packs)), step) for _ in range(deals)]
    return np.percentile([(each.min(), each.max()) for each in means], (2.5, 97.5), axis=0).T


def one_step(longest: int, ranks: int, max_length: int, seed: int) -> tuple[np.ndarray, Packs]:
    """Lengths that nearly fill one pack of each rank, one of them as long as wanted, and their packs."""
    rng = np.random.default_rng(seed)
    others = np.minimum(np.exp(rng.normal(7.0, 1.3, 200 * ranks)), max_length // 8).astype(int) + 1
    room = 0.96 * ranks * max_length - longest
    lengths = np.append(others[np.cumsum(others) <= room], longest)
    while len(packs := packed(lengths, max_length)) > ranks:
        lengths = lengths[1:]
    return lengths, packs


def balanced_step(lengths: np.ndarray, packs: Packs, ranks: int, work: Work) -> Schedule:
    """The same sequences, balanced over the ranks."""
    return balance(packs, lengths, ranks, work=work, spare=0)
