"""What Sphinx asks for; `packbook.publish.website.building` lays out the sources and calls it."""

import re
from html import escape, unescape
from textwrap import shorten
from typing import Any

from docutils import nodes

from packbook.pages import mathml

project = "The packing workbook"
author = "The packing workbook's authors"
copyright = "the packing workbook's authors, MIT license"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns = ["_extra"]  # it is copied as it is
html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
# a page that is opened as a file may fetch no other, so its search goes without excerpts
_NO_EXCERPTS = 'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;'
html_js_files = [
    (None, {"body": _NO_EXCERPTS}),
    ("drawings.js", {"defer": "defer"}),
    ("explorers.js", {"defer": "defer"}),
    ("guesses.js", {"defer": "defer"}),
    ("tables.js", {"defer": "defer"}),
]
html_favicon = "static/icon.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars: dict[str, list[str]] = {name: [] for name in ("index", "walk", "leaks", "game", "404")}
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": project},
}
html_context = {"default_mode": "auto"}

nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # its default fetches scripts
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type", "ref.python"]

default_role = "code"  # docstrings quote code as Markdown does
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
html_math_renderer = "mathml"


def _inline(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line; Sphinx shall not write the node, too."""
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own; readers can scroll to its end by keys."""
    writer.body.append(f'<div class="math" tabindex="0">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def _as_restructured_text(*event: Any) -> None:
    """Turn a docstring, in place, from Markdown into reStructuredText.

    The forms differ for an indented block of code, and for code that ends within a word, such as `pack`s.

    Args:
        event: the arguments of Sphinx's event `autodoc-process-docstring`; the second says what has the docstring, and
            the last has its lines.
    """
    kind, lines = event[1], event[-1]
    if lines and lines[0].startswith("Alias for field number"):  # Python's own words: the class says more
        lines.clear()
    sections = {"Args:", "Attributes:", "Raises:", "Returns:", "Yields:"}  # what is indented below them is no code
    restructured: list[str] = []
    previous_line = ""  # the last one that is not blank
    for line in lines:
        follows_blank_line = bool(restructured) and not restructured[-1]
        is_first_indented = line.startswith("    ") and not previous_line.startswith(" ")
        if follows_blank_line and is_first_indented and previous_line not in sections:
            restructured += ["::", ""]
        restructured.append(re.sub(r"(`[^`]+`)(\w?)", lambda code: "\\ ".join(filter(None, code.groups())), line))
        previous_line = line or previous_line
    if kind == "property":
        # an empty comment, or Napoleon takes the words before a colon for the property's type
        restructured[:0] = ["..", ""]
    lines[:] = restructured


def _shown_when_shared(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add what a link to the page shows on other sites: its title, its first sentence, and one picture for all pages.

    Other sites need whole addresses, so there is a picture only where the address of this site is known.
    """
    base = app.config.html_baseurl
    first_paragraph = next((node.astext() for node in doctree.findall(nodes.paragraph)), "") if doctree else ""
    about = shorten(first_paragraph, 200, placeholder=" …") or project
    title = unescape(re.sub(r"<[^>]+>", "", context.get("title", project)))
    facts = {"og:type": "article", "og:site_name": project, "og:title": title, "og:description": about}
    if base:
        facts |= {"og:url": f"{base}{page}.html", "og:image": f"{base}card.png"}
    tags = [f'<meta name="description" content="{escape(about)}">']
    tags += ['<meta name="twitter:card" content="summary_large_image">'] * bool(base)
    tags += [f'<meta property="{name}" content="{escape(fact)}">' for name, fact in facts.items()]
    if page == "404" and base:
        tags.append(f'<base href="{escape(base)}">')  # it is shown at any address that leads nowhere
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def setup(app: Any) -> None:
    """Set up Sphinx: formulas are MathML, which browsers draw by themselves."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("html-page-context", _shown_when_shared)
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=400)  # before napoleon reads sections
