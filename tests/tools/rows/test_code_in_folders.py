"""No command runs code that lies in a folder, or asks whether it may."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

EVIL = "from pathlib import Path\nPath({!r}).touch()\nclass Evil:\n    pass\n"
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


def asked(folder, *command):
    """A command whose standard input says yes to everything, as `yes |` does."""
    run = [sys.executable, "-m", "packlib", *command]
    return subprocess.run(run, cwd=folder, input="y\n" * 99, capture_output=True, text=True, timeout=300)


def with_evil(folder, files):
    """Make a folder with code that would leave a trace if it ran; return the file that would then be there."""
    folder.mkdir()
    ran = folder.parent / "ran"
    (folder / "evil.py").write_text(EVIL.format(str(ran)))
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values))
    return ran


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_tokenizer_of_a_folder_runs_nothing(tmp_path, kind):
    ran = with_evil(tmp_path / "tok", TOKENIZERS[kind])
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n')
    done = asked(tmp_path, "pack", "t.jsonl", "--tokenizer", "tok", "--max-length", "32", "--out", "t.parquet")
    said = done.stdout + done.stderr
    assert not ran.exists() and "Do you wish" not in said and "y/N" not in said and "Traceback" not in said
    if kind != OWN:
        assert done.returncode == 2 and not (tmp_path / "t.parquet").exists()
        assert done.stderr.splitlines()[-1].startswith("packlib: tok holds no tokenizer: ")


def test_the_model_of_a_folder_runs_nothing(tmp_path):
    config = LlamaConfig(vocab_size=99, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=1)  # fmt: skip
    folder = tmp_path / "model"
    ran = with_evil(folder, {})
    LlamaForCausalLM(config).save_pretrained(folder)
    values = json.loads((folder / "config.json").read_text())
    values["auto_map"] = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    (folder / "config.json").write_text(json.dumps(values))
    (folder / "generation_config.json").write_text(json.dumps({"custom_generate": "evil.py"}))
    done = asked(tmp_path, "check", "model", "--no-progress")
    assert not ran.exists() and done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("module", ["safetensors", "scipy", "accelerate"])
def test_checking_a_folder_from_inside_imports_none_of_its_files(tmp_path, module):
    """Modules that are loaded late are those that are installed; the console script does not look here either."""
    config = LlamaConfig(vocab_size=99, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=1)  # fmt: skip
    folder = tmp_path / "model"
    ran = with_evil(folder, {})
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "evil.py").rename(folder / f"{module}.py")
    packlib = Path(sys.executable).with_name("packlib")
    run = [str(packlib), "check", ".", "--no-progress"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=300)
    assert not ran.exists() and done.returncode == 0, done.stderr
