"""The rooms of packlib: what loads what, and that nothing below imports from above."""

import ast
import subprocess
import sys
from pathlib import Path

import nbformat

import packlib

ROOMS = (
    "lengths", "packing", "distributed", "batches", "model", "training", "bridges", "advisor", "workbook",
)  # fmt: skip
CHAPTERS = Path(packlib.__file__).parent / "workbook" / "chapters"
NOTEBOOKS = Path(packlib.__file__).parents[1] / "notebooks"
HEAVY = ("torch", "scipy", "highspy", "pyarrow", "transformers", "matplotlib", "click")


def test_importing_packlib_and_a_greedy_plan_load_nothing_heavy():
    code = (
        "import sys, packlib; packlib.packing.plan(packlib.lengths.load('wikipedia'), 'lpfhp'); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_below_imports_from_above():
    for floor, room in enumerate(ROOMS):
        for path in (Path(packlib.__file__).parent / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
                for module in modules:
                    parts = module.split(".")
                    if parts[0] == "packlib" and len(parts) > 1 and parts[1] in ROOMS:
                        assert ROOMS.index(parts[1]) <= floor, f"{path} imports {module}"


def test_files_are_short_enough_to_read():
    for path in Path(packlib.__file__).parent.rglob("*.py"):
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
