"""The command line: refuses before it runs, leaves everything or nothing, and says what went wrong."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

import packbook.cli
from packbook.figures import FIGURES_FOLDER
from packbook.results import RESULTS_FOLDER, results_of
from packbook.run import running
from packlib.lengths import load
from packlib.packing import PackingPlan, plan
from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.exits import in_shell
from packlib.training import Recipe, adjust

pytest_plugins = ("workbook_cases",)


@pytest.mark.parametrize("text", ["01_small_steps", "small_steps", "1", "01", "notebooks/01_small_steps.ipynb"])
def test_a_notebook_is_found_by_name_number_or_path(small, text):
    assert running.find_notebook(text) == "01_small_steps"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("pln squad", "No such command 'pln'. Did you mean 'plan'?"),
        ("plan squad --max-lenght 9", "No such option '--max-lenght'. Did you mean '--max-length'?"),
        ("sweep 1 --jobs many", "Invalid value for '--jobs': 'many' is not a valid integer."),
        ("run 01_smal_steps", "not '01_smal_steps': did you mean '01_small_steps'"),
        ("run 1 -p depth three", "depth must be a whole number from 1 to 512, not 'three'."),
        ("run 1 -p dataset mine.csv", "there is no file 'mine.csv'."),
        ("run 1 -p dataset broken.csv", "line 2 of"),
        ("sweep 1 -p depth 2,4,2", "The sweep has depth 2 twice."),
        ("sweep 1 -p dataset squad,broken.csv", "broken.csv is not allowed"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence_before_anything_runs(idle, capsys, command, says):
    (idle / "broken.csv").write_text("5\n-1\n")
    program = packbook.cli if command.startswith(("run", "sweep")) else cli
    assert program.main(command.split()) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"{program.program.name}: ") and says in said.err
    assert said.err.count("\n") == 1 and not said.out
    assert [path.name for path in idle.iterdir()] == ["broken.csv"]


def test_nobody_who_reads_is_no_failure():
    command = [sys.executable, "-m", "packlib.tools.cli", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # before anything is printed, as `head` may
        assert process.stderr.read() == b"" and process.wait() == 141


DONE = ["list", "list --json", "plan squad --method lpfhp", "adjust recipe.json --factor 2"]
REFUSED = [
    "run 5 -p max_length 0", "run 1 -p depth 3", "sweep 8 -p seed x", "report squad --batch-size 0",
    "report squad --model a.json", "plan squad --method x", "report nowhere", "run 77", "walk", "adjust a.json",
]  # fmt: skip


@pytest.mark.parametrize(("code", "commands"), [(0, DONE), (2, REFUSED)], ids=["done", "refused"])
def test_what_answers_at_once_loads_neither_torch_nor_jupyter(tmp_path, code, commands):
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    program = (
        "import sys, packbook.cli, packlib.tools.cli\n"
        "notebooks = packbook.cli.program.commands.keys() - {'list'}\n"
        "def main(first, *rest): return (packbook if first in notebooks else packlib.tools).cli.main([first, *rest])\n"
        f"print([main(*command.split()) for command in {commands}], file=sys.stderr)\n"
        "heavy = {'torch', 'transformers', 'IPython', 'ipywidgets', 'matplotlib', 'nbformat', 'papermill'}\n"
        "print(heavy & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    *_, codes, loaded = done.stderr.splitlines()
    assert codes == str([code] * len(commands)) and loaded == "set()"


def test_a_workbook_without_notebooks_says_how_to_get_them(small, monkeypatch, capsys):
    monkeypatch.setattr(running, "NOTEBOOKS", small)
    assert packbook.cli.main(["run", "1"]) == 2
    assert "notebooks/1.ipynb is not installed: clone packlib's repository" in capsys.readouterr().err


def test_list_shows_titles_and_parameters_or_data_sets(small, capsys):
    assert packbook.cli.main(["list"]) == 0
    said = capsys.readouterr().out
    assert "01_small_steps: The small_steps" in said and "    depth: int = 3  # limit" in said
    assert packbook.cli.main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert list(listed["notebooks"]) == ["01_small_steps", "02_long_way"]
    assert listed["notebooks"]["01_small_steps"]["parameters"][1] == "depth: int = 3  # limit"
    assert cli.main(["list"]) == 0
    assert "wikipedia" in capsys.readouterr().out
    assert cli.main(["list", "--json"]) == 0
    assert "wikipedia" in json.loads(capsys.readouterr().out)["data sets"]


HELPS = [(program, command) for program in (cli, packbook.cli) for command in program.program.commands]


@pytest.mark.parametrize("program, command", HELPS, ids=[f"{p.program.name} {c}" for p, c in HELPS])
def test_help_has_examples_that_parse_and_exit_codes(program, command, capsys):
    assert program.main([command, "--help"]) == 0
    said = capsys.readouterr().out
    examples = [line.split() for line in said.splitlines() if line.startswith(f"    {program.program.name} ")]
    assert examples and "Exit codes: 0 done; " in said
    for words in examples:
        assert words[1] == command and program.program.commands[command].make_context(command, words[2:])


@pytest.mark.parametrize("program", [cli, packbook.cli])
def test_a_bare_command_and_h_show_the_commands_in_the_order_of_use(program, capsys):
    assert program.main([]) == 0
    bare = capsys.readouterr().out
    assert program.main(["-h"]) == 0 and capsys.readouterr().out == bare
    listed = bare.partition("Commands:")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.strip().splitlines()] == list(program.program.commands)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("program", "second"), [(cli, "plan"), (packbook.cli, "run")], ids=["packlib", "packbook"])
def test_shells_complete_commands_and_options(program, second, shell, monkeypatch, capsys):
    name = program.program.name

    def asked(how, **words):
        for variable, value in (words | {f"_{name.upper()}_COMPLETE": f"{shell}_{how}"}).items():
            monkeypatch.setenv(variable, value)
        assert program.main() == 0
        return capsys.readouterr().out

    assert f"_{name}_completion" in asked("source")
    for typed, expected in ((f"{name} {second[:2]}", second), (f"{name} {second} --ou", "--out")):
        number = 0 if shell == "fish" else len(typed.split()) - 1
        assert expected in asked("complete", COMP_WORDS=typed, COMP_CWORD=str(number or typed.split()[-1]))


def test_plan_prints_a_sentence_or_json_and_writes_the_plan(tmp_path, capsys):
    path = tmp_path / "plan.json"
    common = ["plan", "docstrings", "--max-length", "128", "--overlong", "truncate", "--max-sequences-per-pack", "2"]
    assert cli.main([*common, "--method", "lpfhp", "--out", str(path)]) == 0
    histogram = load("docstrings", 128, overlong="truncate")
    expected = plan(histogram, method="lpfhp", max_sequences_per_pack=2)
    proof = f"Proof of the lower bound, {expected.lower_bound:,} packs: {expected.proof}."
    assert capsys.readouterr().out == f"{histogram}\n{expected}\n{proof}\n{path}\n"
    assert PackingPlan.load(path).strategies == expected.strategies
    assert cli.main([*common, "--json"]) == 0
    said, best = json.loads(capsys.readouterr().out), plan(histogram, max_sequences_per_pack=2)
    assert (said["num_packs"], said["gap"], said["truncated"]) == (best.num_packs, best.gap, histogram.truncated)
    assert said["method"] == best.method and said["max_sequences_per_pack"] == 2 and said["seconds"] >= 0
    assert said["proof"] == str(best.proof) and said["lower_bound"] == best.lower_bound


def test_what_rests_on_a_solver_in_floating_point_is_said(tmp_path, capsys):
    """Three packs are proven by a list, which the shell and a report say."""
    path = tmp_path / "few.txt"
    path.write_text("\n".join(map(str, [44] * 2 + [33] * 3 + [12] * 6)))
    assert cli.main(["plan", str(path), "--max-length", "132"]) == 0
    said = capsys.readouterr().out
    assert said.count("HiGHS") == 2 and said.count("floating point") == 2
    assert cli.main(["plan", str(path), "--max-length", "132", "--json"]) == 0
    assert "HiGHS in floating point" in json.loads(capsys.readouterr().out)["proof"]
    lengths = [44] * 2 + [33] * 3 + [12] * 6
    advice = advise(lengths, 132, keep_max_length=True)
    for best, said in ((plan(lengths, 132, "lpfhp"), False), (plan(lengths, 132), True)):
        method = next(one for one in replace(advice, plans=[best, *advice.plans]).decisions if one.about == "Method")
        assert ("which rests on HiGHS in floating point" in method.reason) == said


def test_a_run_leaves_notebook_report_and_figures(small, capsys):
    (small / "mine {x} $x$.txt").write_text("3\n4\n")
    out = small / "results/{x} a{0}"
    arguments = [*"-p depth 5 -p quick false -p dataset".split(), "mine {x} $x$.txt", "--out", "results/{x} a{0}"]
    before = [os.environ.get(name) for name in (FIGURES_FOLDER, RESULTS_FOLDER)]
    assert packbook.cli.main(["run", "2", *arguments]) == 0
    said = capsys.readouterr()
    names = ["02_long_way.html", "02_long_way.ipynb", "depth.txt", "figures/line.png", "figures/line.svg"]
    found = [path for path in sorted(out.rglob("*")) if path.is_file()]
    assert [str(path.relative_to(out)) for path in found] == names
    assert sorted(map(Path, said.out.splitlines())) == found
    assert "100%" in said.err, "progress is shown"
    words = f"A line up to 5 for {small / 'mine {x} $x$.txt'}, quick False."
    assert words in (out / "02_long_way.html").read_text()
    assert nbformat.read(out / "02_long_way.ipynb", 4).cells[-2].outputs[0].data["text/plain"] == words
    assert results_of(out / "02_long_way.ipynb") == {"twice the depth": 10}
    assert [os.environ.get(name) for name in (FIGURES_FOLDER, RESULTS_FOLDER)] == before
    assert sorted(path.name for path in (small / "results").iterdir()) == ["{x} a{0}"]


def test_a_run_that_fails_says_why_and_leaves_nothing(small, capsys):
    assert packbook.cli.main(["run", "1", "-p", "depth", "13", "--no-progress"]) == 1
    assert "of 01_small_steps failed: ValueError: Thirteen is not allowed." in capsys.readouterr().err
    assert not [path for path in small.rglob("*") if path.is_file()]


RECIPE = {
    "micro_batch": 15, "gradient_accumulation_steps": 10, "replicas": 10, "learning_rate": 0.006, "betas": [0.81, 0.81],
    "optimizer": "lamb", "total_steps": 7000, "warmup_steps": 2000, "max_length": 512,
}  # fmt: skip


@pytest.mark.parametrize("how", [[], ["--how", "betas"]])
def test_adjust_prints_both_recipes_and_every_reason(tmp_path, capsys, how):
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    assert cli.main(["adjust", str(tmp_path / "recipe.json"), "--factor", "1.99", *how]) == 0
    said = capsys.readouterr().out
    before = Recipe.from_dict(RECIPE)
    after, reasons, _ = adjust(before, 1.99, *how[1::2])
    shown = [in_shell(reason, cli.program.commands["adjust"]) for reason in reasons]
    assert said.index(repr(before)) < said.index(repr(after)) < min(said.index(reason) for reason in shown)
    assert cli.main(["adjust", str(tmp_path / "recipe.json"), "--factor", "1.99", *how, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Recipe.from_dict(found["before"]) == before and Recipe.from_dict(found["after"]) == after
    assert found["reasons"] == list(reasons)
