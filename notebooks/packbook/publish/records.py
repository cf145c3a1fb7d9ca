"""All recorded training runs on one page, `notebooks/RECORDS.md`, made of the files in `data/runs`.

`python -m packbook.publish.records` writes it; `make notebooks` does so, too.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
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
CONFIDENCE = 0.95  # of all intervals on the page
MEASURES = ("held_out_loss", "accuracy")  # columns of which a run's last value counts

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
    """Yield the parts of the page that compare runs, as Markdown."""
    yield from (_ALL, _table(("asks", "arm", "compared with", "difference", "verdict"), every_arm()))

    yield from (_RATES, _sweep("curriculum-rates-sweep"), "Each arm at its own rate, five new seeds:")
    rates = experiments.paired(experiments.ends_of("curriculum-rates"), experiments.RATE_PAIRS, CONFIDENCE)
    yield _intervals("pair", rates)

    yield from (_SHORT, _intervals("arm", experiments.short_first(CONFIDENCE)), "Time and updates of full rows:")
    yield _table(("arm", "processor time", "updates"), _time_and_updates())

    yield from (_WAYS, _sweep("curriculum-comparison-sweep"), "Each arm at its own rate, against padded:")
    yield _table(("way", "held-out loss less padded", "verdict", "processor time of padded"), _ways())

    yield from (_TUNED, _table(("pair", "points", "verdict"), _tuned_pairs()))

    times = []
    for name in ("curves-lamb", "curves-adamw"):
        share = experiments.shares(name, "cpu_seconds", CONFIDENCE)["divided"]
        times.append((name, f"{_in_percent(share)} (n = {share.seeds})"))
    yield from (_TIME, _table(("experiment", "of the padded time"), times))

    yield from ("## Distance to the bigram", _table(("experiment", "lowest run", "highest run"), distances()))


def _time_and_updates() -> list[tuple[str, str, str]]:
    """Return, for each arm with short rows first, its processor time and updates as shares of those of full rows.

    The updates have no interval, since all seeds make equally many.
    """
    times = experiments.shares("curriculum-length", "cpu_seconds", CONFIDENCE)
    updates = experiments.shares("curriculum-length", "update", CONFIDENCE)
    return [(arm, _in_percent(time), percent(updates[arm].mean)) for arm, time in times.items()]


def _ways() -> list[tuple[str, str, str, str]]:
    """Return, for each way to batch, its loss less that of padded, the verdict, and its share of padded's time."""
    losses = experiments.differences_of("curriculum-comparison", CONFIDENCE)
    times = experiments.shares("curriculum-comparison", "cpu_seconds", CONFIDENCE)
    return [(way, str(loss), loss.verdict, _in_percent(times[way])) for way, loss in losses.items()]


def _tuned_pairs() -> list[tuple[str, str, str]]:
    """Return the difference of the accuracy, in points, of each pair of fine-tuned arms, with its verdict."""
    rows = []
    for pair, points in experiments.fine_tuned(CONFIDENCE).items():
        rows.append((pair, f"{points.mean:+.1f} ± {points.half:.1f} (n = {points.seeds})", points.verdict))
    return rows


def every_arm() -> list[tuple[str, str, str, str, str]]:
    """Compare every arm with its base, with a verdict only where all runs of the base end below the bigram.

    Returns:
        Rows of the table: what the experiment asks, the arm, its base, the interval of the difference, the verdict.
    """
    rows = []
    for name, (asks, base, text) in experiments.EXPERIMENTS.items():
        highest_base_loss = experiments.ends_of(name)[base].max()
        base_beats_bigram = highest_base_loss < experiments.baselines()[text]["bigram"]
        for arm, interval in experiments.differences_of(name, CONFIDENCE).items():
            verdict = interval.verdict if base_beats_bigram else "above the bigram"
            rows.append((asks, arm, base, str(interval), verdict))
    return rows


def distances() -> list[tuple[str, str, str]]:
    """Return, for each experiment, by how much its lowest and its highest run end above the bigram's loss.

    Returns:
        Rows of the table: the experiment, and two differences in nats; a negative one is below the bigram.
    """
    rows = []
    for name, experiment in experiments.EXPERIMENTS.items():
        bigram = experiments.baselines()[experiment.text]["bigram"]
        less_bigram = np.concatenate(list(experiments.ends_of(name).values())) - bigram
        rows.append((f"{experiment.asks} (`{name}`)", f"{less_bigram.min():+.2f}", f"{less_bigram.max():+.2f}"))
    return rows


def _in_percent(interval: Interval) -> str:
    """Return the interval of a share, such as "51.2 % ± 0.8 %"."""
    return f"{percent(interval.mean)} ± {percent(interval.half)}"


def _intervals(header: str, intervals: Mapping[str, Interval]) -> str:
    """Return a table of differences with their verdicts, as Markdown; `header` stands above their names."""
    rows = [(name, str(interval), interval.verdict) for name, interval in intervals.items()]
    return _table((header, "difference", "verdict"), rows)


def _sweep(name: str) -> str:
    """Return a recorded sweep as a table in Markdown, with a row for each arm.

    It has the mean held-out loss at the end for each learning rate, and the rate with the lowest.
    """
    sweep = experiments.swept(name)
    best = best_rates(sweep)
    first_arm = next(iter(sweep.values()))
    rates = list(first_arm)  # all arms tried the same ones
    rows = []
    for arm, losses_by_rate in sweep.items():
        means = (f"{losses_by_rate[rate].mean():.3f}" for rate in rates)
        rows.append((arm, *means, f"{best[arm]:g}"))
    return _table(("arm", *(f"at {rate:g}" for rate in rates), "best rate"), rows)


def _files() -> Iterable[str]:
    """Yield, for each file in `data/runs`, how it was recorded and where its arms ended, as Markdown."""
    for path in sorted(data_path("runs").glob("*.csv")):
        table = recorded(path.stem, "runs")
        listed = ends(table.rows)
        yield from (f"### {path.stem}", f"Recorded with `{table.command}` on {table.device}.")
        yield _table(tuple(listed[0]), [tuple(row.values()) for row in listed])


def ends(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each arm: how many runs it has, and the mean, lowest and highest of where they ended.

    Args:
        rows: a recorded table. Where it has a column of `MEASURES`, it has the runs of all arms, each as rows in the
            order of training. A table without such a column is returned as it is.
    """
    measure = next((name for name in MEASURES if name in rows[0]), None)
    if measure is None:
        return list(rows)
    arm_columns = [name for name in ("arm", "rows", "start") if name in rows[0]]
    ends_by_arm: dict[tuple, dict[int, float]] = {}  # then by seed
    for row in rows:
        arm = tuple(row[name] for name in arm_columns)
        ends_by_arm.setdefault(arm, {})[row["seed"]] = row[measure]  # later rows of a run replace earlier ones
    label = measure.replace("_", "-", 1).replace("_", " ")  # held-out loss
    arms = []
    for arm, end_by_seed in ends_by_arm.items():
        values = list(end_by_seed.values())
        about_arm = dict(zip(arm_columns, arm, strict=True))
        about_arm["runs"] = len(values)
        about_arm[f"{label}, mean"] = f"{fmean(values):.3f}"  # `sum` rounds otherwise since Python 3.12
        about_arm["lowest"] = f"{min(values):.3f}"
        about_arm["highest"] = f"{max(values):.3f}"
        arms.append(about_arm)
    return arms


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown; whole numbers have their thousands set off."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def update_page() -> None:
    """Write `notebooks/RECORDS.md`."""
    write_text(running.NOTEBOOKS / PAGE, records_page())


if __name__ == "__main__":
    sys.exit(exit_code(update_page))
