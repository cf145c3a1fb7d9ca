"""No command runs code that lies in a folder, or asks whether it may."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from packlib.tools.cli import main

EVIL = "from pathlib import Path\nPath({!r}).touch()\nclass Evil:\n    pass\n"
SMALL = LlamaConfig(
    vocab_size=99, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1,
)  # fmt: skip
OWN = "class that transformers knows"  # which it takes, in place of that of the folder
TOKENIZERS = {  # what lies in the folder, by file
    "class that transformers does not know": {
        "tokenizer_config.json": {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}},
    },
    OWN: {
        "tokenizer_config.json": {
            "tokenizer_class": "LlamaTokenizer", "auto_map": {"AutoTokenizer": ["evil.Evil", None]},
        },
    },
    "configuration of a model": {
        "config.json": {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoTokenizer": "evil.Evil"}},
    },
    "known model": {
        "config.json": {"model_type": "llama", "auto_map": {"AutoConfig": "evil.Evil", "AutoTokenizer": "evil.Evil"}},
    },
}  # fmt: skip


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """Run a command in the folder of the test, where standard input says yes to everything, as `yes |` does.

    It gives the exit code, and what was printed on standard output and on standard error.
    """

    def run(*command):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 99))
        return main(command), *capsys.readouterr()

    return run


def write_model(folder):
    """Save a small model, and beside it a configuration that says that the model's code is in `evil.py`."""
    LlamaForCausalLM(SMALL).save_pretrained(folder)
    values = json.loads((folder / "config.json").read_text())
    values["auto_map"] = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    (folder / "config.json").write_text(json.dumps(values))
    (folder / "generation_config.json").write_text(json.dumps({"custom_generate": "evil.py"}))


def write_evil(file):
    """Write a Python file that leaves a mark when it runs, and return the place of the mark."""
    mark = file.parent.parent / f"{file.stem}-ran"
    file.parent.mkdir(exist_ok=True)
    file.write_text(EVIL.format(str(mark)))
    return mark


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_tokenizer_of_a_folder_runs_nothing(tmp_path, asked, kind):
    ran = write_evil(tmp_path / "tok" / "evil.py")
    for name, values in TOKENIZERS[kind].items():
        (tmp_path / "tok" / name).write_text(json.dumps(values))
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n')
    code, out, error = asked("pack", "t.jsonl", "--tokenizer", "tok", "--max-length", "32", "--out", "t.parquet")
    said = out + error
    assert not ran.exists() and "Do you wish" not in said and "y/N" not in said and "Traceback" not in said
    if kind != OWN:
        assert code == 2 and not (tmp_path / "t.parquet").exists()
        assert error.splitlines()[-1].startswith("packlib: tok holds no tokenizer: ")


def test_the_model_of_a_folder_runs_nothing(tmp_path, asked):
    ran = write_evil(tmp_path / "model" / "evil.py")
    write_model(tmp_path / "model")
    code, _, error = asked("check", "model", "--no-progress")
    assert not ran.exists() and code in (0, 1), error


def test_checking_a_folder_from_inside_imports_none_of_its_files(tmp_path):
    """Modules that are loaded late are those that are installed; the console script does not look here either."""
    folder = tmp_path / "model"
    marks = [write_evil(folder / f"{module}.py") for module in ("safetensors", "scipy", "accelerate")]
    LlamaForCausalLM(SMALL).save_pretrained(folder)
    run = [Path(sys.executable).with_name("packlib"), "check", ".", "--no-progress"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not [mark.name for mark in marks if mark.exists()]
