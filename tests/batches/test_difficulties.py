"""Difficulties: the length of a sample, or any score."""

import numpy as np
import pytest
import torch

from packlib.batches import TokenStore, difficulties


def test_difficulty_is_length_or_any_score():
    rng = np.random.default_rng(5)
    plain = [{"input_ids": rng.integers(0, 1000, n)} for n in rng.integers(1, 61, 20)]
    lengths = [len(sample["input_ids"]) for sample in plain]
    assert difficulties(TokenStore.from_samples(plain)).tolist() == difficulties(plain).tolist() == lengths
    first = difficulties(plain, lambda sample: int(sample["input_ids"][0]))
    assert first.dtype == np.int64 and first.tolist() == [sample["input_ids"][0] for sample in plain]
    assert difficulties(plain, lambda sample: torch.tensor(0.5)).dtype == np.float64
    assert difficulties([]).shape == (0,)
    for value in (float("nan"), "long", [1, 2], None):
        nan = isinstance(value, float)
        said = "difficulty of sample 0 is NaN" if nan else "must be a whole number of 64 bits or a float, one a sample"
        with pytest.raises((TypeError, ValueError), match=said):
            difficulties(plain, lambda sample, value=value: value)
    with pytest.raises(ZeroDivisionError):
        difficulties(plain, lambda sample: 1 / 0)
