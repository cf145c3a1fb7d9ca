"""Files of sequences as other programs leave them: pack, audit and report read each, or refuse it in one sentence."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.tools import cli

ROWS = [{"input_ids": [5, 6, 7, 8]}, {"input_ids": [9, 10]}, {"input_ids": [11, 12, 13]}]
IDS = [row["input_ids"] for row in ROWS]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
NOTHING_IN_IT = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"  # a frame that pzstd writes before each of zstd's
COMMANDS = {
    "pack": ["pack", "{}", "--max-length", "8", "--no-progress", "--out", "out.parquet"],
    "audit": ["audit", "{}", "--source", "{}"],
    "report": ["report", "{}", "--max-length", "16", "--no-progress", "--out", "out"],
}


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


def parquet(path, kind):
    pq.write_table(pa.table({"input_ids": pa.array(IDS, kind)}), path)


RIGHT = {
    "a mark, carriage returns and blank lines.jsonl": b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n") + b" \r\n\r\n",
    "no newline at the end.jsonl": LINES.rstrip(),
    "two members.jsonl.gz": gzip.compress(LINES[:29]) + gzip.compress(LINES[29:]),
    "two frames.jsonl.zst": zstd(LINES[:29]) + zstd(LINES[29:]),
    "frames of pzstd.jsonl.zst": NOTHING_IN_IT + zstd(LINES[:29]) + NOTHING_IN_IT + zstd(LINES[29:]),
    "large.parquet": pa.large_list(pa.int32()),
    "unsigned.parquet": pa.list_(pa.uint64()),
    "two\nlines.parquet": pa.list_(pa.int32()),
    "-dash.parquet": pa.list_(pa.int32()),
}


@pytest.fixture(params=COMMANDS)
def run(request, tmp_path, monkeypatch, capsys):
    """Call one of the commands on a file, and return its exit code and what it says on both streams."""
    monkeypatch.chdir(tmp_path)

    def call(name):
        code = cli.main(
            [word.format(name if not name.startswith("-") else f"./{name}") for word in COMMANDS[request.param]]
        )
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("name", RIGHT)
def test_a_file_with_the_same_sequences_is_read(run, name):
    if isinstance(RIGHT[name], bytes):
        Path(name).write_bytes(RIGHT[name])
    else:
        parquet(name, RIGHT[name])
    code, said, wrong = run(name)
    assert (code, wrong) in ((0, ""), (3, ""))  # an audit of rows without borders is inconclusive
    assert any(
        words in said
        for words in ("3 sequences, 9 tokens", "source: tokens               9", "slots, 10 instead of 12.")
    )


def one_more(row):
    return LINES + row + b"\n"


WRONG = {
    "nan.jsonl": (one_more(b'{"input_ids": [1, NaN]}'), "Line 4: NaN is no number."),
    "twice.jsonl": (one_more(b'{"input_ids": [1], "input_ids": [2]}'), "Line 4: The name 'input_ids' comes twice."),
    "deep.jsonl": (one_more(b'{"input_ids":' + b"[" * 10**5 + b"]" * 10**5 + b"}"), "Line 4: It is nested too deeply."),
    "digits.jsonl": (one_more(b'{"input_ids": [' + b"9" * 5000 + b"]}"), "A number of 5000 digits is too long."),
    "half.jsonl": (b'{"input_ids": [1], "text": "\\ud800"}\n', "half.jsonl"),
    "latin.jsonl": (b'{"input_ids": [1], "text": "\xe9"}\n', "latin.jsonl"),
    "cut.jsonl.gz": (gzip.compress(LINES * 1000)[:-20], "Truncated compressed stream"),
    "cut.jsonl.zst": (zstd(LINES * 1000)[:-9], "Truncated compressed stream"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_file_is_one_sentence_that_names_it(run, name):
    data, words = WRONG[name]
    Path(name).write_bytes(data)
    code, said, wrong = run(name)
    assert (code, said, wrong.count("\n")) == (2, "", 1)
    assert name in wrong and words in wrong


def test_a_text_that_is_no_unicode_is_named_by_its_column(run):
    Path("half.jsonl").write_bytes(WRONG["half.jsonl"][0])
    _, _, wrong = run("half.jsonl")
    assert "half.jsonl" in wrong and "in the column 'text'" in wrong


def test_two_columns_of_one_name_are_refused(run):
    pq.write_table(pa.table([pa.array(IDS)] * 2, names=["input_ids"] * 2), "two.parquet")
    code, _, wrong = run("two.parquet")
    assert code == 2 and "has 2 columns named input_ids; one is needed." in wrong and wrong.count("\n") == 1


def test_a_link_of_a_folder_that_leads_nowhere_is_named(run):
    Path("folder/deeper").mkdir(parents=True)
    parquet("folder/a.parquet", pa.list_(pa.int32()))
    Path("folder/deeper/up").symlink_to("..")  # a loop of folders hides no file
    link = Path("folder/b.parquet")
    for target in ("gone", "b.parquet"):
        link.symlink_to(target)
        code, _, wrong = run("folder")
        assert (code, wrong.count("\n")) == (2, 1) and "folder/b.parquet is a link that leads nowhere" in wrong
        link.unlink()
    assert run("folder")[0] in (0, 3)


@pytest.mark.parametrize("lines", ["5\n\n7\n", '\ufeff{"length": 5}\n{"length": 7}\n'])
def test_a_report_reads_json_lines_of_lengths(lines, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("lengths.jsonl").write_text(lines)
    assert cli.main("report lengths.jsonl --max-length 16 --no-progress --out out".split()) == 0
    assert "1 pack of 12 takes 12" in capsys.readouterr().out
