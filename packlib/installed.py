"""What is installed of packlib; what is missing is said in one sentence that tells how to get it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lazy_loader

_EXTRAS = {"torch": "train", "transformers": "train", "accelerate": "train", "datasets": "hub"}  # else: lab
_PACKAGE = Path(__file__).resolve().parent
IN_WHEEL = (_PACKAGE / "shipped").exists()  # where setup.py puts some of the repository
ROOT = _PACKAGE / "shipped" if IN_WHEEL else _PACKAGE.parent


class MissingExtraError(ModuleNotFoundError):
    """A package is not installed that an extra of packlib brings."""


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
        if isinstance(error, MissingExtraError) or package in ("", "packlib"):
            raise
        extra = _EXTRAS.get(package, "lab")
        said = f"{what} needs {package}, which is not installed: pip install 'packlib[{extra}]'."
        raise MissingExtraError(said, name=error.name) from None


def checkout_path(*parts: str) -> Path:
    """The path of a file or folder of packlib's repository, or of the part of it that is in a wheel.

    Raises:
        FileNotFoundError: if it is not there.
    """
    path = ROOT.joinpath(*parts)
    if not path.exists():
        name = "/".join(parts)
        raise FileNotFoundError(f"{name} is not installed: clone packlib's repository, and there run pip install -e .")
    return path


def attach(name: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: what its `__init__.pyi` lists, loaded when first used."""
    load, names, public = lazy_loader.attach_stub(name, file)

    def load_or_say_what_is_missing(attribute: str) -> Any:
        with needed_by(f"{name}.{attribute}"):
            return load(attribute)

    return load_or_say_what_is_missing, names, public
