"""Fine-tune packed and padded, five seeds, from a checkpoint and from random weights; record data/runs/TASK.csv.

    python data/record.py finetuning lexname --start out/experiments/curves/80000/…/checkpoint.pt
    python data/record.py finetuning span --seeds 0 --sequences 4000 --out out/try.csv

"lexname" predicts the lexicographer file (45 classes) of a gloss, and stands for GLUE and CLUE. "span" marks the
longest run of words of the definition that stands in its usage example, and stands for SQuAD: one softmax over the
tokens of each sequence for the start, one for the end. A run that is in the file already is not made again, and one
that was stopped goes on.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from packbook.shared.glosses import wordnet_texts
from packbook.shared.wordnet import wordnet_store
from packlib.arguments import one_of
from packlib.batches import IGNORED, PackedBatch, TokenStore
from packlib.batches.batch import sequence_of_slots
from packlib.model import PackedBert, Sums
from packlib.model.losses import segment_sums
from packlib.training import Recipe, adjust, evaluate
from runs.pretraining import lap_timer, loader, new_model
from runs.recording import ROOT, Runs, arguments, path_of
from runs.resuming import fit

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
    """Find in each pair the first longest run of sentence 1's tokens in sentence 2, without [CLS] and [SEP].

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


TASKS = ("lexname", "span")
PADDED = Recipe(
    micro_batch=8, gradient_accumulation_steps=6, learning_rate=1e-3, betas=(0.9, 0.98), total_sequences=20_000,
    warmup_sequences=2_000, max_length=64,
)  # fmt: skip
COLUMNS = (
    "rows", "start", "seed", "updates", "sequences", "seconds", "cpu_seconds", "loss", "accuracy", "packing_factor",
)  # fmt: skip


def task(name: str) -> tuple[TokenStore, object, SpanLabels | None, int]:
    """Return the sequences with their labels, the objective, what labels tokens, and the outputs of the head."""
    store = wordnet_store(max_length=PADDED.max_length)
    if name == "lexname":
        _, classes = np.unique(wordnet_texts().lexname, return_inverse=True)
        return replace(store, sequence_labels=classes), LexnameObjective(), None, int(classes.max()) + 1
    starts, ends = longest_shared_runs(store)
    store = store.take(np.flatnonzero(starts >= 0))
    return store, SpanObjective(), SpanLabels(starts, ends), 2


def run(name: str, packed: bool, start: Path | None, seed: int, padded: Recipe, folder: Path) -> dict:
    """Fine-tune once, or go on in its folder; returns what the table says of it."""
    store, objective, labels, outputs = task(name)
    order = np.random.default_rng(0).permutation(len(store))
    parts = store.take(np.sort(order[2000:])), store.take(np.sort(order[:2000]))
    data, factor = loader(parts[0], padded.max_length, packed, padded.micro_batch, seed, labels)
    held_out, _ = loader(parts[1], padded.max_length, packed, 32, seed, labels, shuffle=False)
    bert = new_model(seed)
    if start is not None:
        bert.load_state_dict(torch.load(start, weights_only=True)["model"])
    torch.manual_seed(seed)
    model = TaskModel(bert, outputs, objective.reads)
    recipe = adjust(padded, factor).recipe if packed else padded
    lap = lap_timer()
    records = fit(model, data, recipe, objective, folder=folder, on_update=lambda _: {"cpu_seconds": lap()})
    test = evaluate(model, held_out, objective)
    return {
        "updates": len(records), "sequences": records[-1]["sequences"],
        "seconds": f"{records[-1]['seconds']:.1f}", "cpu_seconds": f"{sum(r['cpu_seconds'] for r in records):.1f}",
        "loss": f"{test['task_loss']:.4f}",
        "accuracy": f"{test['accuracy']:.4f}", "packing_factor": f"{factor:.4f}",
    }  # fmt: skip


def main(*given: str) -> None:
    parser = arguments("finetuning", __doc__)
    parser.add_argument("task", help=", ".join(TASKS))
    parser.add_argument("--start", type=Path, help="checkpoint.pt of a pre-training run; default: random weights")
    parser.add_argument("--sequences", type=int, default=PADDED.total_sequences, help="to train on")
    options = parser.parse_args(given)
    torch.set_num_threads(1)  # times of one core
    name, planned = one_of("task", options.task, TASKS), options.sequences
    padded = replace(PADDED, total_sequences=planned, warmup_sequences=planned // 10)
    work = ROOT / "out" / "experiments" / name / str(planned)
    found = Runs(options.out or path_of(name), COLUMNS)
    found.check("sequences", planned, near=0.05)
    loads = options.start or found.has(start="checkpoint")
    more = f"--sequences {planned}" + (" --start CHECKPOINT" if loads else "")
    starts = ["random", "checkpoint"] if options.start else ["random"]
    runs = [
        {"rows": rows, "start": start, "seed": seed}
        for start in starts
        for seed in options.seeds
        for rows in ("padded", "packed")
    ]

    def make(rows: str, start: str, seed: int) -> list[dict]:
        checkpoint = options.start if start == "checkpoint" else None
        return [run(name, rows == "packed", checkpoint, seed, padded, work / f"{rows}-{start}-{seed}")]

    found.make(runs, make, f"finetuning {name}", more)
