"""The parameters of a notebook: types and ranges, checked alike from the notebook and from the shell."""

import importlib
import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from packlib.checks import flag, number, one_of, shown, whole_number
from packlib.lengths import available


class ParameterError(ValueError):
    """A parameter that a notebook cannot run with; a notebook shows its sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:  # what IPython prints
        return [str(self)]


@dataclass(frozen=True)
class Whole:
    """A whole number in a range; with `optional`, None is allowed as well. In a shell 1_000 is 1000, as in Python."""

    at_least: int
    at_most: float = math.inf
    optional: bool = False

    def check(self, name: str, value: Any) -> int | None:
        return None if self.optional and value is None else whole_number(name, value, self.at_least, self.at_most)

    def parse(self, text: str) -> Any:
        return None if self.optional and text.lower() == "none" else _read(int, text)


@dataclass(frozen=True)
class Number:
    """A finite number in a range."""

    at_least: float
    at_most: float = math.inf

    def check(self, name: str, value: Any) -> float:
        return float(number(name, value, at_least=self.at_least, at_most=self.at_most))

    def parse(self, text: str) -> Any:
        return _read(float, text)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: Any) -> bool:
        return flag(name, value)

    def parse(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text.lower(), text)


@dataclass(frozen=True)
class Choice:
    """One of a few names."""

    names: tuple[str, ...]

    def check(self, name: str, value: Any) -> str:
        return one_of(name, value, self.names)

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class Dataset:
    """A data set of `packlib.lengths`, or the path of a file of lengths."""

    def check(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be the name of a data set or a file, not {shown(value)}.")
        if value in available() or os.path.isfile(value):
            return value
        if "/" in value or Path(value).suffix:
            raise FileNotFoundError(f"{name}: there is no file {shown(value)}.")
        return one_of(name, value, available())

    def parse(self, text: str) -> str:
        """A file becomes an absolute path, so that a notebook finds it wherever it runs."""
        path = os.path.expanduser(text)
        return text if text in available() or not os.path.isfile(path) else os.path.realpath(path)


def _read(kind: type, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text  # `check` refuses it


Kind = Whole | Number | Flag | Choice | Dataset

EVERY = {"seed": Whole(0, 2**32 - 1), "quick": Flag()}  # what each notebook has


def parameters_of(notebook: str) -> dict[str, Kind]:
    """The names and kinds of a notebook's parameters: `PARAMETERS` of its chapter.

    The chapter of "01_padding_waste" is `packbook.n01_padding_waste`; its lesson is not loaded.
    """
    chapter = importlib.import_module(f"packbook.n{notebook}")
    return {**chapter.PARAMETERS, **EVERY}


def check_values(notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check some parameters of a notebook and return them; text is read as from a shell, so "none" is None.

    Raises:
        ParameterError: one sentence with the first name, type or value that is wrong, and what is allowed.
    """
    kinds = parameters_of(notebook)
    try:
        checked = {}
        for name, value in values.items():
            kind = kinds[one_of("a parameter", name, kinds)]
            checked[name] = kind.check(name, kind.parse(value) if isinstance(value, str) else value)
        return checked
    except (ValueError, TypeError, OSError) as error:
        raise ParameterError(str(error)) from None


def check_parameters(notebook: str, **values: Any) -> SimpleNamespace:
    """Check all parameters of a notebook and return them as attributes: `params.seed`.

    As the first call of every notebook it also lets a dark JupyterLab show the figures on a dark ground.

    Raises:
        ParameterError: as `check_values`; also if a parameter is missing, or if papermill was given an unknown one.
    """
    if missing := [name for name in parameters_of(notebook) if name not in values]:
        raise ParameterError(f"{notebook} also needs the parameter {', '.join(missing)}.")
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    unknown = [name for name in _injected(shell) if name not in values]
    checked = check_values(notebook, values | dict.fromkeys(unknown))
    if shell:
        from packbook.figures import show_dark_style  # it loads matplotlib

        show_dark_style()
    return SimpleNamespace(**checked)


def _injected(shell: Any) -> list[str]:
    """The names that papermill was given. It only warns of unknown ones, and sets them all in a cell of its own."""
    cells = shell.user_ns.get("In", []) if shell else []
    text = "\n".join(cell for cell in cells if cell.startswith("# Parameters\n"))
    return re.findall(r"^(\w+) =", text, re.MULTILINE)
