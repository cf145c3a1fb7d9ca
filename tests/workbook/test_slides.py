"""A deck tells what the notebook tells, and keeps the code of its cells to itself; the talk can be given as it is."""

import base64
import html
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from statistics import median
from urllib.parse import unquote

import nbformat
import pytest
from bs4 import BeautifulSoup
from figure_style import style_faults

from packbook.figures import new_figure, save, styled, svg
from packbook.guesses import NO_GUESS
from packbook.n00_tour.figures import draw_race, draw_right
from packbook.publish import slides, talk, talk_figures
from packbook.publish.gallery import Picture, pictures_of
from packbook.publish.slides import deck, headed, slides_of
from packbook.records import recorded
from packbook.results import meanings
from packbook.tables import Table
from packlib.tools.exits import exit_code

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def data(means=None, **kinds):
    texts = {key.replace("_", "/"): text for key, text in kinds.items()}
    return nbformat.v4.new_output("display_data", texts, metadata={"packlib": means} if means else {})


def figure(name, alt="A line that <rises>."):
    return data({"kind": "figure", "name": name, "title": "Up", "alt": alt}, image_png="AAAA")


ANSWER = data({"kind": "reveal", "answer": "5 packs", "why": "Six & more would be too many."}, text_html="<p>?</p>")


def printed(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def code(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


def notebook(*cells):
    cells = [nbformat.v4.new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    return nbformat.v4.new_notebook(cells=cells)


def wishing(cell, **wishes):
    cell = nbformat.v4.new_markdown_cell(cell) if isinstance(cell, str) else cell
    cell.metadata["packlib"] = {"slide": wishes}
    return cell


def test_a_slide_is_a_claim_and_the_rest_is_what_the_speaker_says():
    cells = ["## Count\n\n**How many?**", code("guess = ..."), code("reveal(guess)", printed("it is 5"), ANSWER)]
    cells.append(wishing(code("show(fig)", figure("line")), claim="B < A", notes="Say <it>."))
    cells.append(code("print(7)", printed("seven")))
    title, slide = slides_of(notebook("# Steps\n\nOne.\n\nGoals.", *cells))
    assert (title.kind, title.heading) == ("title", "Steps") and "Goals." in title.notes
    assert title.body.startswith("<h1>Steps</h1>\n<p>One.</p>\n\n<img alt="), "a sentence and a picture"
    assert (slide.kind, slide.heading, slide.name, slide.section) == ("figure", "B < A", "line", "Count")
    assert slide.body.startswith('<h2>B &lt; A</h2>\n<img alt="A line that &lt;rises&gt;."')
    order = ["How many?", "<b>5 packs.</b> Six &amp; more", "Say &lt;it&gt;."]
    assert [slide.notes.find(words) for words in order] == sorted(map(slide.notes.find, order))
    assert min(map(slide.notes.find, order)) >= 0
    page = deck([title, slide], speaker="A <b>")
    assert "it is 5" not in page and "seven" not in page and "guess" not in page
    assert "A &lt;b&gt;" in page and "Say &lt;it&gt;." in page and "1/2" in page and "2/2" in page


def test_any_cell_may_make_a_claim():
    table = Table(("number", "square"), [("2", 4)])._repr_html_()
    shown = code("table", data(text_html=table), data({"kind": "result", "name": "n", "value": 1}, text_plain="n: 1"))
    assert len(slides_of(notebook("# Steps", "## A", shown))) == 1
    words, five = wishing("## B\n\nText.", claim="Words"), wishing(code("f", printed("<5>")), claim="Five")
    slides = slides_of(notebook("# S", "## A", wishing(shown, claim="Squares grow"), words, five))[1:]
    assert [(slide.kind, slide.heading) for slide in slides] == [
        ("text", "Squares grow"), ("text", "Words"), ("text", "Five"),
    ]  # fmt: skip
    assert "<th " in slides[0].body and "n: 1" not in slides[0].body
    assert "<p>Text.</p>" in slides[1].body and '<pre class="out">&lt;5&gt;</pre>' in slides[2].body


def test_where_it_was_recorded_is_said_and_not_shown():
    source = data({"kind": "source", "text": "Recorded with make on a machine"}, text_plain="Recorded with make")
    (_, slide) = slides_of(notebook("# S", "## A", wishing(code("t", source, printed("5")), claim="Five")))
    assert "Recorded" not in slide.body and "<p>Recorded with make on a machine.</p>" in slide.notes


def test_a_table_has_six_rows_at_most_or_names_them():
    def slide(number, **wishes):
        rows = [(f"row {n}", n) for n in range(number)]
        shown = code("t", data(text_html=Table(("name", "n"), rows)._repr_html_()))
        return slides_of(notebook("# S", "## A", wishing(shown, claim="A table", **wishes)))[1].body

    assert slide(6).count("<tr") == 7
    with pytest.raises(ValueError, match="The slide 'A table' has a table of 7 rows; 6 can be read"):
        slide(7)
    body = slide(9, rows=[2, 8])
    assert re.findall(r"row \d", body) == ["row 2", "row 8"] and body.count("<tr") == 3


def test_what_speaks_to_a_learner_is_no_slide_and_the_summary_is_the_last():
    drawn = code("show(a)", figure("a"))
    summary = "## Summary\n\n- First.\n- Second.\n\nFurther reading."
    slides = slides_of(notebook("# S\n\nOne `claim`\nhere.", "## Exercises", drawn, "## Explore", drawn, summary))
    assert [(slide.kind, slide.heading) for slide in slides] == [("title", "S"), ("text", "One claim here.")]
    assert "<li>First.</li>" in slides[1].body and "Further" not in slides[1].body and "Further" in slides[1].notes
    shorter = notebook(wishing("# S\n\nOne `claim`\nhere.", thesis="Less is said"), summary)
    assert [slide.heading for slide in slides_of(shorter)] == ["S", "Less is said"]


def test_figures_come_from_files_with_the_words_in_them_and_may_grow(tmp_path):
    (tmp_path / "a.svg").write_text("<svg/>")
    picture = Picture(tmp_path / "a.svg", "line", "Up", "Another <line>.")
    cells = ["## A\n\nText.", wishing(code("show(fig)", figure("line")), build=[1, 3])]
    stored, fresh = (slides_of(notebook("# Steps", *cells), given)[1] for given in ((), [picture]))
    assert stored.body == '<img alt="A line that &lt;rises&gt;." src="data:image/png;base64,AAAA">'
    drawn = '<img alt="Another &lt;line&gt;." src="data:image/svg+xml;base64,PHN2Zy8+" data-build="[1, 3]">'
    assert fresh.body == f"<h2>Up</h2>\n{drawn}", "one headline a slide, in the same place on each"
    later = slides_of(notebook("# Steps", *cells), [replace(picture, title="Up by 2")])[1]
    assert later.heading == "Up by 2" and "<h2>Up by 2</h2>" in later.body, "the claim of the run that drew it"
    for given in ([picture, replace(picture, name="other")], [replace(picture, name="other")]):
        with pytest.raises(ValueError, match=r"not those of the notebook's figures: .*'other'"):
            slides_of(notebook("# Steps", *cells), given)


def test_a_cell_may_leave_figures_out_or_name_one():
    two = code("show(a); show(b)", figure("a", "One."), figure("b", "Two."))
    elsewhere = wishing(code("print(1)"), figure="b", claim="Two")

    def names(*cells):
        return [slide.name for slide in slides_of(notebook("# S", "## A\n\nText.", *cells)) if slide.name]

    assert names(two) == ["a", "b"]
    assert names(elsewhere, wishing(two, skip=True)) == ["b"]
    with pytest.raises(ValueError, match="figure must be 'a' or 'b', not 'c'"):
        names(wishing(two, figure="c"))
    assert names(wishing(two, figure="b")) == ["b"]


@pytest.mark.parametrize("main", [slides.main, talk.main])
def test_a_bad_place_is_one_sentence(tmp_path, capsys, main):
    (tmp_path / "file").touch()
    assert exit_code(lambda: main([str(tmp_path / "file" / "x"), "figures"])) == 2
    said = capsys.readouterr().err
    assert said.startswith("packlib: ") and said.count("\n") == 1 and "is a file and no folder" in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_deck_has_claims_and_fetches_nothing(path):
    source = nbformat.read(path, as_version=4)
    slides = slides_of(source)
    page = deck(slides)
    claims = [slide.heading for slide in slides if slide.kind != "title"]
    assert len(set(claims)) == len(claims)
    names = [slide.name for slide in slides if slide.name]
    assert len(names) == len(set(names)) and set(names) <= {one["name"] for one in meanings(source, "figure")}
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "import " + "url" not in page
    for leak in ("check_parameters(", "guess = ...", "show(fig", "not tried yet", NO_GUESS, "$$"):
        assert leak not in page, leak
    for prose in re.findall(r"<p>(.*?)</p>", page, re.S):
        assert "\\" not in prose, "a formula was not understood"
    assert slides[0].kind == "title" and slides[-1].section == "Summary"


def test_every_slide_makes_a_claim_of_its_own_and_fetches_nothing():
    slides = talk.talk(address="https://example.org/packing")
    claims = [slide.heading for slide in slides]
    assert '<a href="https://example.org/packing">' in slides[-1].body and "QR code of https" in slides[-1].body
    assert not any(re.search("[{}]", slide.heading + slide.notes) for slide in slides), "a number is missing"
    assert slides[0].kind == "title" and len(set(claims)) == len(claims) and all(slide.notes for slide in slides)
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="cover" role="img"' in slides[0].body
    alts = [re.search('<img alt="([^"]+)"', slide.body) for slide in slides if slide.kind == "figure"]
    assert alts and all(alts)
    (checked,) = [slide.body for slide in slides if "failed  " in slide.body]
    failed = ["isolation from earlier sequences", "isolation from later sequences", "positions", "same as alone"]
    assert re.findall(r"failed +([^\n<]+)", checked) == failed, "what the check finds in a collator with faults"
    page = deck(slides, "Somebody")
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "Somebody" in page


def test_the_speaker_needs_the_minutes_that_are_claimed():
    """At 130 words a minute, with up to a tenth of the time for what is only looked at."""
    words = tomllib.loads(talk.SCRIPT.read_text(encoding="utf-8"))
    notes = [BeautifulSoup(slide.notes, "html.parser").get_text() for slide in talk.talk()]
    spoken = sum(len(text.replace("Recorded with", "\n").split("\n\n")[0].split()) for text in notes)
    assert 0.9 * words["minutes"] <= spoken / 130 <= words["minutes"]
    for file in ("Makefile", "README.md"):
        assert f"a talk of {words['minutes']} minutes" in (NOTEBOOKS[0].parents[1] / file).read_text(encoding="utf-8")
    assert f"next {words['minutes']} minutes" in " ".join(notes[0].split())


def test_the_qr_code_leads_to_the_address():
    import segno

    address = "https://example.org/a?b=1&c"
    (shown,) = re.findall('<img class="code"[^>]* src="([^"]+)"', talk.talk(address=address)[-1].body)
    drawn = re.search(r'<path[^>]* d="([^"]+)"', unquote(html.unescape(shown)).replace("'", '"'))[1]
    assert drawn == re.search(r'<path[^>]* d="([^"]+)"', segno.make_qr(address).svg_inline(border=2))[1]


def script(folder, entry):
    """A talk of one slide beside its title."""
    path = folder / "talk.toml"
    path.write_text(f'title = "T"\nsubtitle = "S"\nnotes = "N"\n[[slide]]\n{entry}')
    return path


@pytest.mark.parametrize(
    "notebook, says", [("02_greedy_packing", "figure must be "), ("99_none", "notebook must be ")]
)
def test_what_is_not_there_is_refused(tmp_path, notebook, says):
    with pytest.raises(ValueError, match=says):
        talk.talk(script(tmp_path, f'notes = "n"\nnotebook = "{notebook}"\nfigure = "none"\n'))


def test_numbers_are_those_that_the_figure_says(tmp_path):
    entry = 'notebook = "00_tour"\nfigure = "packed"\nclaim = "{packed} rows"\nnotes = "{packed}!"\n'
    _, slide = talk.talk(script(tmp_path, entry))
    stored = nbformat.read(NOTEBOOKS[0], as_version=4)
    (means,) = [one for one in meanings(stored, "figure") if one["name"] == "packed"]
    assert slide.heading == f"{means['numbers']['packed']} rows" and f"{means['numbers']['packed']}!" in slide.notes
    with pytest.raises(ValueError, match=r"The figure 'packed' has no number 'nobody'; it has .*'padded'"):
        talk.talk(script(tmp_path, entry.replace("{packed}", "{nobody}")))


@styled()
def test_numbers_are_those_of_the_picture_that_is_shown(tmp_path):
    fig, _ = new_figure()
    save(fig, "Words.", tmp_path, "00_tour-01-waste", "Up", numbers={"empty": 12.5, "name": "a < b"})
    (found,) = pictures_of("00_tour", tmp_path)
    assert found.numbers == {"empty": 12.5, "name": "a < b"} and (found.title, found.alt) == ("Up", "Words.")
    save(fig, "Words.", tmp_path, "00_tour-01-waste", "Up")
    assert pictures_of("00_tour", tmp_path)[0].numbers == {}


def test_recorded_seconds_make_the_talks_own_figures():
    found = talk_figures.speed_ups()
    rows = [row for row in recorded("model_speed").rows if row["depth"] == "unlimited"]
    assert found["wordnet"] == pytest.approx(sum(row["realized speed-up"] for row in rows) / 2) and len(rows) == 2
    (wikipedia,) = [row for row in recorded("model_wikipedia").rows if row["run"] == "packed"]
    assert found["wikipedia"] == wikipedia["realized speed-up"]
    for draw in talk_figures.FIGURES.values():
        drawn = draw()
        assert not style_faults(svg(drawn.figure, drawn.alt)) and drawn.source.startswith(
            "Recorded with python data/record.py"
        )
    race = {row["run"]: [] for row in recorded("race").rows}
    for row in recorded("race").rows:
        race[row["run"]].append(row["CPU s"])
    assert drawn.numbers["times"] == pytest.approx(median(race["padded to the longest"]) / median(race["packed"]))
    assert "no mask" not in drawn.alt


def test_the_deck_of_the_tour_shows_recorded_seconds_and_none_of_the_run_that_was_stored():
    """The stored run is one of many, and the next one has other times."""
    cells = nbformat.read(next(path for path in NOTEBOOKS if path.stem == "00_tour"), as_version=4)
    slides = {slide.name: slide for slide in slides_of(cells)}
    assert not {"training", "without-mask"} & slides.keys()
    (_, alt, numbers), (_, right) = (draw(recorded("race").rows) for draw in (draw_race, draw_right))
    assert f'alt="{alt}"' in slides["race-seconds"].body and f'alt="{right}"' in slides["race-right"].body
    assert f"{numbers['times']:.1f} times as fast" in slides["race-seconds"].heading
    assert slides["race-right"].heading == "Without the mask 28 to 53 % are right, with it 99 %"


@styled()
def test_a_claim_takes_the_place_of_the_figures_title():
    fig, ax = new_figure()
    ax.set_title("The old one")
    drawn = base64.b64encode(svg(fig, "Words.").encode()).decode()
    body = headed("The <new> one", f'<img alt="Words." src="data:image/svg+xml;base64,{drawn}" data-build="2">')
    assert body.startswith("<h2>The &lt;new&gt; one</h2>\n<img alt=") and body.endswith(' data-build="2">')
    kept = base64.b64decode(re.search('base64,([^"]+)', body)[1]).decode()
    assert kept.count('<g id="claim">') == 1 and "<style>#claim { display: none }</style>" in kept
    image = "<img src='data:image/png;base64,AA=='>"
    assert headed("A", image) == f"<h2>A</h2>\n{image}"
