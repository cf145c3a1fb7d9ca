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
    for outcome in outcomes:
        state = "failed" if outcome.error else "done"
        rows.append((*outcome.parameters.values(), state, outcome.seconds, *map(outcome.results.get, names)))
    return Table(header, rows)


def write_csv(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the table with full digits, and the errors; whole or not at all."""
    rows_table = table(outcomes)
    with atomic_path(path) as temporary_path, temporary_path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*rows_table.header, "error"])
        writer.writerows([*row, outcome.error] for row, outcome in zip(rows_table.rows, outcomes, strict=True))


@styled()
def compared(outcomes: Sequence[Outcome], names: Sequence[str] = ()) -> tuple[Figure, str] | None:
    """Return a figure of the first two numeric results (or of those named) over the sweep, and its alt text.

    Across goes the parameter with the most values; each combination of the others is a line, or points where the
    values across have no order. None if there is nothing to compare.
    """
    values = {}
    for name in outcomes[0].parameters:
        values[name] = list(dict.fromkeys(outcome.parameters[name] for outcome in outcomes))
    swept = [name for name in values if len(values[name]) > 1]
    first_results = next((outcome.results for outcome in outcomes if outcome.results), {})
    numbers = list(names) or [name for name, value in first_results.items() if _is_number(value)][:2]
    if not swept or not numbers:
        return None
    across = max(swept, key=lambda name: len(values[name]))
    other_parameters = [name for name in swept if name != across]
    labels = list(map(_label, values[across]))
    ordered = all(value.lower() == "none" or value.replace(".", "").isdigit() for value in values[across])
    fig, axes = new_figure(1, len(numbers), squeeze=False)
    sentences = []
    for ax, number in zip(axes[0], numbers, strict=True):
        label_by_line = {}
        for i, choice in enumerate(itertools.product(*(values[name] for name in other_parameters))):
            points = {}
            for outcome in outcomes:
                is_on_line = tuple(outcome.parameters[name] for name in other_parameters) == choice
                if is_on_line and _is_number(outcome.results.get(number)):
                    points[values[across].index(outcome.parameters[across])] = outcome.results[number]
            if not points:
                continue
            line_style = ("-", "--", "-.", ":")[i % 4] if ordered else "none"
            style = {"color": OKABE_ITO[i % 7], "marker": "osD^vPX"[i % 7], "linestyle": line_style}
            (line,) = ax.plot(list(points), list(points.values()), **style)
            chosen = zip(other_parameters, choice, strict=True)
            label_by_line[line] = ", ".join(f"{name} {_label(value)}" for name, value in chosen)
            condition = f" with {label_by_line[line]}" if other_parameters else ""
            listed = ", ".join(f"{labels[position]}: {value:.4g}" for position, value in points.items())
            sentences.append(f"{number}{condition} by {across} is {listed}")
        ax.set_xticks(range(len(labels)), labels)
        if (letters := sum(map(len, labels)) * len(numbers)) > 40:
            ax.tick_params(axis="x", rotation=30 if letters < 120 else 90)
        title = "\n".join(textwrap.wrap(one_line(number, 100), 52 // len(numbers)))
        ax.set(title=title, xlabel=across, xlim=(-0.3, len(labels) - 0.7))
        if other_parameters and label_by_line:
            label_ends(label_by_line)
    return fig, f"{'; '.join(sentences)}."


def conclude(outcomes: Sequence[Outcome], out: Path, names: Sequence[str], as_json: bool) -> int:
    """Write `summary.csv` and the figure, print the table and what failed; return the exit code.

    If there is nothing to compare, the figure of an earlier sweep is removed: it shows other runs.

    Raises:
        ValueError: if a result that is to be drawn was not recorded.
    """
    write_csv(outcomes, out / SUMMARY)
    print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2) if as_json else table(outcomes))
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        parameters = ", ".join(f"{name}={value}" for name, value in outcome.parameters.items())
        print(f"packlib: {sentence(f'failed with {parameters}: {outcome.error}')}", file=sys.stderr)
    result_names = dict.fromkeys(name for outcome in outcomes for name in outcome.results)
    if drawn := compared(outcomes, [one_of("a result", name, result_names) for name in names]):
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
