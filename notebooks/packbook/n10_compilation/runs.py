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

DEPTH, PREDICTIONS = 8, 20  # most sequences and most predicted tokens of a pack that is compiled


class Numbered:
    """A backend for torch.compile that numbers the graphs it gets from 1, and notes which of them run.

    Args:
        real: whether inductor compiles a graph; otherwise it runs as torch traced it, operation by operation.

    Attributes:
        operations: of each graph, the number of its operations.
        ran: the number of the graph of each run.
    """

    def __init__(self, real: bool = False) -> None:
        self.operations: list[int] = []
        self.ran: list[int] = []
        self._real = real

    def __call__(self, graph: torch.fx.GraphModule, inputs: list):
        run = graph.forward
        if self._real:
            from torch._inductor.compile_fx import compile_fx

            run = compile_fx(graph, inputs)  # may raise, for torch to trace once more
        self.operations.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        number = len(self.operations)

        def note_and_run(*arguments):
            self.ran.append(number)
            return run(*arguments)

        return note_and_run


@contextmanager
def torch_log() -> Iterator[list[str]]:
    """Yield a list that gets torch's messages about recompiles and their limit, instead of showing them."""
    messages: list[str] = []
    log = logging.getLogger("torch._dynamo")
    handler = cast(Any, logging.Handler())
    handler.emit = lambda record: messages.append(record.getMessage())
    torch._logging.set_logs(recompiles=True)
    log.handlers = [handler]
    try:
        yield messages
    finally:
        torch._logging.set_logs()


def failed_guards(message: str) -> list[str]:
    """Return the guards that failed by a message of torch's log: one of each earlier graph, the latest graph first."""
    return re.findall(r"- \d+/\d+: (.*)", message)


def config(max_length: int = 512) -> BertConfig:
    """Return the configuration of a BERT with one layer of width 32: the graph matters here, not its size."""
    return BertConfig(
        vocab_size=4000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=max_length, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def bert(longest: int, max_predictions_per_pack: int | None = PREDICTIONS) -> PackedBert:
    """Return a BERT for packs of up to `longest` slots, with random weights, the same each time."""
    torch.manual_seed(0)
    return PackedBert(config(longest), max_predictions_per_pack=max_predictions_per_pack).train()


def blank_batch(rows: int, length: int) -> PackedBatch:
    """Make a padded batch to warm up with: full rows of token 0, one sequence each, its first token to be predicted."""
    ids = torch.zeros(rows, length, dtype=torch.int64)
    labels = torch.full_like(ids, IGNORED)
    labels[:, 0] = 0
    return PackedBatch(input_ids=ids, segment_ids=ids + 1, labels=labels, sequence_labels=torch.zeros_like(ids[:, 0]))


def compile_for_shapes(model: nn.Module, batches: Sequence[PackedBatch], backend: str | Callable = "inductor") -> dict:
    """Compile a static graph for the shape of each batch now, the largest first; later, other shapes raise.

    Without gradients, as in an evaluation, the model runs as before.

    Args:
        batches: one of each shape that training will have.

    Returns:
        The seconds that each shape took to compile.
    """
    bare = getattr(model, "module", model)  # the model within DistributedDataParallel
    graphs = _GraphsByShape(bare._call_impl, backend)
    bare._compiled_call_impl = graphs  # as nn.Module.compile does: a call of the model is now a call of this
    seconds: dict[tuple, float] = {}
    for batch in sorted(batches, key=lambda batch: -batch["input_ids"].numel()):
        shape = tuple(batch["input_ids"].shape)
        graphs.allow(shape)
        start = time.perf_counter()
        warm_memory(model, batch)  # forward and backward; gradients and random numbers stay as they were
        seconds[shape] = time.perf_counter() - start
        graphs.compiled.add(shape)
    return seconds


class _GraphsByShape:
    """A model whose calls run the graph that was compiled for the shape of the batch.

    Args:
        eager: calls the model without a graph.
        backend: as of `compile_for_shapes`.

    Attributes:
        compiled: the shapes that must not be compiled again.
    """

    def __init__(self, eager: Callable, backend: str | Callable) -> None:
        self.compiled: set[tuple] = set()
        self._eager = eager
        self._backend = backend
        self._graphs: dict[tuple, Callable] = {}

    def allow(self, shape: tuple) -> None:
        """Let batches have this shape; the first call with one compiles its graph."""
        run = _named_copy(self._eager, "shape_{}x{}".format(*shape))
        self._graphs[shape] = torch.compile(run, backend=self._backend, dynamic=False, fullgraph=True)

    def __call__(self, **batch):
        if not torch.is_grad_enabled():
            return self._eager(**batch)
        shape = tuple(batch["input_ids"].shape)
        if shape not in self._graphs:
            shapes = ", ".join(map(str, self._graphs))
            raise ValueError(f"A batch has the shape {shape}: graphs were made for {shapes}.")
        stance = "fail_on_recompile" if shape in self.compiled else "default"
        with torch.compiler.set_stance(stance):
            return self._graphs[shape](**batch)


def _named_copy(eager: Callable, name: str) -> Callable:
    """Return a function that calls `eager`, with code of its own.

    torch limits how many graphs it compiles for the same code, and functions made by one `def` share their code.
    """

    def run(**batch):
        return eager(**batch)

    run.__code__ = run.__code__.replace(co_name=name)
    return run


def onset(batches: Sequence, ranks: int) -> list[int]:
    """Order batches so that all ranks compile a length in the same step, the longest first; the others follow.

    Args:
        batches: the length of the rows of each batch.

    Returns:
        Indices of batches. Of each length, the first `ranks` batches are at the beginning.
    """
    beginning: list[int] = []
    for length in sorted(set(batches), reverse=True):
        beginning += [i for i, batch in enumerate(batches) if batch == length][:ranks]
    others = [i for i in range(len(batches)) if i not in beginning]
    return beginning + others


def packed_batches(count: int, static: bool, seed: int, width: int = 128) -> list[PackedBatch]:
    """Make `count` batches of 4 packs of WordNet's definitions.

    Args:
        static: whether all tensors of the batches have the same shapes.
        width: slots of a pack.
    """
    store = wordnet_store(progress=False)
    num_definitions = 60 * count  # enough for 4 packs in each batch
    store = store.take(np.random.default_rng(seed).permutation(len(store))[:num_definitions])
    packs = pack_lengths(store.lengths, width, "optimal", DEPTH)
    static_sizes = {"max_sequences_per_pack": DEPTH, "max_predictions_per_pack": PREDICTIONS} if static else {}
    collator = PackingCollator(width, MlmMasking.for_tokenizer(wordnet_tokenizer()), **static_sizes)
    return list(pack_loader(store, packs, collator, 4, drop_last=True))[:count]


def definitions(count: int, seed: int) -> list[dict[str, list[int]]]:
    """Return `count` of WordNet's definitions, drawn at random, each as `{"input_ids": …}`."""
    store = wordnet_store(progress=False)
    drawn = store.take(np.random.default_rng(seed).permutation(len(store))[:count])
    return [{"input_ids": sample["input_ids"].tolist()} for sample in drawn]


def batch_lengths(histogram: LengthHistogram, buckets: Buckets, ranks: int, steps: int, seed: int) -> list[int]:
    """Draw the row length of each batch of a run, in random order; ranks take batches in turn.

    Each bucket has at least one batch for each rank. Beyond that, a bucket is as frequent as its sequences.
    """
    rng = np.random.default_rng(seed)
    present = np.flatnonzero(histogram.counts)  # the lengths that occur
    bucket_of_length = np.searchsorted(buckets.lengths, present)
    sequences = np.bincount(bucket_of_length, histogram.counts[present])  # in each bucket
    one_a_rank = np.arange(len(sequences)).repeat(ranks)
    num_others = max(0, ranks * steps - len(one_a_rank))
    others = rng.choice(len(sequences), num_others, p=sequences / sequences.sum())
    bucket_of_batch = rng.permutation(np.append(one_a_rank, others))
    return [buckets.lengths[bucket] for bucket in bucket_of_batch]


def meets_new(shapes: Sequence, ranks: int) -> np.ndarray:
    """Mark the steps in which a rank meets a shape for the first time; bool, shape (ranks, steps).

    Args:
        shapes: of each batch; ranks take batches in turn.
    """
    steps = -(-len(shapes) // ranks)
    is_new = np.zeros((ranks, steps), bool)
    for rank in range(ranks):
        _, first_steps = np.unique(shapes[rank::ranks], return_index=True)
        is_new[rank, first_steps] = True
    return is_new
