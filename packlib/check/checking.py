"""Is it exact? A model and a collator are asked, as a black box, whether a pack changes what a sequence gets."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from packlib.check.black_box import Box
from packlib.check.case import Case
from packlib.check.findings import Finding, PackingCheck
from packlib.check.loss_questions import accumulation, loss_questions
from packlib.check.model_questions import determinism, isolation, padding, positions, sameness, tokens
from packlib.checks import flag, one_of, shown

_SEQUENCES, _TOKENS = 8, 128  # of what the model is called with; the longest sequence has more:
_LONGEST = 300  # positions past 127 and 255, where integers of 8 bits overflow
REDUCTIONS = ("token", "sequence")


def check_packing(
    model: Callable,
    collate: Callable[[list], Any],
    sequences: Sequence[Mapping[str, Any]],
    *,
    reduction: str | None = None,
    loss: Callable | None = None,
    step: Callable | None = None,
    seed: int = 0,
    progress: bool = False,
) -> PackingCheck:
    """Ask whether a model computes for each sequence in a batch of packs what it computes for it alone.

    Both are only called. Tokens are found in the batch by their content, so nothing that `collate` says of them is
    believed; a model is called with the tokens of each sequence alone, with tokens and positions changed, and asked
    for gradients.

    Args:
        model: called as `model(**batch)`. It returns `.logits` (or other numbers for each token, such as hidden
            states) and, for what concerns the loss, `.loss`: as attributes, in a mapping, or in a tuple. A
            `torch.nn.Module` is set to evaluate while it is checked; a plain function works too.
        collate: called with a list of some of the `sequences`; it packs them and returns a batch, a mapping with the
            tensor `input_ids`, shape (rows, slots) or (slots,). Use what your training uses.
        sequences: mappings with `input_ids` and what else your data set has, such as `labels`, in which -100 is not
            predicted. 4 to 64, of different lengths, some longer than the model's windows; of equal ones the first
            counts. The model gets 8, and of each the first 128 tokens, 300 of the longest.
        reduction: the mean that the loss is meant to be: over each "token" or "sequence".
        loss: `loss(output, batch)`, where the model does not compute it.
        step: `step(model, batches)`: what your trainer does with the micro-batches of one update, with its `backward`.
        seed: of what is drawn.
        progress: show a progress bar.

    Returns:
        A finding for each question. What a batch of one sequence a row cannot show "cannot be told".

    Raises:
        TypeError, ValueError: naming what cannot be checked, in one sentence.

    >>> from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=99, hidden_size=16, num_hidden_layers=1, use_cache=False,
    ...                                      num_attention_heads=2, intermediate_size=16))
    >>> sequences = [{"input_ids": list(range(start, start + 7))} for start in (10, 20, 30, 40)]
    >>> check_packing(model, DataCollatorWithFlattening(), sequences).exact
    True
    """
    for name, given in (("model", model), ("collate", collate)):
        if not callable(given):
            raise TypeError(f"{name} must be callable, not {shown(given)}.")
    if reduction is not None:
        one_of("reduction", reduction, REDUCTIONS)
    box, found = Box(model, loss, seed), list[Finding]()
    with box.mode(train=False):
        rows = _given(sequences)
        case = Case(box, collate, rows, _chosen(rows))
        questions: Any = [determinism, tokens, isolation, padding, positions, sameness,
                          partial(loss_questions, reduction=reduction),
                          partial(accumulation, step=step, reduction=reduction)]  # fmt: skip
        if flag("progress", progress):
            from tqdm.auto import tqdm

            questions = tqdm(questions, desc="check", unit="question", leave=False)
        for question in questions:
            found += question(case)
    return PackingCheck(tuple(found))


def _given(sequences: Any) -> list[dict]:
    """Copies of the first 64; of those with equal tokens only the first, since nothing tells them apart in a batch."""
    try:
        rows = [dict(row) for row in islice(sequences, 64)]
        tokens = [np.asarray(row["input_ids"]) for row in rows]
    except (TypeError, ValueError, KeyError):
        raise TypeError(f"sequences must be mappings with input_ids, not {shown(sequences)}.") from None
    for at, ids in enumerate(tokens):
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
            given = shown(rows[at]["input_ids"])
            raise ValueError(f"input_ids of sequence {at} must be whole numbers in one row, not {given}.")
    different: dict[tuple, dict] = {}
    for ids, row in zip(tokens, rows, strict=True):
        different.setdefault(tuple(ids.tolist()), row)
    if len(different) < 2:
        raise ValueError(f"sequences must be at least 2 different ones, not {len(different)} of {len(rows)}.")
    return list(different.values())


def _chosen(rows: list[dict]) -> list[dict]:
    """Few sequences of different lengths, in their order, and cut."""
    by_length = np.argsort([len(row["input_ids"]) for row in rows], kind="stable")
    spread = by_length[np.linspace(0, len(rows) - 1, min(_SEQUENCES, len(rows))).round().astype(int)]
    chosen = []
    for at in sorted(spread.tolist()):
        length, most = len(rows[at]["input_ids"]), _LONGEST if at == by_length[-1] else _TOKENS
        whole = {name for name, value in rows[at].items() if np.ndim(value) == 1 and len(value) == length}
        chosen.append({name: value[:most] if name in whole else value for name, value in rows[at].items()})
    return chosen
