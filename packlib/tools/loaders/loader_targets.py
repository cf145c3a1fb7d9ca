"""What `packlib check --loader` is told to check: a function of yours that makes a loader."""

import os
import sys
from pathlib import Path
from typing import Any

from packlib.tools.check.check_targets import function_of
from packlib.tools.loaders.loader_check import LoaderCheck


def check_target(target: str, **asked: Any) -> LoaderCheck:
    """`check_loader` of the function that "module:function" or "file.py:function" names.

    Raises:
        ValueError, OSError: in one sentence, whatever stopped the check.
    """
    before = sys.path[:]
    file = Path(target.rpartition(":")[0])
    sys.path[:0] = [os.getcwd(), *([str(file.resolve().parent)] if file.suffix == ".py" else [])]
    try:
        make = function_of(target)
        from packlib.tools.loaders.checking import check_loader  # loads torch, which a refusal does not need

        return check_loader(make, **asked)
    finally:
        sys.path[:] = before
