"""LAMB against the paper's formulas, and against Adam where it is Adam."""

import numpy as np
import pytest
import torch
from model_cases import make_model

from packlib.training import Lamb, Recipe, make_optimizer, parameter_groups

SHAPES = [(7, 5), (5,), (3, 4, 2), (1,)]


def layers(seed=0, scale=0.5):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(scale * torch.randn(s, generator=generator, dtype=torch.float64)) for s in SHAPES]


def test_twenty_steps_as_the_paper_writes_them():
    """Algorithm 2 with bias correction, in NumPy; a weight of zero takes a plain step."""
    params = [*layers(), torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))]
    x = [p.detach().numpy().copy() for p in params]
    m, v = [np.zeros_like(a) for a in x], [np.zeros_like(a) for a in x]
    lr, (b1, b2), eps, decay = 0.03, (0.8, 0.95), 1e-6, 0.2
    optimizer = Lamb(params, lr, (b1, b2), eps, decay)
    rng = np.random.default_rng(0)
    for t in range(1, 21):
        for i, p in enumerate(params):
            g = rng.standard_normal(x[i].shape)
            p.grad = torch.from_numpy(g.copy())
            m[i] = b1 * m[i] + (1 - b1) * g
            v[i] = b2 * v[i] + (1 - b2) * g * g
            u = (m[i] / (1 - b1**t)) / (np.sqrt(v[i] / (1 - b2**t)) + eps) + decay * x[i]
            norm = np.sqrt((x[i] ** 2).sum())
            x[i] = x[i] - lr * (norm / np.sqrt((u**2).sum()) if norm else 1.0) * u
        optimizer.step()
    for p, expected in zip(params, x, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-11, atol=1e-13)


def test_without_the_ratio_it_is_adam():
    ours, theirs = layers(), layers()
    lamb = Lamb([{"params": ours, "adapt": False}], 0.01, (0.9, 0.99), 1e-6, 0.0)
    adam = torch.optim.Adam(theirs, 0.01, (0.9, 0.99), 1e-6)
    for step in range(20):
        for a, b, gradient in zip(ours, theirs, layers(seed=100 + step), strict=True):
            a.grad, b.grad = gradient.detach(), gradient.detach().clone()
        lamb.step()
        adam.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_a_late_layer_is_corrected_from_its_own_first_step():
    """Without a gradient a layer stands still, and its bias correction waits."""
    (late, early, *_), (fresh, *_) = layers(), layers()
    optimizer = Lamb([late, early])
    for _ in range(3):
        early.grad = torch.ones_like(early)
        optimizer.step()
    assert torch.equal(late, fresh)
    for p, one in ((late, optimizer), (fresh, Lamb([fresh]))):
        p.grad = torch.ones_like(p)
        one.step()
    assert torch.equal(late, fresh)


def test_weights_and_biases_are_layers_of_their_own_and_biases_and_norms_are_left_out():
    model = make_model("bert")
    weights, others = parameter_groups(model, 0.1)
    names = {id(p): name for name, p in model.named_parameters()}
    assert all(names[id(p)].endswith("weight") and "LayerNorm" not in names[id(p)] for p in weights["params"])
    assert all("bias" in names[id(p)] or "LayerNorm" in names[id(p)] for p in others["params"])
    assert len(weights["params"]) + len(others["params"]) == len(names)
    assert (weights["weight_decay"], others["weight_decay"], others["adapt"]) == (0.1, 0.0, False)


def test_a_recipe_makes_its_optimizer():
    recipe = Recipe(8, 0.003, 100, betas=(0.7, 0.8), weight_decay=0.2, optimizer="lamb")
    optimizer = make_optimizer(make_model("bert"), recipe)
    assert isinstance(optimizer, Lamb) and [g["adapt"] for g in optimizer.param_groups] == [True, False]
    first = optimizer.param_groups[0]
    assert (first["lr"], first["betas"], first["weight_decay"]) == (0.003, (0.7, 0.8), 0.2)
    adamw = make_optimizer(make_model("bert"), Recipe(8, 0.003, 100))
    assert type(adamw) is torch.optim.AdamW
    assert optimizer.defaults["eps"] == adamw.defaults["eps"] == 1e-6, "with which the recorded runs were made"


def test_a_closure_is_called_with_gradients():
    (p,) = layers()[:1]
    optimizer = Lamb([p])

    def closure():
        loss = (p**2).sum()
        loss.backward()
        return loss

    before = float((p.detach() ** 2).sum())
    assert float(optimizer.step(closure).detach()) == before > float((p.detach() ** 2).sum())


def test_bad_settings_get_one_sentence():
    for match, settings in {
        r"^lr must be at least 0, not -1\.$": {"lr": -1},
        r"^eps must be at least 0, not nan\.$": {"eps": float("nan")},
        r"^weight_decay must be at least 0, not -0\.1\.$": {"weight_decay": -0.1},
        r"^beta2 must be at least 0 and below 1, not 1\.0\.$": {"betas": (0.9, 1.0)},
    }.items():
        with pytest.raises(ValueError, match=match):
            Lamb(layers(), **settings)
    frozen = make_model("bert").requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that needs a gradient"):
        parameter_groups(frozen, 0.1)
    table = torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="needs dense gradients"):
        Lamb(table.parameters()).step()


@pytest.mark.parametrize("weights", [0.0, 2.0])
@pytest.mark.parametrize("gradient", [0.0, 3.0])
def test_where_a_norm_is_zero_the_ratio_is_one(weights, gradient):
    """A layer without gradient and decay stays as it is; one of zeros gets Adam's step."""
    layer = torch.full((3, 2), weights, requires_grad=True)
    layer.grad = torch.full((3, 2), gradient)
    optimizer = Lamb([layer], lr=0.5, eps=0.0 if gradient else 1e-6, weight_decay=0.0)
    optimizer.step()
    ratio = weights if weights and gradient else 1.0  # Adam's first step is 1 for each weight
    assert optimizer.state[layer]["trust_ratio"] == pytest.approx(ratio)
    assert layer.detach().tolist() == [[pytest.approx(weights - 0.5 * ratio * (gradient > 0))] * 2] * 3
