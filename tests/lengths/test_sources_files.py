"""A user's own files: every kind, every way to be broken."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_cases import bounded_memory
from hypothesis import given
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram, load, own_files
from packlib.tools.advice.data import read_uncut

LENGTHS = st.lists(st.integers(1, 5000), min_size=1, max_size=60)
TEXTS = "lengths.txt header.csv column.csv counts.csv lines.jsonl columns.ndjson".split()
KINDS = [*TEXTS, "lengths.npy", "one.parquet", "two.pq", "list.parquet"]


def write(folder, kind, lengths):
    """Write lengths as a file of one kind; returns the arguments for `load`."""
    path = folder / kind
    if kind == "lengths.txt":
        path.write_text("\n".join(map(str, lengths)))
    elif kind == "header.csv":
        path.write_text("# mine\n\nlength\n" + "".join(f" {length}\r\n" for length in lengths) + "\n\n")
    elif kind == "column.csv":
        path.write_text('title,length\n"a, b",' + '\n"c",'.join(map(str, lengths)) + "\n")
        return {"name_or_path": path, "column": "length"}
    elif kind == "counts.csv":
        LengthHistogram.from_lengths(lengths).to_csv(path)
    elif kind == "lengths.npy":
        np.save(path, np.array(lengths, np.uint16))
    elif kind == "one.parquet":
        pq.write_table(pa.table({"n": lengths}), path, row_group_size=7)
    elif kind == "two.pq":
        pq.write_table(pa.table({"id": ["x"] * len(lengths), "n": pa.array(lengths, pa.int16())}), path)
        return {"name_or_path": str(path), "column": "n"}
    elif kind == "list.parquet":
        pq.write_table(pa.table({"input_ids": [[0] * length for length in lengths]}), path, row_group_size=7)
    elif kind == "lines.jsonl":
        path.write_text("\n\n".join(map(str, lengths)), encoding="utf-8-sig")
    elif kind == "columns.ndjson":
        rows = [{"ids": [0] * length, "id": "x"} for length in lengths]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"name_or_path": path, "column": "ids"}
    return {"name_or_path": path}


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=LENGTHS)
def test_every_kind_of_file_gives_its_lengths(tmp_path_factory, kind, lengths):
    arguments = write(tmp_path_factory.mktemp("own"), kind, lengths)
    histogram = load(**arguments)
    assert histogram == LengthHistogram.from_lengths(lengths, name=kind.split(".")[0], source=kind)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("length,count", "3,4\n5,1\n"),
        ("Count,Length", "4,3\n1,5\n"),
        ("tokens,n", "3,4\n5,1\n"),
        ("Freq,num_tokens", "4,3\n1,5\n"),
    ],
)
def test_a_table_of_counts_is_one_in_either_order(tmp_path, header, rows):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n{rows}")
    lengths = next(name for name in header.split(",") if name.lower() not in ("count", "n", "freq"))
    for column in (None, lengths):
        assert load(path, column=column).expand().tolist() == [3, 3, 3, 3, 5]


@pytest.mark.parametrize("rows", ["3,4\n5,1\n", "1,4\n2,1\n", "8,1\n2,5\n1,7\n", "1,4\n2,3\n4,1\n"])
def test_counts_without_a_header_are_read_where_lengths_cannot_be_ids(rows, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(rows)
    pairs = [tuple(map(int, row.split(","))) for row in rows.split()]
    assert sorted(load(path).expand().tolist()) == sorted(length for length, count in pairs for _ in range(count))
    ids = "1,30\n2,12\n3,500\n"
    path.write_text("id,length\n" + ids)
    assert sorted(load(path, column="length").expand().tolist()) == [12, 30, 500]
    path.write_text("length,count\n" + ids)
    assert load(path).num_sequences == 542


@pytest.mark.parametrize("kind", ["a.csv", "a.parquet", "a.jsonl"])
def test_a_column_of_counts_is_never_left_aside(tmp_path, kind):
    """Beside a column of lengths it may say how many sequences have each; beside tokens it is another thing."""
    table, path = pa.table({"id": [1, 2], "length": [3, 5], "Count": [4, 1]}), tmp_path / kind
    if kind == "a.csv":
        path.write_text("id,length,Count\n1,3,4\n2,5,1\n")
    elif kind == "a.jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        pq.write_table(table, path)
    with pytest.raises(ValueError, match="has the column Count beside length: if it says how many"):
        load(path, column="length")
    with pytest.raises(ValueError, match="has the column Count beside length: if it says how many"):
        read_uncut(path, "length")
    pq.write_table(pa.table({"input_ids": [[3, 5]], "count": [4]}), tmp_path / "b.parquet")
    assert load(tmp_path / "b.parquet", column="input_ids").expand().tolist() == [2]


@pytest.mark.parametrize(
    ("content", "column", "says"),
    [
        ('{"a": 3}\n{"a": null}\n', None, "the column a of line 2 holds None; lengths are whole numbers"),
        ('{"a": 3, "b": 4}\n', None, "line 1 has 2 columns: choose one of a, b by column"),
        ('{"a": 3}\n{"b": 4}\n', "a", "the column of line 2 must be 'b', not 'a'"),
        ('{"a": 3}\n{a: 4}\n', None, "Line 2: It is not JSON"),
        ("3\n4.5\n", None, "line 2 holds 4.5; lengths are whole numbers"),
        ("3\n{}\n", None, "line 2 has no column"),
        ("3\n", "a", "line 1 has no columns, and column 'a' was asked for"),
        ('{"text": "words"}\n', None, "the column text of line 1 holds 'words'"),
        (
            '{"messages": [{"role": "user"}]}\n',
            None,
            "the column messages of line 1 holds lists of messages and no tokens: packlib report",
        ),
    ],
)
def test_broken_json_lines_name_the_line(tmp_path, content, column, says):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"a.jsonl is no file of JSON lines of lengths: {says}"):
        load(path, column=column)


@pytest.mark.parametrize("kind", ["column.csv", "counts.csv"])
def test_a_file_takes_a_maximum_length(tmp_path, kind):
    arguments = write(tmp_path, kind, [3, 9, 12])
    assert load(**arguments, max_length=20).max_length == 20
    cut = load(**arguments, max_length=9, overlong="truncate")
    assert cut.expand().tolist() == [3, 9, 9] and cut.truncated == 1
    rest = load(**arguments, max_length=9, overlong="drop")
    assert rest.expand().tolist() == [3, 9] and rest.dropped == 1
    with pytest.raises(ValueError, match='over the maximum length 9: pass a larger maximum, or overlong="truncate"'):
        load(**arguments, max_length=9)


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("lengths.txt", 0, "Length 0 at line 701 of"),
        ("lengths.txt", "x", "line 701: expected a whole number, not 'x'"),
        ("lengths.npy", 0, "Length 0 at position 700 of"),
        ("one.parquet", 0, "Length 0 at row 700 of"),
        ("one.parquet", None, "has no value in row 700"),
        ("column.csv", 0, "Length 0 at line 702 of"),
        ("lines.jsonl", 0, "Length 0 at row 700 of"),
    ],
)
def test_files_longer_than_a_chunk(tmp_path, kind, wrong, says, monkeypatch):
    monkeypatch.setattr(own_files, "_ROWS", 64)
    monkeypatch.setattr(own_files, "_BLOCK", 256)
    lengths = np.random.default_rng(0).integers(1, 999, 1000).tolist()
    found = load(**write(tmp_path, kind, lengths))
    assert found == LengthHistogram.from_lengths(lengths, name=kind.split(".")[0], source=kind)
    lengths[700] = wrong
    with pytest.raises(ValueError, match=says):
        load(**write(tmp_path, kind, lengths))


def test_a_parquet_file_is_read_in_bounded_memory(tmp_path, monkeypatch):
    """However long the rows are, no batch holds many more tokens than are read at a time."""
    monkeypatch.setattr(own_files, "_NUMBERS", 1000)
    rows = [[7] * 99] * 105 + [[7]] * 300
    pq.write_table(pa.table({"n": range(len(rows)), "ids": rows}), tmp_path / "a.parquet", row_group_size=100)
    with pq.ParquetFile(tmp_path / "a.parquet") as file:
        read = [len(batch.column(0).flatten()) for batch in own_files.parquet_batches(file, ["ids"])]
    assert max(read) <= 1000 and sum(read) == 105 * 99 + 300
    assert load(tmp_path / "a.parquet", column="ids").counts[[1, 99]].tolist() == [300, 105]


MIXED = pa.table({"text": ["a"], "score": [0.5], "gap": pa.array([None], pa.int32())})
BROKEN = [  # what a file holds, the column, and what is said
    ("", None, ValueError, "a.csv is empty"),
    ("length\n", None, ValueError, "a.csv holds no length"),
    ("3\n4\nfive\n6\n", None, ValueError, "a.csv, line 3: expected a whole number, not 'five'"),
    ("3\n\n4\n", None, ValueError, "a.csv, line 2: expected a whole number, not a blank"),
    ("3\n0\n", None, ValueError, "Length 0 at line 2 of .*a.csv is not allowed"),
    ("3\n999999999999\n", None, ValueError, "Length 999999999999 at line 2 of .*a.csv is over"),
    ("length,count\n3,4\n5\n", None, ValueError, "a.csv, line 3: expected \"length,count\", not '5'"),
    ("1,30\n2,12\n3,500\n", None, ValueError, "a.csv has no header, and its first column counts from 1 to 3"),
    ("7,30\n8,12\n9,5\n", None, ValueError, "a header, length,count or id,length, says which; then --column length"),
    ("1,024\n2,048\n", None, ValueError, "a.csv, line 2: '2,048' may be one length, or a length and its count"),
    ("1 024\n512\n", None, ValueError, "a.csv, line 1: expected a whole number, not '1 024'"),
    ("0x10\n512\n", None, ValueError, "a.csv, line 1: expected a whole number, not '0x10'"),
    ("1,30\n2,12\n3,500\n", "1", ValueError, "a.csv, line 1 is no header, so no column is named '1'"),
    ("3,4\n3,5\n", None, ValueError, "a.csv, line 2: a length is from 1 to .* and comes once"),
    ("3,4\n4,-5\n", None, ValueError, "a.csv, line 2: .*a count is from 0 to"),
    ("9" * 200_000, None, ValueError, "line 1: '9{80}' is no CSV: field larger"),
    ("id,length,words\n1,2,3\n", None, ValueError, "has 3 columns: choose one of id, length, words by column"),
    (f"2,{2**62}\n3,{2**61}\n", None, ValueError, "a.csv is no histogram of lengths: .* tokens; at most"),
    ("٣\n3\n", None, ValueError, "a.csv, line 1: expected a whole number, not '٣'"),
    ("id,length\n1,2\n3,x\n", "length", ValueError, "a.csv, line 3: expected a whole number, not 'x'"),
    ("id,length\n1,2\n\n4,5\n", "length", ValueError, "a.csv, line 3: expected a whole number, not a blank"),
    ("length,id,length\n1,2,3\n", "length", ValueError, "a.csv has 2 columns named length; one is needed"),
    ('id,length\n1,"2\n' + "3,4\n" * 50_000, "length", ValueError, r"line 2: expected a whole number, not '2\\n3,4"),
    ("id,length\n1,2\n4\n3,x\n", "length", ValueError, "a.csv, line 3: expected a whole number, not '.1 fields"),
    (np.ones((2, 2), int), None, ValueError, "one dimension"),
    (np.array([1.0, 2.5]), None, TypeError, "Length 2.5 at position 1 of .* is not a whole number"),
    (np.array([], int), None, ValueError, "a.npy holds no length"),
    (np.array([3, None]), None, ValueError, "lengths: it holds Python objects, which are never unpickled"),
    (b"300\n400\n", None, ValueError, "a.npy is no whole .npy file of lengths: .*the magic string is not correct"),
    (b"", None, ValueError, "a.npy is empty"),
    (MIXED, None, ValueError, "has 3 columns: choose one of text, score, gap by column"),
    (MIXED, "txt", ValueError, "'txt': did you mean 'text'"),
    (MIXED, "text", TypeError, "The column text of .* holds string"),
    (MIXED, "score", TypeError, "The column score of .* holds double"),
    (MIXED, "gap", ValueError, "The column gap of .* has no value in row 0"),
    (pa.table({"a": [{"b": 1}]}), "a", TypeError, "The column a of .* holds struct<b: int64>; lengths are"),
    (pa.table({"n": pa.array([], pa.int32())}), None, ValueError, "a.parquet holds no length"),
    (pa.table({"n": [[1, 2], [], [3]]}), None, ValueError, "Length 0 at row 1"),
    (pa.table({}), None, ValueError, "a.parquet has no column"),
    (pa.table([[1], [2]], ["n", "n"]), "n", ValueError, "a.parquet has 2 columns named n; one is needed"),
]


@pytest.mark.parametrize(("content", "column", "kind", "says"), BROKEN)
def test_broken_files_name_the_place(tmp_path, content, column, kind, says):
    if isinstance(content, str):
        path = tmp_path / "a.csv"
        path.write_text(content)
    elif isinstance(content, pa.Table):
        path = tmp_path / "a.parquet"
        pq.write_table(content, path)
    elif isinstance(content, bytes):
        path = tmp_path / "a.npy"
        path.write_bytes(content)
    else:
        path = tmp_path / "a.npy"
        np.save(path, content, allow_pickle=True)
    with pytest.raises(kind, match=says) as refusal:
        load(path, column=column)
    assert "\n" not in str(refusal.value) and "allow_pickle" not in str(refusal.value)


def test_blank_lines_may_end_a_file(tmp_path):
    path = tmp_path / "mine.csv"
    for text, column in (("3\n4\n\n \n", None), ("id,length\na,3\nb,4\n\n \t\n\n", "length")):
        path.write_text(text)
        assert load(path, column=column).expand().tolist() == [3, 4]


def test_from_csv_takes_any_order_comments_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("# a comment\n\nLength, Count\n9,2\n 3 , 1 \n4,0\n", encoding="utf-8-sig")
    histogram = LengthHistogram.from_csv(path, max_length=12, name="other", kind="synthetic")
    assert histogram.expand().tolist() == [3, 9, 9]
    assert (histogram.max_length, histogram.name, histogram.kind) == (12, "other", "synthetic")
    assert load(path) == LengthHistogram.from_csv(path)


def test_files_that_are_not_what_they_seem(tmp_path):
    (tmp_path / "noise.txt").write_bytes(bytes(range(128, 256)) * 50)
    with pytest.raises(ValueError, match=r"noise\.txt is no text file of lengths"):
        load(tmp_path / "noise.txt")
    with pytest.raises(IsADirectoryError, match="is a folder; a file of lengths is needed"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*noise.tx: did you mean noise.txt\?"):
        load(tmp_path / "noise.tx")
    with pytest.raises(FileNotFoundError, match=r"There is no file absent/lengths\.csv\."):
        load("absent/lengths.csv")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe\.txt is a pipe, a socket or a device; a file of lengths is needed"):
        load(tmp_path / "pipe.txt")


def sparse(path, start, size=10 << 30):
    """A file of `size` bytes, zeros after `start`, that takes no room on the disk."""
    path.write_bytes(start)
    os.truncate(path, size)


def test_huge_files_are_refused_in_bounded_memory(tmp_path):
    sparse(tmp_path / "line.txt", b"3\n4")
    sparse(tmp_path / "line.csv", b"id,n\n1,2\n3,4")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }".ljust(117) + b"\n"
    sparse(tmp_path / "floats.npy", b"\x93NUMPY\x01\x00v\x00" + header)
    sparse(tmp_path / "header.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff")
    sparse(tmp_path / "some.parquet", b"PAR1")
    with bounded_memory(1 << 28):
        for name, column, kind, says in (
            ("line.txt", None, ValueError, "line.txt, line 2: it has 1,000,000 characters or more."),
            ("line.csv", "n", ValueError, "line.csv, line 3: it has 1,000,000 characters or more."),
            ("floats.npy", None, TypeError, "Lengths must be integers, not float64"),
            ("header.npy", None, ValueError, "header.npy is no whole .npy file of lengths: it has no header"),
            ("some.parquet", None, ValueError, "some.parquet is no whole Parquet file"),
        ):
            with pytest.raises(kind, match=says):
                load(tmp_path / name, column=column)


def test_a_page_that_was_damaged_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    lengths = pa.table({"input_ids": [[5]] * 9, "n": np.arange(9) + 1000})
    pq.write_table(lengths, path, write_page_checksum=True, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(np.int64(1004).tobytes(), np.int64(1005).tobytes(), 1))
    with pytest.raises(ValueError, match=r"a\.parquet is no whole Parquet file: .*CRC"):
        load(path, column="n")


def test_a_name_wins_over_a_file_and_a_bare_file_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "squad").write_text("1\n")
    (tmp_path / "mine").write_text("1\n2\n")
    assert load("squad").num_sequences == 88_641
    assert load("./squad").num_sequences == 1
    assert load("mine").num_sequences == 2


def test_a_histogram_in_json_keeps_all_that_is_known(tmp_path):
    path, about = tmp_path / "lengths.json", {"kind": "synthetic", "source": "a formula", "truncated": 2}
    whole = LengthHistogram([0, 3, 0, 1], name="a/b", max_length=9, dropped=4, **about)
    whole.save(path)
    assert LengthHistogram.load(path) == whole and path.read_text() == whole.to_json() + "\n"
    found = load(path)
    assert found == whole and repr(found) == repr(whole) and found.source == "a formula"
    assert load(path, 2, overlong="truncate").truncated == 3
    for old, new, says in (
        ('"counts": [3, 1]', '"counts": [3]', "The histogram has 2 lengths, but 1 counts"),
        ('"lengths": [1, 3]', '"lengths": [3, 1]', "must ascend from 1 to at most 9"),
        ('"lengths": [1, 3]', '"lengths": [3, 3]', "must ascend from 1 to at most 9"),
        ('"kind": ', '"kinds": ', "did you mean 'kind'"),
        ("{", "[", "It is not JSON"),
    ):
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(ValueError, match=rf"lengths\.json is no histogram of lengths: .*{says}"):
            load(path)
        with pytest.raises(ValueError, match=rf"^The text is no histogram of lengths: .*{says}"):
            LengthHistogram.from_json(path.read_text())
        whole.save(path)


@pytest.mark.parametrize("order", [1, -1])
def test_a_column_with_dots_in_its_name_is_no_nested_one(tmp_path, order):
    columns = {"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": pa.array([5, 6]), "c": pa.array([[1], [2, 3]])}
    pq.write_table(pa.table(dict(list(columns.items())[::order])), tmp_path / "x.parquet")
    assert load(tmp_path / "x.parquet", column="a.b").num_tokens == 11
    assert load(tmp_path / "x.parquet", column="c").num_tokens == 3


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_json_lines_are_read_as_plain_ones(suffix, tmp_path):
    path = tmp_path / f"lengths.jsonl.{suffix}"
    lines = b"".join(b'{"length": %d}\n' % length for length in (5, 9, 400))
    with pa.output_stream(str(path), compression={"gz": "gzip", "zst": "zstd"}[suffix]) as file:
        file.write(lines)
    assert load(path).counts[[5, 9, 400]].tolist() == [1, 1, 1]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"lengths.jsonl.{suffix}"):
        load(path)


def test_ids_that_are_taken_for_lengths_get_a_hint(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("0,5\n1,9\n2,400\n")
    with pytest.raises(ValueError, match="If the first column is an id, write a header such as id,length"):
        load(path)
