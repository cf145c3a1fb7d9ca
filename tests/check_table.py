"""What `check_packing` finds in each set-up after public reports, as a table.

`python check_table.py` in this folder writes it anew.
"""

import csv
from pathlib import Path

import check_beyond as beyond
import check_later as later
import check_reports as reports

from packlib.tools.check import PackingCheck, check_packing

TABLE = Path(__file__).parent / "tools" / "check" / "set_ups.csv"
COLUMNS = "kind", "made", "set_up", "exact", "failed", "cannot_be_told", "not_asked"
RIGHT = {**reports.RIGHT, **later.RIGHT, **beyond.RIGHT}
FAULTS = {**reports.FAULTS, **later.FAULTS, **beyond.FAULTS}


def checked(case: tuple) -> PackingCheck:
    model, collate, rows, *options = case
    return check_packing(model, collate, rows, **(options[0] if options else {}))


def row(kind: str, name: str, found: PackingCheck) -> dict[str, str]:
    """A line of the table."""
    is_later = any(name in getattr(later, table) for table in ("RIGHT", "FAULTS", "MISSED"))
    made = "after the code" if is_later and name not in later.CHANGED else "with it"
    verdicts = {verdict: "; ".join(one.question for one in found.findings if one.verdict == verdict)
                for verdict in ("failed", "cannot be told", "not asked")}  # fmt: skip
    return dict(zip(COLUMNS, (kind, made, name, str(found.exact), *verdicts.values()), strict=True))


def recorded() -> dict[str, dict[str, str]]:
    """The lines of the table, by set-up."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {line["set_up"]: line for line in csv.DictReader(file)}


def write() -> None:
    """Check each set-up and write the table."""
    made = {name: case() for name, case in RIGHT.items()} | {name: case[0]() for name, case in FAULTS.items()}
    kinds = dict.fromkeys(RIGHT, "right") | dict.fromkeys(FAULTS, "faulty") | dict.fromkeys(later.MISSED, "missed")
    made |= {name: case() for name, case in later.MISSED.items()}
    rows = [row(kind, name, checked(made[name])) for name, kind in kinds.items()]  # before the old table goes
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


if __name__ == "__main__":
    write()
