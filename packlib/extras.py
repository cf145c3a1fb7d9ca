"""What is not installed: said in one sentence that names the extra which brings it."""

from collections.abc import Iterator
from contextlib import contextmanager

_EXTRAS = {"torch": "train", "transformers": "train", "accelerate": "train", "datasets": "hub"}  # else: lab


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
        said = f"{what} needs {package}, which is not installed: pip install 'packlib[{extra}]'"
        raise MissingExtraError(said, name=error.name) from None
