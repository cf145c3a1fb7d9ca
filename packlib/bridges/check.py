"""Is it exact? A model and a collator are asked, as a black box, whether each sequence of a pack is computed as alone."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from packlib.bridges.asking import Asked, determinism, isolation, padding, positions, sameness, tokens
from packlib.bridges.findings import PackingCheck
from packlib.bridges.probing import Box
from packlib.bridges.targets import accumulation, loss_questions
from packlib.checks import flag, one_of, shown

_TOKENS, _SEQUENCES, _LONGEST = 384, 8, 128  # of what the model is called with
REDUCTIONS = ("token", "sequence")
QUESTIONS = (determinism, tokens, isolation, padding, positions, sameness, loss_questions, accumulation)


def check_packing(
    model: Callable,
    collate: Callable[[list], Any],
    sequences: Sequence[Mapping[str, Any]],
    *,
    reduction: str | None = None,
    loss: Callable | None = None,
    step: Callable | None = None,
    reference: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
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
            predicted. 4 to 64, of different lengths, some longer than the model's windows.
        reduction: the mean that the loss is meant to be: over each "token" or "sequence".
        loss: `loss(output, batch)`, where the model does not compute it.
        step: `step(model, batches)`: what your trainer does with the micro-batches of one update, with its `backward`.
        reference: makes the batch of one sequence alone, if a row of its `input_ids` is not what the model wants.
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
    if not callable(model) or not callable(collate):
        wrong = ("model", model) if not callable(model) else ("collate", collate)
        raise TypeError(f"{wrong[0]} must be callable, not {shown(wrong[1])}.")
    if reduction is not None:
        one_of("reduction", reduction, REDUCTIONS)
    box = Box(model, loss, seed)
    with box.closed():
        given = _given(sequences)
        few = _chosen(given)
        case = Asked(box, collate, given, few, reduction, step, reference)
        asked = QUESTIONS
        if flag("progress", progress):
            from tqdm.auto import tqdm

            asked = tqdm(QUESTIONS, desc="check", unit="question", leave=False)
        return PackingCheck(tuple(finding for question in asked for finding in question(case)))


def _given(sequences: Any) -> list[dict]:
    """Copies, each with its tokens as an array under "input_ids"."""
    try:
        rows = [dict(row) for row in sequences][:64]
        tokens = [np.asarray(row["input_ids"]) for row in rows]
    except (TypeError, ValueError, KeyError):
        raise TypeError(f"sequences must be mappings with input_ids, not {shown(sequences)}.") from None
    for at, ids in enumerate(tokens):
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
            raise ValueError(f"input_ids of sequence {at} must be whole numbers in one row, not {shown(ids)}.")
    if len(rows) < 2:
        raise ValueError(f"sequences must be at least 2, not {len(rows)}.")
    if len({ids.tobytes() for ids in tokens}) < len(tokens):
        return _redrawn(rows, tokens)
    return rows


def _redrawn(rows: list[dict], tokens: list[np.ndarray]) -> list[dict]:
    """The same rows with other tokens of the same set, as equal sequences could not be told apart."""
    pool, draw = np.unique(np.concatenate(tokens)), np.random.default_rng(0)
    if len(pool) < 2:
        raise ValueError("sequences must hold at least two different tokens, else they cannot be told apart.")
    out = []
    for row, ids in zip(rows, tokens, strict=True):
        new = draw.choice(pool, len(ids))
        labels = np.asarray(row.get("labels", ids))
        changed = {"input_ids": new.tolist()}
        if "labels" in row and labels.shape == ids.shape:
            changed["labels"] = np.where(labels == ids, new, labels).tolist()
        out.append({**row, **changed})
    return out


def _chosen(rows: list[dict]) -> list[dict]:
    """Few sequences of different lengths, in their order; long ones are cut."""
    lengths = [min(len(row["input_ids"]), _LONGEST) for row in rows]
    by_length = sorted(range(len(rows)), key=lambda at: lengths[at])
    spread = np.linspace(len(rows) - 1, 0, min(_SEQUENCES, len(rows))).round().astype(int)
    chosen, total = [], 0
    for at in (by_length[index] for index in spread):
        if total + lengths[at] <= _TOKENS or len(chosen) < 3:
            chosen.append(at)
            total += lengths[at]
    return [
        {name: value[:_LONGEST] if np.ndim(value) and len(value) == len(row["input_ids"]) else deepcopy(value)
         for name, value in row.items()}
        for row in (rows[at] for at in sorted(chosen))
    ]  # fmt: skip
