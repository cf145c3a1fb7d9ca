"""What the README says to paste works as it stands, and prints what it says."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.S)
    return found


def test_the_report_says_what_the_readme_shows(tmp_path):
    setup, command = block("sh").splitlines()
    assert setup == "make setup"
    program, *arguments = command.split()
    assert program == ".venv/bin/packlib" and arguments[-1] == "report"
    arguments[-1] = str(tmp_path / "report")
    run = [sys.executable, "-m", "packlib", *arguments]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert set(block("text").splitlines()) <= set(done.stdout.splitlines())
    assert (tmp_path / "report" / "report.html").exists()


def test_the_python_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(block("python"), {})
    assert "8,135,727 packs" in said.getvalue() and "[[3, 3, 3, 3, 3, 3, 4, 4]" in said.getvalue()
    packing_factor = re.search(r"packing factor ([\d.]+),", said.getvalue())[1]
    assert f"holds {float(packing_factor):.2f} Wikipedia texts" in README
