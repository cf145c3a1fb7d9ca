"""Notebook 11, what it costs: memory, 16 bits, and a small network that stalls."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from packlib.training import round_weights, stochastic_round
from packlib.training.scaling import SavedActivations, recompute
from packlib.workbook.figures import label_ends, new_figure, percent, series

Rows = list[dict[str, Any]]

ROUNDED = {  # how weights are held, and how their line looks
    "fp32": series("unpacked"),
    "master": series("buckets"),
    "stochastic": series("packed"),
    "nearest": series("random"),
}


# Memory


def saved_bytes(model: nn.Module, batch) -> list[int]:
    """Bytes that autograd keeps for the backward pass, with 0, 1, … layers computed twice."""
    found = []
    for layers in range(model.config.num_hidden_layers + 1):
        recompute(model, layers)
        with SavedActivations(model) as saved:
            model(**batch)
        found.append(saved.bytes)
    recompute(model, 0)
    return found


# 16 bits


def walk(rounding: str, updates: int, copies: int, step: float, seed: int) -> np.ndarray:
    """bfloat16 weights that begin at 1 and are lowered by `step` at each update; shape (updates + 1, copies)."""
    weights, generator = torch.ones(copies, dtype=torch.bfloat16), torch.Generator().manual_seed(seed)
    path = [weights]
    for _ in range(updates):
        lower = path[-1].float() - step
        nearest = rounding == "nearest"
        path.append(lower.bfloat16() if nearest else stochastic_round(lower, torch.bfloat16, generator))
    return torch.stack(path).float().numpy()


def train_small(rounding: str, updates: int, seed: int, rate: float = 3e-4) -> np.ndarray:
    """The losses of a small network under AdamW; its weights are FP32 ("fp32"), or bfloat16 and rounded so.

    Only weights and gradients have 16 bits; everything between them is computed in FP32.
    """
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    x = torch.randn(256, 8)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    network = network if rounding == "fp32" else network.bfloat16()
    optimizer, losses = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0), []
    if rounding != "fp32":
        round_weights(optimizer, rounding, seed)
    for _ in range(updates):
        weights = {name: p.float() for name, p in network.named_parameters()}
        loss = nn.functional.mse_loss(torch.func.functional_call(network, weights, (x,)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def draw_rounding(
    walks: dict[str, np.ndarray], step: float, live: dict[str, np.ndarray], rows: Rows
) -> tuple[Figure, str]:
    """One weight that is lowered by `step` at each update; the small network just trained; BERT as recorded."""
    fig, (first, left, right) = new_figure(1, 3)
    updates = np.arange(len(walks["nearest"]))
    exact = 1 - step * updates
    first.plot(updates, exact, **{**series("unpacked"), "marker": "", "linewidth": 4}, label="exact")
    for name, paths in walks.items():
        first.plot(updates, paths.mean(1), **{**ROUNDED[name], "marker": ""}, label=name)
    told = ", ".join(f"{name} {paths[-1].mean():.3f}" for name, paths in walks.items())
    words = []
    for name, look in ROUNDED.items():
        plain = {**look, "marker": "", "linewidth": 2 if name != "fp32" else 4}
        left.plot(live[name], **plain)
        found = [(r["update"], r["held-out MLM loss"]) for r in rows if r["weights"] == name]
        right.plot(*zip(*found, strict=True), **plain, label=name)
        words.append(f"{name} {live[name][-1]:.2f} and {found[-1][1]:.3f}")
    for ax, title in ((first, "One weight"), (left, "Live: a small net"), (right, "Recorded: BERT")):
        ax.set_title(title, fontsize=13)
        ax.set_xlabel("updates")
        ax.tick_params(labelsize=10)
    first.legend(loc="lower left", fontsize=10)
    right.legend(loc="upper right", fontsize=10)
    left.set_ylim(0, None)
    fig.suptitle("Nearest falls behind, the other ways agree", x=0.02, ha="left", fontsize=15)
    return fig, (
        f"A bfloat16 weight of 1, lowered by {step:.5f} at each of {updates[-1]} updates; at the end the mean of "
        f"{walks['stochastic'].shape[1]} copies is: {told}; exact {exact[-1]:.3f}. Losses at the end, of the small "
        f"network and of BERT: {'; '.join(words)}."
    )


def draw_trade(rows: Rows) -> tuple[Figure, str]:
    """The bubble of 4 stages and the underflow of FP16 gradients against accumulation, with and without scaling."""
    fig, ax = new_figure()
    rows = [row for row in rows if row["accumulation"] <= 4096]
    m = [row["accumulation"] for row in rows]
    scales = {float(key.split()[-1]): key for key in rows[0] if key.startswith("underflow")}
    bubbles, plain = ([100 * row[key] for row in rows] for key in ("bubble", scales[1.0]))
    (first,) = ax.loglog(m, bubbles, **series("packed"))
    (second,) = ax.loglog(m, plain, **series("random"))
    (third,) = ax.loglog(m, [100 * row[scales[max(scales)]] for row in rows], **series("sorted"))
    best = min(range(len(m)), key=lambda i: bubbles[i] + plain[i])
    ax.axvline(m[best], color="#999999", linestyle=":", zorder=0)
    ax.set(xlabel="accumulation, micro-batches", ylabel="%", ylim=(1e-3, 100))
    ax.set_xticks([1, 16, 256, 4096], [1, 16, 256, 4096])
    ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    ax.minorticks_off()
    scale = f"2^{np.log2(max(scales)):.0f}"
    ax.set_title(f"Unscaled, the two meet near {m[best]}; scaled, longer is better")
    label_ends({first: "bubble", second: "underflow", third: f"loss × {scale}"})
    at = {row["accumulation"]: row for row in rows}
    told = "; ".join(
        f"{k}: bubble {percent(at[k]['bubble'], 2)}, underflow {percent(at[k][scales[1.0]], 2)}, scaled "
        f"{percent(at[k][scales[max(scales)]], 3)}" for k in (8, 128, 512, 2048)
    )  # fmt: skip
    return (
        fig,
        f"By accumulation, {told}. Bubble and underflow add up to the least at {m[best]}, without scaling.",
    )
