"""Two fine-tuning tasks on packs: a class for each sequence, and a span within each sequence."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from packlib.batches import IGNORED, PackedBatch, TokenStore
from packlib.batches.batch import sequence_of_slots
from packlib.model import PackedBert, Sums
from packlib.model.losses import segment_sums

START, END = 1, 2  # the bits of a token's label in the span task


class TaskModel(nn.Module):
    """A linear head on the `pooled` first token of each sequence, or on the `hidden` state of each token."""

    def __init__(self, bert: PackedBert, outputs: int, reads: str):
        super().__init__()
        self.bert, self.reads = bert, reads
        self.dropout = nn.Dropout(bert.config.hidden_dropout_prob)
        self.head = nn.Linear(bert.config.hidden_size, outputs, dtype=bert.dtype)

    def forward(self, **batch) -> Tensor:
        output = self.bert(**{**batch, "labels": None, "sequence_labels": None})
        return self.head(self.dropout(output[self.reads]))


class LexnameObjective:
    """Cross entropy over the classes, each sequence with equal weight."""

    reads = "pooled"

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        return {"task_loss": int((batch.sequence_labels != IGNORED).sum())}

    def __call__(self, model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
        labels, logits = batch.sequence_labels, model(**batch)
        count = (labels != IGNORED).sum()
        loss = nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
        return {"task_loss": Sums(loss, count), "accuracy": Sums((logits.argmax(-1) == labels).sum(), count)}


class SpanObjective:
    """Start and end, each a softmax over the tokens of one sequence; right is a span with both ends right."""

    reads = "hidden"

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        return {"task_loss": batch.num_sequences}

    def __call__(self, model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
        scores = model(**batch).flatten(0, 1)
        owner, n = sequence_of_slots(batch.segment_ids, batch.num_sequences), batch.num_sequences
        marks, loss, right = batch.labels.flatten(), 0.0, True
        for score, bit in zip(scores.unbind(-1), (START, END), strict=True):
            at = ((marks > 0) & (marks & bit > 0)).nonzero().flatten()  # in the order of the sequences
            highest = score.new_full((n + 1,), -torch.inf).scatter_reduce(0, owner, score.detach(), "amax")
            total = segment_sums((score - highest[owner]).exp(), owner, n).log() + highest[:n]
            loss = loss + (total - score[at]).sum() / 2
            right = right & (score[at] == highest[:n])
        count = torch.tensor(n, device=scores.device)
        return {"task_loss": Sums(loss, count), "accuracy": Sums(right.sum(), count)}


@dataclass(frozen=True)
class SpanLabels:
    """In the place of a collator's masking: leaves the tokens alone and marks where each sample's span is.

    Attributes:
        starts, ends: by sample id, the first and last token of the span, counted in its sequence.
    """

    starts: np.ndarray
    ends: np.ndarray

    def __call__(self, sequences: TokenStore, epochs=0) -> TokenStore:
        labels = np.full(len(sequences.input_ids), IGNORED, np.int64)
        first = sequences.offsets[:-1]
        start, end = first + self.starts[sequences.sample_ids], first + self.ends[sequences.sample_ids]
        labels[start] = START
        labels[end] = np.where(start == end, START | END, END)
        return replace(sequences, labels=labels)


def longest_shared_runs(store: TokenStore) -> tuple[np.ndarray, np.ndarray]:
    """In each pair, the first longest run of tokens of sentence 1 that stands in sentence 2, without [CLS] and [SEP].

    Returns:
        First and last token of the run, counted in the sequence; -1 where there is none.
    """
    starts, ends = np.full((2, len(store)), -1)
    for i in range(len(store)):
        ids = store.input_ids[store.offsets[i] : store.offsets[i + 1]]
        second = store.token_type_ids[store.offsets[i] : store.offsets[i + 1]] > 0
        if not second.any():
            continue
        a, b = ids[~second][1:-1], ids[second][:-1]
        run = np.zeros(len(b) + 1, np.int64)  # run[j]: how long the run that ends at a[at] and b[j - 1] is
        best = 0
        for at, token in enumerate(a):
            run[1:] = np.where(b == token, run[:-1] + 1, 0)
            if run.max() > best:
                best = int(run.max())
                starts[i], ends[i] = at + 2 - best, at + 1  # [CLS] is token 0
    return starts, ends
