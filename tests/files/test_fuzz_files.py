"""Every kind of file, damaged a thousand times: refused in one sentence, or read as what the bytes now say."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from file_cases import bounded_memory

from packlib.arguments import one_line
from packlib.batches import TokenStore
from packlib.lengths import LengthHistogram, load
from packlib.packing import PackingPlan, Packs, arrays, plan
from packlib.training import Recipe, adjust
from runs.checkpoint import CHECKPOINT, RunFolder

TIMES = 600  # and fewer for a kind whose format another one has
FEWER = 150
LENGTHS = [3, 5, 2, 4, 1, 2, 6, 6]
ROOM = 1 << 30  # bytes of memory for a reader of files of a few hundred


def reseal_arrays(data: bytes) -> bytes:
    """The same arrays under a checksum that fits them; what Arrow cannot read stays as it is."""
    try:
        batch = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
        batch.validate(full=True)
        kind = batch.schema.metadata[b"packlib"]
        seal = arrays._checksum(kind.decode(), dict(zip(batch.schema.names, batch.columns, strict=True)))
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(out, schema := batch.schema.with_metadata({b"packlib": kind, b"sha256": seal})) as file:
            file.write_batch(batch.cast(schema))
        return out.getvalue().to_pybytes()
    except Exception:
        return data


# -- what is read, and what then has to hold


def check_packs(packs: Packs) -> None:
    ids = np.concatenate(list(packs))
    assert len(np.unique(ids)) == len(ids) and ids.min() >= 0
    assert len(packs.lengths) == len(ids) and packs.lengths.min() >= 1 and packs.lengths_used.max() <= packs.max_length


def check_store(store: TokenStore) -> None:
    samples = [store[i] for i in range(len(store))]
    assert sum(len(sample["input_ids"]) for sample in samples) == len(store.input_ids)
    assert all(len(sample["input_ids"]) == len(sample["token_type_ids"]) > 0 for sample in samples)
    assert store.input_ids.size == 0 or store.input_ids.min() >= 0
    store.take(range(len(store)))


def check_histogram(histogram: LengthHistogram) -> None:
    assert histogram.num_sequences == int(histogram.counts.sum()) > 0 and histogram.counts.min() == 0
    assert "LengthHistogram(" in repr(histogram)


def check_plan(read: tuple[PackingPlan, dict]) -> None:
    """The plan is what the text says, and packs each sequence once; with Python's integers only."""
    made, raw = read
    known, top = raw["histogram"], raw["histogram"]["max_length"]
    wanted, packed = Counter(), Counter()
    for length, count in zip(known["lengths"], known["counts"], strict=True):
        assert type(length) is type(count) is int and 1 <= length <= top
        wanted[length] += count
    for strategy, repeats in zip(raw["strategies"], raw["repeats"], strict=True):
        assert type(repeats) is int and repeats >= 1 <= sum(strategy) <= top
        assert len(strategy) <= (raw["max_sequences_per_pack"] or len(strategy))
        for length in strategy:
            assert type(length) is int
            packed[length] += repeats
    tokens = sum(length * count for length, count in wanted.items())
    assert packed == +wanted and sum(raw["repeats"]) == raw["num_packs"] == made.num_packs
    assert -(-tokens // top) <= made.lower_bound == raw["lower_bound"] <= made.num_packs
    assert made.histogram.num_tokens == tokens and made.histogram.num_sequences == packed.total()
    assert [list(strategy) for strategy in made.strategies] == raw["strategies"]
    assert made.repeats.tolist() == raw["repeats"] and made.histogram.name == one_line(known["name"])
    for name in ("kind", "source", "max_length", "truncated", "dropped"):
        assert getattr(made.histogram, name) == known[name]
        assert type(getattr(made.histogram, name)) is type(known[name])
    assert PackingPlan.from_json(made.to_json()).to_json() == made.to_json()


def check_recipe(recipe: Recipe) -> None:
    assert Recipe.from_dict(asdict(recipe)) == recipe and "Recipe:" in repr(recipe)
    if recipe.packing_factor == 1 and recipe.max_length is None:
        adjust(recipe, 1.5)


class Stream:
    """Stands for a stream of data in a run."""

    def state_dict(self) -> dict:
        return {"at": 3}

    def load_state_dict(self, state: dict) -> None:
        assert isinstance(state["at"], int)


def run_in(folder: Path) -> tuple[RunFolder, torch.nn.Module]:
    model = torch.nn.Linear(2, 1)
    return RunFolder(folder, {"model": model}, Stream(), {"micro_batch": 2}), model


def write_checkpoint(path: Path) -> None:
    run, model = run_in(path.parent)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.25, -3.0]]))
    with run.alone():
        run.record({"update": 1, "sequences": 2})
        run.save()


def read_checkpoint(path: Path) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        run, model = run_in(path.parent)
        run.resume()
    return model.weight.detach()


def write_parquet(path: Path) -> None:
    columns = {"text": ["a"] * 8, "tokens": [[0] * n for n in LENGTHS]}
    pq.write_table(pa.table(columns), path, write_page_checksum=True)


@dataclass(frozen=True)
class Kind:
    """How a kind of file is written, read and checked; `reseal` computes its checksum again, if it has one."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    check: Callable[[object], object]
    reseal: Callable[[bytes], bytes] | None = None
    times: int = TIMES


def write_packs(path: Path) -> None:
    plan(LengthHistogram.from_lengths(LENGTHS), method="lpfhp").assign(LENGTHS).save(path)


FEW = LengthHistogram.from_lengths([4, 4, *[3] * 7], 8, name="few")  # sums prove four packs, and prices five
MANY = LengthHistogram([0, 3 * 10**15, 0, 10**16, 4], "many", 12, "synthetic", truncated=3)


def read_plan(path: Path) -> tuple[PackingPlan, dict]:
    return PackingPlan.load(path), json.loads(path.read_text(encoding="utf-8"))


def write_store(path: Path) -> None:
    ids, labels = np.arange(29, dtype=np.uint16), np.arange(29) - 1
    labels[labels < 0] = -100
    offsets = np.cumsum([0, *LENGTHS])
    TokenStore(ids, (ids % 2).astype(np.uint8), offsets, np.full(8, -100), labels, np.arange(8) * 3).save(path)


# Another kind of file is another line here.
KINDS = [
    Kind("some.packs", write_packs, Packs.load, check_packs, reseal_arrays),
    Kind("some.tokens", write_store, TokenStore.load, check_store, reseal_arrays, FEWER),
    Kind("few.json", plan(FEW, max_sequences_per_pack=3).save, read_plan, check_plan),
    Kind("many.json", plan(MANY, max_sequences_per_pack=3).save, read_plan, check_plan, times=FEWER),
    Kind("lengths.json", MANY.save, load, check_histogram, times=FEWER),
    Kind(CHECKPOINT, write_checkpoint, read_checkpoint, torch.Tensor.tolist),
    Kind("recipe.json", Recipe(2, 0.5, 10, betas=(0.9, 0.99)).save, Recipe.load, check_recipe, times=FEWER),
    Kind("lengths.txt", lambda path: path.write_text("length\n" + "\n".join(map(str, LENGTHS))), load, check_histogram),
    Kind("counts.csv", LengthHistogram.from_lengths(LENGTHS).to_csv, load, check_histogram, times=FEWER),
    Kind("column.csv", lambda path: path.write_text('"a ""title""",n\n"x, y",3\nz,5\n\'w,2\n'),
         lambda path: load(path, column="n"), check_histogram),
    Kind("lengths.npy", lambda path: np.save(path, np.array(LENGTHS, np.uint16)), load, check_histogram),
    Kind("lists.parquet", write_parquet, lambda path: load(path, column="tokens"), check_histogram),
]  # fmt: skip

# -- the damage

NUMBERS = [b"-7", b"0", b"0.5", b"1e400", b"1e5", b"nan", b"1_000", "٣".encode(), b"9" * 400, b"9" * 5000,
           str(2**31).encode(), str(2**63 - 1).encode(), str(2**63).encode(), b"null", b'"5"', b"[5]", b"true", b"",
           b"[" * 100_000, b"[" * 900 + b"]" * 900, b'{"a":' * 100_000, b'"', b"\n", b"\0", b"1,1"]  # fmt: skip
WORDS = [b"|O", b"<f8", b"<U4", b">i8", b"<i8", b"|u1", b"|b1", b"|i8", b"<M8[s]", b"|V3", b"(3, 2)", b"(-1,)",
         b"()", b"(True,)", b"(1000000000000000,)", b"offsets", b"packlib", b"labels", b"2", b"True,"]  # fmt: skip


def flip_bits(rng, data):
    for at in rng.integers(0, 8 * len(data), rng.choice([1, 1, 1, 2, 20])):
        data[at // 8] ^= 1 << at % 8


def fill_a_run(rng, data):
    at, size = rng.integers(len(data)), rng.integers(1, 40)
    data[at : at + size] = rng.choice([bytes(size), b"\xff" * size, rng.bytes(size)])


def cut_off(rng, data):
    del data[rng.integers(len(data)) :]


def replace_a_number(rng, data):
    spans = [found.span() for found in re.finditer(rb"-?[0-9]+", data)]
    start, end = spans[rng.integers(len(spans))] if spans else (0, 1)
    data[start:end] = NUMBERS[rng.integers(len(NUMBERS))]


def replace_a_word(rng, data):
    spans = [found.span() for found in re.finditer(rb"[<>|][a-z][0-9]|\([0-9, ]*\)|[a-z_]{4,}|True|False", data)]
    start, end = spans[rng.integers(len(spans))] if spans else (0, 1)
    data[start:end] = WORDS[rng.integers(len(WORDS))]


def set_a_number(rng, data):
    """One of the binary numbers becomes an extreme one."""
    at = 8 * rng.integers(max(1, len(data) // 8))
    extreme = rng.choice([-1, -7, 2**62, -(2**63), 2**63 - 1, 10**15, 2**32])
    data[at : at + 8] = int(extreme).to_bytes(8, "little", signed=True)


DAMAGE = [flip_bits, fill_a_run, cut_off, replace_a_number, replace_a_word, set_a_number]


def outcome(kind: Kind, path: Path) -> object | None:
    """What was read, or None if it was refused; anything else is an error."""
    try:
        found = kind.read(path)
        kind.check(found)
        return found
    except (ValueError, TypeError, FileNotFoundError) as error:
        said = str(error)
        assert path.name in said and "\n" not in said and len(said) < 1000, said
        return None


def same(one, other, folder: Path) -> bool:
    """Whether both hold the same; the bytes between Arrow's arrays mean nothing."""
    if not hasattr(one, "save"):
        return one == other
    one.save(folder / "one"), other.save(folder / "other")
    return (folder / "one").read_bytes() == (folder / "other").read_bytes()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_damaged_file_is_refused_in_one_sentence_or_read_as_what_it_says(tmp_path, kind):
    path = tmp_path / kind.name
    kind.write(path)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    right = outcome(kind, path)
    assert right is not None
    with bounded_memory(ROOM), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(kind.times):
            data, damage = bytearray(whole), DAMAGE[i % len(DAMAGE)]
            damage(rng, data)
            resealed = kind.reseal is not None and i // len(DAMAGE) % 2 == 1
            damaged = kind.reseal(bytes(data)) if resealed else bytes(data)
            path.unlink()  # to shorten a file that is there makes some file systems wait for the disk
            path.write_bytes(damaged)
            found = outcome(kind, path)
            refused += found is None
            if kind.reseal and not resealed and damaged != whole:
                assert found is None or same(found, right, tmp_path), f"{damage.__name__} number {i} was not seen"
    assert kind.times // 8 < refused
