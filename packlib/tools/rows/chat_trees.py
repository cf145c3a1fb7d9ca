"""Chats whose template drops old reasoning, packed as trees: each turn as the model generated it, shared turns once.

Many templates show a model its reasoning in the turn that it answers, and leave it out of the history later. Trained on
as one sequence, all reasoning but the last would be missing. As the model generated them, a chat of three turns is
three sequences, each with the reasoning of its last turn alone:

    question 1, reasoning 1, answer 1
    question 1, answer 1, question 2, reasoning 2, answer 2
    question 1, answer 1, question 2, answer 2, question 3, reasoning 3, answer 3

Each is trained on in its last turn. They begin alike, so a chat is a tree (`packlib.packing.trees`). Where a template
writes a history otherwise from turn to turn, its turns are no such tree: they are kept flat, and counted.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from packlib.arguments import one_of, whole_number
from packlib.bars import progress_bar, wanted
from packlib.batches import IGNORED
from packlib.files import WORK, atomic_path, enough_memory, output_path, room_for, work_folder, write_text
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
        sequences, labels: tokens of each turn with its history; and its labels, -100 outside of its last turn.
        groups: the chat of each, or a number of its own where it is kept flat.
        chats: that were read.
        flat: chats of which no two turns are shared, because the template writes the history otherwise.
        dropped: turns that were too long.
        unlabeled: turns of weight 0.
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
        What was made of how much: `rows`, at least `lower_bound`; `chats`, `turns`, `flat_chats`, `dropped_turns`,
        `unlabeled_turns`; `tokens` and `unshared_tokens`; and `files_written`.

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
        summary = _found(turns, rows)
        if packs_per_file is None:
            with atomic_path(out, new=True) as partial:
                _write(rows, turns, range(len(rows)), partial, progress)
            return summary | {"files_written": 1}
        options = {
            "packs_per_file": packs_per_file,
            "packlib": __version__,
            "thinking": thinking,
            "data": turns.digest(),
        }
        options |= {"max_length": max_length, "overlong": overlong, "seed": seed}
        return summary | {"files_written": _into_folder(out, rows, turns, options, packs_per_file, progress)}


def _into_folder(
    out: Path, rows: TreeRows, turns: Turns, options: dict[str, Any], rows_per_file: int, progress: bool | None
) -> int:
    """Write files of `rows_per_file` rows, but for those that a run before has written; return how many it wrote."""
    with work_folder(out):
        folders.refuse_unknown_files(out)
        folders.refuse_another(out, options)
        if not (out / folders.RECORD).exists():
            folders.write_record(out, options, finished=False)
        starts = range(0, len(rows), rows_per_file)
        names = [f"{number:05}-of-{len(starts):05}.parquet" for number in range(len(starts))]
        recorded_digests = folders.digests_in(out)
        digests = {name: folders.digest_of(out / name) for name in names if (out / name).exists()}
        folders.refuse_changed(out, [name for name, digest in digests.items() if recorded_digests.get(name) != digest])
        new = [(name, start) for name, start in zip(names, starts, strict=True) if name not in digests]
        for name, start in new:
            _write(rows, turns, range(start, min(start + rows_per_file, len(rows))), out / WORK / name, progress)
            digests[name] = folders.digest_of(out / WORK / name)
            write_text(out / folders.DIGESTS / name, digests[name])  # first: a file that is there is always known
            (out / WORK / name).replace(out / name)
        folders.write_record(out, options | {"files": dict(sorted(digests.items()))}, finished=True)
        shutil.rmtree(out / folders.DIGESTS, ignore_errors=True)
        return len(new)


def _write(rows: TreeRows, turns: Turns, row_numbers: range, path: Path, progress: bool | None) -> None:
    """Write some rows to a Parquet file, each column a list of 32-bit integers."""
    laid = lay_trees(rows, turns.sequences, turns.labels, row_numbers)
    columns: dict[str, list] = {}
    for row in progress_bar(laid, progress=progress, desc="writing", unit=" rows", total=len(row_numbers), delay=1):
        for name, values in row.items():
            columns.setdefault(name, []).append(values)
    table = pa.table({name: pa.array(values, pa.list_(pa.int32())) for name, values in columns.items()})
    pq.write_table(table, path)


def _found(turns: Turns, rows: TreeRows) -> dict[str, Any]:
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
    turns = Turns()
    with progress_bar(progress=progress, desc="reading", unit=" chats", delay=1) as bar:
        for chat, tools in _chats(dataset):
            _add_chat(turns, chat, tools, tokenizer, max_length, overlong)
            bar.update()
    return turns


def _chats(dataset: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each chat, and the tools that its template is shown."""
    row = 0
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
        for number, chat in enumerate(chats, row):
            yield as_messages(chat, columns_there[0], number), tools[number - row]
        row += len(batch)


def _add_chat(turns: Turns, chat: list, tools: Any, tokenizer: Any, max_length: int, overlong: str) -> None:
    """Add the turns of a chat; together if each history is what the turn before it was followed by."""
    row = turns.chats
    turns.chats += 1
    weights = message_weights(chat, row, True)
    previous: tuple[list[int], list[int]] | None = None  # of the turn before: its tokens, and its history's
    packed_turns, is_tree = list[tuple[list[int], list[int]]](), True
    for number, weight in weights.items():
        history = apply_template(chat[:number], tools, tokenizer, row)["input_ids"] if number else []
        prompt = (
            apply_template(chat[:number], tools, tokenizer, row, add_generation_prompt=True)["input_ids"]
            if number
            else []
        )
        tokens = apply_template(chat[: number + 1], tools, tokenizer, row)["input_ids"]
        if previous is not None:
            is_tree &= common_beginning(previous[0], tokens) >= len(previous[1])
        previous = tokens, history
        begin = common_beginning(prompt, tokens)
        labels = [IGNORED] * begin + tokens[begin:]
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
    for place, (tokens, labels) in enumerate(packed_turns):
        turns.sequences.append(tokens)
        turns.labels.append(labels)
        turns.groups.append((row, 0 if is_tree else place))
