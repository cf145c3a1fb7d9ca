"""`pack_dataset`: every token of every column once, in rows that trainers take, whatever the data came in."""

import hashlib
import json
import re
import subprocess
import sys
from itertools import islice

import datasets
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.batches import TokenStore
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan, StreamPacker, plan
from packlib.tools.rows import PackedStream, pack_dataset, packed_rows, row_sources, stored_columns


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "packlib"


BY_TOKEN = ("input_ids", "labels", "score", "learned")


def samples(count=60, longest=40, seed=0):
    """Sequences with a label and a score for each token, and a name, a weight and a flag for each sequence."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        n = int(rng.integers(1, longest + 1))
        ids = rng.integers(5, 1000, n).tolist()
        scores, learned = rng.normal(size=n).astype(np.float32).tolist(), rng.integers(0, 3, n)
        yield {
            "input_ids": ids, "attention_mask": [1] * n, "labels": [-100] * (n // 3) + ids[n // 3 :], "score": scores,
            "learned": learned.tolist(), "name": f"é{i}" * (i % 4), "rating": i / 7, "kept": i % 3 == 0,
        }  # fmt: skip


def unpacked(packed):
    """The sequences of packed rows, each as it was before, in an order of their own."""
    found = []
    for row in packed:
        start = 0
        for at, length in enumerate(row["seq_lengths"]):
            assert row["position_ids"][start : start + length] == list(range(length))
            one = {}
            for name, values in row.items():
                if name not in ("seq_lengths", "position_ids"):
                    one[name] = values[start : start + length] if name in BY_TOKEN else values[at]
            found.append(one)
            start += length
        assert start == len(row["input_ids"])
    return sorted(found, key=repr)


def without_mask(rows):
    """The rows without their attention mask, sorted, so that they compare in any order."""
    return sorted(({name: row[name] for name in row if name != "attention_mask"} for row in rows), key=repr)


def as_float32(rows):
    """The rows with their scores rounded as a column of 32 bits holds them."""
    return [{**row, "score": np.float32(row["score"]).tolist()} for row in rows]


@pytest.mark.parametrize("source", ["dataset", "parquet", "rows", "shuffled", "tensors", "stream"])
def test_every_token_of_every_column_comes_once_in_its_own_sequence(tmp_path, source):
    rows = list(samples())
    whole = Dataset.from_list(rows)
    given = {
        "dataset": lambda: whole,
        "parquet": lambda: whole.to_parquet(tmp_path / "x.parquet") and str(tmp_path / "x.parquet"),
        "rows": lambda: iter(rows),
        "shuffled": lambda: whole.shuffle(1).select(range(5, 50)),
        "tensors": lambda: [{**row, "input_ids": torch.tensor(row["input_ids"])} for row in rows],
        "stream": lambda: whole.to_iterable_dataset(num_shards=4),
    }[source]()
    packed = pack_dataset(given, 64)
    expected = list(given) if source == "shuffled" else rows
    assert as_float32(unpacked(packed)) == as_float32(without_mask(expected))
    assert max(len(row["input_ids"]) for row in packed) <= 64
    if source != "stream":
        lengths = [len(row["input_ids"]) for row in expected]
        found = json.loads(packed.info.description)
        assert found["num_packs"] == len(packed) == plan(LengthHistogram.from_lengths(lengths, 64)).num_packs
        assert found["tokens"] == sum(lengths) and found["sequences"] == len(lengths)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.sampled_from(packed_rows.OVERLONG[1:]))
@settings(max_examples=25)
def test_what_becomes_of_overlong_sequences(lengths, overlong):
    rows = [{"input_ids": list(range(100 * i, 100 * i + n)), "who": i} for i, n in enumerate(lengths)]
    kept = {
        "truncate": [(i, 0, min(n, 5)) for i, n in enumerate(lengths)],
        "drop": [(i, 0, n) for i, n in enumerate(lengths) if n <= 5],
        "split": [(i, s, min(s + 5, n)) for i, n in enumerate(lengths) for s in range(0, n, 5)],
    }[overlong]
    expected = sorted(([100 * i + at for at in range(start, end)], i) for i, start, end in kept)
    stream = Dataset.from_list(rows).to_iterable_dataset()
    if not kept:
        with pytest.raises(ValueError, match="no sequence to pack"):
            pack_dataset(rows, 5, overlong=overlong)
        assert list(pack_dataset(stream, 5, overlong=overlong)) == []
        return
    for packed in (pack_dataset(rows, 5, overlong=overlong), pack_dataset(stream, 5, overlong=overlong)):
        assert sorted((one["input_ids"], one["who"]) for one in unpacked(packed)) == expected
        for row in packed:  # made for a causal model: nothing predicts the first token of a sequence
            starts = np.array(row["position_ids"]) == 0
            assert row["labels"] == np.where(starts, -100, row["input_ids"]).tolist()


def test_the_same_data_gives_one_file_whatever_it_came_in_and_other_data_another(tmp_path, cache, monkeypatch):
    rows = list(samples())
    whole = Dataset.from_list(rows)
    whole.to_parquet(tmp_path / "x.parquet", batch_size=7)
    first = pack_dataset(whole, 64)
    (file,) = cache.iterdir()
    was = file.stat().st_mtime_ns
    for again in (Dataset.from_list(rows), iter(rows), tmp_path / "x.parquet", whole.select(range(60))):
        assert pack_dataset(again, 64)[:] == first[:]
    assert list(cache.iterdir()) == [file] and file.stat().st_mtime_ns == was
    content = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setattr(row_sources, "_ROWS_AT_ONCE", 13)  # however it is read and written
    for again in (rows, whole, whole.select(range(60)[::-1]).select(range(60)[::-1])):
        file.unlink()
        pack_dataset(again, 64)
        assert hashlib.sha256(file.read_bytes()).hexdigest() == content
    rows[3]["input_ids"][0] += 1
    changes = [{}, {"max_length": 65}, {"seed": 1}, {"seed": None}, {"max_sequences_per_pack": 3}, {"method": "spfhp"}]
    for number, change in enumerate(changes, start=2):
        pack_dataset(rows, **{"max_length": 64, **change})
        assert len(list(cache.iterdir())) == number


def test_arguments_reach_the_plan():
    rows = [{"input_ids": [1] * n} for n in (5, 3, 3, 2, 8)]
    assert sorted(pack_dataset(rows, 8, seed=None)["seq_lengths"]) == [[3, 2], [5, 3], [8]]
    assert pack_dataset(rows, 8, "unpacked").num_rows == 5
    assert max(map(len, pack_dataset(rows, 16, max_sequences_per_pack=2)["seq_lengths"])) == 2
    for data in (rows, Dataset.from_list(rows).to_iterable_dataset()):
        assert "labels" not in next(iter(pack_dataset(data, 8, labels=False)))
    store = TokenStore.from_samples(rows)
    assert pack_dataset(store, 8)["label"][0][0] == -100  # a TokenStore is such an iterable


def test_more_methods_come_in_where_the_quick_plan_is_not_proven_near():
    rows = [{"input_ids": [1] * n} for n in (9, 10, 11, 12) * 30]
    assert pack_dataset(rows, 32, "lpfhp").num_rows == 45
    packed = pack_dataset(rows, 32)
    assert packed.num_rows == 40 and json.loads(packed.info.description)["method"] == "exact_filling"


def test_a_plan_is_used_as_it_is_and_kept_apart_in_the_cache():
    lengths = [5, 3, 3, 2, 8, 40]
    rows = [{"input_ids": [7] * n} for n in lengths]
    for method, packs in (("unpacked", 6), ("optimal", 4)):
        made = plan(LengthHistogram.from_lengths(lengths, 8, "truncate"), method=method)
        packed = pack_dataset(rows, 8, plan=PackingPlan.from_json(made.to_json()), overlong="truncate")
        assert packed.num_rows == packs == json.loads(packed.info.description)["num_packs"]
    for says, options in {
        "plan must be a PackingPlan, not 'plan.json'.": {"plan": "plan.json"},
        "max_length must be 8, that of the plan, not 9.": {"plan": made, "max_length": 9},
        "method and max_sequences_per_pack must be left out with a plan": {"plan": made, "method": "lpfhp"},
        "The plan was made for other lengths": {"plan": made, "overlong": "drop"},
    }.items():
        with pytest.raises((TypeError, ValueError), match=says):
            pack_dataset(rows, **{"max_length": 8, "overlong": "truncate", **options})


def wrong_data():
    yield "The data set has no column input_ids; it has ids.", [{"ids": [1]}]
    yield "Row 1 of the data set must be a mapping with input_ids, not 3.", [{"input_ids": [1]}, 3]
    yield "Row 2 of the data set has no token.", [{"input_ids": [1]}, {"input_ids": [2]}, {"input_ids": []}]
    yield "The column 'input_ids' has no value in row 1.", [{"input_ids": [1]}, {"input_ids": [None, 2]}]
    yield "The column 'input_ids' must hold lists of whole numbers, not list<item: double>.", [{"input_ids": [0.5]}]
    yield "The column 'input_ids' must hold numbers of 32 bits", [{"input_ids": [1 << 31]}]
    said = "The rows of the data set do not fit together in the column 'input_ids': "
    yield said, [{"input_ids": [1]}, {"input_ids": [1 << 70]}]
    yield "must hold numbers from 0 up, not -1 as in row 1.", [{"input_ids": [1, 2]}, {"input_ids": [7, -1, 5]}]
    yield "Row 1 of the data set has 9 tokens; the maximum is 8", [{"input_ids": [1] * n} for n in (8, 9)]
    yield "'name' holds null, which no pack can carry", [{"input_ids": [1], "name": None}]
    yield "The column 'labels' has 1 values in row 0, which has 2 tokens", [{"input_ids": [1, 2], "labels": [1]}]
    yield "The column 'words' holds list<item: string>", [{"input_ids": [1], "words": ["a"]}]
    yield "attention_mask of row 1 hides tokens", [{"input_ids": [1, 2], "attention_mask": [1, m]} for m in (1, 0)]
    for sizes in ([1, 2], [0, 2], [3, -1]):
        wrong = [{"input_ids": [1, 2], "seq_lengths": own} for own in ([2], sizes)]
        yield f"The seq_lengths of row 1 must be from 1 up and add up to its 2 tokens, not {sizes}.", wrong
    yield "The position_ids of row 1 must count from 0", [{"input_ids": [1], "position_ids": [n]} for n in (0, 1)]
    yield "The position_ids of row 0 must count", [{"input_ids": [1, 2], "seq_lengths": [2], "position_ids": [0, 0]}]
    yield "'position_ids' has 1 values in row 0", [{"input_ids": [1, 2], "position_ids": [0]}]
    yield "'position_ids' must hold lists of whole numbers", [{"input_ids": [1], "position_ids": [0.0]}]
    yield "The column 'rejected_ids' belongs to pairs of answers", [{"prompt_ids": [1], "rejected_ids": [1]}]
    yield "The column 'pixel_values' belongs to images", [{"input_ids": [1], "pixel_values": [[0.5]]}]
    yield "must hold 0 and 1, not 2 as in row 1.", [{"input_ids": [1], "assistant_masks": [n]} for n in (1, 2)]
    yield "must hold lists of 0 and 1, not int64", [{"input_ids": [1], "completion_mask": 1}]
    yield "must hold 0 and 1, not 0.5 as in row 0.", [{"input_ids": [1], "completion_mask": [0.5]}]
    yield "The column 'completion_mask' is 0 for all tokens", [{"input_ids": [1, 2], "completion_mask": [0, 0]}]
    yield "it has text; a tokenizer (--tokenizer) makes them of chats and texts.", [{"text": "a"}]
    yield "The column 'b' is in some rows only", [{"input_ids": [1]}, {"input_ids": [1], "b": 1}]
    yield "not the splits train, test: pass one.", {"train": [], "test": []}
    yield "dataset must be a datasets.Dataset", 3
    frame = pandas.DataFrame({"input_ids": [[1, 2], [3]]})
    yield "dataset must not be a pandas frame: pass datasets.Dataset.from_pandas(frame).", frame
    yield "no sequence to pack", []


# What is known only when all rows were read, at the end of a stream
ROWS_ALONE = "The column 'completion_mask' is 0 for all tokens", "no sequence to pack"


@pytest.mark.parametrize("says, data", list(wrong_data()))
def test_wrong_data_is_refused_by_its_column_and_row(cache, says, data):
    with pytest.raises((TypeError, ValueError)) as raised:
        pack_dataset(data, 8)
    assert says in str(raised.value) and "\n" not in str(raised.value)
    assert not cache.exists() or not list(cache.iterdir())
    if isinstance(data, list) and says not in ROWS_ALONE:
        with pytest.raises((TypeError, ValueError), match=re.escape(says)):
            list(pack_dataset(datasets.IterableDataset.from_generator(lambda: iter(data)), 8))


@pytest.mark.parametrize("name", ["", "a"])
def test_texts_may_all_be_empty(tmp_path, name):
    rows = [{"input_ids": [1] * length, "name": name} for length in (3, 5, 2)]
    for number, data in enumerate((rows, Dataset.from_list(rows))):
        packed = pack_dataset(data, 8, cache_dir=tmp_path / str(number))
        assert sorted(packed["name"]) == [[name], [name, name]]


def test_rows_far_apart_are_held_to_one_another(monkeypatch):
    monkeypatch.setattr(row_sources, "_ROWS_AT_ONCE", 2)
    rows = [{"input_ids": [1], "score": 1}] * 2
    for says, odd in [
        ("The column 'score' is in some rows only", {"input_ids": [1]}),
        ("The column 'score' holds int64 at first, and double from row 2 on.", {"input_ids": [1], "score": 0.5}),
    ]:
        with pytest.raises((TypeError, ValueError), match=says):
            pack_dataset([*rows, odd], 8)


def test_wrong_arguments_are_refused():
    rows, stream = [{"input_ids": [1]}], datasets.IterableDataset.from_generator(lambda: iter([]))
    for says, data, change in [
        ("max_length must be at least 1, not 0.", rows, {"max_length": 0}),
        ("method must be .*, not 'best'", rows, {"method": "best"}),
        ("overlong must be .*, not 'cut'", rows, {"overlong": "cut"}),
        ("labels must be True or False, not 1.", rows, {"labels": 1}),
        ("seed must be at least 0, not -1.", rows, {"seed": -1}),
        ("max_sequences_per_pack must be at least 1, not 0.", rows, {"max_sequences_per_pack": 0}),
        ("method must be left out for a stream", stream, {"method": "lpfhp"}),
        ("window must be at least 1, not 0", stream, {"window": 0}),
        ("overlong must be", stream, {"overlong": "cut"}),
    ]:
        with pytest.raises((TypeError, ValueError), match=says):
            pack_dataset(data, **{"max_length": 8, **change})
    with pytest.raises(ValueError, match="state must be what state_dict"):
        pack_dataset(stream, 8).load_state_dict({"packs": 1})


def test_an_interrupt_leaves_no_half_written_file(cache, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    rows = list(samples())
    for place, name in (packed_rows, "make_plan"), (packed_rows, "with_labels"), (stored_columns.Spool, "add"):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, stop)
            with pytest.raises(KeyboardInterrupt):
                pack_dataset(rows, 64)
        assert not list(cache.iterdir())


def test_memory_holds_no_tokens(tmp_path):
    """40 million tokens in two columns, 320 MB, pass through less than a half of that."""
    offsets, ids = np.arange(0, 40_000_001, 800), np.arange(40_000_000, dtype=np.int32) % 30_000
    column = pa.ListArray.from_arrays(offsets.astype(np.int32), ids)
    plain = {"row_group_size": 500, "compression": "none", "use_dictionary": False}
    pq.write_table(pa.table({"input_ids": column, "labels": column}), tmp_path / "x.parquet", **plain)
    code = """
import re, sys, threading, time
import scipy.sparse, scipy.optimize
from packlib.tools.rows.parquet_packs import pack_parquet
def used():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1])
packing = threading.Thread(target=pack_parquet, args=(*sys.argv[1:], 2048, False))
before = peak = used()
packing.start()
while packing.is_alive():
    peak = max(peak, used())
    time.sleep(0.02)
print((peak - before) / 1024)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x.parquet"), str(tmp_path / "out.parquet")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(said) < 160, said
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 25_000


def test_other_borders_or_another_version_make_another_file(cache, monkeypatch):
    for ids, who in (([[1, 2], [3]], ["ab", "c"]), ([[1], [2, 3]], ["ab", "c"]), ([[1, 2], [3]], ["a", "bc"])):
        (row,) = pack_dataset(data := Dataset.from_dict({"input_ids": ids, "who": who}), 9)
        assert dict(zip(row["who"], row["seq_lengths"], strict=True)) == dict(zip(who, map(len, ids), strict=True))
    monkeypatch.setattr(packed_rows, "__version__", "another")
    pack_dataset(data, 9)
    assert len(list(cache.iterdir())) == 4


def test_a_page_that_was_damaged_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table({"input_ids": pa.array([[1000 + i] for i in range(9)], pa.list_(pa.int64()))})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(np.int64(1004).tobytes(), np.int64(1005).tobytes(), 1))
    with pytest.raises(ValueError, match=r"x\.parquet is no whole Parquet file of sequences: .*CRC"):
        pack_dataset(path, 8, cache_dir=tmp_path)
    assert [found.name for found in tmp_path.iterdir()] == ["x.parquet"]


def test_a_stream_packs_as_the_stream_packer_does_with_a_bounded_window():
    rows = list(samples(300))
    stream = pack_dataset(Dataset.from_list(rows).to_iterable_dataset(num_shards=3), 64, window=5)
    expected = StreamPacker(64, 5).pack(len(row["input_ids"]) for row in rows)
    assert [row["rating"] for row in stream] == [[rows[i]["rating"] for i in ids] for ids in expected]


@pytest.mark.parametrize("empty_every", [7, 100, 100_000])
def test_a_stream_goes_on_where_it_stopped(empty_every):
    source = Dataset.from_list(list(samples(120))).to_iterable_dataset(num_shards=3)
    whole = list(PackedStream(source, 64, window=5, empty_every=empty_every))
    for stop in (0, 1, 9, len(whole) - 1, len(whole)):
        stopped, going = (PackedStream(source, 64, window=5, empty_every=empty_every) for _ in range(2))
        begun = list(islice(stopped, stop))
        going.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
        assert begun + list(going) == whole
        assert list(going) == whole  # the next pass is a whole one


def test_a_state_of_a_stream_of_another_setting_is_refused_by_its_name():
    source = Dataset.from_list(list(samples(9))).to_iterable_dataset()
    here = PackedStream(source, 64)
    before = here.state_dict()
    for name, value in {
        "max_length": 65, "max_sequences_per_pack": 2, "overlong": "drop", "window": 6, "empty_every": 7,
    }.items():  # fmt: skip
        says = f"The state is of a stream with {name} {value}; this one has {before[name]}."
        with pytest.raises(ValueError, match=says):
            here.load_state_dict(PackedStream(source, **{"max_length": 64, name: value}).state_dict())
        assert here.state_dict() == before


def test_workers_and_epochs_of_a_stream_are_those_of_datasets():
    rows = list(samples(120))
    source = Dataset.from_list(rows).to_iterable_dataset(num_shards=4).shuffle(seed=1, buffer_size=30)
    stream = PackedStream(source, 64, window=5)
    loader = torch.utils.data.DataLoader(stream, batch_size=None, num_workers=2)
    assert unpacked(loader) == without_mask(rows)
    first = list(stream)
    stream.set_epoch(1)
    assert list(stream) != first and unpacked(stream) == without_mask(rows)


@pytest.mark.parametrize("max_length", [32_768, 32_769])
def test_long_rows_and_large_tokens_fit_in_their_types(max_length):
    """A type of 16 bits would hold a position of 32,768 as -32,768."""
    ids = [*range(max_length - 1), 2**31 - 1]
    (row,) = pack_dataset([{"input_ids": ids}], max_length)
    assert row["position_ids"] == [*range(max_length)] and row["input_ids"] == ids


def test_a_column_that_comes_twice_is_refused(tmp_path):
    twice = pa.Table.from_arrays([pa.array([[1, 2]])] * 3, names=["input_ids", "who", "who"])
    pq.write_table(twice, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="The data set has 2 columns named who; one is needed"):
        pack_dataset(tmp_path / "x.parquet", 8)
