"""The parameters of a notebook: their types and ranges, which are checked in the notebook and in the shell.

A kind of parameter, such as `Whole`, has two methods. `check(name, value)` returns the checked value, or raises an
error that names the parameter. `parse(text)` reads a value from the shell; `check` refuses a text that it cannot read.
"""

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

from packlib.arguments import flag, number, one_of, shown, whole_number
from packlib.lengths import available


class ParameterError(ValueError):
    """A parameter that a notebook cannot run with; a notebook shows its sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython prints its lines in place of the traceback
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
        """Return a data set's name as it is, and a file's path as absolute: notebooks run in other folders."""
        path = os.path.expanduser(text)
        return text if text in available() or not os.path.isfile(path) else os.path.realpath(path)


def _read(number_type: type, text: str) -> Any:
    """Return the number that a text says, or the text itself, which `check` refuses."""
    try:
        return number_type(text)
    except ValueError:
        return text


Kind = Whole | Number | Flag | Choice | Dataset

EVERY: dict[str, Kind] = {"seed": Whole(0, 2**32 - 1), "quick": Flag()}  # parameters of every notebook


class Parameters(dict[str, Kind]):
    """Hold the kinds of a notebook's parameters by name: those of its chapter, and `seed` and `quick`.

    >>> from packbook.parameters import Parameters, Whole
    >>> cell = {"depth": 3, "seed": 0, "quick": True, "np": None}  # as from `globals()` in a notebook
    >>> Parameters(depth=Whole(1, 512)).check(cell).depth
    3
    """

    def __init__(self, **kinds: Kind) -> None:
        super().__init__({**kinds, **EVERY})

    def check(self, namespace: Mapping[str, Any]) -> SimpleNamespace:
        """Check the parameters among the names of a notebook, `globals()`, and return them as attributes.

        A chapter's door has this as `check_parameters`. As the first call of its notebook it also lets a dark
        JupyterLab show the figures on a dark ground.

        Args:
            namespace: the variables of the notebook by name; those that are no parameters are ignored.

        Raises:
            ParameterError: one sentence with the first wrong value, with the parameters that are missing, or with one
                that papermill was given and that the notebook does not have.
        """
        values = {name: namespace[name] for name in self if name in namespace}
        missing = [name for name in self if name not in values]
        if missing:
            named = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
            raise ParameterError(f"The notebook also needs the parameter{'s' * (len(missing) > 1)} {named}.")
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        unknown = [name for name in _injected(shell) if name not in self]
        checked = self._check_some({**values, **dict.fromkeys(unknown)})  # raises for an unknown name
        if shell:
            from packbook.figures import show_dark_style  # it loads matplotlib

            show_dark_style()
        return SimpleNamespace(**checked)

    def _check_some(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked values of some parameters; text is read as from a shell, so "none" is None."""
        try:
            checked = {}
            for name, value in values.items():
                kind = self[one_of("a parameter", name, self)]
                checked[name] = kind.check(name, kind.parse(value) if isinstance(value, str) else value)
            return checked
        except (ValueError, TypeError, OSError) as error:
            raise ParameterError(str(error)) from None


def parameters_of(notebook: str) -> Parameters:
    """Return the kinds of a notebook's parameters by name: `PARAMETERS` of its chapter.

    The chapter of "01_padding_waste" is `packbook.n01_padding_waste`; its lesson is not loaded.
    """
    parameters: Parameters = importlib.import_module(f"packbook.n{notebook}").PARAMETERS
    return parameters


def check_values(notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check some parameters of a notebook and return them; text is read as from a shell, so "none" is None.

    Raises:
        ParameterError: one sentence with the first name, type or value that is wrong, and what is allowed.
    """
    return parameters_of(notebook)._check_some(values)


def _injected(shell: Any) -> list[str]:
    """Return the names of the parameters that papermill was given; it only warns of unknown ones.

    Papermill sets them in an additional cell, which is the second code cell, right after the one with the parameters. A
    later cell that begins in the same way is a learner's.
    """
    sources = shell.user_ns.get("In", []) if shell else []  # of the cells that ran; IPython counts them from 1
    second_cell = sources[2] if len(sources) > 2 else ""
    if not second_cell.startswith("# Parameters\n"):
        return []
    return re.findall(r"^(\w+) =", second_cell, re.MULTILINE)
