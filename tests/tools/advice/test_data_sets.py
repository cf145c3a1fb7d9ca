"""What advice reads: the same sequences in any kind of file give the same lengths, and no file is misread silently."""

import json
import random
import subprocess
import sys
from collections import Counter

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.advice.data import read_uncut
from packlib.tools.advice.page import page
from packlib.tools.rows import row_sources

drawn = random.Random(3)
ROWS = [
    {"input_ids": [drawn.randrange(500) for _ in range(drawn.randint(1, 90))], "text": "…", "score": 0.5}
    for _ in range(700)
]
COUNTED = Counter(len(row["input_ids"]) for row in ROWS)


def written(path, rows=ROWS):
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_shards(folder):
    written(folder / "a.parquet", ROWS[:300])
    written(folder / "deeper" / "b.jsonl", ROWS[300:])
    (folder / "README.md").write_text("Two shards.")
    return folder


def saved(folder):
    datasets.Dataset.from_list(ROWS).save_to_disk(folder, num_shards=2)
    return folder


def pattern(folder):
    for name, rows in (("0.jsonl", ROWS[:10]), ("1.jsonl", ROWS[10:]), ("other.json", ROWS)):
        written(folder / name, rows)
    return folder / "[01].jsonl"


BOTH = pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
KINDS = {
    "Parquet": lambda at: written(at / "rows.parquet"),
    "JSON lines": lambda at: written(at / "rows.jsonl"),
    "a folder": lambda at: as_shards(at / "shards"),
    "save_to_disk": lambda at: saved(at / "saved"),
    "a pattern": lambda at: pattern(at / "lines"),
}


def counted(histogram):
    return Counter(dict(enumerate(histogram.counts.tolist()))) + Counter()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_tokens_are_counted_in_any_files(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(row_sources, "_ROWS_AT_ONCE", 50)
    path, said = KINDS[kind](tmp_path), []
    data = read_uncut(path, progress=said.append)
    assert counted(data.whole) == COUNTED and data.max_length == max(COUNTED)
    assert said[-1] == "reading: 700 sequences" and len(said) > 5
    advice, of_lengths = advise(str(path), 128), advise([len(row["input_ids"]) for row in ROWS], 128)
    assert advice.decisions == of_lengths.decisions
    assert advice.whole == data.whole


def test_a_report_loads_neither_torch_nor_jupyter(tmp_path):
    paths = ["squad", *(str(make(tmp_path)) for make in KINDS.values())]
    arguments = "'--model', '7B', '--out', 'out', '--replace'"
    code = (
        "import sys; from packlib.tools import cli\n"
        f"for path in {paths}: assert not cli.main(['report', path, {arguments}])\n"
        "heavy = ('torch', 'nbformat', 'IPython', 'matplotlib', 'transformers')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@BOTH
def test_the_column_can_be_named(tmp_path, name):
    rows = [{"tokens": [1] * n, "size": 2 * n, "note": "x"} for n in range(1, 30)]
    path = written(tmp_path / name, rows)
    assert counted(read_uncut(path, "tokens").whole) == Counter(range(1, 30))
    assert counted(read_uncut(path, "size").whole) == Counter(range(2, 60, 2))
    alone = written(path, [{"any": row["tokens"]} for row in rows])
    assert counted(read_uncut(alone).whole) == Counter(range(1, 30))


def test_rows_that_hold_several_sequences_are_taken_apart(tmp_path):
    rows = [{"input_ids": [5] * 7, "seq_lengths": [3, 4]}, {"input_ids": [5] * 2, "seq_lengths": [2]}]
    assert counted(read_uncut(written(tmp_path / "packed.parquet", rows)).whole) == Counter([3, 4, 2])


def chats(with_columns):
    """Rows with labels or masks, and how many of their tokens are trained on, counted token by token."""
    rows, trained = [], 0
    for _ in range(300):
        tokens = [drawn.randrange(1, 500) for _ in range(drawn.randint(2, 60))]
        answer = [int(drawn.random() < 0.4) for _ in tokens]
        turn = [int(drawn.random() < 0.7) for _ in tokens]
        labels = [token if drawn.random() < 0.8 else -100 for token in tokens]
        row = {"labels": labels, "assistant_masks": answer, "completion_mask": turn}
        rows.append({"input_ids": tokens} | {name: row[name] for name in with_columns})
        for at in range(1, len(tokens)):
            kept = {"labels": labels[at] != -100, "assistant_masks": answer[at], "completion_mask": turn[at]}
            trained += all(kept[name] for name in with_columns)
    return rows, trained


@BOTH
@pytest.mark.parametrize(
    "columns", [["labels"], ["completion_mask", "assistant_masks"], ["labels", "completion_mask"]]
)
def test_tokens_that_are_trained_on_are_counted(tmp_path, monkeypatch, name, columns):
    monkeypatch.setattr(row_sources, "_ROWS_AT_ONCE", 50)
    rows, trained = chats(columns)
    masks = {mask: "loss" for mask in columns if mask != "labels"}
    advice = advise(written(tmp_path / name, rows), 128, masks=masks, batch_size=16)
    said, tokens = advice.as_dict(), sum(len(row["input_ids"]) for row in rows)
    assert said["loss"]["tokens"] == trained and said["loss"]["share"] == trained / tokens
    packs = said["update"]["after"]["micro_batch"] * said["update"]["after"]["gradient_accumulation_steps"]
    an_update = packs * tokens / said["plan"]["packs"]
    assert said["loss"]["tokens_an_update"] == pytest.approx(an_update)
    sentence = said["loss"]["said"]
    assert sentence.startswith(f"{100 * trained / tokens:.1f} % of the packed tokens ({trained:,}) are trained on")
    assert sentence.endswith(f"sees about {trained / tokens * an_update:,.0f} of its {an_update:,.0f} tokens.")
    assert sentence in page(advice).replace("\N{NO-BREAK SPACE}", " ") and sentence in repr(advice)


def test_without_labels_and_masks_nothing_is_said_of_the_loss(tmp_path):
    advice = advise(written(tmp_path / "rows.parquet"))
    assert advice.trained is None and advice.as_dict()["loss"] is None and "trained on" not in page(advice)
    named = written(tmp_path / "named.parquet", [{"tokens": [4, 5, 6], "labels": [-100, -100, 6]}] * 9)
    assert read_uncut(named, "tokens").labels.number == 9
    other = written(tmp_path / "other.parquet", [{"input_ids": [4, 5], "labels": [4, 5], "prompt": [4]}] * 9)
    assert read_uncut(other, "prompt").labels is None and read_uncut(other).labels.number == 9


REFUSED = {
    "The labels of": [{"input_ids": [4, 5], "labels": [-100, -100]}],
    "The column labels must have a value for each token": [{"input_ids": [4, 5], "labels": 1}],
    "input_ids; it has tokens, note: name the one": [{"tokens": [1], "note": "x"}],
    "holds string; lengths are integers or lists of tokens": [{"words": "x"}],
    "a tokenizer makes tokens of messages or text (--tokenizer)": [{"text": "x"}],
    "The column 'my_mask' has 0 and 1 for each token": [{"input_ids": [4, 5], "my_mask": [0, 1]}],
    "Row 1 of the data set has no token": [{"input_ids": [4]}, {"input_ids": []}],
    "has no value in row 1": [{"length": 3}, {"length": None}],
    "Length 0 at row 1 of": [{"length": 3}, {"length": 0}],
}  # fmt: skip


@pytest.mark.parametrize("says", REFUSED)
@BOTH
def test_what_cannot_be_read_is_one_sentence(tmp_path, capsys, name, says):
    path = written(tmp_path / name, REFUSED[says])
    assert cli.main(["report", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["none.parquet", "none.jsonl"])
def test_a_file_without_a_sequence_is_named(tmp_path, name):
    (tmp_path / "none.jsonl").touch()
    pq.write_table(pa.table({"input_ids": pa.array([], pa.list_(pa.int64()))}), tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=rf"{name} holds no sequence\.$"):
        read_uncut(tmp_path / name)


def test_a_file_without_the_column_is_named(tmp_path, capsys):
    for name in ("rows/{}.parquet", "lines/{}.jsonl"):
        written(tmp_path / name.format("a"))
        written(tmp_path / name.format("b"), [{"text": "x"}])
    assert cli.main(["report", str(tmp_path / "rows"), "--out", str(tmp_path / "out")]) == 2
    assert "b.parquet is no whole Parquet file of sequences: it has text, and not" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"The column input_ids of .* is missing from row 700 on"):
        read_uncut(tmp_path / "lines")
    with pytest.raises(FileNotFoundError, match="No file fits"):
        read_uncut(tmp_path / "*.jsonl")
    datasets.DatasetDict(train=datasets.Dataset.from_list(ROWS[:3])).save_to_disk(tmp_path / "splits")
    with pytest.raises(TypeError, match="not the splits train: pass one"):
        read_uncut(tmp_path / "splits")
    with pytest.raises(ValueError, match="column 'a' is for files"):
        advise(np.arange(1, 9), column="a")
