"""What is interrupted, killed or terminated leaves nothing that matters, and the next run goes on.

A dead kernel is a sentence.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import all_end, wait_for, waiting

import packlib_command
from packbook import cli
from packbook.publish import gallery
from packbook.run import running
from packlib import files as packlib_files
from packlib.batches import pack_lengths
from packlib.distributed import pack_distributed
from packlib.packing import PackingPlan
from packlib.packing.search.best import Best
from packlib.tools import exits
from packlib.tools.advice import advise
from packlib.tools.rows import pack_dataset
from packlib.training.recipe import Recipe
from packlib.work import balance_step

pytest_plugins = ("workbook_cases",)


@pytest.fixture(autouse=True)
def logging_goes_on():
    """A command that is stopped ends the logging of its process, which here is that of other tests, too."""
    yield
    logging.disable(logging.NOTSET)


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("waiting-")]


@pytest.mark.parametrize(("entry", "arguments"), [("main", "report squad --out"), ("packbook", "run 1 --out")])
def test_ctrl_c_during_imports_is_one_sentence(tmp_path, entry, arguments):
    (tmp_path / "numpy.py").write_text("import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nfinally: 1 / 0")
    code = f"import sys, packlib_command; sys.exit(packlib_command.{entry}())"
    path = os.pathsep.join(
        [str(tmp_path), os.environ.get("PYTHONPATH", ""), str(Path(packlib_command.__file__).parent)]
    )
    command = [sys.executable, "-c", code, *arguments.split(), str(tmp_path / "out")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert (
        done.returncode == 130
        and done.stderr == f"{entry.replace('main', 'packlib')}: stopped; nothing was written.\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments, code", [("list", 0), ("plan nosuch.csv", 2)])
def test_an_interrupt_after_the_answer_changes_no_exit_code(arguments, code):
    """What was asked for is done, and Python is about to end."""
    late = "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))"
    command = f"import atexit, os, signal, sys, packlib_command; {late}; sys.exit(packlib_command.main())"
    done = subprocess.run([sys.executable, "-c", command, *arguments.split()], capture_output=True, text=True)
    assert done.returncode == code and "Traceback" not in done.stderr
    assert bool(done.stdout) == (code == 0)


WAITS = """
import pathlib, pkgutil, signal, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # where a shell runs the tests in the background it is ignored

def waits(work, moment):
    def call(*given, **options):
        pathlib.Path(moment).touch()
        while True:  # a signal that comes just before one sleep is seen after it
            time.sleep(0.1)
    return call

for moment in sys.argv.pop(1).split(","):
    place, _, name = moment.rpartition(".")
    place = pkgutil.resolve_name(place)
    setattr(place, name, waits(getattr(place, name), moment))
"""
COMMAND = "from packlib_command import main\nsys.exit(main())"
SEARCH = "packlib.packing.search.best:Best.report"  # after each of its rounds
CHECK = "packlib.packing.plans:PackingPlan.from_strategies"  # of the plan that was found


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a process that waits at moments, each a function that is called, and leaves a file of that name there.

    The exact search of the lengths in lengths.csv and tokens.parquet has several rounds.
    """
    monkeypatch.chdir(tmp_path)
    lengths = np.random.default_rng(0).integers(150, 360, 2000)
    Path("lengths.csv").write_text("\n".join(map(str, lengths)))
    rows = pa.ListArray.from_arrays(np.concatenate([[0], lengths.cumsum()]), np.zeros(lengths.sum(), np.int8))
    pq.write_table(pa.table({"input_ids": rows}), "tokens.parquet")
    started = []

    def start(moments, *arguments, code=COMMAND):
        command = [sys.executable, "-c", WAITS + code, moments, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, start_new_session=True, **pipes))
        wait_for(Path(moments.partition(",")[0]), started[-1])
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def press_ctrl_c(process):
    """As a terminal does, which sends it to all processes in the foreground."""
    os.killpg(process.pid, signal.SIGINT)


STOPPED = "packlib: stopped; of what had not ended, nothing was written.\n"
PACK = "pack tokens.parquet --max-length 1000 --no-progress --out"


@pytest.mark.parametrize(
    ("moment", "command"),
    [
        (SEARCH, f"{PACK} packed.parquet"),
        (SEARCH, f"{PACK} packed.parquet --method optimal"),
        (SEARCH, f"{PACK} packed --packs-per-file 100"),
        (SEARCH, "report lengths.csv --max-length 1000 --no-progress --replace --out older"),
        (SEARCH, "report lengths.csv --max-length 1000 --no-progress --replace --out older --thorough"),
        (CHECK, "plan lengths.csv --max-length 1000 --no-progress --method lpfhp --out plan.json"),
        ("packlib.tools.cli.load_argument", "plan lengths.csv --max-length 1000 --no-progress --out plan.json"),
        ("packlib.tools.auditing.auditing.audit", "audit tokens.parquet --no-progress"),
        ("packlib.training.adjustment.adjust", "adjust recipe.json --factor 2"),
        ("packlib.tools.check.check_targets.check_target", "check made.py:make --no-progress --log log.jsonl"),
        ("packlib.tools.cli.available", "list"),
    ],
)
def test_the_first_ctrl_c_ends_a_command_and_what_was_there_stays(start, moment, command):
    Path("older").mkdir()
    for name in ("report.html", "advice.json", "plan.json"):
        Path("older", name).write_text("from before")
    Recipe(micro_batch=8, learning_rate=1e-3, total_sequences=10**6).save("recipe.json")
    before = {path: path.read_bytes() for path in files(Path())}
    process = start(moment, *command.split())
    press_ctrl_c(process)
    assert (process.communicate(timeout=120), process.returncode) == (("", STOPPED), 130)
    Path(moment).unlink()
    assert {path: path.read_bytes() for path in files(Path())} == before


PLAN = "plan lengths.csv --max-length 1000 --method optimal --no-progress --json --out plan.json".split()


def test_ctrl_c_ends_the_search_of_a_plan_and_the_best_so_far_is_kept(start):
    process = start(SEARCH, *PLAN)
    press_ctrl_c(process)
    printed, said = process.communicate(timeout=120)
    made = PackingPlan.load("plan.json")
    found = f"of {made.num_packs} packs; the proven minimum is {made.lower_bound}."
    assert said == f"packlib: The search was interrupted: this is the best plan so far, {found}\n"
    assert process.returncode == 0 and json.loads(printed)["num_packs"] == made.num_packs


def test_the_second_ctrl_c_ends_the_command(start):
    process = start(f"{SEARCH},{CHECK}", *PLAN)
    press_ctrl_c(process)
    wait_for(Path(CHECK), process)
    press_ctrl_c(process)
    assert (process.communicate(timeout=120), process.returncode) == (("", STOPPED), 130)
    assert not Path("plan.json").exists()


def test_many_ctrl_c_are_as_one(start):
    """Also while Python ends."""
    process = start(SEARCH, *f"{PACK} packed --packs-per-file 100".split())
    while process.poll() is None:
        press_ctrl_c(process)
        time.sleep(0.001)
    assert (process.communicate(timeout=120), process.returncode) == (("", STOPPED), 130)
    assert not Path("packed").exists()


def test_an_interrupt_that_is_lost_does_not_keep_out_the_next_and_cleaning_goes_on():
    cleaned = []

    def command():
        for _ in range(2):
            with suppress(BaseException):  # as where Python calls back from C
                os.kill(os.getpid(), signal.SIGINT)
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            cleaned.append("all")

    assert exits.exit_code(command) == 130 and cleaned == ["all"]


def test_a_search_may_take_the_first_interrupt_alone():
    came = []

    def command():
        with exits.first_interrupt_raised():
            for _ in range(2):
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                except KeyboardInterrupt as stop:
                    came.append(type(stop))
        os.kill(os.getpid(), signal.SIGINT)

    assert exits.exit_code(command) == 130 and came == [KeyboardInterrupt, exits.Stopped]


LOOP = """
from packlib import load, plan
for max_length in (1000, 990):
    print(plan(load("lengths.csv", max_length), method="optimal").num_packs, flush=True)
"""
DATASET = """
import datasets
from packlib.tools.rows import pack_dataset
rows = datasets.Dataset.from_parquet("tokens.parquet", keep_in_memory=True)
print(len(pack_dataset(rows, 1000, "optimal", progress=False)))
"""


def test_an_interrupt_of_a_script_ends_a_search_that_it_asked_for_and_nothing_else_goes_on(start):
    process = start(SEARCH, code=LOOP)
    Path(SEARCH).unlink()  # before the second search, which begins at once, makes it anew
    press_ctrl_c(process)
    wait_for(Path(SEARCH), process)  # it is in the second search
    press_ctrl_c(process)
    printed, said = process.communicate(timeout=120)
    assert len(printed.split()) == 2 and process.returncode == 0
    assert said.count("RuntimeWarning: The search was interrupted: this is the best plan so far, of ") == 2

    Path(SEARCH).unlink()
    process = start(SEARCH, code=DATASET)
    press_ctrl_c(process)
    printed, said = process.communicate(timeout=120)
    assert said.endswith("\nKeyboardInterrupt\n") and process.returncode == -signal.SIGINT and not printed


def test_what_plans_as_one_of_its_steps_ends_at_the_first_interrupt(monkeypatch):
    def interrupted(search, stage, strategies):
        raise KeyboardInterrupt

    monkeypatch.setattr(Best, "report", interrupted)
    lengths, top = np.random.default_rng(0).integers(150, 360, 2000), 1000
    rows = [{"input_ids": [1] * length} for length in lengths]
    for work in (
        lambda: pack_lengths(lengths, top),
        lambda: pack_dataset(rows, top, progress=False),
        lambda: pack_distributed(lengths, top),
        lambda: balance_step(np.random.default_rng(0).integers(200, 700, 100), 2, top),  # more take no search
        lambda: advise(lengths, max_length=top),
    ):
        with pytest.raises(KeyboardInterrupt):
            work()


@pytest.mark.parametrize(("number", "code", "how"), [("SIGTERM", 143, "terminated"), ("SIGINT", 130, "stopped")])
@pytest.mark.parametrize("command", ["run 1 -p depth 14", "sweep 1 -p depth 14 -p seed 0,1 --jobs 2"])
def test_notebooks_that_are_stopped_leave_nothing(small, clone, command, number, code, how):
    run = clone(*command.split(), "--no-progress", "--out", "made")
    kernels = waiting(running.NOTEBOOKS, 1)
    os.killpg(run.pid, signal.Signals[number])
    _, said = run.communicate(timeout=300)
    assert said == f"packbook: {how}; of what had not ended, nothing was written.\n" and run.returncode == code
    assert not files(small) and not (small / "made").exists() and all_end(kernels)


@pytest.mark.parametrize(("number", "code", "how"), [("SIGTERM", 143, "terminated"), ("SIGINT", 130, "stopped")])
@pytest.mark.parametrize("command", ["run 1", "sweep 1 -p seed 0,1 --jobs 2"])
def test_a_kernel_that_is_stopped_while_it_starts_prints_nothing(small, clone, command, number, code, how):
    begins = "import os, pathlib, time\npathlib.Path(f'waiting-{os.getpid()}').touch()\ntime.sleep(1000)\n"
    (small.parent / "ipykernel_launcher.py").write_text(begins)  # in place of Jupyter's
    run = clone(*command.split(), "--no-progress", "--out", "made")
    kernels = waiting(running.NOTEBOOKS, 1)
    os.killpg(run.pid, signal.Signals[number])
    _, said = run.communicate(timeout=300)
    assert said == f"packbook: {how}; of what had not ended, nothing was written.\n" and run.returncode == code
    assert not files(small) and not (small / "made").exists() and all_end(kernels)


@pytest.mark.parametrize("place", ["run", "figures"])
def test_a_kernel_that_dies_is_one_sentence(small, place, capfd):
    if place == "run":
        assert cli.main(["run", "1", "-p", "depth", "15", "--no-progress"]) == 1
    else:
        notebook = running.NOTEBOOKS / "01_small_steps.ipynb"
        notebook.write_text(notebook.read_text().replace("depth: int = 3", "depth: int = 15"))
        assert exits.exit_code(lambda: gallery.main(small / "figures", [notebook])) == 1
    says = "the kernel of 01_small_steps died, most likely because memory ran out: take less data"
    name = "packbook" if place == "run" else "packlib"  # the programs of `make` are said to be packlib's
    assert capfd.readouterr().err == f"{name}: {says} or close other programs.\n"
    assert not files(small) and not (small / "figures").exists()


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on(small, clone, monkeypatch, capsys):
    arguments = ["sweep", "1", "-p", "depth", "3,14", "--jobs", "1", "--out", "swept", "--no-progress", "--json"]
    killed = clone(*arguments)
    kernels = waiting(running.NOTEBOOKS, 1)
    (done,) = small.glob("swept/*/cell.json")
    before = done.stat().st_mtime_ns

    monkeypatch.setattr(packlib_files, "PATIENCE", 0.1)
    assert cli.main(arguments) == 2
    assert f"Another run is writing to {small / 'swept'}: wait until it ends, or" in capsys.readouterr().err

    killed.kill()
    killed.communicate()
    assert (small / "swept" / packlib_files.WORK).exists() and all_end(kernels), "its runs end with it"
    (running.NOTEBOOKS / "go").touch()
    again = clone(*arguments)
    said, complaints = again.communicate(timeout=300)
    assert [run["results"] for run in json.loads(said)] == [{"twice the depth": 6}, {"twice the depth": 28}]
    assert done.stat().st_mtime_ns == before and not complaints
    assert not [path for path in small.rglob("*.part")]
