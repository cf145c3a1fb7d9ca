"""Nobody trains on prompts unasked: every mask of the loss is read, and what may be one is asked about."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from test_columns import TEMPLATE, of
from test_columns import tokenizer as tokenizer_with
from test_pack_dataset import unpacked

from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.auditing import audit
from packlib.tools.rows import pack_dataset
from packlib.tools.rows.loss_masks import LOSS_MASKS

ANSWER = [0, 0, 1, 0, 1, 1]  # which tokens of a sequence are to be trained on, by hand
IDS = [11, 12, 13, 14, 15, 16]
WANTED = [-100, -100, 13, -100, 15, 16]
PROMPT = [1, 1, 0, 1, 0, 0]
# The tokenizer has no token for a space, which must not be the last of what transformers marks.
MARKED = TEMPLATE.replace(" end {% endgeneration %}", " end{% endgeneration %} ")
NEXT = [0, 1, 0, 1, 1, 0]  # the same, of the token after each


def known(name):
    """The values of a mask of this name that lets the same tokens be trained on, whatever its 1 means."""
    return PROMPT if name == "prompt_mask" else ANSWER


def tokenizer(template=MARKED):
    """That of the other tests, but for where an answer ends."""
    return tokenizer_with(template)


def labels_in(packed):
    return [one["labels"] for one in unpacked(packed)]


def test_the_list_holds_the_names_that_the_ecosystem_writes():
    named = {"loss_mask", "completion_mask", "assistant_masks", "assistant_mask", "response_mask", "train_mask"}
    assert set(LOSS_MASKS) == named | {"prompt_mask"}


@pytest.mark.parametrize("kind", [int, bool])
@pytest.mark.parametrize("name", LOSS_MASKS)
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_each_mask_of_the_loss_becomes_labels(source, name, kind):
    rows = [{"input_ids": IDS, name: [kind(one) for one in known(name)]}] * 5
    packed = pack_dataset(of(source, rows), 16)
    assert labels_in(packed) == [WANTED] * 5
    assert set(next(iter(packed))) == {"input_ids", "labels", "position_ids", "seq_lengths"}


@pytest.mark.parametrize("name", LOSS_MASKS)
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_pack_and_report_read_each_mask_in_files(tmp_path, capsys, name, suffix):
    rows = [{"input_ids": IDS, name: known(name)}] * 9
    data, out = tmp_path / f"data.{suffix}", tmp_path / "packed.parquet"
    Dataset.from_list(rows).to_parquet(data) if suffix == "parquet" else data.write_text(
        "\n".join(json.dumps(row) for row in rows)
    )
    assert cli.main(["pack", str(data), "--max-length", "18", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"{name}: labels are -100 where it is {int(name == 'prompt_mask')}, for 50.0 % of the tokens." in said
    assert pq.read_table(out)["labels"].to_pylist() == [WANTED * 3] * 3
    assert advise(data, 18).as_dict()["loss"]["share"] == 0.5


def test_rows_of_several_sequences_are_parted_with_their_masks():
    rows = [{"input_ids": [*IDS, 17, 18], "seq_lengths": [6, 2], "prompt_mask": [*PROMPT, 1, 0]}]
    assert sorted(labels_in(pack_dataset(rows, 16))) == sorted([WANTED, [-100, 18]])


@pytest.mark.parametrize("word, values", [("loss", ANSWER), ("prompt", PROMPT), ("next", NEXT)])
@pytest.mark.parametrize("name", ["tool_mask", "mask", "LossMask", "loss_mask", "chosen_masks"])
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_a_word_says_what_a_column_means(source, name, word, values):
    packed = pack_dataset(of(source, [{"input_ids": IDS, name: values}] * 4), 16, masks={name: word})
    assert labels_in(packed) == [WANTED] * 4


def test_the_next_token_of_the_last_is_that_of_no_other_sequence():
    rows = [{"input_ids": [1, 2, 3], "loss_mask": [1, 1, 1]}, {"input_ids": [4, 5, 6], "loss_mask": [0, 1, 1]}]
    packed = pack_dataset(rows, 8, masks={"loss_mask": "next"})
    assert sorted(labels_in(packed)) == [[-100, -100, 6], [-100, 2, 3]]
    said = json.loads(packed.info.description)["columns"]["loss_mask"]
    assert said == "labels are -100 where it is 0 at the token before, for 50.0 % of the tokens"


@pytest.mark.parametrize("values", [ANSWER, [bool(one) for one in ANSWER], [float(one) for one in ANSWER]])
@pytest.mark.parametrize("name", ["tool_mask", "mask", "labels_mask", "LossMask", "turn_masks"])
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_a_mask_with_another_name_asks_for_a_word(source, name, values):
    data = of(source, [{"input_ids": IDS, name: values}] * 4)
    with pytest.raises(ValueError) as raised:
        list(pack_dataset(data, 16))
    said = str(raised.value)
    assert said.startswith(f"The column '{name}' has 0 and 1 for each token") and "\n" not in said
    assert f"masks={{'{name}': WORD}}" in said and f"--mask {name} WORD" in said
    kept = next(iter(pack_dataset(data, 8, masks={name: "keep"})))
    assert kept[name] == values and kept["labels"] == [-100, *IDS[1:]]
    dropped = next(iter(pack_dataset(data, 8, masks={name: "drop"})))
    assert name not in dropped and dropped["labels"] == [-100, *IDS[1:]]


def test_the_shell_asks_for_a_word_and_takes_it(tmp_path, capsys):
    data, out = tmp_path / "data.parquet", tmp_path / "packed.parquet"
    Dataset.from_list([{"input_ids": IDS, "tool_mask": PROMPT}] * 4).to_parquet(data)
    command = ["pack", str(data), "--max-length", "6", "--out", str(out)]
    capsys.readouterr()
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "--mask tool_mask WORD" in said and said.count("\n") == 1 and not out.exists()
    assert cli.main([*command, "--mask", "tool_mask", "prompt"]) == 0
    assert pq.read_table(out)["labels"].to_pylist() == [WANTED] * 4
    report = ["report", str(data), "--mask", "tool_mask", "prompt", "--out", str(tmp_path / "report"), "--json"]
    capsys.readouterr()
    assert cli.main(report) == 0 and json.loads(capsys.readouterr().out)["loss"]["share"] == 0.5


@pytest.mark.parametrize("column", [
    {"special_tokens_mask": ANSWER}, {"attention_mask": [1] * 6}, {"document_mask": [1, 1, 1, 2, 2, 2]},
    {"mask": 1}, {"masked": [1, 2, 1, 2, 1, 2]}, {"token_type_ids": ANSWER}, {"score": [0.0, 0.5] * 3}, {"kept": 1},
])  # fmt: skip
def test_what_is_no_mask_of_the_loss_asks_for_nothing(column):
    assert labels_in(pack_dataset([{"input_ids": IDS} | column] * 3, 16)) == [[-100, *IDS[1:]]] * 3


OTHER = [0, 0, 1, 0, 1, 0]
# the two columns, what they hold, the first token that they disagree about, and the labels of what both train on
DISAGREE = [
    (("completion_mask", "assistant_masks"), (ANSWER, OTHER), 5, [-100, -100, 13, -100, 15, -100]),
    (("loss_mask", "prompt_mask"), (ANSWER, [1, 0, 0, 1, 0, 0]), 1, WANTED),
    (("labels", "completion_mask"), (IDS, ANSWER), 1, WANTED),
    (("labels", "prompt_mask"), ([-100] * 5 + [16], PROMPT), 2, [-100] * 5 + [16]),
]


@pytest.mark.parametrize("names, values, token, both", DISAGREE)
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_masks_and_labels_that_disagree_are_refused_by_name_and_row(source, names, values, token, both):
    same = {name: WANTED if name == "labels" else known(name) for name in names}
    rows = [{"input_ids": IDS} | same] * 7 + [{"input_ids": IDS} | dict(zip(names, values, strict=True))] * 2
    with pytest.raises(ValueError) as raised:
        list(pack_dataset(of(source, rows), 16))
    said = str(raised.value)
    assert f"The columns '{names[0]}' and '{names[1]}' disagree in row 7 about token {token}:" in said
    assert "'drop'" in said and f"--mask {names[1]} drop" in said and "\n" not in said
    assert labels_in(pack_dataset(of(source, rows[:7]), 16)) == [WANTED] * 7
    words = {name: LOSS_MASKS[name] for name in names if name != "labels"}
    found = labels_in(pack_dataset(of(source, rows), 16, masks=words))
    assert sorted(found) == sorted([WANTED] * 7 + [both] * 2)
    alone = labels_in(pack_dataset(of(source, rows), 16, masks={names[1]: "drop"}))
    only_first = [{name: row[name] for name in ("input_ids", names[0])} for row in rows]
    assert alone == labels_in(pack_dataset(of(source, only_first), 16))


def test_the_first_token_of_a_sequence_is_no_disagreement():
    """Nothing predicts it: a mask may have 1 there where labels have -100."""
    rows = [{"input_ids": IDS, "labels": [-100, *IDS[1:]], "loss_mask": [1] * 6}] * 3
    assert labels_in(pack_dataset(rows, 16)) == [[-100, *IDS[1:]]] * 3


@pytest.mark.parametrize("says, columns, masks", [
    ("(--mask a loss) names no column of the data set; it has input_ids", {}, {"a": "loss"}),
    ("masks['a'] must be", {}, {"a": "yes"}),
    ("masks['labels'] must be 'drop', not 'loss'", {"labels": IDS}, {"labels": "loss"}),
    ("masks must map names of columns to words, not be 'a'", {}, "a"),
    ("input_ids cannot be dropped", {}, {"input_ids": "drop"}),
    ("The column 'prompt_mask' is 1 for all tokens", {"prompt_mask": [1] * 6}, None),
    ("No token is trained on by all of the columns a, b", {"a": [1] * 3 + [0] * 3, "b": [0] * 3 + [1] * 3},
     {"a": "loss", "b": "loss"}),
    ("The column 'seq_start_id' belongs to rows that were packed for NeMo", {"seq_start_id": [0, 3]}, None),
    ("The column 'loss_mask' must hold lists of 0 and 1, not int64", {"loss_mask": 1}, None),
    ("loss_mask must hold 0 and 1, not 2 as in row 0", {"loss_mask": [2] * 6}, None),
])  # fmt: skip
def test_wrong_words_and_masks_are_refused(says, columns, masks):
    with pytest.raises((TypeError, ValueError)) as raised:
        pack_dataset([{"input_ids": IDS} | columns] * 3, 8, masks=masks)
    assert says in str(raised.value)


def test_masked_models_take_data_with_a_mask_that_is_dropped():
    rows = [{"input_ids": IDS, "completion_mask": ANSWER}] * 3
    with pytest.raises(ValueError, match="labels must be True with the column 'completion_mask'"):
        pack_dataset(rows, 8, labels=False)
    assert "labels" not in pack_dataset(rows, 8, labels=False, masks={"completion_mask": "drop"}).column_names


def test_the_layout_of_nemo_has_what_other_masks_say(tmp_path):
    data, out = tmp_path / "data.parquet", tmp_path / "nemo.parquet"
    Dataset.from_list([{"input_ids": IDS, "tool_mask": ANSWER}] * 3).to_parquet(data)
    command = ["pack", str(data), "--max-length", "6", "--layout", "nemo", "--mask", "tool_mask", "loss"]
    assert cli.main([*command, "--out", str(out)]) == 0
    assert pq.read_table(out)["loss_mask"].to_pylist() == [NEXT] * 3


@pytest.mark.parametrize("name", LOSS_MASKS)
def test_audit_names_a_mask_that_trains_on_nothing(tmp_path, name):
    nothing = 1 if name == "prompt_mask" else 0
    rows = {"input_ids": [IDS] * 4, "seq_lengths": [[3, 3]] * 4}
    for value in (0, 1):
        pq.write_table(pa.table(rows | {name: [[value] * 6] * 4}), tmp_path / "packs.parquet")
        problems = audit(tmp_path / "packs.parquet").problems
        said = f"{name} is {nothing} for all tokens: nothing would be trained on."
        assert (said in problems) == (value == nothing)


def chat(*weights, key="weight"):
    """A chat with an answer for each weight; None for an answer that has none."""
    turns = []
    for at, weight in enumerate(weights):
        own = {} if weight is None else {key: weight}
        turns += [{"role": "user", "content": "one"}, {"role": "assistant", "content": ["two", "three"][at % 2]} | own]
    return turns


@pytest.mark.parametrize("key", ["weight", "train", "training"])
@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_answers_with_weight_0_are_not_trained_on(source, key):
    rows = [{"messages": chat(*weights, key=key)} for weights in [(0, 1), (1, 0), (None, 0), (0, None, 1), (1, 1)]]
    for row in rows:
        row["messages"][0][key] = 0  # of the user: it is not trained on anyway
    found = labels_in(pack_dataset(of(source, rows), 32, tokenizer=tokenizer()))
    first, second, i = [4, 2], [5, 2], -100  # "two end", "three end"
    answers = [(None, second), (first, None), (first, None), (None, second, first), (first, second)]
    expected = [[label for tokens in one for label in (i, i, *(tokens if tokens else (i, i)))] for one in answers]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("says, weights", [
    ("The weight of message 1 of row 0 must be 0 or 1, not 0.5.", (0.5,)),
    ("The weight of message 3 of row 0 must be 0 or 1, not 2.", (1, 2)),
    ("The weight of message 1 of row 0 must be 0 or 1, not '1'.", ("1",)),
    ("The weight of message 1 of row 0 must be 0 or 1, not -1.", (-1,)),
])  # fmt: skip
def test_other_weights_are_refused_by_name(says, weights):
    with pytest.raises(ValueError) as raised:
        pack_dataset([{"messages": chat(*weights)}], 32, tokenizer=tokenizer())
    assert says in str(raised.value)


@pytest.mark.parametrize("name", ["train_detail", "loss", "loss_weight", "trainable"])
def test_weights_of_other_names_are_not_dropped_in_silence(name):
    with pytest.raises(ValueError, match=f"The {name} of message 1 of row 0 is not read: give each message a weight"):
        pack_dataset([{"messages": chat(0, key=name)}], 32, tokenizer=tokenizer())


def test_weights_that_nothing_can_honor_are_refused():
    of_user = [{"role": "user", "content": "one", "weight": 1}, {"role": "assistant", "content": "two"}]
    with pytest.raises(ValueError, match="The weight of message 0 of row 0 must be 0, or left out"):
        pack_dataset([{"messages": of_user}], 32, tokenizer=tokenizer())
    with pytest.raises(ValueError, match="labels must be True for message 1 of row 0, whose weight is 0"):
        pack_dataset([{"messages": chat(0, 1)}], 32, labels=False, tokenizer=tokenizer())
    with pytest.raises(ValueError, match="'assistant_masks' is 0 for all tokens"):
        pack_dataset([{"messages": chat(0, 0)}], 32, tokenizer=tokenizer())
    joined = MARKED.replace("{{ message.role }} {{ message.content }} ", "")  # one answer follows on the other
    with pytest.raises(ValueError, match="The weights of row 0 cannot be honored"):
        pack_dataset([{"messages": chat(0, 1)}], 32, tokenizer=tokenizer(joined))
    turns = [{"role": "assistant", "content": text, "weight": w} for text, w in (("two", 1), ("", 0), ("three", 0))]
    bare = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %} {% endfor %}"
    with pytest.raises(ValueError, match="The weights of row 0 cannot be honored"):
        pack_dataset([{"messages": turns}], 32, tokenizer=tokenizer(bare))
    same = pack_dataset([{"messages": chat(1, 1)}], 32, tokenizer=tokenizer(joined))
    assert labels_in(same) == [[-100, 2, 5, 2]]


def test_weights_are_honored_where_a_template_writes_earlier_answers_otherwise():
    """As those that leave out the thoughts of all but the last answer."""
    thoughts = MARKED.replace("{% generation %}", "{% generation %}{% if loop.last %}tools {% endif %}")
    rows = [{"messages": chat(1, 0, 1)}]
    (found,) = labels_in(pack_dataset(rows, 32, tokenizer=tokenizer(thoughts)))
    assert found == [*[-100] * 2, 4, 2, *[-100] * 6, 6, 4, 2]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_labels_of_every_whole_type_get_the_mask(tmp_path, bits, signed):
    """-100 fits into no unsigned type."""
    kind = getattr(pa, f"{'int' if signed else 'uint'}{bits}")()
    table = pa.table(
        {"input_ids": [IDS] * 4, "labels": pa.array([IDS] * 4, pa.list_(kind)), "loss_mask": [ANSWER] * 4}
    )
    pq.write_table(table, tmp_path / "data.parquet")
    packed = pack_dataset(str(tmp_path / "data.parquet"), 16, masks={"loss_mask": "loss"})
    assert labels_in(packed) == [WANTED] * 4
