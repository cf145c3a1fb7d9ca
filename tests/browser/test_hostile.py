"""Hostile names in a real browser: no script of theirs runs, no element of theirs is there, nothing is fetched."""

from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from packbook.figures import new_figure, picture, png, save, styled
from packbook.n01_padding_waste.lesson import WasteExplorer
from packbook.pages import PageExporter
from packbook.publish.gallery import contact_sheet
from packbook.publish.slides import deck, slides_of
from packbook.run.comparison import compared, table
from packbook.run.sweep import Outcome
from packbook.tables import Points, Table
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools.advice import advise
from packlib.tools.advice.page import page as report_page
from tests.hostile import FILE_NAME, HOSTILE, IMAGE

THEIRS = "img:not([src^='data:'], [loading]), [onload], [onerror], [onfocus], [autofocus], math, a[href^='javascript']"

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def visit(chromium, tmp_path):
    """Open a page; what went on there: dialogs, what the console says, addresses that were asked for."""
    with chromium.new_context(offline=True) as context:

        def visit(text, name="page.html"):
            path = tmp_path / name
            path.write_text(text, encoding="utf-8")
            page = context.new_page()
            seen = SimpleNamespace(page=page, dialogs=[], said=[], requests=[], stopped=[])
            page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
            page.on("console", lambda message: seen.said.append(message.text))
            page.on("pageerror", lambda error: seen.said.append(str(error)))
            page.on("request", lambda request: seen.requests.append(request.url))
            page.on("requestfailed", lambda request: seen.stopped.append((request.failure, request.url)))
            page.goto(path.as_uri(), wait_until="load")
            page.wait_for_timeout(100)  # for a handler that fires after the page is there
            seen.requests = [url for url in seen.requests if not url.startswith(("data:", path.as_uri()))]
            return seen

        yield visit


def assert_harmless(seen, *texts):
    assert not seen.dialogs and not seen.said and not seen.requests
    assert seen.page.locator(THEIRS).count() == 0
    words = " ".join(seen.page.locator("body").text_content().split())
    for text in texts:
        assert " ".join(text.split()) in words


def output(data, **means):
    return new_code_cell(outputs=[new_output("display_data", data, metadata={"packlib": means})])


@pytest.mark.parametrize("text", [FILE_NAME, HOSTILE[2]], ids=["name", "script"])
def test_a_report(visit, text):
    advice = advise(LengthHistogram.from_lengths([3, 5, 8, 2] * 9, name=text, source=text))
    seen = visit(report_page(advice, command=text))
    assert_harmless(seen, " ".join(advice.whole.name.split()))
    assert seen.page.title() == " ".join(f"Packing report: {advice.whole.name}".split())


def test_a_report_is_no_wider_than_a_phone_and_opens(visit):
    seen = visit(report_page(advise([90] * 600 + [1250] * 600, 2048, model="7B", memory="80GB")))
    seen.page.set_viewport_size({"width": 390, "height": 800})
    assert not seen.page.locator("table").first.is_visible()
    seen.page.locator("summary").first.click()
    assert seen.page.locator("table").first.is_visible()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_deck(visit, tmp_path):
    """All that the library shows of hostile names, as HTML, in a notebook that has them itself."""
    (tmp_path / f"{FILE_NAME}.txt").write_text("5\n7\n30\n")
    explorer = WasteExplorer(str(tmp_path / f"{FILE_NAME}.txt"))
    outcomes = [Outcome({"dataset": text}, 1.0, {IMAGE: at}) for at, text in enumerate(HOSTILE[:6])]
    fig, alt = compared(outcomes)
    shown = [Points(HOSTILE), table(outcomes), *(Table((text, text), [(text, 1)]) for text in HOSTILE)]
    shown += [plan(LengthHistogram([0, 3, 2], name=text), method="lpfhp") for text in HOSTILE]
    pages = [one._repr_html_() for one in shown] + [explorer.picture.value]
    cells = [new_markdown_cell(f"# {IMAGE}\n\n<svg onload=alert(1)> [c](javascript:alert(1))")]
    cells += [new_markdown_cell(f"## {text}\n\n{text}") for text in HOSTILE[:5]]
    cells += [output({"text/html": page}) for page in pages]
    cells += [new_code_cell("1", outputs=[new_output("stream", text=text)]) for text in HOSTILE]
    cells += [
        output({"text/markdown": IMAGE}, kind="source", file=IMAGE, text=IMAGE),
        output(picture(png(fig), alt), kind="figure", name=IMAGE, title=IMAGE, alt=IMAGE),
        output({"text/html": IMAGE}, kind="reveal", answer=IMAGE, why=IMAGE),
    ]
    for cell in cells[1:]:
        cell.metadata["packlib"] = {"slide": {"claim": IMAGE, "notes": HOSTILE[2]}}
    seen = visit(deck(slides_of(new_notebook(cells=cells)), speaker=IMAGE))
    assert_harmless(seen, *HOSTILE[:10])
    assert seen.page.title() == IMAGE and seen.page.locator("script").count() == 1
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator("section.on").get_attribute("aria-label").startswith("2 of")


@styled()
def test_a_contact_sheet_and_a_figure(visit, tmp_path):
    fig, ax = new_figure()
    ax.set_title(f"{IMAGE} $x$ --><script>alert(1)</script>")
    save(fig, IMAGE, tmp_path, '01_"a<b>#-01-line')
    notebook = tmp_path / '01_"a<b>#.ipynb'
    nbformat.write(new_notebook(cells=[new_markdown_cell(f"# {IMAGE}")]), notebook)
    seen = visit(contact_sheet([notebook], tmp_path), "index.html")
    assert not seen.dialogs and not seen.said and seen.page.locator(THEIRS).count() == 0
    image = seen.page.locator("img")
    image.evaluate("image => image.loading = 'eager'")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)")
    seen = visit((tmp_path / '01_"a<b>#-01-line.svg').read_text(), "a.svg")
    assert not seen.dialogs and seen.page.locator("script").count() == 0


@pytest.mark.parametrize("made", ["report", "deck"])
def test_the_policy_stops_what_an_escape_forgot(visit, made):
    attack = f"{IMAGE}<script>alert(2)</script><svg onload=alert(3)></svg><a href='javascript:alert(4)'>c</a>"
    attack += "<img src='https://example.org/x.png'>"
    page = visit("<!DOCTYPE html>" + attack)
    assert {"1", "2", "3"} <= set(page.dialogs), "without a policy it runs"
    cells = [new_markdown_cell("# A"), new_markdown_cell("## B\n\nb"), output({"text/html": f"<p>{attack}</p>"})]
    if made == "deck":
        text = deck(slides_of(new_notebook(cells=cells[:1]))).replace("<h1>A</h1>", attack)
    else:
        text, _ = PageExporter().from_notebook_node(new_notebook(cells=cells))
    page = visit(text)
    page.page.get_by_text("c", exact=True).first.dispatch_event("click")
    page.page.wait_for_timeout(100)
    assert not page.dialogs and page.page.locator("svg[onload]").count() == 1
    assert len(page.said) >= 4, "each is stopped, and the console says so"
    assert ("csp", "https://example.org/x.png") in page.stopped
