"""What a sweep found, side by side: a table, a CSV file and a figure."""

import csv
import itertools
import json
import math
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from packbook.figures import OKABE_ITO, label_ends, new_figure, save, styled
from packbook.run.sweep import PICTURE, SUMMARY, Outcome
from packbook.tables import Table
from packlib.arguments import one_line, one_of
from packlib.files import atomic_path
from packlib.tools.exits import sentence


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return a row for each cell: its parameters, whether it ran, its seconds and its results."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.results))
    header = (*outcomes[0].parameters, "state", "seconds", *names)
    rows = []
    for one in outcomes:
        state = "failed" if one.error else "done"
        rows.append((*one.parameters.values(), state, one.seconds, *map(one.results.get, names)))
    return Table(header, rows)


def write_csv(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the table with full digits, and the errors; whole or not at all."""
    whole = table(outcomes)
    with atomic_path(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*whole.header, "error"])
        writer.writerows([*row, one.error] for row, one in zip(whole.rows, outcomes, strict=True))


@styled()
def compared(outcomes: Sequence[Outcome], names: Sequence[str] = ()) -> tuple[Figure, str] | None:
    """Return a figure of the first two numeric results (or of those named) over the sweep, and its alt text.

    Across goes the parameter with the most values; each combination of the others is a line, or points where the
    values across have no order. None if there is nothing to compare.
    """
    values = {name: list(dict.fromkeys(one.parameters[name] for one in outcomes)) for name in outcomes[0].parameters}
    swept = [name for name in values if len(values[name]) > 1]
    first = next((one.results for one in outcomes if one.results), {})
    numbers = list(names) or [name for name, value in first.items() if _is_number(value)][:2]
    if not swept or not numbers:
        return None
    across = max(swept, key=lambda name: len(values[name]))
    others = [name for name in swept if name != across]
    labels = list(map(_label, values[across]))
    ordered = all(value.lower() == "none" or value.replace(".", "").isdigit() for value in values[across])
    fig, axes = new_figure(1, len(numbers), squeeze=False)
    sentences = []
    for ax, number in zip(axes[0], numbers, strict=True):
        ends = {}
        for i, choice in enumerate(itertools.product(*(values[name] for name in others))):
            points = {
                values[across].index(one.parameters[across]): one.results[number]
                for one in outcomes
                if tuple(one.parameters[name] for name in others) == choice and _is_number(one.results.get(number))
            }
            if not points:
                continue
            line_style = ("-", "--", "-.", ":")[i % 4] if ordered else "none"
            style = {"color": OKABE_ITO[i % 7], "marker": "osD^vPX"[i % 7], "linestyle": line_style}
            (line,) = ax.plot(list(points), list(points.values()), **style)
            ends[line] = ", ".join(f"{name} {_label(value)}" for name, value in zip(others, choice, strict=True))
            listed = ", ".join(f"{labels[at]}: {value:.4g}" for at, value in points.items())
            sentences.append(f"{number}{f' with {ends[line]}' if others else ''} by {across} is {listed}")
        ax.set_xticks(range(len(labels)), labels)
        if (letters := sum(map(len, labels)) * len(numbers)) > 40:
            ax.tick_params(axis="x", rotation=30 if letters < 120 else 90)
        title = "\n".join(textwrap.wrap(one_line(number, 100), 52 // len(numbers)))
        ax.set(title=title, xlabel=across, xlim=(-0.3, len(labels) - 0.7))
        if others and ends:
            label_ends(ends)
    return fig, f"{'; '.join(sentences)}."


def conclude(outcomes: Sequence[Outcome], out: Path, names: Sequence[str], as_json: bool) -> int:
    """Write `summary.csv` and the figure, print the table and what failed; return the exit code.

    If there is nothing to compare, the figure of an earlier sweep is removed: it shows other runs.

    Raises:
        ValueError: if a result that is to be drawn was not recorded.
    """
    write_csv(outcomes, out / SUMMARY)
    print(json.dumps([asdict(one) for one in outcomes], indent=2) if as_json else table(outcomes))
    failed = [one for one in outcomes if one.error]
    for one in failed:
        where = ", ".join(f"{name}={value}" for name, value in one.parameters.items())
        print(f"packlib: {sentence(f'failed with {where}: {one.error}')}", file=sys.stderr)
    known = dict.fromkeys(name for one in outcomes for name in one.results)
    if drawn := compared(outcomes, [one_of("a result", name, known) for name in names]):
        save(*drawn, out, PICTURE)
    else:
        for kind in ("svg", "png"):
            (out / f"{PICTURE}.{kind}").unlink(missing_ok=True)
    if not as_json:
        print(*(path for path in (out / SUMMARY, out / f"{PICTURE}.svg") if path.exists()), sep="\n")
    return int(bool(failed))


def _label(value: str) -> str:
    """Return a swept value in a figure: a file by its name alone."""
    return one_line(Path(value).stem if Path(value).suffix else value, 16)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
