"""`check_packing` asked about updates: dropout in attentions, the mode that a step leaves, a router's share, sizes."""

from copy import deepcopy

import pytest
import torch
from check_cases import SEGMENTS, Tiny, dense
from check_fourth import Taught, teaching
from check_later import count
from check_reports import SHORT, Uncounted
from check_table import checked
from check_third import Dropping, Router
from torch import nn
from torch.nn import functional as F


class Drops(Uncounted):
    """An attention that drops half of its weights while the model trains.

    Args:
        how: how it says so: "named" or "by place" to torch's function, or in a "module" of torch.
    """

    def __init__(self, how):
        super().__init__("attention")
        self.how, self.module = how, nn.MultiheadAttention(24, 2, dropout=0.5, batch_first=True)

    def _attention(self, part, x, segments, same, wrong):
        if self.how == "module":
            return self.module(x, x, x, attn_mask=~same.repeat_interleave(2, 0), need_weights=False)[0]
        query, key, value, _ = part(x).chunk(4, -1)
        rate = 0.5 if self.training else 0.0
        if self.how == "by place":
            return F.scaled_dot_product_attention(query, key, value, same, rate)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=same, dropout_p=rate)


def wrong_in_training(model, batches):
    """An update that is a mean of means in training alone, so that it is right if the model is kept from training."""
    model.train()
    model.zero_grad()
    for batch in batches:
        share = 1 / len(batches) if model.training else count([batch]) / count(batches)
        (model(**batch)["loss"] * share).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


@pytest.mark.parametrize("how", ["named", "by place", "module"])
def test_dropout_of_an_attention_hides_no_fault_of_an_update(how):
    found = checked((Drops(how), dense(**SEGMENTS), SHORT, {"step": wrong_in_training}))
    assert "a mean of means" in found["accumulation"].cause, found


def evaluating_last(model, batches):
    """An update after which the model is evaluated, and trains again, as loops leave it."""
    model.zero_grad()
    for batch in batches:
        (model(**batch)["loss"] * count([batch]) / count(batches)).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.eval()
    with torch.no_grad():
        model(**batches[0])
    model.train()


def test_each_update_begins_in_the_mode_of_the_first():
    found = checked((Dropping("by token"), dense(**SEGMENTS), SHORT, {"step": evaluating_last}))
    assert found["next update"].verdict == "passed", found


def skipping_the_third(model, batches):
    """An update that holds nothing of its third micro-batch, after which the model trains."""
    evaluating_last(model, [batch for at, batch in enumerate(batches) if at != 2])


def test_a_step_that_leaves_the_model_training_hides_no_micro_batch_that_is_left_out():
    """Of two micro-batches none is; four are asked about after two were, and noise would hide what they weigh."""
    found = checked((Dropping("by token"), dense(**SEGMENTS), SHORT, {"step": skipping_the_third}))
    assert "a micro-batch is left out" in found["accumulation"].cause, found


class Averaged(Router):
    """A router whose z-loss each of two micro-batches adds a half of, whatever it holds."""

    def __init__(self, micro):
        super().__init__(scaled=False)
        self.micro = micro

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        odds = self.router(self.tokens(self.ids)).logsumexp(-1) ** 2
        mean = (odds * kept).sum() / kept.sum()
        if self.items is None:
            return each.sum() / kept.sum() + 0.5 * mean
        return each.sum() / self.items + 0.5 * mean / self.micro


def told_the_count(model, batches):
    model.zero_grad()
    for batch in batches:
        model(**batch, num_items_in_batch=count(batches))["loss"].backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_a_routers_loss_may_be_averaged_over_micro_batches():
    found = checked((Averaged(2), dense(**SEGMENTS), SHORT, {"step": told_the_count}))
    assert found["accumulation"].verdict == "passed", found
    summed = checked((Averaged(1), dense(**SEGMENTS), SHORT, {"step": told_the_count}))
    assert "is not shared out" in summed["accumulation"].cause, summed


def test_packs_are_no_batches_of_a_fixed_number_of_sequences():
    """A mean of means over sequences may be right in padded batches, of which each holds as many; not in packs."""
    found = checked((Tiny("attention", reduction="sequence"), dense(**SEGMENTS), SHORT, {"step": stepping_means}))
    assert "a mean of means" in found["accumulation"].cause, found


def stepping_means(model, batches):
    model.zero_grad()
    for batch in batches:
        (model(**batch)["loss"] / len(batches)).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def zeroing_in_place(model, batches):
    """A right update after which gradients are zeros in the same memory."""
    for batch in batches:
        (model(**batch)["loss"] * count([batch]) / count(batches)).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_that_are_zeros_after_the_step_were_applied_by_it(dtype):
    found = checked((Tiny().to(dtype), dense(**SEGMENTS), SHORT, {"step": zeroing_in_place}))
    assert found["accumulation"].verdict == found["next update"].verdict == "passed", found


@pytest.mark.parametrize("each", [True, False])
def test_a_teacher_that_a_step_moves_is_put_back(each):
    """It is no parameter that learns, and each update begins with the same one."""
    model = Taught()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": teaching(each)}))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert found["next update"].verdict == "passed", found
    if each:
        assert "parameters change inside the update" in found["accumulation"].cause
        assert "6 of 6 frozen parameters" in found["accumulation"].evidence, found
    else:
        assert found.exact is True, found


def applying_each_second(model, batches):
    """A step for two micro-batches, which has applied these when it fails with more."""
    model.zero_grad()
    for at, batch in enumerate(batches):
        if at == 2:
            raise ValueError("two micro-batches")
        (model(**batch)["loss"] * count([batch]) / count(batches[:2])).backward()
        if at == 1:
            torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_a_step_that_fails_after_its_update_leaves_the_weights():
    model = Uncounted("attention")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": applying_each_second}))
    assert found["accumulation"].verdict == "passed", found
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def clipped_apart(each):
    """An update whose two halves of the parameters are clipped apart, once or, wrongly, at each micro-batch."""

    def step(model, batches):
        parameters = [p for p in model.parameters() if p.requires_grad]
        halves = parameters[::2], parameters[1::2]
        model.zero_grad()
        sums = [torch.zeros_like(p) for p in parameters]
        for batch in batches:
            (model(**batch)["loss"] * count([batch]) / count(batches)).backward()
            if each:
                clip(halves)
                for p, total in zip(parameters, sums, strict=True):
                    total += p.grad
                    p.grad = None
        if each:
            for p, total in zip(parameters, sums, strict=True):
                p.grad = total
        else:
            clip(halves)
        torch.optim.SGD(parameters, lr=0.1).step()

    return step


def clip(halves):
    for half, most in zip(halves, (1e-3, 1e-4), strict=True):
        nn.utils.clip_grad_norm_(half, most)


def test_parts_of_a_model_may_be_clipped_apart_once_in_an_update():
    found = checked((Tiny(), dense(**SEGMENTS), SHORT, {"step": clipped_apart(False)}))
    assert found["accumulation"].verdict == "passed", found
    assert "the same for one micro-batch of all" in found["accumulation"].evidence
    found = checked((Tiny(), dense(**SEGMENTS), SHORT, {"step": clipped_apart(True)}))
    assert found["accumulation"].verdict == "failed", found


def test_a_micro_batch_that_is_left_out_is_found_where_parts_are_clipped_apart():
    def step(model, batches):
        clipped_apart(False)(model, [batch for at, batch in enumerate(batches) if at != 2])

    found = checked((Tiny(), dense(**SEGMENTS), SHORT, {"step": step}))
    assert found["accumulation"].verdict != "passed", found


def right(model, batches, optimizer=None, change=lambda model: None):
    """An update that is a mean over the labels, whose gradients are changed at the end."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    for batch in batches:
        (model(**batch)["loss"] * count([batch]) / count(batches)).backward()
    change(model)
    optimizer.step()


def test_a_step_that_trains_a_copy_of_the_model_fails():
    """What its optimizer applies to the copy is right, and the model that it was given learns nothing."""
    model = Uncounted("attention")
    copied = deepcopy(model)
    kept = torch.optim.AdamW(copied.parameters(), lr=0.1)
    for step in (
        lambda _, batches: right(copied, batches),
        lambda _, batches: right(copied, batches, kept),
        lambda given, batches: right(deepcopy(given), batches),
    ):
        found = checked((model, dense(**SEGMENTS), SHORT, {"step": step}))
        assert found["accumulation"].verdict == "failed", found
        assert "trains a copy of the model" in found["accumulation"].cause, found
        assert found["next update"].verdict == "not asked", found


def test_a_copy_whose_weights_go_back_to_the_model_is_no_fault():
    """Gradients of a copy are handed on to no parameter of the model, but the model learns all the same."""
    model = Uncounted("attention")
    copied = deepcopy(model)

    def step(given, batches):
        copied.load_state_dict(given.state_dict())
        right(copied, batches)
        given.load_state_dict(copied.state_dict())

    found = checked((model, dense(**SEGMENTS), SHORT, {"step": step}))
    assert found["accumulation"].verdict == found["next update"].verdict == "passed", found


def test_a_step_with_a_random_generator_of_its_own_is_inconclusive_and_says_why():
    numbers = torch.Generator().manual_seed(3)

    def add_noise(model):
        for p in model.parameters():
            if p.grad is not None:
                p.grad += 0.3 * p.grad.abs() * torch.randn(p.shape, generator=numbers)

    step = lambda model, batches: right(model, batches, change=add_noise)  # noqa: E731
    found = checked((Uncounted("attention"), dense(**SEGMENTS), SHORT, {"step": step}))
    assert found["next update"].verdict == "inconclusive", found
    assert "a random generator of its own" in found["next update"].evidence, found
