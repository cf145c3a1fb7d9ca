"""What notebook 06 computes: texts and a model for them, and the three means."""

from collections.abc import Sequence

import numpy as np
import torch

from packbook.shared.glosses import wordnet_texts
from packbook.shared.gradients import gradients
from packbook.shared.small_models import small_bert
from packbook.shared.wordnet import tokenized
from packlib.batches import (
    MlmMasking,
    PackedBatch,
    PackingCollator,
    TokenStore,
    pack_lengths,
    pack_loader,
    wordnet_tokenizer,
)
from packlib.model import PackedBert, token_loss
from packlib.packing import Packs


def glosses(number: int, seed: int) -> tuple[TokenStore, MlmMasking]:
    """Return `number` of WordNet's glosses as tokens, with usage examples where they have any, and their masking."""
    chosen = np.random.default_rng(seed).choice(len(wordnet_texts()), number, replace=False)
    return tokenized(chosen, seed, max_length=128), MlmMasking.for_tokenizer(wordnet_tokenizer(), seed)


def some_pairs(number: int, seed: int) -> list[tuple[str, str]]:
    """Return `number` definitions of WordNet, each with its usage examples, of at most 64 tokens together."""
    texts = wordnet_texts()
    short = np.flatnonzero((texts.pair_tokens > 0) & (texts.pair_tokens <= 64))
    rows = np.random.default_rng(seed).choice(short, number, replace=False)
    return list(zip(texts.definition[rows].tolist(), texts.examples[rows].tolist(), strict=True))


def trained(store: TokenStore, masking: MlmMasking, steps: int, seed: int) -> PackedBert:
    """Return a small BERT after `steps` updates on packs, so that its losses are not those of random weights."""
    model = small_bert(2, seed)
    loader = pack_loader(
        store, pack_lengths(store.lengths, 128, "lpfhp"), PackingCollator(128, masking), 16, seed=seed
    )
    optimizer, step = torch.optim.AdamW(model.parameters(), lr=3e-3), 0
    while step < steps:
        for batch, _ in zip(loader, range(steps - step), strict=False):  # an epoch, or what is missing
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
    return model


def pack_mean(losses: np.ndarray, counts: np.ndarray, packs: Packs) -> float:
    """Return the mean over packs of each pack's mean over tokens.

    Args:
        losses: the summed loss of each sequence, shape (sequences,).
        counts: predicted tokens of each sequence, same shape.
    """
    mean_of_pack = [losses[sequences].sum() / counts[sequences].sum() for sequences in packs]
    return float(np.mean(mean_of_pack))


def pack_gradients(model: PackedBert, batches: Sequence[PackedBatch]) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each batch, the gradient of the summed losses of its sequences, and how many sequences have a loss.

    Returns:
        Two arrays of shape (batches, parameters) and (batches,).
    """
    flat_gradients, counts = [], []
    for batch in batches:
        sums = token_loss(model(**batch), batch, "sequence")
        by_parameter = gradients(model, sums.total)
        flat_gradients.append(torch.cat([gradient.flatten() for gradient in by_parameter.values()]))
        counts.append(int(sums.count))
    return torch.stack(flat_gradients).numpy(), np.array(counts)


def weights(packs: list[list[int]]) -> dict[str, list[float]]:
    """Return the weight of each sequence in the mean over tokens, over sequences and over packs.

    Args:
        packs: for each pack, the predicted tokens of each of its sequences.
    """
    num_tokens, num_sequences = sum(map(sum, packs)), sum(map(len, packs))
    return {
        "token": [tokens / num_tokens for pack in packs for tokens in pack],
        "sequence": [1 / num_sequences for pack in packs for _ in pack],
        "pack": [tokens / sum(pack) / len(packs) for pack in packs for tokens in pack],
    }
