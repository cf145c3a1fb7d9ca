"""A deck tells what the notebook tells, and keeps the code of its cells to itself."""

import re
from pathlib import Path

import nbformat
import pytest

from packlib.workbook.gallery import Picture, shown_alts
from packlib.workbook.guesses import NO_GUESS
from packlib.workbook.questions import Question, Questions
from packlib.workbook.results import RESULT
from packlib.workbook.slides import deck, slides_of
from packlib.workbook.tables import Table

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
DETAILS = (
    "<details><summary>Reveal</summary><p><b>5 packs.</b> "
    + NO_GUESS
    + " Six would be too many.</p></details>"
)
IMAGE = '<img alt="A line that &lt;rises&gt;." width="800" src="data:image/png;base64,AAAA">'


def data(**kinds):
    return nbformat.v4.new_output(
        "display_data", {key.replace("_", "/"): text for key, text in kinds.items()}
    )


def printed(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def code(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


def notebook(*cells):
    cells = [nbformat.v4.new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    return nbformat.v4.new_notebook(cells=cells)


def told(*cells, pictures=()):
    return [(slide.kind, slide.heading) for slide in slides_of(notebook("# Steps\n\nOne.", *cells), pictures)]


def test_an_answer_comes_before_what_its_cell_prints():
    cells = [
        "## Count\n\n**How many?**",
        code("guess = ..."),
        code("reveal(guess)", printed("it is 5"), data(text_html=DETAILS)),
    ]
    slides = slides_of(notebook("# Steps", *cells))
    assert [slide.kind for slide in slides] == ["title", "text", "answer", "text"]
    assert "it is 5" in slides[3].body and "it is 5" not in slides[1].body
    assert slides[2].body == "<p><strong>5 packs</strong></p><p>Six would be too many.</p>"


def test_an_answer_that_is_folded_is_unfolded(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *args, **options: shown.append((args[0], options)))
    Questions(share=Question("How full?", 25, "A <quarter>.", "%")).reveal("share", ...)
    ((bundle, options),) = shown
    output = nbformat.v4.new_output("display_data", bundle, metadata=options["metadata"])
    slides = slides_of(notebook("# Steps", "## Count\n\n**How full?**", code("reveal()", output)))
    assert (slides[2].kind, slides[2].heading) == ("answer", "Count: answer")
    assert slides[2].body == "<p><strong>25 %</strong></p><p>A &lt;quarter&gt;.</p>"


def test_code_is_shown_where_it_is_the_lesson_and_nowhere_else():
    short = "From `packlib/a.py`:\n```python\ndef short():\n    pass\n```"
    long = "From `packlib/b.py`:\n```python\n" + "    line = 1\n" * 40 + "```"
    cells = [
        "## See\n\nIt is short.",
        code(
            "show_source(short)", data(text_markdown=short), data(text_markdown=short.replace("a.py", "c.py"))
        ),
    ]
    cells += [code("show_source(long)", data(text_markdown=long)), code("secret = 7", printed("seven"))]
    slides = slides_of(notebook("# Steps", *cells))
    assert [(s.kind, s.heading) for s in slides[1:]] == [
        ("text", "See"), ("code", "packlib/a.py, packlib/c.py"),
        ("code", "packlib/b.py"), ("code", "packlib/b.py"), ("text", "See"),
    ]  # fmt: skip
    page = deck(notebook("# Steps", *cells))
    assert "short" in page and "secret" not in page and page.count('<span class="n">line</span>') == 40


def test_what_is_recorded_for_a_sweep_is_not_told():
    recorded = data(text_plain="packs: 5")
    recorded.metadata[RESULT] = {"name": "packs", "value": 5}
    assert told("## A", code("result('packs', 5)", recorded)) == [("title", "Steps")]
    del recorded.metadata[RESULT]
    assert told("## A", code("result('packs', 5)", recorded)) == [("title", "Steps"), ("text", "A")]


def test_a_long_table_goes_on_under_its_header():
    table = Table(("number", "square"), [(str(n), n * n) for n in range(30)])._repr_html_()
    slides = slides_of(notebook("# S", "## A", code("table", data(text_html=table))))[1:]
    assert len(slides) == 3 and all(slide.body.count("<th ") == 2 for slide in slides)
    cells = [cell for slide in slides for cell in re.findall(r"<td [^>]*>(\d+)<", slide.body)]
    assert cells == [text for n in range(30) for text in (str(n), str(n * n))]


def test_texts_share_a_slide_while_there_is_room():
    def line():
        return code("print(1)", printed("one\n" * 5))

    assert told("## A\n\nText.", line()) == [("title", "Steps"), ("text", "A")]
    assert told("## A\n\nText.", *(line() for _ in range(5))) == [
        ("title", "Steps"),
        ("text", "A"),
        ("text", "A"),
    ]
    assert told("## A", "### B\n\nText.", code("def f(): ...\n\n\ncheck('f', f)", printed("f: not tried yet"))) == [
        ("title", "Steps"), ("text", "A: B"),
    ]  # fmt: skip


def test_figures_come_from_files_with_the_words_in_them(tmp_path):
    (tmp_path / "a.svg").write_text("<svg/>")
    picture = Picture(tmp_path / "a.svg", "Up", "Another <line>.")
    cells = ["## A\n\nText.", code("show(fig)", data(text_html=IMAGE))]
    stored, fresh = (slides_of(notebook("# Steps", *cells), given)[2] for given in ((), [picture]))
    assert stored.body == '<img alt="A line that &lt;rises&gt;." src="data:image/png;base64,AAAA">'
    assert fresh.body == '<img alt="Another &lt;line&gt;." src="data:image/svg+xml;base64,PHN2Zy8+">'
    with pytest.raises(ValueError, match="shows 1 figures, but 2 files"):
        slides_of(notebook("# Steps", *cells), [picture, picture])


def test_links_lead_to_other_decks():
    page = deck(
        notebook(
            "# S",
            "## A\n\n[next](02_next.ipynb), [solved](solutions/01_a.ipynb), [more](https://x.org/a.ipynb)",
        )
    )
    assert re.findall(r'href="([^"]*)"', page) == [
        "02_next.html",
        "../notebooks/solutions/01_a.ipynb",
        "https://x.org/a.ipynb",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_deck_holds_all_figures_formulas_and_words_and_fetches_nothing(path):
    source = nbformat.read(path, as_version=4)
    slides, page = slides_of(source), deck(source)
    alts = [re.search(r'<img alt="([^"]+)"', slide.body)[1] for slide in slides if slide.kind == "figure"]
    assert len(alts) == len(shown_alts(source)) == page.count("<img ")
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "import " + "url" not in page
    for leak in ("check_parameters(", "guess = ...", "show(fig", "not tried yet", NO_GUESS, "$$"):
        assert leak not in page, leak
    for prose in re.findall(r"<p>(.*?)</p>", page, re.S):
        assert "\\" not in prose, "a formula was not understood"
    assert slides[0].kind == "title" and slides[-1].heading == "Summary"
