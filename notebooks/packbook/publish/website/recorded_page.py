"""The recorded runs as a page of the site, made of their CSV files: what was run, and where each arm ended."""

from collections.abc import Sequence
from typing import Any

from packbook.records import recorded
from packlib.lengths import data_path

MEASURES = ("held_out_loss", "accuracy")  # what a run ends with
_OPENING = """# Recorded runs

Every training run that a chapter speaks of, from the files in `data/runs`: with which command and on which machine it
was recorded, and where it ended, over its seeds. [17_evidence](notebooks/17_evidence.ipynb) compares the arms seed by
seed, which these means cannot do: a difference of two of them has no interval here.
"""


def records_page() -> str:
    """The page, as Markdown."""
    parts = [_OPENING]
    for path in sorted(data_path("runs").glob("*.csv")):
        table = recorded(path.stem, "runs")
        source = f"Recorded with `{table.command}` on {table.device}."
        parts += [f"## {path.stem}", source, _as_markdown(ends(table.rows))]
    return "\n\n".join(parts) + "\n"


def ends(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each arm: the mean, the lowest and the highest end of its runs; what has no runs stays as it is."""
    measure = next((name for name in MEASURES if name in rows[0]), None)
    if measure is None:
        return list(rows)
    names = [name for name in ("arm", "rows", "start") if name in rows[0]]
    last: dict[tuple, dict[int, float]] = {}
    for row in rows:  # those of a run come in order, so its last one stays
        last.setdefault(tuple(row[name] for name in names), {})[row["seed"]] = row[measure]
    said = measure.replace("_", "-", 1).replace("_", " ")
    return [
        dict(zip(names, arm, strict=True))
        | {"runs": len(found), f"{said}, mean": f"{sum(found.values()) / len(found):.3f}"}
        | {"lowest": f"{min(found.values()):.3f}", "highest": f"{max(found.values()):.3f}"}
        for arm, found in last.items()
    ]


def _as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
