"""A shell completes what a command takes: commands, options, choices, data sets and files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from packlib.lengths import available
from packlib.packing import METHODS
from packlib.tools.cli import main, program
from packlib.training.adjustment import HOWS

DATA_SETS = [name for name in available() if name.startswith("w")]
TYPED = {  # a command line whose last word is completed, and what the shell is given, each with its kind
    "packlib ": [
        "plain,report",
        "plain,plan",
        "plain,pack",
        "plain,audit",
        "plain,check",
        "plain,adjust",
        "plain,list",
    ],
    "packlib pl": ["plain,plan"],
    "packlib plan l.txt --meth": ["plain,--method"],
    "packlib plan l.txt --method ": [f"plain,{name}" for name in ("auto", "bfd", *METHODS)],
    "packlib pack t.parquet --method o": ["plain,optimal"],
    "packlib adjust r.json --how ": [f"plain,{name}" for name in HOWS],
    "packlib report l.txt --today m": ["plain,maximum", "plain,megabatches"],
    "packlib plan w": ["file,w", *(f"plain,{name}" for name in DATA_SETS)],
    "packlib report my_": ["file,my_"],
    "packlib report l.txt --source my_": ["file,my_"],
    "packlib report l.txt --recipe r": ["file,r"],
    "packlib audit t.parquet --model c": ["file,c"],
    "packlib audit t.parquet --source my_": ["file,my_"],
    "packlib check my_": ["file,my_"],
    "packlib check --loader my_": ["file,my_"],
    "packlib check --loader my_data.py:make --source t": ["file,t"],
    "packlib check my_model --collate my_": ["file,my_"],
}


@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_is_completed(line, monkeypatch, capsys):
    words = line.split(" ")
    monkeypatch.setenv("_PACKLIB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert main() == 0
    assert capsys.readouterr().out.splitlines() == TYPED[line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell, monkeypatch, capsys):
    monkeypatch.setenv("_PACKLIB_COMPLETE", f"{shell}_source")
    assert main() == 0
    assert f"_PACKLIB_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [("plan l.txt --method op", ["optimal"]), ("report wordnet", ["wordnet", "wordnet-pairs"]), ("report my_", [])],
)
def test_bash_itself_completes_with_the_script(words, completed):
    """The shell sets its way of completing names of files only while it completes, so `compopt` does nothing here."""
    asked = f"""compopt() {{ :; }}
        eval "$(_PACKLIB_COMPLETE=bash_source packlib)"
        COMP_WORDS=(packlib {words}) COMP_CWORD={len(words.split())}
        _packlib_completion packlib
        echo "${{COMPREPLY[@]}}" """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", asked], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, completed, "")


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_itself_shows_descriptions_whole():
    """Descriptions with commas: the two commands that begin with "p" have some."""
    asked = """_PACKLIB_COMPLETE=fish_source packlib | source
        complete --do-complete "packlib p" """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(["fish", "-c", asked], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    shown = dict(line.split("\t") for line in done.stdout.splitlines())
    assert shown == {name: f"{program.commands[name].help.splitlines()[0]}" for name in ("plan", "pack")}
    assert any("," in description for description in shown.values())
