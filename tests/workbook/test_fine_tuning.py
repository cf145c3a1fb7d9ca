"""Notebook 15: what a token weighs, beside a loss that is added up as the way says."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from packlib.workbook.chapters.n15_fine_tuning import lesson, runs

ANSWERS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12)


def added_up(way, losses, groups, parts, constant):
    """The loss of an update in so many words; `losses` holds a tensor for each answer."""
    if way == "constant":
        return torch.cat(losses).sum() / constant
    if way == "token":
        return torch.cat(losses).mean()
    belongs = {"sequence": range(len(losses)), "group": groups}.get(way, parts)
    means = [torch.cat([one for one, its in zip(losses, belongs, strict=True) if its == name]).mean()
             for name in set(belongs)]  # fmt: skip
    return torch.stack(means).mean()


@pytest.mark.parametrize("way", runs.WAYS)
@given(ANSWERS)
def test_a_weight_is_the_slope_of_the_loss(way, answers):
    lengths, groups, parts = map(list, zip(*answers, strict=True))
    groups, parts = (np.unique(names, return_inverse=True)[1].tolist() for names in (groups, parts))
    losses = [torch.zeros(length, dtype=torch.float64, requires_grad=True) for length in lengths]
    added_up(way, losses, groups, parts, 50.0).backward()
    for one, weight in zip(losses, runs.token_weights(way, lengths, groups, parts, 50.0), strict=True):
        assert torch.allclose(one.grad, torch.full_like(one, weight), rtol=1e-12)


def test_lengths_fit_into_rows_and_rollouts_meet_the_published_figures():
    rollouts = runs.reconstructed_rollouts(20, 5, 256, seed=0)
    for chats in (runs.real_chats(256), rollouts):
        assert chats.lengths.max() <= 256 and chats.read.min() >= 1 and chats.predicted.min() >= 1
    assert (np.bincount(rollouts.groups) == 5).all()
    answers = runs.reconstructed_rollouts(10_000, 4, 10**9, seed=1).predicted
    assert np.mean(answers < 8_000) == pytest.approx(3 / 4, abs=0.01)
    assert np.mean(answers > 16_000) == pytest.approx(1 / 8, abs=0.01)


ROW = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.booleans(), min_size=6, max_size=6)), min_size=1, max_size=4
)  # for each sequence its length, and which of its tokens have a label


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(1, 4))
def test_the_solution_adds_up_to_the_mean_over_sequences_however_rows_are_dealt(rows, micro_batches):
    labels, segments, wanted = [], [], []
    for row in rows:
        target, owner, mean = [], [], []
        for number, (length, labeled) in enumerate(row, start=1):
            target += [9 if has else -100 for has in labeled[:length]]
            owner += [number] * length
            slots = [len(mean) + t for t in range(length - 1) if labeled[t + 1]]
            mean += [1 / len(slots) if len(mean) + t in slots else 0.0 for t in range(length)]
        labels.append([*target, -100])
        segments.append([*owner, 0])
        wanted.append([*mean, 0.0])
    count = round(sum(map(sum, wanted)))
    for first in range(micro_batches):
        part = slice(first, None, micro_batches)
        for got, right in zip(lesson.slot_weights(labels[part], segments[part], count), wanted[part], strict=True):
            assert got == pytest.approx([one / max(1, count) for one in right])
