"""What notebook 13 computes: lengths with a long tail, deals of packs, and what windows leave of waiting and mix."""

from collections.abc import Mapping

import numpy as np

from packlib.lengths.synthetic import log_normal
from packlib.packing import Packs, plan
from packlib.work import Work, balance

SAME = 0.001  # shares of waiting that differ by less are equal


def long_tail(number: int, max_length: int, seed: int) -> np.ndarray:
    """Return synthetic lengths: the logarithm has mean 7 and standard deviation 1.3, as in the recorded benchmark."""
    histogram = log_normal(number, max_length, 7.0, 1.3)
    return np.random.default_rng(seed).permutation(histogram.expand())


def enough(number: int, max_length: int, step: int) -> int:
    """Return the number of sequences, or more, such that their packs make at least 16 steps of `step` packs."""
    mean = log_normal(number, max_length, 7.0, 1.3).mean_length
    return max(number, int(np.ceil(16 * step * max_length / mean)))


def packed(lengths: np.ndarray, max_length: int) -> Packs:
    """Return the packs as LPFHP makes them."""
    return plan(lengths, max_length, "lpfhp").assign(lengths)


def in_whole_steps(packs: Packs, ranks: int, packs_per_rank: int, seed: int) -> Packs:
    """Return the same sequences in whole steps: a few packs are cut between two sequences, where there are too few."""
    schedule = balance(packs, ranks, packs_per_rank, window=1, work=Work.decoder(), seed=seed)
    return Packs(schedule.sample_ids, schedule.offsets, schedule.lengths, schedule.max_length)


def random_waiting(packs: Packs, ranks: int, packs_per_rank: int, work: Work, seed: int) -> float:
    """Return the share of the time that the average rank waits if packs come as a loader shuffles them."""
    order = np.random.default_rng(seed).permutation(len(packs))
    steps = dealt(work.of(packs), order, ranks, packs_per_rank)
    return float(1 - steps.mean(axis=1).sum() / steps.max(axis=1).sum())


def fewer_in_words(then: float, now: float) -> str:
    """Explain the waiting of half of the ranks, from their shares of waiting and those of all ranks."""
    if then < now - SAME:
        return (
            "The more ranks take part, the more likely it is that one of them holds a pack with a very long sequence."
        )
    return "Here the packs of a step differ so little that fewer ranks do not wait less."


def least_of(times: Mapping[str, float], within: float) -> str:
    """Return the name of the least time, or "equal" if another is as small but for a share `within`."""
    first, second, *_ = sorted(times, key=times.__getitem__)
    return "equal" if times[second] <= (1 + within) * times[first] else first


def dealt(work: np.ndarray, order: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Return the work of each rank in each whole step when packs come in this order; shape (steps, ranks)."""
    step = ranks * packs_per_rank
    return work[order[: len(order) // step * step]].reshape(-1, packs_per_rank, ranks).sum(axis=1)


def mean_lengths(packs: Packs, order: np.ndarray, step: int) -> np.ndarray:
    """Return the mean length of the sequences in each whole step when packs come in this order; shape (steps,)."""
    order = order[: len(order) // step * step]
    tokens, sizes = (
        values[order].reshape(-1, step).sum(axis=1) for values in (packs.lengths_used, np.diff(packs.offsets))
    )
    return tokens / sizes


def by_window(packs: Packs, ranks: int, packs_per_rank: int, work: Work, seed: int) -> list[dict]:
    """Measure the idle time that windows leave, and the spread of the mean length over steps and over windows.

    Returns:
        For each window its number of steps, "waiting", and "steps" and "windows" with two percentiles each, in tokens.
    """
    rows, window, step = [], 1, ranks * packs_per_rank
    while window <= max(1, min(32, len(packs) // step // 4)):
        schedule = balance(packs, ranks, packs_per_rank, window, work=work, seed=seed)
        in_order = np.arange(len(schedule))
        ends = {
            name: np.percentile(mean_lengths(schedule, in_order, size), (5, 95))
            for name, size in (("steps", step), ("windows", window * step))
        }
        rows.append({"window": window, "waiting": schedule.waiting, **ends})
        window *= 2
    return rows
