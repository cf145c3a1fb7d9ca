"""`audit` beside a source, of rows that do not tell where sequences begin, and of rows whose last tokens are labels."""

import numpy as np
import pytest
from datasets import Dataset

from packlib.tools.auditing import audit
from packlib.tools.cli import main

DRAW = np.random.default_rng(11)
LENGTHS = [5, 9, 3, 7, 12, 4, 6, 2, 8, 8]
SEQUENCES = [DRAW.integers(10, 9999, length).tolist() for length in LENGTHS]
ROWS = [[4, 5], [1, 6, 2], [8, 9], [3, 0, 7]]
TRAINED = [[at >= length // 2 for at in range(length)] for length in LENGTHS]


def flat(rows):
    return [item for row in rows for item in row]


def masked(ids, trained):
    return [token if its else -100 for token, its in zip(ids, trained, strict=True)]


LABELS = [masked(ids, its) for ids, its in zip(SEQUENCES, TRAINED, strict=True)]
SOURCE = Dataset.from_dict({"input_ids": SEQUENCES, "labels": LABELS})


def cut(values, width):
    return [values[at : at + width] for at in range(0, len(values), width)]


def bare(rows=ROWS, labels=LABELS, sequences=SEQUENCES):
    """Whole sequences one after the other, and nothing that tells where they begin."""
    return {
        "input_ids": [flat(sequences[n] for n in row) for row in rows],
        "labels": [flat(labels[n] for n in row) for row in rows],
    }


def wrapped(width=10, labels=LABELS, sequences=SEQUENCES):
    """All sequences in their order, cut at the end of each row."""
    return {"input_ids": cut(flat(sequences), width), "labels": cut(flat(labels), width)}


def padded(width=18):
    found = bare()
    return {name: [row + [0 if name == "input_ids" else -100] * (width - len(row)) for row in rows]
            for name, rows in found.items()}  # fmt: skip


RIGHT = {
    "whole sequences": bare(),
    "in the order of the source": wrapped(),
    "in one row": wrapped(len(flat(SEQUENCES))),
    "in rows of one token": wrapped(1),
    "padded": padded(),
    "padded with a mask": padded() | {
        "attention_mask": [[int(token > 0) for token in row] for row in padded()["input_ids"]]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_rows_without_borders_that_hold_all_are_inconclusive_about_borders_alone(name):
    found = audit(Dataset.from_dict(RIGHT[name]), SOURCE)
    assert found.problems == ()
    assert len(found.unknown) == 1
    assert found.unknown[0].startswith("Where sequences begin is unknown")
    assert (found.source.sequences_not_whole, found.source.labels) == (0, ())
    assert any("Each sequence of the source is there once" in note for note in found.notes)
    assert any("the same tokens are trained on" in note for note in found.notes)


def changed(values, sequence, token, by):
    found = [list(one) for one in values]
    found[sequence][token] = by
    return found


EXCHANGED = changed(changed(SEQUENCES, 6, 0, SEQUENCES[6][1]), 6, 1, SEQUENCES[6][0])
MOVED = changed(changed(LABELS, 6, 5, -100), 6, 1, SEQUENCES[6][1])
FAULTS = {
    "a changed token": (changed(SEQUENCES, 6, 3, 7), LABELS, "1 tokens of 64 in no pack"),
    "a lost label": (SEQUENCES, changed(LABELS, 6, 5, -100), "1 lost (2.9 % of the 34"),
    "an added label": (SEQUENCES, changed(LABELS, 6, 1, SEQUENCES[6][1]), "1 added"),
    "a moved label": (SEQUENCES, MOVED, "1 moved to another token"),
    "two tokens exchanged": (EXCHANGED, LABELS, "1 sequences not whole"),
}


@pytest.mark.parametrize("layout", [bare, wrapped])
@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_rows_without_borders_are_named(layout, name, tmp_path, capsys):
    sequences, labels, said = FAULTS[name]
    labels = [[-100 if one == -100 else token for token, one in zip(ids, its, strict=True)]
              for ids, its in zip(sequences, labels, strict=True)]  # fmt: skip
    packs, source = tmp_path / "packs.parquet", tmp_path / "source.parquet"
    Dataset.from_dict(layout(sequences=sequences, labels=labels)).to_parquet(packs)
    SOURCE.to_parquet(source)
    assert main(["audit", str(packs), "--source", str(source)]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("layout", [bare, wrapped])
def test_a_lost_sequence_in_rows_without_borders_is_named(layout):
    left = [n for n in range(len(SEQUENCES)) if n != 3]
    rows = [[n for n in row if n != 3] for row in ROWS]
    packs = layout(rows) if layout is bare else layout(10, [LABELS[n] for n in left], [SEQUENCES[n] for n in left])
    found = audit(Dataset.from_dict(packs), SOURCE)
    assert "7 tokens of 64 in no pack" in found.problems[0]
    assert found.source.tokens_lost == 7


def test_a_sequence_twice_in_rows_without_borders_is_named():
    found = audit(Dataset.from_dict(bare([*ROWS, [2]])), SOURCE)
    assert "3 tokens more than there were" in found.problems[0]
    assert found.source.repeats == 1


def test_rows_cut_in_another_order_are_compared_by_their_tokens():
    rows = wrapped()
    order = DRAW.permutation(len(rows["input_ids"]))
    mixed = {name: [its[n] for n in order] for name, its in rows.items()}
    found = audit(Dataset.from_dict(mixed), SOURCE)
    assert found.problems == ()
    assert any("as often as in the source" in said for said in found.unknown)
    mixed["labels"] = [[-100] * len(row) for row in mixed["labels"][:3]] + mixed["labels"][3:]
    lost = sum(one != -100 for n in order[:3] for one in rows["labels"][n])
    found = audit(Dataset.from_dict(mixed), SOURCE)
    assert any("fewer labels" in said for said in found.problems), found.problems
    assert found.source.labels_lost <= lost
    mixed["input_ids"][2][4] += 1
    assert "1 tokens of 64 in no pack" in audit(Dataset.from_dict(mixed), SOURCE).problems[0]


def test_a_sequence_that_begins_another_accuses_nobody():
    sequences = [[1, 2], [1, 2, 3, 4], [3, 4], [5, 6], [3, 4, 5, 6]]
    source = Dataset.from_dict({"input_ids": sequences})
    packs = Dataset.from_dict({"input_ids": [[1, 2, 3, 4, 5, 6], [3, 4, 1, 2, 3, 4, 5, 6]]})
    found = audit(packs, source)
    assert found.problems == ()
    assert found.unknown


# Labels that are the next tokens, beside input_ids without the last token of each sequence or of each row


def shifted(sequences=SEQUENCES, labels=SEQUENCES, rows=ROWS):
    """As torchtitan and Megatron have each document: `ids[:-1]` and `ids[1:]`."""
    return {
        "input_ids": [flat(sequences[n][:-1] for n in row) for row in rows],
        "labels": [flat(labels[n][1:] for n in row) for row in rows],
        "position_ids": [flat(list(range(len(sequences[n]) - 1)) for n in row) for row in rows],
    }


ALL = Dataset.from_dict({"input_ids": SEQUENCES, "labels": SEQUENCES})


@pytest.mark.parametrize(("labels", "source"), [(SEQUENCES, ALL), (LABELS, SOURCE)])
def test_a_last_token_that_is_only_a_label_is_not_lost(labels, source):
    found = audit(Dataset.from_dict(shifted(labels=labels)), source)
    assert (found.problems, found.unknown) == ((), ())
    assert any("is a label only" in note for note in found.notes)
    assert found.source.labels == ()


def test_a_last_token_that_nothing_trains_on_is_not_lost():
    labels = [[*its[:-1], -100] for its in LABELS]
    source = Dataset.from_dict({"input_ids": SEQUENCES, "labels": labels})
    found = audit(Dataset.from_dict(shifted(labels=labels)), source)
    assert (found.problems, found.unknown) == ((), ())


def test_rows_whose_last_token_is_only_a_label_lost_nothing():
    width, stream, marks = 16, flat(SEQUENCES), flat(LABELS)
    rows, labels = cut(stream, width), cut(marks, width)
    packs = {"input_ids": [row[:-1] for row in rows], "labels": [row[1:] for row in labels]}
    assert audit(Dataset.from_dict(packs), SOURCE).problems == ()
    overlapping = {"input_ids": cut(stream[:-1], 9), "labels": cut(marks[1:], 9)}
    assert audit(Dataset.from_dict(overlapping), SOURCE).problems == ()


WRONG = changed(SEQUENCES, 6, 2, 7)
SHIFTED_FAULTS = {
    "a lost sequence": (shifted(rows=[[4, 5], [1, 6], [8, 9], [3, 0, 7]]), "3 tokens of 64 in no pack"),
    "a wrong last label": (shifted(labels=changed(SEQUENCES, 6, -1, 7)), "1 sequences not whole"),
    "a changed token": (shifted(sequences=WRONG, labels=WRONG), "1 sequences not whole"),
    "a mask that was dropped": (shifted(), "added"),
    "a lost last label": (shifted(labels=changed(LABELS, 6, -1, -100)), "1 lost"),
    "a sequence twice": (shifted(rows=[*ROWS, [2]], labels=LABELS), "3 tokens more than there were"),
}


@pytest.mark.parametrize("name", SHIFTED_FAULTS)
def test_faults_beside_a_last_token_that_is_only_a_label_are_named(name):
    packs, said = SHIFTED_FAULTS[name]
    found = audit(Dataset.from_dict(packs), SOURCE)
    assert said in " ".join(found.problems)


def test_lengths_alone_are_compared_with_the_last_token_too():
    assert audit(Dataset.from_dict(shifted()), LENGTHS).problems == ()
    found = audit(Dataset.from_dict(shifted(rows=ROWS[1:])), LENGTHS)
    assert "16 tokens of 64 in no pack" in found.problems[0]


@pytest.mark.parametrize("num_empty", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("padding_id", [0, 10_000])
@pytest.mark.parametrize("has_mask", [True, False])
def test_rows_of_padding_alone_are_no_tokens_and_hide_no_sequence(num_empty, padding_id, has_mask):
    rows = padded()
    mask = [[int(token > 0) for token in row] for row in rows["input_ids"]] + [[0] * 18] * num_empty
    ids = [[token or padding_id for token in row] for row in rows["input_ids"]] + [[padding_id] * 18] * num_empty
    packs = {"input_ids": ids, "labels": rows["labels"] + [[-100] * 18] * num_empty}
    found = audit(Dataset.from_dict(packs | {"attention_mask": mask} if has_mask else packs), SOURCE)
    assert found.tokens == sum(LENGTHS) and found.padding_slots == 18 * (4 + num_empty) - sum(LENGTHS)
    assert found.source.sequences_lost == 0 and found.source.sequences_not_whole == 0, found


def test_a_row_of_one_token_is_padding_only_where_other_rows_end_in_it():
    alone = audit(Dataset.from_dict({"input_ids": [[7] * 6, [7] * 6]}))
    beside_full_rows = audit(Dataset.from_dict({"input_ids": [[1, 2, 3, 4, 5, 6], [7] * 6]}))
    beside_padded_rows = audit(Dataset.from_dict({"input_ids": [[1, 2, 3, 4, 7, 7], [7] * 6]}))
    assert (alone.padding_slots, beside_full_rows.padding_slots, beside_padded_rows.padding_slots) == (0, 0, 8)
