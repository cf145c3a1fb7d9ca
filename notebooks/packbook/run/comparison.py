"""Compare the runs of a sweep: a table, a CSV file and a figure.

A cell of a sweep is one combination of parameters (`packbook.run.sweep.Cell`), an outcome what its run gave.
"""

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
    result_names = _result_names(outcomes)
    header = (*outcomes[0].parameters, "state", "seconds", *result_names)
    rows = []
    for outcome in outcomes:
        state = "failed" if outcome.error else "done"
        results = [outcome.results.get(name) for name in result_names]
        rows.append((*outcome.parameters.values(), state, outcome.seconds, *results))
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
    """Return a figure that compares results over the sweep, and its alt text; None if there is nothing to compare.

    Each result has a panel. The parameter with the most values is on the x axis; each combination of the others makes a
    line, or points if the values on the x axis have no order.

    Args:
        names: the results to draw; by default the first two that are numbers.
    """
    values_by_parameter: dict[str, list[str]] = {}
    for name in outcomes[0].parameters:
        values_by_parameter[name] = list(dict.fromkeys(outcome.parameters[name] for outcome in outcomes))
    swept = [name for name, values in values_by_parameter.items() if len(values) > 1]
    first_results = next((outcome.results for outcome in outcomes if outcome.results), {})
    result_names = list(names) or [name for name, value in first_results.items() if _is_number(value)][:2]
    if not swept or not result_names:
        return None

    across = max(swept, key=lambda name: len(values_by_parameter[name]))  # the parameter on the x axis
    other_parameters = [name for name in swept if name != across]
    values_across = values_by_parameter[across]
    tick_labels = list(map(_label, values_across))
    ordered = all(value.lower() == "none" or value.replace(".", "").isdigit() for value in values_across)

    fig, axes = new_figure(1, len(result_names), squeeze=False)
    sentences = []
    for ax, result_name in zip(axes[0], result_names, strict=True):
        label_by_line = {}
        combinations = itertools.product(*(values_by_parameter[name] for name in other_parameters))
        for i, combination in enumerate(combinations):
            on_line = dict(zip(other_parameters, combination, strict=True))
            result_by_position: dict[int, Any] = {}  # the position on the x axis
            for outcome in outcomes:
                is_on_line = all(outcome.parameters[name] == value for name, value in on_line.items())
                if is_on_line and _is_number(outcome.results.get(result_name)):
                    position = values_across.index(outcome.parameters[across])
                    result_by_position[position] = outcome.results[result_name]
            if not result_by_position:  # all runs of this line failed
                continue
            line_style = ("-", "--", "-.", ":")[i % 4] if ordered else "none"
            style = {"color": OKABE_ITO[i % 7], "marker": "osD^vPX"[i % 7], "linestyle": line_style}
            (line,) = ax.plot(list(result_by_position), list(result_by_position.values()), **style)
            label_by_line[line] = ", ".join(f"{name} {_label(value)}" for name, value in on_line.items())

            condition = f" with {label_by_line[line]}" if other_parameters else ""
            listed = ", ".join(f"{tick_labels[at]}: {value:.4g}" for at, value in result_by_position.items())
            sentences.append(f"{result_name}{condition} by {across} is {listed}")

        ax.set_xticks(range(len(tick_labels)), tick_labels)
        letters = sum(map(len, tick_labels)) * len(result_names)  # below the whole figure
        if letters > 40:
            ax.tick_params(axis="x", rotation=30 if letters < 120 else 90)
        title = "\n".join(
            textwrap.wrap(one_line(result_name, 100), 52 // len(result_names))
        )  # 52 letters fit on a line
        ax.set(title=title, xlabel=across, xlim=(-0.3, len(tick_labels) - 0.7))
        if other_parameters and label_by_line:
            label_ends(label_by_line)
    return fig, f"{'; '.join(sentences)}."


def conclude(outcomes: Sequence[Outcome], out: Path, names: Sequence[str], as_json: bool) -> int:
    """Write `summary.csv` and the figure into `out`, and print the table and what failed.

    If there is nothing to compare, the figure of an earlier sweep is removed: it shows other runs.

    Args:
        names: the results to draw; if empty, `compared` chooses them.
        as_json: whether to print JSON instead of the table.

    Returns:
        The exit code: 1 if a run failed, otherwise 0.

    Raises:
        ValueError: if a result that is to be drawn was not recorded.
    """
    write_csv(outcomes, out / SUMMARY)
    print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2) if as_json else table(outcomes))
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        parameters = ", ".join(f"{name}={value}" for name, value in outcome.parameters.items())
        print(f"packlib: {sentence(f'failed with {parameters}: {outcome.error}')}", file=sys.stderr)
    recorded_names = _result_names(outcomes)
    if drawn := compared(outcomes, [one_of("a result", name, recorded_names) for name in names]):
        figure, alt = drawn
        save(figure, alt, out, PICTURE)
    else:
        for kind in ("svg", "png"):
            (out / f"{PICTURE}.{kind}").unlink(missing_ok=True)
    if not as_json:
        print(*(path for path in (out / SUMMARY, out / f"{PICTURE}.svg") if path.exists()), sep="\n")
    return 1 if failed else 0


def _result_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of all results, each once, in the order in which they were recorded."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.results))


def _label(value: str) -> str:
    """Return a swept value as a figure shows it: of a file its name without folder and ending."""
    return one_line(Path(value).stem if Path(value).suffix else value, 16)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
