"""What notebook 08 computes: sentences to shorten, and what recorded runs say about three claims."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from packbook.shared.glosses import wordnet_texts
from packbook.shared.recorded_runs import Runs, Swept, at_end, interval
from packlib.batches import wordnet_tokenizer


def definitions(number: int, seed: int) -> tuple[dict[str, torch.Tensor], Callable]:
    """Return `number` definitions of WordNet of 9 to 13 tokens as a padded batch, and a function from ids to tokens."""
    texts, tokenizer = wordnet_texts(), wordnet_tokenizer()
    short = np.flatnonzero((texts.definition_tokens > 8) & (texts.definition_tokens <= 13))
    chosen = np.random.default_rng(seed).choice(short, number, replace=False)
    encoded = tokenizer(texts.definition[chosen].tolist(), padding=True, return_tensors="pt")
    batch = {"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask}
    return batch, tokenizer.convert_ids_to_tokens


def bytes_to_reach(seeds: Sequence[dict[str, np.ndarray]], base: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """Return how soon each run reaches the final loss of the base run of the same seed.

    The loss is interpolated between two evaluations.

    Args:
        seeds: runs of one arm by seed, with columns "held_out_loss" and "tokens", of one byte each.
        base: runs of the base by seed.

    Returns:
        Bytes until then, as a share of all bytes of the base run, shape (seeds,); infinity if the run never does.
    """
    shares = []
    for run, base_run in zip(seeds, base, strict=True):
        final_loss = base_run["held_out_loss"][-1]
        losses, tokens = run["held_out_loss"], run["tokens"]
        evaluations_below = np.flatnonzero(losses <= final_loss)
        if not len(evaluations_below):
            shares.append(np.inf)
            continue
        first = evaluations_below[0]
        around = slice(max(0, first - 1), first + 1)  # the evaluation before, and this one
        # np.interp wants rising numbers, and the loss falls
        reached = np.interp(-final_loss, -losses[around], tokens[around])
        shares.append(reached / base_run["tokens"][-1])
    return np.array(shares)


def verdicts(norms: Swept, long: Runs, at_own_rate: Runs) -> list[tuple[str, str]]:
    """Return the three claims about truncated rows, each with what the recorded runs say.

    Args:
        norms: largest gradient norms of a sweep over the rate.
        long: runs at the rate of full rows.
        at_own_rate: runs of the truncated arms at the best rate of each, which ends the arm's name.
    """
    arms = ("0.3, truncated", "0.6, truncated")
    base = "no warm-up"

    norm_of_truncated = max(by_seed.max() for arm in arms for by_seed in norms[arm].values())
    norm_of_full = max(by_seed.max() for by_seed in norms[base].values())
    stable = "yes" if norm_of_truncated < norm_of_full / 2 else "not seen"

    final_losses = at_end(long) | at_end(at_own_rate)
    losses, shares = [], []
    for arm in arms:
        name_with_rate = next(name for name in at_own_rate if name.startswith(arm))
        loss = interval(final_losses[name_with_rate] - final_losses[base])
        losses.append(f"{loss.mean:+.2f} ± {loss.half:.2f} ({loss.verdict})")
        share = interval(100 * bytes_to_reach(at_own_rate[name_with_rate], long[base]))
        shares.append(f"{share.mean:.0f} ± {share.half:.0f} %")

    seconds = at_end(long, "cpu_seconds")
    more_or_less = {"higher": "more", "lower": "less", "inconclusive": "inconclusive"}
    times = []
    for arm in arms:
        time = interval(100 * (seconds[arm] / seconds[base] - 1))
        times.append(f"{time.mean:+.1f} ± {time.half:.1f} % ({more_or_less[time.verdict]})")
    return [
        (
            "larger rates are stable",
            f"{stable}: the largest gradient norm is {norm_of_truncated:.1f} over all rates, and {norm_of_full:.1f} "
            "for full rows",
        ),
        (
            "the loss is lower",
            f"at their own best rates: {' and '.join(losses)}; they reach the loss of full rows after "
            f"{' and '.join(shares)} of the bytes",
        ),
        ("it takes less time", f"processor time for the same number of bytes: {' and '.join(times)}"),
    ]
