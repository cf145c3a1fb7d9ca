"""The site: `make site`, `python -m packlib.workbook.website.building site`

The pages are the repository's own files: notebooks as they were run, README, glossary, and the docstrings. They are
copied into a folder where Sphinx finds them, and nothing in them is run again. No page needs a network.
"""

import argparse
import ast
import base64
import copy
import hashlib
import importlib
import inspect
import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from packlib.checks import shown
from packlib.files import write_text
from packlib.installed import ROOT, needed_by
from packlib.places import output_path, work_folder
from packlib.workbook.exits import exit_code
from packlib.workbook.results import meaning
from packlib.workbook.running import NOTEBOOKS
from packlib.workbook.website.frames import MOST, frames_of, player

ROOMS = (
    "lengths", "packing", "work", "batches", "model", "distributed", "training", "rows", "check", "auditing", "advice",
    "workbook",
)  # fmt: skip
PAGES = (
    "README.md", "packlib/USING.md", "packlib/rows/README.md", "data/benchmarks/README.md", "notebooks/GLOSSARY.md",
    "notebooks/INSTRUCTORS.md", "notebooks/REFERENCES.md", "CONTRIBUTING.md", "CHANGELOG.md",
)  # fmt: skip
_HOSTED = (
    "\n\nOpen it in [Colab](https://colab.research.google.com/github/{0}/blob/main/notebooks/{1}) or "
    "[Binder](https://mybinder.org/v2/gh/{0}/main?labpath=notebooks/{1})."
)
_HERE = Path(__file__).parent
_IMAGE = re.compile(r'(?:<style>[^<]*</style>)?<img alt="([^"]*)"([^>]*?) src="data:image/png;base64,([^"]+)">')


class Sources:
    """Writes what Sphinx reads, in the folders of the repository, so that links between files hold.

    Args:
        folder: an empty folder.
        repository: "owner/name" at GitHub, for links that open a notebook in hosted services; "" for none.
        settings: pictures of an explorer at most.

    Raises:
        ValueError: if that is no such name.
    """

    def __init__(self, folder: Path, repository: str = "", settings: int = MOST):
        if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.A):
            raise ValueError(f"repository must be a name at GitHub, such as owner/name, not {shown(repository)}.")
        self.folder, self.repository, self.settings = folder, repository, settings
        self.extra = folder / "_extra"  # Sphinx copies what is in it as it is

    def write(self, notebooks: Sequence[Path]) -> None:
        pages = [page for page in PAGES if (ROOT / page).exists()]
        for page in pages:
            self._page(page)
        for path in notebooks:
            notebook = nbformat.read(path, as_version=4)
            place = path.relative_to(NOTEBOOKS)
            self.up = "../" * len(place.parts)
            shown_as = self.notebook(notebook)
            if self.repository:
                shown_as.cells[0].source += _HOSTED.format(self.repository, place)
            write_text(self.folder / "notebooks" / place, nbformat.writes(shown_as))
        for room in ROOMS:
            write_text(self.folder / "api" / f"{room}.md", interface(room))
        write_text(self.folder / "game.md", (_HERE / "game.md").read_text(encoding="utf-8"))
        names = [path.relative_to(NOTEBOOKS).with_suffix("").as_posix() for path in notebooks]
        for name, text in _leading(pages, names).items():
            write_text(self.folder / f"{name}.md", text)
        shutil.copy(ROOT / "README.svg", self.folder)

    def _page(self, page: str) -> None:
        """A page of Markdown; a link to a file that is no page of the site becomes its name."""
        source = (ROOT / page).read_text(encoding="utf-8")

        def keep(link: re.Match) -> str:
            words, to = link.groups()
            target = os.path.normpath(Path(page).parent / to.partition("#")[0])
            if target == "README.md":  # the index shows it
                return f"[{words}]({to.replace('README.md', 'index.md')})"
            known = target in PAGES or re.fullmatch(r"notebooks/(solutions/)?\d\d_\w+\.ipynb", target) or to[0] == "#"
            return link[0] if known or "://" in to else f"{words} (`{target}`)"

        source = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", keep, source)
        write_text(self.folder / page, source.replace("(README.svg)", "(README.svg){.dark-light}"))

    def notebook(self, notebook: NotebookNode) -> NotebookNode:
        """A copy for Sphinx: pictures as files, answers folded, explorers that need no kernel."""
        made = copy.deepcopy(notebook)
        for cell in made.cells:
            if cell.cell_type == "markdown":  # Jupyter and Sphinx name headings differently
                cell.source = re.sub(
                    r"(?<=\.ipynb)#[^)\s]+", lambda to: re.sub(r"[^\w#-]", "", to[0].lower()), cell.source
                )
            tags = cell.metadata.setdefault("tags", [])
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                tags.append("hide-input")
            for output in cell.get("outputs", ()):
                self._output(output)
        return made

    def _output(self, output: NotebookNode) -> None:
        data, means = output.get("data", {}), meaning(output)
        data.pop("application/vnd.jupyter.widget-view+json", None)
        if frames := frames_of(means, self.settings):
            data["text/html"] = player(frames, self._picture)
        elif "text/html" in data:
            data["text/html"] = _IMAGE.sub(lambda image: self._img(*image.groups()), data["text/html"])

    def _img(self, alt: str, attributes: str, encoded: str) -> str:
        address = self._picture(base64.b64decode(encoded))
        attributes = attributes.replace("packlib-figure", "dark-light figure")
        return f'<img alt="{alt}"{attributes} loading="lazy" src="{address}">'

    def _picture(self, content: bytes) -> str:
        """The address of a picture, as the page of this notebook sees it."""
        path = self.extra / "figures" / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return f"{self.up}figures/{path.name}"


def offered(room: str) -> list[str]:
    """The names that a room's `__init__` imports from files of packlib, those that are loaded late included."""
    tree = ast.parse(inspect.getsource(importlib.import_module(f"packlib.{room}")))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return sorted(
        alias.name for node in imports for alias in node.names if (node.module or "").startswith(f"packlib.{room}")
    )


def interface(room: str) -> str:
    """The page of a room: what it offers, from its docstrings."""
    module = importlib.import_module(f"packlib.{room}")
    about = (module.__doc__ or "").strip()
    parts = [f"# packlib.{room}", about, "```{eval-rst}"]
    for name in offered(room):
        thing, full = getattr(module, name), f"packlib.{room}.{name}"
        if inspect.ismodule(thing):
            continue
        if inspect.isclass(thing):
            parts.append(f".. autoclass:: {full}\n   :members:")
        elif callable(thing):
            parts.append(f".. autofunction:: {full}")
        else:
            holds = ", ".join(map(str, thing)) if isinstance(thing, Iterable) else thing
            parts.append(f".. py:data:: {full}\n\n   {type(thing).__name__}: {holds}")
    return "\n\n".join([*parts, "```", ""]).replace("```{eval-rst}\n\n", "```{eval-rst}\n")


def _with_tree(title: str, about: str, names: Sequence[str], hidden: bool = False) -> str:
    """A page that leads to others."""
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return "\n".join([f"# {title}\n" if title else "", about, "", f"```{{toctree}}\n{options}", *names, "```", ""])


def _leading(pages: Sequence[str], notebooks: Sequence[str]) -> dict[str, str]:
    """The pages that lead to the others, by name."""
    solved = [name for name in notebooks if name.startswith("solutions/")]
    chapters = [f"../notebooks/{name}" for name in notebooks if name not in solved]
    others = [f"../{page.removesuffix('.md')}" for page in pages if page != "README.md"]
    about = {
        "notebooks": (
            "Notebooks",
            "All as they were run. `make lab` opens them so that you can change them.",
            chapters,
        ),
        "solutions": ("Solutions", "One way to do each exercise.", [f"../notebooks/{name}" for name in solved]),
        "interface": ("Interface", "What each room of `packlib` offers.", [f"../api/{room}" for room in ROOMS]),
        "reference": ("Reference", "Words, habits and changes.", others),
    }
    made = {f"to/{name}": _with_tree(*told) for name, told in about.items()}
    names = ["to/notebooks", "game", *(f"to/{name}" for name in about if name != "notebooks")]
    return made | {"index": _with_tree("", "```{include} README.md\n```", names, hidden=True)}


def _lighten(folder: Path) -> None:
    """Leave out what no page needs: the theme's two thousand icons, its maps, and the search on other pages."""
    icons = re.compile(r"(?:\.fa-[\w-]+,?)+\{--fa:[^}]*\}|@font-face\{[^}]*Font Awesome[^}]*\}")
    style = folder / "_static/styles/pydata-sphinx-theme.css"
    write_text(style, icons.sub("", style.read_text(encoding="utf-8")))
    for file in (*folder.rglob("*.map"), folder / "_static/scripts/fontawesome.js"):
        file.unlink()
    for name in ("_static/vendor", "_sources"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for page in folder.rglob("*.html"):
        names = "fontawesome" if page.name == "search.html" else "fontawesome|searchtools|language_data|searchindex"
        text = page.read_text(encoding="utf-8")
        unused = rf'<script[^>]* src="[^"]*(?:{names})\.js[^"]*"></script>|<link rel="preload"[^>]*>'
        write_text(page, re.sub(unused, "", text))


def build(folder: Path, notebooks: Sequence[Path], repository: str = "", settings: int = MOST) -> list[str]:
    """Build the site in `folder`, in place of an earlier one, and return what Sphinx warned of, a line each.

    Raises:
        MissingExtraError: if Sphinx is not installed.
        FileExistsError: if `folder` holds something else than a site, or what the site is made of.
        RuntimeError: if Sphinx fails.
    """
    with needed_by("make site"):
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace, patch_docutils
    folder = output_path(folder, folder=True, reads=[*notebooks, _HERE])
    if folder.exists() and any(folder.iterdir()) and not (folder / "objects.inv").exists():
        raise FileExistsError(f"{folder} holds something else than a site; name another folder.")
    told = io.StringIO()
    with work_folder(folder.parent) as work:
        Sources(work / "source", repository, settings).write(notebooks)
        source, html, trees = (str(work / part) for part in ("source", "html", "trees"))
        options = {"release": version("packlib"), "html_extra_path": [str(work / "source" / "_extra")]}
        with patch_docutils(str(_HERE)), docutils_namespace():
            app = Sphinx(source, str(_HERE), html, trees, "html", options, status=None, warning=told)
            app.build()
        if app.statuscode:
            raise RuntimeError(f"Sphinx could not build the site: {told.getvalue()}")
        _lighten(work / "html")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(work / "html", folder)
    return told.getvalue().splitlines()


def all_notebooks() -> list[Path]:
    """The chapters, and after them their solutions."""
    return [*sorted(NOTEBOOKS.glob("*.ipynb")), *sorted(NOTEBOOKS.glob("solutions/*.ipynb"))]


def main(arguments: Sequence[str]) -> None:
    """Build it, and say where it is and what Sphinx warned of."""
    parser = argparse.ArgumentParser(prog="python -m packlib.workbook.website.building", description="Build the site.")
    parser.add_argument("folder", type=Path, help="where it goes")
    parser.add_argument("notebooks", type=Path, nargs="*", help="all if none is named")
    parser.add_argument(
        "--repository", default="", help="owner/name, for links that open a notebook in hosted services"
    )
    given = parser.parse_args(arguments)
    paths = [path.resolve() for path in given.notebooks] or all_notebooks()
    for line in build(given.folder, paths, given.repository):
        print(line, file=sys.stderr)
    print(given.folder / "index.html")


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
