"""One word for one thing: names that were given up come back nowhere, and the glossary knows every parameter's name."""

import ast
import functools
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
GIVEN_UP = {
    "sample_sort", "PackSampler", "MEANS", "mlm_labels", "mlm_slots", "max_predictions", "max_sequences",
    "sequence_slots", "fill_slots", "duals", "Strategy", "Slots", "multiple_of", "COUNTS",
}  # fmt: skip
NO_PARAMETER = GIVEN_UP | {"depth", "accumulation"}  # words of prose
# The chapters' own functions, trials of one depth each, and the symbols of the calculator's formulas.
MAY = ("packlib/workbook/chapters/", "packlib/advisor/trials.py", "packlib/training/scaling/calculator.py")


def identifiers(source: str) -> set[str]:
    """All names that code defines or uses; not its strings and comments."""
    fields = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.alias: "name",
              ast.FunctionDef: "name", ast.ClassDef: "name"}  # fmt: skip
    found = set()
    for node in ast.walk(ast.parse(source)):
        found |= {getattr(node, field) for kind, field in fields.items() if isinstance(node, kind)}
        found |= set(node.module.split(".")) if isinstance(node, ast.ImportFrom) and node.module else set()
    return found


def parameters(source: str) -> set[str]:
    """The parameters of a file's functions, and the fields of its classes."""
    nodes = list(ast.walk(ast.parse(source)))
    fields = (line.target for node in nodes if isinstance(node, ast.ClassDef) for line in node.body
              if isinstance(line, ast.AnnAssign))  # fmt: skip
    return {node.arg for node in nodes if isinstance(node, ast.arg)} | {
        target.id for target in fields if isinstance(target, ast.Name)
    }


@functools.cache
def sources() -> dict[Path, str]:
    """Every file of the library, and the code of every notebook."""
    found = {
        path: path.read_text(encoding="utf-8")
        for path in ROOT.glob("packlib/**/*.py*")
        if path.suffix in (".py", ".pyi")
    }
    for path in ROOT.glob("notebooks/**/*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        found[path] = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return found


def test_names_that_were_given_up_are_not_used():
    assert identifiers("from a.b import MEANS as c\nd.duals(e, mlm_slots=1)") >= {"MEANS", "duals", "mlm_slots", "b"}
    for path, source in sources().items():
        assert not identifiers(source) & GIVEN_UP, path


def test_parameters_have_the_name_that_the_glossary_gives():
    assert parameters("class A:\n    depth: int\ndef f(accumulation): pass") == {"depth", "accumulation"}
    for path, source in sources().items():
        if path.suffix != ".ipynb" and not path.relative_to(ROOT).as_posix().startswith(MAY):
            assert not parameters(source) & NO_PARAMETER, path


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", "USING.md", "BENCHMARKS.md"])
def test_texts_use_the_names_of_today(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "(GLOSSARY.md)" in text or path not in ("README.md", "CONTRIBUTING.md")
    assert not set(re.findall(r"\w+", text)) & (GIVEN_UP - {"duals"})
    assert "--depth" not in text and "packlib advise" not in text


def test_a_name_in_the_glossary_is_one_of_the_library_or_told_as_another():
    """The first name in the last column is ours, where it is code; what comes after the semicolon is not."""
    ours, terms = set().union(*map(identifiers, sources().values())), set()
    for line in (ROOT / "GLOSSARY.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| term", "|---")):
            term, meaning, names = (cell.strip() for cell in line.strip("|").split("|"))
            assert term and meaning and term not in terms, line
            terms.add(term)
            for name in re.findall(r"`([A-Za-z_.]+)`", names.split(";")[0].split(", as in")[0]):
                assert set(name.split(".")) <= ours, f"{name} of {term} is no name of packlib"
