"""One argument, one list of words and one default, at every door."""

import importlib
import inspect
import sys
import typing
from io import StringIO

import click
import pytest
import torch
from transformers import DataCollatorWithFlattening, GPT2Config, GPT2LMHeadModel

from packlib import bars
from packlib.batches import tokenize, wordnet_tokenizer
from packlib.lengths.overlong import CUT_RULES, OVERLONG
from packlib.tools.auditing import audit
from packlib.tools.check import check_packing
from packlib.tools.cli import program
from packlib.tools.rows import pack_dataset

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


def test_every_door_leaves_it_to_the_terminal_whether_progress_is_shown():
    found = {name: argument.default for name, _, argument in arguments("progress")}
    assert found.keys() >= {"pack_dataset", "check_packing", "audit", "tokenize", "fit", "plan"}
    assert {name: default for name, default in found.items() if default is not None} == {}


class Terminal(StringIO):
    """A stream that somebody looks at."""

    def isatty(self):
        return True


ROWS = [{"input_ids": [5, 6, 7, 8]}] * 40


def packed(folder, **options):
    return pack_dataset(ROWS, 8, cache_dir=folder, **options)


def audited(folder, **options):
    return audit(packed(folder, progress=False), [4] * 40, **options)


def tokenized(folder, **options):
    return tokenize(wordnet_tokenizer(), ["a dog"] * 3, **options)


def checked(folder, **options):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=64, n_embd=16, n_layer=1, n_head=2))
    sequences = [{"input_ids": [5, 6, 7, last]} for last in range(8, 14)]
    return check_packing(model, DataCollatorWithFlattening(), sequences, **options)


DOORS = {"packing": packed, "audit": audited, "tokenize": tokenized, "check": checked}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("stream", "options", "patience", "seen"),
    [
        (Terminal, {}, 0, True),
        (Terminal, {}, 60, False),
        (Terminal, {"progress": False}, 0, False),
        (StringIO, {}, 0, False),
        (StringIO, {"progress": None}, 0, False),
    ],
)
def test_a_bar_comes_where_somebody_waits(door, stream, options, patience, seen, tmp_path, monkeypatch):
    monkeypatch.setattr(bars, "PATIENCE", patience)
    monkeypatch.setattr(sys, "stderr", stream())
    DOORS[door](tmp_path, **options)
    assert (f"{door}:" in sys.stderr.getvalue()) == seen
