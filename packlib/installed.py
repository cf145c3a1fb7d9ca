"""What is installed of packlib, and which version; what is missing is said in one sentence that tells how to get it."""

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_EXTRAS = {  # the extra that brings a package; of all other packages it is lab
    "torch": "train", "transformers": "train", "accelerate": "train", "datasets": "hub", "lightbinpack": "bench",
    "trl": "test",
}  # fmt: skip
_PACKAGE = Path(__file__).resolve().parent
ROOT = _PACKAGE if (_PACKAGE / "data").exists() else _PACKAGE.parent  # a wheel has data/ inside of the package
try:
    __version__ = version("packlib")
except PackageNotFoundError:  # in a checkout that nobody installed
    __version__ = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


class MissingExtraError(ModuleNotFoundError):
    """An extra of packlib brings a package that is not installed."""


@contextmanager
def needed_by(what: str) -> Iterator[None]:
    """Run a block of imports and calls for `what`, such as "packlib report".

    Raises:
        MissingExtraError: if a package is not installed that the block imports.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, MissingExtraError) or package in ("", "packlib", "packbook"):
            raise
        extra = _EXTRAS.get(package, "lab")
        sentence = f"{what} needs {package}, which is not installed: pip install 'packlib[{extra}]'."
        raise MissingExtraError(sentence, name=error.name) from None


def checkout_path(*parts: str) -> Path:
    """Find a file or folder of packlib's repository, or of the part of it that is in a wheel.

    Raises:
        FileNotFoundError: if it is not there.
    """
    path = ROOT.joinpath(*parts)
    if not path.exists():
        name = "/".join(parts)
        raise FileNotFoundError(f"{name} is not installed: clone packlib's repository, and there run pip install -e .")
    return path


def late(package: str, homes: Mapping[str, list[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a package for names that load torch or Jupyter, each when it is used.

    Args:
        package: its name.
        homes: by module, the names that it has; a module of the package may be such a name itself. A type checker reads
            them under `if TYPE_CHECKING`.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        """Import the module of a name; return what it has under that name, or itself if that is its own."""
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_by(f"{package}.{name}"):
            module = import_module(home[name])
        return module if home[name] == f"{package}.{name}" else getattr(module, name)

    def names() -> list[str]:
        """List what the package has already, and what it can load."""
        return sorted({*vars(sys.modules[package]), *home})

    return load, names
