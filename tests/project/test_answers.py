"""Standard output has a command's answer and nothing else, whatever compiled code or the code under check prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.training import Recipe

ROOT = Path(__file__).parents[2]
NOISY = """
import os
import sys

COMPILED = ("numpy", "pyarrow", "scipy", "highspy", "torch", "tokenizers")


def print_as_compiled_code_does(event, arguments):
    if event == "import" and arguments[0] in COMPILED:
        os.write(1, b"noise of " + arguments[0].encode())


sys.addaudithook(print_as_compiled_code_does)
import packlib_command
sys.exit(packlib_command.main())
"""
MAKE = """
print("this module prints")
from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM

def make():
    print("this function prints")
    config = LlamaConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, use_cache=False
    )
    flatten = DataCollatorWithFlattening()

    def collate(rows):
        print("this collator prints")
        return flatten(rows)

    rows = [{"input_ids": [*range(5, 5 + length)]} for length in (9, 14, 5, 20, 7, 23)]
    return LlamaForCausalLM(config), collate, rows
"""
COMMANDS = {
    "list": "list",
    "report": "report lengths.txt --max-length 64 --out report",
    "plan": "plan lengths.txt --max-length 64",
    "pack": "pack tokens.parquet --max-length 16 --out packed.parquet",
    "audit": "audit already.parquet --max-length 16",
    "adjust": "adjust recipe.json --factor 2",
    "check": "check training.py:make",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lengths.txt").write_text("\n".join(map(str, [30, 35, 20, 21, 9, 7, 60, 5] * 20)))
    recipe = Recipe(micro_batch=8, learning_rate=1e-3, total_sequences=1000)
    (tmp_path / "recipe.json").write_text(json.dumps(vars(recipe)))
    (tmp_path / "training.py").write_text(MAKE)
    pq.write_table(pa.table({"input_ids": [[1] * 9, [2] * 7, [3] * 12]}), tmp_path / "tokens.parquet")
    packs = {"input_ids": [[1] * 16, [2] * 12], "seq_lengths": [[9, 7], [12]]}
    pq.write_table(pa.table(packs), tmp_path / "already.parquet")
    return tmp_path


def test_every_command_that_answers_in_json_is_here():
    from packlib.tools.cli import program

    able = {name for name, command in program.commands.items() if any("--json" in one.opts for one in command.params)}
    assert able - {"sweep"} == set(COMMANDS), "a sweep runs notebooks in processes of their own"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_script_can_read_the_answer(folder, name):
    run = [sys.executable, "-c", NOISY, *COMMANDS[name].split(), "--json"]
    paths = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode in (0, 1, 3), done.stderr
    assert json.loads(done.stdout)
    assert "noise of numpy" in done.stderr, "this test hears compiled code"
    if name == "check":
        assert all(f"this {part} prints" in done.stderr for part in ("module", "function", "collator"))


def test_words_reach_who_reads_them(folder):
    """A terminal, a pipe, and nobody, with both streams on one place or apart."""
    run = [sys.executable, "-m", "packlib", "plan", "lengths.txt", "--max-length", "64", "--method", "lpfhp"]
    apart = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
    assert "packs" in apart.stdout and not apart.stderr
    both = subprocess.run(run, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    assert both.stdout.splitlines()[0] == apart.stdout.splitlines()[0]
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        shell = ["sh", "-c", f'"$@" {closed}', "sh", *run]
        assert subprocess.run(shell, cwd=folder, stdout=subprocess.DEVNULL).returncode == 0, closed
