"""The advice as one page of HTML: decisions first, details behind a fold, and no script, image or address."""

import platform
import time
from itertools import pairwise

import numpy as np

from packlib.installed import __version__
from packlib.tools.advice import sentences
from packlib.tools.advice.advice import Advice
from packlib.tools.advice.words import filled, longest

_BARS = 60  # of the picture of the lengths, at most


def page(advice: Advice, command: str = "") -> str:
    """Write the page. Names from outside are text in it, and never markup.

    >>> from packlib import advise
    >>> from packlib.tools.advice.page import page
    >>> "<script" in page(advise([5, 3, 3, 2, 8] * 99))
    False

    Args:
        command: what made the report, to be shown on the page.
    """
    made = f"{time.strftime('%Y-%m-%d')}, packlib {__version__}, Python {platform.python_version()}"
    return filled(
        "page.html",
        autoescape=True,
        words=sentences,
        advice=advice,
        bars=_bars(advice),
        habits=[(one.in_words.capitalize(), one.slots) for one in (advice.today, *advice.habits)],
        update=_update(advice),
        made=made,
        command=command,
    )


def _update(advice: Advice) -> list[tuple[str, str, str]]:
    """Make the table of an update: what, today, and packed; with the recipe, if there is one."""
    if advice.update is None:
        return []
    before, after = advice.update.before, advice.update.after
    rows = [
        ("micro batch", f"{before.micro_batch:,}", f"{after.micro_batch:,}"),
        ("accumulation", f"{before.gradient_accumulation_steps:,}", f"{after.gradient_accumulation_steps:,}"),
        ("devices", f"{before.replicas:,}", f"{after.replicas:,}"),
        ("sequences per update", f"{before.sequences_per_update:,.1f}", f"{after.sequences_per_update:,.1f}"),
    ]
    if advice.recipe is None or (packed := advice.packed_recipe) is None:
        return rows
    old = advice.recipe
    return [
        *rows,
        ("learning rate", f"{old.learning_rate:.6g}", f"{packed.learning_rate:.6g}"),
        ("betas", "{:.6g} and {:.6g}".format(*old.betas), "{:.6g} and {:.6g}".format(*packed.betas)),
        ("warm-up updates", f"{old.warmup_steps:,}", f"{packed.warmup_steps:,}"),
        ("updates", f"{old.total_steps:,}", f"{packed.total_steps:,}"),
    ]


def _bars(advice: Advice) -> list[tuple[int, int, float]]:
    """Divide lengths into ranges, from and to, each with its share of the sequences, up to the longest row tried."""
    top = longest(advice.whole)
    edges = np.unique(np.linspace(0, top, min(_BARS, top) + 1).astype(int))
    below = np.concatenate([[0], np.cumsum(advice.whole.counts[1:])])[edges]
    shares = (np.diff(below) / advice.whole.num_sequences).tolist()
    return [(low + 1, high, share) for (low, high), share in zip(pairwise(edges.tolist()), shares, strict=True)]
