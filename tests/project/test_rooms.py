"""The rooms of packlib: what loads what, what each offers, and that nothing below imports from above."""

import ast
import graphlib
import importlib
import inspect
import pydoc
import rlcompleter
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import packlib

LAYERS = (  # each may import from those before it; what stands beside them belongs to no room
    "lengths", "work", "packing", "distributed", "batches", "model", "training", "rows", "check", "auditing", "advice",
    "workbook", "cli",
)  # fmt: skip
ROOMS = LAYERS[:-1]
FOLDER = Path(packlib.__file__).parent
PACKAGES = ["packlib", *(f"packlib.{room}" for room in ROOMS)]
HEAVY = ("torch", "scipy", "highspy", "pyarrow", "transformers", "matplotlib", "IPython", "click")


def test_importing_packlib_looking_around_and_a_greedy_plan_load_nothing_heavy():
    code = (
        "import sys, packlib; dir(packlib); packlib.plan(packlib.load('wikipedia'), method='lpfhp'); "
        f"import packlib.training; print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def offered(package):
    """The names that a room's `__init__` imports, for everyone or for type checkers, and the modules they are from."""
    path = Path(importlib.import_module(package).__file__)
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
    return {name: home for name, home in names.items() if home.startswith("packlib") and name != "late"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_offers_what_its_init_imports_and_no_module_shadows_it(package):
    room = importlib.import_module(package)
    here = Path(room.__file__).parent
    modules = {path.stem for path in here.iterdir() if path.suffix == ".py" or path.is_dir()}
    for name, home in offered(package).items():
        value = getattr(room, name)
        assert name in dir(room) and (home == package or name not in modules)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.startswith(home) and inspect.getdoc(value), f"help({package}.{name}) is empty"


def test_completion_finds_what_is_loaded_late_and_help_says_what_a_call_takes():
    complete = rlcompleter.Completer({"packlib": packlib}).complete
    assert complete("packlib.tr", 0) == "packlib.training"
    assert complete("packlib.training.Lam", 0) == "packlib.training.Lamb("
    assert "max_sequences_per_pack" in pydoc.render_doc(packlib.plan, renderer=pydoc.plaintext)
    with pytest.raises(AttributeError, match="Lamp"):
        packlib.training.Lamp  # noqa: B018


_MYPY = """
[mypy]
follow_imports = silent
ignore_missing_imports = true
[mypy-torch.*,transformers.*,pyarrow.*,pandas.*,huggingface_hub.*,highspy.*,matplotlib.*]
follow_imports = skip
[mypy-datasets.*]
follow_untyped_imports = true
"""
_SLIPS = {  # each with what mypy says of it
    'plan(histogram, method="optmal")': 'Argument "method" to "plan" has incompatible type',
    "plan(histogram, time_limt=3)": 'Unexpected keyword argument "time_limt" for "plan"',
    'plan(histogram, time_limit="3")': 'Argument "time_limit" to "plan" has incompatible type "str"',
    'pack_dataset(rows, 8, overlong="splt")': 'No overload variant of "pack_dataset" matches',
    "packlib.training.Lamp": 'Module has no attribute "Lamp"',
    "audit(3)": 'Argument 1 to "audit" has incompatible type "int"',
    "pack_dataset(3, 8)": 'No overload variant of "pack_dataset" matches',
    "pack_dataset(rows, 8).colums": '"Dataset" has no attribute "colums"',
    'plan(histogram, max_sequences_per_pack="4")': 'Argument "max_sequences_per_pack" to "plan" has incompatible type',
}
_RIGHT = """
import numpy, datasets, packlib
from packlib import audit, pack_dataset, plan
histogram = packlib.load("squad")
rows = [{"input_ids": [1, 2, 3]}]
plan([5, 3, 2], 8, "bfd", max_sequences_per_pack=4).assign([5, 3, 2]).efficiency
plan(numpy.array([5, 3]), time_limit=3, progress=lambda now: print(now.num_packs)).assign([5, 3]).verify()
pack_dataset("tokens.parquet", 8, overlong="split").column_names
audit(pack_dataset(datasets.Dataset.from_list(rows), 8), source=[5, 3]).packs
"""


def test_mypy_finds_slips_in_the_main_calls_and_nothing_in_right_ones(tmp_path):
    (tmp_path / "mypy.ini").write_text(_MYPY)
    (tmp_path / "mine.py").write_text(_RIGHT + "\n".join(_SLIPS))
    command = [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini"), str(tmp_path / "mine.py")]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True)
    said = [line.partition("mine.py:")[2] for line in done.stdout.splitlines() if ": error: " in line]
    first = _RIGHT.count("\n") + 1
    for line, (slip, words), found in zip(range(first, first + len(_SLIPS)), _SLIPS.items(), said, strict=True):
        assert found.startswith(f"{line}: error: {words}"), slip


@cache
def imports_of(path):
    """What a file imports of packlib anywhere, in functions or for type checkers too: modules, and names in them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("packlib"):
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.startswith("packlib.")]
    return found


def test_nothing_below_imports_from_above():
    for floor, room in enumerate(LAYERS):
        for path in [*(FOLDER / room).rglob("*.py"), *FOLDER.glob(f"{room}.py")]:
            for package, name in imports_of(path):
                module = f"{package}.{name}"
                if (above := module.split(".")[1]) in LAYERS:
                    assert LAYERS.index(above) <= floor, f"{path} imports {module}"


def test_no_circle_of_imports():
    """Not among files; a room's `__init__`, which imports its files, counts as what it is for others: those files."""
    homes = {(package, name): home for package in PACKAGES for name, home in offered(package).items()}
    files = {".".join(path.relative_to(FOLDER.parent).with_suffix("").parts) for path in FOLDER.rglob("*.py")}
    graph = {}
    for path in FOLDER.rglob("*.py"):
        if path.stem != "__init__":
            name = ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
            whole = {(module, imported): f"{module}.{imported}" for module, imported in imports_of(path)}
            graph[name] = {file if file in files else homes.get(at, at[0]) for at, file in whole.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the circle
