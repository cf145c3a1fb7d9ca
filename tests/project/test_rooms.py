"""The rooms of packlib: what loads what, and that nothing below imports from above."""

import ast
import subprocess
import sys
from pathlib import Path

import packlib

ROOMS = (
    "lengths", "packing", "distributed", "batches", "model", "training", "bridges", "advisor", "workbook",
)  # fmt: skip
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
