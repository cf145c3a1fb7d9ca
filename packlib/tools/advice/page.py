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
    """Return the page as HTML. Names from outside are text in it, and never markup.

    >>> from packlib import advise
    >>> from packlib.tools.advice.page import page
    >>> "<script" in page(advise([5, 3, 3, 2, 8] * 99))
    False

    Args:
        command: the command that made the report, to be shown on the page.
    """
    origin = f"{time.strftime('%Y-%m-%d')}, packlib {__version__}, Python {platform.python_version()}"
    return filled(
        "page.html",
        autoescape=True,
        words=sentences,
        advice=advice,
        bars=_bars(advice),
        habits=[(batches.in_words.capitalize(), batches.slots) for batches in (advice.today, *advice.habits)],
        update=_update(advice),
        origin=origin,
        command=command,
    )


def _update(advice: Advice) -> list[tuple[str, str, str]]:
    """Return the table of an update: names, values today, values with packs; with the recipe, if it is known."""
    if advice.update is None:
        return []
    today, packed = advice.update.before, advice.update.after
    rows = [
        ("micro batch", f"{today.micro_batch:,}", f"{packed.micro_batch:,}"),
        ("accumulation", f"{today.gradient_accumulation_steps:,}", f"{packed.gradient_accumulation_steps:,}"),
        ("devices", f"{today.replicas:,}", f"{packed.replicas:,}"),
        ("sequences per update", f"{today.sequences_per_update:,.1f}", f"{packed.sequences_per_update:,.1f}"),
    ]
    if advice.recipe is None or (packed_recipe := advice.packed_recipe) is None:
        return rows
    recipe = advice.recipe
    return [
        *rows,
        ("learning rate", f"{recipe.learning_rate:.6g}", f"{packed_recipe.learning_rate:.6g}"),
        ("betas", "{:.6g} and {:.6g}".format(*recipe.betas), "{:.6g} and {:.6g}".format(*packed_recipe.betas)),
        ("warm-up updates", f"{recipe.warmup_steps:,}", f"{packed_recipe.warmup_steps:,}"),
        ("updates", f"{recipe.total_steps:,}", f"{packed_recipe.total_steps:,}"),
    ]


def _bars(advice: Advice) -> list[tuple[int, int, float]]:
    """Return ranges of lengths up to the longest sequence: first length, last length, and share of the sequences."""
    top = longest(advice.whole)
    edges = np.unique(np.linspace(0, top, min(_BARS, top) + 1).astype(int))  # the last length of each range, after 0
    sequences_up_to = np.append(0, np.cumsum(advice.whole.counts[1:]))[edges]
    shares = (np.diff(sequences_up_to) / advice.whole.num_sequences).tolist()
    return [(low + 1, high, share) for (low, high), share in zip(pairwise(edges.tolist()), shares, strict=True)]
