"""`packlib run NOTEBOOK -p name value … --out DIR`: a notebook again, with your parameters and your data.

`packlib advise RECIPE.json --factor 1.99` says what to change in a training recipe after packing.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import packlib
from packlib.checks import one_of
from packlib.lengths import available, load
from packlib.workbook.figures import FIGURES_FOLDER
from packlib.workbook.parameters import Dataset, check_values, parameters_of

NOTEBOOKS = Path(packlib.__file__).resolve().parents[1] / "notebooks"


def notebooks() -> dict[str, Path]:
    """The workbook's notebooks by name, in order."""
    return {path.stem: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}


def find_notebook(text: str) -> str:
    """The name of a notebook given as "01_padding_waste", "padding_waste", "1" or a path that ends so.

    Raises:
        ValueError: naming the near ones.
        FileNotFoundError: if the notebooks are not beside the library.
    """
    names = list(notebooks())
    if not names:
        raise FileNotFoundError(
            f"There are no notebooks in {NOTEBOOKS}: install packlib from a clone, with pip -e."
        )
    stem = Path(text).name.removesuffix(".ipynb")
    by_key = {name.partition("_")[2]: name for name in names} | {str(int(name[:2])): name for name in names}
    if stem.isdigit():
        stem = str(int(stem))
    return by_key.get(stem) or one_of("notebook", stem, names)


def read_parameters(notebook: str, pairs: Sequence[Sequence[str]]) -> dict:
    """Turn `-p name value` pairs into checked values.

    Raises:
        ParameterError, ValueError: one sentence that names what is wrong, in a file of lengths too.
    """
    kinds = parameters_of(notebook)
    values = {name: kinds[name].parse(text) if name in kinds else text for name, text in pairs}
    values = check_values(notebook, values)
    for name, value in values.items():
        if isinstance(kinds[name], Dataset):
            load(value)  # a broken line is found now and not after half of the notebook
    return values


def run(notebook: str, values: dict, out: Path, progress: bool = True) -> list[Path]:
    """Run a notebook with checked parameters; return the files in `out`: the notebook, a report, the figures.

    All is written to a folder beside `out` first, so that a run that fails leaves nothing behind.

    Raises:
        papermill.PapermillExecutionError: if a cell raises.
    """
    import nbformat
    import papermill

    from packlib.workbook.execution import KERNEL_OPTIONS, write
    from packlib.workbook.pages import PageExporter

    # It does not see parameters typed `int | None` and would call them unknown; their names are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    before = os.environ.get(FIGURES_FOLDER)
    os.environ[FIGURES_FOLDER] = str(work / "figures")
    try:
        target = work / f"{notebook}.ipynb"
        papermill.execute_notebook(
            str(notebooks()[notebook]), str(target), values, progress_bar=progress,
            request_save_on_cell_execute=False, **KERNEL_OPTIONS,
        )  # fmt: skip
        write(nbformat.read(target, as_version=4), target)
        report, _ = PageExporter().from_filename(str(target))
        target.with_suffix(".html").write_text(report, encoding="utf-8")
        made = [path.relative_to(work) for path in sorted(work.rglob("*")) if path.is_file()]
        for path in made:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).replace(out / path)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if before is None:
            del os.environ[FIGURES_FOLDER]
        else:
            os.environ[FIGURES_FOLDER] = before
    return [out / path for path in made]


def list_notebooks() -> None:
    """Print each notebook with its title and the parameters it takes."""
    import nbformat

    for name, path in notebooks().items():
        cells = nbformat.read(path, as_version=4).cells
        title = cells[0].source.splitlines()[0].lstrip("# ")
        print(f"{name}: {title}")
        settings = next((cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ())), "")
        print(
            "".join(f"    {line}\n" for line in settings.splitlines() if ":" in line and line[0] != "#"),
            end="",
        )
    print(f"data sets: {', '.join(available())}")


def advise(path: Path, factor: float, how: str, rule: str) -> None:
    """Print a recipe before and after packing, and the reasons for what changes."""
    from packlib.training.advice import adjust
    from packlib.training.recipe import Recipe

    before = Recipe.from_json(path)
    after, reasons, _ = adjust(before, factor, how, rule)
    print(f"Before packing. {before}", f"After packing. {after}", "Why:", sep="\n")
    print(*(f"  {reason}" for reason in reasons), sep="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 0, 1 if a cell failed, 2 if the command was wrong, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="packlib", description="The packing workbook from the shell.")
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="run a notebook with your parameters")
    runner.add_argument("notebook", help="its name or number, such as 01_padding_waste or 1")
    runner.add_argument(
        "-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), dest="pairs",
        help="set a parameter; may be repeated (packlib list shows them)",
    )  # fmt: skip
    runner.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the results (default: out/NOTEBOOK)"
    )
    runner.add_argument("--no-progress", action="store_true", help="no progress bar")
    commands.add_parser("list", help="the notebooks, their parameters and the data sets")
    adviser = commands.add_parser("advise", help="what to change in a training recipe after packing")
    adviser.add_argument("recipe", type=Path, metavar="RECIPE.json", help="the recipe of the padded run")
    adviser.add_argument("--factor", type=float, required=True, help="the packing factor, such as 1.99")
    adviser.add_argument("--how", default="accumulation", help="accumulation (default), betas or rate")
    adviser.add_argument("--rule", default="linear", help="for the rate: linear (default) or square root")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            list_notebooks()
            return 0
        if options.command == "advise":
            advise(options.recipe, options.factor, options.how, options.rule)
            return 0
        notebook = find_notebook(options.notebook)
        values = read_parameters(notebook, options.pairs)
        out = (options.out or Path("out") / notebook).resolve()
        if out.exists() and not out.is_dir():
            raise NotADirectoryError(f"--out {out} is a file; name a folder.")
    except (ValueError, OSError) as error:
        print(f"packlib: {error}", file=sys.stderr)
        return 2
    return _run(notebook, values, out, not options.no_progress)


def _run(notebook: str, values: dict, out: Path, progress: bool) -> int:
    from papermill.exceptions import PapermillExecutionError

    try:
        made = run(notebook, values, out, progress)
    except PapermillExecutionError as error:
        print(
            f"packlib: cell {error.cell_index} of {notebook} failed: {error.ename}: {error.evalue}",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        print(f"packlib: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("packlib: stopped; nothing was written.", file=sys.stderr)
        return 130
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
