"""From files to files of packs: one Parquet file, or a folder of them with which a killed run goes on."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from packlib.arguments import listed, shown, whole_number
from packlib.bars import wanted
from packlib.files import (
    LOCK,
    WORK,
    enough_memory,
    named,
    naming,
    output_path,
    parse_object,
    read_json,
    read_text,
    room_for,
    work_folder,
    write_text,
)
from packlib.installed import __version__
from packlib.packing import PackingPlan, PairPacks
from packlib.tools.rows.packed_rows import PackingOptions, read_sequences
from packlib.tools.rows.row_columns import ColumnReader
from packlib.tools.rows.row_sources import opened, part_of_process
from packlib.tools.rows.stored_columns import Spool, StoredColumns

if TYPE_CHECKING:
    from packlib.collectives import Collectives

# In a folder of files: the options of the packing, and, once all files are there, the digest of each.
RECORD = ".packlib.json"
# The folder, in that folder, with the digest of each file that is there; a run that ends puts them into the record.
DIGESTS = ".packlib.digests"


class Alone:
    """Stands in for `Collectives` where there is one process, and does not load torch."""

    rank, size = 0, 1

    def agree_on_errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def broadcast(self, value: Any) -> Any:
        return value

    def gather_objects(self, value: Any) -> list:
        return [value]


ALONE = Alone()


def pack_parquet(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    max_length: int,
    progress: bool | None = None,
    *,
    split: str | None = None,
    tokenizer: Any = None,
    packs_per_file: int | None = None,
    ranks: "Collectives | Alone" = ALONE,
    **options: Any,
) -> dict[str, Any]:
    """Write the rows of `pack_dataset` from files to one Parquet file, or to a folder of them, without a cache.

    Each file is whole or absent, and replaces none.

    If a run into a folder was stopped or killed, call it again: files that are there stay, and the others are written.
    All of them are then the same, byte for byte, as if it had never stopped. If all are there, none is written. Another
    packing into that folder is refused. So is a file that has changed since it was written: the folder's record has a
    digest of each.

    Args:
        data: as the paths that `pack_dataset` takes; with `split` also "owner/name", a data set of the hub, which
            `datasets.load_dataset` loads.
        split: of a data set of the hub, or of one with splits that `save_to_disk` wrote.
        out: the file; the folder, if `packs_per_file` says how many packs each file there holds.
        ranks: the processes that call this together, each with the same arguments, on machines that see the same files.
            Each reads a part of the data and writes a part of the files, which are those of one process.
        options: as in `pack_dataset`: `method`, `plan`, `max_sequences_per_pack`, `overlong`, `labels`, `seed`,
            `window`, `masks`, `drop_unlabeled`, `second_budget`. And `layout`: "nemo" writes `input_ids`, `loss_mask`
            and `seq_start_id`, as Megatron Bridge reads packed Parquet (data/datasets/packed_parquet.py), and no other
            column. Megatron Bridge takes the last token of a sequence for a label alone, so it uses one slot of a pack
            less for each sequence.

    Returns:
        `num_packs`, the `lower_bound` of it and its `proof` in words, the `sequences` and `tokens` in the packs, the
        `method`, the `books`, and what became of each of the `columns`; and `files_written`, the number of files.

    Raises:
        OSError: if nothing can be written at `out`, or something is there.
        TypeError, ValueError: as `pack_dataset`; if the folder `out` holds another packing, done or stopped, or names
            of its files that have changed.
        MemoryError: naming `data`.
    """
    in_files = packs_per_file is not None
    with ranks.agree_on_errors():
        if in_files:
            whole_number("packs_per_file", packs_per_file, 1)
        elif ranks.size > 1:
            raise ValueError("packs_per_file must be given on several ranks, each of which writes files of its own.")
        packing = PackingOptions(max_length, **options)
        reader = packing.reader(tokenizer)
        paths = [data] if isinstance(data, (str, os.PathLike)) else data
        out = output_path(out, folder=in_files, reads=paths)
        if out.is_file():
            raise FileExistsError(f"{shown(str(out))} exists: name another file.")
        if not in_files and out.suffix.lower() in (".csv", ".json", ".jsonl", ".arrow", ".feather", ".npy", ".txt"):
            as_parquet = named(out.with_suffix(".parquet").name)
            raise ValueError(f"out must be named as Parquet, such as {as_parquet}, not {named(out.name)}.")
        if in_files:
            refuse_unknown_files(out)
        progress = wanted(progress) if ranks.rank == 0 else False
    with enough_memory(paths[0]), room_for(out):
        with ranks.agree_on_errors():
            dataset = opened(data, split, out if in_files else None)
        with _note_of_whole_files(out):
            if packs_per_file is not None:
                return _into_folder(dataset, out, packing, reader, progress, packs_per_file, ranks)
            parent = next(folder for folder in out.parents if folder.exists())
            spool = read_sequences(dataset, parent, reader, progress)
            reader.finish()  # it raises what is wrong with the data before a plan is made
            stored = StoredColumns([spool])
            return packing.write(stored, reader, out, pq.ParquetWriter, progress, new=True) | {"files_written": 1}


@contextmanager
def _note_of_whole_files(out: Path) -> Iterator[None]:
    """Add a note to an interrupt that says which of the files are written."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if out.is_file():
            stopped.add_note(f"{shown(str(out))} is there, and whole.")
        elif count := sum(1 for _ in out.glob("*.parquet")):
            are = "files are" if count > 1 else "file is"
            stopped.add_note(f"{count:,} whole {are} in {shown(str(out))}: the same command writes the others.")
        raise


def refuse_unknown_files(folder: Path) -> None:
    """Raise a FileExistsError if a folder holds files, and no record that says which packing they are of."""
    if folder.exists() and not (folder / RECORD).exists():
        if any(path.name not in (LOCK, WORK) for path in folder.iterdir()):
            raise FileExistsError(f"{shown(str(folder))} exists: name another folder.")


def _into_folder(
    dataset: Any,
    out: Path,
    packing: PackingOptions,
    reader: ColumnReader,
    progress: bool | None,
    packs_per_file: int,
    ranks: "Collectives | Alone",
) -> dict[str, Any]:
    """Write files of `packs_per_file` packs into the folder `out`, but for those that a run before has written.

    Rank r of R writes the files r, r + R, r + 2·R, and so on; rank 0 also keeps the record.
    """
    recorded_options = {"packs_per_file": packs_per_file, "packlib": __version__, "ranks": ranks.size}
    recorded_options |= asdict(replace(packing, plan=None))
    del recorded_options["plan"]
    recorded_options = json.loads(json.dumps(recorded_options))  # tuples become lists, as in the record
    with ExitStack() as until_all_have_ended:
        with ranks.agree_on_errors():
            if ranks.rank == 0:
                until_all_have_ended.enter_context(work_folder(out))
                refuse_unknown_files(out)  # again: another run may have ended while this waited for its lock
                refuse_another(out, recorded_options)
        spools, reader_of_all = _read_together(dataset, out / WORK, reader, progress, ranks)

        with ranks.agree_on_errors():
            reader_of_all.finish()
            stored = StoredColumns(spools)
            plan = packing.plan_of(stored, progress) if ranks.rank == 0 else None
        plan = ranks.broadcast(plan)  # one makes it: other processors may round otherwise
        with ranks.agree_on_errors():
            rows = packing.row_writer(stored, plan, reader_of_all)
            if ranks.rank == 0:
                recorded_options |= {
                    "data": _digest(" ".join(spool.digest for spool in spools)),
                    "plan": _digest_of_plan(plan),
                }
                refuse_another(out, recorded_options)
                if not (out / RECORD).exists():
                    write_record(out, recorded_options, finished=False)

        with ranks.agree_on_errors():
            recorded_digests = ranks.broadcast(digests_in(out) if ranks.rank == 0 else None)
            starts = range(0, len(rows.order), packs_per_file)
            names = file_names(len(starts))
            orders = {
                name: rows.order[start : start + packs_per_file] for name, start in zip(names, starts, strict=True)
            }
            own_names = names[ranks.rank :: ranks.size]
            digests_before = digests_of_whole(out, own_names, recorded_digests)

        with ranks.agree_on_errors():
            own_digests = dict(digests_before)
            with rows.bar(sum(len(orders[name]) for name in own_names), progress) as bar:
                for name in own_names:
                    if name in digests_before:
                        bar.update(len(orders[name]))
                    else:
                        write = partial(rows.write, orders[name], open_file=pq.ParquetWriter, bar=bar)
                        own_digests[name] = add_file(out, name, write)
        num_written = sum(ranks.gather_objects(len(own_digests) - len(digests_before)))
        digests = {name: digest for of_rank in ranks.gather_objects(own_digests) for name, digest in of_rank.items()}
        with ranks.agree_on_errors():
            if ranks.rank == 0:
                if num_written or not _is_finished(out):
                    write_record(out, recorded_options | {"files": dict(sorted(digests.items()))}, finished=True)
                shutil.rmtree(out / DIGESTS, ignore_errors=True)
    return rows.description | {"files_written": num_written}


def file_names(num_files: int) -> list[str]:
    """Return the names of the files of a folder, in the order of their packs."""
    return [f"{number:05}-of-{num_files:05}.parquet" for number in range(num_files)]


def digests_of_whole(out: Path, names: Sequence[str], recorded_digests: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of those of these files that are in the folder `out`, by name.

    Raises:
        ValueError: naming the files whose content is not what a run before has written.
    """
    digests = {name: digest_of(out / name) for name in names if (out / name).exists()}
    _refuse_changed(out, [name for name, digest in digests.items() if recorded_digests.get(name) != digest])
    return digests


def add_file(out: Path, name: str, write: Callable[[Path], Any]) -> str:
    """Add a file to the folder `out`, whole or not at all; return its digest.

    Args:
        write: a function that writes the file at the path that it is called with.
    """
    work_path = out / WORK / name
    write(work_path)
    digest = digest_of(work_path)
    write_text(out / DIGESTS / name, digest)  # first, so that the digest of each file that is there is known
    work_path.replace(out / name)
    return digest


def write_record(out: Path, options: Mapping[str, Any], finished: bool) -> None:
    """Write the record of a folder: the options of its packing, and whether all of its files are there."""
    write_text(out / RECORD, json.dumps({"finished": finished, **options}, indent=2) + "\n")


def _is_finished(out: Path) -> bool:
    """Return True if the record of a folder says that all of its files are there."""
    return read_json(out / RECORD, "record of a packing").get("finished") is True


def _read_together(
    dataset: Any, work: Path, reader: ColumnReader, progress: bool | None, ranks: "Collectives | Alone"
) -> tuple[list[Spool], ColumnReader]:
    """Let each rank read its part of the data; return all parts in the order of the data, and a reader of all.

    Args:
        work: the folder in which each rank makes one of its own.
        reader: that of this rank.
    """
    if isinstance(dataset, list):
        dataset = ranks.broadcast(dataset)  # another machine may not see a new file yet
    with ranks.agree_on_errors():
        folder = work / str(ranks.rank)
        folder.mkdir()
        own_part, begin = part_of_process(dataset, ranks.rank, ranks.size)
        try:
            spool = read_sequences(own_part, folder, reader, progress, shared=True)
        except (TypeError, ValueError) as error:
            if ranks.rank == 0:
                raise
            raise type(error)(f"With rows counted from {begin} on: {error}") from None
    spools = ranks.gather_objects(spool)
    reader_of_all, *later_readers = ranks.gather_objects(reader)
    with ranks.agree_on_errors():
        for later_reader in later_readers:
            reader_of_all.add(later_reader)
    return spools, reader_of_all


def refuse_another(out: Path, options: Mapping[str, Any]) -> None:
    """Raise a ValueError if the record of the folder `out`, of a packing done or stopped, has other options."""
    if not (out / RECORD).exists():
        return
    record = read_json(out / RECORD, "record of a packing")
    for name, value in options.items():
        if record.get(name) != value:
            words = {"data": "other data", "plan": "another plan"}  # instead of their digests, which say nothing
            difference = words.get(name, f"{name} {shown(record.get(name))}, not {shown(value)}")
            if record.get("finished") is True:
                raise ValueError(f"{shown(str(out))} holds another packing, of {difference}: name another folder.")
            raise ValueError(
                f"{shown(str(out))} holds files of a packing that was stopped, of {difference}: ask for the same to "
                "go on, or name another folder."
            )


def digests_in(out: Path) -> dict[str, str]:
    """Return the recorded digests of the files that were written into a folder, by name: by all runs until now."""
    with naming(out / RECORD, "record of a packing") as path:
        files = parse_object(read_text(path)).get("files", {})
        if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
            raise ValueError(f"files must map names to digests, not be {shown(files)}.")
    digest_files = sorted((out / DIGESTS).glob("*.parquet"))  # each is text, with the name of the file it is of
    return files | {path.name: read_text(path) for path in digest_files}


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_changed(out: Path, names: Sequence[str]) -> None:
    """Raise a ValueError that `names` are files whose content has changed, if there are any."""
    if names:
        them, are = ("it", "is") if len(names) == 1 else ("them", "are")
        raise ValueError(
            f"{shown(str(out))} holds {listed(names)}, which {are} not as this packing has written {them}: remove "
            f"{them} to have {them} written again, or name another folder."
        )


def _digest_of_plan(chosen_plan: PackingPlan | PairPacks) -> str:
    """Return a digest of a plan, or of packs: which sequences are in each."""
    if isinstance(chosen_plan, PackingPlan):
        return _digest(chosen_plan.to_json())
    return _digest(json.dumps([chosen_plan.sample_ids.tolist(), chosen_plan.offsets.tolist()]))


def _digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
