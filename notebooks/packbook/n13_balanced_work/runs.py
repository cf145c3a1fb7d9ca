"""What notebook 13 computes: lengths with a long tail, schedules of packs, and the idle time and mix of windows.

A step is a training step: each rank takes `packs_per_rank` packs, and all wait for the slowest.
"""

from collections.abc import Mapping

import numpy as np

from packlib.lengths.synthetic import log_normal
from packlib.packing import Packs, plan
from packlib.work import Work, balance

SAME = 0.001  # shares of idle time that differ by less count as equal


def long_tail(number: int, max_length: int, seed: int) -> np.ndarray:
    """Return synthetic lengths: the logarithm has mean 7 and standard deviation 1.3, as in the recorded benchmark."""
    histogram = log_normal(number, max_length, 7.0, 1.3)
    return np.random.default_rng(seed).permutation(histogram.expand())


def enough(number: int, max_length: int, step: int) -> int:
    """Return `number`, or as many sequences as fill at least 16 steps, if that is more.

    Args:
        step: packs in a step.
    """
    mean = log_normal(number, max_length, 7.0, 1.3).mean_length
    return max(number, int(np.ceil(16 * step * max_length / mean)))


def packed(lengths: np.ndarray, max_length: int) -> Packs:
    """Return the packs that LPFHP makes of these lengths."""
    return plan(lengths, max_length, "lpfhp").assign(lengths)


def in_whole_steps(packs: Packs, ranks: int, packs_per_rank: int, seed: int) -> Packs:
    """Return packs of the same sequences that fill whole steps: a few packs are cut between two sequences."""
    schedule = balance(packs, ranks, packs_per_rank, window=1, work=Work.decoder(), seed=seed)
    return Packs(schedule.sample_ids, schedule.offsets, schedule.lengths, schedule.max_length)


def random_waiting(packs: Packs, ranks: int, packs_per_rank: int, work: Work, seed: int) -> float:
    """Return the share of the time that the average rank waits if packs come as a loader shuffles them."""
    order = np.random.default_rng(seed).permutation(len(packs))
    work_of_ranks = dealt(work.of(packs), order, ranks, packs_per_rank)  # (steps, ranks)
    mean_work, slowest_work = work_of_ranks.mean(axis=1), work_of_ranks.max(axis=1)
    return float(1 - mean_work.sum() / slowest_work.sum())


def fewer_in_words(then: float, now: float) -> str:
    """Explain the idle time with half of the ranks.

    Args:
        then: share of the time that the average rank waits with half of the ranks.
        now: the same with all ranks.
    """
    if then < now - SAME:
        return (
            "The more ranks take part, the more likely it is that one of them holds a pack with a very long sequence."
        )
    return "Here the packs of a step differ so little that fewer ranks do not wait less."


def least_of(times: Mapping[str, float], within: float) -> str:
    """Return the name of the least time, or "equal" if the second is at most a share `within` above it."""
    first, second, *_ = sorted(times, key=times.__getitem__)
    return "equal" if times[second] <= (1 + within) * times[first] else first


def dealt(work: np.ndarray, order: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Return the work of each rank in each whole step when packs come in this order; shape (steps, ranks).

    Args:
        work: of each pack, shape (packs,).
        order: indices of packs; ranks take them in turn.
    """
    step = ranks * packs_per_rank
    in_whole_steps = order[: len(order) // step * step]
    return work[in_whole_steps].reshape(-1, packs_per_rank, ranks).sum(axis=1)


def mean_lengths(packs: Packs, order: np.ndarray, step: int) -> np.ndarray:
    """Return the mean length of the sequences in each whole step when packs come in this order; shape (steps,).

    Args:
        order: indices of packs.
        step: packs in a step.
    """
    in_whole_steps = order[: len(order) // step * step]
    sequences_of_pack = np.diff(packs.offsets)
    tokens = packs.lengths_used[in_whole_steps].reshape(-1, step).sum(axis=1)
    sequences = sequences_of_pack[in_whole_steps].reshape(-1, step).sum(axis=1)
    return tokens / sequences


def by_window(packs: Packs, ranks: int, packs_per_rank: int, work: Work, seed: int) -> list[dict]:
    """Measure the idle time that windows leave, and the spread of the mean length over steps and over windows.

    Returns:
        A dict for each window: "window", its number of steps; "waiting", the share of the time that the average rank
        waits; and the 5th and 95th percentile of the mean length, in tokens, over "steps" and over "windows".
    """
    step = ranks * packs_per_rank
    largest = max(1, min(32, len(packs) // step // 4))  # so that there are at least four windows
    rows, window = [], 1
    while window <= largest:
        schedule = balance(packs, ranks, packs_per_rank, window, work=work, seed=seed)
        in_order = np.arange(len(schedule))
        row = {"window": window, "waiting": schedule.waiting}
        for name, size in (("steps", step), ("windows", window * step)):
            row[name] = np.percentile(mean_lengths(schedule, in_order, size), (5, 95))
        rows.append(row)
        window *= 2
    return rows
