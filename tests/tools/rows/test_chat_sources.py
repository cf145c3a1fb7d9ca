"""Chats and texts as TRL, ShareGPT and others write them, with labels for the answers alone."""

import json

import pyarrow.parquet as pq
import pytest
from test_columns import TEMPLATE, of
from test_columns import tokenizer as tokenizer_with
from test_pack_dataset import unpacked
from test_trainers import a_model

from packlib.tools import cli
from packlib.tools.rows import pack_dataset

MARKED = TEMPLATE.replace(" end {% endgeneration %}", " end{% endgeneration %} ")
TURN = "{% for m in messages %}{{ m.role }} {{ m.content }} end {% endfor %}"
PLAIN = TURN + "{% if add_generation_prompt %}three {% endif %}"
I = -100  # noqa: E741


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def labeled(packed, mine):
    """The words of each sequence, those without a label in brackets."""
    found = []
    for one in unpacked(packed):
        words = [mine.decode([token]) for token in one["input_ids"]]
        found.append(" ".join(w if label != I else f"({w})" for w, label in zip(words, one["labels"], strict=True)))
    return sorted(found)


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_completions_are_trained_on_and_prompts_are_not(source):
    mine = tokenizer_with(None, eos_token="</s>")
    rows = [{"prompt": "one two ", "completion": "three"}, {"prompt": "two ", "completion": "one two </s>"}]
    packed = pack_dataset(of(source, rows), 16, tokenizer=mine)
    assert labeled(packed, mine) == ["(one) (two) three </s>", "(two) one two </s>"]
    assert set(next(iter(packed))) == {"input_ids", "labels", "position_ids", "seq_lengths"}


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_completions_of_messages_are_trained_on(source):
    """As TRL has it: what the template writes of the prompt for an answer to follow is no part of the completion."""
    mine = tokenizer_with(PLAIN.replace("{{ m.role }}", "{{ 'three' if m.role == 'assistant' else m.role }}"))
    rows = [
        {"prompt": [{"role": "user", "content": "one"}], "completion": [{"role": "assistant", "content": content}]}
        for content in ("two", "two one")
    ]
    found = labeled(pack_dataset(of(source, rows), 32, tokenizer=mine), mine)
    assert found == ["(user) (one) (end) (three) two end", "(user) (one) (end) (three) two one end"]


def test_a_token_that_holds_the_end_of_a_prompt_and_the_begin_of_its_completion_is_trained_on():
    mine = tokenizer_with(None)
    packed = pack_dataset([{"prompt": "one tw", "completion": "o three"}], 16, tokenizer=mine)
    assert labeled(packed, mine) == ["(one) two three"]


def test_completions_are_as_trl_has_them(tmp_path):
    from trl import SFTConfig, SFTTrainer

    mine = tokenizer_with(PLAIN, eos_token="</s>", pad_token="?")
    text = [{"prompt": f"one {'two ' * n}", "completion": "three one"} for n in range(4)]
    chats = [
        {
            "prompt": [{"role": "user", "content": "two"}] * (n + 1),
            "completion": [{"role": "assistant", "content": "one"}],
        }
        for n in range(4)
    ]
    for rows in (text, chats):
        given = of("dataset", rows)
        arguments = SFTConfig(str(tmp_path), max_length=None, use_cpu=True, report_to=[])
        trainer = SFTTrainer(a_model("causal"), arguments, train_dataset=given, processing_class=mine)
        kept = [(row["input_ids"], row["labels"]) for row in trainer.train_dataset]
        ours = [(one["input_ids"], one["labels"]) for one in unpacked(pack_dataset(given, 64, tokenizer=mine))]
        assert sorted(ours) == sorted(kept)


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
@pytest.mark.parametrize("keys", [("from", "value"), ("role", "content")])
def test_conversations_of_sharegpt_are_chats(source, keys):
    sender, text = keys
    names = ("system", "human", "gpt") if sender == "from" else ("system", "user", "assistant")
    turns = list(zip(names, ("two", "one", "three"), strict=True))
    rows = [{"conversations": [{sender: name, text: said} for name, said in turns]}] * 3
    mine = tokenizer_with(MARKED)
    found = labeled(pack_dataset(of(source, rows), 32, tokenizer=mine), mine)
    assert found == ["(?) (two) (user) (one) three end"] * 3


def test_weights_of_sharegpt_are_honored():
    turns = [("human", "one", None), ("gpt", "two", 0), ("human", "one", None), ("gpt", "three", 1)]
    chat = [{"from": who, "value": said} | ({} if w is None else {"weight": w}) for who, said, w in turns]
    mine = tokenizer_with(MARKED)
    found = labeled(pack_dataset([{"conversations": chat}], 32, tokenizer=mine), mine)
    assert found == ["(user) (one) (two) (end) (user) (one) three end"]


ASK = {"role": "user", "content": "one"}
PARTS = [{"role": "user", "content": [{"type": "text", "text": "one"}]}, {"role": "assistant", "content": "two"}]


@pytest.mark.parametrize("says, row", [
    ("The content of message 0 of row 0 is a list of parts, and only texts are packed", {"messages": PARTS[:1]}),
    ("in the column 'messages': .*; each content must be a text, and no list of parts", {"messages": PARTS}),
    ("The content of message 0 of row 0 is a list of parts", {"prompt": PARTS[:1], "completion": PARTS[1:]}),
    ("The data set has the columns of Alpaca, instruction and output",
     {"instruction": "one", "input": "", "output": "two"}),
    ("Message 0 of row 0 is from 'parrot'; known are human", {"conversations": [{"from": "parrot", "value": "one"}]}),
    ("Message 1 of row 0 has no content", {"messages": [ASK, {"role": "assistant", "content": None}]}),
    ("Message 0 of row 0 has no content", {"conversations": [{"from": "human", "value": None}]}),
    ("The data set has messages, text, and tokens are made of one of them", {"messages": [ASK], "text": "one"}),
    ("The data set has completion, text, and tokens are made of one of them",
     {"prompt": "one", "completion": "two", "text": "one"}),
    (r"\(--drop text\)", {"prompt": "one", "completion": "two", "text": "one"}),
    ("The column 'label' beside prompt and completion", {"prompt": "one", "completion": "two", "label": False}),
    ("The column 'system' is not shown to the chat template", {"conversations": [ASK], "system": "two"}),
    ("The messages of row 0 must be a list of messages with role and content, not 'x'", {"messages": "x"}),
    ("must both be texts, or both lists of messages", {"prompt": "one", "completion": [ASK]}),
    ("The column 'completion' has no value in row 0", {"prompt": "one", "completion": None}),
    ("The weight of 0 in the completion of row 0 is not read",
     {"prompt": [ASK], "completion": [{"role": "assistant", "content": "two", "weight": 0}]}),
])  # fmt: skip
def test_what_would_go_wrong_in_silence_is_refused(says, row):
    with pytest.raises((TypeError, ValueError), match=says):
        pack_dataset([row] * 2, 16, tokenizer=tokenizer_with(MARKED))


THOUGHT = {"role": "assistant", "content": "two", "reasoning_content": "three"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "three"}}]}


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
@pytest.mark.parametrize("last, name", [(THOUGHT, "reasoning_content"), (CALL, "tool_calls")])
def test_parts_of_messages_that_a_template_does_not_name_are_said(source, last, name):
    """After jingyaogong/minimind#737 and axolotl-ai-cloud/axolotl#3824: thoughts and calls were not in the tokens."""
    left_out = f"tokenized by the chat template and left out, with {name}, which the template does not name"
    for rows in (
        [{"messages": [ASK, {"role": "assistant", "content": "two"}]}] * 3 + [{"messages": [ASK, last]}],
        [{"prompt": [ASK], "completion": [last]}] * 3,
    ):
        packed = pack_dataset(of(source, rows), 16, tokenizer=tokenizer_with(MARKED))
        if source != "stream":
            column = "messages" if "messages" in rows[0] else "completion"
            assert json.loads(packed.info.description)["columns"][column] == left_out


def test_parts_that_a_template_names_or_that_are_empty_are_not_said():
    reads = MARKED.replace("{% generation %}", "{% generation %}{{ message.reasoning_content }} ")
    quiet = {"role": "assistant", "content": "two", "reasoning_content": "", "tool_calls": []}
    for template, last in ((reads, THOUGHT), (MARKED, quiet), (MARKED, THOUGHT | {"reasoning_content": None})):
        packed = pack_dataset([{"messages": [ASK, last]}] * 2, 16, tokenizer=tokenizer_with(template))
        found = json.loads(packed.info.description)["columns"]
        assert found["messages"] == "tokenized by the chat template and left out"


def test_a_prompt_without_a_completion_is_carried_beside_messages():
    """As in UltraChat."""
    rows = [{"prompt": "one", "messages": [ASK, {"role": "assistant", "content": "two"}]}]
    assert pack_dataset(rows, 16, tokenizer=tokenizer_with(MARKED))[0]["prompt"] == ["one"]


def test_other_sources_can_be_left_out():
    mine = tokenizer_with(None)
    rows = [{"prompt": "one ", "completion": "two", "text": "three"}]
    packed = pack_dataset(rows, 16, tokenizer=mine, masks={"text": "drop"})
    assert labeled(packed, mine) == ["(one) two"]
    packed = pack_dataset(rows, 16, tokenizer=mine, masks={"completion": "drop", "prompt": "drop"})
    assert labeled(packed, mine) == ["(three)"]


def test_masked_models_take_completions_without_a_mask():
    packed = pack_dataset([{"prompt": "one ", "completion": "two"}], 16, labels=False, tokenizer=tokenizer_with(None))
    assert packed.column_names == ["input_ids", "position_ids", "seq_lengths"]


def test_an_answer_of_nothing_is_in_the_books(capsys):
    tokenizer_with(None).save_pretrained("model")
    rows = [{"prompt": "one two", "completion": ""}, {"prompt": "one ", "completion": "two"}]
    with open("x.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    asked = ["pack", "x.jsonl", "--tokenizer", "model", "--max-length", "4", "--no-progress", "--out", "out.parquet"]
    assert cli.main(asked) == 0
    assert "1 of the 2 packed sequences and 0 of the 1 packs have no label" in capsys.readouterr().out
    assert pq.read_table("out.parquet").num_rows == 1
