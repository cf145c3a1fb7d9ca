"""`audit` of packed files that are wrong in one way each, and of right ones, beside their source with tokens."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from packlib.bars import progress_bar
from packlib.tools.auditing import audit, auditing
from packlib.tools.cli import main

TOP = 64
DRAW = np.random.default_rng(3)
SOURCE = [[*DRAW.integers(5, 900, length - 1).tolist(), 2] for length in DRAW.integers(3, 40, 200)]
PROMPT = 2  # tokens of each sequence without a label


def joined(rows):
    return list(chain.from_iterable(rows))


def packs():
    """The numbers of the sequences of each row, first fit."""
    rows: list[list[int]] = []
    for number, ids in enumerate(SOURCE):
        row = next((row for row in rows if sum(len(SOURCE[n]) for n in row) + len(ids) <= TOP), None)
        rows.append([number]) if row is None else row.append(number)
    return rows


def columns(rows=None, sequences=SOURCE, positions_from=0):
    """All columns of the packs."""
    rows = [[sequences[number] for number in row] for row in rows or packs()]
    lengths = [[len(ids) for ids in row] for row in rows]
    return {
        "input_ids": [joined(row) for row in rows],
        "labels": [joined([-100] * PROMPT + ids[PROMPT:] for ids in row) for row in rows],
        "seq_lengths": lengths,
        "cu_seqlens": [np.cumsum([0, *row]).tolist() for row in lengths],
        "position_ids": [[at + positions_from for length in row for at in range(length)] for row in lengths],
        "segment_ids": [[number for number, length in enumerate(row, 1) for _ in range(length)] for row in lengths],
    }


def only(*names, **changed):
    found = columns() | changed
    return {name: found[name] for name in ("input_ids", *names, *changed)}


def padded(fill, *names):
    """Rows of `TOP` slots; `fill` is what the columns have on padding."""
    found, rows = only(*names), columns()["input_ids"]
    return {name: [row + [fill.get(name, 0)] * (TOP - len(ids)) for row, ids in zip(values, rows, strict=True)]
            for name, values in found.items()}  # fmt: skip


def with_mask(found):
    real = columns()["input_ids"]
    return found | {"attention_mask": [[1] * len(ids) + [0] * (TOP - len(ids)) for ids in real]}


def bounds_to_the_end():
    """As Megatron and NeMo have it: the last bound is the end of the padding."""
    found = padded({"input_ids": 0})
    bounds = columns()["cu_seqlens"]
    return found | {"cu_seqlens": [[*row, TOP] if row[-1] < TOP else row for row in bounds]}


def masked():
    """Labels of a masked model: most of the tokens that have one were replaced by token 4."""
    found, draw = only("seq_lengths"), np.random.default_rng(0)
    chosen = [draw.random(len(ids)) < 0.15 for ids in found["input_ids"]]
    found["labels"] = [np.where(c, ids, -100).tolist() for c, ids in zip(chosen, found["input_ids"], strict=True)]
    found["input_ids"] = [np.where(c, 4, ids).tolist() for c, ids in zip(chosen, found["input_ids"], strict=True)]
    return found


# Right files, and their source where it is not `SOURCE`
RIGHT = {
    "seq_lengths": lambda: only("seq_lengths", "labels"),
    "cu_seqlens": lambda: only("cu_seqlens"),
    "position_ids": lambda: only("position_ids", "labels"),
    "all columns": columns,
    "positions from 2": lambda: only(position_ids=columns(positions_from=2)["position_ids"]),
    "padded with a mask": lambda: with_mask(padded({"labels": -100}, "labels", "position_ids")),
    "padded with the end token": lambda: padded({"input_ids": 2, "labels": -100}, "labels", "position_ids"),
    "bounds to the end of the row": bounds_to_the_end,
    "bounds to the end of the row, and a mask": lambda: with_mask(bounds_to_the_end()),
    "segment_ids": lambda: only("segment_ids"),
    "segment_ids, 0 on padding": lambda: padded({}, "segment_ids"),
    "document_ids from 0": lambda: only(
        document_ids=[[at - 1 for at in row] for row in columns()["segment_ids"]]),
}  # fmt: skip


def without(*numbers):
    return [[number for number in row if number not in numbers] for row in packs()]


def edit(name, change, *beside, row=3):
    """A column with one row changed."""
    found = only(*dict.fromkeys([name, *beside]))
    before, it, after = found[name][:row], found[name][row], found[name][row + 1 :]
    return found | {name: [*before, change(list(it)), *after]}


def wrapped(**more):
    tokens = joined(SOURCE)
    rows = [tokens[at : at + TOP] for at in range(0, len(tokens) // TOP * TOP, TOP)]
    return {"input_ids": rows} | {name: [change(row) for row in rows] for name, change in more.items()}


def exchanged():
    """A sequence is lost, and another one of its length is there twice."""
    lengths = [len(ids) for ids in SOURCE]
    length = next(length for length in lengths if lengths.count(length) > 1)
    lost, twice = [number for number, its in enumerate(lengths) if its == length][:2]
    rows = [[twice if number == lost else number for number in row] for row in packs()]
    return {name: columns(rows)[name] for name in ("input_ids", "seq_lengths")}


def second(change):
    """Change the second sequence of a row, if it has one."""
    row = next(at for at, pack in enumerate(packs()) if len(pack) > 2)
    lengths = columns()["seq_lengths"][row]
    return lambda name, *beside: edit(name, lambda values: change(values, lengths), *beside, row=row)


# What is wrong, and words of the problem, of the refusal, or of what is inconclusive
FAULTS = {
    "a sequence lost": (lambda: columns(without(7)), "1 or more sequences in no pack"),
    "a sequence twice": (lambda: columns([[0], *packs()]), "1 pieces or repeats"),
    "lost and another twice": (exchanged, "other sequences of the same lengths"),
    "wrapped": (wrapped, "tokens of"),
    "wrapped, positions of the row": (lambda: wrapped(position_ids=lambda row: list(range(len(row)))), "not whole"),
    "rows over the longest": (lambda: columns([joined(packs()[:2]), *packs()[2:]]), "more than 64 slots"),
    "nothing packed": (lambda: columns([[n] for n in range(len(SOURCE))]), "Nothing is packed"),
    "positions never restart": (
        lambda: only(position_ids=[list(range(len(row))) for row in columns()["input_ids"]]), "not whole"),
    "positions from 1": (
        lambda: only(position_ids=columns(positions_from=1)["position_ids"]), "start at position 1"),
    "positions go on after a cut": (
        lambda: edit("position_ids", lambda row: [at + 5 for at in row]), "do not start at position 0"),
    "a border off by one": (
        lambda: second(lambda row, _: [row[0], row[1] + 1, *row[2:]])("cu_seqlens"), "not whole"),
    "bounds that do not start at 0": (
        lambda: edit("cu_seqlens", lambda row: row[1:]), "row 3 has cu_seqlens that do not start at 0"),
    "a negative length": (lambda: edit("seq_lengths", lambda row: [*row, -1]), "row 3 has a sequence of fewer than 0"),
    "lengths over the row": (
        lambda: edit("seq_lengths", lambda row: [*row, 9]), "row 3 has more tokens by its seq_lengths"),
    "a length missing": (lambda: edit("seq_lengths", lambda row: row[:-1]), "in no pack"),
    "lengths in another order": (
        lambda: second(lambda row, _: row[::-1])("seq_lengths", "position_ids"), "tell other sequences"),
    "segment ids come again": (
        lambda: only(segment_ids=[[(at - 1) % 2 + 1 for at in row] for row in columns()["segment_ids"]]),
        "the same number"),
    "labels one shorter": (lambda: edit("labels", lambda row: row[:-1], "seq_lengths"), "labels has not as many"),
    "labels all -100": (
        lambda: only("seq_lengths", labels=[[-100] * len(row) for row in columns()["input_ids"]]), "nothing would be"),
    "labels of the next token": (
        lambda: only("seq_lengths", labels=[[*row[1:], -100] for row in columns()["labels"]]),
        "Labels were shifted: labels of the source are the tokens themselves, those of the packs the next ones"),
    "labels of the token after the next": (
        lambda: only("seq_lengths", labels=[[*row[2:], -100, -100] for row in columns()["labels"]]), "neither"),
    "a mask one shorter": (
        lambda: only(
            "position_ids", attention_mask=[[1] * (len(row) - 1) for row in columns()["input_ids"]]), "not as many"),
    "a loss mask of zeros": (
        lambda: only("seq_lengths", loss_mask=[[0] * len(row) for row in columns()["input_ids"]]), "loss_mask is 0"),
    "a mask that hides tokens": (
        lambda: only("seq_lengths", attention_mask=[[0, *[1] * (len(row) - 1)] for row in columns()["input_ids"]]),
        "attention_mask has not as many tokens"),
    "the first and the last token of a row changed": (
        lambda: edit("input_ids", lambda row: [row[0] + 1, *row[1:-1], row[-1] + 1], "seq_lengths"),
        "2 sequences not whole"),
    "an end token more": (
        lambda: columns(packs(), [[*ids, 2] for ids in SOURCE]), "tokens more than there were"),
    "a gap": (lambda: only(seq_lengths=[None, *columns()["seq_lengths"][1:]]), "'seq_lengths' has no value in row 0"),
    "no borders": (lambda: only(), "Where sequences begin is unknown"),
}  # fmt: skip


def source(labels):
    found = {"input_ids": SOURCE}
    return found | {"labels": [[-100] * PROMPT + ids[PROMPT:] for ids in SOURCE]} if labels else found


def said(found):
    """All that an audit says of a file, or the sentence in which it refuses it."""
    beside = source(labels=not {"labels", "loss_mask"}.isdisjoint(found))
    try:
        seen = audit(Dataset.from_dict(found), Dataset.from_dict(beside), max_length=TOP)
    except (ValueError, TypeError) as error:
        return str(error)
    return " ".join([*seen.problems, *seen.unknown])


@pytest.mark.parametrize("name", RIGHT, ids=lambda name: name.replace(" ", "_"))
def test_a_right_file_raises_no_alarm(name):
    assert said(RIGHT[name]()) == ""


@pytest.mark.parametrize("name", FAULTS, ids=lambda name: name.replace(" ", "_"))
def test_a_fault_is_found(name):
    make, words = FAULTS[name]
    text = said(make())
    assert words in text
    assert ("nothing would be trained on" in text) == (name in ("labels all -100", "a loss mask of zeros"))


def test_rows_of_padding_alone_are_counted():
    """After sambanova/generative_data_prep#46; the bounds, the mask or the segments say that a row is empty."""
    ids = [[5, 6, 7], [0, 0, 0], [8, 9, 0], [0, 0, 0]]
    for columns in (
        {"seq_lengths": [[3], [], [2], []]},
        {"seq_lengths": [[3], [0], [2], [0]]},
        {"segment_ids": [[1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0]]},
        {"position_ids": [[0, 1, 2], [0, 0, 0], [0, 1, 0], [0, 0, 0]],
         "attention_mask": [[1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0]]},
    ):  # fmt: skip
        assert "Rows of padding alone: 2 of 4." in audit(Dataset.from_dict({"input_ids": ids, **columns})).notes
    full = {"input_ids": ids[::2], "seq_lengths": [[3], [2]]}
    assert "padding alone" not in str(audit(Dataset.from_dict(full)).notes)


def test_rows_without_labels_are_counted():
    rows = {"input_ids": [[5, 6, 7], [8, 9]], "seq_lengths": [[3], [2]], "labels": [[-100, 6, 7], [-100, -100]]}
    assert "Rows without any label: 1 of 2." in audit(Dataset.from_dict(rows)).notes
    rows["labels"][1] = [-100, 9]
    assert "without any label" not in str(audit(Dataset.from_dict(rows)).notes)


def test_labels_of_a_masked_model_are_no_fault():
    found = audit(Dataset.from_dict(masked()), [len(ids) for ids in SOURCE], max_length=TOP)
    assert not found.problems and "Labels are those of a masked model." in found.notes


def test_sequences_of_one_token_are_no_padding():
    ones = [[number] for number in DRAW.integers(5, 900, 30).tolist()]
    packed = {"input_ids": [joined(ones[:20]), joined(ones[20:])], "position_ids": [[0] * 20, [0] * 10]}
    assert audit(Dataset.from_dict(packed), Dataset.from_dict({"input_ids": ones}), max_length=20).problems == ()


def test_the_command_compares_by_content_and_says_what_it_did_not_look_at(tmp_path, capsys):
    pq.write_table(pa.table(source(labels=True)), tmp_path / "source.parquet")
    pq.write_table(pa.table(columns() | {"topic": ["x"] * len(packs())}), tmp_path / "right.parquet")
    pq.write_table(pa.table(exchanged()), tmp_path / "wrong.parquet")
    pq.write_table(pa.table(only()), tmp_path / "unknown.parquet")
    beside = ["--source", str(tmp_path / "source.parquet"), "--no-progress"]
    for name, code in {"right": 0, "wrong": 1, "unknown": 3}.items():
        assert main(["audit", str(tmp_path / f"{name}.parquet"), *beside]) == code
    printed = capsys.readouterr().out
    assert "Each sequence of the source is there once, with all its tokens, and the same" in printed
    assert "Not looked at: the columns topic." in printed and "Inconclusive: Where sequences begin" in printed


def test_padding_that_bounds_hold_is_seen_without_a_source():
    found = audit(Dataset.from_dict(bounds_to_the_end()))
    assert (found.sequences, found.tokens) == (len(SOURCE), sum(map(len, SOURCE))) and not found.problems


def test_the_bar_reaches_its_end(tmp_path, monkeypatch, capsys):
    """It is taken away at the end, so that what was drawn last is what is seen."""
    monkeypatch.setattr(auditing, "progress_bar", lambda **options: progress_bar(**options | {"delay": 0}))
    rows = [{"input_ids": [1, 2, 3], "seq_lengths": [2, 1]}] * 10_001
    Dataset.from_list(rows).to_parquet(tmp_path / "packs.parquet", batch_size=1000)
    capsys.readouterr()
    audit(tmp_path / "packs.parquet", progress=True)
    drawn = [part for part in capsys.readouterr().err.split("\r") if "rows" in part]
    assert "10001/10001" in drawn[-1], drawn[-1]
