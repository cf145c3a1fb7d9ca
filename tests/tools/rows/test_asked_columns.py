"""Columns that packlib does not know: none is dropped, carried or trained on in silence."""

import gzip
import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_columns import of
from test_pack_dataset import unpacked

from packlib.tools import cli
from packlib.tools.auditing import audit
from packlib.tools.rows import pack_dataset

IDS = [11, 12, 13, 14]
ANSWER = [0, 0, 1, 1]
WANTED = [-100, -100, 13, 14]
OPTIONS = ["--max-length", "16", "--no-progress", "--out"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(capsys, *arguments):
    """What the command says in one sentence when it refuses."""
    assert cli.main(["pack", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("kind", [int, bool, float])
@pytest.mark.parametrize("name", ["is_response", "train_on", "loss_weights", "weights", "mask_loss", "trainable", "x"])
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_a_column_of_0_and_1_asks_for_a_word_whatever_its_name_and_kind(source, name, kind):
    data = of(source, [{"input_ids": IDS, name: [kind(one) for one in ANSWER]}] * 4)
    with pytest.raises(ValueError, match=f"The column '{name}' has 0 and 1 for each token"):
        list(pack_dataset(data, 16))
    assert [one["labels"] for one in unpacked(pack_dataset(data, 16, masks={name: "loss"}))] == [WANTED] * 4
    assert next(iter(pack_dataset(data, 4, masks={name: "keep"})))[name] == ANSWER


@pytest.mark.parametrize("name", ["label_ids", "Labels", "targets", "y"])
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_a_column_with_labels_that_stand_for_none_asks_whatever_its_name(source, name):
    """Labels of another name would be carried, and prompts trained on by labels that packlib makes."""
    data = of(source, [{"input_ids": IDS, name: IDS}] * 5001 + [{"input_ids": IDS, name: WANTED}])
    with pytest.raises(ValueError, match=f"The column '{name}' has -100 for some tokens.*rename it to labels"):
        list(pack_dataset(data, 16))
    assert "labels" in next(iter(pack_dataset(data, 16, masks={name: "drop"})))
    assert next(iter(pack_dataset(data, 4, masks={name: "keep"})))[name] in (IDS, WANTED)


def test_a_number_of_minus_100_that_is_no_label_asks_for_nothing():
    rows = [{"input_ids": IDS, "logprobs": [-100.0, -1.5, -2.0, 0.0], "score": -100}]
    assert pack_dataset(rows, 16)[0]["score"] == [-100]


@pytest.mark.parametrize("others", [0, 5000, 5001])
def test_whether_a_word_is_needed_does_not_depend_on_the_order_of_rows(others):
    """Rows are read some thousands at a time; one that holds a 2 says that this is no mask."""
    rows = [{"input_ids": IDS, "foo_mask": ANSWER}] * 5001
    rows.insert(others, {"input_ids": IDS, "foo_mask": [2, 0, 1, 1]})
    assert len(pack_dataset(rows, 4)) == 5002


@pytest.mark.parametrize("name", ["token_type_ids", "special_tokens_mask"])
def test_what_tokenizers_add_asks_for_nothing(name):
    assert pack_dataset([{"input_ids": IDS, name: ANSWER}], 16)[0][name] == ANSWER


@pytest.mark.parametrize("name", ["weight", "loss_weight", "sample_weights", "train", "trainable"])
@pytest.mark.parametrize("value", [0, 1, False, 0.0])
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_a_weight_for_each_sequence_asks_and_is_honored(source, name, value):
    rows = [{"input_ids": IDS, name: value}, {"input_ids": [5, 6], name: type(value)(1)}]
    with pytest.raises(ValueError, match=f"The column '{name}' has a number for each sequence"):
        list(pack_dataset(of(source, rows), 16))
    labels = [one["labels"] for one in unpacked(pack_dataset(of(source, rows), 16, masks={name: "loss"}))]
    first = [-100, *IDS[1:]] if value else [-100] * 4
    assert sorted(labels) == sorted([first, [-100, 6]])
    kept = pack_dataset(of(source, rows), 4, masks={name: "keep"})
    assert sorted(row[name] for row in kept) == sorted([[value], [1]])


@pytest.mark.parametrize("name", ["prompt_length", "prompt_len", "source_len", "prompt_lengths", "prompt_tokens"])
def test_the_number_of_tokens_of_a_prompt_asks_and_is_honored(name):
    rows = [{"input_ids": [5, 6, 7, 8], name: 2}, {"input_ids": [9, 10, 11], name: 0}, {"input_ids": [3], name: 1}]
    with pytest.raises(ValueError, match=f"The column '{name}' has a number for each sequence"):
        pack_dataset(rows, 16)
    packed = pack_dataset(rows, 16, masks={name: "prompt"}, overlong="split")
    said = json.loads(packed.info.description)["columns"][name]
    assert said == "labels are -100 for the first tokens that it counts, for 37.5 % of the tokens"
    assert sorted(one["labels"] for one in unpacked(packed)) == [[-100], [-100, -100, 7, 8], [-100, 10, 11]]
    with pytest.raises(ValueError, match=rf"{name} must count the first tokens of each row, not be -1 as in row 1"):
        pack_dataset([rows[0], rows[1] | {name: -1}], 16, masks={name: "prompt"})


def test_weights_of_tokens_that_are_no_mask_ask_too(capsys):
    Dataset.from_list([{"input_ids": IDS, "loss_weights": [0.0, 0.0, 0.5, 1.0]}]).to_parquet("x.parquet")
    capsys.readouterr()  # datasets shows a bar
    said = refused(capsys, "x.parquet", *OPTIONS, "no")
    assert "The column 'loss_weights' has a weight for each token, which labels cannot have" in said
    assert "--drop loss_weights" in said and "--mask loss_weights keep" in said
    assert cli.main(["pack", "x.parquet", *OPTIONS, "out.parquet", "--mask", "loss_weights", "keep"]) == 0
    assert pq.read_table("out.parquet")["loss_weights"].to_pylist() == [[0.0, 0.0, 0.5, 1.0]]


BESIDE = {
    "messages": [{"role": "user", "content": "a"}], "meta": {"a": 1}, "nothing": None, "images": [[1, 2]],
    "chosen": "a", "short": [1, 2],
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_what_no_pack_can_carry_is_named_with_the_words_that_leave_it_out(capsys, name, suffix):
    rows = [{"input_ids": IDS, name: BESIDE[name]}] * 2
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), "x.parquet")
    else:
        lines("x.jsonl", rows)
    said = refused(capsys, f"x.{suffix}", *OPTIONS, "no")
    assert f"'{name}'" in said and f"--drop {name}" in said and f"masks={{'{name}': 'drop'}}" in said
    assert cli.main(["pack", f"x.{suffix}", *OPTIONS, "out.parquet", "--drop", name]) == 0
    assert f"{name}: left out, as you say." in capsys.readouterr().out
    assert name not in pq.read_table("out.parquet").column_names


def lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_of_some_rows_is_named_with_its_row_and_file_and_can_be_left_out(capsys, first):
    rows = [{"input_ids": IDS}, {"input_ids": IDS, "extra": 1}]
    lines("x.jsonl", [rows[first], rows[1 - first]])
    said = refused(capsys, "x.jsonl", *OPTIONS, "no")
    assert f"packlib: The column 'extra' is in some rows only: row {1 - first} of x.jsonl has it, row {first}" in said
    assert "no file of JSON lines" not in said
    assert cli.main(["pack", "x.jsonl", *OPTIONS, "out.parquet", "--drop", "extra"]) == 0


@pytest.mark.parametrize("first", ["a", "b"])
def test_what_is_wrong_in_a_file_of_a_folder_names_the_file(capsys, tmp_path, first):
    (tmp_path / "data").mkdir()
    lines(f"data/{first}.jsonl", [{"input_ids": IDS}] * 3)
    other = {"a": "b", "b": "a"}[first]
    lines(f"data/{other}.jsonl", [{"input_ids": IDS, "extra": 1}] * 2)
    said = refused(capsys, "data", *OPTIONS, "no")
    row = {"a": 3, "b": 2}[first]
    assert f"In data/b.jsonl, which begins with row {row} of the data set: The column 'extra' is in some rows" in said
    assert cli.main(["pack", "data", *OPTIONS, "out.parquet", "--drop", "extra"]) == 0
    lines(f"data/{other}.jsonl", [{"input_ids": IDS}, {"input_ids": []}])
    said = refused(capsys, "data", *OPTIONS, "no")
    assert f"In data/{other}.jsonl" in said and "has no token" in said


def test_a_column_to_leave_out_that_is_not_there_is_named(capsys):
    lines("x.jsonl", [{"input_ids": IDS, "message": 1}])
    said = refused(capsys, "x.jsonl", *OPTIONS, "no", "--drop", "messages")
    assert "(--drop messages) names no column of the data set; it has input_ids, message." in said


def test_a_category_of_pandas_is_a_text():
    texts = pa.array(["a", "b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"input_ids": [IDS] * 3, "kind": texts}), "x.parquet")
    assert sorted(one["kind"] for one in unpacked(pack_dataset("x.parquet", 4))) == ["a", "a", "b"]


ROWS = [{"input_ids": list(range(5, 5 + n)), "who": f"é{n}"} for n in (3, 9, 1, 16, 7)]


def compressed(path, name):
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    with pa.output_stream(path, compression=name) as file:
        file.write(text)


def arrow(path, writer, rows=2):
    table = pa.Table.from_pylist(ROWS)
    with writer(path, table.schema) as file:
        file.write_table(table, max_chunksize=rows)


WRITERS = {
    "x.jsonl.gz": lambda path: compressed(path, "gzip"),
    "x.ndjson.zst": lambda path: compressed(path, "zstd"),
    "x.JSONL.GZ": lambda path: compressed(path, "gzip"),
    "x.arrow": lambda path: arrow(path, pa.ipc.new_file),
    "y.arrow": lambda path: arrow(path, pa.ipc.new_stream),
    "x.feather": lambda path: pyarrow.feather.write_feather(pa.Table.from_pylist(ROWS), path),
    "lz4.feather": lambda path: pyarrow.feather.write_feather(pa.Table.from_pylist(ROWS), path, compression="lz4"),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("way", ["file", "folder", "pattern"])
def test_compressed_lines_and_arrow_files_are_read(tmp_path, name, way):
    (tmp_path / "data").mkdir()
    WRITERS[name](f"data/{name}")
    data = {"file": f"data/{name}", "folder": "data", "pattern": "data/*.*"}[way]
    assert cli.main(["pack", data, *OPTIONS, "out.parquet"]) == 0
    assert pq.read_table("out.parquet").to_pylist() == pack_dataset(ROWS, 16).to_list()


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_are_named(capsys, tmp_path, name):
    WRITERS[name](name)
    whole = (tmp_path / name).read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:10], b"no" * 50, whole[:-3] if "y." not in name else b"a"):
        (tmp_path / name).write_bytes(damaged)
        said = refused(capsys, name, *OPTIONS, "no")
        assert name in said or "no sequence to pack" in said


def test_several_parts_in_one_compressed_file_are_all_read(tmp_path):
    """As `cat a.gz b.gz` makes them."""
    halves = [gzip.compress((json.dumps(row) + "\n").encode()) for row in ROWS]
    (tmp_path / "x.jsonl.gz").write_bytes(b"".join(halves))
    assert len(unpacked(pack_dataset("x.jsonl.gz", 16))) == len(ROWS)


@pytest.mark.parametrize("says, name, content", [
    ("x.parquet.gz is compressed, and only JSON lines are read so", "x.parquet.gz", b"1"),
    ("x.json is no file of JSON lines: Line 1 begins a JSON list", "x.json", b'[{"input_ids": [1]}]'),
    ("old.feather is no whole Arrow file of sequences: it is Feather of version 1", "old.feather", b"FEA1...."),
    ("x.jsonl is no file of JSON lines: Line 2: It is not JSON", "x.jsonl", b'{"input_ids": [1]}\n{'),
])  # fmt: skip
def test_other_files_are_refused_with_what_to_do(capsys, tmp_path, says, name, content):
    (tmp_path / name).write_bytes(content)
    assert says in refused(capsys, name, *OPTIONS, "no")


def test_lines_with_a_byte_order_mark_are_read(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"\xef\xbb\xbf" + b'{"input_ids": [1, 2]}\r\n')
    assert len(pack_dataset("x.jsonl", 16)) == 1


def test_long_batches_of_arrow_are_read_in_parts(monkeypatch):
    from packlib.tools.rows import row_sources

    rows = [{"input_ids": np.arange(5, 5 + n).tolist()} for n in range(1, 60)]
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_file("x.arrow", table.schema) as file:
        file.write_table(table)
    monkeypatch.setattr(row_sources, "_BYTES_AT_ONCE", 500)
    sizes = [len(batch) for batch in row_sources.batches(row_sources.opened("x.arrow"))]
    assert max(sizes) < 20 and sum(sizes) == 59
    assert len(unpacked(pack_dataset("x.arrow", 64))) == 59


def test_a_table_of_arrow_with_two_columns_of_one_name_is_refused():
    table = pa.table([pa.array([IDS]), pa.array([IDS])], names=["input_ids", "input_ids"])
    with pytest.raises(ValueError, match="The data set has 2 columns named input_ids"):
        pack_dataset(table, 8)


def test_lists_that_arrow_stores_once_and_numbers_are_lists_for_tokens():
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([[-100, 6, 7], [-100, -100, 3]]))
    table = pa.table({"input_ids": [[5, 6, 7], [1, 2, 3], [5, 6, 7]], "labels": labels})
    with pa.ipc.new_file("x.arrow", table.schema) as file:
        file.write_table(table)
    (row,) = pack_dataset("x.arrow", 9, seed=None)
    assert row["labels"] == [-100, 6, 7, -100, -100, 3, -100, 6, 7]


def test_texts_are_kept_after_a_batch_that_is_left_out_as_a_whole(monkeypatch):
    from packlib.tools.rows import row_sources

    monkeypatch.setattr(row_sources, "_ROWS_AT_ONCE", 2)
    rows = [{"input_ids": IDS * n, "who": f"é{n}"} for n in (1, 9, 9, 9, 1, 1)]
    assert [row["who"] for row in pack_dataset(rows, 8, overlong="drop", seed=None)] == [["é1", "é1"], ["é1"]]


@pytest.mark.parametrize("first, second", [(ANSWER, [2, 0, 1, 1]), ([2, 0, 1, 1], ANSWER), (ANSWER, ANSWER)])
def test_a_column_is_a_mask_if_all_ranks_have_read_0_and_1(first, second):
    from packlib.tools.rows.row_columns import ColumnReader

    ranks = []
    for values in (first, second):
        ranks.append(ColumnReader())
        ranks[-1].read(pa.RecordBatch.from_pylist([{"input_ids": IDS, "foo": values}]))
    ranks[0].add(ranks[1])
    if first == second:
        with pytest.raises(ValueError, match="The column 'foo' has 0 and 1"):
            ranks[0].finish()
    else:
        assert ranks[0].finish()["foo"] == "a value for each token"


@pytest.mark.parametrize(
    "drop", [["--drop", "meta,x y"], ["--drop", "meta", "--drop", "x y"], ["--drop", " meta , x y"]]
)
def test_several_columns_are_left_out_by_one_option(drop, capsys):
    row = {"input_ids": IDS, "meta": {"a": 1}, "x y": {"b": 2}}
    Dataset.from_list([row] * 3).to_parquet("x.parquet")
    assert cli.main(["pack", "x.parquet", *OPTIONS, "out.parquet", *drop]) == 0
    said = capsys.readouterr().out
    assert "meta: left out, as you say." in said and "x y: left out, as you say." in said


def test_a_column_with_a_comma_in_its_name_is_left_out_in_quotes(capsys):
    pq.write_table(pa.table({"input_ids": [IDS] * 3, "a,b": [{"c": 1}] * 3}), "x.parquet")
    said = refused(capsys, "x.parquet", *OPTIONS, "out.parquet")
    (option,) = [part for part in said.split("(") if part.startswith("--drop")]
    words = shlex.split(option.partition(")")[0])
    assert cli.main(["pack", "x.parquet", *OPTIONS, "out.parquet", *words]) == 0


@pytest.mark.parametrize(
    ("turn", "name"),
    [({"role": "user", "content": "hi"}, "messages"), ({"from": "human", "value": "hi"}, "conversations")],
)
def test_a_line_that_is_a_list_of_turns_is_told_how_chats_are_written(turn, name, capsys):
    with open("x.jsonl", "w") as file:
        file.write(json.dumps([turn, turn]) + "\n")
    said = refused(capsys, "x.jsonl", *OPTIONS, "out.parquet")
    assert "Line 1 is a list of turns" in said
    assert f'{{"{name}": [' in said and f"jq -c '{{{name}: .}}'" in said
    with open("x.jsonl", "w") as file:
        file.write(json.dumps([{"input_ids": IDS}]) + "\n")
    assert "jq -c '.[]'" in refused(capsys, "x.jsonl", *OPTIONS, "out.parquet")


def test_a_table_of_arrow_is_taken_as_a_data_set():
    table = pa.table({"input_ids": [IDS, [5, 6]], "labels": [WANTED, [5, 6]]})
    for given in (table, table.to_batches()[0]):
        assert unpacked(pack_dataset(given, 16)) == unpacked(pack_dataset(Dataset(table), 16))
        assert audit(pack_dataset(given, 16), given).problems == ()
    packs = pack_dataset(table, 16).with_format("arrow")[:]
    assert audit(packs, table).problems == ()
