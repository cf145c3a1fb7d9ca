"""The advice as one page of HTML: decisions first, details behind a fold, and no script, image or address."""

import platform
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader

from packlib.advice.advice import Advice
from packlib.advice.today import TODAY
from packlib.advice.words import many, share_of, signed

_BARS = 60  # of the picture of the lengths, at most


def page(advice: Advice, command: str = "") -> str:
    """The page. Names from outside are text in it, and never markup.

    >>> from packlib.advice import advise
    >>> from packlib.advice.page import page
    >>> "<script" in page(advise([5, 3, 3, 2, 8] * 99))
    False

    Args:
        command: what made the report, to be shown on the page.
    """
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    pages.filters |= {"many": many, "share": share_of, "signed": signed, "count": lambda value: f"{value:,.0f}"}
    made = f"{time.strftime('%Y-%m-%d')}, packlib {version('packlib')}, Python {platform.python_version()}"
    return pages.get_template("page.html").render(
        advice=advice,
        bars=_bars(advice),
        row_length_rows=_row_lengths(advice),
        method_rows=_methods(advice),
        depth_rows=_depths(advice),
        recipe_rows=_recipes(advice),
        habits=[(TODAY[one.habit][1].capitalize(), one.slots) for one in (advice.today, *advice.habits)],
        made=made,
        command=command,
    )


def _row_lengths(advice: Advice) -> list[tuple[str, ...]]:
    now = advice.now.skipping
    return [
        (
            f"{row.max_length:,}", f"{row.packs:,}", f"{row.slots:,}", f"{row.slots_a_token:.4f}", f"{row.overlong:,}",
            share_of(row.tokens_cut, advice.whole.num_tokens), f"{row.skipping / now:.3f}", f"{row.dense / now:.3f}",
        )
        for row in advice.row_lengths
    ]  # fmt: skip


def _methods(advice: Advice) -> list[tuple[str, ...]]:
    best = advice.plan.num_packs
    return [
        (one.method, f"{one.num_packs:,}", f"{one.num_packs * advice.row_length:,}", signed(one.num_packs / best - 1))
        for one in advice.plans
    ]


def _depths(advice: Advice) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.depth:,}", f"{one.packs:,}", signed(one.packs / advice.depths[-1].packs - 1), f"{one.bound:,}",
            f"{one.greedy:,}",
        )
        for one in advice.depths
    ]  # fmt: skip


def _recipes(advice: Advice) -> list[tuple[str, ...]]:
    before, after = advice.update.before, advice.update.after
    said = {
        "micro batch": lambda one: f"{one.micro_batch:,}",
        "accumulation": lambda one: f"{one.gradient_accumulation_steps:,}",
        "devices": lambda one: f"{one.replicas:,}",
        "sequences an update": lambda one: f"{one.sequences_per_update:,.1f}",
        "learning rate": lambda one: f"{one.learning_rate:.6g}",
        "betas": lambda one: " and ".join(f"{beta:.6g}" for beta in one.betas),
        "warm-up updates": lambda one: f"{one.warmup_steps:,}",
        "updates": lambda one: f"{one.total_steps:,}",
    }
    return [(name, say(before), say(after)) for name, say in said.items()]


def _bars(advice: Advice) -> list[tuple[int, int, float]]:
    """Ranges of lengths, from and to, with the share of the sequences, up to the longest row that was tried."""
    counts = advice.whole.counts
    top = int(counts.nonzero()[0][-1])
    edges = np.unique(np.linspace(0, top, min(_BARS, top) + 1).astype(int))
    below = np.concatenate([[0], np.cumsum(counts[1:])])[edges]
    shares = (np.diff(below) / advice.whole.num_sequences).tolist()
    return [
        (low + 1, high, share) for low, high, share in zip(edges.tolist(), edges[1:].tolist(), shares, strict=False)
    ]
