"""Chats whose template drops old reasoning, packed as trees: each turn as the model generated it, shared turns once.

Many templates show a model its reasoning in the turn that it answers, and leave it out of the history later. Trained on
as one sequence, all reasoning but the last would be missing. As the model generated them, a chat of three turns is
three sequences, each with the reasoning of its last turn alone:

    question 1, reasoning 1, answer 1
    question 1, answer 1, question 2, reasoning 2, answer 2
    question 1, answer 1, question 2, answer 2, question 3, reasoning 3, answer 3

Each has labels in its last turn alone. They begin alike, so a chat is a tree (`packlib.packing.trees`). A template may
also write the history of a later turn otherwise. The turns of such a chat are no tree: they are kept **flat**, as
sequences that share nothing, and the chat is counted.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from packlib.arguments import one_of, whole_number
from packlib.bars import progress_bar, wanted
from packlib.batches import IGNORED
from packlib.files import atomic_path, enough_memory, output_path, room_for, work_folder
from packlib.installed import __version__
from packlib.packing import TreeRows, pack_trees
from packlib.tools.rows import parquet_packs as folders
from packlib.tools.rows.row_sources import batches, opened
from packlib.tools.rows.tokenizing import apply_template, as_messages, common_beginning, message_weights
from packlib.tools.rows.trees import lay_trees

Thinking = Literal["last"]
_COLUMNS = ("messages", "conversations")


@dataclass
class Turns:
    """The turns of chats as sequences, in the order of the data.

    Attributes:
        sequences, labels: for each turn the tokens of its history and of the turn itself; and their labels, -100 for
            those of the history.
        groups: for each turn the group of `pack_trees`, in which tokens may be shared: the number of the chat's row,
            and 0; or, if the chat is kept flat, a number of the turn in place of the 0.
        chats: number of chats that were read.
        flat: number of chats kept flat: their turns share nothing, since the template writes the history otherwise.
        dropped: number of turns that were too long.
        unlabeled: number of turns of weight 0.
    """

    sequences: list[list[int]] = field(default_factory=list)
    labels: list[list[int]] = field(default_factory=list)
    groups: list[tuple[int, int]] = field(default_factory=list)
    chats: int = 0
    flat: int = 0
    dropped: int = 0
    unlabeled: int = 0

    def digest(self) -> str:
        """Return a digest of all sequences, labels and groups."""
        return hashlib.sha256(json.dumps([self.sequences, self.labels, self.groups]).encode()).hexdigest()


def pack_chat_trees(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    max_length: int,
    progress: bool | None = None,
    *,
    tokenizer: Any,
    thinking: Thinking = "last",
    split: str | None = None,
    overlong: Literal["error", "drop"] = "error",
    packs_per_file: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Write chats to a Parquet file, or to a folder of them, as rows of trees that `TreeCollator` takes as they are.

    A run into a folder that was stopped or killed goes on if it is called again: files that are there stay, and the
    others are written, byte for byte as if it had never stopped.

    Args:
        data: as `pack_dataset` takes it, with a column messages, or conversations as ShareGPT has it.
        out: the file; the folder, if `packs_per_file` says how many rows each file there holds.
        max_length: slots of a row.
        tokenizer: whose chat template writes the turns.
        thinking: "last" means that each turn is what the template makes of the chat up to there, as it was generated.
        split: of a data set of the hub, or of one with splits that `save_to_disk` wrote.
        overlong: "error", or "drop" to leave out turns that with their history are longer than a row.
        seed: of `pack_trees`.

    Returns:
        The numbers of `rows` and their `lower_bound`; of `chats`, `turns`, `flat_chats`, `dropped_turns` and
        `unlabeled_turns`; of `tokens` in the rows, and `unshared_tokens` of all turns; and of `files_written`.

    Raises:
        TypeError, ValueError: naming the row and the message that do not fit.
        OSError: if nothing can be written at `out`, or something is there.
    """
    one_of("thinking", thinking, ("last",))
    one_of("overlong", overlong, ("error", "drop"))
    progress = wanted(progress)
    paths = [data] if isinstance(data, (str, os.PathLike)) else data
    out = output_path(out, folder=packs_per_file is not None, reads=paths)
    if packs_per_file is not None:
        whole_number("packs_per_file", packs_per_file, 1)
        folders.refuse_unknown_files(out)
    elif out.exists():
        raise FileExistsError(f"{out} exists: name another file.")
    with enough_memory(paths[0]), room_for(out):
        turns = _turns(opened(data, split, out if packs_per_file else None), tokenizer, max_length, overlong, progress)
        if not turns.sequences:
            raise ValueError("The chats have no turn of the assistant that can be trained on.")
        rows = pack_trees(turns.sequences, turns.groups, max_length, seed=seed)
        summary = _summary(turns, rows)
        if packs_per_file is None:
            with atomic_path(out, new=True) as path_of_part:
                _write(rows, turns, range(len(rows)), progress, path_of_part)
            return summary | {"files_written": 1}
        options = {
            "packs_per_file": packs_per_file,
            "packlib": __version__,
            "thinking": thinking,
            "data": turns.digest(),
            "max_length": max_length,
            "overlong": overlong,
            "seed": seed,
        }
        return summary | {"files_written": _into_folder(out, rows, turns, options, packs_per_file, progress)}


def _into_folder(
    out: Path, rows: TreeRows, turns: Turns, options: dict[str, Any], rows_per_file: int, progress: bool | None
) -> int:
    """Write files of `rows_per_file` rows, but for those that a run before has written; return how many are new.

    Args:
        options: all that the files depend on, for the record of the folder.
    """
    with work_folder(out):
        folders.refuse_unknown_files(out)
        folders.refuse_another(out, options)
        if not (out / folders.RECORD).exists():
            folders.write_record(out, options, finished=False)
        starts = range(0, len(rows), rows_per_file)
        names = folders.file_names(len(starts))
        digests = folders.digests_of_whole(out, names, folders.digests_in(out))
        num_before = len(digests)
        for name, start in zip(names, starts, strict=True):
            if name not in digests:
                row_numbers = range(start, min(start + rows_per_file, len(rows)))
                write = partial(_write, rows, turns, row_numbers, progress)
                digests[name] = folders.add_file(out, name, write)
        folders.write_record(out, options | {"files": dict(sorted(digests.items()))}, finished=True)
        shutil.rmtree(out / folders.DIGESTS, ignore_errors=True)
        return len(digests) - num_before


def _write(rows: TreeRows, turns: Turns, row_numbers: range, progress: bool | None, path: Path) -> None:
    """Write some rows to a Parquet file: each value of a column is a list of 32-bit integers, that of one row."""
    laid_rows = lay_trees(rows, turns.sequences, turns.labels, row_numbers)
    bar = progress_bar(laid_rows, progress=progress, desc="writing", unit=" rows", total=len(row_numbers), delay=1)
    columns: dict[str, list] = {}
    for row in bar:
        for name, values in row.items():
            columns.setdefault(name, []).append(values)
    table = pa.table({name: pa.array(values, pa.list_(pa.int32())) for name, values in columns.items()})
    pq.write_table(table, path)


def _summary(turns: Turns, rows: TreeRows) -> dict[str, Any]:
    """Return the numbers that `pack_chat_trees` returns, but for that of the files."""
    return {
        "rows": len(rows),
        "max_length": rows.max_length,
        "lower_bound": rows.lower_bound,
        "chats": turns.chats,
        "turns": len(turns.sequences),
        "flat_chats": turns.flat,
        "dropped_turns": turns.dropped,
        "unlabeled_turns": turns.unlabeled,
        "tokens": rows.tokens,
        "unshared_tokens": rows.unshared_tokens,
        "mask_bytes": rows.mask_bytes(),
    }


def _turns(dataset: Any, tokenizer: Any, max_length: int, overlong: str, progress: bool | None) -> Turns:
    """Return the turns of all chats of a data set."""
    turns = Turns()
    with progress_bar(progress=progress, desc="reading", unit=" chats", delay=1) as bar:
        for chat, tools in _chats(dataset):
            _add_chat(turns, chat, tools, tokenizer, max_length, overlong)
            bar.update()
    return turns


def _chats(dataset: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the messages of each chat, and the tools that the chat template is shown, or None."""
    first_row = 0
    for batch in batches(dataset):
        names = batch.schema.names
        columns_there = [name for name in _COLUMNS if name in names]
        if len(columns_there) != 1:
            raise ValueError(
                f"The data set must have a column messages or conversations, for thinking='last' (--thinking last), "
                f"not {', '.join(names)}."
            )
        chats = batch.column(columns_there[0]).to_pylist()
        tools = batch.column("tools").to_pylist() if "tools" in names else [None] * len(batch)
        for row, (chat, tools_of_chat) in enumerate(zip(chats, tools, strict=True), first_row):
            yield as_messages(chat, columns_there[0], row), tools_of_chat
        first_row += len(batch)


def _add_chat(turns: Turns, chat: list, tools: Any, tokenizer: Any, max_length: int, overlong: str) -> None:
    """Add the turns of a chat, in one group if each turn begins with the history of the turn before it.

    Args:
        chat: its messages, each with role and content.
    """
    row = turns.chats
    turns.chats += 1
    weights = message_weights(chat, row, True)  # by the number of each message of the assistant, which ends a turn
    turn_before: list[int] | None = None
    history_before: list[int] = []
    packed_turns = list[tuple[list[int], list[int]]]()  # tokens and labels
    is_tree = True
    for number, weight in weights.items():
        history: list[int] = []
        prompt: list[int] = []  # the history, and what the template writes before an answer
        if number:
            history = apply_template(chat[:number], tools, tokenizer, row)["input_ids"]
            prompt = apply_template(chat[:number], tools, tokenizer, row, add_generation_prompt=True)["input_ids"]
        tokens = apply_template(chat[: number + 1], tools, tokenizer, row)["input_ids"]
        if turn_before is not None:
            is_tree &= common_beginning(turn_before, tokens) >= len(history_before)
        turn_before, history_before = tokens, history
        answer_begin = common_beginning(prompt, tokens)
        labels = [IGNORED] * answer_begin + tokens[answer_begin:]
        if not weight:
            turns.unlabeled += 1
        elif len(tokens) > max_length and overlong == "drop":
            turns.dropped += 1
        elif len(tokens) > max_length:
            raise ValueError(
                f"Message {number} of row {row} has {len(tokens)} tokens with its history, and max_length is "
                f"{max_length}: pass overlong='drop' (--overlong drop), or longer rows."
            )
        else:
            packed_turns.append((tokens, labels))
    turns.flat += not is_tree
    for turn, (tokens, labels) in enumerate(packed_turns):
        turns.sequences.append(tokens)
        turns.labels.append(labels)
        turns.groups.append((row, 0 if is_tree else turn))
