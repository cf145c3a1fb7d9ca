"""`packbook sweep`: every combination once, resumed where it stopped, with what failed and why."""

import asyncio
import csv
import json
import os
import signal
from pathlib import Path

import nbformat
import pytest
from figure_style import touches_the_edge
from PIL import Image
from workbook_cases import CHANGES

from packbook import cli
from packbook.figures import save
from packbook.results import results_of
from packbook.run import comparison, sweep
from packbook.run.execution import for_each, run_async, write
from packbook.run.running import notebooks
from packbook.run.sweep import Outcome, grid
from packlib import files
from packlib.tools.exits import NotebookFailedError

pytest_plugins = ("workbook_cases",)


class Fake:
    """Stand in for the run of a notebook: write one that records twice its depth; fail at depth 13."""

    def __init__(self):
        self.ran = []

    async def __call__(self, notebook, values, out, threads=None, **_):
        self.ran.append(values)
        depth = values["depth"]
        if depth == 13:
            raise NotebookFailedError("cell [3] of 01_small_steps failed: ValueError: Thirteen is not allowed.")
        out.mkdir(parents=True, exist_ok=True)
        source = f"from packbook.results import result\nresult('double', {2 * depth})"
        metadata = {"packlib": {"kind": "result", "name": "double", "value": 2 * depth}}
        output = nbformat.v4.new_output("display_data", {"text/plain": "double"}, metadata=metadata)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, outputs=[output])])
        write(notebook, out / "01_small_steps.ipynb")


@pytest.fixture
def swept(small, monkeypatch):
    """Sweep the small notebook by a fake; return the exit code and the depths that it ran."""

    def swept(*arguments):
        fake = Fake()
        monkeypatch.setattr(sweep, "run_into", fake)
        code = cli.main(["sweep", "1", *arguments, "--out", "swept"])
        return code, [values["depth"] for values in fake.ran]

    return swept


def test_a_sweep_leaves_a_table_a_figure_and_exit_code_one_if_a_cell_failed(small, swept, capsys):
    assert swept("-p", "dataset", "squad,wordnet", "-p", "depth", "2,13,4") == (1, [2, 13, 4] * 2)
    said = capsys.readouterr()
    where = "failed with dataset=wordnet, depth=13: cell [3] of 01_small_steps failed: ValueError: Thirteen"
    assert where in said.err and "6/6" in said.err
    header, first, second, *_, table, figure = said.out.splitlines()
    assert header.split() == ["dataset", "depth", "state", "seconds", "double"]
    assert first.split()[:3] == ["squad", "2", "done"] and first.split()[-1] == "4"
    assert second.split()[:3] == ["squad", "13", "failed"]
    rows = list(csv.DictReader(Path(table).open()))
    assert [row["double"] for row in rows] == ["4", "", "8"] * 2
    assert ["Thirteen" in row["error"] for row in rows] == [False, True, False] * 2
    words = "double with dataset squad by depth is 2: 4, 4: 8; double with dataset wordnet by depth"
    assert words in Path(figure).read_text()


def test_a_sweep_goes_on_where_it_stopped(small, swept, capsys):
    (small / "mine.txt").write_text("3\n4\n")
    data = "-p", "dataset", "mine.txt"
    assert swept(*data, "-p", "depth", "2,13", "--json") == (1, [2, 13])
    first = json.loads(capsys.readouterr().out)
    assert swept(*data, "-p", "depth", "2,13", "--json") == (1, [13]), "what failed is tried again, what ran is not"
    again = json.loads(capsys.readouterr().out)
    assert again[0] == first[0] and again[0]["results"] == {"double": 4}
    assert swept(*data, "-p", "depth", "4,2") == (0, [4]), "a larger grid keeps what it knows"
    (small / "mine.txt").write_text("3\n5\n")
    assert swept(*data, "-p", "depth", "2") == (0, [2]), "other lengths under the same name are another sweep"


@pytest.mark.parametrize("place", CHANGES)
def test_what_a_run_depends_on_is_another_sweep_when_it_changes(small, swept, copied, place):
    data = "-p", "dataset", "wordnet", "-p", "depth", "2"
    assert swept(*data) == (0, [2]) and swept(*data) == (0, [])
    copied(place)
    assert swept(*data) == (0, [2]) and swept(*data) == (0, [])


def test_a_figure_of_an_earlier_sweep_is_not_shown_for_this_one(small, swept, capsys):
    assert swept("-p", "depth", "2,4") == (0, [2, 4])
    assert capsys.readouterr().out.endswith("comparison.svg\n")
    assert swept("-p", "depth", "2") == (0, [])
    assert capsys.readouterr().out.endswith("summary.csv\n") and not list(small.glob("swept/comparison.*"))


def test_another_sweep_is_kept_out_until_the_table_and_the_figure_are_written(small, swept, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    write, tried = comparison.write_csv, []

    def write_beside_another(outcomes, path):
        with pytest.raises(BlockingIOError, match="Another run is writing to"), files.work_folder(path.parent):
            pass
        tried.append(path)
        write(outcomes, path)

    monkeypatch.setattr(comparison, "write_csv", write_beside_another)
    assert swept("-p", "depth", "2,4") == (0, [2, 4]) and len(tried) == 1


def test_a_damaged_record_is_named(small, swept, capsys):
    swept("-p", "depth", "2")
    (path,) = small.glob("swept/*/cell.json")
    path.write_bytes(path.read_bytes()[:9])
    assert swept("-p", "depth", "2") == (2, [])
    assert f"packbook: {path} is no record of a run: " in capsys.readouterr().err


def test_cells_run_at_the_same_time(small, tmp_path, monkeypatch):
    fake, two = Fake(), asyncio.Barrier(2)

    async def meet(notebook, values, out, threads, **_):
        async with asyncio.timeout(30):
            await two.wait()
        assert threads == 1, "they share the cores"
        await fake(notebook, values, out)

    monkeypatch.setattr(sweep, "run_into", meet)
    cells = grid("01_small_steps", [("depth", "1,2,3,4")])
    outcomes = sweep.sweep(cells, tmp_path / "out", jobs=2, progress=False)
    assert [one.results for one in outcomes] == [{"double": 2 * depth} for depth in (1, 2, 3, 4)]


@pytest.mark.parametrize(("number", "code", "how"), [("SIGINT", 130, "stopped"), ("SIGTERM", 143, "terminated")])
def test_a_stopped_sweep_keeps_what_ended_and_lets_the_others_clean_up(
    small, swept, monkeypatch, capsys, number, code, how
):
    fake, ended = Fake(), []

    async def interrupted(notebook, values, out, threads, **_):
        try:
            if values["depth"] == 3:
                for _ in range(2):  # in a step of the loop; the second changes nothing
                    os.kill(os.getpid(), signal.Signals[number])
                await asyncio.sleep(600)
            await asyncio.sleep(600 if values["depth"] == 4 else 0)
            await fake(notebook, values, out)
        finally:
            for _ in range(10):  # as a kernel, which takes many steps to end
                await asyncio.sleep(0.01)
            ended.append(values["depth"])

    monkeypatch.setattr(sweep, "run_into", interrupted)
    command = ["sweep", "1", "-p", "depth", "4,2,3,5", "--out", "swept", "--jobs", "2", "--no-progress"]
    assert cli.main(command) == code
    assert ended[0] == 2 and sorted(ended[1:]) == [3, 4], "those that run are stopped, and no other begins"
    assert capsys.readouterr().err == f"packbook: {how}; of what had not ended, nothing was written.\n"
    assert swept("-p", "depth", "4,2,3,5") == (0, [4, 3, 5])


def test_the_first_notebook_that_fails_ends_the_others_and_is_the_one_that_is_named():
    ended = []

    async def work(item):
        try:
            await asyncio.sleep(0 if item == 1 else 600)
            raise NotebookFailedError("one failed.") from ValueError("its cause")
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            ended.append(item)
            raise NotebookFailedError("another was stopped.") from None  # as nbclient says it

    with pytest.raises(NotebookFailedError, match="one failed") as raised:
        run_async(for_each(range(3), work, at_once=3))
    assert str(raised.value.__cause__) == "its cause" and sorted(ended) == [0, 2]


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
