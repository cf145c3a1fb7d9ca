"""What `check_packing` finds in each set-up after public reports, as a table.

`python check_table.py` in this folder writes it anew.
"""

import csv
import time
from pathlib import Path

import check_beyond as beyond
import check_fifth as fifth
import check_fourth as fourth
import check_kinds as kinds
import check_later as later
import check_public as public
import check_reports as reports
import check_second as second
import check_seventh as seventh
import check_sixth as sixth
import check_third as third

from packlib.tools.check import PackingCheck, check_packing

TABLE = Path(__file__).parent / "tools" / "check" / "set_ups.csv"
COLUMNS = "kind", "made", "report", "set_up", "exact", "failed", "inconclusive", "not_asked", "cpu_seconds"
RIGHT = {
    **reports.RIGHT,
    **later.RIGHT,
    **beyond.RIGHT,
    **public.RIGHT,
    **kinds.RIGHT,
    **second.RIGHT,
    **third.RIGHT,
    **fourth.RIGHT,
    **fifth.RIGHT,
    **sixth.RIGHT,
}
FAULTS = {
    **reports.FAULTS,
    **later.FAULTS,
    **beyond.FAULTS,
    **public.FAULTS,
    **kinds.FAULTS,
    **second.FAULTS,
    **third.FAULTS,
    **fourth.FAULTS,
    **fifth.FAULTS,
    **sixth.FAULTS,
    **seventh.FAULTS,
}
INCONCLUSIVE = kinds.OPEN | second.OPEN | third.OPEN | fourth.OPEN | fifth.OPEN | sixth.OPEN
OPEN = {
    **later.MISSED,
    **{name: case[0] for name, case in INCONCLUSIVE.items()},
}  # missed, or inconclusive
REPORTS = {  # of set-ups whose names say less
    "axolotl 1375": "axolotl-ai-cloud/axolotl#1375",
    "LlamaFactory 7754": "hiyouga/LlamaFactory#7754",
    "nanoVLM 204": "huggingface/nanoVLM#204",
    "Megatron-Bridge 4660": "NVIDIA-NeMo/Megatron-Bridge#4660",
    "OpenNMT 2209": "OpenNMT/OpenNMT-py#2209",
    "torchtune 1917": "pytorch/torchtune#1917",
    "transformers 34373": "huggingface/transformers#34373",
    "nanoGPT 206": "karpathy/nanoGPT#206",
    "transformers 34191": "huggingface/transformers#34191",
}


def report_of(name: str) -> str:
    """The public report that a set-up is made after, as owner/repo#number; empty without one."""
    first = name.partition(", ")[0]
    return first if "#" in first else REPORTS.get(first, "")


def checked(case: tuple) -> PackingCheck:
    model, collate, rows, *options = case
    return check_packing(model, collate, rows, **(options[0] if options else {}))


def row(kind: str, name: str, found: PackingCheck) -> dict[str, str]:
    """A line of the table, but for the time that it took."""
    files = later, public, kinds, second, third, fourth, fifth, sixth
    after = set(OPEN).union(*((file.RIGHT | file.FAULTS).keys() for file in files))
    changed = {name for file in files for name in file.CHANGED}
    made = "after the code" if name in after - changed else "with it"
    verdicts = {verdict: "; ".join(one.question for one in found.findings if one.verdict == verdict)
                for verdict in ("failed", "inconclusive", "not asked")}  # fmt: skip
    return dict(
        zip(COLUMNS[:-1], (kind, made, report_of(name), name, str(found.exact), *verdicts.values()), strict=True)
    )


def recorded() -> dict[str, dict[str, str]]:
    """The lines of the table, by set-up."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {line["set_up"]: line for line in csv.DictReader(file)}


def timed(kind: str, name: str, case: tuple) -> dict[str, str]:
    """A line of the table, of a set-up that is checked now."""
    before = time.process_time()
    found = checked(case)
    return row(kind, name, found) | {"cpu_seconds": f"{time.process_time() - before:.1f}"}


def write() -> None:
    """Check each set-up and write the table."""
    made = {name: case() for name, case in RIGHT.items()} | {name: case[0]() for name, case in FAULTS.items()}
    kind_of = dict.fromkeys(RIGHT, "right") | dict.fromkeys(FAULTS, "faulty") | dict.fromkeys(OPEN, "missed")
    made |= {name: case() for name, case in OPEN.items()}
    rows = [timed(kind, name, made[name]) for name, kind in kind_of.items()]  # before the old table goes
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


if __name__ == "__main__":
    write()
