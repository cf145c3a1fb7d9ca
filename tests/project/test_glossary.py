"""The glossary names what the library offers."""

import ast
import functools
import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def identifiers(source: str) -> set[str]:
    """All names that code defines or uses; not its strings and comments."""
    fields = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.alias: "name",
              ast.FunctionDef: "name", ast.ClassDef: "name"}  # fmt: skip
    found = set()
    for node in ast.walk(ast.parse(source)):
        found |= {getattr(node, field) for kind, field in fields.items() if isinstance(node, kind)}
        found |= set(node.module.split(".")) if isinstance(node, ast.ImportFrom) and node.module else set()
    return found


@functools.cache
def sources() -> dict[Path, str]:
    """Every file of the library, and the code of every notebook."""
    found = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("packlib/**/*.py")}
    for path in ROOT.glob("notebooks/**/*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        found[path] = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return found


def test_a_name_in_the_glossary_is_one_of_the_library_or_told_as_another():
    """The first name in the last column is ours, where it is code; what comes after the semicolon is not."""
    ours, terms = set().union(*map(identifiers, sources().values())), set()
    for line in (ROOT / "notebooks/GLOSSARY.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| term", "|---")):
            term, meaning, names = (cell.strip() for cell in line.strip("|").split("|"))
            assert term and meaning and term not in terms, line
            terms.add(term)
            for name in re.findall(r"`([A-Za-z_.]+)`", names.split(";")[0].split(", as in")[0]):
                assert set(name.split(".")) <= ours, f"{name} of {term} is no name of packlib"
