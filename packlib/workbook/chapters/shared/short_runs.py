"""Live runs of notebook 07: small enough for seconds, and the same digits every time."""

import math
from copy import deepcopy

import numpy as np
import torch
from torch import nn

from packlib.batches import (
    MlmMasking,
    PackedBatch,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    sentence_pairs,
    tokenize,
    wordnet_tokenizer,
)
from packlib.lengths import wordnet_texts
from packlib.model import PackedBert, nsp_loss, token_loss
from packlib.workbook.chapters.n05_packed_attention.lesson import small_bert


def pair_loaders(number: int, seed: int) -> tuple[dict[str, PackLoader], list[PackedBatch], float]:
    """WordNet's sentence pairs in rows of 64, 16 a batch: padded and packed to train on, and 400 held out.

    Returns:
        The loaders by name, the held-out batches with the same masked tokens for every model, and the packing factor.
    """
    tokenizer, (examples, labels) = wordnet_tokenizer(), sentence_pairs(seed)
    some = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))[: number + 400]
    store = tokenize(
        tokenizer, wordnet_texts().definition[some], examples[some], labels[some], 64, "truncate"
    )
    collator = PackingCollator(64, MlmMasking.for_tokenizer(tokenizer, seed))

    def loader(part: TokenStore, depth: int | None, **options) -> PackLoader:
        packs = pack_lengths(part.lengths, 64, "lpfhp", depth, seed=seed)
        return pack_loader(part, packs, collator, 16, seed=seed, **options)

    train, held_out = store.take(np.arange(number)), store.take(np.arange(number, number + 400))
    loaders = {"padded": loader(train, 1), "packed": loader(train, None)}
    return loaders, list(loader(held_out, None, shuffle=False)), number / len(loaders["packed"].dataset)


def fresh_model(seed: int) -> PackedBert:
    """The small BERT of the last notebooks, in float64, with the same random weights each time."""
    return deepcopy(small_bert(2, seed))


def smooth(records: list[dict], every: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences and masked-token loss of a run, means of `every` updates; what is left at the end is dropped."""
    points = np.array([(record["sequences"], record["mlm_loss"]) for record in records])
    points = points[: len(points) // every * every].reshape(-1, every, 2).mean(1)
    return points[:, 0], points[:, 1]


def gradients(model: PackedBert, loader: PackLoader, number: int) -> torch.Tensor:
    """The gradients of `number` batches at the same weights, each as one long vector; shape (number, weights)."""
    found = []
    for batch, _ in zip(loader, range(number), strict=False):
        output = model(**batch)
        loss = token_loss(output, batch).mean + nsp_loss(output, batch).mean
        parts = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        found.append(torch.cat([part.flatten() for part in parts if part is not None]))
    return torch.stack(found)


def two_layers() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """Two small layers without biases, the second's weights ten times as large; inputs and targets."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
    with torch.no_grad():
        for layer, size in ((model[0], 0.5), (model[2], 5.0)):
            layer.weight *= size / layer.weight.norm()
    return model, torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)


def roll(optimizer: str, times: int, rate: float, betas=(0.9, 0.98), seed: int = 0) -> np.ndarray:
    """Mean loss of 400 runs down a bowl whose gradients are noisy, after each update; a batch `times` as large.

    The loss is Σ λᵢ wᵢ² / 2; the noise of a gradient falls with the root of the batch. All runs see as many
    samples. "adam" is without weight decay, its betas raised to the power of `times`.
    """
    curvature, rng = np.array([1.0, 0.5, 0.2, 0.1]), np.random.default_rng(seed)
    w, losses = np.full((400, 4), 3.0), []
    m, v = np.zeros_like(w), np.zeros_like(w)
    beta1, beta2 = (beta**times for beta in betas)
    for t in range(1, 480 // times + 1):
        losses.append((curvature * w**2).sum(1).mean() / 2)
        g = curvature * w + 6 * rng.standard_normal(w.shape) / math.sqrt(times)
        if optimizer == "sgd":
            w = w - rate * g
        else:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            w = w - rate * (m / (1 - beta1**t)) / np.sqrt(v / (1 - beta2**t))
    return np.array(losses)
