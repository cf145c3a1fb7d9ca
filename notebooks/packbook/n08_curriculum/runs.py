"""What notebook 08 computes: sentences to shorten, and what recorded runs say about three claims."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from packbook.shared.glosses import wordnet_texts
from packbook.shared.recorded_runs import Interval, Runs, Swept, at_end, interval
from packlib.batches import wordnet_tokenizer


def definitions(number: int, seed: int) -> tuple[dict[str, torch.Tensor], Callable]:
    """Return short definitions of WordNet as a padded batch, and what turns a row of ids into words."""
    texts, tokenizer = wordnet_texts(), wordnet_tokenizer()
    short = np.flatnonzero((texts.definition_tokens > 8) & (texts.definition_tokens <= 13))
    chosen = np.random.default_rng(seed).choice(short, number, replace=False)
    encoded = tokenizer(texts.definition[chosen].tolist(), padding=True, return_tensors="pt")
    batch = {"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask}
    return batch, tokenizer.convert_ids_to_tokens


def in_words(found: Interval) -> str:
    """Return a sentence about the interval of a difference."""
    if abs(found.mean) <= found.half:
        return "inconclusive"
    return "higher" if found.mean > 0 else "lower"


def bytes_to_reach(seeds: Sequence[dict[str, np.ndarray]], base: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """Return the share of the bytes of each base run after which the run of the same seed is at its last loss.

    Between two evaluations the loss counts as a line; a run that never gets there has infinity.
    """
    shares = []
    for run, other in zip(seeds, base, strict=True):
        end, losses, tokens = other["held_out_loss"][-1], run["held_out_loss"], run["tokens"]
        there = np.flatnonzero(losses <= end)
        if not len(there):
            shares.append(np.inf)
            continue
        around = slice(max(0, there[0] - 1), there[0] + 1)
        shares.append(np.interp(-end, -losses[around], tokens[around]) / other["tokens"][-1])
    return np.array(shares)


def verdicts(norms: Swept, long: Runs, at_own_rate: Runs) -> list[tuple[str, str]]:
    """Return the three claims about truncated rows, each with what the recorded runs say."""
    arms = ("0.3, truncated", "0.6, truncated")
    largest = max(one.max() for arm in arms for one in norms[arm].values())
    of_full = max(one.max() for one in norms["no warm-up"].values())
    ended = at_end(long) | at_end(at_own_rate)
    own = {arm: next(name for name in at_own_rate if name.startswith(arm)) for arm in arms}
    losses = [interval(ended[own[arm]] - ended["no warm-up"]) for arm in arms]
    shares = [interval(100 * bytes_to_reach(at_own_rate[own[arm]], long["no warm-up"])) for arm in arms]
    seconds = at_end(long, "cpu_seconds")
    times = [interval(100 * (seconds[arm] / seconds["no warm-up"] - 1)) for arm in arms]
    more_or_less = {"higher": "more", "lower": "less", "inconclusive": "inconclusive"}
    at_own = " and ".join(f"{one.mean:+.2f} ± {one.half:.2f} ({in_words(one)})" for one in losses)
    reached = " and ".join(f"{one.mean:.0f} ± {one.half:.0f} %" for one in shares)
    times_in_words = " and ".join(
        f"{one.mean:+.1f} ± {one.half:.1f} % ({more_or_less[in_words(one)]})" for one in times
    )
    stable = "yes" if largest < of_full / 2 else "not seen"
    return [
        (
            "larger rates are stable",
            f"{stable}: the largest gradient norm is {largest:.1f} over all rates, and {of_full:.1f} for full rows",
        ),
        (
            "the loss is lower",
            f"at their own best rates: {at_own}; they reach the loss of full rows after {reached} of the bytes",
        ),
        ("it takes less time", f"processor time for the same number of bytes: {times_in_words}"),
    ]
