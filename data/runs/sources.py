"""Text that every Python brings along: the modules of its own library, as bytes, their functions and docstrings."""

import ast
import inspect
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from packlib.batches import TokenStore

BEGIN = 0  # the token before a text; no text holds the byte 0
LEFT_OUT = {"site-packages", "test", "tests", "idlelib", "lib2to3"}  # tests and tools


def modules(left_out: set[str] = LEFT_OUT) -> Iterator[Path]:
    """Yield the files of the standard library, but for those in the folders `left_out`."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if not left_out & set(path.relative_to(root).parts):
            yield path


def docstrings() -> Iterator[str]:
    """Yield those of the modules, classes and functions."""
    for path in modules():
        with warnings.catch_warnings(action="ignore"):  # old escapes
            tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if text := inspect.cleandoc(ast.get_docstring(node, clean=False) or ""):
                    yield text


def functions(path: Path) -> Iterator[str]:
    """Yield the source of each function of a module, methods too, but for those inside other functions."""
    with warnings.catch_warnings(action="ignore"):
        source = path.read_bytes()
        open_nodes: list[ast.AST] = [ast.parse(source)]
    lines = source.decode(errors="replace").splitlines()
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        else:
            open_nodes += ast.iter_child_nodes(node)


def function_stores(length: int) -> tuple[TokenStore, TokenStore]:
    """Store functions of at most `length` tokens, each text once, as bytes after `BEGIN`: to train on, and held out.

    Those of every tenth module, in an order drawn by one fixed seed, are held out, if they are not among the others.
    """
    paths = list(modules())
    order = np.random.default_rng(0).permutation(len(paths))
    parts = np.delete(order, np.s_[::10]), order[::10]
    train, held_out = ({text for at in part for text in functions(paths[at])} for part in parts)
    stores = []
    for texts in (train, held_out - train):
        tokens = [np.frombuffer(bytes([BEGIN]) + text.encode(), np.uint8) for text in sorted(texts)]
        stores.append(TokenStore.from_samples([{"input_ids": ids} for ids in tokens if len(ids) <= length]))
    return stores[0], stores[1]


def module_rows(length: int, least: int) -> tuple[Tensor, Tensor]:
    """Return the rows of `length` bytes, each from one module of at least `least` bytes: to train on, and held out.

    Every tenth module, in an order drawn by one fixed seed, is held out. Modules that hold a table of characters are
    left out.
    """
    texts = [path.read_bytes() for path in modules(LEFT_OUT | {"encodings"})]
    texts = [texts[i] for i in np.random.default_rng(0).permutation(len(texts)) if len(texts[i]) >= least]
    rows = [
        torch.frombuffer(bytearray(text[: len(text) // length * length]), dtype=torch.uint8).view(-1, length).long()
        for text in texts
    ]
    return torch.cat([part for at, part in enumerate(rows) if at % 10]), torch.cat(rows[::10])
