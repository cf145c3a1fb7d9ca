"""What is too much is said, and only three times too much fails."""

import subprocess
import sys
from pathlib import Path

import cpu_seconds
import nbformat

from packlib.workbook.execution import write

ROOT = Path(__file__).parents[2]


def test_the_report_names_what_is_over_its_limit():
    cost = {"notebooks/01_a.ipynb": 31.0, "notebooks/solutions/01_a.ipynb": 700.0, "notebooks/02_b.ipynb": 2.0}
    lines, faults = cpu_seconds.judge(cost, {"Waste": 0.7, "Gap": 1.6})
    assert lines == [
        "  31.00 s  notebooks/01_a.ipynb, more than 30 s", "   2.00 s  notebooks/02_b.ipynb",
        " 700.00 s  notebooks/solutions/01_a.ipynb, more than 30 s", "  33.00 s  all without solutions",
        "   1.60 s  a move in Gap, more than 0.5 s", "   0.70 s  a move in Waste, more than 0.5 s",
    ]  # fmt: skip
    assert faults == ["notebooks/solutions/01_a.ipynb", "a move in Gap"]
    assert cpu_seconds.judge({}, {}) == ([], [])
    each = {f"notebooks/{i:02}.ipynb": 61.0 for i in range(12)}
    assert cpu_seconds.judge(each, {})[1] == ["all without solutions"]


def test_children_count():
    burn = "import subprocess, sys, time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"
    code = f"{burn}subprocess.run([sys.executable, '-c', {burn!r}])\nprint(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        seconds = cpu_seconds.spent(process.pid)
        process.kill()
    assert 0.8 <= seconds < 5


ORPHAN = """
import pathlib, subprocess, sys, time
if sys.argv[1:] == ["orphan"]:
    while time.process_time() < 2:
        pass
    pathlib.Path("done").touch()
else:
    leave = "import subprocess, sys; subprocess.Popen([sys.executable, 'burn.py', 'orphan'])"
    subprocess.run([sys.executable, "-c", leave])
    while not pathlib.Path("done").exists():
        time.sleep(0.05)
"""


def test_a_command_costs_what_its_orphans_cost(tmp_path):
    """A process that its parent left behind counts, also after its end."""
    (tmp_path / "burn.py").write_text(ORPHAN)
    command = [sys.executable, ROOT / "tests" / "cpu_seconds.py", sys.executable]
    done = subprocess.run([*command, "burn.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert 2 <= int(done.stdout.partition(" CPU seconds: ")[0]) < 10
    assert subprocess.run([*command, "-c", "raise SystemExit(3)"]).returncode == 3


def test_nbval_reports_its_kernels_and_fails_when_they_take_too_long(tmp_path):
    cells = [
        nbformat.v4.new_code_cell(
            "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
        )
    ]
    path = tmp_path / "90_small.ipynb"
    cells[0].execution_count = 1
    write(nbformat.v4.new_notebook(cells=cells), path)
    (tmp_path / "strict.py").write_text("import cpu_seconds\ncpu_seconds.EACH = 0.1\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--rootdir",
        str(tmp_path),
        "-p",
        "no:cacheprovider",
        str(path),
    ]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}"}
    for plugins, code in ((["-p", "cpu_seconds"], 0), (["-p", "cpu_seconds", "-p", "strict"], 1)):
        done = subprocess.run([*command, *plugins], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert "1 passed" in done.stdout and done.returncode == code, done.stdout
        assert "s  90_small.ipynb" in done.stdout and "s  the whole run" in done.stdout
        assert ("FAILED: 90_small.ipynb" in done.stdout) is bool(code)
