"""The rooms of packlib: what loads what, what each offers, and that none changes or imports what it should not."""

import ast
import graphlib
import importlib
import inspect
import json
import pydoc
import re
import rlcompleter
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from model_cases import bert_config, make_batch, make_model
from transformers import AttentionInterface, AttentionMaskInterface, BertForMaskedLM

import packbook
import packlib
from packbook.figures import label_ends, new_figure, styled, svg
from packlib.model import PackedBert, for_transformers

# The packages and modules in the order in which they build on one another: each may import from those before it.
IDEAS = [f"packlib.{room}" for room in ("lengths", "packing", "work", "batches", "model", "training", "distributed")]
TOOLS = [f"packlib.tools.{room}" for room in ("rows", "check", "auditing", "loaders", "advice")]
BOOK = ["packbook", "packbook.shared", "packbook.n", "packbook.run", "packbook.publish"]  # n: the chapters
LAYERS = [*IDEAS, "packlib.tools", *TOOLS, "packlib.tools.cli", *BOOK, "packbook.cli"]
ROOMS = [*IDEAS, *TOOLS, "packbook"]
FOLDER = Path(packlib.__file__).parent
FOLDERS = {"packlib": FOLDER, "packbook": Path(packbook.__file__).parent}
PACKAGES = ["packlib", "packlib.tools", *ROOMS]
HEAVY = ("torch", "scipy", "highspy", "pyarrow", "transformers", "matplotlib", "IPython", "click")


def test_what_needs_no_torch_loads_nothing_heavy():
    """Looking around, a greedy plan, and what refuses the target of a check."""
    code = (
        "import sys, packlib; dir(packlib); packlib.plan(packlib.load('wikipedia'), method='lpfhp')\n"
        "import packlib.training, packlib.tools.check.check_targets, packlib.tools.loaders.loader_targets\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def offered(package):
    """The names that a room's `__init__` imports, for everyone or for type checkers, and the modules they are from."""
    path = Path(importlib.import_module(package).__file__)
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
    ours = {name: home for name, home in names.items() if home.startswith(("packlib", "packbook"))}
    return {name: home for name, home in ours.items() if name not in ("late", "needed_by")}


def test_what_a_package_offers_is_public():
    """To a type checker, an imported name is public where `__all__` has it. Only packbook reads those of a chapter."""
    for module, path in modules():
        if path.stem == "__init__" and not re.match(r"packbook\.n\d\d_", module):
            public = getattr(importlib.import_module(module), "__all__", [])
            assert sorted(offered(module)) == sorted(public), module


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


@cache
def imports_of(path):
    """What a file imports of packlib anywhere, in functions or for type checkers too: modules, and names in them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("packlib", "packbook")):
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.startswith(("packlib", "packbook"))]
    return found


def test_the_site_has_a_page_of_each_room():
    """In the order in which they build on one another."""
    page = (FOLDERS["packbook"] / "publish/website/interface.md").read_text(encoding="utf-8")
    names = [room.rpartition(".")[2] for room in ROOMS]
    assert re.findall(r"^api/(\w+)$", page, re.M) == names
    there = {path.parent.name for pattern in ("*", "tools/*") for path in FOLDER.glob(f"{pattern}/__init__.py")}
    assert there - {"tools"} == set(names) - {"packbook"}


def layer_of(module):
    """The place of a module in `LAYERS`; -1 for what stands beside the subpackages of packlib, and so below them."""
    if re.match(r"packbook\.n\d\d_", module):
        return LAYERS.index("packbook.n")
    within = [i for i, layer in enumerate(LAYERS) if f"{module}.".startswith(f"{layer}.")]
    return max(within, default=-1)


def modules():
    """All files of both packages by the names of their modules."""
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            yield ".".join([package, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"), path


HAND_ON = {"packlib", "packlib.__main__", "packlib.tools", "packbook.__main__"}  # they offer what stands above them


def test_nothing_below_imports_from_above():
    for module, path in modules():
        for package, name in imports_of(path) if module not in HAND_ON else ():
            imported = f"{package}.{name}"
            assert layer_of(imported) <= layer_of(module), f"{module} imports {imported}"


def test_no_chapter_imports_another():
    for module, path in modules():
        if chapter := re.match(r"packbook\.n\d\d_\w+", module):
            others = [f"{package}.{name}" for package, name in imports_of(path)]
            assert not [one for one in others if re.match(r"packbook\.n\d\d_", f"{one}.") and chapter[0] not in one]


def test_no_circle_of_imports():
    """Not among files; a room's `__init__`, which imports its files, counts as what it is for others: those files."""
    homes = {(package, name): home for package in PACKAGES for name, home in offered(package).items()}
    files = dict(modules())
    graph = {}
    for name, path in files.items():
        if path.stem != "__init__":
            whole = {(module, imported): f"{module}.{imported}" for module, imported in imports_of(path)}
            graph[name] = {file if file in files else homes.get(at, at[0]) for at, file in whole.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    """What a new process says that imports all of packlib: what this changed, and the loss of a pickled model."""
    file = tmp_path_factory.mktemp("pickled") / "model.pt"
    model, batch = make_model("bert").eval(), make_batch()
    torch.save((model, batch), file)
    command = [sys.executable, "-W", "ignore", "-m", "tests.imported", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(**json.loads(done.stdout), expected=model(**batch).loss.item())


def test_importing_packlib_changes_no_other_library_and_nothing_of_the_process(child):
    assert child.changed == []


def test_a_packed_model_that_was_pickled_works_where_none_was_made(child):
    """In a process whose imports have told transformers nothing, as the test above sees."""
    assert child.loss == child.expected


def tables():
    return [dict(table._global_mapping) for table in (AttentionInterface, AttentionMaskInterface)]


@pytest.mark.parametrize("own, backend", [("sdpa", "eager"), ("eager", "sdpa"), ("sdpa", "flex")])
def test_a_packed_model_changes_no_other_model(own, backend):
    """Also none of the same configuration; transformers learns only names that begin with packlib_."""
    before, config, batch = tables(), bert_config(attn_implementation=own), make_batch()
    plain, packed = BertForMaskedLM(config), PackedBert(config, backend=backend)
    given = for_transformers(batch, plain, "dense")
    with torch.no_grad():
        assert packed(**batch).hidden.isfinite().all() and plain(**given).logits.isfinite().all()
    assert plain.config is config and config._attn_implementation == own
    for table, old in zip(tables(), before, strict=True):
        assert {name for name in table if table[name] is not old.get(name)} <= {
            name for name in table if name.startswith("packlib_")
        }


@styled()
def drawing():
    """A line, bars, a picture, words, a legend and a title: each takes something from matplotlib's settings."""
    fig, (left, right) = new_figure(1, 2)
    line = left.plot([1, 2, 3], [1, 10, 100], marker="o", label="a line")[0]
    left.set(xlabel="steps", yscale="log", title="A title")
    left.legend(loc="upper left")
    left.grid(axis="y")
    label_ends({line: "the end"})
    right.imshow(np.eye(3))
    right.set_xticks([0, 2], ["first", "last"])
    right.text(1, 1, "words")
    right.axhline(0.5)
    fig.colorbar(right.images[0])
    fig.suptitle("All of it", x=0.02, ha="left")
    return svg(fig, "alt")


def test_a_figure_has_the_style_of_the_workbook_whatever_matplotlib_is_set_to_and_no_other_figure_has():
    def own():
        return Figure().get_figwidth(), dict(matplotlib.rcParams)

    other = {"font.size": 30, "lines.linewidth": 9, "legend.frameon": True, "image.cmap": "gray", "svg.hashsalt": "x"}
    other |= {"figure.figsize": (3, 3), "axes.titlelocation": "center", "xtick.labelsize": 3, "axes.spines.top": True}
    before, expected = own(), drawing()
    assert own() == before and before[0] != 8
    with matplotlib.rc_context(other):
        assert drawing() == expected
        assert matplotlib.rcParams["font.size"] == 30
