"""Progress bars: where they are asked for, and by default where somebody waits at a terminal."""

import sys
from typing import Any

from packlib.arguments import flag

PATIENCE = 2  # seconds that work takes before a bar comes by itself


def wanted(progress: Any) -> bool | None:
    """Return `progress` as True, False or None, which `progress_bar` takes; or raise a TypeError."""
    return None if progress is None else flag("progress", progress)


def progress_bar(*items: Any, progress: bool | None, delay: float = 0, **options: Any) -> Any:
    """Make a bar of tqdm.

    Args:
        items: what it goes through, if anything.
        progress: True for a bar, False for none. By default, None, it comes where stderr is a terminal and the work
            takes more than two seconds, and it is taken away at the end.
        delay: seconds after which it comes if it was asked for.
        options: of tqdm.
    """
    if progress:
        from tqdm.auto import tqdm  # here, since few calls need it
    else:
        from tqdm import tqdm
    if progress is None:
        options |= {"leave": False}
    hidden = progress is False or (progress is None and not sys.stderr.isatty())
    return tqdm(*items, disable=hidden, delay=PATIENCE if progress is None else delay, **options)
