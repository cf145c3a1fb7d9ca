"""What `packlib check --loader` is told to check: a function of yours that makes a loader."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packlib.tools.check.check_targets import function_of


def check_target(target: str, *, tell: Callable[..., None], **asked: Any) -> tuple[str, str, bool | None]:
    """Run `check_loader` on the function that "module:function" or "file.py:function" names, in its own process.

    Args:
        tell: gets what is waited for, and for how many seconds at most; None once that came.

    Returns:
        What was found in words and as JSON, and `LoaderCheck.passed`.

    Raises:
        ValueError, OSError: in one sentence, whatever stopped the check.
    """
    before = sys.path[:]
    file = Path(target.rpartition(":")[0])
    sys.path[:0] = [os.getcwd(), *([str(file.resolve().parent)] if file.suffix == ".py" else [])]
    try:
        make = function_of(target)
        from packlib.tools.loaders.checking import check_loader  # loads torch, which a refusal does not need
        from packlib.tools.loaders.passes import Caller

        Caller.tell = staticmethod(tell)
        found = check_loader(make, **asked)
        return repr(found), found.to_json(), found.passed
    finally:
        sys.path[:] = before
