"""Web pages that need no network: formulas are MathML, and no script is fetched."""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from packlib.arguments import escaped, in_html

_TAGS = re.compile(r"&lt;(/?(?:details|summary))&gt;")  # the HTML that a notebook's Markdown may hold


def content_policy(script: str = "", images: str = "data:") -> str:
    """Return the `<meta>` that keeps a page from running any other script than `script`, and from fetching anything.

    Args:
        script: the text between the tags of the page's own script, or "" if it has none.
        images: where its images may come from.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "style-src 'unsafe-inline'"]
    rules += ["font-src data:", f"img-src {images}", *([f"script-src 'sha256-{digest}'"] if script else [])]
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def fill_template(template: Path, **parts: Any) -> str:
    """Fill the page that is in the file `template`; parts are text, unless the template marks them as safe."""
    pages = Environment(loader=FileSystemLoader(template.parent), autoescape=True, trim_blocks=True)
    pages.filters["in_html"] = in_html
    return pages.get_template(template.name).render(content_policy=content_policy, **parts)


def mathml(formula: str, block: bool = False) -> str:
    """Turn a formula of LaTeX into MathML. The converter takes ± for a name; browsers put no spaces around names."""
    made = convert(formula, display="block" if block else "inline")
    return made.replace("<mi>&#x000B1;</mi>", "<mo>&#x000B1;</mo>")


class _Renderer(IPythonRenderer):
    """Markdown with formulas as MathML, which browsers draw by themselves; HTML other than `_TAGS` is text."""

    address: Callable[[str], str]

    def block_html(self, html: str) -> str:
        return _TAGS.sub(r"<\1>", escaped(html))

    inline_html = block_html

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, self.address(url), title)

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, block=True)


def markdown_to_html(source: str, anchors: bool = False, address: Callable[[str], str] = str) -> str:
    """Return a notebook's Markdown as HTML; with `anchors`, headings carry a link to themselves.

    Args:
        address: where a link leads, of where it leads in the notebook.
    """
    no_scripts: dict[str, Any] = {"escape": False, "allow_harmful_protocols": None}
    renderer = _Renderer(**no_scripts, exclude_anchor_links=not anchors)
    renderer.address = address
    return MarkdownWithMath(renderer=renderer).render(source)


class PageExporter(HTMLExporter):
    """nbconvert's exporter to HTML, for pages that open offline as they do online."""

    def __init__(self, **options: Any) -> None:
        super().__init__(filters={"content_policy": content_policy}, **options)
        self.raw_template = Path(__file__).with_name("notebook.html").read_text(encoding="utf-8")

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return markdown_to_html(source, anchors=True)
