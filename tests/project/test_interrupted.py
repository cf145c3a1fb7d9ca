"""What is killed or terminated leaves nothing that matters, and the next run goes on; a dead kernel is a sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import all_end, waiting

import packlib_command
from packbook import cli
from packbook.publish import gallery
from packbook.run import running
from packlib import files as packlib_files
from packlib.tools import exits

pytest_plugins = ("workbook_cases",)


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("waiting-")]


def test_ctrl_c_during_imports_is_one_sentence(tmp_path):
    (tmp_path / "numpy.py").write_text("import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nfinally: 1 / 0")
    code = "import sys, packlib_command; sys.exit(packlib_command.main())"
    path = os.pathsep.join(
        [str(tmp_path), os.environ.get("PYTHONPATH", ""), str(Path(packlib_command.__file__).parent)]
    )
    command = [sys.executable, "-c", code, "report", "squad", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 130 and done.stderr == "packlib: stopped; nothing was written.\n"
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_terminated_leaves_nothing(small, clone):
    run = clone("run", "1", "-p", "depth", "14", "--no-progress", "--out", "made")
    kernels = waiting(running.NOTEBOOKS, 1)
    run.terminate()
    _, said = run.communicate(timeout=300)
    assert said == "packbook: terminated; of what had not ended, nothing was written.\n" and run.returncode == 143
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
