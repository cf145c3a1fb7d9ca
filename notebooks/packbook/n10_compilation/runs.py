"""What notebook 10 runs: models that are compiled, a backend that says which graph ran, and when ranks compile."""

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from transformers import BertConfig

from packbook.n10_compilation.buckets import Buckets
from packbook.n10_compilation.buckets import choose_buckets as choose_buckets
from packbook.n10_compilation.buckets import edges_and_counts as edges_and_counts
from packbook.shared.small_models import small_gpt as small_gpt
from packbook.shared.wordnet import wordnet_store
from packlib.batches import (
    IGNORED,
    MlmMasking,
    PackedBatch,
    PackingCollator,
    pack_lengths,
    pack_loader,
    wordnet_tokenizer,
)
from packlib.batches.curriculum import warm_memory
from packlib.lengths import LengthHistogram
from packlib.model import PackedBert

DEPTH, PREDICTIONS = 8, 20  # of the packs that are compiled


class Numbered:
    """A backend for torch.compile that numbers the graphs it gets, and notes which of them run.

    A graph runs as torch found it, operation by operation; or, if `real`, as inductor compiles it.
    """

    def __init__(self, real: bool = False) -> None:
        self.operations, self.ran, self._real = list[int](), list[int](), real

    def __call__(self, graph: torch.fx.GraphModule, inputs: list):
        run = graph.forward
        if self._real:
            from torch._inductor.compile_fx import compile_fx

            run = compile_fx(graph, inputs)  # may raise, for torch to trace once more
        self.operations.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        number = len(self.operations)

        def noted(*arguments):
            self.ran.append(number)
            return run(*arguments)

        return noted


@contextmanager
def torch_log() -> Iterator[list[str]]:
    """Capture torch's log about recompiles and their limit instead of showing it."""
    messages, log, handler = list[str](), logging.getLogger("torch._dynamo"), cast(Any, logging.Handler())
    handler.emit = lambda record: messages.append(record.getMessage())
    torch._logging.set_logs(recompiles=True)
    log.handlers = [handler]
    try:
        yield messages
    finally:
        torch._logging.set_logs()


def failed_guards(message: str) -> list[str]:
    """Return the guards that a recompile names in torch's log, one of each graph before, the latest first."""
    return re.findall(r"- \d+/\d+: (.*)", message)


def config(max_length: int = 512) -> BertConfig:
    """Return one layer, 32 wide: what counts here is the graph, not its size."""
    return BertConfig(
        vocab_size=4000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=max_length, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def bert(longest: int, max_predictions_per_pack: int | None = PREDICTIONS) -> PackedBert:
    """Return a packed BERT with random weights, the same each time."""
    torch.manual_seed(0)
    return PackedBert(config(longest), max_predictions_per_pack=max_predictions_per_pack).train()


def blank_batch(rows: int, length: int) -> PackedBatch:
    """Make a padded batch to warm up with: full rows of token 0, one sequence each, its first token to be predicted."""
    ids = torch.zeros(rows, length, dtype=torch.int64)
    labels = torch.full_like(ids, IGNORED)
    labels[:, 0] = 0
    return PackedBatch(input_ids=ids, segment_ids=ids + 1, labels=labels, sequence_labels=torch.zeros_like(ids[:, 0]))


def compile_for_shapes(model: nn.Module, batches: Sequence[PackedBatch], backend: str | Callable = "inductor") -> dict:
    """Make a static graph for the shape of each batch now, the largest first; another shape is an error from then on.

    Without gradients, as in an evaluation, the model runs as before.

    Returns:
        By shape, the seconds that it took.
    """
    bare = getattr(model, "module", model)  # within DistributedDataParallel
    eager, graphs, seconds = bare._call_impl, dict[tuple, Callable](), dict[tuple, float]()

    def call(**batch):
        if not torch.is_grad_enabled():
            return eager(**batch)
        shape = tuple(batch["input_ids"].shape)
        if shape not in graphs:
            shapes = ", ".join(map(str, graphs))
            raise ValueError(f"A batch has the shape {shape}: graphs were made for {shapes}.")
        with torch.compiler.set_stance("default" if shape not in seconds else "fail_on_recompile"):
            return graphs[shape](**batch)

    bare._compiled_call_impl = call  # as nn.Module.compile does
    for batch in sorted(batches, key=lambda batch: -batch["input_ids"].numel()):
        shape = tuple(batch["input_ids"].shape)

        def run(**batch):
            return eager(**batch)

        run.__code__ = run.__code__.replace(co_name="shape_{}x{}".format(*shape))  # torch's limit counts by function
        graphs[shape] = torch.compile(run, backend=backend, dynamic=False, fullgraph=True)
        start = time.perf_counter()
        warm_memory(model, batch)  # forward and backward; gradients and random numbers stay as they were
        seconds[shape] = time.perf_counter() - start
    return seconds


def onset(batches: Sequence, ranks: int) -> list[int]:
    """Return indices of batches, given by their lengths: of each one batch a rank, the longest first; then the rest."""
    first: list[int] = []
    for size in sorted(set(batches), reverse=True):
        first += [i for i, batch in enumerate(batches) if batch == size][:ranks]
    return [*first, *(i for i in range(len(batches)) if i not in first)]


def packed_batches(count: int, static: bool, seed: int, width: int = 128) -> list[PackedBatch]:
    """Make `count` batches of 4 packs of WordNet's definitions; `static` if all of their tensors have static shapes."""
    store = wordnet_store(progress=False)
    store = store.take(np.random.default_rng(seed).permutation(len(store))[: 60 * count])
    packs = pack_lengths(store.lengths, width, "optimal", DEPTH)
    static_sizes = {"max_sequences_per_pack": DEPTH, "max_predictions_per_pack": PREDICTIONS} if static else {}
    collator = PackingCollator(width, MlmMasking.for_tokenizer(wordnet_tokenizer()), **static_sizes)
    return list(pack_loader(store, packs, collator, 4, drop_last=True))[:count]


def definitions(count: int, seed: int) -> list[dict[str, list[int]]]:
    """Return WordNet's definitions as rows of tokens, drawn at random."""
    store = wordnet_store(progress=False)
    drawn = store.take(np.random.default_rng(seed).permutation(len(store))[:count])
    return [{"input_ids": sample["input_ids"].tolist()} for sample in drawn]


def batch_lengths(histogram: LengthHistogram, buckets: Buckets, ranks: int, steps: int, seed: int) -> list[int]:
    """Draw the lengths of a run's batches, dealt to ranks in turn: of each bucket at least one a rank, shuffled."""
    present = np.flatnonzero(histogram.counts)
    inside = np.bincount(np.searchsorted(buckets.lengths, present), histogram.counts[present])
    rng, each = np.random.default_rng(seed), np.arange(len(inside)).repeat(ranks)
    drawn = rng.choice(len(inside), max(0, ranks * steps - len(each)), p=inside / inside.sum())
    return [buckets.lengths[i] for i in rng.permutation(np.append(each, drawn))]


def meets_new(shapes: Sequence, ranks: int) -> np.ndarray:
    """Mark the steps in which a rank meets a shape for the first time; bool, shape (ranks, steps)."""
    new = np.zeros((ranks, -(-len(shapes) // ranks)), bool)
    for rank in range(ranks):
        new[rank, np.unique(shapes[rank::ranks], return_index=True)[1]] = True
    return new
