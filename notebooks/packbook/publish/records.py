"""All recorded training runs on one page, `notebooks/RECORDS.md`, made of the files in `data/runs`.

`python -m packbook.publish.records` writes it; `make notebooks` does so, too.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from packbook.records import recorded
from packbook.run import running
from packbook.shared import recorded_experiments as experiments
from packbook.shared.recorded_runs import Interval, best_rates
from packlib.arguments import percent
from packlib.files import write_text
from packlib.lengths import data_path
from packlib.tools.exits import exit_code

PAGE = "RECORDS.md"
CONFIDENCE = 0.95
MEASURES = ("held_out_loss", "accuracy")  # what a run ends with

_OPENING = """# Records

Every training run that a chapter speaks of, from the files in `data/runs`: what was compared, how sure the difference
is, with which command and on which machine it was recorded, and where it ended. All models are small, and run on a
processor. [17_evidence](17_evidence.ipynb) explains intervals, sweeps and baselines.

`python -m packbook.publish.records` makes this page; nothing on it is written by hand but the words between the tables.
An interval is Student's, of the differences seed by seed, and holds the true mean with 95 %. If it includes 0, the
verdict is "inconclusive". Of so many intervals about one in twenty misses the true difference."""

_ALL = """## Every arm against its base

The difference of the held-out loss at the end. Where a run of the base ends above the **bigram**, which only counts
neighbors, there is no verdict: such a model has not shown that it uses more than a neighbor."""

_RATES = """## Batches by tokens: rules for the rate

Three rules for the rate and two orders, on the functions of Python's library, byte by byte, about eight functions in an
update. Each arm looked for its own rate in a sweep: short runs on a third of the functions, with two seeds that the
longer runs do not use. One rate for all arms would have judged the rate and not the rule.

The mean held-out loss of the sweep, by rate:"""

_SHORT = """## Short rows first

All arms read the same number of bytes. "0.3, truncated": rows grow from 8 bytes for 30 % of the updates that full rows
would take, and the rest of each row is dropped. "Reshaped": a row becomes several, and nothing is dropped. The last
arms have a rate of their own, the best of a sweep on two other seeds; all others have that of full rows. The difference
of the held-out loss to full rows:"""

_WAYS = """## Five ways to batch

The same 6,257 functions, about eight in an update: padded to 256 bytes, bucketed by length and padded to the longest,
by a token budget with the square-root rule, nested (tensors that hold rows of any length), and packed. Nested computes
the loss that padded computes. The mean held-out loss of the sweep, by rate:"""

_TUNED = """## Fine-tuning

Differences of the accuracy in points. The task *lexname* asks to which of 45 kinds a word belongs, *span* which words
of a definition stand in its example. A run starts from random weights or from a checkpoint. All runs from a checkpoint
begin with the same one, so these intervals reflect the randomness of fine-tuning, and not of pre-training."""

_TIME = """## Processor time of packed runs

Packed with divided accumulation, as a share of the padded runs; the packing factor is about 2.1."""

_FILES = """## The files

Where each arm ended, over its seeds. A difference of two of these means has no interval here."""


def records_page() -> str:
    """Return the page, as Markdown."""
    return "\n\n".join([_OPENING, *_compared(), _FILES, *_files()]) + "\n"


def _compared() -> Iterable[str]:
    """Yield the parts with intervals."""
    yield from (_ALL, _table(("asks", "arm", "compared with", "difference", "verdict"), every_arm()))
    yield from (_RATES, _sweep("curriculum-rates-sweep"), "Each arm at its own rate, five new seeds:")
    rates = experiments.paired(experiments.ends_of("curriculum-rates"), experiments.RATE_PAIRS, CONFIDENCE)
    yield _intervals("pair", rates)
    rows: list[tuple[str, ...]]
    yield from (_SHORT, _intervals("arm", experiments.short_first(CONFIDENCE)), "Time and updates of full rows:")
    times = experiments.shares("curriculum-length", "cpu_seconds", CONFIDENCE)
    updates = experiments.shares("curriculum-length", "update", CONFIDENCE)
    rows = [(arm, _in_percent(interval), percent(updates[arm].mean)) for arm, interval in times.items()]
    yield _table(("arm", "processor time", "updates"), rows)
    yield from (_WAYS, _sweep("curriculum-comparison-sweep"), "Each arm at its own rate, against padded:")
    times = experiments.shares("curriculum-comparison", "cpu_seconds", CONFIDENCE)
    losses = experiments.differences_of("curriculum-comparison", CONFIDENCE)
    rows = [
        (method, str(interval), interval.verdict, _in_percent(times[method])) for method, interval in losses.items()
    ]
    yield _table(("way", "held-out loss less padded", "verdict", "processor time of padded"), rows)
    tuned = experiments.fine_tuned(CONFIDENCE)
    rows = [
        (name, f"{interval.mean:+.1f} ± {interval.half:.1f} (n = {interval.seeds})", interval.verdict)
        for name, interval in tuned.items()
    ]
    yield from (_TUNED, _table(("pair", "points", "verdict"), rows))
    times = {
        name: experiments.shares(name, "cpu_seconds", CONFIDENCE)["divided"]
        for name in ("curves-lamb", "curves-adamw")
    }
    rows = [(name, f"{_in_percent(interval)} (n = {interval.seeds})") for name, interval in times.items()]
    yield from (_TIME, _table(("experiment", "of the padded time"), rows))
    yield from ("## Distance to the bigram", _table(("experiment", "lowest run", "highest run"), distances()))


def every_arm() -> list[tuple[str, ...]]:
    """Compare every arm with its base, with a verdict where the base has learned more than neighbors."""
    rows: list[tuple[str, ...]] = []
    for name, (asks, base, text) in experiments.EXPERIMENTS.items():
        learned = experiments.ends_of(name)[base].max() < experiments.baselines()[text]["bigram"]
        for arm, interval in experiments.differences_of(name, CONFIDENCE).items():
            rows.append((asks, arm, base, str(interval), interval.verdict if learned else "above the bigram"))
    return rows


def distances() -> list[tuple[str, str, str]]:
    """Return, by experiment, the held-out loss at the end less the bigram's, of its lowest and its highest run."""
    rows = []
    for name, experiment in experiments.EXPERIMENTS.items():
        bigram = experiments.baselines()[experiment.text]["bigram"]
        less_bigram = np.concatenate(list(experiments.ends_of(name).values())) - bigram
        rows.append((f"{experiment.asks} (`{name}`)", f"{less_bigram.min():+.2f}", f"{less_bigram.max():+.2f}"))
    return rows


def _in_percent(interval: Interval) -> str:
    return f"{percent(interval.mean)} ± {percent(interval.half)}"


def _intervals(header: str, intervals: Mapping[str, Interval]) -> str:
    rows = [(name, str(interval), interval.verdict) for name, interval in intervals.items()]
    return _table((header, "difference", "verdict"), rows)


def _sweep(name: str) -> str:
    """Return a row an arm: the mean at the end for each rate of a sweep, and the rate where it is lowest."""
    tried = experiments.swept(name)
    best, rates = best_rates(tried), list(next(iter(tried.values())))
    rows = []
    for arm, losses_by_rate in tried.items():
        means = (f"{losses_by_rate[rate].mean():.3f}" for rate in rates)
        rows.append((arm, *means, f"{best[arm]:g}"))
    return _table(("arm", *(f"at {rate:g}" for rate in rates), "best rate"), rows)


def _files() -> Iterable[str]:
    for path in sorted(data_path("runs").glob("*.csv")):
        table = recorded(path.stem, "runs")
        listed = ends(table.rows)
        yield from (f"### {path.stem}", f"Recorded with `{table.command}` on {table.device}.")
        yield _table(tuple(listed[0]), [tuple(row.values()) for row in listed])


def ends(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make a row for each arm: mean, lowest and highest end of its runs; an arm without runs stays as it is."""
    measure = next((name for name in MEASURES if name in rows[0]), None)
    if measure is None:
        return list(rows)
    names = [name for name in ("arm", "rows", "start") if name in rows[0]]
    ends_by_arm: dict[tuple, dict[int, float]] = {}
    for row in rows:  # those of a run come in order, so its last one stays
        ends_by_arm.setdefault(tuple(row[name] for name in names), {})[row["seed"]] = row[measure]
    label = measure.replace("_", "-", 1).replace("_", " ")
    arms = []
    for arm, value_by_seed in ends_by_arm.items():
        values = list(value_by_seed.values())
        about_arm = dict(zip(names, arm, strict=True))
        about_arm |= {"runs": len(values), f"{label}, mean": f"{sum(values) / len(values):.3f}"}
        about_arm |= {"lowest": f"{min(values):.3f}", "highest": f"{max(values):.3f}"}
        arms.append(about_arm)
    return arms


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    words = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    lines = [header, ["---"] * len(header), *words]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def update_page() -> None:
    """Write the page anew."""
    write_text(running.NOTEBOOKS / PAGE, records_page())


if __name__ == "__main__":
    sys.exit(exit_code(update_page))
