"""The rooms of packlib: what loads what, what each offers, and that nothing below imports from above."""

import ast
import importlib
import importlib.metadata
import inspect
import json
import pydoc
import rlcompleter
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import packlib

ROOMS = (
    "lengths", "packing", "distributed", "batches", "model", "training", "bridges", "advisor", "workbook",
)  # fmt: skip
FOLDER = Path(packlib.__file__).parent
CHAPTERS = FOLDER / "workbook" / "chapters"
NOTEBOOKS = FOLDER.parent / "notebooks"
PACKAGES = ["packlib", *(f"packlib.{room}" for room in ROOMS), "packlib.training.scaling"]
HEAVY = ("torch", "scipy", "highspy", "pyarrow", "transformers", "matplotlib", "click")


def in_a_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_packlib_takes_no_time_and_loads_not_even_numpy():
    code = (
        "import json, sys, time; start = time.perf_counter(); import packlib; took = time.perf_counter() - start; "
        f"print(json.dumps([took, [name for name in ('numpy', *{HEAVY}) if name in sys.modules]]))"
    )
    tries = [in_a_new_process(code) for _ in range(3)]
    assert all(loaded == [] for _, loaded in tries)
    assert min(seconds for seconds, _ in tries) < 0.2


def test_the_version_is_that_of_the_installed_package():
    assert packlib.__version__ == importlib.metadata.version("packlib")


def test_looking_around_and_a_greedy_plan_load_nothing_heavy():
    code = (
        f"import json, sys, packlib; [dir(getattr(packlib, room)) for room in {ROOMS}]; dir(packlib.training.scaling);"
        "packlib.packing.plan(packlib.lengths.load('wikipedia'), 'lpfhp'); "
        f"print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    assert in_a_new_process(code) == []


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["plan", "nowhere.csv"],
        ["plan", "wikipedia", "--method", "best"],
        ["report", "nowhere.csv"],
        ["audit", "nowhere.parquet"],
    ],
    ids=" ".join,
)
def test_a_list_or_a_refusal_loads_no_torch(command):
    code = (
        "import contextlib, io, json, sys; from packlib.workbook.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:\n"
        f"    code = main({command})\n"
        "print(json.dumps([code, said.getvalue(), 'torch' in sys.modules]))"
    )
    code, said, loaded = in_a_new_process(code)
    assert (code, bool(said)) == ((0, False) if command == ["list"] else (2, True))
    assert not loaded


def names_in(path):
    """The names that an `__init__` imports, and from which module."""
    imports = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module for node in imports for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_offers_what_its_stub_lists(package):
    room = importlib.import_module(package)
    stub = Path(room.__file__).with_suffix(".pyi")
    listed = ast.literal_eval(ast.parse(stub.read_text()).body[-1].value)
    homes = names_in(stub)
    assert set(listed) == set(homes) == set(dir(room)) == set(room.__all__)
    for name, home in homes.items():
        value = getattr(room, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.startswith(f"{package}.{home}"), f"{name} has another home"
            assert inspect.getdoc(value), f"{package}.{name} says nothing of itself"


def test_a_name_is_offered_by_one_room():
    offered = [name for package in PACKAGES[1:] for name in importlib.import_module(package).__all__]
    assert set(packlib.__all__) <= {"__version__", *ROOMS, *offered}  # at the top stands besides what a room offers
    assert len(set(offered)) == len(offered), sorted({name for name in offered if offered.count(name) > 1})


def test_notebooks_import_from_rooms():
    """What a learner sees imported is what the rooms offer, and so all that notebooks use can be discovered."""
    for path in sorted((FOLDER.parent / "notebooks").rglob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] != "code":
                continue
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("packlib."):
                    continue
                private = all(alias.name.startswith("_") for alias in node.names)  # to show its source
                if node.module.split(".")[1] != "workbook" and not private:
                    assert node.module in PACKAGES, f"{path.name} imports from {node.module}"


def test_no_module_is_shadowed():
    for init in FOLDER.rglob("__init__.py"):
        stub = init.with_suffix(".pyi")
        within = {path.stem for path in init.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
        offered = names_in(stub if stub.exists() else init)
        assert not {name for name, home in offered.items() if home is not None} & within, init.parent


def test_completion_and_help_find_what_a_room_offers():
    complete = rlcompleter.Completer({"packlib": packlib}).complete
    assert complete("packlib.tr", 0) == "packlib.training"
    assert complete("packlib.training.Lam", 0) == "packlib.training.Lamb("
    assert "class Lamb(" in pydoc.render_doc(packlib.training, renderer=pydoc.plaintext)
    with pytest.raises(AttributeError, match="Lamp"):
        packlib.training.Lamp  # noqa: B018


def test_type_checkers_see_what_a_room_offers(tmp_path):
    code = "import packlib\npacklib.packing.plan(3)\nreveal_type(packlib.training.Recipe)\npacklib.training.Lamp\n"
    (tmp_path / "mine.py").write_text(code)
    command = [sys.executable, "-m", "mypy", str(tmp_path / "mine.py")]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True)
    said = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert said[0].startswith('error: Argument 1 to "plan" has incompatible type "int"; expected "LengthHistogram"')
    assert "packlib.training.recipe.Recipe" in said[1]
    assert said[2].startswith('error: Module has no attribute "Lamp"')


def test_nothing_below_imports_from_above():
    for floor, room in enumerate(ROOMS):
        for path in (FOLDER / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
                for module in modules:
                    parts = module.split(".")
                    if parts[0] == "packlib" and len(parts) > 1 and parts[1] in ROOMS:
                        assert ROOMS.index(parts[1]) <= floor, f"{path} imports {module}"


def test_files_are_short_enough_to_read():
    for path in FOLDER.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def chapters_of(code):
    """The folders of `packlib.workbook.chapters` that a piece of code imports from."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "rooms are named in full"
            modules = [f"{node.module}.{name.name}" for name in node.names]
        else:
            continue
        for module in modules:
            path = module.split(".")
            if path[:3] == ["packlib", "workbook", "chapters"]:
                yield path[3]


def test_no_chapter_imports_another():
    for path in CHAPTERS.rglob("*.py"):
        mine = {"shared"} if path.parent == CHAPTERS / "shared" else {"shared", path.parent.name}
        assert set(chapters_of(path.read_text(encoding="utf-8"))) <= mine, path


def test_a_notebook_finds_its_helpers_by_its_number_and_imports_no_other_chapter():
    folders = {path.name for path in CHAPTERS.iterdir() if path.is_dir()} - {"shared", "__pycache__"}
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert folders == {f"n{path.stem}" for path in notebooks}
    for path in [*notebooks, *NOTEBOOKS.glob("solutions/*.ipynb")]:
        cells = nbformat.read(path, as_version=4).cells
        found = {name for cell in cells if cell.cell_type == "code" for name in chapters_of(cell.source)}
        assert f"n{path.stem}" in found and found <= {f"n{path.stem}", "shared"}, path
