"""Measure `data/lengths/docstrings.csv`: the docstrings of the scientific Python stack, in tokens.

    python data/record.py docstrings

Reads the source files of the installed packages without importing them: the docstring of every module, class
and function, each text once. The counts change with the versions, so they were measured once and stored.
"""

import ast
import importlib.metadata
import importlib.util
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path

from transformers import BertTokenizerFast

from packlib.lengths import LengthHistogram, tokenizer_path

DATA = Path(__file__).resolve().parent
PACKAGES = "numpy scipy pandas matplotlib sympy networkx pyarrow torch transformers datasets".split()


def docstrings(package: str) -> Iterator[str]:
    """Yield every docstring of a package's source files, cleaned as `inspect.getdoc` does; tests are left out."""
    (root,) = importlib.util.find_spec(package).submodule_search_locations
    for path in sorted(Path(root).rglob("*.py")):
        if {"tests", "testing", "_vendor"} & set(path.relative_to(root).parts):
            continue
        with warnings.catch_warnings(action="ignore"):  # old escapes in other people's strings
            tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "")
                if text:
                    yield text


def main() -> None:
    texts = list(dict.fromkeys(text for package in PACKAGES for text in docstrings(package)))
    tokenizer = BertTokenizerFast.from_pretrained(tokenizer_path(), model_max_length=10**9)
    starts = range(0, len(texts), 1000)
    chunks = ([len(ids) for ids in tokenizer(texts[i : i + 1000])["input_ids"]] for i in starts)
    histogram = LengthHistogram.from_chunks(chunks, name="docstrings")
    histogram.to_csv(DATA / "lengths" / "docstrings.csv")
    print(histogram)
    print(", ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES))
