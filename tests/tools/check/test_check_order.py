"""`check_packing` asked what micro-batches change by their order: rates, the parameters behind the optimizer, skips."""

import math
from copy import deepcopy

import pytest
import torch
from check_cases import SEGMENTS, VOCABULARY, Tiny, dense
from check_later import count
from check_reports import SHORT
from check_table import checked
from torch import nn
from torch.nn import functional as F

BY_ORDER = "depends on the order of micro-batches"


def add_gradients(model, batches, then=None):
    """Add up the gradient of the mean over all labels; after each micro-batch `then` may do something."""
    for batch in batches:
        output = model(**batch)
        (output["loss"] * count([batch]) / count(batches)).backward()
        if then:
            then(output["loss"].item())


def accumulation(step, model=None):
    """Check a step on a small model of its own, which it is made of."""
    model = model or Tiny()
    return checked((model, dense(**SEGMENTS), SHORT, {"step": step(model)}))["accumulation"]


def rate_by(labels, optimizer=torch.optim.SGD):
    """Make a step whose rate follows the labels of the "last" micro-batch, or of "all"."""

    def with_model(model):
        one = optimizer(model.parameters(), lr=0.01)

        def step(model, batches):
            add_gradients(model, batches)
            counted = count(batches[-1:]) if labels == "last" else count(batches)
            one.param_groups[0]["lr"] = 0.01 * math.sqrt(counted / 10)
            one.step()
            one.zero_grad()

        return step

    return with_model


def scaled_by(losses, optimizer=torch.optim.SGD):
    """Make a step that scales a weight behind the optimizer by the "last" loss, or by the "largest" one."""

    def with_model(model):
        one = optimizer(model.parameters(), lr=0.001)

        def step(model, batches):
            seen = []
            add_gradients(model, batches, seen.append)
            one.step()
            one.zero_grad()
            with torch.no_grad():
                next(p for p in model.parameters() if p.dim() == 2).mul_(
                    0.5 / (seen[-1] if losses == "last" else max(seen))
                )

        return step

    return with_model


def skipping(if_last_is):
    """Make a step that skips an update whose last micro-batch has the "larger" loss of two, or the "smaller" one."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model, batches):
            seen = []
            add_gradients(model, batches, seen.append)
            if len(set(seen)) == 1 or (seen[-1] == max(seen)) != (if_last_is == "larger"):
                one.step()
            one.zero_grad()

        return step

    return with_model


def climbing_by(which, far=0.05):
    """Make a step of SAM, whose gradients are those at weights that are moved by "all" micro-batches, or the "last"."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)
        parameters = list(model.parameters())

        def step(model, batches):
            add_gradients(model, batches if which == "all" else batches[-1:])
            norm = torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()
            moves = [(p, far * p.grad / norm) for p in parameters if p.grad is not None]
            with torch.no_grad():
                for p, move in moves:
                    p += move
            one.zero_grad()
            add_gradients(model, batches)
            with torch.no_grad():
                for p, move in moves:
                    p -= move
            one.step()
            one.zero_grad()

        return step

    return with_model


@pytest.mark.parametrize("faulty", [
    rate_by("last"), rate_by("last", torch.optim.AdamW), scaled_by("last"), scaled_by("last", torch.optim.AdamW),
    skipping("larger"), skipping("smaller"), climbing_by("last"),
], ids=["rate", "rate of AdamW", "scaled", "scaled, AdamW", "larger", "smaller", "climbing"])  # fmt: skip
def test_what_the_last_micro_batch_decides_alone_is_found(faulty):
    found = accumulation(faulty)
    assert BY_ORDER in found.cause, found


def scheduled(each, rate=lambda count: 0.9**count, optimizer=torch.optim.SGD):
    """Make a step with a scheduler, which steps once in an update or with each micro-batch."""

    def with_model(model):
        one = optimizer(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(one, rate)

        def step(model, batches):
            add_gradients(model, batches, lambda loss: schedule.step() if each else None)
            one.step()
            one.zero_grad()
            if not each:
                schedule.step()

        return step

    return with_model


def test_a_schedule_that_counts_micro_batches_is_named():
    found = accumulation(scheduled(each=True))
    assert found.verdict == "inconclusive" and "The rate changes between micro-batches" in found.evidence, found


def newton_schulz(gradient):
    """Orthogonalize a gradient as Muon does."""
    x = gradient / (gradient.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x


def by_singular_vectors(gradient):
    left, _, right = torch.linalg.svd(gradient, full_matrices=False)
    return left @ right


def orthogonal(how):
    """Make a step that orthogonalizes the sum of gradients by hand."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model, batches):
            add_gradients(model, batches)
            for p in model.parameters():
                if p.grad is not None and p.dim() == 2:
                    p.grad = how(p.grad)
            one.step()
            one.zero_grad()

        return step

    return with_model


class Lion(torch.optim.Optimizer):
    """Moves each parameter by the sign of what momentum and gradient give."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    p -= group["lr"] * (0.9 * momentum + 0.1 * p.grad).sign()
                    momentum.mul_(0.99).add_(p.grad, alpha=0.01)


def plain(optimizer, **options):
    """Make a step of a right loop with an optimizer that is kept."""

    def with_model(model):
        one = optimizer(model.parameters(), lr=0.001, **options)

        def step(model, batches):
            add_gradients(model, batches)
            one.step()
            one.zero_grad()

        return step

    return with_model


def looking_back(every):
    """Make a step that returns half of the way after so many updates (Lookahead)."""

    def with_model(model):
        one = torch.optim.AdamW(model.parameters(), lr=0.001)
        slow = {p: p.detach().clone() for p in model.parameters()}
        calls = 0

        def step(model, batches):
            nonlocal calls
            add_gradients(model, batches)
            one.step()
            one.zero_grad()
            calls += 1
            if calls % every == 0:
                with torch.no_grad():
                    for p, its in slow.items():
                        p.copy_(its.add_(p - its, alpha=0.5))

        return step

    return with_model


def noisy(each, far=1e-3):
    """Make a step that draws noise for the gradients of each micro-batch, or of the update."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def add_noise(loss=None):
            for p in model.parameters():
                if p.grad is not None:
                    p.grad += far * p.grad.abs().mean() * torch.randn_like(p)

        def step(model, batches):
            add_gradients(model, batches, add_noise if each else None)
            add_noise()
            one.step()
            one.zero_grad()

        return step

    return with_model


RIGHT = {
    "rate": rate_by("all"), "scaled": scaled_by("largest"), "schedule": scheduled(each=False),
    "warm-up": scheduled(False, lambda count: count / 10),
    "warm-up of AdamW": scheduled(False, lambda count: (count + 1) / 10, torch.optim.AdamW),
    "SAM": climbing_by("all"), "SAM, far": climbing_by("all", 1.0), "Muon": orthogonal(newton_schulz),
    "Lion": plain(Lion), "every second": looking_back(2), "every third": looking_back(3),
    "every fifth": looking_back(5),
    "noise of each": noisy(True), "noise of the update": noisy(False),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_step_passes_in_either_order(name):
    found = accumulation(RIGHT[name])
    assert found.verdict == "passed", found


class Attending(nn.Module):
    """An attention whose biases of keys get a gradient of rounding alone, which AdamW makes as large as any other.

    Its inputs have eight numbers of their own, so that gradients of its weights have rank 8 of 24.
    """

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.wide = nn.Embedding(VOCABULARY, 8), nn.Linear(8, 24, bias=False)
        self.attention = nn.MultiheadAttention(24, 2, batch_first=True)
        self.out = nn.Linear(24, VOCABULARY)

    def forward(self, input_ids, segment_ids, labels=None, **others):
        same = segment_ids[:, :, None] == segment_ids[:, None]
        hidden = ~(same.tril() | torch.eye(same.shape[1], dtype=torch.bool)).repeat_interleave(2, 0)
        x = self.wide(self.tokens(input_ids))
        logits = self.out(x + self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0])
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        return {"logits": logits, "loss": F.cross_entropy(logits.transpose(1, 2), target)}


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop])
def test_gradients_of_rounding_alone_are_not_taken_for_an_order(optimizer):
    found = accumulation(plain(optimizer, eps=1e-16), Attending())
    assert found.verdict == "passed", found


def test_a_step_that_amplifies_rounding_is_not_accused():
    """Singular vectors of values near zero are rounding alone, and orthogonalized they weigh as much as others."""
    found = accumulation(orthogonal(by_singular_vectors), Attending())
    assert found.verdict == "inconclusive" and "rounding" in found.evidence, found


def orthogonal_each(model):
    """Make a step that orthogonalizes the gradient of each micro-batch, and adds these up."""
    one = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(model, batches):
        sums = {}
        for batch in batches:
            (model(**batch)["loss"] * count([batch]) / count(batches)).backward()
            for p in model.parameters():
                if p.grad is not None:
                    sums[p] = sums.get(p, 0) + (by_singular_vectors(p.grad) if p.dim() == 2 else p.grad)
                    p.grad = None
        for p, total in sums.items():
            p.grad = total
        one.step()
        one.zero_grad()

    return step


def test_what_amplifies_rounding_in_each_micro_batch_is_no_sum():
    found = accumulation(orthogonal_each, Attending())
    assert found.verdict == "failed", found


def momentum(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


@pytest.mark.parametrize("faulty", [scaled_by("last", momentum), rate_by("last", momentum)], ids=["scaled", "rate"])
def test_an_order_is_seen_through_a_growing_momentum(faulty):
    found = accumulation(faulty)
    assert BY_ORDER in found.cause, found


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, momentum])
def test_the_states_of_optimizers_are_put_back(optimizer):
    """A trainer that is checked goes on as if it had not been."""
    model = Tiny()
    one = optimizer(model.parameters(), lr=0.01)
    ids = torch.arange(1, 9)[None]
    model(input_ids=ids, segment_ids=torch.ones_like(ids), labels=ids)["loss"].backward()
    one.step()
    one.zero_grad()
    before = deepcopy(one.state_dict()["state"])

    def step(model, batches):
        add_gradients(model, batches)
        one.step()
        one.zero_grad()

    found = checked((model, dense(**SEGMENTS), SHORT, {"step": step}))
    assert found.exact, found
    after = one.state_dict()["state"]
    assert after.keys() == before.keys()
    for at, values in before.items():
        assert all(torch.equal(value, after[at][name]) for name, value in values.items())


def with_copies(model, factor=1.0, flat=False, each=False):
    """Make a step whose optimizer has weights in double precision, as Megatron keeps them, and clears the model's."""
    parameters = list(model.parameters())
    if flat:
        copies = [nn.Parameter(torch.cat([p.detach().double().flatten() for p in parameters]))]
    else:
        copies = [nn.Parameter(p.detach().double()) for p in parameters]
    one = torch.optim.AdamW(copies, lr=0.01)

    def apply(loss=None):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        if flat:
            gradients = [torch.cat([gradient.flatten() for gradient in gradients])]
        for copy, gradient in zip(copies, gradients, strict=True):
            copy.grad = factor * gradient.double()
        for p in parameters:
            p.grad = None
        one.step()
        values = copies[0].split([p.numel() for p in parameters]) if flat else copies
        with torch.no_grad():
            for p, value in zip(parameters, values, strict=True):
                p.copy_(value.view_as(p))

    def step(model, batches):
        if each:
            add_gradients(model, batches, apply)
        else:
            add_gradients(model, batches)
            apply()

    return step, copies


@pytest.mark.parametrize("flat", [False, True])
def test_an_optimizers_own_copies_of_parameters_are_put_back(flat):
    """They would come back into the model with the next update."""
    model = Tiny()
    step, copies = with_copies(model, flat=flat)
    before = [copy.detach().clone() for copy in copies]
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": step}))
    assert found["accumulation"].verdict == ("inconclusive" if flat else "passed"), found
    assert all(torch.equal(copy, value) for copy, value in zip(copies, before, strict=True))


@pytest.mark.parametrize(
    ("options", "cause"), [({"factor": 2.0}, "scaled by 2"), ({"each": True}, "each micro-batch")]
)
def test_what_is_applied_to_copies_is_weighed(options, cause):
    model = Tiny()
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": with_copies(model, **options)[0]}))
    assert cause in found["accumulation"].cause, found


def of_its_own_numbers(far, scaled=False):
    """Make a step that draws noise from a generator of its own, which nobody puts back.

    Args:
        scaled: whether it scales a weight by the last loss behind the optimizer.
    """

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)
        numbers = torch.Generator().manual_seed(0)

        def step(model, batches):
            seen = []
            add_gradients(model, batches, seen.append)
            for p in model.parameters():
                if p.grad is not None:
                    p.grad += far * p.grad.abs() * torch.randn(p.shape, generator=numbers)
            one.step()
            one.zero_grad()
            if scaled:
                with torch.no_grad():
                    next(p for p in model.parameters() if p.dim() == 2).mul_(0.99 + 0.01 / seen[-1])

        return step

    return with_model


@pytest.mark.parametrize("far", [0.01, 0.02])
def test_an_order_that_noise_may_hide_is_said_to_be_unknown(far):
    model = Tiny()
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": of_its_own_numbers(far)(model)}))
    assert found["accumulation"].verdict == "passed", found
    assert found["order of micro-batches"].verdict == "not asked", found
    assert "is not known" in found["order of micro-batches"].evidence, found
    assert found.exact is True


@pytest.mark.parametrize("far", [1e-5, 1e-4])
def test_an_order_that_changes_far_more_than_noise_is_found(far):
    found = accumulation(of_its_own_numbers(far, scaled=True))
    assert BY_ORDER in found.cause, found


@pytest.mark.parametrize("far", [0.006, 0.03])
def test_an_order_is_not_told_from_noise_that_goes_with_a_seed(far):
    """Calls with one seed are alike, and yet each micro-batch has the noise of its place."""
    found = checked((model := Tiny(), dense(**SEGMENTS), SHORT, {"step": noisy(True, far)(model)}))
    assert found["accumulation"].verdict == "passed", found
    assert "is not known" in found["order of micro-batches"].evidence, found


class Jittering(Tiny):
    """Draws noise while it trains, as a router that jitters does."""

    def forward(self, input_ids, **others):
        output = super().forward(input_ids, **others)
        if self.training and "loss" in output:
            output["loss"] = output["loss"] * (1 + 0.01 * torch.randn(()))
        return output


def test_noise_of_training_is_no_order():
    model = Jittering()
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": plain(torch.optim.SGD)(model)}))
    assert found["accumulation"].verdict == "passed", found
    assert "order of micro-batches" not in found.not_asked, found


def training(with_model):
    """Let a step set its model to train, as trainers do."""

    def trained(model):
        step = with_model(model)

        def in_training(model, batches):
            model.train()
            step(model, batches)

        return in_training

    return trained


def test_noise_of_a_model_that_a_step_lets_train_hides_no_order():
    """Of an update whose order is asked for, the model is kept from training: else noise would go with the order."""
    model = Jittering()
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": training(plain(torch.optim.SGD))(model)}))
    assert found["accumulation"].verdict == "passed", found
    assert "order of micro-batches" not in found.not_asked, found


def without_rate(which):
    """Make a step at the first rate of a warm-up, 0, that clips by the "last" micro-batch's loss, or by "all"."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.0)

        def step(model, batches):
            seen = []
            add_gradients(model, batches, seen.append)
            bound = 1e-3 * (seen[-1] if which == "last" else max(seen))
            nn.utils.clip_grad_norm_(model.parameters(), bound)
            one.step()
            one.zero_grad()

        return step

    return with_model


def test_an_order_is_found_where_the_rate_is_0():
    """No parameter changes there, and what is applied does."""
    assert BY_ORDER in accumulation(without_rate("last")).cause
    assert accumulation(without_rate("all")).verdict == "passed"


def drawing(size, own=False, shares="right"):
    """Make a step that adds noise to the sum of gradients, as differential privacy does.

    Args:
        size: of the noise, relative to the sum.
        own: whether it comes from a generator that nobody puts back.
        shares: "right", or "alike" for each micro-batch.
    """

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)
        numbers = torch.Generator().manual_seed(3) if own else None

        def step(model, batches):
            for batch in batches:
                share = count([batch]) / count(batches) if shares == "right" else 1 / len(batches)
                (model(**batch)["loss"] * share).backward()
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
            each = size * norm / sum(gradient.numel() for gradient in gradients) ** 0.5
            for gradient in gradients:
                gradient += each * torch.randn(gradient.shape, generator=numbers)
            one.step()
            one.zero_grad()

        return step

    return with_model


@pytest.mark.parametrize("own", [False, True], ids=["of a seed", "of its own generator"])
def test_noise_that_is_added_to_the_sum_is_called_noise(own):
    found = accumulation(drawing(0.2, own))
    assert found.verdict == "passed" and "adds noise of its own to their sum, 0.28 of what" in found.evidence, found
    found = accumulation(drawing(0.2, own, shares="alike"))
    assert "a mean of means" in found.cause, found


@pytest.mark.parametrize("own", [False, True], ids=["of a seed", "of its own generator"])
def test_large_noise_of_a_step_is_no_rounding_and_no_fault(own):
    found = accumulation(drawing(5, own))
    assert found.verdict == "inconclusive" and "The step draws noise of its own" in found.evidence, found
    assert "rounding" not in found.evidence and "kept from training" not in found.evidence


class OfRounding(torch.optim.SGD):
    """Moves parameters by the sign of what is rounded off their gradients."""

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                p -= self.param_groups[0]["lr"] * torch.sign(p.grad.double() * 3 - (p.grad * 3).double())


def running_mean(model, optimizer):
    """Make a step that keeps the mean over the labels so far, whose rounding goes with the order."""
    one = optimizer(model.parameters(), lr=0.001)

    def step(model, batches):
        means, seen = {}, 0
        for batch in batches:
            counted = count([batch])
            model(**batch)["loss"].backward()
            for p in model.parameters():
                if p.grad is not None:
                    mean = means.get(p, torch.zeros_like(p))
                    means[p] = mean + (p.grad - mean) * (counted / (seen + counted))
                    p.grad = None
            seen += counted
        for p, mean in means.items():
            p.grad = mean
        one.step()
        one.zero_grad()

    return step


def test_an_order_is_not_told_from_rounding_alone():
    model = Tiny()
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": running_mean(model, OfRounding)}))
    assert found["accumulation"].verdict == "passed", found
    assert "is not known" in found["order of micro-batches"].evidence, found


@pytest.mark.parametrize("name", sorted(RIGHT.keys() - {"schedule"}))
def test_an_order_that_changes_nothing_is_known(name):
    model = Tiny()
    found = checked((model, dense(**SEGMENTS), SHORT, {"step": RIGHT[name](model)}))
    assert "order of micro-batches" not in found.not_asked, found


class Biased(Tiny):
    """Counts the tokens of each call, by which a step moves a bias that nothing learns, as of experts."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.zeros(2))
        self.counted = torch.zeros(2)

    def forward(self, input_ids, **others):
        odd = (input_ids % 2).sum().float()
        self.counted = torch.stack([odd, input_ids.numel() - odd])
        return super().forward(input_ids, **others)


def moving_a_bias(by):
    """Make a step that moves the bias by the tokens of "all" micro-batches, of the "last", or of "each" after it."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model, batches):
            seen = []

            def after_each(loss):
                seen.append(model.counted)
                if by == "each":
                    model.bias.lerp_(model.counted, 0.1)

            add_gradients(model, batches, after_each)
            one.step()
            one.zero_grad()
            if by != "each":
                tokens = sum(seen) if by == "all" else seen[-1]
                model.bias += 0.01 * (tokens.mean() - tokens)

        return step

    return with_model


@pytest.mark.parametrize("by", ["all", "each", "last"])
def test_a_bias_that_the_last_micro_batch_moves_after_the_update_is_found(by):
    found = accumulation(moving_a_bias(by), Biased())
    if by != "last":
        assert found.verdict == "passed", found
    else:
        assert BY_ORDER in found.cause and "buffers or frozen parameters" in found.evidence, found


@pytest.mark.parametrize("factor", [0.97, 1.01, 1.03])
def test_a_factor_near_one_is_found(factor):
    """As where a count is too small by one for each micro-batch."""

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model, batches):
            for batch in batches:
                (factor * model(**batch)["loss"] * count([batch]) / count(batches)).backward()
            one.step()
            one.zero_grad()

        return step

    found = accumulation(with_model)
    assert f"{factor:g} times what it should be" in found.cause, found


@pytest.mark.parametrize(("copies", "words"), [(1, "It divides by all labels"), (2, "times what it should be")])
def test_labels_of_first_tokens_may_be_counted(copies, words):
    """transformers' Trainer counts labels before they are shifted; to count others twice is a fault."""
    rows = [{"input_ids": row["input_ids"] * 2} for row in SHORT]
    model = Tiny()
    one = torch.optim.SGD(model.parameters(), lr=0.01)

    def collate(some):
        batch = dense(**SEGMENTS)(some)
        batch["labels"][:, 0] = batch["input_ids"][:, 0]
        return batch

    def step(model, batches):
        total = sum(copies * int((batch["labels"] != -100).sum()) - (copies - 1) * count([batch]) for batch in batches)
        for batch in batches:
            (model(**batch)["loss"] * count([batch]) / total).backward()
        one.step()
        one.zero_grad()

    found = checked((model, collate, rows, {"step": step}))["accumulation"]
    assert words in found.evidence + found.cause, found


def smoothing(share, means=False):
    """Make a step whose loss is smoothed by so much, and not the model's.

    Args:
        means: whether it is a mean of means, and not right.
    """

    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model, batches):
            for batch in batches:
                logits = model(**batch)["logits"]
                target = F.pad(batch["labels"][:, 1:], (0, 1), value=-100)
                losses = F.cross_entropy(logits.transpose(1, 2), target, reduction="sum", label_smoothing=share)
                (losses / (count([batch]) * len(batches) if means else count(batches))).backward()
            one.step()
            one.zero_grad()

        return step

    return with_model


@pytest.mark.parametrize(("share", "means"), [(0.1, False), (0.9, True)], ids=["a little", "much, a mean of means"])
def test_a_loss_that_is_not_the_models_is_asked_for(share, means):
    """Else it would be called another scale, or a part that each micro-batch divides by what it holds."""
    found = accumulation(smoothing(share, means))
    assert found.verdict == "inconclusive" and "(label smoothing): pass it as loss" in found.evidence, found


class Smoothing(Tiny):
    """Divides the likelihood by a number that it is told, and label smoothing by its own labels."""

    def forward(self, input_ids, labels=None, told=None, **others):
        output = super().forward(input_ids, **others)
        if labels is not None:
            target = F.pad(labels[:, 1:], (0, 1), value=-100)
            logarithms = output["logits"].log_softmax(-1)
            asked = target != -100
            likelihood = logarithms.gather(-1, target.clamp(min=0)[..., None])[..., 0]
            smooth = logarithms.mean(-1)
            own = asked.sum()
            output["loss"] = -(0.6 * likelihood * asked).sum() / (own if told is None else told)
            output["loss"] = output["loss"] - (0.4 * smooth * asked).sum() / own
        return output


def test_a_part_of_the_loss_that_stays_a_mean_of_each_micro_batch_is_named():
    def with_model(model):
        one = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model, batches):
            for batch in batches:
                model(**batch, told=count(batches))["loss"].backward()
            one.step()
            one.zero_grad()

        return step

    found = accumulation(with_model, Smoothing())
    assert "a part of the loss is divided by what each micro-batch holds" in found.cause, found


class Dropping(Tiny):
    """Learns from no sequence of so many tokens or fewer."""

    def forward(self, input_ids, segment_ids, labels=None, **others):
        output = super().forward(input_ids, segment_ids=segment_ids, **others)
        if labels is not None:
            target = F.pad(labels[:, 1:], (0, 1), value=-100)
            tokens = (segment_ids[:, :, None] == segment_ids[:, None]).sum(-1)
            each = F.cross_entropy(output["logits"].transpose(1, 2), target, reduction="none")
            output["loss"] = (each * (tokens > 8)).sum() / (target != -100).sum()
        return output


def test_sequences_without_a_gradient_make_no_micro_batch_of_their_own():
    """As of GRPO, where all advantages of a group may be 0."""
    found = accumulation(plain(torch.optim.SGD), Dropping())
    assert found.verdict == "passed", found


class Picking(Tiny):
    """Learns no token whose id is a multiple of 3."""

    def forward(self, input_ids, labels=None, **others):
        output = super().forward(input_ids, **others)
        if labels is not None:
            target = F.pad(labels[:, 1:], (0, 1), value=-100)
            each = F.cross_entropy(output["logits"].transpose(1, 2), target, reduction="none")
            output["loss"] = (each * (target % 3 > 0)).sum() / (target != -100).sum()
        return output


@pytest.mark.parametrize("column", ["weights", "other", "turns", None])
def test_labels_that_a_column_gives_no_weight_are_not_lost(column):
    rows = [{**row, "labels": row["input_ids"]} for row in SHORT]
    for row in rows if column else []:
        row[column] = [float(token % 3 > 0 or column == "other") for token in row["input_ids"]]
        if column == "turns":
            row[column] = [[0], [0, 0]]  # of several lengths: no number for a token
    found = checked((Picking(), dense(**SEGMENTS), rows, {}))["labels"]
    if column == "weights":
        assert found.verdict == "passed" and "a column of the sequences is 0 there" in found.evidence, found
    else:
        assert "labels are lost" in found.cause, found
