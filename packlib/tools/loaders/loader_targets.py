"""The target of `packlib check --loader`: a function of yours that makes a loader."""

from collections.abc import Callable
from typing import Any

from packlib.tools.check.check_targets import function_of, modules_beside


def check_target(target: str, *, tell: Callable[..., None], **options: Any) -> tuple[str, str, bool | None]:
    """Run `check_loader` on the function that "module:function" or "file.py:function" names.

    The command calls this in a process of its own.

    Args:
        tell: a function that is called with what the check waits for, and for how many seconds at most; and with None
            once the wait is over.
        options: of `check_loader`.

    Returns:
        The findings in words and as JSON, and `LoaderCheck.passed`.

    Raises:
        ValueError, OSError: in one sentence, whatever stopped the check.
    """
    with modules_beside([target]):
        make = function_of(target)
        from packlib.tools.loaders.checking import check_loader  # loads torch, which a refusal does not need
        from packlib.tools.loaders.passes import Caller

        Caller.tell = staticmethod(tell)
        check = check_loader(make, **options)
        return repr(check), check.to_json(), check.passed
