"""What the broken trainer of notebook 06 needs: model, texts, and replies to the faults that a learner names."""

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
FAULTS = ["isolation", "positions", "mean", "accumulation"]  # tests compare them with what `check_packing` finds


def texts(number: int = 8, seed: int = 0) -> list[dict[str, list[int]]]:
    """Return one of WordNet's definitions for each of the lengths 6, 8, 10, …, with masked tokens to predict."""
    glosses = wordnet_texts()
    has_no_example = glosses.pair_tokens == 0
    chosen = []
    for length in range(6, 6 + 2 * number, 2):
        candidates = np.flatnonzero(has_no_example & (glosses.definition_tokens == length))
        chosen.append(candidates[seed % len(candidates)])
    masked = MlmMasking.for_tokenizer(wordnet_tokenizer(), seed)(tokenized(np.array(chosen), seed, 64))
    return [{name: masked[i][name].tolist() for name in ("input_ids", "labels")} for i in range(number)]


def model(seed: int = 0) -> BertForMaskedLM:
    """Return a small BERT as transformers makes it, with random weights."""
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
        rows_with_room = (row for row in rows if sum(len(other["input_ids"]) for other in row) + length <= slots)
        row = next(rows_with_room, None)
        if row is None:
            rows.append(row := [])
        row.append(sequence)

    shape = (len(rows), slots)
    ids, labels, segments = torch.full(shape, 0), torch.full(shape, IGNORED), torch.full(shape, 0)
    for index, row in enumerate(rows):
        start = 0
        for number, sequence in enumerate(row, 1):
            end = start + len(sequence["input_ids"])
            ids[index, start:end] = torch.tensor(sequence["input_ids"])
            labels[index, start:end] = torch.tensor(sequence["labels"])
            segments[index, start:end] = number
            start = end
        segments[index, start:] = len(row) + 1
    return ids, labels, segments


def not_the_four(named: Any) -> str | None:
    """Return a sentence that says how many faults a learner has named rightly; None if exactly the four are named.

    Args:
        named: names of `SUSPECTS`, as a list, or as a text with commas.
    """
    words = named.split(",") if isinstance(named, str) else list(named)
    names = {str(word).strip().lower() for word in words}
    if unknown := sorted(names - set(SUSPECTS)):
        return f"{', '.join(unknown)}: not among {', '.join(SUSPECTS)}."
    num_right, num_wrong = len(names & set(FAULTS)), len(names - set(FAULTS))
    if num_right == len(FAULTS) and not num_wrong:
        return None
    and_wrong = f", beside {num_wrong} other name{'s' if num_wrong > 1 else ''}" if num_wrong else ""
    return f"{num_right} of the four faults{and_wrong}."


def confirm(
    named: Any, model: Callable, collate: Callable, sequences: list, loss: Callable, step: Callable
) -> PackingCheck | None:
    """Return what `check_packing` finds in the trainer; print a line and return None unless all faults are named.

    Args:
        named: the learner's answer, as for `not_the_four`; `...` if there is none.
    """
    if named is ... or not_the_four(named):
        print("Name the four faults first; then packlib check says what it finds.")
        return None
    return check_packing(model, collate, sequences, reduction="sequence", loss=loss, step=step)
