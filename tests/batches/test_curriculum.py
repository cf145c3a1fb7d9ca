"""Difficulties; the length warm-up: its formula, and that reshaping loses and mixes nothing; the blank pass."""

from contextlib import nullcontext
from copy import deepcopy
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from packlib.batches import IGNORED, SequenceLengthWarmup, TokenStore, difficulties, shorten, warm_memory


def test_difficulty_is_length_or_any_score():
    plain = [{"input_ids": [length] * length} for length in (5, 1, 3)]
    assert difficulties(TokenStore.from_samples(plain)).tolist() == difficulties(plain).tolist() == [5, 1, 3]
    first = difficulties(plain, lambda sample: -sample["input_ids"][0])
    assert first.dtype == np.int64 and first.tolist() == [-5, -1, -3]
    assert difficulties(plain, lambda sample: torch.tensor(0.5)).dtype == np.float64
    assert difficulties([]).shape == (0,)
    with pytest.raises(ValueError, match="difficulty of sample 0 is NaN"):
        difficulties(plain, lambda sample: float("nan"))
    for value in ("long", [1, 2], None):
        with pytest.raises(TypeError, match="must be a whole number of 64 bits or a float, one a sample"):
            difficulties(plain, lambda sample, value=value: value)


@given(st.floats(0, 1), st.integers(1, 50), st.integers(0, 200), st.integers(1, 40), st.integers(1, 500))
def test_the_warm_up_keeps_its_promises(duration, low, more, step, total):
    warmup = SequenceLengthWarmup(duration, low, low + more, step)
    lengths = [warmup.length(done, total) for done in range(total + 1)]
    over = round(duration * total)
    assert lengths == sorted(lengths)
    assert lengths[over:] == [low + more] * (total + 1 - over)  # at its end, whatever was before
    if over:
        assert lengths[0] == low
        if more:
            assert max(lengths[:over]) < low + more  # and not earlier
    assert all(length in (low, low + more) or length % step == 0 for length in lengths)
    assert set(lengths) <= set(warmup.lengths)


def test_each_length_has_an_equal_share():
    """In exact numbers: the largest length of the straight line from the first to the last."""
    for total, low, high, step in ((100, 8, 64, 8), (7, 64, 512, 64), (1000, 8, 1024, 8)):
        warmup, lengths = SequenceLengthWarmup(1.0, low, high, step), range(low, high + 1, step)
        for done in range(total):
            line = low + Fraction(done * (high - low), total)
            assert warmup.length(done, total) == max(length for length in lengths if length <= line)


BY_TOKEN = {"input_ids": 7, "labels": IGNORED, "attention_mask": 0, "position_ids": 0}  # and what fills a piece
rows = given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 35), st.booleans(), st.booleans())


def ragged(lengths, width, left=False):
    """Make a padded batch in which no two tokens are equal, so that one in a wrong place is seen."""
    positions = torch.arange(width).expand(len(lengths), width).clone()
    mask = (positions < torch.tensor(lengths)[:, None]).long()
    mask = mask.flip(1) if left else mask
    kind = torch.arange(len(lengths))
    ids = (positions + 1 + 100 * (kind[:, None] + 1)) * mask
    labels = torch.where(mask > 0, ids + 5, IGNORED)
    by_token = {"input_ids": ids, "labels": labels, "attention_mask": mask, "position_ids": positions}
    return {**by_token, "kind": kind, "name": "a batch", "number": torch.tensor(3)}


@rows
def test_reshaping_keeps_every_token_in_its_row_and_order(lengths, length, left, masked):
    batch = ragged(lengths, 30, left)
    if not masked:
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    out = shorten(batch, length, truncate=False, pad_id=7)
    if length >= 30:
        assert out is batch
        return
    pieces = [(row, slice(at, at + length)) for row in range(len(lengths)) for at in range(0, 30, length)]
    pieces = [(row, at) for row, at in pieces if batch["attention_mask"][row, at].any()]
    for name, fill in BY_TOKEN.items():
        padded = torch.nn.functional.pad(batch[name], (0, length), value=fill)
        assert out[name].tolist() == [padded[row, at].tolist() for row, at in pieces]
    assert out["kind"].tolist() == [row for row, _ in pieces]
    assert out["name"] == "a batch" and out["number"] == 3


@rows
def test_truncating_drops_the_rest_and_may_keep_the_end(lengths, length, left, keep_end):
    batch = ragged(lengths, 30, left)
    before = deepcopy(batch)
    out = shorten(batch, length, keep_end=keep_end)
    for row, n in enumerate(lengths):
        end = 30 if left else n
        for name in BY_TOKEN:
            expected = before[name][row, :length].tolist()
            if keep_end and end > length and name != "position_ids":
                expected[-1] = int(before[name][row, end - 1])
            assert out[name][row].tolist() == expected
    assert out["kind"].tolist() == list(range(len(lengths)))
    assert all(torch.equal(batch[name], before[name]) for name in BY_TOKEN), "the given batch stays"


def test_without_a_mask_the_end_is_the_last_slot():
    ids = torch.arange(20).view(2, 10)
    out = shorten({"input_ids": ids}, 4, keep_end=True)
    assert out["input_ids"].tolist() == [[0, 1, 2, 9], [10, 11, 12, 19]]


def test_the_warm_up_applies_what_is_due():
    batch = ragged([12, 3], 12)
    warmup = SequenceLengthWarmup(0.5, 2, 12, 2, truncate=False)
    for done, length in ((0, 2), (3, 6), (5, 10), (6, 12), (11, 12)):
        assert warmup(batch, done, 12)["input_ids"].shape[1] == length
    end = SequenceLengthWarmup(0.5, 2, 12, 2, keep_end=True)(batch, 0, 12)
    assert end["input_ids"].tolist() == [[101, 112], [201, 203]]


def test_bad_input_gets_one_sentence():
    ids = torch.zeros(2, 10, dtype=torch.int64)
    for match, call in {
        "duration must be at least 0 and at most 1, not 1.5": lambda: SequenceLengthWarmup(1.5, 8, 64, 8),
        "max_length must be at least 8, not 4": lambda: SequenceLengthWarmup(0.3, 8, 4, 8),
        "keep_end is for truncate=True": lambda: SequenceLengthWarmup(0.3, 8, 64, 8, truncate=False, keep_end=True),
        "labels has the shape .2, 9.; input_ids has": lambda: shorten({"input_ids": ids, "labels": ids[:, :9]}, 4),
        "Rows of 10 do not .* by 4, .* an attention_mask": lambda: shorten({"input_ids": ids}, 4, truncate=False),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="keep_end must be True or False, not 'no'"):
        shorten({"input_ids": ids}, 4, keep_end="no")


class Noisy(nn.Module):
    """All that a blank pass could leave behind: dropout, BatchNorm's statistics, a buffer that is replaced."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
        self.register_buffer("calls", torch.zeros(1), persistent=False)
        self.register_buffer("nothing", None)

    def forward(self, x):
        self.calls = self.calls + 1
        return self.dropout(self.norm(self.linear(x)))


@pytest.mark.parametrize("with_gradients, fails", [(False, False), (True, True)])
def test_a_blank_pass_leaves_everything_as_it_was(with_gradients, fails):
    torch.manual_seed(1)
    model, x = Noisy(), torch.randn(8, 4)
    if with_gradients:
        model(x).square().sum().backward()
    gradients, buffers = [parameter.grad for parameter in model.parameters()], dict(model.named_buffers())
    before = deepcopy((gradients, buffers, model.state_dict()))
    random, passes = torch.get_rng_state(), []

    def loss(model, batch):
        out = model(batch["x"])
        passes.append(model.calls.item())
        assert not torch.equal(torch.get_rng_state(), random)  # dropout drew
        if fails:
            raise MemoryError("as a GPU would say")
        return out.square().sum()

    with pytest.raises(MemoryError) if fails else nullcontext():
        warm_memory(model, {"x": x}, loss)
    assert passes == [1.0 + with_gradients]
    assert torch.equal(torch.get_rng_state(), random)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad is gradient
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())
    assert str((gradients, buffers, model.state_dict())) == str(
        before
    )  # torch prints every value of such small tensors


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_blank_pass_on_a_gpu_leaves_its_random_numbers():
    model, x = Noisy().cuda(), torch.randn(8, 4, device="cuda")
    random = torch.cuda.get_rng_state()
    warm_memory(model, {"x": x}, lambda model, batch: model(batch["x"]).square().sum())
    assert torch.equal(torch.cuda.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.norm.num_batches_tracked == 0
