"""The programs in `data/` that record what the workbook shows: one command lists and runs them, and records name it."""

import ast
import fnmatch
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import record
from packbook.records import recorded
from runs.recording import Runs, arguments

ROOT = Path(__file__).parents[2]
RECORDED = sorted(path for folder in ("benchmarks", "runs") for path in (ROOT / "data" / folder).glob("*.csv"))


def call(*words, folder, **environment):
    """`python data/record.py`, from another folder."""
    command = [sys.executable, ROOT / "data" / "record.py", *words]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_list_has_a_line_for_each_program_with_its_files_and_its_time(tmp_path):
    done = call(folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert lines.keys() == record.PROGRAMS.keys()
    for name, program in record.PROGRAMS.items():
        assert program.takes in lines[name] and program.writes in lines[name] and program.words in lines[name]


@pytest.mark.parametrize("words, says", [
    (["speed"], "NAME must be one of packing, "),
    (["speed"], "pretraining, finetuning, curriculum, documents, baselines, wordnet, "),
    (["speed"], ", not 'speed'."),
    (["sorting", "quick"], "sorting takes no words after its name, not 'quick'."),
    (["packing", "gredy"], "not 'gredy': did you mean 'greedy'?"),
    (["chats", "nowhere.csv"], "nowhere.csv"),
    (["hard", "nowhere"], "FOLDER must be a folder, not 'nowhere'."),
    pytest.param(["model", "spede"], "'speed', 'wikipedia' or 'bytes', not 'spede': ", marks=pytest.mark.slow),
    pytest.param(["curriculum", "lengths"], "experiment must be 'length', ", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_slip_in_the_command_is_one_sentence(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError)) as slip:
        record.main(words)
    assert says in str(slip.value) and "\n" not in str(slip.value)
    assert capsys.readouterr() == ("", "")


def test_a_command_with_a_slip_says_the_sentence_alone(tmp_path):
    done = call("sorting", "quick", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "record.py: sorting takes no words after its name, not 'quick'.\n"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_record_names_the_command_that_writes_it(path):
    python, file, name, *_ = shlex.split(recorded(path.stem, path.parent.name).command)
    assert (python, file) == ("python", "data/record.py")
    patterns = record.PROGRAMS[name].writes.split(", ")
    assert any(fnmatch.fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in patterns)


def test_a_run_is_recorded_where_out_says_seen_from_the_folder_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = arguments("documents", "About.").parse_args(["--out", "out/try.csv"])
    Runs(given.out, ("arm", "seed", "loss")).make(
        [{"arm": "split", "seed": 7}], lambda arm, seed: [{"loss": 0.5}], "documents", "--passes 1"
    )
    command, _, *rows = Path("out/try.csv").read_text().splitlines()
    assert command == "# python data/record.py documents --seeds 7 --passes 1"
    assert rows == ["arm,seed,loss", "split,7,0.5"]


@pytest.mark.slow
def test_each_program_is_found_without_the_tests(tmp_path):
    """In a new process that has only `data/` beside what is installed: none of them may need a file of `tests/`."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'data')!r}); import importlib, record\n"
        "for program in record.PROGRAMS.values():\n"
        "    assert callable(importlib.import_module(program.module).main), program.module\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'tests'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_no_program_lies_in_data_that_the_command_does_not_know():
    """A file with a function `main` is a program."""
    found = {
        ".".join(path.relative_to(ROOT / "data").with_suffix("").parts)
        for path in (ROOT / "data").rglob("*.py")
        if re.search(r"^def main\(", path.read_text(), re.M)
    }
    assert found - {"record"} == {program.module for program in record.PROGRAMS.values()}


def test_make_runs_programs_that_there_are():
    makefile = (ROOT / "Makefile").read_text()
    (short,) = re.findall(r"^BENCHMARKS = ((?:.*\\\n)*.*)", makefile, re.M)
    benchmarks = {name for name, program in record.PROGRAMS.items() if program.module.startswith("benchmarks.bench_")}
    assert set(short.replace("\\\n", " ").split()) == benchmarks - {"hard", "packing_draws"}
    called = re.findall(r"data/record\.py (\w+)", makefile)
    assert called == ["mutants", "model"] and "do $(PY) data/record.py $$name ||" in makefile


def plans_without_a_method(program):
    """Return the lines of a program that call `plan`, or make a `partial` of it, without a method or `**options`."""
    calls = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func) == "plan"]
    named += [call for call in calls if ast.unparse(call.func) == "partial" and ast.unparse(call.args[0]) == "plan"]
    wanted = {id(call): 3 + (ast.unparse(call.func) == "partial") for call in named}  # lengths, row and method
    return [
        call.lineno
        for call in named
        if len(call.args) < wanted[id(call)] and not {"method", None} & {keyword.arg for keyword in call.keywords}
    ]


def test_benchmarks_name_the_method_that_they_measure():
    """The default one is `auto`, which ends 2,756 packs above the bound on Wikipedia, where `optimal` meets it."""
    assert plans_without_a_method("plan(h)\nplan(h, 8, 'lpt')\npartial(plan, h)\nplan(h, method='lpt')") == [1, 3]
    programs = sorted((ROOT / "data").rglob("*.py"))
    found = {path.name: lines for path in programs if (lines := plans_without_a_method(path.read_text()))}
    assert programs and not found


@pytest.mark.slow
def test_a_checkout_that_is_not_installed_measures_on_a_gpu(tmp_path):
    """With torch and transformers alone, as `make bench-gpu` promises; without a GPU it says so."""
    others = tmp_path / "others"
    others.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "packlib" not in path.name:
            (others / path.name).symlink_to(path)
    for name in ("click", "pyarrow", "highspy", "matplotlib"):
        (others / name).unlink()
    command = ["make", "--no-print-directory", "bench-gpu", f"GPU_PY={sys._base_executable}"]
    environment = {**os.environ, "PYTHONPATH": str(others), "CUDA_VISIBLE_DEVICES": "", "MAKEFLAGS": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "bench-gpu: this machine has no GPU that torch can use, so nothing was measured.\n"
