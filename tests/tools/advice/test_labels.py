"""Labels that a cut loses, counted again sequence by sequence; and chats that a tokenizer makes tokens of."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.batches import wordnet_tokenizer
from packlib.lengths.overlong import CUT_RULES
from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.advice.data import read_uncut

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
)
drawn = np.random.default_rng(4)
PROMPTS, ANSWERS = drawn.integers(1, 60, 400), drawn.integers(1, 40, 400)
IDS = [drawn.integers(5, 900, a + b).tolist() for a, b in zip(PROMPTS, ANSWERS, strict=True)]
LABELS = [[-100] * int(prompt) + ids[prompt:] for prompt, ids in zip(PROMPTS, IDS, strict=True)]


def pieces(labels, top, rule):
    if len(labels) <= top:
        return [labels]
    return {
        "drop": [],
        "truncate": [labels[:top]],
        "split": [labels[at : at + top] for at in range(0, len(labels), top)],
    }[rule]


def kept(top, rule):
    """Labels left: the first token of a sequence, or of a piece, is predicted from nothing."""
    return sum(one != -100 for labels in LABELS for piece in pieces(labels, top, rule) for one in piece[1:])


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"input_ids": IDS, "labels": LABELS}), tmp_path / "chats.parquet")
    return tmp_path / "chats.parquet"


@pytest.mark.parametrize("top", [1, 7, 33, 64, 200])
def test_labels_are_counted_after_the_cut(path, top):
    labels = read_uncut(path).labels
    assert labels.number == kept(1000, "split")
    assert {rule: labels.kept(top, rule) for rule in CUT_RULES} == {rule: kept(top, rule) for rule in CUT_RULES}
    emptied = sum(one[1:].count(-100) < len(one) - 1 and set(one[1:top]) <= {-100} for one in LABELS)
    assert labels.emptied(top, "truncate") == emptied and labels.emptied(top, "split") is None


@pytest.mark.parametrize("rule", CUT_RULES)
def test_the_report_says_which_labels_are_lost_and_the_share_of_what_is_packed(path, rule):
    found, number = advise(path, 40, overlong=rule, keep_max_length=True), kept(1000, "split")
    tokens = sum(len(piece) for labels in LABELS for piece in pieces(labels, 40, rule))
    left = kept(40, rule)
    assert found.trained == left and found.as_dict()["loss"]["share"] == left / tokens
    assert f"{100 * left / tokens:.1f} % of the packed tokens ({left:,}) are trained on" in found.loss
    first, said = found.decisions[0], f"{100 * (1 - kept(40, 'truncate') / number):.1f} % of the labels"
    assert first.about == "Longer sequences" and said in (first.choice if rule == "truncate" else first.runner_up)
    if rule == "split":
        assert f"{number - left:,} labels of {number:,}" in first.reason


def test_the_labels_that_todays_rows_lose_are_said_where_longer_rows_or_no_packs_are_advised(path, tmp_path):
    number, left = kept(1000, "split"), kept(50, "truncate")
    longer = advise(path, 50, overlong="truncate", today="maximum")
    lost = f"{100 * (1 - left / number):.1f} % of the labels"
    assert longer.decisions[0].about == "Row length" and f" and {lost}." in longer.decisions[0].reason
    same = tmp_path / "same.parquet"  # each sequence has 48 tokens, of which the last 8 are trained on
    pq.write_table(pa.table({"input_ids": [[7] * 48] * 99, "labels": [[-100] * 40 + [7] * 8] * 99}), same)
    found = advise(same, 44, overlong="truncate", keep_max_length=True)
    (only,) = found.decisions
    assert "396 tokens (8.3 %) with 50.0 % of the labels are cut off." in only.reason
    assert only.choice == "Nothing to gain: do not pack" and "--overlong split" in only.reason
    assert found.loss == "9.1 % of the tokens in today's rows (396) are trained on, as labels or masks say."


def test_labels_of_a_masked_model_count_at_borders_too(tmp_path):
    ids = [[4, 5, 103, 7], [103, 5, 6, 103]]
    pq.write_table(
        pa.table({"input_ids": ids, "labels": [[-100, -100, 6, -100], [4, -100, -100, 7]]}), tmp_path / "rows.parquet"
    )
    labels = read_uncut(tmp_path / "rows.parquet").labels
    assert labels.number == 3 and labels.kept(2, "split") == 3 and labels.kept(2, "truncate") == 1


def test_chats_are_read_as_pack_reads_them(tmp_path, capsys):
    tokenizer = wordnet_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(tmp_path / "model")
    rows = [
        {
            "messages": [
                {"role": "user", "content": "a dog " * k},
                {"role": "assistant", "content": "the sun " * (9 - k)},
            ]
        }
        for k in range(1, 9)
    ] * 20
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = [str(tmp_path / "chats.jsonl"), "--max-length", "64", "--tokenizer", str(tmp_path / "model")]
    assert cli.main(["report", *given, "--keep-max-length", "--out", str(tmp_path / "report"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert "--tokenizer FOLDER" in said["code"]["Packs"] and "tokenizer=tokenizer" in said["code"]["Packs"]
    made = [
        "--plan",
        str(tmp_path / "report" / "plan.json"),
        "--overlong",
        "split",
        "--out",
        str(tmp_path / "p.parquet"),
    ]
    assert cli.main(["pack", *given, *made]) == 0
    packed = pq.read_table(tmp_path / "p.parquet").to_pydict()
    assert len(packed["labels"]) == said["plan"]["packs"]
    assert sum(map(len, packed["input_ids"])) == said["data"]["tokens"]
    assert sum(one != -100 for row in packed["labels"] for one in row) == said["loss"]["tokens"]
