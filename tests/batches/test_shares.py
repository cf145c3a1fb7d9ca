"""Difficulties on real ranks: each sees what one process sees."""

import numpy as np
import pytest
import torch

from packlib.batches import TokenStore, difficulties
from packlib.distributed import RankError, run_ranks


def store() -> TokenStore:
    """100 sequences of up to 60 random tokens."""
    rng = np.random.default_rng(5)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 61, 100))])
    tokens = rng.integers(0, 1000, offsets[-1])
    return TokenStore(tokens, np.zeros(len(tokens), np.uint8), offsets, np.zeros(100, np.int64))


def test_difficulty_is_length_or_any_score():
    data = store()
    assert np.array_equal(difficulties(data), data.lengths)
    plain = [data[i] for i in range(20)]
    assert np.array_equal(difficulties(plain), data.lengths[:20])
    first = difficulties(plain, lambda sample: int(sample["input_ids"][0]))
    assert first.dtype == np.int64 and first.tolist() == data.input_ids[data.offsets[:20]].tolist()
    assert difficulties(plain, lambda sample: torch.tensor(0.5)).dtype == np.float64
    assert difficulties([]).dtype == np.int64
    for value in (float("nan"), "long", [1, 2], None):
        said = "is NaN" if isinstance(value, float) else "must be a whole number of 64 bits or a float, not"
        with pytest.raises((TypeError, ValueError), match=f"difficulty of sample 0 {said}"):
            difficulties(plain, lambda sample, value=value: value)
    with pytest.raises(ZeroDivisionError):
        difficulties(plain, lambda sample: 1 / 0)


def _mean_token(sample):
    return float(np.mean(sample["input_ids"]))


def _found_by(rank):
    data, found = store(), {}
    found["lengths"] = difficulties(data).tolist()
    found["means"] = difficulties(data, _mean_token).tolist()
    with pytest.raises(RankError) as raised:  # on all ranks, though only the last one meets it
        difficulties([{"input_ids": [1]}] * 5 + [{}])
    found["error"] = str(raised.value)
    with pytest.raises(RankError) as raised:
        difficulties(data.take(range(10 + (rank == 1))))
    found["other length"] = str(raised.value)
    return found


@pytest.mark.slow
def test_three_ranks_score_as_one():
    means = difficulties(store(), _mean_token)
    for found in run_ranks(_found_by, 3):
        assert found["lengths"] == store().lengths.tolist()
        assert found["means"] == means.tolist()
        assert found["error"] == "Rank 2 of 3 raised KeyError: 'input_ids'"
        assert (
            found["other length"] == "num_samples must be the same on all ranks, but is 11 on rank 1 and 10 on rank 0."
        )
