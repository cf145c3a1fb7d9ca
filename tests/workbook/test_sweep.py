"""`packlib sweep`: every combination once, resumed where it stopped, with what failed and why."""

import asyncio
import csv
import json
from pathlib import Path

import nbformat
import pytest
from figure_style import touches_the_edge
from PIL import Image

import packlib
from packlib import cli
from packlib.workbook import comparison, sweep
from packlib.workbook.execution import write
from packlib.workbook.exits import NotebookFailedError
from packlib.workbook.figures import save
from packlib.workbook.results import results_of
from packlib.workbook.running import notebooks
from packlib.workbook.sweep import Outcome, grid

pytest_plugins = ("workbook_cases",)


class Fake:
    """Runs a cell by writing a notebook that records its depth; fails at depth 13."""

    def __init__(self):
        self.ran = []

    async def __call__(self, notebook, values, out, threads=None):
        self.ran.append(values)
        depth = values["depth"]
        if depth == 13:
            raise NotebookFailedError("cell [3] of 01_small_steps failed: ValueError: Thirteen is not allowed.")
        out.mkdir(parents=True, exist_ok=True)
        source = f"from packlib.workbook.results import result\nresult('double', {2 * depth})"
        metadata = {"packlib": {"kind": "result", "name": "double", "value": 2 * depth}}
        output = nbformat.v4.new_output("display_data", {"text/plain": "double"}, metadata=metadata)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, outputs=[output])])
        write(notebook, out / "01_small_steps.ipynb")


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (["depth", "2,4,2"], "The sweep has depth 2 twice."),
        (["dataset", "squad,broken.txt"], "line 2 of broken.txt is not allowed"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_runs(small, monkeypatch, capsys, pairs, says):
    (small / "broken.txt").write_text("5\n-1\n")
    monkeypatch.setattr(sweep, "run_into", lambda *_: pytest.fail("must not run"))
    assert cli.main(["sweep", "1", "-p", *pairs]) == 2
    said = capsys.readouterr().err
    assert said.startswith("packlib: ") and says in said.replace(f"{small}/", "") and said.count("\n") == 1
    assert [path.name for path in small.iterdir()] == ["broken.txt"]


def test_a_sweep_leaves_a_table_a_figure_and_exit_code_one_if_a_cell_failed(small, monkeypatch, capsys):
    fake = Fake()
    monkeypatch.setattr(sweep, "run_into", fake)
    arguments = ["sweep", "1", "-p", "dataset", "squad,wordnet", "-p", "depth", "2,13,4", "--out", "swept"]
    assert cli.main(arguments) == 1
    said = capsys.readouterr()
    assert "6/6" in said.err and len(fake.ran) == 6
    where = "failed with dataset=wordnet, depth=13: cell [3] of 01_small_steps failed: ValueError: Thirteen"
    assert where in said.err
    table = said.out.splitlines()
    assert table[0].split() == ["dataset", "depth", "state", "seconds", "double"]
    assert table[1].split()[:3] == ["squad", "2", "done"] and table[1].split()[-1] == "4"
    assert table[2].split()[:3] == ["squad", "13", "failed"] and table[-2:] == [
        str(small / "swept/summary.csv"), str(small / "swept/comparison.svg")
    ]  # fmt: skip
    rows = list(csv.DictReader((small / "swept/summary.csv").open()))
    assert [row["double"] for row in rows] == ["4", "", "8"] * 2
    assert ["Thirteen" in row["error"] for row in rows] == [False, True, False] * 2
    drawn = (small / "swept/comparison.svg").read_text()
    assert "double with dataset squad by depth is 2: 4, 4: 8; double with dataset wordnet by depth" in drawn


def test_a_sweep_goes_on_where_it_stopped(small, monkeypatch, capsys):
    (small / "mine.txt").write_text("3\n4\n")
    fakes = [Fake(), Fake(), Fake()]
    monkeypatch.setattr(sweep, "run_into", fakes[0])
    arguments = ["sweep", "1", "-p", "dataset", "mine.txt", "-p", "depth", "2,13", "--out", "swept", "--json"]
    assert cli.main(arguments) == 1
    first = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sweep, "run_into", fakes[1])
    assert cli.main(arguments) == 1
    assert [run["depth"] for run in fakes[1].ran] == [13], "what failed is tried again, what ran is not"
    again = json.loads(capsys.readouterr().out)
    assert again[0] == first[0] and again[0]["results"] == {"double": 4}
    monkeypatch.setattr(sweep, "run_into", fakes[2])
    assert cli.main(["sweep", "1", "-p", "dataset", "mine.txt", "-p", "depth", "4,2", "--out", "swept"]) == 0
    assert [run["depth"] for run in fakes[2].ran] == [4], "a larger grid keeps what it knows"


def test_other_lengths_under_the_same_name_are_another_sweep(small, monkeypatch):
    fakes = []
    for lengths in ("3\n4\n", "3\n4\n", "3\n5\n"):
        fakes.append(Fake())
        monkeypatch.setattr(sweep, "run_into", fakes[-1])
        (small / "mine.txt").write_text(lengths)
        assert cli.main(["sweep", "1", "-p", "dataset", "mine.txt", "-p", "depth", "2", "--out", "swept"]) == 0
    assert [len(fake.ran) for fake in fakes] == [1, 0, 1]


def test_a_changed_library_is_another_sweep(small, tmp_path, monkeypatch):
    library = tmp_path / "packlib"
    (library / "packing").mkdir(parents=True)
    (library / "__init__.py").touch()
    method = library / "packing" / "greedy.py"
    method.write_text("one")
    monkeypatch.setattr(packlib, "__file__", str(library / "__init__.py"))

    def folder():
        return grid("01_small_steps", [("depth", "2")])[0].folder

    before = folder()
    assert folder() == before
    method.write_text("two")
    assert folder() != before


def test_a_damaged_record_is_named(small, monkeypatch, capsys):
    monkeypatch.setattr(sweep, "run_into", Fake())
    arguments = ["sweep", "1", "-p", "depth", "2", "--out", "swept", "--no-progress"]
    assert cli.main(arguments) == 0
    (path,) = small.glob("swept/*/cell.json")
    path.write_bytes(path.read_bytes()[:9])
    capsys.readouterr()
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"packlib: {path} is no record of a run: ")


def test_cells_run_at_the_same_time(small, tmp_path, monkeypatch):
    fake, two = Fake(), asyncio.Barrier(2)

    async def meet(notebook, values, out, threads):
        async with asyncio.timeout(30):
            await two.wait()
        assert threads == 1, "they share the cores"
        await fake(notebook, values, out)

    monkeypatch.setattr(sweep, "run_into", meet)
    cells = grid("01_small_steps", [("depth", "1,2,3,4")])
    outcomes = sweep.sweep(cells, tmp_path / "out", jobs=2, progress=False)
    assert [one.results for one in outcomes] == [{"double": 2 * depth} for depth in (1, 2, 3, 4)]


def test_an_interrupted_sweep_keeps_what_ended(small, monkeypatch, capsys):
    fake, ended = Fake(), []

    async def interrupted(notebook, values, out, threads):
        if values["depth"] == 3:
            raise KeyboardInterrupt
        try:
            await asyncio.sleep(600 if values["depth"] == 4 else 0)
            await fake(notebook, values, out)
        finally:
            ended.append(values["depth"])

    monkeypatch.setattr(sweep, "run_into", interrupted)
    arguments = ["sweep", "1", "-p", "depth", "4,2,3", "--out", "swept", "--jobs", "2", "--no-progress"]
    assert cli.main(arguments) == 130 and ended == [2, 4], "those that run are stopped"
    assert "stopped" in capsys.readouterr().err
    monkeypatch.setattr(sweep, "run_into", fake)
    assert cli.main(arguments) == 0
    assert [run["depth"] for run in fake.ran] == [2, 4, 3]


def outcome(results, **parameters):
    return Outcome(parameters, 1.0, results)


def test_the_figure_takes_the_results_that_are_asked_for():
    outcomes = [outcome({"a": 1, "b": 2.5, "text": "x"}, depth=depth) for depth in ("1", "none")]
    assert comparison.compared(outcomes)[1] == "a by depth is 1: 1, none: 1; b by depth is 1: 2.5, none: 2.5."
    assert comparison.compared(outcomes, ["b"])[1] == "b by depth is 1: 2.5, none: 2.5."
    assert comparison.compared(outcomes[:1]) is None, "nothing was swept"
    assert comparison.compared([outcome({}, depth=depth) for depth in "12"]) is None, "nothing was recorded"


def test_the_figure_holds_the_longest_names_of_results(tmp_path):
    found = max(map(results_of, notebooks().values()), key=lambda results: max(map(len, results), default=0))
    outcomes = [outcome(found, seed=seed, quick=quick) for seed in ("0", "1") for quick in ("true", "false")]
    save(*comparison.compared(outcomes), tmp_path, "comparison")
    assert not touches_the_edge(Image.open(tmp_path / "comparison.png").convert("L"))


def test_a_result_that_nobody_recorded_is_refused_after_the_table(tmp_path, capsys):
    outcomes = [outcome({"factor": 1}, depth=depth) for depth in "12"]
    with pytest.raises(ValueError, match="not 'facter': did you mean 'factor'"):
        comparison.conclude(outcomes, tmp_path, ["facter"], as_json=False)
    assert (tmp_path / "summary.csv").exists() and "factor" in capsys.readouterr().out


@pytest.mark.slow
def test_a_real_sweep_with_a_cell_that_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("\n".join(map(str, [9, 10, 11, 12] * 30)))
    grid_of = ["-p", "dataset", "mine.txt", "-p", "overlong", "drop", "-p", "max_length", "8,32"]
    assert cli.main(["sweep", "12", *grid_of, "--out", "swept"]) == 1
    said = capsys.readouterr()
    assert "with dataset=mine.txt, overlong=drop, max_length=8: cell" in said.err
    assert "All 120 sequences of mine are longer than 8 tokens" in said.err
    failed, done = csv.DictReader(Path("swept/summary.csv").open())
    assert failed["state"] == "failed" and done["state"] == "done"
    assert (done["packs"], done["gap"], done["row length"]) == ("40", "0", "32")
    (folder,) = [path for path in Path("swept").iterdir() if path.is_dir()]
    assert {path.name for path in folder.iterdir()} >= {"12_your_dataset.html", "advice.json", "plan.json"}
