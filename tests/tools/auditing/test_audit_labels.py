"""`audit` beside a source whose labels, or masks of the loss, say which tokens are trained on."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib import pack_dataset
from packlib.packing.documents import split, truncate
from packlib.tools.auditing import audit
from packlib.tools.cli import main

DRAW = np.random.default_rng(5)
LENGTHS = [5, 9, 3, 7, 12, 4, 6, 2, 8, 8]
SEQUENCES = [DRAW.integers(10, 9999, length).tolist() for length in LENGTHS]
ROWS = [[4, 5], [1, 6, 2], [8, 9], [3, 0, 7]]
TOP = 18
TRAINED = [[at >= length // 2 for at in range(length)] for length in LENGTHS]  # the answer behind a prompt


def flat(rows):
    return [item for row in rows for item in row]


def labels_of(ids, trained):
    return [token if its else -100 for token, its in zip(ids, trained, strict=True)]


def ones(trained):
    return [int(its) for its in trained]


def source(*masks, trained=TRAINED):
    """The sequences, with labels or these masks of the loss."""
    found = {"input_ids": SEQUENCES}
    for name in masks:
        if name == "labels":
            found[name] = [labels_of(ids, its) for ids, its in zip(SEQUENCES, trained, strict=True)]
        else:
            found[name] = [[int(one != (name == "prompt_mask")) for one in its] for its in trained]
    return Dataset.from_dict(found)


def packs(column="labels", trained=TRAINED, rows=ROWS, make=labels_of):
    """The rows, with one column that says which tokens are trained on."""
    if column != "labels":
        make = lambda _, its: [int(one != (column == "prompt_mask")) for one in its]  # noqa: E731
    return Dataset.from_dict({
        "input_ids": [flat(SEQUENCES[n] for n in row) for row in rows],
        "seq_lengths": [[LENGTHS[n] for n in row] for row in rows],
        column: [flat(make(SEQUENCES[n], trained[n]) for n in row) for row in rows],
    })  # fmt: skip


def by_hand(trained):
    """Labels lost and added, without the first of each sequence, which nothing predicts."""
    pairs = [pair for had, has in zip(TRAINED, trained, strict=True) for pair in list(zip(had, has, strict=True))[1:]]
    return sum(had and not has for had, has in pairs), sum(has and not had for had, has in pairs)


COLUMNS = ("labels", "loss_mask", "completion_mask", "assistant_masks", "response_mask", "prompt_mask", "weights")


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("of_source", COLUMNS)
def test_the_same_labels_in_whatever_column_are_no_problem(column, of_source):
    found = audit(packs(column), source(of_source), max_length=TOP)
    assert (found.problems, found.unknown, found.source.labels) == ((), (), ())
    assert any("and the same tokens are trained on" in note for note in found.notes)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_lost_label_is_a_problem_by_its_column_and_its_place(column):
    trained = [list(its) for its in TRAINED]
    trained[6][5] = False  # of row 1, behind the 9 tokens of sequence 1
    found = audit(packs(column, trained), source("completion_mask"), max_length=TOP)
    (one,) = found.source.labels
    assert (one.column, one.against, one.sequences, one.of) == (column, "completion_mask", 1, 10)
    assert (one.lost, one.added, one.moved, one.early, one.late) == (1, 0, 0, 0, 0)
    assert (one.row, one.position, one.source_sequence, one.token) == ("row 1", 14, 6, 5)
    assert found.problems == (one.sentence,) and "1 lost" in one.sentence


LABELS = st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=10, max_size=10)


@settings(max_examples=40, deadline=None)
@given(LABELS, st.sampled_from(("labels", "loss_mask")))
def test_labels_are_counted_as_by_hand(drawn, column):
    trained = [its[:length] for its, length in zip(drawn, LENGTHS, strict=True)]
    found = audit(packs(column, trained), source("labels"), max_length=TOP)
    lost, added = by_hand(trained)
    assert bool(found.source.labels) == bool(lost or added)
    for one in found.source.labels:
        shifted = [its for its in range(10) if its in _shifted_by_hand(trained)]
        assert one.early + one.late == len(shifted)
        whole = [TRAINED[n] if n in shifted else its for n, its in enumerate(trained)]
        assert (one.lost + one.moved, one.added + one.moved) == by_hand(whole)


def _shifted_by_hand(trained):
    found = []
    for number, (had, has) in enumerate(zip(TRAINED, trained, strict=True)):
        had, has, last = [False, *had[1:]], [False, *has[1:]], len(had) - 1
        early = all(has[at] == had[at + 1] for at in range(1, last))
        late = all(has[at] == had[at - 1] for at in range(2, last + 1))
        lost = any(one and not other for one, other in zip(had, has, strict=True))
        added = any(other and not one for one, other in zip(had, has, strict=True))
        if (early or late) and lost and added:
            found.append(number)
    return found


FAULTS = {
    "prompts trained on": ([[True] * n for n in LENGTHS], "20 added"),
    "no answer in the middle": ([its if n in (5, 2, 9, 7) else [False] * len(its) for n, its in enumerate(TRAINED)],
                                "25 lost"),
    "shifted": ([[*its[1:], False] for its in TRAINED], "one token earlier (shifted once too often)"),
    "the other way round": ([[not one for one in its] for its in TRAINED], "moved to another token"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_labels_are_named(fault, tmp_path, capsys):
    trained, words = FAULTS[fault]
    packs("loss_mask", trained).to_parquet(tmp_path / "packs.parquet")
    source("labels").to_parquet(tmp_path / "source.parquet")
    command = ["audit", str(tmp_path / "packs.parquet"), "--source", str(tmp_path / "source.parquet"), "--no-progress"]
    assert main([*command, "--max-length", "18"]) == 1
    said = capsys.readouterr().out
    assert words in said and "(loss_mask beside labels of the source)" in said


def test_turns_that_stand_one_token_later_are_shifted():
    turns = [[at % 4 in (1, 2) for at in range(length)] for length in LENGTHS]
    later = [[False, *its[:-1]] for its in turns]
    (one,) = audit(packs(trained=later), source("loss_mask", trained=turns), max_length=TOP).source.labels
    assert (one.late, one.early, one.lost) == (8, 0, 2)  # two are too short for a label to stand at another token
    assert "all labels of 8 sequences one token later (shifted once too often)" in one.sentence


def test_labels_whose_values_are_the_next_tokens_are_shifted():
    shifted = packs(make=lambda ids, its: [*labels_of(ids, its)[1:], -100])
    found = audit(shifted, source("labels"), max_length=TOP)
    assert len(found.problems) == 1 and "Labels were shifted" in found.problems[0] and not found.unknown
    back = source("labels")
    back = Dataset.from_dict(back.to_dict() | {"labels": [[*its[1:], -100] for its in back["labels"]]})
    assert audit(shifted, back, max_length=TOP).problems == ()
    assert "Labels were shifted back" in audit(packs(), back, max_length=TOP).problems[0]
    alone = audit(shifted, source("completion_mask"), max_length=TOP)  # as torchtitan and Megatron have it
    assert alone.problems == () and any("Labels are the next tokens in 4 rows" in note for note in alone.notes)


@pytest.mark.parametrize("first", [True, False])
def test_the_first_label_of_a_sequence_is_not_compared(first):
    whole = [[True] * length for length in LENGTHS]
    masked = [[first, *its[1:]] for its in whole]
    found = audit(packs(trained=masked), source("labels", trained=whole), max_length=TOP)
    assert (found.problems, found.unknown) == ((), ())


def test_labels_of_one_side_alone_are_inconclusive(tmp_path, capsys):
    for name, it in {"packs": packs(), "bare packs": packs().remove_columns("labels"), "bare": source(),
                     "source": source("completion_mask", "labels")}.items():  # fmt: skip
        it.to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "lengths.txt").write_text("\n".join(map(str, LENGTHS)))
    codes = {("packs", "bare"): 3, ("bare packs", "source"): 3, ("bare packs", "bare"): 0, ("packs", "source"): 0}
    for (one, other), code in codes.items():
        command = ["audit", str(tmp_path / f"{one}.parquet"), "--source", str(tmp_path / f"{other}.parquet")]
        assert main([*command, "--max-length", "18", "--no-progress"]) == code, (one, other)
        said = capsys.readouterr().out
        assert ("Which tokens are trained on is inconclusive" in said) == (code == 3)
        assert ("No problem was found in what could be compared." in said) == (code == 3)
        assert ("Labels were not asked about: neither side has labels" in said) == (
            one == "bare packs" and other == "bare"
        )
    beside = ["--source", str(tmp_path / "lengths.txt"), "--no-progress"]
    assert main(["audit", str(tmp_path / "packs.parquet"), *beside]) == 3
    assert "Give the tokens with their labels as source, not their lengths." in capsys.readouterr().out
    assert main(["audit", str(tmp_path / "bare packs.parquet"), *beside]) == 0


def test_what_to_do_where_one_side_has_labels_is_said_and_works(tmp_path, capsys):
    files = {
        "packs": packs(),
        "bare": source(),
        "bare packs": packs().remove_columns("labels"),
        "source": source("labels"),
    }
    for name, it in files.items():
        it.to_parquet(tmp_path / f"{name}.parquet")

    def asked(one, other, *more):
        names = [str(tmp_path / f"{name}.parquet") for name in (one, other)]
        code = main(["audit", names[0], "--source", names[1], "--max-length", "18", "--no-progress", *more])
        return code, capsys.readouterr().out

    code, said = asked("packs", "bare")
    assert code == 3
    assert "so nothing says which tokens were meant" in said
    assert "leave it out by masks={'labels': 'drop'} (--mask labels drop)" in said
    assert asked("packs", "bare", "--mask", "labels", "drop")[0] == 0
    code, said = asked("bare packs", "source")
    assert code == 3
    assert "so nothing says whether the trainer still trains on the same tokens" in said
    assert "packlib check --loader" in said
    assert asked("bare packs", "source", "--mask", "labels", "drop")[0] == 0


def test_a_mask_that_was_dropped_beside_labels_is_seen():
    """The source has labels of all tokens and a mask; the packs have the labels alone, and so train on prompts."""
    everything = [[True] * length for length in LENGTHS]
    both = source("labels", trained=everything).add_column(
        "completion_mask", source("completion_mask")["completion_mask"]
    )
    found = audit(packs(trained=everything), both, max_length=TOP)
    assert "labels beside all of labels, completion_mask of the source" in found.problems[0]
    assert audit(packs(), both, max_length=TOP).problems == ()
    kept = packs(trained=everything).add_column("completion_mask", packs("completion_mask")["completion_mask"])
    assert audit(kept, both, max_length=TOP).problems == ()


def test_equal_sequences_are_matched_with_their_labels_as_multisets():
    ids, one, other = [5, 6, 7, 8], [-100, 6, -100, -100], [-100, -100, 7, 8]
    twins = Dataset.from_dict({"input_ids": [ids] * 3, "labels": [one, other, one]})

    def packed(*labels):
        return Dataset.from_dict({"input_ids": [ids * 3], "labels": [flat(labels)], "seq_lengths": [[4, 4, 4]]})

    for labels in ([one, one, other], [other, one, one]):
        assert audit(packed(*labels), twins).problems == ()
    (differs,) = audit(packed(other, one, other), twins).source.labels
    assert (differs.sequences, differs.lost, differs.added, differs.moved) == (1, 0, 1, 1)
    assert differs.source_sequence == 2


FEW = st.lists(st.tuples(st.sampled_from("ABC"), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(FEW, FEW)
def test_equal_sequences_are_counted_and_paired_as_by_hand(had, has):
    """Sequences of three kinds, each with all labels or with one less, at any number on both sides."""

    def rows(sequences):
        ids = [[5, ord(kind), 6, 7] for kind, _ in sequences]
        labels = [[-100, row[1], 6, 7 if whole else -100] for row, (_, whole) in zip(ids, sequences, strict=True)]
        return {"input_ids": ids, "labels": labels}

    packed = Dataset.from_dict({**rows(has), "seq_lengths": [[4]] * len(has)})
    found = audit(packed, Dataset.from_dict(rows(had))).source
    kinds, in_packs = Counter(kind for kind, _ in had), Counter(kind for kind, _ in has)
    assert found.sequences_not_whole == (kinds - in_packs).total()
    assert found.pieces_or_repeats == (in_packs - kinds).total()
    assert found.repeats == sum(count for kind, count in (in_packs - kinds).items() if kind in kinds)
    seen, missing = Counter(), []
    for at, (kind, _) in enumerate(had):
        seen[kind] += 1
        missing += [at] * (seen[kind] > in_packs[kind])
    assert found.first_missing == (missing[0] if missing else None)
    same_labels = (Counter(had) & Counter(has)).total()
    assert sum(one.sequences for one in found.labels) == (kinds & in_packs).total() - same_labels


def test_a_mask_that_is_not_known_is_named(tmp_path, capsys):
    packs().to_parquet(tmp_path / "packs.parquet")
    source("completion_mask").rename_column("completion_mask", "tool_mask").to_parquet(tmp_path / "source.parquet")
    command = ["audit", str(tmp_path / "packs.parquet"), "--source", str(tmp_path / "source.parquet"), "--no-progress"]
    assert main(command) == 3
    said = capsys.readouterr().out
    assert "Not looked at there: tool_mask" in said and "--mask COLUMN WORD" in said
    assert main([*command, "--mask", "tool_mask", "loss"]) == 0
    assert main([*command, "--mask", "tool_mask", "prompt"]) == 1


def long_ones():
    """Sequences of which three are too long for 8, with the labels of their last tokens."""
    draw = np.random.default_rng(2)
    ids = [draw.integers(10, 9999, length).tolist() for length in (20, 8, 11, 3, 5, 9)]
    return Dataset.from_dict({"input_ids": ids, "labels": [[-100] * (len(one) - 4) + one[-4:] if len(one) > 4 else one
                                                           for one in ids]})  # fmt: skip


@pytest.mark.parametrize("rule", ["split", "truncate", "drop"])
def test_what_was_meant_of_long_sequences_is_no_problem(rule, tmp_path, capsys):
    data = long_ones()
    data.to_parquet(tmp_path / "source.parquet")
    arguments = ["--max-length", "8", "--overlong", rule, "--no-progress"]
    assert main(["pack", str(tmp_path / "source.parquet"), *arguments, "--out", str(tmp_path / "packs.parquet")]) == 0
    command = ["audit", str(tmp_path / "packs.parquet"), "--source", str(tmp_path / "source.parquet")]
    capsys.readouterr()
    assert main([*command, "--no-progress"]) == 1
    assert f"If that was meant, say so by overlong='{rule}' (--overlong {rule})." in capsys.readouterr().out
    assert main([*command, *arguments]) == 0
    assert "As was meant, the 3 longer sequences" in capsys.readouterr().out
    other = {"split": "truncate", "truncate": "drop", "drop": "split"}[rule]
    assert main([*command, "--max-length", "8", "--overlong", other, "--no-progress"]) == 1


def test_tokens_and_labels_that_a_cut_costs_are_counted():
    data = long_ones()
    packed = pack_dataset(data, 8, overlong="truncate", progress=False)
    found = audit(packed, data, overlong="truncate").source.cut
    cut = [one[8:] for one in data["labels"]]
    left = [[label for label in one[1:8] if label != -100] for one in data["labels"]]
    assert (found.rule, found.max_length, found.sequences) == ("truncate", 8, 3)
    assert found.tokens == sum(map(len, cut)) and found.labels == sum(label != -100 for one in cut for label in one)
    assert found.unlabeled == sum(not one for one in left) == 1
    found = audit(pack_dataset(data, 8, overlong="drop", progress=False), data, overlong="drop").source.cut
    assert (found.tokens, found.labels, found.unlabeled) == (20 + 11 + 9, 12, 0)
    found = audit(pack_dataset(data, 8, overlong="split", progress=False), data, overlong="split").source.cut
    firsts = [
        one[at] for one in data["labels"] for at in range(8, len(one), 8)
    ]  # nothing predicts them in their piece
    assert (found.tokens, found.labels) == (0, sum(label != -100 for label in firsts))


@pytest.mark.parametrize("rule", [split, truncate])
def test_a_label_that_is_lost_beside_a_cut_is_found(rule):
    data = long_ones()
    packed = pack_dataset(data, 8, overlong=rule.__name__, progress=False).to_dict()
    row = next(row for row in packed["labels"] if row[-1] != -100)
    row[-1] = -100
    found = audit(Dataset.from_dict(packed), data, overlong=rule.__name__)
    assert len(found.problems) == 1 and "1 lost" in found.problems[0]


def test_lengths_are_compared_by_the_rule_too():
    packed = pack_dataset(long_ones().remove_columns("labels"), 8, overlong="split", labels=False, progress=False)
    assert audit(packed, [20, 8, 11, 3, 5, 9], overlong="split").problems == ()
    assert audit(packed, [20, 8, 11, 3, 5, 9, 9], overlong="split").source.tokens_lost == 9
    assert "as_if" in audit(packed, [20, 8, 11, 3, 5, 9], overlong="error").to_json()
    with pytest.raises(ValueError, match="overlong must be 'error', 'truncate', 'drop' or 'split', not 'cut'"):
        audit(packed, [3], overlong="cut")
    with pytest.raises(ValueError, match="overlong must be left out without a source"):
        audit(packed, overlong="split")


def test_sequences_and_rows_that_train_on_nothing_are_counted():
    trained = [its if number in (4, 5, 1) else [False] * len(its) for number, its in enumerate(TRAINED)]
    for column in ("labels", "response_mask"):
        notes = audit(packs(column, trained), max_length=TOP).notes
        assert "Rows without any label: 2 of 4." in notes and "Sequences without any label: 7 of 10." in notes


def test_nemo_says_of_a_token_whether_the_next_is_trained_on(tmp_path):
    source("completion_mask").to_parquet(tmp_path / "source.parquet")
    where = str(tmp_path / "nemo.parquet")
    command = ["pack", str(tmp_path / "source.parquet"), "--max-length", "18", "--layout", "nemo", "--no-progress"]
    assert main([*command, "--out", where]) == 0
    rows = pq.read_table(where).to_pylist()
    np.save(tmp_path / "nemo.npy", [row | {"loss_mask": [bool(one) for one in row["loss_mask"]]} for row in rows])
    for name in ("nemo.parquet", "nemo.npy"):
        assert audit(tmp_path / name, tmp_path / "source.parquet", tolerance=9).problems == ()
    rows[0]["loss_mask"] = [1] * len(rows[0]["loss_mask"])
    pq.write_table(pa.Table.from_pylist(rows), where)
    assert "loss_mask beside completion_mask" in audit(where, tmp_path / "source.parquet", tolerance=9).problems[-1]


def test_labels_of_the_source_that_do_not_fit_its_tokens_are_refused(tmp_path):
    rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}, {"input_ids": [4, 5], "labels": [4]}]
    (tmp_path / "source.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"source\.jsonl .* row 1 has 1 numbers in labels, and 2 tokens"):
        audit(packs(), tmp_path / "source.jsonl")


def rows_of(make, rows=ROWS):
    return [flat(make(number) for number in row) for row in rows]


def answers(number):
    return labels_of(SEQUENCES[number], TRAINED[number])


LENGTHS_OF = [[LENGTHS[n] for n in row] for row in ROWS]
REPORTS = {  # what users of other libraries met, and words of the problem, of the note, or of what is inconclusive
    # https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/4660: the end token is also the padding, and lost its label
    "end tokens without a label": (
        {"labels": rows_of(lambda n: [*answers(n)[:-1], -100]), "seq_lengths": LENGTHS_OF}, 1, "10 lost"),
    # https://github.com/huggingface/trl/issues/3728: the mask is gone after packing
    "a mask that is gone": ({"seq_lengths": LENGTHS_OF}, 3, "packs have neither labels nor a mask"),
    # https://github.com/karpathy/nanochat/pull/582: labels are the tokens, whatever the mask said
    "labels that are the tokens": (
        {"labels": rows_of(SEQUENCES.__getitem__), "seq_lengths": LENGTHS_OF}, 1, "20 added"),
    # https://github.com/meta-pytorch/torchtune/pull/2613: labels were shifted over the borders of the row
    "labels shifted over borders": (
        {"labels": [[*row[1:], -100] for row in rows_of(SEQUENCES.__getitem__)], "seq_lengths": LENGTHS_OF}, 1,
        "The first token of 6 sequences has a label, though the token before it is another sequence's"),
    # https://github.com/NVIDIA-NeMo/RL/pull/4070: the bounds of padded sequences stand for the bare ones too
    "padding inside the bounds": (
        {"input_ids": rows_of(lambda n: [*SEQUENCES[n], 0, 0]), "labels": rows_of(lambda n: [*answers(n), -100, -100]),
         "seq_lengths": [[length + 2 for length in row] for row in LENGTHS_OF]}, 1, "20 tokens more than there were"),
    # https://github.com/NVIDIA/Megatron-LM/pull/5298: a segment of no token at the end of the bounds
    "bounds of nothing": (
        {"labels": rows_of(answers), "cu_seqlens": [np.cumsum([0, *row, 0]).tolist() for row in LENGTHS_OF]}, 0,
        "and the same tokens are trained on"),
    # https://github.com/PrimeIntellect-ai/prime-rl/pull/2944: padding is a segment of its own
    "padding with a length": (
        {"input_ids": [row + [0] * (30 - len(row)) for row in rows_of(SEQUENCES.__getitem__)],
         "loss_mask": [row + [0] * (30 - len(row)) for row in rows_of(lambda n: ones(TRAINED[n]))],
         "seq_lens": [[*row, 30 - sum(row)] for row in LENGTHS_OF]}, 0, "and the same tokens are trained on"),
    # https://github.com/hiyouga/LlamaFactory/issues/5271: sequences of odd lengths are dropped
    "sequences of odd lengths": (
        {"input_ids": rows_of(SEQUENCES.__getitem__, [[5, 6, 7], [8, 9, 4]]),
         "labels": rows_of(answers, [[5, 6, 7], [8, 9, 4]]), "seq_lengths": [[4, 6, 2], [8, 8, 12]]}, 1,
        "4 or more sequences in no pack"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_what_users_of_other_libraries_met(name):
    columns, code, words = REPORTS[name]
    packed = Dataset.from_dict({"input_ids": rows_of(SEQUENCES.__getitem__)} | columns)
    found = audit(packed, source("completion_mask", "labels"), tolerance=9)
    assert (1 if found.problems else 3 if found.unknown else 0) == code, found
    assert words in " ".join([*found.problems, *found.unknown, *found.notes])


@pytest.mark.parametrize("lost", [7, 10])
def test_a_missing_sequence_is_named_by_its_number_in_the_whole_source(lost, tmp_path):
    """The source is read in several parts. Sequence 7 is in one without long sequences, 10 in one that has one."""
    lengths = [3, 20, 4, 5, 2, 6, 7, 3, 5, 4, 8, 25]
    rows = [DRAW.integers(10, 9999, length).tolist() for length in lengths]
    table = pa.table({"input_ids": rows, "labels": rows})
    pq.write_table(table, tmp_path / "source.parquet", row_group_size=3)
    kept = [row[:16] for at, row in enumerate(rows) if at != lost]
    packed = {"input_ids": kept, "labels": kept, "seq_lengths": [[len(row)] for row in kept]}
    found = audit(Dataset.from_dict(packed), tmp_path / "source.parquet", max_length=16, overlong="truncate")
    assert found.source.first_missing == lost and found.source.sequences_lost == 1
    labels = [[-100] * len(row) if at == lost else row[:16] for at, row in enumerate(rows)]
    whole = [row[:16] for row in rows]
    packed = {"input_ids": whole, "labels": labels, "seq_lengths": [[len(row)] for row in whole]}
    found = audit(Dataset.from_dict(packed), tmp_path / "source.parquet", max_length=16, overlong="truncate")
    assert [one.source_sequence for one in found.source.labels] == [lost]


def test_a_sequence_of_the_token_of_padding_is_none_if_it_is_trained_on():
    """Positions begin again at the padding as they do at a sequence, and both hold zeros alone."""
    rows = [[5, 6, 7, 0, 0, 0, 0, 0], [8, 9, 4, 3, 6, 2, 0, 0], [3, 3, 4, 5, 0, 0, 0, 0]]
    positions = [[0, 1, 2, 0, 1, 0, 1, 2], [0, 1, 2, 3, 4, 5, 0, 1], [0, 1, 2, 3, 0, 1, 2, 3]]
    labels = [[*row] for row in rows]
    for row, padding in zip(labels, (3, 2, 4), strict=True):
        row[-padding:] = [-100] * padding
    packed = Dataset.from_dict({"input_ids": rows, "position_ids": positions, "labels": labels})
    sequences = [[5, 6, 7], [0, 0], [8, 9, 4, 3, 6, 2], [3, 3, 4, 5]]
    source_of = Dataset.from_dict({"input_ids": sequences, "labels": sequences})
    found = audit(packed, source_of, tolerance=1)  # three packs, where two would do
    assert (found.problems, found.sequences, found.tokens) == ((), 4, 15)
