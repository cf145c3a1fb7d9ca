"""Masking depends on seed, epoch and sample alone, and has BERT's proportions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import masking, store, tokenizer

from packlib.batches import IGNORED, MlmMasking, TokenStore
from packlib.batches.masking import splitmix64


def test_splitmix64_gives_the_published_numbers():
    # the first outputs for seed 1234567 of the reference program (Vigna, splitmix64.c)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(splitmix64(1234567, step)[0]) for step in (1, 2, 3, 4)] == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 407), min_size=1, max_size=30), st.integers(0, 10**6), st.randoms())
def test_a_sample_is_masked_the_same_in_any_company(indices, epoch, random):
    together = masking()(store().take(indices), epoch)
    shuffled = random.sample(range(len(indices)), len(indices))
    other = masking()(store().take([indices[i] for i in shuffled]), epoch)
    for place, i in enumerate(shuffled):
        assert other[place]["input_ids"].tolist() == together[i]["input_ids"].tolist()
        mine = other.labels[other.offsets[place] : other.offsets[place + 1]]
        assert mine.tolist() == together.labels[together.offsets[i] : together.offsets[i + 1]].tolist()
        alone = masking()(store().take([indices[i]]), np.array([epoch]))
        assert alone.input_ids.tolist() == other[place]["input_ids"].tolist()
        assert alone.labels.tolist() == mine.tolist()


def test_seed_epoch_and_sample_each_change_the_draw():
    same = TokenStore.from_samples([store()[0]] * 2)  # one text under two sample ids
    labels = masking()(same).labels
    assert labels[: len(labels) // 2].tolist() != labels[len(labels) // 2 :].tolist()
    first = masking()(store(), 0).labels
    assert not np.array_equal(first, masking()(store(), 1).labels)
    assert not np.array_equal(first, MlmMasking.for_tokenizer(tokenizer(), seed=6)(store(), 0).labels)
    assert np.array_equal(first, masking()(store(), 0).labels)


def test_each_sequence_has_its_share():
    masked = masking()(store())
    labels = masked.labels
    special = np.isin(store().input_ids, masking().special_ids)
    assert (labels[special] == IGNORED).all()
    chosen = labels != IGNORED
    assert (labels[chosen] == store().input_ids[chosen]).all()
    assert (masked.input_ids[~chosen] == store().input_ids[~chosen]).all()
    for i in range(len(store())):
        span = slice(store().offsets[i], store().offsets[i + 1])
        candidates = int((~special[span]).sum())
        assert chosen[span].sum() == min(candidates, max(1, round(0.15 * candidates)))


def test_proportions_and_places_are_even():
    masked = masking()(TokenStore.from_samples([store()[i] for i in range(len(store()))] * 30))
    labels = masked.labels
    chosen = labels != IGNORED
    ids, old = masked.input_ids[chosen], labels[chosen]
    n = len(ids)
    is_mask, kept = ids == masking().mask_id, ids == old
    drawn = ~is_mask & ~kept
    for share, expected in ((is_mask, 0.8), (drawn, 0.1 * (1 - 1 / 3995)), (kept, 0.1 + 0.1 / 3995)):
        assert abs(share.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / n)
    assert not np.isin(ids[drawn], masking().special_ids).any()
    quarters = np.bincount(ids[drawn] * 4 // 4000, minlength=4) / drawn.sum()
    assert np.abs(quarters - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / drawn.sum())
    # every place of one text is chosen equally often
    copies = 4000
    text = TokenStore.from_samples([store()[int(store().lengths.argmax())]] * copies)
    hits = (masking()(text).labels != IGNORED).reshape(copies, -1)
    rates = hits.mean(0)[hits.any(0)]
    p = rates.mean()
    assert np.abs(rates - p).max() < 5 * np.sqrt(p * (1 - p) / copies)


def test_bad_masking_gets_one_sentence():
    with pytest.raises(ValueError, match=r"probability must be above 0 and at most 1, not 1\.5"):
        MlmMasking(0, 4, 100, (0,), probability=1.5)
    with pytest.raises(ValueError, match="All 3 tokens are special"):
        MlmMasking(0, 2, 3, (0, 1, 2))
    with pytest.raises(ValueError, match="seed must be at least 0"):
        MlmMasking(-1, 4, 100, (0,))
