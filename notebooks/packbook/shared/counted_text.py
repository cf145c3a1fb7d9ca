"""What counting tokens reaches without any training: losses to hold those of trained models against."""

import numpy as np

Neighbors = tuple[np.ndarray, np.ndarray]  # the tokens before, and the tokens to predict


def unigram_loss(text: Neighbors, held_out: Neighbors, vocabulary: int) -> float:
    """Return mean loss in nats on `held_out`, if each token is as probable as it is frequent in `text`, plus one."""
    counts = np.bincount(text[1], minlength=vocabulary) + 1.0
    return float(-np.log(counts / counts.sum())[held_out[1]].mean())


def bigram_loss(text: Neighbors, held_out: Neighbors, vocabulary: int) -> float:
    """Return the same, if each token is as probable as it is frequent after the token before it.

    Pairs that `text` does not have share a part of the probability, as large as that token has kinds of followers.

    Source: Witten and Bell 1991, "The zero-frequency problem", method C, on unigram frequencies.
    """
    (before, token), (held_before, held_token) = text, held_out
    share = np.bincount(token, minlength=vocabulary) + 1.0
    share /= share.sum()
    pairs, times = np.unique(before.astype(np.int64) * vocabulary + token, return_counts=True)
    kinds = np.maximum(1, np.bincount(pairs // vocabulary, minlength=vocabulary))
    total = np.bincount(before, minlength=vocabulary)
    held_out_pairs = held_before.astype(np.int64) * vocabulary + held_token
    place = np.minimum(np.searchsorted(pairs, held_out_pairs), len(pairs) - 1)
    times_seen = np.where(pairs[place] == held_out_pairs, times[place], 0)
    likely = (times_seen + kinds[held_before] * share[held_token]) / (total[held_before] + kinds[held_before])
    return float(-np.log(likely).mean())


def neighbors(rows: np.ndarray, segment_ids: np.ndarray | None = None) -> Neighbors:
    """Return each token with the one before it in its row, and with `segment_ids` in its sequence too."""
    in_one_sequence = np.ones(rows[:, 1:].shape, bool)
    if segment_ids is not None:
        in_one_sequence = (segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)
    return rows[:, :-1][in_one_sequence], rows[:, 1:][in_one_sequence]
