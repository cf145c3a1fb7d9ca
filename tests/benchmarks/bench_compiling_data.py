"""For the benchmark of compiling: a model with static shapes, WordNet in buckets and in packs, empty caches."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig

from packlib.batches import (
    MlmMasking,
    PackDataset,
    PackedBatch,
    PackingCollator,
    TokenStore,
    pack_lengths,
    wordnet_tokenizer,
)
from packlib.model import PackedBert
from packlib.workbook.chapters.shared.wordnet import wordnet_store

LONGEST, ROWS, DEPTH = 48, 32, 8


class StaticBert(PackedBert):
    """Its MLM head works on a quarter of the slots, so that it too costs by the slot, and shapes are static."""

    def _predicted(self, masked: Tensor) -> Tensor:
        first = (~masked).flatten().int().argsort(stable=True)[: masked.numel() // 4]
        torch._assert_async(masked.sum() <= masked.numel() // 4)
        return torch.where(torch.arange(len(first), device=first.device) < masked.sum(), first, -1)


def bert(layers: int = 1, width: int = 128) -> StaticBert:
    """One layer, since compiling takes seconds for each."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
        intermediate_size=4 * width, max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return StaticBert(config).train()


def glosses(count: int) -> TokenStore:
    """`count` of WordNet's glosses with at most `LONGEST` tokens."""
    store = wordnet_store(progress=False)
    fits = np.flatnonzero(store.lengths <= LONGEST)
    return store.take(np.random.default_rng(0).permutation(fits)[:count])


def padded(store: TokenStore, edges: tuple[int, ...], rows: int = ROWS) -> list[PackedBatch]:
    """Batches of `rows` sequences, each padded to a bucket's length; what is left over goes to the next bucket."""
    masking, made, rest = MlmMasking.for_tokenizer(wordnet_tokenizer()), [], np.empty(0, np.int64)
    bucket = np.searchsorted(edges, store.lengths)
    for i, length in enumerate(edges):
        rest = np.concatenate([rest, np.flatnonzero(bucket == i)])
        while len(rest) >= rows:
            made.append(PackingCollator(length, masking)([(0, store.take([j])) for j in rest[:rows]]))
            rest = rest[rows:]
    return shuffled(made)


def packed(store: TokenStore) -> list[PackedBatch]:
    """Packs in batches of about as many sequences as the padded ones; the last is filled up from the first."""
    packs = pack_lengths(store.lengths, LONGEST, "optimal", DEPTH)
    rows = round(ROWS * len(packs) / len(store))
    collator = PackingCollator(LONGEST, MlmMasking.for_tokenizer(wordnet_tokenizer()), max_sequences_per_pack=DEPTH)
    data, order = PackDataset(store, packs), np.arange(len(packs))
    order = np.append(order, order[: -len(packs) % rows]).reshape(-1, rows)
    return shuffled([collator([data[int(i)] for i in some]) for some in order])


def shuffled(batches: list[PackedBatch]) -> list[PackedBatch]:
    return [batches[i] for i in np.random.default_rng(1).permutation(len(batches))]


@contextmanager
def empty_caches() -> Iterator[None]:
    """Nothing is compiled; but what is done once on a machine, such as trying its C++ compiler, is done."""
    from torch._inductor.utils import fresh_cache

    torch.compiler.reset()
    with fresh_cache():
        torch.compile(nn.Linear(4, 4))(torch.ones(2, 4)).sin().sum().backward()
        torch.compiler.reset()
        yield
