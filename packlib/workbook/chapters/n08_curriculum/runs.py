"""What notebook 08 computes: rows of joined text, and gradients of a small model."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import GPT2LMHeadModel

from packlib.batches import PackedBatch, TokenStore
from packlib.model import packed_output, token_loss


def joined_rows(store: TokenStore, rows: int, width: int = 64) -> list[PackedBatch]:
    """All tokens, one text after the other, cut into rows without padding, `rows` a batch; the rest is dropped."""
    ids = torch.from_numpy(store.input_ids[: len(store.input_ids) // (rows * width) * rows * width].astype(np.int64))
    batches = ids.view(-1, rows, width)
    return [PackedBatch(input_ids=part, segment_ids=torch.ones_like(part)) for part in batches]


def gradient_norm(model: GPT2LMHeadModel, batch: PackedBatch) -> float:
    """The length of the gradient of the batch's mean loss, at the weights as they are."""
    model.zero_grad()
    token_loss(packed_output(model, batch), batch).backward()
    found = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    model.zero_grad()
    return float(found)


def first_rows(batch: PackedBatch, number: int) -> PackedBatch:
    """The first rows of a batch whose rows are full."""
    return PackedBatch(input_ids=batch.input_ids[:number], segment_ids=batch.segment_ids[:number])


def bytes_to_reach(seeds: Sequence[dict[str, np.ndarray]], base: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """The share of the bytes of each base run after which the run of the same seed is at its last loss.

    Between two evaluations the loss counts as a line; a run that never gets there has infinity.
    """
    shares = []
    for run, other in zip(seeds, base, strict=True):
        end, losses, tokens = other["held_out_loss"][-1], run["held_out_loss"], run["tokens"]
        there = np.flatnonzero(losses <= end)
        if not len(there):
            shares.append(np.inf)
            continue
        around = slice(max(0, there[0] - 1), there[0] + 1)
        shares.append(np.interp(-end, -losses[around], tokens[around]) / other["tokens"][-1])
    return np.array(shares)
