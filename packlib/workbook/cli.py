"""The workbook from the shell: `packlib report my_lengths.csv` answers; `packlib --help` lists the rest."""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from packlib.lengths import available, load
from packlib.packing import plan
from packlib.places import output_path
from packlib.workbook.arguments import parser
from packlib.workbook.running import exit_code, find_notebook, notebooks, read_parameters, run


def _list(options: argparse.Namespace) -> int:
    import nbformat

    listed = {}
    for name, path in notebooks().items():
        cells = nbformat.read(path, as_version=4).cells
        settings = next((cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ())), "")
        lines = [line for line in settings.splitlines() if ":" in line and line[0] != "#"]
        listed[name] = {"title": cells[0].source.splitlines()[0].lstrip("# "), "parameters": lines}
    if options.json:
        print(json.dumps({"notebooks": listed, "data sets": available()}, indent=2))
        return 0
    for name, about in listed.items():
        print(f"{name}: {about['title']}", *(f"    {line}" for line in about["parameters"]), sep="\n")
    print(f"data sets: {', '.join(available())}")
    return 0


def _adjust(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from packlib.training.adjustment import adjust
    from packlib.training.recipe import Recipe

    before = Recipe.from_json(options.recipe)
    after, reasons, error = adjust(before, options.factor, options.how)
    if options.json:
        found = {"before": asdict(before), "after": asdict(after), "reasons": reasons, "error": error}
        print(json.dumps(found, indent=2))
        return 0
    print(f"Before packing. {before}", f"After packing. {after}", "Why:", sep="\n")
    print(*(f"  {reason}" for reason in reasons), sep="\n")
    return 0


def _plan(options: argparse.Namespace) -> int:
    if options.out:
        output_path(options.out)
    histogram = load(options.lengths, options.max_length, options.column, options.overlong)
    limit = {} if options.time_limit is None else {"time_limit": options.time_limit}
    started = time.perf_counter()
    best = plan(histogram, options.method, options.max_sequences_per_pack, **limit)
    seconds = round(time.perf_counter() - started, 3)
    if options.out:
        best.to_json(options.out)
    if options.json:
        found = {name: getattr(best, name) for name in ("method", "max_sequences_per_pack", "num_packs")}
        found |= {
            name: getattr(best, name)
            for name in ("lower_bound", "gap", "packing_factor", "efficiency", "deepest")
        }
        found |= {"truncated": histogram.truncated, "dropped": histogram.dropped, "seconds": seconds}
        print(json.dumps(found, indent=2))
        return 0
    print(histogram, best, sep="\n")
    if options.out:
        print(options.out)
    return 0


def _run(options: argparse.Namespace) -> int:
    if options.until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    notebook = find_notebook(options.notebook)
    values = read_parameters(notebook, options.pairs)
    out = output_path(options.out or Path("out") / notebook, folder=True)
    print(*run(notebook, values, out, not options.no_progress), sep="\n")
    return 0


def _stop_at_eof() -> None:
    """Wait until standard input ends, as it does when the sweep that started this run was killed."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _report(options: argparse.Namespace) -> int:
    from packlib.advisor.advising import cut, lengths_for
    from packlib.workbook.parameters import check_values
    from packlib.workbook.report import NOTEBOOK, report

    names = ("max_length", "max_sequences_per_pack", "overlong", "batch_size")
    values = {name: getattr(options, name) for name in names} | {"quick": not options.thorough}
    if options.recipe:
        values["recipe"] = str(Path(options.recipe).expanduser().resolve())
    check_values(NOTEBOOK, values)
    # What the notebook would refuse is refused now.
    if options.lengths in available() and not options.column:
        lengths = options.lengths
        lengths_for(lengths, options.max_length, options.overlong)
    else:
        lengths = load(options.lengths, column=options.column)
        cut(lengths, options.max_length or lengths.max_length, options.overlong)
    out = output_path(options.out or Path("out") / "report", folder=True)
    made = report(lengths, values, out, not options.no_progress)
    advice = (out / "advice.json").read_text(encoding="utf-8")
    print(advice) if options.json else print(*json.loads(advice)["advice"], *made, sep="\n")
    return 0


def _sweep(options: argparse.Namespace) -> int:
    from packlib.checks import whole_number
    from packlib.workbook.comparison import conclude
    from packlib.workbook.sweep import grid, sweep

    cells = grid(find_notebook(options.notebook), options.pairs)
    out = output_path(options.out or Path("out") / "sweep", folder=True)
    outcomes = sweep(cells, out, whole_number("--jobs", options.jobs, 1), progress=not options.no_progress)
    return conclude(outcomes, out, options.compare, options.json)


def _forget(options: argparse.Namespace) -> int:
    from packlib.workbook.memory import forget

    print(forget())
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "run": _run,
    "report": _report,
    "sweep": _sweep,
    "plan": _plan,
    "adjust": _adjust,
    "forget": _forget,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns an exit code as `exit_code` says."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: COMMANDS[options.command](options))


if __name__ == "__main__":
    sys.exit(main())
