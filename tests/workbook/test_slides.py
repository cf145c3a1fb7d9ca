"""A deck tells what the notebook tells, and keeps the code of its cells to itself."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from packlib.workbook import slides
from packlib.workbook.gallery import Picture
from packlib.workbook.guesses import NO_GUESS
from packlib.workbook.questions import Question, Questions
from packlib.workbook.results import fold, meanings
from packlib.workbook.slides import deck, slides_of
from packlib.workbook.tables import Table
from tests import cover

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
IMAGE = '<b>Why?</b><br><img alt="A line that &lt;rises&gt;." width="800" src="data:image/png;base64,AAAA">'


def data(means=None, **kinds):
    texts = {key.replace("_", "/"): text for key, text in kinds.items()}
    return nbformat.v4.new_output("display_data", texts, metadata={"packlib": means} if means else {})


def figure(name, alt="A line that <rises>."):
    return data({"kind": "figure", "name": name, "title": "Up", "alt": alt}, text_html=IMAGE)


ANSWER = data({"kind": "reveal", "folded": fold("5 packs", "Six & more would be too many.")}, text_html="<p>?</p>")


def source(file, text):
    return data({"kind": "source", "file": file, "text": text}, text_markdown="From the library")


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
        code("reveal(guess)", printed("it is 5"), data({"kind": "source", "text": "x"}, text_plain="here"), ANSWER),
    ]
    slides = slides_of(notebook("# Steps", *cells))
    assert [slide.kind for slide in slides] == ["title", "text", "answer", "text"]
    assert "it is 5" in slides[3].body and "here" in slides[3].body and "it is 5" not in slides[1].body
    assert slides[2].body == "<p><strong>5 packs</strong></p><p>Six &amp; more would be too many.</p>"


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
    short = "def short():\n    pass\n"
    long = "    line = 1\n" * 40
    cells = [
        "## See\n\nIt is short.",
        code("show_source(short)", source("packlib/a.py", short), source("packlib/c.py", short)),
    ]
    cells += [code("show_source(long)", source("packlib/b.py", long)), code("secret = 7", printed("seven"))]
    slides = slides_of(notebook("# Steps", *cells))
    assert [(s.kind, s.heading) for s in slides[1:]] == [
        ("text", "See"), ("code", "packlib/a.py, packlib/c.py"),
        ("code", "packlib/b.py"), ("code", "packlib/b.py"), ("text", "See"),
    ]  # fmt: skip
    page = deck(notebook("# Steps", *cells))
    assert "short" in page and "secret" not in page and page.count('<span class="n">line</span>') == 40


def test_what_is_recorded_for_a_sweep_is_not_told():
    recorded = data({"kind": "result", "name": "packs", "value": 5}, text_plain="packs: 5")
    assert told("## A", code("result('packs', 5)", recorded)) == [("title", "Steps")]
    del recorded.metadata["packlib"]
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
    assert told("## A\n\nText.", *(line() for _ in range(5))) == [("title", "Steps"), ("text", "A"), ("text", "A")]
    assert told("## A", "### B\n\nText.", code("def f(): ...\n\n\ncheck('f', f)", printed("f: not tried yet"))) == [
        ("title", "Steps"), ("text", "A: B"),
    ]  # fmt: skip


def test_figures_come_from_files_with_the_words_in_them(tmp_path):
    (tmp_path / "a.svg").write_text("<svg/>")
    picture = Picture(tmp_path / "a.svg", "line", "Up", "Another <line>.")
    cells = ["## A\n\nText.", code("show(fig)", figure("line"))]
    stored, fresh = (slides_of(notebook("# Steps", *cells), given)[2] for given in ((), [picture]))
    assert stored.body == '<img alt="A line that &lt;rises&gt;." src="data:image/png;base64,AAAA">'
    assert fresh.body == '<img alt="Another &lt;line&gt;." src="data:image/svg+xml;base64,PHN2Zy8+">'
    other = replace(picture, name="other")
    for given in ([picture, other], [other]):
        with pytest.raises(ValueError, match=r"not those of the notebook's figures: .*'other'"):
            slides_of(notebook("# Steps", *cells), given)


def wishing(cell, **wishes):
    cell.metadata["packlib"] = {"slide": wishes}
    return cell


def test_a_cell_may_say_what_becomes_of_it():
    two = code("show(a); show(b)", figure("a", "One."), figure("b", "Two."), printed("both"))
    text = nbformat.v4.new_markdown_cell("## A\n\nText.")
    plain = slides_of(notebook("# S", text, two))
    assert [slide.kind for slide in plain] == ["title", "text", "figure", "figure", "text"]
    skipped = slides_of(notebook("# S", wishing(text, skip=True), two))
    assert [slide.kind for slide in skipped] == ["title", "figure", "figure", "text"]
    wished = notebook("# S", wishing(text, claim="B < A"), wishing(two, claim="Two", figure="b", notes="Say <it>."))
    title, words, drawn, last = slides_of(wished)
    assert words.heading == "B < A" and words.body == "<h2>B &lt; A</h2>\n<p>Text.</p>\n"
    assert drawn.heading == "Two" and drawn.body.startswith('<h2>Two</h2>\n<img alt="Two."')
    assert [slide.notes for slide in (title, words, drawn, last)] == ["", "", "Say <it>.", ""]
    assert deck(wished).count("<aside>") == 1 and "<aside>Say &lt;it&gt;.</aside>" in deck(wished)
    elsewhere = notebook("# S", wishing(text, figure="b"), wishing(two, skip=True))
    assert [slide.kind for slide in slides_of(elsewhere)] == ["title", "text", "figure"]
    with pytest.raises(ValueError, match="figure must be 'a' or 'b', not 'c'"):
        slides_of(notebook("# S", wishing(text, figure="c"), two))


@pytest.mark.parametrize("module", [slides, cover], ids=lambda module: module.__name__)
def test_a_bad_place_is_one_sentence(tmp_path, module):
    (tmp_path / "file").touch()
    arguments = [tmp_path / "file" / "x", *([tmp_path, "none.ipynb"] if module is slides else [])]
    command = [sys.executable, "-m", module.__name__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("packlib: ") and done.stderr.count("\n") == 1
    assert "is a file and no folder" in done.stderr


def test_links_lead_to_other_decks():
    page = deck(
        notebook("# S", "## A\n\n[next](02_next.ipynb), [solved](solutions/01_a.ipynb), [more](https://x.org/a.ipynb)")
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
    assert len(alts) == len(meanings(source, "figure")) == page.count("<img ") > 0
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "import " + "url" not in page
    for leak in ("check_parameters(", "guess = ...", "show(fig", "not tried yet", NO_GUESS, "$$"):
        assert leak not in page, leak
    for prose in re.findall(r"<p>(.*?)</p>", page, re.S):
        assert "\\" not in prose, "a formula was not understood"
    assert slides[0].kind == "title" and slides[-1].heading == "Summary"
