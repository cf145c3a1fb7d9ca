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
        images: sources of images that are allowed, as in `img-src`.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "style-src 'unsafe-inline'"]
    rules += ["font-src data:", f"img-src {images}"]
    if script:
        rules.append(f"script-src 'sha256-{digest}'")
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def fill_template(template: Path, **parts: Any) -> str:
    """Return the page that the file `template` makes of `parts`, which are text unless the template marks them safe."""
    environment = Environment(loader=FileSystemLoader(template.parent), autoescape=True, trim_blocks=True)
    environment.filters["in_html"] = in_html
    return environment.get_template(template.name).render(content_policy=content_policy, **parts)


def mathml(formula: str, block: bool = False) -> str:
    """Return a formula of LaTeX as MathML, in a line of text or as a block."""
    converted = convert(formula, display="block" if block else "inline")
    # the converter takes ± for a name, which browsers write without spaces around it; it is an operator
    return converted.replace("<mi>&#x000B1;</mi>", "<mo>&#x000B1;</mo>")


class _Renderer(IPythonRenderer):
    """Renders Markdown with formulas as MathML, which browsers draw without scripts; HTML other than `_TAGS` is text.

    Attributes:
        address: returns where a link leads on the page, given where it leads in the notebook.
    """

    address: Callable[[str], str]

    def block_html(self, html: str) -> str:
        """Return HTML as text, but for the tags in `_TAGS`."""
        return _TAGS.sub(r"<\1>", escaped(html))

    inline_html = block_html

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, self.address(url), title)

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, block=True)


def markdown_to_html(source: str, anchors: bool = False, address: Callable[[str], str] = str) -> str:
    """Return a notebook's Markdown as HTML.

    Args:
        anchors: whether headings have a link to themselves.
        address: returns where a link leads on the page, given where it leads in the notebook.
    """
    # `_Renderer` escapes HTML by itself; None refuses links such as javascript:
    options: dict[str, Any] = {"escape": False, "allow_harmful_protocols": None}
    renderer = _Renderer(**options, exclude_anchor_links=not anchors)
    renderer.address = address
    return MarkdownWithMath(renderer=renderer).render(source)


class PageExporter(HTMLExporter):
    """Exports notebooks to HTML with nbconvert, as pages that fetch nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(filters={"content_policy": content_policy}, **options)
        self.raw_template = Path(__file__).with_name("notebook.html").read_text(encoding="utf-8")

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return markdown_to_html(source, anchors=True)
