"""The commands and the Python of USING run as they stand there, on files of the names that they give."""

import re
import shlex
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
import transformers
from alone_cases import a_model, sequences
from datasets import Dataset
from transformers import DataCollatorWithFlattening, TrainingArguments

import packlib
from packlib.batches import wordnet_tokenizer
from packlib.tools import cli

PAGE = (Path(packlib.__file__).parent / "USING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
ELSEWHERE = ("class AsTrained", "def stateful")  # of check's trainers, and of test_using_loaders


def block(words):
    """The one block of Python that has these words."""
    (found,) = [code for code in BLOCKS if words in code]
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the commands name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(5.5, 1, 300).clip(4, 5000).astype(int)
    Path("my_lengths.csv").write_text("\n".join(map(str, lengths)))
    ids = [rng.integers(5, 1000, length).tolist() for length in lengths]
    Dataset.from_dict({"input_ids": ids}).to_parquet("tokens.parquet")
    Path("my_data.py").write_text(block("# my_data.py"))
    assert (
        cli.main(
            "pack tokens.parquet --max-length 2048 --overlong split --packs-per-file 20 --out packed_folder".split()
        )
        == 0
    )
    return tmp_path


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("packlib ")])
def test_a_command_of_the_page_runs(command, folder, capsys):
    capsys.readouterr()
    done = cli.main(shlex.split(command, comments=True)[1:])
    said = capsys.readouterr()
    assert not said.err
    if "audit" in command:  # of so few rows, its steps are many epochs
        assert done == 1 and said.out.count("Problem: ") == 1 and "Problem: 3,000 steps are" in said.out
    else:
        assert done == 0


def test_each_block_of_python_is_run():
    assert len(BLOCKS) == len(ALONE) + len(GIVEN) + len(ELSEWHERE)
    for words in (*ALONE, *GIVEN, *ELSEWHERE):
        block(words)


ALONE = ("advice = advise(", "plan(load(", "balance_step(lengths", "# my_data.py")


@pytest.mark.parametrize("words", ALONE)
def test_a_block_runs_as_it_stands(words, folder):
    exec(block(words), {})


def counted(names, monkeypatch):
    texts = {"context": ["a red dog", "a small house in the wood"] * 40}
    stream = Dataset.from_dict(texts).to_iterable_dataset()
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **options: stream)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda name: wordnet_tokenizer())
    exec(block("LengthHistogram.from_chunks"), names)
    assert packlib.load("my_lengths.csv").num_sequences == 80


def trained(names, monkeypatch):
    arguments = TrainingArguments(
        "out", max_steps=1, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True
    )
    exec(block("trainer = Trainer("), names | {"arguments": arguments})


def checked(names, monkeypatch):
    exec(block("packlib.check_packing(model, collate"), names)
    assert names["found"].exact and Path("check.json").is_file()


GIVEN = {
    "LengthHistogram.from_chunks": counted,
    "trainer = Trainer(": trained,
    "check_packing(model, collate,": checked,
}


@pytest.mark.parametrize("words", GIVEN)
def test_a_block_runs_with_what_it_takes_as_given(words, folder, monkeypatch):
    torch.manual_seed(0)
    rows = [{"input_ids": row} for row in sequences()]
    model = a_model()
    model.config.max_position_embeddings = 2048  # that of the rows; rotary positions have no table
    model.config.use_cache = False  # a cache runs on from one sequence of a row to the next
    names = {"model": model, "dataset": Dataset.from_list(rows), "collate": DataCollatorWithFlattening()}
    GIVEN[words](names | {"sequences": rows, "packlib": packlib}, monkeypatch)
