"""Run a notebook with other parameters: what `packlib run`, `report` and `sweep` share."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import packlib
from packlib.checks import one_of
from packlib.lengths import load
from packlib.places import output_path, work_folder
from packlib.workbook.parameters import Dataset, check_values, parameters_of
from packlib.workbook.results import RESULTS_FOLDER

NOTEBOOKS = Path(packlib.__file__).resolve().parents[1] / "notebooks"


class NotebookFailedError(RuntimeError):
    """A cell of a notebook raised, or its kernel died; the message says which, and why."""


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: it ends a run as an interrupt does."""


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


def read_parameters(notebook: str, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Turn `-p name value` pairs into checked values.

    Raises:
        ParameterError, ValueError: one sentence that names what is wrong, in a file of lengths too.
    """
    kinds = parameters_of(notebook)
    values = check_values(notebook, dict(pairs))
    for name, value in values.items():
        if isinstance(kinds[name], Dataset):
            load(value)  # a broken line is found now and not after half of the notebook
    return values


def run(notebook: str, values: Mapping[str, Any], out: Path, progress: bool = True) -> list[Path]:
    """Run a notebook with checked parameters; return the files in `out`: the notebook, a report, the figures.

    Raises:
        NotebookFailedError: if a cell raises; then nothing is left behind.
    """
    import nbformat

    from packlib.workbook.execution import write
    from packlib.workbook.pages import PageExporter

    def fill(work: Path) -> None:
        target = work / f"{notebook}.ipynb"
        execute(notebooks()[notebook], target, values, progress)
        write(nbformat.read(target, as_version=4), target)
        page, _ = PageExporter().from_filename(str(target))
        target.with_suffix(".html").write_text(page, encoding="utf-8")

    return deliver(out, fill)


def deliver(out: Path, fill: Callable[[Path], None]) -> list[Path]:
    """Let `fill` write files into a hidden folder in `out`, then move them to `out`; return where they are.

    If it raises, nothing is left behind, and what was in `out` stays as it was.

    Raises:
        OSError: one sentence, if another run writes there, or no folder can be there: see `packlib.places`.
    """
    with work_folder(out) as work:
        fill(work)
        made = [path.relative_to(work) for path in sorted(work.rglob("*")) if path.is_file()]
        targets = [output_path(out / path) for path in made]  # all are asked before the first is replaced
        for path, target in zip(made, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            (work / path).replace(target)
    return targets


def execute(source: Path, target: Path, values: Mapping[str, Any], progress: bool = True) -> None:
    """Run the notebook at `source` into `target`; its figures and files go beside `target`.

    Raises:
        NotebookFailedError: if a cell raises, or the kernel dies.
    """
    import papermill

    from packlib.workbook.execution import KERNEL_OPTIONS
    from packlib.workbook.figures import FIGURES_FOLDER
    from packlib.workbook.memory import SWITCH

    folders = {FIGURES_FOLDER: target.parent / "figures", RESULTS_FOLDER: target.parent}
    with environment({SWITCH: "off", **{name: str(folder) for name, folder in folders.items()}}):
        with failures(source.stem):
            papermill.execute_notebook(
                _unformatted(source), _unformatted(target), dict(values), progress_bar=progress,
                request_save_on_cell_execute=False, **KERNEL_OPTIONS,
            )  # fmt: skip


@contextmanager
def failures(name: str) -> Iterator[None]:
    """Turn what papermill and nbclient raise about the notebook `name` into a NotebookFailedError."""
    from nbclient.exceptions import CellExecutionError, CellTimeoutError
    from papermill.exceptions import PapermillExecutionError

    # What they log is said by the exceptions. Papermill also takes parameters typed `int | None` for unknown ones.
    for logger in ("papermill", "traitlets"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        yield
    except (PapermillExecutionError, CellExecutionError) as error:
        where = f"cell {error.cell_index} of {name}" if hasattr(error, "cell_index") else name
        raise NotebookFailedError(f"{where} failed: {error.ename}: {error.evalue}") from error
    except CellTimeoutError as error:
        raise NotebookFailedError(f"a cell of {name} took longer than it may.") from error
    except RuntimeError as error:
        if "Kernel died" not in str(error):
            raise
        raise NotebookFailedError(
            f"the kernel of {name} died, most likely because memory ran out: take less data or close other programs."
        ) from error


def exit_code(command: Callable[[], int | None]) -> int:
    """Call `command` and say in one sentence what stopped it.

    Returns:
        What `command` returned, or 0; 1 if a notebook failed, 2 if the command was wrong, 130 if interrupted and 143
        if terminated. Either leaves as little behind as an error does.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the cleaning
        logging.disable()  # libraries complain at length when they are stopped
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    ours = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    said: object
    before = {number: signal.signal(number, stop) for number in ours}
    try:
        return command() or 0
    except NotebookFailedError as error:
        code, said = 1, error
    except (ValueError, TypeError, OSError) as error:
        code, said = 2, error
    except MemoryError as error:
        code, said = 2, f"there is not enough memory. {error}".strip()
    except KeyboardInterrupt as error:
        code, how = (143, "terminated") if isinstance(error, Terminated) else (130, "stopped")
        said = f"{how}; of what had not ended, nothing was written."
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was not Python that had set it
    print(f"packlib: {said}", file=sys.stderr)
    return code


def _unformatted(path: Path) -> str:
    """The path for papermill, which fills in what stands between braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while, so that kernels inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
