"""Where an error was raised: in packlib, in the code that is checked, or in a package that it uses."""

import os
import sysconfig
import traceback
from pathlib import Path

_PACKLIB = f"{Path(__file__).parents[2]}{os.sep}"
_STANDARD = sysconfig.get_path("stdlib")
_PACKAGES = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")


def is_own(error: BaseException) -> bool:
    """Return True if packlib raised an error on purpose, as a sentence for the user, and no code that it called did."""
    innermost = list(traceback.extract_tb(error.__traceback__))[-1]
    return isinstance(error, ValueError | TypeError) and innermost.filename.startswith(_PACKLIB)


def place_of(error: BaseException) -> str:
    """Name the last line of the checked code, as "file.py, line 3"; of a package if no other code ran; else nothing."""
    named = [(frame.filename, f"{Path(frame.filename).name}, line {frame.lineno}")
             for frame in traceback.extract_tb(error.__traceback__)]  # fmt: skip
    theirs = [place for file, place in named if not file.startswith((_PACKLIB, _STANDARD, *_PACKAGES, "<"))]
    of_packages = [place for file, place in named if file.startswith(_PACKAGES) and "torch" not in Path(file).parts]
    return (theirs or of_packages or [""])[-1]
