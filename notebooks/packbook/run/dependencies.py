"""What a notebook's figures and results depend on, as one digest: what was made under the same one is of today."""

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

    Files count by their content: a new time of the same content changes nothing, and an old time of another one does
    not hide it.
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
    """Yield the files of a folder, in order, but for hidden ones and what Python compiles."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if path.is_file() and not hidden:
            yield path


def _packages() -> Iterator[str]:
    """Yield Python, packlib, and the packages that packlib asks for, each with the version that is installed."""
    yield f"python {python_version()}"
    needed = [line for line in requires("packlib") or () if not _FOR_DEVELOPERS.search(line)]
    for name in ["packlib", *(re.findall(r"^[\w.-]+", line)[0] for line in needed)]:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is not installed"
