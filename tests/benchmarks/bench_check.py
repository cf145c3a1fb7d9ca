"""How many faults of trainings `check_packing` names, how many right ones it accuses, and the CPU seconds of each.

    python -m tests.benchmarks check

prints the table and writes `data/benchmarks/check.csv`. The set-ups are those of tests/check.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from packlib.check import PackingCheck, check_packing
from tests.benchmarks.table import record, show

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest has it


def timed(case: Callable) -> tuple[PackingCheck, float]:
    model, collate, rows, *told = case()
    start = time.process_time()
    found = check_packing(model, collate, rows, **(told[0] if told else {}))
    return found, time.process_time() - start


def main() -> None:
    import check_today as today

    from tests.check import test_check as tests

    rows = []
    for name, right, faults in (("of packs", tests.RIGHT, tests.FAULTS), ("of today", today.RIGHT, today.FAULTS)):
        named, alarms, seconds, missed = 0, 0, [0.0], list[str]()
        for fault, (case, question, words) in faults.items():
            found, took = timed(case)
            hit = found.exact is False and found[question].verdict == "failed" and words in found[question].cause
            named, seconds, missed = named + hit, [*seconds, took], missed + [fault] * (not hit)
        for what, case in right.items():
            found, took = timed(case)
            alarm = found.exact is False
            alarms, seconds, missed = alarms + alarm, [*seconds, took], missed + [what] * alarm
        rows.append({
            "set-ups": name, "faults": len(faults), "named": named, "right": len(right), "false alarms": alarms,
            "CPU seconds, all": f"{sum(seconds):.0f}", "most": f"{max(seconds):.1f}", "wrong": "; ".join(missed),
            "must be": "95 % named, 1 alarm in 60, 30 s each",
        })  # fmt: skip
        show(rows[-1:])
    record("check", rows, "python -m tests.benchmarks check", packages=("torch", "transformers"))
