"""`audit` of packs in the columns that other programs write, each beside its source; and of columns that are named."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.tools.auditing import audit
from packlib.tools.cli import main

DRAW = np.random.default_rng(11)
TOP = 18
LENGTHS = [5, 9, 3, 7, 12, 4, 6, 2, 8, 8]
SEQUENCES = [DRAW.integers(10, 9999, length).tolist() for length in LENGTHS]
ROWS = [[4, 5], [1, 6, 2], [8, 9], [3, 0]]
HELD = [number for row in ROWS for number in row]
TRAINED = [[at >= length // 2 for at in range(length)] for length in LENGTHS]


def flat(rows):
    return [item for row in rows for item in row]


def full(values, padding=0):
    """Rows of `TOP` slots."""
    return [row + [padding] * (TOP - len(row)) for row in values]


def each(make):
    """A column with values for each token of each sequence of a row."""
    return [flat(make(place, number) for place, number in enumerate(row, 1)) for row in ROWS]


TOKENS = each(lambda _, n: SEQUENCES[n])
IN_PLACE = each(lambda _, n: [t if its else -100 for t, its in zip(SEQUENCES[n], TRAINED[n], strict=True)])
POSITIONS = each(lambda _, n: list(range(LENGTHS[n])))
SEGMENTS = each(lambda place, n: [place] * LENGTHS[n])
MASK = each(lambda _, n: [int(its) for its in TRAINED[n]])
LENGTHS_OF = [[LENGTHS[n] for n in row] for row in ROWS]
BOUNDS = [np.cumsum([0, *row]).tolist() for row in LENGTHS_OF]
USED = [sum(row) for row in LENGTHS_OF]


def next_ones(rows, last):
    return [[*row[1:], last] for row in rows]


def run_on():
    """As torchtune has them: positions of the padding go on from the last sequence."""
    return [row + list(range(row[-1] + 1, row[-1] + 1 + TOP - len(row))) for row in POSITIONS]


def one_by_one(multiple=4):
    """Sequences that are padded one by one, as context parallelism needs it, with the bounds of both."""
    padded = [[-(-length // multiple) * multiple for length in row] for row in LENGTHS_OF]
    width = max(map(sum, padded))

    def spread(make, fill):
        rows = [flat(make(n) + [fill] * (more - LENGTHS[n]) for n, more in zip(row, its, strict=True))
                for row, its in zip(ROWS, padded, strict=True)]  # fmt: skip
        return [row + [fill] * (width - len(row)) for row in rows]

    return {
        "input_ids": spread(lambda n: SEQUENCES[n], 0),
        "labels": spread(
            lambda n: [t if its else -100 for t, its in zip(SEQUENCES[n], TRAINED[n], strict=True)], -100
        ),
        "cu_seqlens_q": [[*row, row[-1], row[-1]] for row in BOUNDS],
        "cu_seqlens_q_padded": [[*np.cumsum([0, *row]).tolist(), width] for row in padded],
    }


FORMATS = {
    "torchtune": lambda: {
        "tokens": full(TOKENS), "labels": full(IN_PLACE, -100), "input_pos": run_on(),
        "seq_lens": [row + [TOP - sum(row)] * (sum(row) < TOP) for row in LENGTHS_OF],
    },
    "torchtune without lengths": lambda: {
        "tokens": full(TOKENS), "labels": full(IN_PLACE, -100), "input_pos": run_on()},
    "Grain and MaxText": lambda: {
        "inputs": full(TOKENS), "inputs_segmentation": full(SEGMENTS), "inputs_position": full(POSITIONS),
        "targets": next_ones(full(TOKENS), 0), "targets_position": full(POSITIONS),
        "targets_segmentation": next_ones(full([[a * b for a, b in zip(*rows, strict=True)]
                                                for rows in zip(SEGMENTS, MASK, strict=True)]), 0)},
    "seqio, an encoder": lambda: {
        "encoder_input_tokens": full(TOKENS), "encoder_segment_ids": full(SEGMENTS),
        "encoder_positions": full(POSITIONS),
        "encoder_loss_weights": full([[float(n) for n in row] for row in MASK], 0.0),
        "decoder_target_tokens": [[3] * 4] * 4, "decoder_segment_ids": [[1] * 4] * 4},
    "seqio, a decoder": lambda: {
        "decoder_target_tokens": full(TOKENS), "decoder_input_tokens": full([[0, *row[:-1]] for row in TOKENS]),
        "decoder_segment_ids": full(SEGMENTS), "decoder_positions": full(POSITIONS),
        "decoder_loss_weights": full(MASK)},
    "LLaMA-Factory": lambda: {
        "input_ids": full(TOKENS), "labels": full(IN_PLACE, -100), "attention_mask": full(SEGMENTS)},
    "LLaMA-Factory, with positions": lambda: {
        "input_ids": full(TOKENS), "labels": full(IN_PLACE, -100), "attention_mask": full(SEGMENTS),
        "position_ids": full(POSITIONS)},
    "OLMo": lambda: {"input_ids": full(TOKENS), "labels": full(IN_PLACE, -100), "doc_lens": LENGTHS_OF},
    "bounds with repeated ends": lambda: {
        "input_ids": full(TOKENS), "labels": full(IN_PLACE, -100),
        "cu_seqlens": [[*row, *[row[-1]] * (6 - len(row))] for row in BOUNDS]},
    "bounds filled with -1": lambda: {
        "input_ids": full(TOKENS), "labels": full(IN_PLACE, -100),
        "cu_seqlens": [[*row, *[-1] * (6 - len(row))] for row in BOUNDS]},
    "bounds to the end of the row, repeated": lambda: {
        "input_ids": full(TOKENS), "labels": full(IN_PLACE, -100),
        "cu_seqlens": [[*row, *[TOP] * (6 - len(row))] for row in BOUNDS]},
    "sequences that are padded one by one": one_by_one,
    "padded one by one, as Megatron Bridge has it": lambda: {
        {"cu_seqlens_q": "cu_seqlens_unpadded", "cu_seqlens_q_padded": "cu_seqlens"}.get(name, name): values
        for name, values in one_by_one().items()},
    "left padding with a mask": lambda: {
        "input_ids": [[0] * (TOP - len(row)) + row for row in TOKENS],
        "labels": [[-100] * (TOP - len(row)) + row for row in IN_PLACE],
        "attention_mask": [[0] * (TOP - used) + [1] * used for used in USED], "seq_lengths": LENGTHS_OF},
    "rows of padding, numbered from 1": lambda: {
        "input_ids": [*full(TOKENS), [0] * TOP], "labels": [*full(IN_PLACE, -100), [-100] * TOP],
        "segment_ids": [*full(SEGMENTS), [0] * TOP]},
    "positions over padding, and a token": lambda: {
        "input_ids": full(TOKENS, 7), "loss_mask": full(MASK), "position_ids": full(POSITIONS)},
}  # fmt: skip
SOURCE = {
    "input_ids": [SEQUENCES[n] for n in HELD],
    "completion_mask": [[int(its) for its in TRAINED[n]] for n in HELD],
}


def written(path, columns):
    """A file of Parquet, JSON lines, compressed ones, or Arrow, by its name."""
    table = pa.table(columns)
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=3)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(lines.encode())
    elif path.suffix == ".arrow":
        make = pa.ipc.new_stream if path.stem.startswith("stream") else pa.ipc.new_file
        with make(path, table.schema) as file:
            file.write_table(table, 3)
    else:
        path.write_text(lines)
    return path


@pytest.fixture
def source(tmp_path):
    return written(tmp_path / "source.parquet", SOURCE)


@pytest.mark.parametrize("name", FORMATS)
def test_a_right_file_of_another_program_is_read(tmp_path, source, name):
    found = audit(written(tmp_path / "packs.parquet", FORMATS[name]()), source, tolerance=9)
    assert (found.problems, found.unknown) == ((), ())
    assert (found.sequences, found.tokens, found.source.labels) == (len(HELD), sum(USED), ())


@pytest.mark.parametrize("name", FORMATS)
def test_a_changed_token_and_a_lost_label_are_found_in_each_format(tmp_path, source, name):
    columns = FORMATS[name]()
    for what, words in (("tokens", "1 sequences not whole"), ("labels", "1 lost")):
        changed = {key: [list(row) for row in rows] for key, rows in columns.items()}
        tokens = next(key for key in ("input_ids", "tokens", "inputs", "encoder_input_tokens", "decoder_target_tokens")
                      if key in changed)  # fmt: skip
        at = changed[tokens][0].index(SEQUENCES[4][-1])  # the last token of the first sequence
        if what == "tokens":
            changed[tokens][0][at] = 9999
            if "labels" in changed:
                changed["labels"][0][at] = 9999
            if "targets" in changed:
                changed["targets"][0][at - 1] = 9999
        else:
            key = next(key for key in ("targets_segmentation", "labels", "loss_mask", "encoder_loss_weights",
                                       "decoder_loss_weights") if key in changed)  # fmt: skip
            changed[key][0][at - (key == "targets_segmentation")] = -100 if key == "labels" else 0
        found = audit(written(tmp_path / "packs.parquet", changed), source, tolerance=9)
        assert any(words in problem for problem in found.problems), (what, found.problems)


@pytest.mark.parametrize(
    "suffix",
    ["packs.jsonl", "packs.jsonl.gz", "packs.jsonl.zst", "packs.arrow", "stream.arrow", "lines_without_suffix"],
)
def test_json_lines_and_arrow_are_read_on_both_sides(tmp_path, suffix):
    columns = {"input_ids": TOKENS, "labels": IN_PLACE, "seq_lengths": LENGTHS_OF}
    found = audit(written(tmp_path / suffix, columns), written(tmp_path / f"source_{suffix}", SOURCE), tolerance=9)
    assert (found.problems, found.unknown, found.packs) == ((), (), 4)


def test_columns_of_other_names_are_named(tmp_path, source, capsys):
    columns = {"ids": TOKENS, "doc_ids": SEGMENTS, "target": IN_PLACE}
    packs = written(tmp_path / "packs.parquet", columns)
    command = ["audit", str(packs), "--source", str(source), "--tolerance", "9", "--no-progress"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "not ids, doc_ids, target: if its columns have other names" in said
    assert "--columns input_ids=tokens,segment_ids=doc_ids" in said
    assert main([*command, "--columns", "input_ids=ids,segment_ids=doc_ids,labels=target"]) == 0
    assert main([*command, "--columns", "input_ids=ids,segment_ids=doc_ids"]) == 3
    capsys.readouterr()
    for asked, words in {
        "input_ids": "--columns must be NAME=COLUMN, and several with commas between them, not 'input_ids'",
        "tokens=ids": "a name in columns must be one of",
        "input_ids=nope": "columns names 'nope', which",
    }.items():
        assert main([*command, "--columns", asked]) == 2
        assert words in capsys.readouterr().err
    mine = written(tmp_path / "mine.jsonl", {"ids": SOURCE["input_ids"], "completion_mask": SOURCE["completion_mask"]})
    found = audit(packs, mine, columns={"input_ids": "ids", "segment_ids": "doc_ids", "labels": "target"}, tolerance=9)
    assert (found.problems, found.unknown) == ((), ())


def test_padding_without_mask_and_bounds_is_not_taken_for_tokens(tmp_path):
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("\n".join(str(LENGTHS[n]) for n in HELD))
    bare = written(tmp_path / "source.parquet", {"input_ids": SOURCE["input_ids"]})
    for padding in (0, 9_999_999, SEQUENCES[3][-1]):  # the last one is a token of the rows, too
        packs = written(tmp_path / "packs.parquet", {"input_ids": full(TOKENS, padding)})
        for beside in (lengths, bare):
            found = audit(packs, beside)
            assert found.problems == () and len(found.unknown) == (2 if beside is lengths else 1), (
                padding,
                found.problems,
            )
            assert (found.source.tokens_lost, found.source.tokens_added) == (0, 0)
    short = written(tmp_path / "short.parquet", {"input_ids": full([row[:-3] for row in TOKENS])})
    assert audit(short, bare).source.tokens_lost == 12


def test_json_lines_that_are_damaged_or_lack_a_column_are_refused_in_a_sentence(tmp_path, capsys):
    columns = {"input_ids": TOKENS, "seq_lengths": LENGTHS_OF}
    packs = written(tmp_path / "packs.jsonl", columns)
    broken = tmp_path / "broken.jsonl"
    broken.write_text(packs.read_text()[:-20])
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(packs.read_bytes())[:-20])
    words = written(tmp_path / "words.jsonl", {"text": ["a", "b"]})
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for arguments, said in {
        (broken,): "broken.jsonl is no whole file of packs that can be audited: Line 4: It is not JSON",
        (cut,): "cut.jsonl.gz is no whole file of packs that can be audited: Truncated compressed stream",
        (words,): "words.jsonl must have one of seq_lengths",
        (empty,): "empty.jsonl must have one of seq_lengths",
        (packs, "--source", broken): "broken.jsonl is no whole file of sequences: Line 4: It is not JSON",
        (packs, "--source", words): "words.jsonl has no column input_ids; it has text: name that of the tokens",
        (packs, "--source", empty): "empty.jsonl has no column input_ids; it has none",
        (packs, "--source", words, "--column", "text"): "The column 'text' holds string; tokens or lengths are needed",
    }.items():
        assert main(["audit", *map(str, arguments), "--no-progress"]) == 2, arguments
        printed = capsys.readouterr()
        assert said in printed.err and printed.err.count("\n") == 1, printed.err


def test_lengths_in_json_lines_are_read(tmp_path):
    packs = written(tmp_path / "packs.jsonl", {"input_ids": TOKENS, "seq_lengths": LENGTHS_OF})
    lengths = written(tmp_path / "lengths.jsonl", {"tokens": [LENGTHS[n] for n in HELD]})
    assert audit(packs, lengths, column="tokens", tolerance=9).source.as_if == "nothing was lost, cut or repeated"


def test_packs_and_padded_rows_as_a_source_are_taken_apart(tmp_path):
    packs = written(tmp_path / "packs.parquet", {"input_ids": TOKENS, "labels": IN_PLACE, "seq_lengths": LENGTHS_OF})
    assert audit(packs, packs, tolerance=9).source.labels == ()
    padded = {"input_ids": [], "attention_mask": [], "completion_mask": []}
    for number in HELD:
        more = TOP - LENGTHS[number]
        padded["input_ids"].append(SEQUENCES[number] + [0] * more)
        padded["attention_mask"].append([1] * LENGTHS[number] + [0] * more)
        padded["completion_mask"].append([int(its) for its in TRAINED[number]] + [0] * more)
    found = audit(packs, written(tmp_path / "source.jsonl", padded), tolerance=9)
    assert (found.problems, found.unknown, found.source.tokens) == ((), (), sum(USED))
    wrong = written(tmp_path / "wrong.jsonl", {"input_ids": TOKENS, "seq_lengths": [[3]] * 4})
    with pytest.raises(ValueError, match="row 0 has other tokens than its seq_lengths say"):
        audit(packs, wrong)


def test_a_gap_in_a_later_group_of_rows_is_named_by_its_own_row(tmp_path):
    tokens, masks = [[7, 8]] * 6, [[1, 1]] * 5 + [None]
    table = pa.table({"input_ids": tokens, "attention_mask": masks})
    pq.write_table(table, tmp_path / "packs.parquet", row_group_size=3)
    with pytest.raises(ValueError, match="'attention_mask' has no value in row 5"):
        audit(tmp_path / "packs.parquet")
