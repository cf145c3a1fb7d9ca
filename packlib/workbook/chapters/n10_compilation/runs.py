"""What notebook 10 runs: models that are compiled, a backend that says which graph ran, and when ranks compile."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForPreTraining

from packlib.batches import MlmMasking, PackedBatch, PackingCollator, pack_lengths, pack_loader, wordnet_tokenizer
from packlib.lengths import LengthHistogram
from packlib.model import PackedBert
from packlib.training.scaling import Buckets, CompileCounter
from packlib.workbook.chapters.shared.wordnet import wordnet_store

DEPTH, PREDICTIONS = 8, 20  # of the packs that are compiled


class Numbered:
    """A backend for torch.compile that numbers the graphs it gets, and notes which of them run.

    A graph runs as torch found it, operation by operation; or, if `real`, as inductor compiles it.
    """

    def __init__(self, real: bool = False) -> None:
        self.graphs, self.ran, self._real = 0, list[int](), real

    def __call__(self, graph: torch.fx.GraphModule, inputs: list):
        run = graph.forward
        if self._real:
            from torch._inductor.compile_fx import compile_fx

            run = compile_fx(graph, inputs)  # may raise, for torch to trace once more
        self.graphs += 1
        number = self.graphs

        def noted(*arguments):
            self.ran.append(number)
            return run(*arguments)

        return noted


@contextmanager
def torch_log() -> Iterator[list[str]]:
    """What torch writes to its log about graphs, first lines only, in place of showing it."""
    said, log = [], logging.getLogger("torch._dynamo.convert_frame")
    handler: Any = logging.Handler()
    propagate = log.propagate
    handler.emit = lambda record: said.append(record.getMessage().splitlines()[0])
    log.addHandler(handler)
    log.propagate = False
    try:
        yield said
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def config(max_length: int = 512) -> BertConfig:
    """One layer, 32 wide: what counts here is the graph, not its size."""
    return BertConfig(
        vocab_size=4000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=max_length, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def train_bert(lengths: Sequence[int], dynamic: bool | None, real: bool) -> tuple[list[int], CompileCounter]:
    """Forward and backward of a compiled BERT on a batch of each length; which graph each batch ran."""
    torch.compiler.reset()
    torch.manual_seed(0)
    backend = Numbered(real)
    model = torch.compile(BertForPreTraining(config()), backend=backend, dynamic=dynamic)
    with CompileCounter() as compiles:
        for length in lengths:
            ids, pairs = torch.ones(2, length, dtype=torch.int64), torch.tensor([0, 1])
            model(input_ids=ids, attention_mask=ids, labels=ids, next_sentence_label=pairs).loss.backward()
    return backend.ran, compiles


def bert(longest: int, max_predictions_per_pack: int | None = PREDICTIONS) -> PackedBert:
    """A packed BERT with random weights, the same each time."""
    torch.manual_seed(0)
    return PackedBert(config(longest), max_predictions_per_pack=max_predictions_per_pack).train()


def packed_batches(count: int, static: bool, seed: int, width: int = 128) -> list[PackedBatch]:
    """`count` batches of 4 packs of WordNet's definitions; `static` if all of their tensors have static shapes."""
    store = wordnet_store(progress=False)
    store = store.take(np.random.default_rng(seed).permutation(len(store))[: 60 * count])
    packs = pack_lengths(store.lengths, width, "optimal", DEPTH)
    places = {"max_sequences_per_pack": DEPTH, "max_predictions_per_pack": PREDICTIONS} if static else {}
    collator = PackingCollator(width, MlmMasking.for_tokenizer(wordnet_tokenizer()), **places)
    return list(pack_loader(store, packs, collator, 4, drop_last=True))[:count]


def edges_and_counts(histogram: LengthHistogram, pad_to_multiple_of: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """The lengths that a bucket may have, and how many sequences need each of them and no less."""
    used = np.flatnonzero(histogram.counts)
    edges = np.unique(np.minimum(-(-used // pad_to_multiple_of) * pad_to_multiple_of, histogram.max_length))
    return edges, np.diff(np.cumsum(histogram.counts)[edges], prepend=0)


def every_choice(histogram: LengthHistogram, k: int, pad_to_multiple_of: int = 8) -> tuple[int, int]:
    """The least slots of all choices of `k` lengths, each of them tried, and how many choices there are."""
    edges, counts = edges_and_counts(histogram, pad_to_multiple_of)
    below = np.cumsum(counts)
    inner = np.array(list(combinations(range(len(edges) - 1), k - 1)), np.int64).reshape(-1, k - 1)
    chosen = np.column_stack([inner, np.full(len(inner), len(edges) - 1)])
    slots = (edges[chosen] * np.diff(below[chosen], prepend=0)).sum(axis=1)
    return int(slots.min()), len(chosen)


def batch_shapes(histogram: LengthHistogram, buckets: Buckets, ranks: int, steps: int, seed: int) -> list:
    """Shapes of the batches of a run, dealt to ranks in turn: of each bucket at least one a rank, in random order."""
    used = np.flatnonzero(histogram.counts)
    inside = np.bincount(buckets.bucket_of(used), histogram.counts[used])
    rng, each = np.random.default_rng(seed), np.arange(len(inside)).repeat(ranks)
    drawn = rng.choice(len(inside), max(0, ranks * steps - len(each)), p=inside / inside.sum())
    return [(32, buckets.lengths[i]) for i in rng.permutation(np.append(each, drawn))]


def meets_new(shapes: Sequence, ranks: int) -> np.ndarray:
    """Whether a rank meets a shape for the first time; bool, shape (ranks, steps)."""
    new = np.zeros((ranks, -(-len(shapes) // ranks)), bool)
    for rank in range(ranks):
        seen = set()
        for step, shape in enumerate(shapes[rank::ranks]):
            new[rank, step] = shape not in seen
            seen.add(shape)
    return new


def changed_sizes(compiles: CompileCounter) -> dict[str, list[int]]:
    """What guards found of another size than an earlier graph was made for, with all sizes that they name.

    Torch calls what a function goes on with after a break `___stack0`; here that is the tokens to predict.
    """
    met: dict[str, set[int]] = {}
    for guard in (guard for one in compiles.compiles for guard in one.failed_guards):
        if found := re.search(r"tensor '(.*)' size mismatch at index \d+\. expected (\d+), actual (\d+)", guard):
            tensor, *sizes = found.groups()
            what = "tokens to predict" if "stack" in tensor else "sequences"
            met.setdefault(what, set()).update(map(int, sizes))
    return {what: sorted(sizes) for what, sizes in met.items()}
