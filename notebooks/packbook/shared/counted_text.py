"""The losses of counting tokens, without any training: baselines to compare the losses of trained models with."""

import numpy as np

Neighbors = tuple[np.ndarray, np.ndarray]  # each token before, and the token to predict; both have shape (pairs,)


def unigram_loss(text: Neighbors, held_out: Neighbors, vocabulary: int) -> float:
    """Return the mean loss in nats on `held_out` if a token's probability is its share in `text`, with counts plus one.

    Args:
        vocabulary: number of different tokens.
    """
    counts = np.bincount(text[1], minlength=vocabulary) + 1.0
    return float(-np.log(counts / counts.sum())[held_out[1]].mean())


def bigram_loss(text: Neighbors, held_out: Neighbors, vocabulary: int) -> float:
    """Return the mean loss in nats on `held_out` if a token's probability depends on the token before it.

    Pairs of tokens that `text` has are as probable as they are frequent in it. All other pairs with the same first
    token share a part of the probability that grows with the number of different followers of that token.

    Args:
        vocabulary: number of different tokens.

    Source: Witten and Bell 1991, "The zero-frequency problem", method C, on unigram frequencies.
    """
    (before, token), (held_before, held_token) = text, held_out
    unigram = np.bincount(token, minlength=vocabulary) + 1.0
    unigram /= unigram.sum()

    # how often each pair occurs; a pair is a number, the first token times the vocabulary plus the second
    pairs, times = np.unique(before.astype(np.int64) * vocabulary + token, return_counts=True)
    followers = np.maximum(1, np.bincount(pairs // vocabulary, minlength=vocabulary))  # different ones of each token
    total = np.bincount(before, minlength=vocabulary)

    held_pairs = held_before.astype(np.int64) * vocabulary + held_token
    nearest = np.minimum(np.searchsorted(pairs, held_pairs), len(pairs) - 1)
    times_seen = np.where(pairs[nearest] == held_pairs, times[nearest], 0)
    shared_part = followers[held_before] * unigram[held_token]
    probability = (times_seen + shared_part) / (total[held_before] + followers[held_before])
    return float(-np.log(probability).mean())


def neighbors(rows: np.ndarray, segment_ids: np.ndarray | None = None) -> Neighbors:
    """Return each token with the token before it in its row, and, with `segment_ids`, in its sequence.

    Args:
        rows: tokens, shape (rows, slots).
        segment_ids: same shape; 0 is padding.
    """
    in_one_sequence = np.ones(rows[:, 1:].shape, bool)
    if segment_ids is not None:
        in_one_sequence = (segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)
    return rows[:, :-1][in_one_sequence], rows[:, 1:][in_one_sequence]
