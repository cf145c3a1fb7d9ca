"""What notebook 17 computes: simulated experiments, and what their seeds can tell."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import t

from packbook.shared.counted_text import bigram_loss
from packbook.shared.recorded_runs import Interval, against
from packbook.shared.wordnet import tokenized_pairs


def students_factor(seeds: int, confidence: float = 0.95) -> float:
    """Return Student's factor t for the mean of `seeds` differences."""
    return float(t.ppf((1 + confidence) / 2, seeds - 1))


def against_padded(optimizers: Mapping[str, Mapping[str, np.ndarray]], confidence: float) -> dict[str, Interval]:
    """Return the interval of each arm against padded rows, by the name "optimizer, arm".

    Args:
        optimizers: by optimizer and arm, final losses, shape (seeds,).
    """
    intervals = {}
    for optimizer, ended in optimizers.items():
        for arm, interval in against(dict(ended), "padded", confidence).items():
            intervals[f"{optimizer}, {arm}"] = interval
    return intervals


def told_apart(name: str, found: Mapping[str, Interval]) -> str:
    """Return a sentence that counts the arms that differ from padded rows, and names the inconclusive ones."""
    inconclusive = [arm for arm, interval in found.items() if interval.verdict == "inconclusive"]
    sentence = f"{name}: {len(found) - len(inconclusive)} of {len(found)} arms differ from padded rows"
    return f"{sentence}; inconclusive: {'; '.join(inconclusive)}." if inconclusive else f"{sentence}."


def short_text(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens of WordNet's sentence pairs, one after another: 40,000 to count, and the others held out."""
    ids = tokenized_pairs(1_500, seed).input_ids.astype(np.int64)
    return ids[:40_000], ids[40_000:]


def bigram_of(text: np.ndarray, held_out: np.ndarray) -> float:
    """Return the held-out loss of the bigram, as the records compute it; both texts are ids from 0 to 3,999."""
    return bigram_loss((text[:-1], text[1:]), (held_out[:-1], held_out[1:]), 4_000)


def half_widths(seeds: np.ndarray, confidence: float) -> np.ndarray:
    """Return half of the interval's width for each number of seeds, in deviations of the differences."""
    return t.ppf((1 + confidence) / 2, seeds - 1) / np.sqrt(seeds)


def simulated(effect: float, seeds: int, number: int, seed: int) -> np.ndarray:
    """Draw the differences of `number` experiments, normal with mean `effect` and deviation 1; (number, seeds)."""
    return effect + np.random.default_rng(seed).standard_normal((number, seeds))


def found_share(effect: float, seeds: int, confidence: float, number: int = 4000, seed: int = 0) -> float:
    """Return the share of simulated experiments whose interval excludes 0."""
    differences = simulated(effect, seeds, number, seed)
    halves = differences.std(1, ddof=1) * half_widths(np.array(seeds), confidence)
    excludes_zero = np.abs(differences.mean(1)) > halves
    return float(excludes_zero.mean())
