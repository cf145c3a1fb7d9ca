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

    The probability is a weighted mean of two shares: the token's share among the tokens that follow the token before it
    in `text`, and its share in all of `text`, with counts plus one. After a token that comes N times in `text`, with T
    different followers, the second share has the weight T / (N + T).

    Args:
        vocabulary: number of different tokens.

    Source: Witten and Bell 1991, "The zero-frequency problem", method C, on unigram frequencies.
    """
    (before, token), (held_before, held_token) = text, held_out
    unigram = np.bincount(token, minlength=vocabulary) + 1.0
    unigram /= unigram.sum()

    # how often each pair occurs; a pair is a number, the first token times the vocabulary plus the second
    pairs, times_of_pair = np.unique(before.astype(np.int64) * vocabulary + token, return_counts=True)
    times_before = np.bincount(before, minlength=vocabulary)  # N of the docstring, for each token
    # T for each token; 1 instead of 0, since a token that comes before no other would otherwise divide by 0
    different_followers = np.maximum(1, np.bincount(pairs // vocabulary, minlength=vocabulary))

    held_pairs = held_before.astype(np.int64) * vocabulary + held_token
    place = np.minimum(np.searchsorted(pairs, held_pairs), len(pairs) - 1)  # if `text` has the pair, it is there
    times_seen = np.where(pairs[place] == held_pairs, times_of_pair[place], 0)
    from_unigram = different_followers[held_before] * unigram[held_token]
    probability = (times_seen + from_unigram) / (times_before[held_before] + different_followers[held_before])
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
