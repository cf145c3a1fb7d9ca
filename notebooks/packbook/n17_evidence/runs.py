"""What notebook 17 computes: simulated experiments, and what their seeds can tell."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import t

from packbook.shared.counted_text import bigram_loss
from packbook.shared.recorded_runs import Interval, against
from packbook.shared.wordnet import tokenized_pairs


def students_factor(seeds: int, confidence: float = 0.95) -> float:
    """Return Student's factor t for the mean of so many differences."""
    return float(t.ppf((1 + confidence) / 2, seeds - 1))


def against_padded(optimizers: Mapping[str, Mapping[str, np.ndarray]], confidence: float) -> dict[str, Interval]:
    """Return, by optimizer and arm, its interval against padded rows."""
    return {
        f"{optimizer}, {arm}": one
        for optimizer, ended in optimizers.items()
        for arm, one in against(dict(ended), "padded", confidence).items()
    }


def told_apart(name: str, found: Mapping[str, Interval]) -> str:
    """Return a sentence that counts the arms that differ from padded and names the others."""
    open_ones = [arm for arm, one in found.items() if one.verdict == "inconclusive"]
    sentence = f"{name}: {len(found) - len(open_ones)} of {len(found)} arms differ from padded rows"
    return f"{sentence}; inconclusive: {'; '.join(open_ones)}." if open_ones else f"{sentence}."


def short_text(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids of WordNet's definitions one after another: 40,000 to count, and the rest held out."""
    ids = tokenized_pairs(1_500, seed).input_ids.astype(np.int64)
    return ids[:40_000], ids[40_000:]


def bigram_of(text: np.ndarray, held_out: np.ndarray) -> float:
    """Return the held-out loss of the bigram as the records count it, of 4,000 kinds of tokens."""
    return bigram_loss((text[:-1], text[1:]), (held_out[:-1], held_out[1:]), 4_000)


def half_widths(seeds: np.ndarray, confidence: float) -> np.ndarray:
    """Return half of the interval's width for so many seeds, in deviations of the differences."""
    return t.ppf((1 + confidence) / 2, seeds - 1) / np.sqrt(seeds)


def simulated(effect: float, seeds: int, number: int, seed: int) -> np.ndarray:
    """Return paired differences of deviation 1 around `effect`: shape (number of experiments, seeds)."""
    return effect + np.random.default_rng(seed).standard_normal((number, seeds))


def found_share(effect: float, seeds: int, confidence: float, number: int = 4000, seed: int = 0) -> float:
    """Return the share of simulated experiments whose interval excludes 0."""
    d = simulated(effect, seeds, number, seed)
    return float((np.abs(d.mean(1)) > d.std(1, ddof=1) * half_widths(np.array(seeds), confidence)).mean())
