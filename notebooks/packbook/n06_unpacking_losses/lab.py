"""The broken trainer of notebook 06: its model, its texts, and what is said of the faults that a learner names."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from packbook.shared.glosses import wordnet_texts
from packbook.shared.wordnet import tokenized
from packlib.batches import IGNORED, MlmMasking, wordnet_tokenizer
from packlib.tools.check import PackingCheck, check_packing

SUSPECTS = ("tokens", "isolation", "padding", "positions", "labels", "mean", "accumulation", "determinism")
FAULTS = ["isolation", "positions", "mean", "accumulation"]  # tests hold them to what `check_packing` finds


def texts(number: int = 8, seed: int = 0) -> list[dict[str, list[int]]]:
    """Return some of WordNet's definitions of 6, 8, 10, … tokens, with masked tokens to predict."""
    glosses = wordnet_texts()
    alone = glosses.pair_tokens == 0  # with no usage example behind the definition
    fitting = (np.flatnonzero(alone & (glosses.definition_tokens == 6 + 2 * i)) for i in range(number))
    some = [found[seed % len(found)] for found in fitting]
    masked = MlmMasking.for_tokenizer(wordnet_tokenizer(), seed)(tokenized(np.array(some), seed, 64))
    return [{name: masked[i][name].tolist() for name in ("input_ids", "labels")} for i in range(number)]


def model(seed: int = 0) -> BertForMaskedLM:
    """Return a small BERT as transformers makes it, at random."""
    torch.manual_seed(seed)
    return BertForMaskedLM(
        BertConfig(
            vocab_size=4000, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=128, initializer_range=0.2,
        )
    ).eval()  # fmt: skip


def layout(sequences: Iterable[Mapping], slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tokens, labels and segment ids of rows; each sequence goes to the first row with room for it.

    Padding counts as one more sequence, the last of its row.

    Returns:
        Three tensors of shape (rows, slots).
    """
    rows: list[list[Mapping]] = []
    for sequence in sequences:
        length = len(sequence["input_ids"])
        fits = (row for row in rows if sum(len(s["input_ids"]) for s in row) + length <= slots)
        row = next(fits, None)
        if row is None:
            rows.append(row := [])
        row.append(sequence)
    ids, labels, segments = (torch.full((len(rows), slots), fill) for fill in (0, IGNORED, 0))
    for at, row in enumerate(rows):
        start = 0
        for number, sequence in enumerate(row, 1):
            place = slice(start, start := start + len(sequence["input_ids"]))
            ids[at, place] = torch.tensor(sequence["input_ids"])
            labels[at, place] = torch.tensor(sequence["labels"])
            segments[at, place] = number
        segments[at, start:] = len(row) + 1
    return ids, labels, segments


def not_the_four(named: Any) -> str | None:
    """Return a sentence that counts the `named` faults, or None if these are exactly the four."""
    words = named.split(",") if isinstance(named, str) else list(named)
    names = {str(word).strip().lower() for word in words}
    if unknown := sorted(names - set(SUSPECTS)):
        return f"{', '.join(unknown)}: not among {', '.join(SUSPECTS)}."
    caught, more = len(names & set(FAULTS)), len(names - set(FAULTS))
    if caught == len(FAULTS) and not more:
        return None
    beside = f", beside {more} other name{'s' if more > 1 else ''}" if more else ""
    return f"{caught} of the four faults{beside}."


def confirm(
    named: Any, model: Callable, collate: Callable, sequences: list, loss: Callable, step: Callable
) -> PackingCheck | None:
    """Return what `check_packing` finds in the trainer; print a line and return None unless all faults are named."""
    if named is ... or not_the_four(named):
        print("Name the four faults first; then packlib check says what it finds.")
        return None
    return check_packing(model, collate, sequences, reduction="sequence", loss=loss, step=step)
