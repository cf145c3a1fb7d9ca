"""The books of `pack`: sequences, tokens and labels before and after the cut, and what trains on nothing."""

import json
import operator
import os

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from test_columns import of

from packlib.tools import cli
from packlib.tools.rows import pack_dataset

I = -100  # noqa: E741


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def chat(prompt, answer, first=10):
    """A sequence of tokens of its own, of which the last `answer` are trained on."""
    ids = list(range(first, first + prompt + answer))
    return {"input_ids": ids, "labels": [I] * prompt + ids[prompt:]}


# with rows of 8: one keeps its answer, one is cut before its answer, one in it, and one is as long as a row
CHATS = [chat(3, 2), chat(9, 3), chat(6, 4), chat(4, 4)]


def as_masks(rows):
    """The rows with a mask of the loss in place of their labels."""
    return [{"input_ids": row["input_ids"], "loss_mask": [int(one != I) for one in row["labels"]]} for row in rows]


def packed_with(tmp, rows, *options, into="packed.parquet"):
    """What the command says in words, its JSON, and the rows that it wrote."""
    Dataset.from_list(rows).to_parquet("data.parquet")
    command = ["pack", "data.parquet", "--max-length", "8", "--no-progress", *options, "--out"]
    assert cli.main([*command, into]) == 0
    said = tmp.readouterr().out
    assert cli.main([*command, f"again-{into}", "--json"]) == 0
    return said, json.loads(tmp.readouterr().out), pq.read_table(into).to_pylist()


def labels_by_hand(rows):
    """The labels of each sequence in rows that were packed, but for that of its first token."""
    found = []
    for row in rows:
        ends = np.cumsum(row["seq_lengths"])
        found += [
            sum(label != I for label in row["labels"][end - length + 1 : end])
            for end, length in zip(ends, row["seq_lengths"], strict=True)
        ]
    return found


KEPT = {"truncate": 2 + 0 + 2 + 4, "split": 2 + 3 + 3 + 4, "drop": 2 + 4}  # the second part of the third begins in it


@pytest.mark.parametrize("given", [list, as_masks])
@pytest.mark.parametrize("rule", KEPT)
def test_the_books_have_the_labels_before_and_after_the_cut(capsys, rule, given):
    said, found, rows = packed_with(capsys, given(CHATS), "--overlong", rule)
    books = found["books"]
    assert books["data"] == {"sequences": 4, "tokens": 5 + 12 + 10 + 8, "labels": 13, "without_label": 0}
    counts = labels_by_hand(rows)
    tokens = sum(len(row["input_ids"]) for row in rows)
    unlabeled = counts.count(0)
    assert books["packed"] == {
        "sequences": len(counts), "tokens": tokens, "labels": KEPT[rule], "without_label": unlabeled
    }  # fmt: skip
    assert sum(counts) == KEPT[rule] and books["labels_kept_by_rule"] == KEPT
    empty = sum(all(label == I for label in row["labels"]) for row in rows)
    assert books["packs_without_label"] == empty
    assert f"and {KEPT[rule]} of 13 labels ({KEPT[rule] / 13:.1%}".replace("%", " %") in said
    assert "split 92.3 %, truncate 61.5 %, drop 46.2 %" in said
    if unlabeled:
        says = f"{unlabeled} of the {len(counts)} packed sequences and {empty} of the {len(rows)} packs have no label"
        assert f"{says} and train on nothing (0 sequences had none before the cut): --drop" in said
        assert "--drop-unlabeled" in said
    else:
        assert "train on nothing" not in said


@pytest.mark.parametrize("source", ["dataset", "rows", "file"])
def test_pack_dataset_keeps_the_same_books(source):
    rows = CHATS * 3
    Dataset.from_list(rows).to_parquet("data.parquet")
    data = "data.parquet" if source == "file" else of(source, rows)
    packed = pack_dataset(data, 8, overlong="truncate")
    books = json.loads(packed.info.description)["books"]
    assert books["data"]["labels"] == 39 and books["packed"]["labels"] == 24 == sum(labels_by_hand(packed))
    assert books["packed"]["without_label"] == 3 and books["labels_kept_by_rule"]["split"] == 36


def test_the_share_of_a_mask_is_that_of_the_tokens_in_the_packs(capsys):
    """Three of four tokens are trained on before the cut, and none of the eight that it leaves of the first."""
    rows = as_masks([chat(8, 24), chat(4, 4)])
    said, *_ = packed_with(capsys, rows, "--overlong", "truncate")
    assert "loss_mask: labels are -100 where it is 0, for 75.0 % of the tokens." in said


@pytest.mark.parametrize("rule", KEPT)
def test_what_trains_on_nothing_can_be_left_out(capsys, rule):
    more = [*CHATS, {"input_ids": [7, 8, 9], "labels": [I] * 3}]
    said, found, rows = packed_with(capsys, more, "--overlong", rule, "--drop-unlabeled")
    counts = labels_by_hand(rows)
    assert 0 not in counts and sum(counts) == KEPT[rule]
    books = found["books"]
    assert books["packed"]["without_label"] == books["packs_without_label"] == 0
    assert books["packed"]["labels"] == KEPT[rule] and books["packed"]["sequences"] == len(counts)
    left_out = {"truncate": 2, "split": 2, "drop": 1}[rule]
    assert books["left_out_without_label"] == left_out
    assert f"{left_out} sequences without a label were left out" in said
    kept = pack_dataset(more, 8, overlong=rule, drop_unlabeled=True)
    assert sorted(labels_by_hand(kept)) == sorted(counts)
    stream = pack_dataset(Dataset.from_list(more).to_iterable_dataset(), 8, overlong=rule, drop_unlabeled=True)
    assert sorted(labels_by_hand(stream)) == sorted(counts)


def test_a_stream_keeps_books_of_what_it_has_read():
    stream = pack_dataset(Dataset.from_list(CHATS).to_iterable_dataset(), 8, overlong="truncate")
    assert stream.books is None
    list(stream)
    assert stream.books.as_dict()["packed"]["labels"] == KEPT["truncate"]


def test_made_labels_are_all_tokens_but_the_first_of_each_sequence(capsys):
    rows = [{"input_ids": list(range(5, 5 + n))} for n in (1, 1, 20, 8)]
    _, found, packed = packed_with(capsys, rows, "--overlong", "split")
    assert found["books"]["data"] == {"sequences": 4, "tokens": 30, "labels": 26, "without_label": 2}
    assert found["books"]["packed"]["labels"] == sum(labels_by_hand(packed)) == 7 + 7 + 3 + 7
    assert found["books"]["labels_kept_by_rule"] == {"split": 24, "truncate": 14, "drop": 7}


def test_labels_of_a_masked_model_count_at_the_first_token_too(capsys):
    """There a label is another token than the row has, as a rule; or `--no-labels` says so."""
    rows = [{"input_ids": [3, 5, 6], "labels": [4, I, I]}, {"input_ids": [4, 5, 6], "labels": [4, I, 6]}]
    _, found, _ = packed_with(capsys, rows)
    assert found["books"]["packed"]["labels"] == 2
    _, found, _ = packed_with(capsys, rows, "--no-labels", into="masked.parquet")
    assert found["books"]["packed"]["labels"] == 3


def test_without_labels_the_books_have_none(capsys):
    said, found, _ = packed_with(capsys, [{"input_ids": [3, 5, 6]}], "--no-labels")
    assert found["books"]["packed"] == {"sequences": 1, "tokens": 3, "labels": None, "without_label": None}
    assert "label" not in said.replace(os.getcwd(), "")


@pytest.mark.parametrize("says, columns, options", [
    ("The column 'loss_mask' lets only the first token of each sequence be trained on, which nothing predicts",
     {"loss_mask": [1, 0, 0, 0]}, {}),
    ("The column 'labels' is -100 for all tokens, so that none would be trained on", {"labels": [I] * 4}, {}),
    ("The column 'labels' is -100 for all tokens but the first of each sequence, which nothing predicts",
     {"labels": [5, I, I, I]}, {}),
    ('overlong="truncate" cuts away all 2 labels: "split" keeps 2 of them', {"labels": [I] * 3 + [8]},
     {"overlong": "truncate"}),
    ("The column 'labels' must have a value for each token, beside a mask of the loss",
     {"labels": 1, "loss_mask": [0, 1, 1, 1]}, {}),
    ("drop_unlabeled must be False where there are no labels", {}, {"labels": False, "drop_unlabeled": True}),
])  # fmt: skip
def test_data_that_trains_on_nothing_is_refused(says, columns, options):
    rows = [{"input_ids": [5, 6, 7, 8]} | columns] * 2
    with pytest.raises(ValueError) as raised:
        pack_dataset(rows, 2 if "overlong" in options else 8, **options)
    assert says in str(raised.value)


lists = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)).filter(any), min_size=1, max_size=12)


@given(lists, st.sampled_from(["truncate", "split", "drop"]), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_books_agree_with_the_rows_whatever_is_cut(pairs, rule, masks, leave_out):
    rows = [chat(*pair, first=100 * at) for at, pair in enumerate(pairs)]
    before = [sum(label != I for label in row["labels"][1:]) for row in rows]
    try:
        packed = pack_dataset(
            as_masks(rows) if masks else rows, 5, overlong=rule, drop_unlabeled=leave_out, cache_dir="cache"
        )
    except ValueError as error:
        says = str(error)
        kept = [
            number for number, row in zip(before, rows, strict=True) if len(row["input_ids"]) <= 5 or rule != "drop"
        ]
        assert not kept or any(words in says for words in ("first token", "for all tokens", "cuts away all", "no seq"))
        return
    books = json.loads(packed.info.description)["books"]
    counts = labels_by_hand(packed)
    assert books["data"]["labels"] == sum(before) and books["data"]["without_label"] == before.count(0)
    got = operator.itemgetter("sequences", "labels", "without_label", "tokens")(books["packed"])
    assert got == (len(counts), sum(counts), counts.count(0), sum(map(len, packed["input_ids"])))
    assert books["packs_without_label"] == sum(all(one == I for one in made_of(row)) for row in packed)
    assert books["labels_kept_by_rule"][rule] == sum(counts)


def made_of(row):
    """The labels of a row without those of first tokens."""
    return [I if place == 0 else label for place, label in zip(row["position_ids"], row["labels"], strict=True)]
