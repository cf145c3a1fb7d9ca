"""What data sets of fine-tuning bring besides tokens: masks of the loss, borders, chats and texts."""

import json
import operator

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pack_dataset import unpacked
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from packlib.tools.rows import pack_dataset

TEMPLATE = (
    "{% if tools %}tools {{ tools | length }} {% endif %}{% for message in messages %}"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }} end {% endgeneration %}"
    "{% else %}{{ message.role }} {{ message.content }} {% endif %}"
    "{% if message.name is defined %}named {{ message.name }} {% endif %}{% endfor %}"
)
CHATS = [
    [{"role": "user", "content": f"one {'two ' * n}"}, {"role": "assistant", "content": "three " * (n % 3 + 1)}]
    * (1 + n % 2)
    for n in range(20)
]


def tokenizer(template=TEMPLATE, **special):
    """A tokenizer of eleven words, whose chat template says which tokens are the assistant's."""
    words = ["?", "user", "end", "one", "two", "three", "tools", "1", "named", "bob", "</s>"]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, chat_template=template, **special)


def of(source, rows):
    """The rows as the kind of data set that `source` names."""
    whole = Dataset.from_list(rows)
    return {"dataset": whole, "rows": rows, "stream": whole.to_iterable_dataset()}[source]


def became(packed):
    """What became of each column, as the packed rows say."""
    return json.loads(packed.info.description)["columns"]


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
@given(
    st.lists(st.lists(st.tuples(*[st.integers(0, 1)] * 2), min_size=1, max_size=9), min_size=1, max_size=12),
    st.sets(st.sampled_from(["labels", "assistant_masks", "completion_mask"])),
)
@settings(max_examples=20)
def test_labels_are_left_where_all_masks_are_one(source, masks, names):
    """As TRL folds them into labels; and where the data has labels, they are left there too. Words allow to differ."""
    rows = []
    for at, pairs in enumerate(masks):
        mine, completion = zip(*pairs, strict=True)
        ids = [10 * at + n for n in range(len(pairs))]
        row = {"assistant_masks": [*mine[1:], 1], "completion_mask": [*completion[1:], 1], "labels": [-n for n in ids]}
        rows.append({"input_ids": ids} | {name: row[name] for name in sorted(names)})
    expected = []
    for row in rows:
        ids, masked = row["input_ids"], [row[name] for name in names - {"labels"}]
        labels = row.get("labels", [-100, *ids[1:]])
        labels = [label if all(mask[at] for mask in masked) else -100 for at, label in enumerate(labels)]
        expected.append((ids, labels))
    masks = dict.fromkeys(names - {"labels"}, "loss")
    packed = pack_dataset(of(source, rows), 16, masks=masks)
    found = [(one["input_ids"], one["labels"]) for one in unpacked(packed)]
    assert sorted(found) == sorted(expected)
    assert set(next(iter(packed))) == {"input_ids", "labels", "position_ids", "seq_lengths"}


def test_the_summary_says_what_became_of_each_column():
    rows = [{"input_ids": [5, 6, 7, 8], "assistant_masks": [0, 0, 0, 1], "attention_mask": [1] * 4, "who": "a"}] * 3
    found = became(pack_dataset(rows, 64))
    assert found == {
        "input_ids": "a value for each token",
        "assistant_masks": "labels are -100 where it is 0, for 75.0 % of the tokens",
        "attention_mask": "left out, since it is 1 for all tokens",
        "who": "a value for each sequence",
        "labels": "made for a causal model, with -100 for the first token of each sequence",
    }
    assert "assistant_masks" not in became(pack_dataset([{"input_ids": [5, 6, 7, 8], "who": "a"}] * 3, 64))
    with pytest.raises(ValueError, match="labels must be True with the column 'assistant_masks'"):
        pack_dataset(rows, 64, labels=False)


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
@pytest.mark.parametrize("borders", [["seq_lengths"], ["position_ids"], ["position_ids", "seq_lengths"]])
def test_packs_are_packed_anew(source, borders):
    rng = np.random.default_rng(0)
    rows = [{"input_ids": rng.integers(0, 99, n).tolist(), "who": f"é{n}", "rating": n / 7} for n in range(1, 30)]
    once = pack_dataset(rows, 40)
    kept = once.select_columns(["input_ids", "labels", "who", "rating", *borders]).to_list()
    again = pack_dataset(of(source, kept), 32)
    if "seq_lengths" in borders:
        key = operator.itemgetter("who")
        assert sorted(unpacked(again), key=key) == sorted(unpacked(once), key=key)
    assert max(len(row["input_ids"]) for row in again) <= 32


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_chats_are_tokenized_and_only_the_assistant_is_trained_on(source):
    rows = [{"messages": chat, "who": at} for at, chat in enumerate(CHATS)]
    mine = tokenizer()
    packed = pack_dataset(of(source, rows), 64, tokenizer=mine)
    expected = []
    for row in rows:
        options = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": True}
        found = mine.apply_chat_template(row["messages"], **options)
        labels = [t if m else -100 for t, m in zip(found["input_ids"], found["assistant_masks"], strict=True)]
        expected.append({"who": row["who"], "input_ids": found["input_ids"], "labels": labels})
    assert sorted(unpacked(packed), key=lambda one: one["who"]) == expected
    if source != "stream":
        said = became(packed)
        assert said["messages"] == "tokenized by the chat template and left out" and "-100" in said["assistant_masks"]


def test_tools_and_fields_that_some_messages_lack_reach_the_template():
    rows = [{"messages": [{"role": "user", "content": "one", "name": "bob"}], "tools": '[{"type": "function"}]'}]
    rows += [{"messages": [{"role": "assistant", "content": "two"}], "tools": None}]
    (row,) = pack_dataset(Dataset.from_list(rows), 64, tokenizer=tokenizer(), seed=None)
    assert tokenizer().decode(row["input_ids"]) == "tools 1 user one named bob two end"


@pytest.mark.parametrize("source", ["dataset", "rows", "stream"])
def test_texts_are_tokenized_and_end(source):
    rows = [{"text": "one two"}, {"text": "three </s>"}]
    for special, end in ({"eos_token": "</s>"}, [10]), ({}, []):
        packed = pack_dataset(of(source, rows), 8, tokenizer=tokenizer(**special))
        expected = [[3, 4, *end], [5, 10]]
        assert sorted(one["input_ids"] for one in unpacked(packed)) == expected
        assert "text" not in next(iter(packed))


@pytest.mark.parametrize("says, rows, options", [
    ("it has no {% generation %}", [{"messages": CHATS[0]}], {"template": "{{ messages[0].content }}"}),
    ("tokenizer must be left out: the data set has input_ids.", [{"input_ids": [1], "text": "a"}], {}),
    ("and no prompt with a completion; it has prompt", [{"prompt": "a"}], {}),
    ("The column 'text' must hold texts, not int64", [{"text": 3}], {}),
    ("The column 'text' has no value in row 1", [{"text": "a"}, {"text": None}], {}),
    ("The messages of row 1 do not fit the chat template: ", [{"messages": CHATS[0]}, {"messages": []}], {}),
    ("The column 'assistant_masks' is 0 for all tokens", [{"messages": [{"role": "user", "content": "one"}]}], {}),
])  # fmt: skip
def test_what_no_tokens_can_be_made_of_is_refused(says, rows, options):
    with pytest.raises((TypeError, ValueError)) as raised:
        pack_dataset(rows, 8, tokenizer=tokenizer(**options))
    assert says in str(raised.value)


def test_a_template_without_marks_will_do_where_no_labels_are_made():
    packed = pack_dataset([{"messages": CHATS[0]}], 8, labels=False, tokenizer=tokenizer("{{ messages[0].content }}"))
    assert packed[:] == {"input_ids": [[3]], "position_ids": [[0]], "seq_lengths": [[1]]}


def test_positions_of_three_axes_are_refused_by_name():
    row = {"input_ids": [5, 6, 7], "position_ids": [[0, 1, 2], [0, 1, 1], [0, 1, 2]]}
    with pytest.raises(TypeError, match="The column position_ids holds positions of several axes, as of images"):
        pack_dataset(Dataset.from_list([row, row]), max_length=8)
