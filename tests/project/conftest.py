"""What `pip install .` leaves, for the tests of it."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The unpacked wheel, built from a copy of what the build reads; the wheel itself is beside it."""
    tree, made = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in ("packlib", "data", "notebooks/packbook"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tree / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, tree / name)
    for name in ("pyproject.toml", "packlib_command.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    build = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-w", made]
    done = subprocess.run(build, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    zipfile.ZipFile(next(made.glob("packlib-*.whl"))).extractall(made / "unpacked")
    return made / "unpacked"
