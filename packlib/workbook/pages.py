"""Notebooks as web pages that need no network: formulas are MathML, and no script is fetched."""

from typing import Any

from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

_NO_SCRIPTS = """{%- extends "index.html.j2" -%}
{%- block html_head_js_requirejs -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
"""


class _Renderer(IPythonRenderer):
    """Markdown with formulas as MathML, which browsers draw by themselves."""

    def inline_math(self, body: str) -> str:
        return convert(body)

    def block_math(self, body: str) -> str:
        return convert(body, display="block")


def markdown_to_html(source: str, anchors: bool = False) -> str:
    """A notebook's Markdown as HTML; with `anchors`, headings carry a link to themselves."""
    renderer = _Renderer(escape=False, exclude_anchor_links=not anchors)
    return MarkdownWithMath(renderer=renderer).render(source)


class PageExporter(HTMLExporter):
    """nbconvert's exporter to HTML, for pages that open offline as they do online."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.raw_template = _NO_SCRIPTS

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return markdown_to_html(source, anchors=True)
