"""The site: `make site`, `python -m packbook.publish.website.building site`

The pages are the repository's own files: notebooks as they were run, README, glossary, and the docstrings. They are
copied into a folder where Sphinx finds them, and nothing in them is run again. No page needs a network.
"""

import argparse
import base64
import copy
import hashlib
import importlib.util
import inspect
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from PIL import Image

from packbook.game import ON_SITE as GAME
from packbook.publish.website import walk
from packbook.publish.website.browser_explorers import explorer_of, on_page
from packbook.publish.website.card import draw_card
from packbook.records import recorded
from packbook.results import meaning, questions_of
from packbook.run import course
from packbook.run.minutes import reading_minutes
from packbook.run.running import NOTEBOOKS
from packlib.arguments import escaped, shown
from packlib.files import output_path, work_folder, write_text
from packlib.installed import ROOT, needed_by
from packlib.lengths import available, load
from packlib.lengths.counting import MAX_LENGTH
from packlib.tools.advice.depths import best_plan
from packlib.tools.exits import exit_code

_HERE = Path(__file__).parent
_LEADING = ("index", "game", "solutions", "interface", "reference", "404")  # pages in files next to this one


def _leads_to(page: str) -> list[str]:
    """Return the pages that the page `page`.md, next to this file, lists in its tables of contents."""
    lines = (_HERE / f"{page}.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.fullmatch(r"[\w/]+", line)]


ROOMS = tuple(name.removeprefix("api/") for name in _leads_to("interface"))
PAGES = tuple(f"{name}.md" for name in _leads_to("reference"))
# {0} is the repository, {1} the place of the notebook in it
_HOSTED = (
    "\n\nOpen it in [Colab](https://colab.research.google.com/github/{0}/blob/gh-pages/hosted/{1}) or "
    "[Binder](https://mybinder.org/v2/gh/{0}/gh-pages?labpath=hosted/{1})."
)
_FOR_A_KERNEL = {  # patterns of what a notebook asks learners to do, and what the site says in its place
    r"\n*Press Shift \+ Enter to run [^\n]*(?:\n[^\n]+)*": "",
    r" ?Put your guess in place of the dots, and run the cell\.": "",
    r"Fill in the dots and run the cell(?:; it answers)?\.(?:\sUntil\sit\ssays\s[^.]*\.)?": (
        "`make lab` opens this chapter in JupyterLab, where the cell answers."
    ),
}
_NOT_TRIED = r"(\w+): not tried yet\. Replace the dots [^\n]*"  # below an exercise whose answer is blank
_INSTALL = '%pip install --quiet "packlib[{1}] @ git+https://github.com/{0}"'


class Sources:
    """Writes what Sphinx reads, in the folders of the repository, so that links between files hold.

    Args:
        folder: an empty folder.
        repository: "owner/name" at GitHub, for copies of the notebooks that hosted services open; "" for none.

    Attributes:
        extra: folder of the files that Sphinx copies as they are.
        up: path from the page that is being written to the top of the site, such as "../".

    Raises:
        ValueError: if `repository` has another form.
    """

    up: str

    def __init__(self, folder: Path, repository: str = ""):
        if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.A):
            raise ValueError(f"repository must be a name at GitHub, such as owner/name, not {shown(repository)}.")
        self.folder, self.repository = folder, repository
        self.extra = folder / "_extra"

    def write(self, notebooks: Sequence[Path]) -> None:
        """Write all pages, these notebooks among them, and the files that Sphinx only copies."""
        for page in PAGES:
            self._page(page)
        for path in notebooks:
            self._write_notebook(path)
        for room in ROOMS:
            write_text(self.folder / "api" / f"{room}.md", interface(room))
        for name in _LEADING:
            shutil.copy(_HERE / f"{name}.md", self.folder)
        chapters = {path.stem: nbformat.read(path, as_version=4) for path in notebooks if path.parent == NOTEBOOKS}
        write_text(self.folder / "notebooks.md", self.list_of_notebooks(chapters))
        write_text(self.folder / "leaks.md", leaks_page())
        walk_page = (_HERE / "walk.md").read_text(encoding="utf-8")
        write_text(self.folder / "walk.md", walk_page.replace("@walk@", walk.on_page()))
        if self.repository:
            write_text(self.extra / "binder" / "requirements.txt", binder_requirements(self.repository))
            write_text(self.extra / "binder" / "runtime.txt", "python-3.12\n")
        write_text(self.extra / "data_sets.js", data_sets_script())
        shutil.copy(ROOT / "README.svg", self.folder)

    def _write_notebook(self, path: Path) -> None:
        """Write a notebook's page, and with a repository the copy of the notebook that hosted services open."""
        notebook = nbformat.read(path, as_version=4)
        place = path.relative_to(NOTEBOOKS)
        self.up = "../" * len(place.parts)
        page = self.notebook(notebook)
        title_cell = page.cells[0]
        title_cell.source = re.sub("^# ", f"# {path.name[:2]} ", title_cell.source)  # as other chapters name it
        if self.repository:
            title_cell.source += _HOSTED.format(self.repository, place)
            hosted_copy = hosted(notebook, self.repository, path.stem)
            write_text(self.extra / "hosted" / place, nbformat.writes(hosted_copy))
        write_text(self.folder / "notebooks" / place, nbformat.writes(page))

    def list_of_notebooks(self, chapters: Mapping[str, NotebookNode]) -> str:
        """Return the page that leads to these chapters, in the order of the course: a card for each.

        Args:
            chapters: notebooks by name.
        """
        self.up = ""
        parts = [(_HERE / "notebooks.md").read_text(encoding="utf-8").strip()]
        for when, listed in groupby(course.chapters(), lambda chapter: chapter.when):
            listed_chapters = [chapter for chapter in listed if chapter.notebook in chapters]
            if not listed_chapters:
                continue
            cards = "\n".join(self._card(chapter, chapters[chapter.notebook]) for chapter in listed_chapters)
            names = "\n".join(f"notebooks/{chapter.notebook}" for chapter in listed_chapters)
            parts += [f"## {when.capitalize()}"]
            parts += [f'```{{raw}} html\n<div class="chapters">\n{cards}\n</div>\n```']
            parts += [f"```{{toctree}}\n:hidden:\n\n{names}\n```"]
        return "\n\n".join(parts) + "\n"

    def _card(self, chapter: course.Chapter, notebook: NotebookNode) -> str:
        """Return HTML with a chapter's first picture, its title, the question that it answers, and its minutes."""
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        pictures = [output["data"]["image/png"] for output in outputs if meaning(output).get("kind") == "figure"]
        image = ""
        if pictures:
            image = self._img("", base64.b64decode(pictures[0]), is_map=False, link=False)
        title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
        minutes = f"{reading_minutes(chapter.notebook)} minutes"
        return (
            f'<a class="chapter" href="notebooks/{chapter.notebook}.html">{image}'
            f"<b>{chapter.notebook[:2]} {escaped(title)}</b><span>{escaped(chapter.question)}</span>"
            f"<small>{minutes}</small></a>"
        )

    def _page(self, page: str) -> None:
        """Write a page of Markdown; of a link to a file that is no page of the site, its words and path are left."""
        source = (ROOT / page).read_text(encoding="utf-8")

        def link_or_path(link: re.Match) -> str:
            words, address = link.groups()
            path = os.path.normpath(Path(page).parent / address.partition("#")[0])
            is_notebook = re.fullmatch(r"notebooks/(solutions/)?\d\d_\w+\.ipynb", path)
            is_on_site_or_web = path in PAGES or is_notebook or address[0] == "#" or "://" in address
            return link[0] if is_on_site_or_web else f"{words} (`{path}`)"

        source = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link_or_path, source)  # [words](address), no image
        source = _unbroken(source)
        # the SVG itself, not an image: an image would move even for readers who ask for reduced motion
        inline = "```{raw} html\n:file: README.svg\n```"
        write_text(self.folder / page, re.sub(r"^!\[[^\]]*\]\(README\.svg\)$", inline, source, flags=re.M))

    def notebook(self, notebook: NotebookNode) -> NotebookNode:
        """Return a copy for Sphinx: pictures as files, answers folded, explorers that need no kernel."""
        page = copy.deepcopy(notebook)
        for words, cell in _ask_where_guessed(page):
            for output in cell.outputs:
                output["data"]["text/html"] = _asked(words, meaning(output))
        for cell in page.cells:
            tags = cell.metadata.setdefault("tags", [])  # MyST-NB reads them
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                tags.append("hide-input")
            if cell.cell_type == "markdown":
                cell.source = _for_a_reader(cell.source)
            elif cell.cell_type == "code":
                for output in cell.outputs:
                    self._adapt_output(output)
                visible = [output for output in cell.outputs if meaning(output).get("kind") != "style"]
                cell.outputs = _captions_below(visible)
                if not any(map(_has_columns, cell.outputs)):
                    tags.append("prose")  # the page wraps its lines
        _explorer_first(page)
        return page

    def _adapt_output(self, output: NotebookNode) -> None:
        """Change an output in place so that the site shows it: a picture as a file, an explorer without a kernel."""
        if output.output_type == "stream":
            output.text = re.sub(
                _NOT_TRIED, r"\1: an exercise. In JupyterLab this cell checks your answer.", output.text
            )
        data, means = output.get("data", {}), meaning(output)
        data.pop("application/vnd.jupyter.widget-view+json", None)
        png = data.pop("image/png", "")  # in base64
        if explorer := explorer_of(means):
            data["text/html"] = on_page(explorer, self._picture)
        elif means.get("kind") == "figure":
            data["text/html"] = self._img(means["alt"], base64.b64decode(png), "needs_background" in output.metadata)
        elif _is_caption(means):
            data["text/html"] = f'<p class="recorded">{escaped(means["text"])}</p>'
        elif "text/html" in data:
            data["text/html"] = data["text/html"].replace(GAME, f'<a href="{self.up}game.html">{GAME}</a>')

    def _img(self, alt: str, content: bytes, is_map: bool, link: bool = True) -> str:
        """Put a figure's PNG into a file, and return HTML that shows it.

        Args:
            is_map: whether its shades are values, so that it stays light on a dark page.
            link: whether the picture links to its file.
        """
        wide, high = Image.open(io.BytesIO(content)).size
        kind = "dark-light figure packlib-map" if is_map else "dark-light figure"
        size = f'width="800" height="{round(800 * high / wide)}"'  # so that the page does not jump when it is loaded
        source = self._picture(content)
        # on a phone its labels are too small to be read: the picture itself can be enlarged
        image = f'<img alt="{escaped(alt)}" class="{kind}" {size} loading="lazy" src="{source}">'
        return f'<a href="{source}">{image}</a>' if link else image

    def _picture(self, content: bytes) -> str:
        """Put a PNG into a file named for its content, and return its address as seen from this page."""
        path = self.extra / "figures" / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return f"{self.up}figures/{path.name}"


def _for_a_reader(source: str) -> str:
    """Return a cell's Markdown without instructions to run cells, and with links to headings that Sphinx finds."""
    for instruction, instead in _FOR_A_KERNEL.items():
        source = re.sub(instruction, instead, source)
    heading_link = r"(?:(?<=\.ipynb)|(?<=\]\())#[^)\s]+"  # behind a notebook's name, or alone in (…)
    # Jupyter names the heading "The map!" #The-map!, Sphinx names it #the-map
    source = re.sub(heading_link, lambda link: re.sub(r"[^\w#-]", "", link[0].lower()), source)
    return _unbroken(source)


def _unbroken(source: str) -> str:
    """Return Markdown in whose tables "15 min" and "day 1" stay on one line, or all rows would take two."""
    short_cell = r"(?<=\| )(?:\d+ (?:min|s)|day \d|by need)(?= \|)"
    return re.sub(short_cell, lambda cell: cell[0].replace(" ", "\N{NO-BREAK SPACE}"), source)


def leaks_page() -> str:
    """Return the page, in Markdown, that says which trainers and collators leak between sequences, as recorded."""
    table = recorded("leaks")
    words = (_HERE / "leaks.md").read_text(encoding="utf-8").strip()
    header = ("set-up", "as alone?", "what differs", "rows of 32 tokens")
    lines = [header, ["---"] * len(header)]
    for row in table.rows:
        unanswered = row["inconclusive"] and f"inconclusive: {row['inconclusive']}"
        differs = "; ".join(filter(None, (row["failed"], unanswered)))
        parts = ", ".join(f"`{part}`" for part in row["set-up"].split(", "))  # a line breaks between them
        set_up = f"{row['library']} {row['version']}, {row['date']}: {parts}"
        cells = (set_up, f"**{row['exact']}**", differs, row["audit"])
        lines.append([str(cell).replace("|", "\\|") for cell in cells])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{words}\n\n{body}\n\nRecorded with `{table.command}` on {table.device}.\n"


def data_sets_script() -> str:
    """Return a script with the measured data sets, for the front page to pack.

    Each has what it is `about`, its usual `max_length`, the `best` number of packs that the search reaches with it, and
    `counts`: pairs of a length and how often it occurs, from long to short.
    """
    sets = {}
    for name, about in available().items():
        usual = load(name)
        if usual.kind != "measured":
            continue
        uncut = load(name, max_length=MAX_LENGTH)
        lengths = uncut.counts.nonzero()[0].tolist()
        counts = [[length, int(uncut.counts[length])] for length in reversed(lengths)]
        best = best_plan(uncut.with_max_length(usual.max_length, "split")).num_packs
        sets[name] = {"about": about, "max_length": usual.max_length, "best": best, "counts": counts}
    return f"const DATA_SETS = {json.dumps(sets, separators=(',', ':'))};\n"


def hosted(notebook: NotebookNode, repository: str, chapter: str) -> NotebookNode:
    """Return a copy of a notebook for a service that has Jupyter and no packlib: its first cell installs packlib.

    Args:
        chapter: name of the notebook, which is also that of its solutions.
    """
    copied = copy.deepcopy(notebook)
    extras_by_notebook = {listed.notebook: listed.extras.split() for listed in course.chapters()}
    install = _INSTALL.format(repository, ",".join(["notebook", *extras_by_notebook[chapter]]))
    copied.cells.insert(0, nbformat.v4.new_code_cell(install, id="install"))
    return copied


def binder_requirements(repository: str) -> str:
    """Return the text of `requirements.txt` for Binder: all that chapters need, with PyTorch for the CPU."""
    extras = sorted({extra for chapter in course.chapters() for extra in chapter.extras.split()})
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    pinned = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    requirement = f"packlib[{','.join(['notebook', *extras])}] @ git+https://github.com/{repository}"
    return f"{index}\n{pinned}+cpu\n{requirement}\n"


def _asked(words: str, means: Mapping[str, Any]) -> str:
    """Return the HTML of a question and its folded answer; `guesses.js` asks for the guess and judges it.

    Args:
        words: the question.
        means: the meaning of the output that answers it.
    """
    if "judging" not in means:
        raise ValueError(f"The question {words!r} was stored without its truth: run make notebooks.")
    question = json.dumps({"question": words, **means["judging"]}).replace("<", "\\u003c")
    answer = f"<p><b>{escaped(means['answer'])}.</b> {escaped(means['why'])}</p>"
    return (
        f'<div class="guess"><script type="application/json">{question}</script>'
        "<p>To be told how near your guess is takes scripts, which are off here.</p>"
        f"<details><summary>Show the answer</summary>{answer}</details></div>"
    )


def home(room: str) -> str:
    """Return the full name of a package that has a page: of "lengths" it is "packlib.lengths".

    Args:
        room: a subpackage of packlib or of packlib.tools, or "packbook".
    """
    candidates = (f"packlib.{room}", f"packlib.tools.{room}", room)
    return next(name for name in candidates if importlib.util.find_spec(name))


def interface(room: str) -> str:
    """Return the page of a package (see `home`): its docstring, and directives for all that it offers."""
    package = home(room)
    module = importlib.import_module(package)
    about = (module.__doc__ or "").strip()
    parts = [f"# {package}", about, "```{eval-rst}"]
    for name in sorted(module.__all__):
        value = getattr(module, name)
        full_name = f"{package}.{name}"
        if inspect.ismodule(value):
            continue
        if inspect.isclass(value):
            parts.append(f".. autoclass:: {full_name}\n   :members:")
        elif callable(value):
            parts.append(f".. autofunction:: {full_name}")
        else:
            content = ", ".join(map(str, value)) if isinstance(value, Iterable) else value
            parts.append(f".. py:data:: {full_name}\n\n   {type(value).__name__}: {content}")
    return "\n\n".join([*parts, "```", ""]).replace("```{eval-rst}\n\n", "```{eval-rst}\n")


def _ask_where_guessed(notebook: NotebookNode) -> list[tuple[str, NotebookNode]]:
    """Move each answer into the cell for the guess, where the site asks: cells in between may give the answer away.

    Returns:
        For each question its words and the cell for the guess, which has the answer as its output now.

    Raises:
        ValueError: if a guess has no question in bold above it.
    """
    questions = questions_of(notebook)
    index_of_cell = {id(cell): i for i, cell in enumerate(notebook.cells)}
    for words, cell in questions:
        if not words:
            raise ValueError("A cell for a guess has no question in bold above it.")
        cell.metadata.setdefault("tags", []).append("remove-input")
        later_cells = notebook.cells[index_of_cell[id(cell)] + 1 :]
        answering_cell = next(later for later in later_cells if any(map(_is_answer, later.get("outputs", ()))))
        cell.outputs = list(filter(_is_answer, answering_cell.outputs))
        answering_cell.outputs = [output for output in answering_cell.outputs if not _is_answer(output)]
    return questions


def _explorer_first(notebook: NotebookNode) -> None:
    """Move the explorer, if there is one, below the title, before goals and imports, whose code is folded."""
    title, *cells = notebook.cells
    original_cell = next((cell for cell in cells if any(map(_is_explorer, cell.get("outputs", ())))), None)
    if original_cell is None:
        return
    heading, _, text = title.source.partition("\n\n")
    sentence, _, goals = text.partition("\n\n")
    title.source = f"{heading}\n\n{sentence}"
    explorer_cell = nbformat.v4.new_code_cell("explorer", metadata={"tags": ["remove-input"]}, id="explorer")
    anchor = nbformat.v4.new_output("display_data", {"text/html": '<span id="explorer"></span>'})
    explorer_cell.outputs = [anchor, *original_cell.outputs]
    link = '<p><a href="#explorer">It is at the top of this page.</a></p>'
    original_cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": link})]
    code_cells = [cell for cell in cells if cell.cell_type == "code"]
    for cell in code_cells[:2]:  # parameters and imports
        cell.metadata.tags.append("hide-input")
    goals_cells = [nbformat.v4.new_markdown_cell(goals, id="goals")] if goals else []
    notebook.cells = [title, explorer_cell, *goals_cells, *cells]


def _is_explorer(output: NotebookNode) -> bool:
    return "explorer" in meaning(output)


def _is_answer(output: NotebookNode) -> bool:
    return meaning(output).get("kind") == "reveal"


def _is_caption(means: Mapping[str, Any]) -> bool:
    """Return whether an output says where a figure was recorded."""
    return means.get("kind") == "source" and "file" not in means


def _has_columns(output: NotebookNode) -> bool:
    """Return whether an output is text whose words stand below one another, so that no line may be wrapped."""
    data = output.get("data", {})
    text = output.get("text", "" if "text/html" in data else data.get("text/plain", ""))
    return re.search(r"\S  +\S", text) is not None


def _captions_below(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the outputs with each caption, which says where a figure or table was recorded, below that figure."""
    ordered: list[NotebookNode] = []
    captions: list[NotebookNode] = []  # those that wait for their figure
    for output in outputs:
        if _is_caption(meaning(output)):
            captions.append(output)
        else:
            ordered += [output, *captions]
            captions = []
    return ordered + captions


def _lighten(folder: Path) -> None:
    """Remove from a built site what its pages do not need: the theme's icons, source maps, and scripts of other pages.

    The theme has two thousand icons.
    """
    icons = re.compile(r"(?:\.fa-[\w-]+,?)+\{--fa:[^}]*\}|@font-face\{[^}]*Font Awesome[^}]*\}")
    style = folder / "_static/styles/pydata-sphinx-theme.css"
    write_text(style, icons.sub("", style.read_text(encoding="utf-8")))
    for file in (*folder.rglob("*.map"), folder / "_static/scripts/fontawesome.js"):
        file.unlink()
    for name in ("_static/vendor", "_sources"):
        shutil.rmtree(folder / name, ignore_errors=True)
    needed_for = {  # scripts, and the HTML of a page that needs them
        "searchtools|language_data|searchindex": 'id="search-results"',
        "drawings|explorers": 'class="explorer"',
        "guesses": 'class="guess"',
    }
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        names = "|".join(["fontawesome", *(scripts for scripts, html in needed_for.items() if html not in text)])
        unused = rf'<script[^>]* src="[^"]*(?:{names})\.js[^"]*"></script>|<link rel="preload"[^>]*>'
        write_text(page, re.sub(unused, "", text))


def address_of(repository: str) -> str:
    """Return the address of a repository's GitHub Pages; "" if no repository is named."""
    owner, _, name = repository.partition("/")
    if not owner:
        return ""
    host = f"https://{owner.lower()}.github.io/"
    return host if name.lower() == f"{owner.lower()}.github.io" else f"{host}{name}/"


def _write_sitemap(folder: Path, address: str) -> None:
    """Write the list of pages that search engines read."""
    pages = [page.relative_to(folder).as_posix() for page in sorted(folder.rglob("*.html"))]
    listed_pages = [page for page in pages if not page.startswith(("_modules/", "hosted/")) and page != "404.html"]
    lines = "\n".join(f"<url><loc>{address}{page}</loc></url>" for page in listed_pages)
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{schema}">\n{lines}\n</urlset>\n'
    write_text(folder / "sitemap.xml", text)


def build(folder: Path, notebooks: Sequence[Path], repository: str = "") -> list[str]:
    """Build the site in `folder`, in place of an earlier one.

    Returns:
        The lines of Sphinx's warnings.

    Raises:
        MissingExtraError: if Sphinx is not installed.
        FileExistsError: if `folder` holds something else than a site, or what the site is made of.
        RuntimeError: if Sphinx fails.
    """
    with needed_by("make site"):
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace, patch_docutils
    folder = output_path(folder, folder=True, reads=[*notebooks, _HERE])
    is_site = (folder / "objects.inv").exists()  # Sphinx writes it
    if folder.exists() and any(folder.iterdir()) and not is_site:
        raise FileExistsError(f"{folder} holds something else than a site; name another folder.")
    warnings = io.StringIO()
    with work_folder(folder.parent) as work:
        Sources(work / "source", repository).write(notebooks)
        source, html, trees = (str(work / part) for part in ("source", "html", "trees"))
        address = address_of(repository)
        extra = [str(work / "source" / "_extra")]
        options = {"release": version("packlib"), "html_extra_path": extra, "html_baseurl": address}
        with patch_docutils(str(_HERE)), docutils_namespace():
            app = Sphinx(source, str(_HERE), html, trees, "html", options, status=None, warning=warnings)
            app.build()
        if app.statuscode:
            raise RuntimeError(f"Sphinx could not build the site: {warnings.getvalue()}")
        _lighten(work / "html")
        draw_card(work / "html" / "card.png")
        if address:
            _write_sitemap(work / "html", address)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(work / "html", folder)
    return warnings.getvalue().splitlines()


def all_notebooks() -> list[Path]:
    """Return the chapters, and after them their solutions."""
    return [*sorted(NOTEBOOKS.glob("*.ipynb")), *sorted(NOTEBOOKS.glob("solutions/*.ipynb"))]


def main(arguments: Sequence[str]) -> None:
    """Build the site; print where it is, and to stderr what Sphinx warned of."""
    parser = argparse.ArgumentParser(prog="python -m packbook.publish.website.building", description="Build the site.")
    parser.add_argument("folder", type=Path, help="where it goes")
    parser.add_argument("notebooks", type=Path, nargs="*", help="all if none is named")
    parser.add_argument(
        "--repository", default="", help="owner/name at GitHub, for notebooks that hosted services open"
    )
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.notebooks] or all_notebooks()
    for line in build(options.folder, paths, options.repository):
        print(line, file=sys.stderr)
    print(options.folder / "index.html")


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
