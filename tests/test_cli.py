"""`packlib run`: refuses before it runs, leaves everything or nothing, and says what went wrong."""

import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import nbformat
import pytest

from packlib.training import Recipe, adjust
from packlib.workbook import cli
from packlib.workbook.execution import write
from packlib.workbook.figures import FIGURES_FOLDER
from packlib.workbook.parameters import Dataset, Whole

SOURCE = """\
dataset: str = "wikipedia"  # lengths
depth: int = 3  # limit
seed: int = 0  # random
quick: bool = True  # small
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A workbook of two notebooks that fail at depth 13; the caller's folder is elsewhere."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("01_small_steps", "02_long_way"):
        cells = [
            nbformat.v4.new_markdown_cell(f"# The {name[3:]}"),
            nbformat.v4.new_code_cell(SOURCE, metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell(
                "from packlib.workbook.figures import new_figure, show\n"
                "fig, ax = new_figure()\nax.plot([0, depth]);\n"
                "show(fig, alt=f'A line up to {depth} for {dataset}, quick {quick}.', name='line')"
            ),
            nbformat.v4.new_code_cell("if depth == 13:\n    raise ValueError('Thirteen is not allowed.')"),
        ]
        write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
        module = types.ModuleType(f"packlib.workbook.chapters.{name[3:]}")
        module.PARAMETERS = {"dataset": Dataset(), "depth": Whole(1, 512)}
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(cli, "NOTEBOOKS", folder)
    caller = tmp_path / "caller"
    caller.mkdir()
    monkeypatch.chdir(caller)
    return caller


@pytest.fixture
def idle(small, monkeypatch):
    """As `small`, where no notebook may run."""
    monkeypatch.setattr("papermill.execute_notebook", lambda *_, **__: pytest.fail("must not run"))
    return small


@pytest.mark.parametrize(
    "text", ["01_small_steps", "small_steps", "1", "01", "notebooks/01_small_steps.ipynb"]
)
def test_a_notebook_is_found_by_name_number_or_path(small, text):
    assert cli.find_notebook(text) == "01_small_steps"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["01_smal_steps"], "There is no notebook '01_smal_steps': did you mean '01_small_steps'"),
        (["7"], "There is no notebook '7'"),
        (["1", "-p", "dept", "3"], "There is no parameter 'dept': did you mean 'depth'"),
        (["1", "-p", "depth", "three"], "depth must be a whole number from 1 to 512, not 'three'."),
        (["1", "-p", "depth", "0"], "depth must be from 1 to 512, not 0."),
        (["1", "-p", "quick", "0"], "quick must be True or False, not '0'."),
        (["1", "-p", "dataset", "wikipedai"], "There is no dataset 'wikipedai': did you mean 'wikipedia'"),
        (["1", "-p", "dataset", "mine.csv"], "there is no file 'mine.csv'."),
        (["1", "-p", "dataset", "broken.csv"], "line 2 of"),
        (["1", "--out", "taken"], "is a file; name a folder."),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(idle, capsys, arguments, says):
    (idle / "taken").touch()
    (idle / "broken.csv").write_text("5\n-1\n")
    assert cli.main(["run", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("packlib: ") and says in said and said.count("\n") == 1
    assert [path.name for path in sorted(idle.iterdir())] == ["broken.csv", "taken"]


def test_a_wrong_command_exits_with_two(small):
    for arguments in ([], ["run"], ["run", "1", "-p", "depth"], ["walk"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(arguments)
        assert stopped.value.code == 2


def test_a_workbook_without_notebooks_says_how_to_get_them(small, monkeypatch, capsys):
    monkeypatch.setattr(cli, "NOTEBOOKS", small)
    assert cli.main(["run", "1"]) == 2
    assert "install packlib from a clone" in capsys.readouterr().err


def test_list_shows_titles_and_parameters(small, capsys):
    assert cli.main(["list"]) == 0
    said = capsys.readouterr().out
    assert "01_small_steps: The small_steps" in said and "    depth: int = 3  # limit" in said
    assert "wikipedia" in said.splitlines()[-1]


def test_a_run_leaves_notebook_report_and_figures(small, capsys):
    (small / "mine.txt").write_text("3\n4\n")
    arguments = [
        "-p",
        "dataset",
        "mine.txt",
        "-p",
        "depth",
        "5",
        "-p",
        "quick",
        "false",
        "--out",
        "results/here",
    ]
    before = os.environ.get(FIGURES_FOLDER)
    assert cli.main(["run", "2", *arguments]) == 0
    said = capsys.readouterr()
    names = ["02_long_way.html", "02_long_way.ipynb", "figures/line.png", "figures/line.svg"]
    found = [path for path in sorted((small / "results/here").rglob("*")) if path.is_file()]
    assert [str(path.relative_to(small / "results/here")) for path in found] == names
    assert sorted(map(Path, said.out.split())) == found
    assert "100%" in said.err, "progress is shown"
    words = f"A line up to 5 for {small / 'mine.txt'}, quick False."
    assert words in (small / "results/here/02_long_way.html").read_text()
    assert (
        nbformat.read(small / "results/here/02_long_way.ipynb", 4).cells[-2].outputs[0].data["text/plain"]
        == words
    )
    assert os.environ.get(FIGURES_FOLDER) == before
    assert sorted(path.name for path in (small / "results").iterdir()) == ["here"]


def test_a_run_that_fails_says_why_and_leaves_nothing(small, capsys):
    assert cli.main(["run", "1", "-p", "depth", "13", "--no-progress"]) == 1
    assert "of 01_small_steps failed: ValueError: Thirteen is not allowed." in capsys.readouterr().err
    assert not [path for path in small.rglob("*") if path.is_file()]


def test_an_interrupted_run_leaves_nothing(small, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("papermill.execute_notebook", interrupt)
    assert cli.main(["run", "1"]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert not [path for path in small.rglob("*") if path.is_file()]


RECIPE = {
    "micro_batch": 15, "accumulation": 10, "replicas": 10, "learning_rate": 0.006, "betas": [0.81, 0.81],
    "optimizer": "lamb", "total_steps": 7000, "warmup_steps": 2000, "max_length": 512,
}  # fmt: skip


@pytest.mark.parametrize("how", [[], ["--how", "betas"], ["--how", "rate", "--rule", "square root"]])
def test_advise_prints_both_recipes_and_every_reason(tmp_path, capsys, how):
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    assert cli.main(["advise", str(tmp_path / "recipe.json"), "--factor", "1.99", *how]) == 0
    said = capsys.readouterr().out
    before = Recipe.from_dict(RECIPE)
    after, reasons, _ = adjust(before, 1.99, *how[1::2])
    assert said.index(repr(before)) < said.index(repr(after)) < min(said.index(reason) for reason in reasons)


@pytest.mark.parametrize(
    ("change", "arguments", "says"),
    [
        ({}, ["--factor", "0.5"], "packing_factor must be at least 1, not 0.5."),
        ({}, ["--factor", "2", "--how", "beta"], "There is no way to adjust 'beta': did you mean 'betas'?"),
        ({"betas": [0.9, 2]}, ["--factor", "2"], "beta2 must be at least 0 and below 1, not 2."),
        (
            {"micro_batch": "15"},
            ["--factor", "2"],
            "micro_batch must be a whole number at least 1, not '15'.",
        ),
        ({"batch": 3}, ["--factor", "2"], "There is no field of a recipe 'batch'"),
        (None, ["--factor", "2"], "There is no recipe file"),
    ],
)
def test_advise_refuses_in_one_sentence(tmp_path, capsys, change, arguments, says):
    if change is not None:
        (tmp_path / "recipe.json").write_text(json.dumps({**RECIPE, **change}))
    assert cli.main(["advise", str(tmp_path / "recipe.json"), *arguments]) == 2
    said = capsys.readouterr()
    assert (
        said.err.startswith("packlib: ") and says in said.err and said.err.count("\n") == 1 and not said.out
    )


def test_advise_needs_no_torch(tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    code = (
        "import sys; from packlib.workbook.cli import main; "
        f"main(['advise', {str(tmp_path / 'recipe.json')!r}, '--factor', '2']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_console_script_is_this_main():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="packlib")
    module, _, function = script.value.partition(":")
    assert getattr(importlib.import_module(module), function) is cli.main
