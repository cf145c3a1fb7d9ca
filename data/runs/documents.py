"""Documents cut at every row's end, or kept whole: train small causal models, and record data/runs/documents.csv.

    python data/record.py documents --out out/documents.csv    # about twenty minutes of one core
    python data/record.py documents --seeds 0 --passes 1 --out out/try.csv

The documents are the docstrings of Python's own library, each text once, as bytes after a token that begins a
document, in rows of 256. The last tenth, drawn by one fixed seed, is held out. All arms see the same documents in two
passes and in as many updates of 8 rows; a seed gives all of them the same first weights and the same order of the
documents:

- "split": documents that fit into a row are kept whole, and no token sees another document.
- "wrapped": documents are cut at every row's end, and no token sees another document.
- "wrapped, no mask": the same rows, and every token sees all of its row before it.

The loss, in nats a byte, is that of the held-out documents that fit into a row, each alone. What counting reaches on
them is recorded by `baselines`. A run that is in the file already is not made again.
"""

import time
from functools import partial

import numpy as np
import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import GPT2Config, GPT2LMHeadModel

from packlib.arguments import whole_number
from packlib.batches import PackedBatch, TokenStore, collate
from packlib.model import packed_output
from packlib.packing import DocumentRows, document_rows
from packlib.packing.ragged import ranges
from runs.recording import Runs, arguments, path_of
from runs.sources import BEGIN, docstrings

LENGTH, ROWS, RATE = 256, 8, 3e-3
VOCABULARY = 256
LATER = 64  # bytes of a document after which the loss is taken once more
ARMS = ("split", "wrapped", "wrapped, no mask")
COLUMNS = (
    "arm", "seed", "updates", "documents", "cut_documents", "targets", "cpu_seconds", "held_out_loss", "later_loss",
)  # fmt: skip


def documents() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the tokens of each document: those to train on, and those held out that fit into a row."""
    texts = sorted(set(docstrings()))
    order = np.random.default_rng(0).permutation(len(texts))
    tokens = [np.frombuffer(bytes([BEGIN]) + texts[i].encode(), np.uint8) for i in order]
    train = len(tokens) * 9 // 10
    return tokens[:train], [document for document in tokens[train:] if len(document) <= LENGTH]


def laid_out(tokens: list[np.ndarray], rows: DocumentRows) -> PackedBatch:
    """Return the rows with their tokens, each piece of a document a sequence."""
    begins = np.cumsum([0, *map(len, tokens)])[:-1]
    pieces = np.concatenate(tokens)[ranges(begins[rows.documents] + rows.starts, rows.lengths)]
    samples = np.split(pieces, np.cumsum(rows.lengths)[:-1])
    sequences = TokenStore.from_samples([{"input_ids": ids} for ids in samples])
    return collate(sequences, np.diff(rows.offsets), rows.max_length)


def new_model(seed: int, kind: type[GPT2LMHeadModel] = GPT2LMHeadModel, **options) -> GPT2LMHeadModel:
    """Make two layers, width 64, no dropout, for bytes; `options` are further ones of its configuration."""
    torch.manual_seed(seed)
    return kind(GPT2Config(**{
        "vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 64, "n_layer": 2, "n_head": 4,
        "bos_token_id": BEGIN, "eos_token_id": BEGIN, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
        **options,
    }))  # fmt: skip


@torch.no_grad()
def held_out_losses(model: GPT2LMHeadModel, held_out: list[np.ndarray]) -> tuple[float, float]:
    """Return the mean over all tokens but the first of each document, and over those after its first `LATER`."""
    batch = laid_out(held_out, document_rows([len(document) for document in held_out], LENGTH, "split"))
    losses, later = [], []
    for ids, segments, positions in zip(
        *(part.split(32) for part in (batch.input_ids, batch.segment_ids, batch.position_ids)), strict=True
    ):
        output = packed_output(model, PackedBatch(input_ids=ids, segment_ids=segments))
        losses.append(torch.nn.functional.cross_entropy(output.token_logits, output.token_labels, reduction="none"))
        later.append(positions.flatten()[output.token_positions] >= LATER)
    joined = torch.cat(losses)
    return float(joined.mean()), float(joined[torch.cat(later)].mean())


def updates_in_pass(train: list[np.ndarray]) -> int:
    """Count the updates of one pass over the data, the same number for each arm."""
    return sum(map(len, train)) // (LENGTH * ROWS)


def run(arm: str, seed: int, passes: int, train: list[np.ndarray], held_out: list[np.ndarray]) -> list[dict]:
    """Train one arm with one seed."""
    rng = np.random.default_rng(seed)
    shuffled = [train[i] for i in rng.permutation(len(train))]
    rows = document_rows([len(document) for document in shuffled], LENGTH, arm.partition(",")[0])
    batch = laid_out(shuffled, rows)
    segments = batch.segment_ids.clamp(max=1) if arm.endswith("no mask") else batch.segment_ids
    each = updates_in_pass(train)
    updates = passes * each
    order = torch.cat([torch.from_numpy(rng.permutation(len(rows)))[: each * ROWS] for _ in range(passes)])
    model = new_model(seed)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    warm = max(1, updates // 20)
    rate = LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / warm) * (1 - 0.9 * done / updates))
    targets, begun = 0, time.process_time()
    for some in order.split(ROWS):
        optimizer.zero_grad()
        output = packed_output(model, PackedBatch(input_ids=batch.input_ids[some], segment_ids=segments[some]))
        output.loss.backward()
        optimizer.step()
        rate.step()
        targets += len(output.token_labels)
    taken = time.process_time() - begun
    loss, later = held_out_losses(model, held_out)
    row = {"updates": updates, "documents": len(train), "cut_documents": rows.cut_documents, "targets": targets}
    return [row | {"cpu_seconds": taken, "held_out_loss": loss, "later_loss": later}]


def main(*given: str) -> None:
    parser = arguments("documents", __doc__)
    parser.add_argument("--passes", type=int, default=2, help="over the documents")
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    passes, (train, held_out) = whole_number("passes", options.passes, 1), documents()
    found = Runs(options.out or path_of("documents"), COLUMNS)
    found.check("updates", passes * updates_in_pass(train))
    runs = [{"arm": arm, "seed": seed} for seed in options.seeds for arm in ARMS]
    make = partial(run, passes=passes, train=train, held_out=held_out)
    found.make(runs, make, "documents", f"--passes {passes}")
