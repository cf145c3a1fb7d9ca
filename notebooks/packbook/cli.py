"""The notebooks from the shell: `packbook run 2` runs one with parameters of yours, `packbook sweep` with many.
`packbook new` makes a new chapter.

Exit codes: 0 done; 1 a notebook failed; 2 a wrong command, parameter or file; 130 interrupted; 141 output pipe
closed; 143 terminated.
"""

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import click

from packbook.run.running import find_notebook, notebooks, read_parameters, run
from packlib.files import output_path, work_folder
from packlib.installed import checkout_path
from packlib.tools.exits import Commands, call

_CODES = (__doc__ or "").partition("\n\n")[2].strip()  # the exit codes, which each help ends with


@click.group("packbook", cls=Commands, epilog=_CODES)
@click.version_option(package_name="packlib", prog_name="packbook", message="%(prog)s %(version)s")
def program() -> None:
    """Run the notebooks of the packing workbook with parameters of your own."""


Pairs: TypeAlias = Sequence[tuple[str, str]]  # names and values of parameters, as typed
Out: TypeAlias = Path | None
# decorators that several commands share
_command = partial(program.command, epilog=_CODES)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
_quiet = click.option("--no-progress", "progress", flag_value=False, default=True, show_default="a bar")
_out = partial(click.option, "--out", type=click.Path(path_type=Path))
_pairs = partial(click.option, "-p", "--parameter", "pairs", type=(str, str), multiple=True)


@_command("list")
@_json
def _list(as_json: bool) -> None:
    """Name the notebooks and their parameters.

    \b
    Examples:
      packbook list
      packbook list --json
    """
    if not notebooks():
        checkout_path("notebooks")  # raises, and says where they are
    listed = {}
    for name, path in notebooks().items():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
        lines = [line for line in "".join(tagged).splitlines() if ":" in line and line[0] != "#"]  # name: type = value
        title = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
        listed[name] = {"title": title, "parameters": lines}
    if as_json:
        print(json.dumps({"notebooks": listed}, indent=2, ensure_ascii=False))
    else:
        for name, about in listed.items():
            print(f"{name}: {about['title']}", *about["parameters"], sep="\n    ")


@_command("new")
@click.argument("notebook")
def _new(notebook: str) -> None:
    """Make a new chapter that runs; this needs a clone of the repository.

    \b
    Examples:
      packbook new 19_my_chapter
    """
    from packbook.run.new_chapter import LEFT, make_chapter  # it loads Jupyter

    checkout_path("notebooks", "solutions")
    notebook_path, solutions_path, chapter_folder = make_chapter(notebook)
    print(notebook_path, solutions_path, chapter_folder, sep="\n")
    print(LEFT.format(paths=f"{os.path.relpath(notebook_path)} {os.path.relpath(solutions_path)}"))


@_command("run")
@click.argument("notebook")
@_pairs(metavar="NAME VALUE", help="Set a parameter; may be repeated.")
@_out(metavar="DIR", show_default="out/NOTEBOOK", help="Folder of the results.")
@click.option("--replace", is_flag=True, help="Replace files that are there.")
@_quiet
def _run(notebook: str, pairs: Pairs, out: Out, replace: bool, progress: bool) -> None:
    """Run a notebook, given by its name or number, with your parameters.

    \b
    Examples:
      packbook run 1
      packbook run 02_greedy_packing -p dataset my_lengths.csv -p max_sequences_per_pack none --out greedy
    """
    name = find_notebook(notebook)
    values = read_parameters(name, pairs)
    out = output_path(out or Path("out") / name, folder=True)
    print(*run(name, values, out, progress, replace), sep="\n")


@_command("sweep")
@click.argument("notebook")
@_pairs(metavar="NAME VALUES", help="Values with commas between; may be repeated.")
@_out(metavar="DIR", default="out/sweep", help="Folder of the results; the same again goes on.")
@click.option("--jobs", type=int, default=os.cpu_count(), help="Runs at a time.")
@click.option("--compare", multiple=True, metavar="RESULT", help="Draw this result; may be repeated.")
@_json
@_quiet
def _sweep(notebook: str, pairs: Pairs, out: Path, progress: bool, jobs: int, compare: Any, as_json: bool) -> int:
    """Run a notebook with every combination of parameters, and compare.

    \b
    Examples:
      packbook sweep your_dataset -p max_length 128,256,512 -p max_sequences_per_pack 1,3,none --out sweep
      packbook sweep 12 -p dataset docs.csv,chats.csv -p batch_size 32 --jobs 4 --out sweep
    """
    from packbook.run.sweep import grid, sweep
    from packlib.arguments import whole_number

    cells = grid(find_notebook(notebook), pairs)
    out, jobs = output_path(out, folder=True), whole_number("--jobs", jobs, 1)
    with work_folder(out):  # it keeps a second sweep out until the table and the figure of this one are written
        outcomes = sweep(cells, out, jobs, progress=progress)
        from packbook.run.comparison import conclude  # it loads matplotlib

        return conclude(outcomes, out, list(compare), as_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return an exit code as `packlib.tools.exits` says, or 141 if nobody reads the output."""
    return call(program, arguments)


if __name__ == "__main__":
    sys.exit(main())
