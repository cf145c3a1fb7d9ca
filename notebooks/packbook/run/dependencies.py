"""One digest of all that a notebook's figures and results depend on: if it is unchanged, they are up to date."""

import hashlib
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from platform import python_version

import packbook
import packlib
from packlib.installed import ROOT

# code with its tables, styles and fonts; and the data
FOLDERS = [*map(Path, [*packlib.__path__, *packbook.__path__]), ROOT / "data"]
_FOR_DEVELOPERS = re.compile(r"extra == .(site|test|bench|mutants)\b")  # packages that no notebook uses


def digest_dependencies(notebook: Path) -> str:
    """Return a SHA-256 digest of what a run of `notebook` depends on: files, packages, and the notebook itself.

    Files count by their content and not by their time: `git checkout` changes times without contents.
    """
    state = hashlib.sha256(notebook.read_bytes())
    for folder in FOLDERS:
        for path in _files(folder):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            state.update(f"{folder.name}/{path.relative_to(folder)}\0{content}\0".encode())
    for package in _packages():
        state.update(f"{package}\0".encode())
    return state.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder in the order of their paths, without hidden ones and Python's compiled ones."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if path.is_file() and not hidden:
            yield path


def _packages() -> Iterator[str]:
    """Yield Python, packlib and the packages that packlib requires, each with its installed version: "numpy 2.1.0"."""
    yield f"python {python_version()}"
    requirements = [line for line in requires("packlib") or () if not _FOR_DEVELOPERS.search(line)]
    required_names = [re.findall(r"^[\w.-]+", requirement)[0] for requirement in requirements]
    for name in ["packlib", *required_names]:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is not installed"
