"""Pages open offline: no address of another machine is loaded, and formulas are drawn without a script."""

import html
import re

import nbformat
from nbconvert import LatexExporter

from packbook.pages import PageExporter, content_policy, markdown_to_html
from packbook.results import meanings
from packbook.run.running import notebooks
from tests.hostile import HOSTILE, Elements

FORMULA = r"\min_{x \ge 0} \lVert Ax - b \rVert"


def test_formulas_become_mathml():
    text = markdown_to_html(f"Costs 5 packs, $x < 3$ of them.\n\n$${FORMULA}$$\n\nAnd `$not$` this.")
    inline, block = re.findall(r"<math .*?</math>", text)
    assert 'display="inline"' in inline and "<mi>x</mi><mo>&#x0003C;</mo><mn>3</mn>" in inline
    assert 'display="block"' in block and "<mo>min</mo>" in block
    assert "<code>$not$</code>" in text and text.count("$") == 2


def test_a_page_fetches_nothing():
    cells = [nbformat.v4.new_markdown_cell(f"# Title\n\n$${FORMULA}$$"), nbformat.v4.new_code_cell("1")]
    cells[1].outputs = [nbformat.v4.new_output("display_data", {"text/markdown": "$a$", "text/plain": "a"})]
    state = {"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}}}
    page, _ = PageExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells, metadata=state))
    assert Elements(page.split("<style")[0]).tags[-1] == Elements(content_policy()).tags[0]
    assert page.count("<math ") == 2 and "mathjax" not in page.lower()
    assert "<script" not in page and not re.search(r'(?:src|href)="(?:https?:)?//|url\(http|@import', page)


def test_markdown_holds_no_html_but_what_hides_a_solution():
    page = markdown_to_html("<details>\n<summary>Solution</summary>\n\n*Five* <b>a</b>\n\n</details>", anchors=True)
    assert Elements(page).names == {"details", "summary", "p", "em"} and "<b>a</b>" in Elements(page).text
    for text in HOSTILE[:5]:
        for place in (text, f"# {text}", f"a {text} b", f"- {text}\n\n{text}"):
            assert not Elements(markdown_to_html(place, anchors=True)).faults(), place


def test_the_policy_allows_one_script_and_no_address():
    assert "script" not in content_policy() and "default-src 'none'" in content_policy()
    hashed = content_policy("a").partition("script-src ")[2]
    assert hashed.startswith("'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='")


def test_pictures_stand_in_for_explorers_where_no_kernel_runs():
    path = notebooks()["02_greedy_packing"]
    page, _ = PageExporter().from_filename(str(path))
    images = re.findall(r'<img[^>]* alt="([^"]*)"[^>]*>', page)
    figures = meanings(nbformat.read(path, as_version=4), "figure")
    assert [html.unescape(alt) for alt in images] == [figure["alt"] for figure in figures] != []
    assert "widget-view" not in page


def test_latex_and_so_pdf_has_every_figure():
    notebook = nbformat.read(notebooks()["00_tour"], as_version=4)
    figures = meanings(notebook, "figure")
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]  # Markdown takes pandoc
    page, resources = LatexExporter().from_notebook_node(notebook)
    assert len(re.findall(r"{output_\d+_\d+\.png}", page)) == len(resources["outputs"]) == len(figures) > 4
    assert all(picture.startswith(b"\x89PNG") for picture in resources["outputs"].values())
