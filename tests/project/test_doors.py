"""One argument, one list of words and one default, at every door."""

import importlib
import inspect
import typing

import click
import pytest

from packlib.lengths.overlong import CUT_RULES, OVERLONG
from packlib.tools.cli import program

ROOMS = ["packlib.lengths", "packlib.packing", "packlib.work", "packlib.batches", "packlib.model", "packlib.training",
         "packlib.distributed", "packlib.tools.rows", "packlib.tools.check", "packlib.tools.auditing",
         "packlib.tools.loaders", "packlib.tools.advice"]  # fmt: skip
ALONE = {"advise": None, "tokenize": "error"}  # a report decides; a text keeps its row


def public_functions():
    """What the rooms offer, with the methods of classes."""
    for room in map(importlib.import_module, ROOMS):
        for name in room.__all__:
            offered = getattr(room, name)
            if inspect.isfunction(offered):
                yield name, offered
            elif inspect.isclass(offered):
                for method, function in inspect.getmembers(offered, callable):
                    if method == "__init__" or not method.startswith("_"):
                        yield f"{name}.{method}", function


def arguments(called):
    """The function and the argument, wherever a public function has one of this name that may be left out."""
    for name, function in public_functions():
        try:
            signature = inspect.signature(function)
        except ValueError:
            continue
        argument = signature.parameters.get(called)
        if argument is not None and argument.default is not argument.empty:
            yield name, function, argument


def test_overlong_has_one_list_of_words_and_one_default():
    found = dict((name, (function, argument)) for name, function, argument in arguments("overlong"))
    assert found.keys() >= {"load", "pack_dataset", "audit", "advise", "PackedStream.__init__", *ALONE}
    for name, (function, argument) in found.items():
        assert argument.default == ALONE.get(name, "error"), name
        if name not in ALONE:
            assert typing.get_args(inspect.get_annotations(function, eval_str=True)["overlong"]) == OVERLONG, name


@pytest.mark.parametrize("command", ["plan", "pack", "audit", "report"])
def test_the_shell_takes_the_same_words(command):
    option = next(one for one in program.commands[command].params if one.name == "overlong")
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == (CUT_RULES if command == "report" else OVERLONG)
    assert option.default == (None if command == "report" else "error")


KEEPS_THE_ORDER = {"PackingPlan.assign", "pack_lengths", "batch_by_tokens"}  # where None shuffles nothing


def test_what_chance_decides_it_decides_by_seed_0():
    found = {name: argument.default for name, _, argument in arguments("seed")}
    assert found.keys() >= {"pack_dataset", "balance", "pack_loader", "waiting", *KEEPS_THE_ORDER}
    assert found.pop("plan") is None  # an option of next_fit alone, which takes 0
    for name, default in found.items():
        assert default == (None if name in KEEPS_THE_ORDER else 0), name


def test_no_function_shows_progress_unless_it_is_asked_to():
    found = {name: argument.default for name, _, argument in arguments("progress")}
    assert found.keys() >= {"pack_dataset", "check_packing", "audit", "tokenize"}
    assert found.pop("plan") is None  # where somebody waits at a terminal for over two seconds
    assert {name for name, default in found.items() if default} == set()
