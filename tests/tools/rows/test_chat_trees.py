"""`packlib pack chats --thinking last`: each turn as it was generated, shared turns once, and no run in vain."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from packlib.tools import cli
from packlib.tools.rows import TreeCollator
from packlib.tools.rows.chat_trees import pack_chat_trees
from small_families import quiet, small_config

# As many templates have it: reasoning is shown behind the last question alone
DROPS_REASONING = """{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}\
{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ m.role }} \
{% if m.reasoning and loop.index0 > ns.last %}think {{ m.reasoning }} so {% endif %}{{ m.content }} end {% endfor %}\
{% if add_generation_prompt %}assistant {% endif %}"""
COUNTS_TURNS = "{{ messages | length }} " + DROPS_REASONING  # a history is written otherwise from turn to turn
WORDS = ["?", "user", "assistant", "system", "end", "think", "so", *"abcdefgh", *map(str, range(9))]


def tokenizer(template=DROPS_REASONING):
    """A tokenizer of words, whose chat template writes the reasoning of the last answer only."""
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, chat_template=template)


def chats(number=12, turns=4):
    rng = np.random.default_rng(0)

    def words(most):
        return " ".join(rng.choice(list("abcdefgh"), rng.integers(2, most)))

    def turn():
        answer = {"role": "assistant", "content": words(5), "reasoning": words(9)}
        return [{"role": "user", "content": words(6)}, answer]

    return [{"messages": [one for _ in range(turns) for one in turn()]} for _ in range(number)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("chats.jsonl").write_text("\n".join(map(json.dumps, chats())))
    tokenizer().save_pretrained("mine")


OPTIONS = ["chats.jsonl", "--tokenizer", "mine", "--thinking", "last", "--max-length", "256", "--no-progress"]


def rows_of(path):
    files = sorted(Path(path).glob("*.parquet")) or [path]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def turns_of(row):
    """The words of each sequence of a row as its slots see them, those without a label in brackets."""
    found = []
    for place, last in enumerate(row["last_slots"]):
        path = [slot for slot in range(last + 1) if row["seen_until"][slot] > last]
        assert [row["position_ids"][slot] for slot in path] == list(range(len(path)))
        pairs = zip(row["label_sequences"], row["label_slots"], strict=True)
        own = {slot for sequence, slot in pairs if sequence == place}
        words = [WORDS[row["input_ids"][slot]] for slot in path]
        found.append(" ".join(w if slot in own else f"({w})" for w, slot in zip(words, path, strict=True)))
    return found


def as_generated(chat):
    """The words of each turn as `turns_of` has them, from the chat alone, without the template."""
    history, found = "", []
    for asked, answer in zip(chat[::2], chat[1::2], strict=True):
        history += f"user {asked['content']} end assistant "
        mine = f"think {answer['reasoning']} so {answer['content']} end"
        found.append(" ".join([f"({word})" for word in history.split()] + mine.split()))
        history += f"{answer['content']} end "
    return found


def test_each_turn_is_there_as_it_was_generated_and_trained_on_once(capsys):
    assert cli.main(["pack", *OPTIONS, "--out", "trees.parquet", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    rows = rows_of("trees.parquet")
    found = [turn for row in rows for turn in turns_of(row)]
    assert sorted(found) == sorted(turn for chat in chats() for turn in as_generated(chat["messages"]))
    assert (said["turns"], said["chats"], said["flat_chats"], said["rows"]) == (48, 12, 0, len(rows))
    assert said["tokens"] == sum(len(row["input_ids"]) for row in rows) < 0.8 * said["unshared_tokens"]
    assert max(len(row["input_ids"]) for row in rows) <= 256
    assert said["lower_bound"] <= said["rows"] <= said["lower_bound"] + 1
    with quiet():
        model = LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=256))
        batch = TreeCollator(model)(rows)
        assert torch.isfinite(batch.loss(model(**batch.inputs).logits))


def test_the_audit_counts_paths(capsys):
    assert cli.main(["pack", *OPTIONS, "--out", "trees.parquet", "--json"]) == 0
    packed = json.loads(capsys.readouterr().out)
    assert cli.main(["audit", "trees.parquet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["packs"], found["sequences"], found["tokens"]) == (packed["rows"], 48, packed["tokens"])
    assert found["problems"] == [] and found["borders"] == "last_slots"
    assert f"48 paths, which alone have {packed['unshared_tokens']:,} tokens" in " ".join(found["notes"])
    rows = rows_of("trees.parquet")
    rows[0]["last_slots"][0] = 999
    pq.write_table(pa.Table.from_pylist(rows), "wrong.parquet")
    assert cli.main(["audit", "wrong.parquet"]) == 2 and "last_slots among their slots" in capsys.readouterr().err


def test_a_template_whose_turns_are_no_tree_is_kept_flat_and_counted(capsys):
    tokenizer(COUNTS_TURNS).save_pretrained("mine")
    assert cli.main(["pack", *OPTIONS, "--out", "flat.parquet"]) == 0
    assert "12 chats are no trees and kept flat" in capsys.readouterr().out
    rows = rows_of("flat.parquet")
    assert sum(len(row["last_slots"]) for row in rows) == 48
    assert all(len(set(turns_of(row))) == len(row["last_slots"]) for row in rows)
    found = pack_chat_trees("chats.jsonl", "again.parquet", 256, False, tokenizer=tokenizer(COUNTS_TURNS))
    assert found["tokens"] == found["unshared_tokens"]


KILLED = """
import os, signal, sys
from packlib.tools import cli
from packlib.tools.rows import chat_trees
write, written = chat_trees._write, []
def killed(*arguments):
    if len(written) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(write(*arguments))
chat_trees._write = killed
cli.main(sys.argv[1:])
"""


def test_a_killed_run_goes_on_and_writes_what_was_missing(capsys):
    command = ["pack", *OPTIONS, "--packs-per-file", "1", "--out"]
    Path("killed.py").write_text(KILLED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "killed.py", *command, "some"], env=environment).returncode == -9
    assert len(list(Path("some").glob("*.parquet"))) == 2
    kept = min(Path("some").glob("*.parquet"))
    before = kept.stat().st_mtime_ns
    assert cli.main([*command, "some"]) == 0
    assert kept.stat().st_mtime_ns == before
    assert cli.main([*command, "whole"]) == 0
    assert rows_of("some") == rows_of("whole") and len(rows_of("whole")) > 2
    names = [path.name for path in sorted(Path("whole").glob("*.parquet"))]
    assert all(Path("some", name).read_bytes() == Path("whole", name).read_bytes() for name in names)
    capsys.readouterr()
    assert cli.main([*command, "some"]) == 0
    assert "Nothing was written" in capsys.readouterr().out
    kept.write_bytes(kept.read_bytes()[:-1])
    assert cli.main([*command, "some"]) == 2 and "not as this packing has written it" in capsys.readouterr().err
    assert cli.main([*command, "whole", "--seed", "1"]) == 2
    assert "holds another packing, of seed 0, not 1" in capsys.readouterr().err


def test_turns_that_are_too_long_are_named_or_dropped(capsys):
    long = [*chats(2), {"messages": [{"role": "user", "content": "a " * 300}, {"role": "assistant", "content": "b"}]}]
    Path("chats.jsonl").write_text("\n".join(map(json.dumps, long)))
    assert cli.main(["pack", *OPTIONS, "--out", "no.parquet"]) == 2
    assert "Message 1 of row 2 has 305 tokens with its history, and --max-length is 256" in capsys.readouterr().err
    assert cli.main(["pack", *OPTIONS, "--overlong", "drop", "--out", "some.parquet"]) == 0
    assert "1 turns were too long" in capsys.readouterr().out


def test_a_turn_of_weight_0_is_left_out_and_counted():
    data = chats(1, turns=3)
    data[0]["messages"][3]["weight"] = 0
    Path("chats.jsonl").write_text("\n".join(map(json.dumps, data)))
    found = pack_chat_trees("chats.jsonl", "x.parquet", 256, False, tokenizer=tokenizer())
    assert (found["turns"], found["unlabeled_turns"], found["flat_chats"]) == (2, 1, 0)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--method", "optimal"], "--method must be left out with --thinking"),
        (["--no-labels"], "--no-labels must be left out with --thinking"),
        (["--drop", "who"], "--masks or --drop must be left out"),
        (["--overlong", "split"], "--overlong must be error or drop with --thinking, not split"),
        (["--layout", "nemo"], "--layout must be left out with --thinking"),
    ],
)
def test_options_that_do_not_apply_are_refused(more, says, capsys):
    assert cli.main(["pack", *OPTIONS, "--out", "no.parquet", *more]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not Path("no.parquet").exists()


def test_what_is_no_chat_is_named(capsys):
    Path("chats.jsonl").write_text('{"text": "a"}')
    assert cli.main(["pack", *OPTIONS, "--out", "no.parquet"]) == 2
    assert "must have a column messages or conversations" in capsys.readouterr().err
    Path("chats.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}')
    assert cli.main(["pack", *OPTIONS, "--out", "no.parquet"]) == 2
    assert "no turn of the assistant" in capsys.readouterr().err
    assert cli.main(["pack", "chats.jsonl", "--thinking", "last", "--max-length", "9", "--out", "no.parquet"]) == 2
    assert "--tokenizer must be given with --thinking" in capsys.readouterr().err
