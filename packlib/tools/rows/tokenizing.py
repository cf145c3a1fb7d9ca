"""Chats and texts of a data set, made into tokens by a tokenizer of transformers."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from packlib.arguments import listed, one_line, shown
from packlib.files import named
from packlib.installed import needed_by
from packlib.tools.rows.column_values import refuse_gaps
from packlib.tools.rows.loss_masks import drop_option

SOURCES = ("messages", "conversations", "completion", "text")  # a completion has a prompt beside it
_ROLES = {  # by sender in ShareGPT, the role in chat templates
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
    "model": "assistant", "system": "system", "tool": "tool", "observation": "tool",
}  # fmt: skip
_WEIGHTS = (
    "weight",
    "train",
    "training",
)  # fields of a message: 0 not to train on it, as OpenAI and axolotl have them
_UNREAD_WEIGHTS = ("train_detail", "loss", "loss_weight", "trainable")  # fields like these that are refused
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")  # marks the assistant's part of a template, for transformers


def tokenized(
    batch: pa.RecordBatch, tokenizer: Any, labels: bool, row: int, unread: set[str]
) -> tuple[pa.RecordBatch, dict[str, str]]:
    """Put `input_ids` in place of a batch's chats or texts.

    If `labels` are made, and the data says which tokens are answers, the batch also gets a mask of the loss.

    Args:
        row: the number of the first row of the batch.
        unread: the fields of messages that the chat template does not name, in the batches until now; those of this
            batch are added.

    Returns:
        The batch; and, by name, what became of the columns that it no longer has.

    Raises:
        TypeError, ValueError: naming the column and the row that no tokens can be made of.
    """
    names = batch.schema.names
    if "input_ids" in names:
        raise ValueError("tokenizer must be left out: the data set has input_ids.")
    source = _source(names)
    source_names = ["prompt", "completion"] if source == "completion" else [source]
    columns = [batch.column(name) for name in source_names]
    for name, column in zip(source_names, columns, strict=True):
        refuse_gaps(f"The column {shown(name)}", column, row)
    are_texts = all(pa.types.is_string(column.type) or pa.types.is_large_string(column.type) for column in columns)
    if source == "text" and not are_texts:
        raise TypeError(f"The column 'text' must hold texts, not {one_line(str(columns[0].type))}.")
    other_columns = {name: batch.column(name) for name in names if name not in source_names}
    values = [column.to_pylist() for column in columns]
    if are_texts and source in ("completion", "text"):
        if source == "text":
            new_columns = {"input_ids": _ended(values[0], tokenizer)}
        else:
            prompts, completions = values
            new_columns = _answers(prompts, completions, tokenizer, labels)
        end = "" if tokenizer.eos_token_id is None else f"each to end with {tokenizer.eos_token}, "
        became = dict.fromkeys(source_names, f"tokenized, {end}and left out")
    else:
        tools_column = other_columns.pop("tools", None)
        tools = tools_column.to_pylist() if tools_column else [None] * len(batch)
        if source == "completion":
            prompts, completions = values
            new_columns = _chat_answers(prompts, completions, tools, tokenizer, labels, row)
        else:
            new_columns = _chats(values[0], source, tools, tokenizer, labels, row)
        unread |= _unread_fields(values, tokenizer.get_chat_template(tools=tools[0] if tools else None))
        unread_in_words = f", with {listed(sorted(unread))}, which the template does not name" if unread else ""
        became = dict.fromkeys(source_names, f"tokenized by the chat template and left out{unread_in_words}")
        if tools_column:
            became["tools"] = "shown to the chat template and left out"
    lists = {name: pa.array(values, pa.list_(pa.int32())) for name, values in new_columns.items()}
    return pa.RecordBatch.from_pydict(other_columns | lists), became


def _unread_fields(columns: list[list], template: str) -> set[str]:
    """Return the fields of messages, such as thoughts or calls of tools, that a template does not name.

    Args:
        columns: each with a chat for each row. A field that is empty in all messages is left out.
    """
    chats = [chat for column in columns for chat in column if isinstance(chat, list)]
    messages = [message for chat in chats for message in chat if isinstance(message, dict)]
    filled_fields = {
        name for message in messages for name, value in message.items() if value not in (None, "", [], {})
    }
    fields = filled_fields - {"role", "content", "from", "value", *_WEIGHTS}
    return {name for name in fields if not re.search(rf"\b{re.escape(name)}\b", template)}


def _source(names: list[str]) -> str:
    """Return the column that tokens are made of, one of `SOURCES`; "completion" stands for a prompt and a completion.

    Args:
        names: of all columns.

    Raises:
        ValueError: if there is none, or several; or if another column says what packs cannot honor.
    """
    sources = [name for name in SOURCES if name in names and (name != "completion" or "prompt" in names)]
    _refuse_no_source(sources, names)
    _refuse_several_sources(sources)
    _refuse_columns_beside(sources[0], names)
    return sources[0]


def _refuse_no_source(sources: list[str], names: list[str]) -> None:
    """Raise a ValueError that lists the columns if none is a source of tokens."""
    if sources:
        return
    if {"instruction", "output"} <= set(names):
        raise ValueError(
            "The data set has the columns of Alpaca, instruction and output, of which there are many templates: "
            "write them as prompt, all that your model reads before it answers, and completion, its answer."
        )
    raise ValueError(
        "The data set has no column messages, conversations or text for the tokenizer, and no prompt with a "
        f"completion; it has {listed(names)}."
    )


def _refuse_several_sources(sources: list[str]) -> None:
    """Raise a ValueError if tokens can be made of several columns."""
    if len(sources) > 1:
        raise ValueError(
            f"The data set has {listed(sources)}, and tokens are made of one of them: say which others to "
            f"leave out, as in masks={{{sources[1]!r}: 'drop'}} (--drop {sources[1]})."
        )


def _refuse_columns_beside(source: str, names: list[str]) -> None:
    """Raise a ValueError if another column changes what the source means, and packs cannot honor that."""
    if source == "completion" and "label" in names:
        raise ValueError(
            "The column 'label' beside prompt and completion says which answers are good (KTO), and all of them would "
            f"be trained on: take the good ones, and {drop_option('label')}."
        )
    if source in ("messages", "conversations") and "system" in names:
        raise ValueError(
            f"The column 'system' is not shown to the chat template: make it the first of the {source}, or "
            f"{drop_option('system')}."
        )


def _ended(texts: list[str], tokenizer: Any) -> list[list[int]]:
    """Return the tokens of each text, with the tokenizer's `eos_token`, if it has one, as the last."""
    tokens_of_texts = tokenizer(texts)["input_ids"]
    end = tokenizer.eos_token_id
    return [tokens if end is None or tokens[-1:] == [end] else [*tokens, end] for tokens in tokens_of_texts]


def _answers(prompts: list, completions: list, tokenizer: Any, labels: bool) -> dict[str, list]:
    """Return the columns made of texts: `input_ids` of each prompt with its completion, and a mask if `labels`."""
    texts = [prompt + completion for prompt, completion in zip(prompts, completions, strict=True)]
    tokens_of_prompts = tokenizer(prompts)["input_ids"]
    return _with_masks(_ended(texts, tokenizer), tokens_of_prompts, labels)


def _chat_answers(
    prompts: list, completions: list, tools: list, tokenizer: Any, labels: bool, row: int
) -> dict[str, list]:
    """Return the columns made of prompts and completions that are lists of messages: `input_ids`, and a mask.

    Args:
        tools: for each chat what its template is shown, or None.
        row: number of the first chat in the data set.
    """
    tokens_of_chats, tokens_of_prompts = [], []
    chats = zip(prompts, completions, tools, strict=True)
    for row_number, (prompt, completion, tools_of_chat) in enumerate(chats, row):
        if isinstance(prompt, str) or isinstance(completion, str):
            raise ValueError(
                f"The prompt and the completion of row {row_number} must both be texts, or both lists of messages."
            )
        chat = as_messages([*prompt, *completion], "prompt and completion", row_number)
        weights = message_weights(chat, row_number, labels)
        if any(weights.get(number) == 0 for number in range(len(prompt), len(chat))):
            raise ValueError(
                f"The weight of 0 in the completion of row {row_number} is not read: give the chat as messages."
            )
        tokens_of_chats.append(apply_template(chat, tools_of_chat, tokenizer, row_number)["input_ids"])
        templated_prompt = apply_template(
            chat[: len(prompt)], tools_of_chat, tokenizer, row_number, add_generation_prompt=True
        )
        tokens_of_prompts.append(templated_prompt["input_ids"])
    return _with_masks(tokens_of_chats, tokens_of_prompts, labels)


def _with_masks(sequences: list[list[int]], prompts: list[list[int]], labels: bool) -> dict[str, list]:
    """Return the columns `input_ids`, of the sequences, and `completion_mask` if `labels` are made.

    The mask is 0 for the tokens that a sequence and its prompt begin with alike, as in TRL. The last tokens of the
    prompt may differ, since a tokenizer can join them with the first of the completion.
    """
    new_columns = {"input_ids": sequences}
    if labels:
        masks = []
        for tokens, prompt in zip(sequences, prompts, strict=True):
            prompt_length = common_beginning(tokens, prompt)
            masks.append([0] * prompt_length + [1] * (len(tokens) - prompt_length))
        new_columns["completion_mask"] = masks
    return new_columns


def common_beginning(first: list[int], second: list[int]) -> int:
    """Return the number of tokens that two sequences begin with alike."""
    for position, (token, other_token) in enumerate(zip(first, second, strict=False)):
        if token != other_token:
            return position
    return min(len(first), len(second))


def apply_template(chat: list, tools: Any, tokenizer: Any, row: int, **options: Any) -> Any:
    """Apply the chat template to a chat; return a mapping with `input_ids`, and what `options` ask for.

    Args:
        chat: its messages.
        tools: what the template is shown, also as JSON; or None.
        row: number of the chat in the data set, for errors.
        options: of `apply_chat_template`.
    """
    tools = json.loads(tools) if isinstance(tools, str) else tools
    options = {"tokenize": True, "return_dict": True} | options
    try:
        return tokenizer.apply_chat_template(_without_nulls(chat), tools=_without_nulls(tools), **options)
    except Exception as error:  # a template raises what its author chose
        raise ValueError(
            f"The messages of row {row} do not fit the chat template: {one_line(str(error), 200)}"
        ) from error


def as_messages(chat: Any, column: str, row: int) -> list[dict[str, Any]]:
    """Return a chat whose messages have role and content, also if they have from and value, as in ShareGPT.

    Args:
        chat: any value of the column.
        column: its name, for errors; likewise `row`.

    Raises:
        ValueError: naming the row, and the message that is not a message with text.
    """
    if not isinstance(chat, list) or not all(isinstance(message, dict) for message in chat):
        raise ValueError(
            f"The {column} of row {row} must be a list of messages with role and content, not {shown(chat)}."
        )
    messages = []
    for number, raw_message in enumerate(chat):
        message = _with_role(raw_message, number, row)
        _refuse_no_text(message, number, row)
        messages.append(message)
    return messages


def _with_role(message: dict[str, Any], number: int, row: int) -> dict[str, Any]:
    """Return a message with role and content in place of from and value; one without from as it is."""
    sender = message.get("from")
    if sender is None or message.get("role") is not None:
        return message
    if sender not in _ROLES:
        raise ValueError(f"Message {number} of row {row} is from {shown(sender)}; known are {listed(_ROLES)}.")
    other_fields = {
        name: value for name, value in message.items() if name not in ("from", "value") and value is not None
    }
    return {"role": _ROLES[sender], "content": message.get("value")} | other_fields


def _refuse_no_text(message: dict[str, Any], number: int, row: int) -> None:
    """Raise a ValueError if the content of a message is a list of parts, or if it has no field but its role."""
    if isinstance(message.get("content"), list):
        raise ValueError(
            f"The content of message {number} of row {row} is a list of parts, and only texts are packed: give the "
            "text itself."
        )
    if all(value is None for name, value in message.items() if name not in ("role", *_WEIGHTS)):
        raise ValueError(f"Message {number} of row {row} has no content.")


def tokenizer_of(folder: str | os.PathLike[str]) -> Any:
    """Load the tokenizer from a folder, such as that of a model.

    Raises:
        FileNotFoundError, ValueError: naming the folder.
    """
    with needed_by("a tokenizer"):
        from transformers import AutoTokenizer
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"There is no folder {named(folder)}; a tokenizer is needed there.")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # damaged files raise errors of a dozen kinds
        raise ValueError(f"{named(folder)} holds no tokenizer: {one_line(str(error), 200)}") from None


def _chats(chats: list, column: str, tools: list, tokenizer: Any, labels: bool, row: int) -> dict[str, list]:
    """Return the columns made of chats: `input_ids`, and `assistant_masks` if `labels` are made.

    Args:
        column: the name of the column that has the chats, for errors.
        tools: for each chat what its template is shown, or None.
        row: number of the first chat in the data set.
    """
    if labels and not _GENERATION.search(tokenizer.get_chat_template(tools=tools[0])):
        raise ValueError(
            "The tokenizer's chat template does not say which tokens are the assistant's (it has no {% generation %}), "
            "so that prompts would be trained on: give it a template that does, or the chats as a column text."
        )
    new_columns: dict[str, list] = {"input_ids": []} | ({"assistant_masks": []} if labels else {})
    for row_number, (raw_chat, tools_of_chat) in enumerate(zip(chats, tools, strict=True), row):
        chat = as_messages(raw_chat, column, row_number)
        tools_of_chat = json.loads(tools_of_chat) if isinstance(tools_of_chat, str) else tools_of_chat
        templated = apply_template(chat, tools_of_chat, tokenizer, row_number, return_assistant_tokens_mask=labels)
        weights = message_weights(chat, row_number, labels)
        if any(weight == 0 for weight in weights.values()):
            prefixes = [_without_nulls(chat[: number + 1]) for number in weights]  # the chat up to each answer
            prefix_masks = [
                _assistant_mask(prefix, tokenizer, _without_nulls(tools_of_chat), row_number) for prefix in prefixes
            ]
            templated["assistant_masks"] = _weighted(
                templated["assistant_masks"], prefix_masks, list(weights.values()), row_number
            )
        for name, values in new_columns.items():
            values.append(templated[name])
    return new_columns


def message_weights(chat: list, row: int, labels: bool) -> dict[int, int]:
    """Return the weight of each message of the assistant, by its number in the chat: 1 to train on it, 0 not to.

    Args:
        row: number of the chat in the data set, for errors.
        labels: whether labels are made; without them a weight of 0 has no effect, and is an error.

    Raises:
        ValueError: naming the row, the message and the weight that cannot be honored.
    """
    weights = {}
    for number, message in enumerate(chat):
        if not isinstance(message, dict):
            continue
        called = f"message {number} of row {row}"
        is_answer = message.get("role") == "assistant"
        if unread := [name for name in _UNREAD_WEIGHTS if message.get(name) is not None]:
            raise ValueError(f"The {unread[0]} of {called} is not read: give each message a weight of 0 or 1 instead.")
        for name in _WEIGHTS:
            if (weight := message.get(name)) is None:
                continue
            if isinstance(weight, str) or weight not in (0, 1):
                raise ValueError(f"The {name} of {called} must be 0 or 1, not {shown(weight)}.")
            if weight and not is_answer:
                raise ValueError(f"The {name} of {called} must be 0, or left out: only the assistant is trained on.")
            if not weight and not labels:
                raise ValueError(f"labels must be True for {called}, whose {name} is 0.")
        if is_answer:
            weights[number] = int(all(message.get(name) in (None, 1) for name in _WEIGHTS))
    return weights


def _assistant_mask(chat: list, tokenizer: Any, tools: list | None, row: int) -> np.ndarray:
    """Mark the tokens of a chat that are the assistant's; bool, shape (tokens,)."""
    options = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": True}
    try:
        templated = tokenizer.apply_chat_template(chat, tools=tools, **options)
    except Exception as error:  # a template raises what its author chose
        raise ValueError(
            f"The weights of row {row} need its first {len(chat)} messages alone, which do not fit the chat template: "
            f"{one_line(str(error), 200)}"
        ) from error
    return np.asarray(templated["assistant_masks"], bool)


def _weighted(mask: list[int], prefix_masks: list[np.ndarray], weights: list[int], row: int) -> list[int]:
    """Return the mask of a chat with 0 for all tokens of the answers that have weight 0.

    The mask has a run of ones for each answer, or several. A template may write earlier answers otherwise in a longer
    chat, such as without their thoughts. So the number of runs in each prefix is compared, and not their lengths:

        mask of the chat up to answer 0   0 1 1              1 run: answer 0 has run 0
        mask of the chat up to answer 1   0 1 0 0 1 1        2 runs: answer 1 has run 1
        weights                           0, 1
        mask that is returned             0 0 0 0 1 1

    Args:
        mask: of the whole chat.
        prefix_masks: of the chat up to each answer, that answer included.
        weights: of each answer, 0 or 1.
    """
    is_assistant = np.asarray(mask, bool)
    run_of_token = np.cumsum(_is_run_start(is_assistant)) - 1
    runs_in_prefix = np.array([np.count_nonzero(_is_run_start(prefix)) for prefix in prefix_masks])
    tokens_in_prefix = np.array([np.count_nonzero(prefix) for prefix in prefix_masks])
    runs_of_answer = np.diff(runs_in_prefix, prepend=0)
    continues_run = (runs_of_answer == 0) & (np.diff(tokens_in_prefix, prepend=0) > 0)  # that of the answer before
    num_runs = run_of_token.max(initial=-1) + 1
    if (continues_run.any() and any(weights)) or (runs_of_answer < 0).any() or runs_in_prefix[-1] != num_runs:
        raise ValueError(
            f"The weights of row {row} cannot be honored: its chat template does not mark each answer apart from the "
            "others."
        )
    weight_of_run = np.repeat(weights, runs_of_answer)
    return [int(is_answer and weight_of_run[run]) for is_answer, run in zip(is_assistant, run_of_token, strict=True)]


def _is_run_start(mask: np.ndarray) -> np.ndarray:
    """Mark the first of each run of ones; bool."""
    return mask & ~np.append(False, mask[:-1])


def _without_nulls(value: Any) -> Any:
    """Return a chat, a message or a tool without the fields that are None: Arrow gives every message those of all."""
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return value
