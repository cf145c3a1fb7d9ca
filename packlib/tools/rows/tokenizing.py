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
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
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
        for name, values in made.items():
            values.append(found[name])
    return made


def _without_nulls(value: Any) -> Any:
    """Arrow gives every message the fields of all; those that it did not have are None."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return value
