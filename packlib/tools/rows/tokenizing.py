"""Chats and texts of a data set, made into tokens by a tokenizer of transformers."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from packlib.checks import listed, one_line, shown
from packlib.files import named
from packlib.installed import needed_by

SOURCES = ("messages", "text")
_WEIGHTS = ("weight", "train", "training")  # of a message, as OpenAI and axolotl have them
_UNREAD_WEIGHTS = ("train_detail", "loss", "loss_weight", "trainable")  # of a message too, and not honored here
_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")  # as transformers looks for it


def tokenized(batch: pa.RecordBatch, tokenizer: Any, labels: bool, row: int) -> tuple[pa.RecordBatch, dict[str, str]]:
    """A batch with `input_ids` in place of `messages` or `text`; for chats `assistant_masks` too, if `labels` are made.

    Args:
        row: the number of the first row of the batch.

    Returns:
        The batch, and what became of the columns that it has no more.

    Raises:
        TypeError, ValueError: naming the column and the row that no tokens can be made of.
    """
    names = batch.schema.names
    if "input_ids" in names:
        raise ValueError("tokenizer must be left out: the data set has input_ids.")
    source = next((name for name in SOURCES if name in names), None)
    if source is None:
        raise ValueError(f"The data set has no column messages or text for the tokenizer; it has {listed(names)}.")
    if (column := batch.column(source)).null_count:
        at = row + int(np.asarray(column.is_null()).argmax())
        raise ValueError(f"The column {shown(source)} has no value in row {at}.")
    kept = {name: batch.column(name) for name in names if name != source}
    if source == "messages":
        tools = kept.pop("tools", None)
        made = _chats(column.to_pylist(), tools.to_pylist() if tools else [None] * len(column), tokenizer, labels, row)
        said = {"messages": "tokenized by the chat template and left out"}
        said |= {"tools": "shown to the chat template and left out"} if tools else {}
    else:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise TypeError(f"The column 'text' must hold texts, not {one_line(str(column.type))}.")
        ids, end = tokenizer(column.to_pylist())["input_ids"], tokenizer.eos_token_id
        made = {"input_ids": [one if end is None or one[-1:] == [end] else [*one, end] for one in ids]}
        said = {"text": f"tokenized, {'' if end is None else f'each to end with {tokenizer.eos_token}, '}and left out"}
    lists = {name: pa.array(values, pa.list_(pa.int32())) for name, values in made.items()}
    return pa.RecordBatch.from_pydict(kept | lists), said


def tokenizer_of(folder: str | os.PathLike[str]) -> Any:
    """The tokenizer that lies in a folder, such as that of a model.

    Raises:
        FileNotFoundError, ValueError: naming the folder.
    """
    with needed_by("a tokenizer"):
        from transformers import AutoTokenizer
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"There is no folder {named(folder)}; a tokenizer is needed there.")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # what is damaged raises any of a dozen kinds
        raise ValueError(f"{named(folder)} holds no tokenizer: {one_line(str(error), 200)}") from None


def _chats(chats: list, tools: list, tokenizer: Any, labels: bool, row: int) -> dict[str, list]:
    if labels and not _MARKS.search(tokenizer.get_chat_template(tools=tools[0])):
        raise ValueError(
            "The tokenizer's chat template does not say which tokens are the assistant's (it has no {% generation %}), "
            "so that prompts would be trained on: give it a template that does, or the chats as a column text."
        )
    options = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": labels}
    made: dict[str, list] = {"input_ids": []} | ({"assistant_masks": []} if labels else {})
    for at, (chat, offered) in enumerate(zip(chats, tools, strict=True), row):
        offered = json.loads(offered) if isinstance(offered, str) else offered
        try:
            found = tokenizer.apply_chat_template(_without_nulls(chat), tools=_without_nulls(offered), **options)
        except Exception as error:  # a template raises what its author chose
            raise ValueError(
                f"The messages of row {at} do not fit the chat template: {one_line(str(error), 200)}"
            ) from error
        weights = _weights(chat, at, labels)
        if any(weight == 0 for weight in weights.values()):
            prefixes = [_without_nulls(chat[: number + 1]) for number in weights]
            masks = [_mask_of(prefix, tokenizer, _without_nulls(offered), at) for prefix in prefixes]
            found["assistant_masks"] = _weighted(found["assistant_masks"], masks, list(weights.values()), at)
        for name, values in made.items():
            values.append(found[name])
    return made


def _weights(chat: list, row: int, labels: bool) -> dict[int, int]:
    """The weight of each message of the assistant, by its number in the chat: 1 to train on it, 0 not to.

    Raises:
        ValueError: naming the row, the message and the weight that cannot be honored.
    """
    weights = {}
    for number, message in enumerate(chat):
        if not isinstance(message, dict):
            continue
        begin, is_answer = f"message {number} of row {row}", message.get("role") == "assistant"
        if unread := [name for name in _UNREAD_WEIGHTS if message.get(name) is not None]:
            raise ValueError(f"The {unread[0]} of {begin} is not read: give each message a weight of 0 or 1 instead.")
        for name in _WEIGHTS:
            if (weight := message.get(name)) is None:
                continue
            if isinstance(weight, str) or weight not in (0, 1):
                raise ValueError(f"The {name} of {begin} must be 0 or 1, not {shown(weight)}.")
            if weight and not is_answer:
                raise ValueError(f"The {name} of {begin} must be 0, or left out: only the assistant is trained on.")
            if not weight and not labels:
                raise ValueError(f"labels must be True for {begin}, whose {name} is 0.")
        if is_answer:
            weights[number] = int(all(message.get(name) in (None, 1) for name in _WEIGHTS))
    return weights


def _mask_of(chat: list, tokenizer: Any, tools: list | None, row: int) -> np.ndarray:
    """Which tokens of a chat are the assistant's; bool."""
    options = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": True}
    try:
        found = tokenizer.apply_chat_template(chat, tools=tools, **options)
    except Exception as error:  # a template raises what its author chose
        raise ValueError(
            f"The weights of row {row} need its first {len(chat)} messages alone, which do not fit the chat template: "
            f"{one_line(str(error), 200)}"
        ) from error
    return np.asarray(found["assistant_masks"], bool)


def _weighted(mask: list[int], prefixes: list[np.ndarray], weights: list[int], row: int) -> list[int]:
    """The mask of a chat with 0 for all tokens of the answers that have weight 0.

    Each answer is the next run (or runs) of ones. A template may write earlier answers otherwise in a longer chat, such
    as without their thoughts, so runs are counted and their lengths are not compared.

    Args:
        mask: the assistant's tokens in the whole chat.
        prefixes: the masks of the chat up to each answer.
    """
    whole = np.asarray(mask, bool)
    run_of = np.cumsum(_begins(whole)) - 1
    runs = np.array([np.count_nonzero(_begins(prefix)) for prefix in prefixes])
    tokens = np.array([np.count_nonzero(prefix) for prefix in prefixes])
    own_runs = np.diff(runs, prepend=0)
    joined = (own_runs == 0) & (np.diff(tokens, prepend=0) > 0)  # an answer that goes on with the run of another
    if (joined.any() and any(weights)) or (own_runs < 0).any() or runs[-1] != run_of.max(initial=-1) + 1:
        raise ValueError(
            f"The weights of row {row} cannot be honored: its chat template does not mark each answer apart from the "
            "others."
        )
    weight_of_run = np.repeat(weights, own_runs)
    return [int(one and weight_of_run[run]) for one, run in zip(whole, run_of, strict=True)]


def _begins(mask: np.ndarray) -> np.ndarray:
    """Where runs of ones begin; bool."""
    return mask & ~np.append(False, mask[:-1])


def _without_nulls(value: Any) -> Any:
    """Arrow gives every message the fields of all; those that it did not have are None."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return value
