"""The site as its readers meet it: served over http and opened as files, read by axe, played. It is built once."""

import itertools
import json
import math
import os
import random
import re
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from PIL import Image

import packbook
from packbook.guesses import judge_guess
from packbook.publish.website import browser_explorers, building, walk
from packbook.publish.website.browser_explorers import all_values, explorer_of
from packbook.records import recorded
from packbook.results import meanings
from packbook.run.running import notebooks
from packlib.lengths import LengthHistogram, available, load
from packlib.lengths.counting import MAX_LENGTH
from packlib.packing import plan
from packlib.packing.search.sums import direct_bound
from packlib.tools.advice import advise
from packlib.tools.advice.today import batches_today
from packlib.work import Work, waiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = "index walk leaks game notebooks notebooks/02_greedy_packing notebooks/07_hyperparameters".split()
PAGES += ["api/packing", "README", "notebooks/GLOSSARY", "_modules/packlib/lengths/synthetic"]  # the last is a source
if os.environ.get("PACKLIB_ALL"):
    names = [f"notebooks/{name}" for name in notebooks()] + [f"api/{room}" for room in building.ROOMS]
    PAGES += sorted({*names, *(page.removesuffix(".md") for page in building.PAGES)} - {*PAGES})
FIRST = 500_000  # bytes that a reader waits for before the first figure


WITH_PICTURES = "04_optimal_packing"  # the chapter whose explorer is moved from picture to picture


def build_small(folder):
    """Build the site with four pictures for one explorer and one for each other; return what Sphinx warned of."""
    on_page = building.on_page

    def with_few_pictures(explorer, address):
        browser_explorers.MOST = 4 if WITH_PICTURES in type(explorer).__module__ else 1
        return on_page(explorer, address)

    building.on_page = with_few_pictures
    return building.build(folder, building.all_notebooks(), "someone/packing")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, and what Sphinx warned of.

    In a process of its own, since autodoc leaves other signatures at the functions that it documents.
    """
    folder = tmp_path_factory.mktemp("site") / "site"
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return folder, pool.submit(build_small, folder).result()


@pytest.fixture(scope="module")
def address(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site[0])))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def visit(chromium, address):
    """Open a page by its name; at the end no page may have had an error, or have asked for what is not of the site."""
    dark = {"color_scheme": "dark", "reduced_motion": "reduce"}
    with chromium.new_context(viewport={"width": 1366, "height": 900}, **dark) as context:
        said = []

        def open_page(name):
            page = context.new_page()
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("console", lambda line: line.type == "error" and said.append(line.text))
            page.on("response", lambda answer: answer.status >= 400 and said.append(answer.url))
            page.on(
                "request",
                lambda ask: ask.url.startswith((address, "data:", f"blob:{address}")) or said.append(ask.url),
            )
            page.goto(f"{address}/{name}.html", wait_until="networkidle")
            page.wait_for_function("document.getAnimations().length === 0")  # colors on their way have no contrast
            return page

        yield open_page
        assert said == []


def test_it_is_whole_and_sphinx_has_nothing_to_warn_of(site):
    assert site[1] == []
    assert not list(site[0].rglob("_extra"))


def test_no_page_asks_for_anything_beyond_the_site(site):
    pages = sorted(page for page in site[0].rglob("*.html") if "_static" not in page.parts)
    assert len(pages) > 60
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", text):
            if 'rel="canonical"' in tag:  # it is read, and never fetched
                continue
            where = re.findall(r'(?:src|href)="([^"]*)"', tag)
            assert not any(re.match(r"(?:https?:)?//", to) for to in where), (page.name, tag)
            for to in where:
                path = page.parent / to.partition("?")[0].partition("#")[0]
                assert to.startswith("data:") or path.exists(), (page.name, tag)
        before = text.partition("<img ")[0]
        files = {
            page.parent / to.partition("?")[0]
            for to in re.findall(r'(?:src|href)="([^"]+\.(?:css|m?js)[^"]*)"', before)
        }
        if "<img " in text:
            assert len(before.encode()) + sum(file.stat().st_size for file in files) <= FIRST, page.name


def test_each_chapter_begins_with_what_moves_and_asks_nothing_that_takes_a_kernel(site):
    for page in sorted((site[0] / "notebooks").glob("[0-9]*.html")):
        text = page.read_text(encoding="utf-8")
        title, explorer, goals = (text.find(part) for part in ("<h1>", '<figure class="explorer"', "<strong>Goals"))
        assert 0 < title < explorer < goals, page.name
        assert text.count('<figure class="explorer"') == 1 and 'href="#explorer"' in text, page.name
        words = re.sub(r"<[^>]+>", "", text)
        assert not re.search(r"Shift \+ Enter|the dots,? and run the cell|then run the cell again", words), page.name


def test_a_property_is_described_by_its_whole_sentence(site):
    """Napoleon would take the words before a colon for its type."""
    pages = sorted((site[0] / "api").glob("*.html"))
    assert pages
    for page in pages:
        assert 'Type<span class="colon">' not in page.read_text(encoding="utf-8"), page.name


def test_a_link_shows_title_sentence_and_picture_when_it_is_shared(site):
    base = "https://someone.github.io/packing/"
    sentences = set()
    for name in ("index", "game", "notebooks/02_greedy_packing", "api/packing", "404"):
        head = (site[0] / f"{name}.html").read_text(encoding="utf-8").partition("</head>")[0]
        facts = dict(
            re.findall(r'<meta (?:property|name)="((?:og|twitter):[a-z_]+|description)" content="([^"]*)">', head)
        )
        assert facts["og:image"] == f"{base}card.png" and facts["twitter:card"] == "summary_large_image"
        assert facts["og:url"] == f"{base}{name}.html" and f'<link rel="canonical" href="{base}{name}.html"' in head
        assert facts["og:title"] and 40 < len(facts["description"]) <= 210
        assert facts["description"] == facts["og:description"]
        sentences.add(facts["description"])
    assert len(sentences) == 5
    assert Image.open(site[0] / "card.png").size == (1200, 630)
    listed = re.findall(r"<loc>(.*?)</loc>", (site[0] / "sitemap.xml").read_text())
    assert f"{base}index.html" in listed and f"{base}404.html" not in listed
    assert all((site[0] / page.removeprefix(base)).is_file() for page in listed)


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("", ""),
        ("Someone/packing", "https://someone.github.io/packing/"),
        ("someone/someone.github.io", "https://someone.github.io/"),
    ],
)
def test_where_a_repository_has_its_pages(repository, address):
    assert building.address_of(repository) == address


BROKEN = """[...document.querySelectorAll("article :is(td, th) code")].filter(name => name.getClientRects().length > 1)
  .map(name => name.textContent)"""

CUT_SENTENCES = """[...document.querySelectorAll(".cell_output pre")].filter(said => said.scrollWidth > said.clientWidth
  && !/\\S {2,}\\S/.test(said.textContent)).map(said => said.textContent.slice(0, 80))"""

WIDE_TABLES = """[...document.querySelectorAll(
    ".pst-scrollable-table-container, .cell_output .output.text_html:has(table)")]
  .filter(box => box.scrollWidth > box.clientWidth).map(box => box.textContent.trim().slice(0, 80))"""

SQUEEZED = """[...document.querySelectorAll("article tbody td")].filter(cell => cell.clientWidth < 100
  && cell.clientHeight > 8 * parseFloat(getComputedStyle(cell).lineHeight)).map(cell => cell.textContent.trim())"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_needs_nothing_else(visit, name):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(name)
    for scheme, width in (("dark", 1366), ("light", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.reload(wait_until="networkidle")
        page.wait_for_function("document.getAnimations().length === 0")
        found = Axe().run(page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
        serious = {
            rule["id"]: rule["nodes"][0]["html"][:300] for rule in found if rule["impact"] in ("serious", "critical")
        }
        assert serious == {}, (scheme, width)
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), width
        inner = "(box => box.scrollWidth - box.clientWidth)(document.querySelector('.bd-article-container'))"
        assert page.evaluate(inner) <= 0, (width, "the text is wider than what is seen of it")
        assert page.evaluate(BROKEN) == [], width
        assert page.evaluate(CUT_SENTENCES) == [], width
        assert width > 390 or page.evaluate(WIDE_TABLES) == page.evaluate(SQUEEZED) == []


def test_an_explorer_shows_the_pictures_that_were_made_for_it(visit):
    page = visit(f"notebooks/{WITH_PICTURES}")
    image = page.locator("figure.explorer img")
    before = image.get_attribute("src"), image.get_attribute("alt")
    page.locator("figure.explorer input").first.focus()
    page.keyboard.press("End")
    after = image.get_attribute("src"), image.get_attribute("alt")
    assert before[0] != after[0] and before[1] != after[1]
    assert page.locator("figure.explorer [role=status]").inner_text() == after[1]
    assert page.locator("figure.explorer a").get_attribute("href") == after[0], "it opens what is shown"
    page.wait_for_function("document.querySelector('figure.explorer img').complete")
    assert page.evaluate("document.querySelector('figure.explorer img').naturalWidth") > 0


CHAPTERS = Path(packbook.__path__[0])
DRAWN = [
    lesson.parent.name.removeprefix("n")
    for lesson in sorted(CHAPTERS.glob("n??_*/lesson.py"))
    if "def data(self)" in lesson.read_text(encoding="utf-8")
]


def in_picture(figure):
    """The texts of a figure, without the numbers at its axes, and where its axes begin and end."""
    texts = [figure.get_suptitle()]
    for ax in figure.axes:
        texts += [ax.get_title("left"), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)]
        texts += [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []
    limits = [[*ax.get_xlim(), *ax.get_ylim()] for ax in figure.axes]
    return sorted(" ".join(text.split()) for text in texts if text.strip()), limits


READ = """figure => [
  [...figure.querySelectorAll("svg text:not(.tick)")].map(text => text.textContent.trim()).sort(),
  [...figure.querySelectorAll("svg .panel")].map(panel => panel.dataset.limits.split(" ").map(Number)),
]"""


@pytest.mark.parametrize("name", DRAWN)
def test_what_the_browser_draws_is_what_the_notebook_draws(visit, name):
    (explorer,) = filter(None, map(explorer_of, meanings(nbformat.read(notebooks()[name], 4), "figure")))
    page = visit(f"notebooks/{name}")
    figure, rng = page.locator("figure.explorer"), random.Random(0)
    for state in range(4):
        assert figure.locator("svg").get_attribute("aria-label") == explorer.alt, state
        texts, limits = in_picture(explorer.figure)
        shown, axes = figure.evaluate(READ)
        assert shown == texts and np.allclose(axes, limits), state
        for control in explorer.widgets.values():
            values = all_values(control)
            text, control.value = values[at := rng.randrange(len(values))]
            if hasattr(control, "button_style"):
                figure.get_by_role("radio", name=text, exact=True).check()
            elif len(values) == 2:
                figure.get_by_role("checkbox", name=control.description).set_checked(control.value)
            else:
                figure.get_by_role("slider", name=control.description, exact=True).fill(str(at))


def test_a_drawing_is_to_scale_fits_a_phone_and_plays(visit):
    page = visit("notebooks/02_greedy_packing")
    svg = page.locator("figure.explorer svg")
    wide = svg.evaluate(
        "svg => [...svg.querySelectorAll('.panel:nth-of-type(2) rect')].map(bar => bar.width.baseVal.value)"
    )
    assert len(wide) == 8, "four packs of a three and seven slots"
    assert [round(7 * one / other, 6) for one, other in zip(wide[::2], wide[1::2], strict=True)] == [3] * 4
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.querySelector('figure.explorer svg').viewBox.baseVal.height > 800")
    assert svg.bounding_box()["width"] <= 390
    page.get_by_label("Sequences placed").fill("1")
    page.get_by_role("button", name="Play the steps").click()
    page.wait_for_function("document.querySelector('figure.explorer svg').ariaLabel.includes('2 of 4 placed')")


def test_all_of_it_works_where_the_pages_are_opened_as_files(chromium, site):
    with chromium.new_context() as context:
        page, said = context.new_page(), []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: line.type == "error" and said.append(line.text))
        page.goto((site[0] / "index.html").as_uri())
        assert "Padding costs you" in page.locator("#lengths [role=status]").inner_text()
        page.goto((site[0] / "notebooks/02_greedy_packing.html").as_uri())
        drawing = page.locator("figure.explorer svg")
        before = drawing.get_attribute("aria-label")
        page.get_by_role("radio", name="four threes").focus()
        page.keyboard.press("ArrowLeft")
        after = drawing.get_attribute("aria-label")
        assert before.startswith("Four threes, packs of 10, ") and after.startswith("The eight above, packs of 10, ")
        assert page.locator("figure.explorer [role=status]").inner_text() == after
        page.get_by_label("How many packs does the rule of the most space fill").fill("5")
        page.keyboard.press("Enter")
        assert page.locator(".guess [role=status]").first.inner_text() == "Exactly right."
        page.get_by_role("link", name="the site has the same game").click()
        page.get_by_role("button", name="Next level").click()
        assert "Level 2 of 7" in page.locator(".pack-game h2").inner_text()
        page.goto(f"{(site[0] / 'search.html').as_uri()}?q=next-fit")
        page.wait_for_selector("#search-results a[href*='02_greedy_packing']")
        assert said == []


def test_a_sentence_stands_where_scripts_are_off(chromium, site):
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        for name, where in (
            ("game", "#game"),
            ("index", "#lengths"),
            ("notebooks/02_greedy_packing", "figure.explorer .controls"),
        ):
            page.goto((site[0] / f"{name}.html").as_uri())
            assert "scripts" in page.locator(where).first.inner_text(), name
        guess = page.locator(".guess").first
        assert "takes scripts, which are off here" in guess.inner_text()
        guess.locator("summary").click()
        assert "5 packs." in guess.locator("details").inner_text()


def test_a_guess_opens_the_answer_and_what_shows_it(visit):
    from playwright.sync_api import expect

    page = visit("notebooks/02_greedy_packing")
    blurred, asks = page.locator("article [inert]"), page.locator("p.waits")
    waiting, questions = blurred.count(), asks.count()
    assert 5 < questions <= waiting
    first, choice, third = (page.locator(".guess").nth(at) for at in range(3))
    said, answer, typed = first.locator("[role=status]"), first.locator("details p"), first.get_by_role("textbox")
    for guess, says in {"many": "That is not a number", "": "Write a guess first."}.items():
        typed.fill(guess)
        typed.press("Enter")
        assert said.inner_text().startswith(says) and not answer.is_visible()
    typed.fill("4")
    first.get_by_role("button", name="Guess").click()
    assert said.inner_text() == "1 pack below the answer."
    assert answer.is_visible() and "5 packs." in answer.inner_text()
    expect(asks).to_have_count(questions - 1)
    assert blurred.count() < waiting  # the steps that lead to five packs
    choice.get_by_role("button", name="neither").click()
    assert choice.locator("[role=status]").inner_text().startswith("That is wrong. ")
    assert choice.locator("details p").is_visible()
    choice.get_by_role("button", name="least space").click()
    assert choice.locator("[role=status]").inner_text() == "That is right."
    expect(asks).to_have_count(questions - 2)  # the browser tells of an opened answer a moment later
    asks.first.get_by_role("button", name="Show it").click()
    expect(asks).to_have_count(questions - 3)
    assert third.locator("details p").is_visible()
    asks.first.get_by_role("button", name="Show all on this page").click()
    expect(asks).to_have_count(0)
    assert blurred.count() == 0


FOLLOWS = """asks => {
  const shown = [];
  let node = asks.nextElementSibling;
  for (; node && !node.matches("section") && !node.querySelector(".guess"); node = node.nextElementSibling) {
    const parts = node.matches(".cell") ? node.querySelectorAll(".cell_output") : [node];
    shown.push(...[...parts].filter(part => !part.inert).map(part => part.textContent.trim().slice(0, 60)));
  }
  return shown;
}"""


@pytest.mark.parametrize("name", ["00_tour", "05_packed_attention", "17_evidence"])
def test_nothing_between_a_question_and_the_next_shows_the_answer(visit, name):
    page = visit(f"notebooks/{name}")
    for asks in page.locator(".cell:has(.guess)").all():
        notes = asks.evaluate(FOLLOWS)
        assert all(note.startswith("The blurred part") for note in notes) and len(notes) <= 1
        assert not asks.locator("xpath=preceding-sibling::*[1]").evaluate("node => node.matches('.cell')"), "its text"
        assert not asks.locator("img").count() and not asks.locator("pre").count(), "the form alone"


def test_guesses_are_judged_as_in_a_notebook(visit):
    page = visit("notebooks/02_greedy_packing")
    judge = """cases => cases.map(one => {
      const { state, message } = Guesses.judge(one.guess, one);
      return [state, message]; })"""
    cases = json.loads((Path(__file__).parents[1] / "guess_cases.json").read_text(encoding="utf-8"))
    asked = [{"limits": [None, None], "by_factor": False} | case for case in cases]
    for case, found in zip(cases, page.evaluate(judge, asked), strict=True):
        assert found == [case["state"], case["says"]], case

    pieces = st.sampled_from(
        "4 3 10 1,144 .5 12.25 1e3 1e400 - − minus + and = about ~ k million a half third packs % percent rows times x "
        "fewer yes no least space sqrt / [ ( ' \" ? . 1000.5 999.7 1,5 7/0".split()
    )
    texts = st.lists(st.one_of(pieces, st.just(" ")), min_size=1, max_size=5).map("".join)
    numbers = st.integers(-9, 2000) | st.builds(round, st.floats(-1e6, 1e6) | st.floats(0, 1), st.sampled_from([2, 9]))
    cases = st.fixed_dictionaries(
        {
            "guess": st.one_of(texts, numbers.map(str)),
            "truth": st.one_of(numbers, st.sampled_from(["yes", "no", "4 + 3 + 3", "least space"])),
            "unit": st.sampled_from(["", "%", "packs", "times", "s", "sequences in a pack", "thousandths"]),
            "limits": st.sampled_from([[None, None], [0, 100], [0, None]]),
            "by_factor": st.booleans(),
        }
    )

    @settings(max_examples=400, suppress_health_check=list(HealthCheck), deadline=None)
    @given(cases)
    def alike(case):
        low, high = case["limits"]
        limits = -math.inf if low is None else low, math.inf if high is None else high
        judged = judge_guess(case["guess"], case["truth"], case["unit"], (), limits, case["by_factor"])
        ((state, message),) = page.evaluate(judge, [case])
        assert state == judged.state and (state == "none" or message == judged.message)

    alike()


@pytest.mark.parametrize("size", [(1366, 900), (390, 844)], ids=["wide", "narrow"])
def test_one_drawing_changes_while_one_scrolls(visit, size):
    page = visit("walk")
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    svg, found = page.locator(".walk svg"), walk.walk()
    assert page.locator(".walk rect").count() == 2 * walk.TEXTS
    for state in (*walk.STATES, "packed"):
        page.locator(f'.step[data-state="{state}"] p').evaluate(
            "step => scrollTo(0, step.getBoundingClientRect().top + scrollY - 0.6 * innerHeight)"
        )
        page.wait_for_selector(f'.walk[data-state="{state}"]')
        boxes = svg.evaluate("""svg => [...svg.querySelectorAll("rect")].slice(48).map(
          rect => ["x", "y", "width", "height"].map(name => Number(rect.getAttribute(name))))""")
        assert np.allclose(boxes, found.texts(state), atol=0.06)
        assert svg.get_attribute("aria-label") == walk.words_of(found)[state][2]
        stage, step = (page.locator(part).bounding_box() for part in (".walk svg", f'.step[data-state="{state}"] p'))
        assert 0 <= stage["y"] and stage["y"] + stage["height"] <= size[1], "it stays on screen"
        beside = stage["x"] + stage["width"] <= step["x"]
        assert beside or stage["y"] + stage["height"] <= step["y"], "and hides no words"
    assert page.evaluate("getComputedStyle(document.querySelector('.walk rect')).transitionDuration") == "0s"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate("getComputedStyle(document.querySelector('.walk rect')).transitionDuration") != "0s"


@pytest.mark.parametrize("name", ["index", "README"])
def test_the_cover_stands_still_for_those_who_ask_for_that(visit, name):
    page = visit(name)  # with reduced motion
    assert page.locator("svg.cover").count() == 1 and page.locator("img[src*='README']").count() == 0
    assert page.evaluate("document.querySelector('svg.cover').getAnimations({subtree: true}).length") == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate("document.querySelector('svg.cover').getAnimations({subtree: true}).length") > 0


def test_the_link_to_the_next_page_breaks_no_word(visit):
    page = visit("walk")
    page.set_viewport_size({"width": 390, "height": 844})
    title = page.locator(".right-next .prev-next-title")
    assert title.inner_text() == "Notebooks" and title.evaluate("title => title.getClientRects().length") == 1
    assert title.bounding_box()["height"] < 32


def test_the_table_of_leaks_has_each_row_that_was_recorded(site):
    page = BeautifulSoup((site[0] / "leaks.html").read_text(encoding="utf-8"), "html.parser")
    shown = [[" ".join(cell.get_text().split()) for cell in row.select("td")] for row in page.select("tbody tr")]
    rows = recorded("leaks").rows
    assert [row[:2] for row in shown] == [
        [f"{row['library']} {row['version']}, {row['date']}: {row['set-up']}", row["exact"]] for row in rows
    ]
    assert all(row["failed"] in cells[2] and row["audit"] == cells[3] for row, cells in zip(rows, shown, strict=True))


def test_the_answers_of_the_table_of_leaks_are_seen_at_once(visit):
    page = visit("leaks")
    page.set_viewport_size({"width": 1366, "height": 900})
    assert page.evaluate("(box => box.scrollWidth <= box.clientWidth)(document.querySelector('table').parentElement)")


def test_search_finds_a_chapter(visit):
    page = visit("search")
    page.goto(f"{page.url}?q=next-fit", wait_until="load")
    page.wait_for_selector("#search-results a[href*='02_greedy_packing']")  # they come one after the other


SOLVE = """puzzles => puzzles.map(([lengths, slots]) => {
  const best = Packing.fewest(lengths, slots);
  return {rules: [Packing.spfhp(lengths, slots).length, Packing.lpfhp(lengths, slots).length, best.packs.length],
          packs: best.packs, proven: best.proven, prices: [...Packing.prices(lengths, slots)]};
})"""


def planned(lengths, slots):
    histogram = LengthHistogram.from_lengths(lengths, slots)
    return [plan(histogram, method=method).num_packs for method in ("spfhp", "lpfhp", "optimal")]


def test_the_game_agrees_with_the_library(visit):
    page = visit("game")
    levels = page.evaluate("PackingGame.LEVELS")
    loses = {level["name"]: planned(level["lengths"], level["slots"]) for level in levels}
    assert loses["The longest pack first"] == [2, 3, 2] and loses["Nobody looks ahead"] == [3, 3, 2]
    rng, puzzles = random.Random(0), [[level["lengths"], level["slots"]] for level in levels]
    for _ in range(80):
        slots = rng.randint(5, 40)
        puzzles.append([[rng.randint(1, slots) for _ in range(rng.randint(1, 14))], slots])
    puzzles += page.evaluate("[...Array(40).keys()].map(seed => [PackingGame.deal(seed), 24])")
    for (lengths, slots), found in zip(puzzles, page.evaluate(SOLVE, puzzles), strict=True):
        assert found["proven"] and found["rules"] == planned(lengths, slots), (lengths, slots)
        assert sorted(itertools.chain(*found["packs"])) == sorted(lengths) and max(map(sum, found["packs"])) <= slots
        worth, best = dict(found["prices"]), np.zeros(slots + 1)
        for length in lengths:
            best[length:] = np.maximum(best[length:], best[:-length] + worth[length])
        assert best[slots] <= 1 + 1e-9, "no pack is worth more than one"
        assert sum(worth[length] for length in lengths) <= found["rules"][2] + 1e-6


def test_the_game_is_played_with_the_keyboard(visit):
    page = visit("game")
    said = page.locator(".pack-game [role=status]")
    page.keyboard.press("0")  # nothing has the focus yet
    assert said.inner_text().startswith("9 is in pack 1")
    page.get_by_text("a new pack", exact=True).click()
    page.keyboard.press("Backspace")
    assert said.inner_text() == "Undone: 7 sequences left."
    page.get_by_role("button", name="Next level").focus()
    page.keyboard.press("Enter")
    assert "Four threes" in page.locator(".pack-game h2").inner_text()
    for key in "0111":  # the fourth does not fit beside three others
        page.keyboard.press(key)
    assert "3 does not fit: pack 1 has 1 empty slot." in said.inner_text()
    page.keyboard.press("0")
    assert "You filled 2 packs. SPFHP fills 4, LPFHP 2. You beat SPFHP." in said.inner_text()
    assert "yours is proven best" in said.inner_text()
    assert "Level 2 of 7: Four threes (solved)" in page.locator(".pack-game h2").inner_text()
    page.get_by_role("button", name="Hint").click()
    assert "No pack can be worth more than 100" in said.inner_text()
    page.get_by_role("button", name="Take 3 out of pack 2").click()
    assert "3 is on the table again." in said.inner_text()
    page.keyboard.press("0")
    page.keyboard.press("Enter")  # the focus is on what leads to the next level
    assert "Level 3 of 7" in page.locator(".pack-game h2").inner_text()
    page.keyboard.press("0")  # and now among the sequences
    assert page.evaluate("document.activeElement.textContent") == "5" and "6 is in pack 1" in said.inner_text()
    for _ in range(2):
        page.get_by_role("button", name="Hint").click()
    assert "One of the packs in the best packing found holds 6 + 2 + 2." in said.inner_text()
    for typed, says in {
        "6, 5, 3, 2, 2, 2": "6 sequences, packs of 10 slots",
        "<img src=x onerror=alert(1)>": "A length must be from 1 to 10, not <img.",
        "": "Type 1 to 20 lengths, such as 6, 5, 3.",
    }.items():
        page.get_by_label("Lengths").fill(typed)
        page.keyboard.press("Enter")
        assert says in said.inner_text()


def test_tiles_are_dragged_and_steps_undone_while_spfhp_plays_beside(visit):
    page = visit("game")
    said, tiles = page.locator(".pack-game [role=status]"), page.locator(".pg-table .pg-tile")

    def drag(tile, pack):
        start, end = tile.bounding_box(), page.locator(f"[data-pack='{pack}']").bounding_box()
        page.mouse.move(start["x"] + 4, start["y"] + 4)
        page.mouse.down()
        page.mouse.move(start["x"] + 30, start["y"] + 30)
        page.mouse.move(end["x"] + end["width"] - 4, end["y"] + 4)
        page.mouse.up()

    drag(tiles.first, 0)
    assert "9 is in pack 1, which has 1 empty slot. 7 sequences left." in said.inner_text()
    drag(tiles.nth(1), 1)
    assert "6 is in pack 2, which has 4 empty slots. 6 sequences left." in said.inner_text()
    theirs = page.get_by_role("list", name="Packs of SPFHP").get_by_role("listitem")
    assert [row.inner_text().split() for row in theirs.all()] == [["9", "9/10"], ["7", "7/10"]]
    drag(page.get_by_role("button", name="Take 6 out of pack 2"), "table")
    assert "6 is on the table again." in said.inner_text() and tiles.count() == 7
    page.get_by_role("button", name="Undo").click()
    assert tiles.count() == 6
    tiles.first.focus()
    page.keyboard.press("Backspace")
    assert tiles.count() == 7
    page.get_by_role("button", name="Undo").click()
    assert tiles.count() == 8 and page.get_by_role("button", name="Undo").is_disabled()


ANALYZE = """([text, ...fields]) => {
  const found = PaddingCost.analyze(ReadLengths.read(text).counts, ...fields);
  const works = found.groups.flatMap(({lengths, count}) =>
    Array(count).fill(lengths.reduce((all, length) => all + 53249 * length + length * length, 0)));
  return {...found, groups: null, works};
}"""


def test_lengths_are_packed_and_batched_as_by_the_library(visit):
    page, rng = visit("index"), np.random.default_rng(0)
    for joined in (", ", "\n", " ; ", "\t"):
        slots, size, ranks = int(rng.integers(8, 3000)), int(rng.integers(1, 300)), int(rng.integers(2, 9))
        lengths = rng.lognormal(math.log(slots / 6), 1, 800).astype(int).clip(1)
        found = page.evaluate(ANALYZE, [joined.join(map(str, lengths)), str(slots), str(size), str(ranks)])
        histogram = LengthHistogram.from_lengths(lengths).with_max_length(slots, "split")
        made = plan(histogram, method="lpfhp")
        assert (found["sequences"], found["tokens"], found["slots"]) == (len(lengths), lengths.sum(), slots)
        assert (found["pieces"], found["longer"]) == (histogram.num_sequences, (lengths > slots).sum())
        assert (found["packs"], found["least"]) == (made.num_packs, direct_bound(histogram.counts, None))
        assert_ways(found, histogram, size, made)
        each = np.sort(Work(per_token=53_249, per_square=1).of(made.assign(histogram.expand())))
        assert np.array_equal(np.sort(found["works"]), each)
        expected = waiting(each[len(each) % ranks :], ranks)
        assert expected.low - 1e-3 <= found["waits"]["dealt"] <= expected.high + 1e-3
        assert found["waits"]["least"] == pytest.approx(expected.least, abs=1e-9)
    assert Work.decoder().per_token / Work.decoder().per_square == 53_249


def assert_ways(found, histogram, size, made):
    """The page says the slots that the report says of today's batches, and those of the packs."""
    fixed, rand, by_length = (batches_today(histogram, size, habit).slots for habit in ("maximum", "random", "sorted"))
    assert [way["slots"] for way in found["ways"]] == [
        fixed,
        pytest.approx(rand, rel=1e-9),
        by_length,
        made.num_packs * histogram.max_length,
    ]


MEASURED = [name for name, about in available().items() if "(measured" in about]


@pytest.mark.parametrize("name", MEASURED)
def test_the_sets_of_the_menu_give_the_numbers_of_plan_and_report(visit, name):
    page = visit("index")
    found = page.evaluate(
        "name => ({...PaddingCost.analyze(DATA_SETS[name].counts, String(DATA_SETS[name].max_length)), groups: null, "
        "best: DATA_SETS[name].best})",
        name,
    )
    whole, top = load(name, max_length=MAX_LENGTH), load(name).max_length
    histogram = whole.with_max_length(top, "split")
    made = plan(histogram, method="lpfhp")
    assert (found["sequences"], found["packs"]) == (whole.num_sequences, made.num_packs)
    assert_ways(found, histogram, 32, made)
    advice = advise(whole, top, keep_max_length=True)
    assert found["best"] == advice.plan.num_packs
    assert found["ways"][1]["slots"] == pytest.approx(advice.today.slots, rel=1e-9)
    page.get_by_role("combobox", name="Data").select_option(name)
    said = page.locator("#lengths").inner_text()
    slots = [way["slots"] for way in found["ways"]]
    assert ("Sorted batches need fewer slots than packs" in said) == (slots[2] < 0.995 * slots[3])
    if found["best"] < found["packs"]:
        assert f"finds {found['best']:,} rows" in said
    else:
        assert "searches further" not in said


def pandas_prints(lengths):
    """What pandas prints of a series, of a frame, and of how often each length comes."""
    series = pd.Series(lengths, name="length")
    return [repr(series), series.to_frame().to_string(), repr(series.value_counts())]


PASTED = [  # what is pasted, and the lengths in it
    ("5 5 3", [5, 5, 3]),
    ("5,\n3", [5, 3]),
    ("[5, 3, 5]", [5, 5, 3]),
    ("array([ 5,  3,\n        5])", [5, 5, 3]),
    ("n_tokens\n12.0\n7", [12, 7]),
    ("length,count\n5,3\n7,1", [5, 5, 5, 7]),
    ("count;length\r\n3;5\r\n1;7\r\n", [5, 5, 5, 7]),
    ("\ufefflength\n5", [5]),
    ("id,length\na,5\nb,7", [5, 7]),
    (",tokens\n0,5\n1,7", [5, 7]),
    ("path\tn_tokens\nf0\t12\nf1\t7", [12, 7]),
    ('"length"\n"1,024"\n"7"', [1024, 7]),
    ("sep=;\nid;length\n1;5\n2;6", [5, 6]),
    ('{"length": 5}\n{"length": 7}', [5, 7]),
    ('{"id": 1, "input_ids": [4, 4, 4]}\n{"id": 2, "input_ids": [4]}', [3, 1]),
    ("[[1, 2], [3]]", [2, 1]),
    *((text, [5, 7, 5, 9]) for text in pandas_prints([5, 7, 5, 9])),
    ("120,340,512,7", [120, 340, 512, 7]),
    ("长度\n5\n7", [5, 7]),
    ("seq len\n5\n7", [5, 7]),
    ("doc name,seq len\na,5\nb,7", [5, 7]),
    ("# tokens of my data\n5\n# the end\n7", [5, 7]),
    ("0    5\n1    7\nName: length, dtype: int64", [5, 7]),
    ("[np.int64(5), np.int64(7)]", [5, 7]),
    ('"5"\n"7"', [5, 7]),
    ('["5", "7"]', [5, 7]),
    ("5.000000000000000000e+00\n1.200000000000000000e+01\n", [5, 12]),
    ("1\u00a0024\n2\u202f048", [1024, 2048]),
]


@pytest.mark.parametrize(("text", "lengths"), PASTED)
def test_what_people_paste_is_read(visit, text, lengths):
    counts = visit("index").evaluate("text => ReadLengths.read(text).counts", text)
    assert counts == [[length, lengths.count(length)] for length in sorted({*lengths}, reverse=True)]


REFUSED = [
    ("", "Paste at least one length, such as 120 34 512."),
    ("12 <b>", "A length must be a whole number from 1 to 1,048,576, not <b>."),
    ("5.5", "A length must be a whole number from 1 to 1,048,576, not 5.5."),
    ("length;count\n1.024;2", "A length must be a whole number from 1 to 1,048,576, not 1.024."),
    ("length,count\n5", "A count must be a whole number from 0 to 999,999,999, not nothing."),
    ("a,b,c\n1,2,3", 'The columns are a, b, c: call the one with the lengths "length", or paste it alone.'),
    ("5,3\n7,2\n9,1", "Each line has two numbers."),
    ("5,3\n7,2", "Each line has two numbers."),
    ("1,5\n2,7", "Each line has two numbers."),
    ("1 024\n512\n2 048", "1 024 looks like one length: write it without a space, 1024."),
    ("1e3x\n5\n7", "A length must be a whole number from 1 to 1,048,576, not 1e3x."),
    ("0x10\n5", "A length must be a whole number from 1 to 1,048,576, not 0x10."),
    ("1.5e0\n5", "A length must be a whole number from 1 to 1,048,576, not 1.5e0."),
    ("PK\x03\x04\x14\x00 xl/worksheets", "This is no text: save the lengths as text, CSV or JSON lines."),
    ('{"length": [5, 7]}', "length of record 1 is a list, of which only its size would count: paste the list alone."),
    ("0   5\n1   7\n   ...\n98  2\nName: length, Length: 99, dtype: int64", "leaves lines out (...)"),
    ("length\n512    33\n17      2", "The lines have one number more than the first line has names."),
    ('{"length": 5}\n{"tokens": 7}', "Record 2 has no length."),
    ('{"length": 5}\n{"len', "Line 2 is no JSON"),
    ('{"text": "no tokens"}', "A record has text"),
]


def test_what_is_no_list_of_lengths_is_refused_and_nothing_stays_of_the_last_result(visit):
    page = visit("index")
    page.get_by_role("combobox", name="Data").select_option("")
    for typed, says in REFUSED:
        page.get_by_label("Lengths in tokens").fill(typed)
        page.get_by_role("button", name="What does padding cost?").click()
        assert says in page.locator("#lengths [role=status]").inner_text()
        assert page.locator("#lengths .bars").count() == 0
    page.get_by_label("Lengths in tokens").fill("5 5 30")
    for label, typed, says in (
        ("Row length", "0", "The row length must be a whole number from 1 to 1,048,576, not 0."),
        ("Batch size", "many", "The batch size must be a whole number from 1 to 65,536, not many."),
        ("Ranks", "1", "The number of ranks must be a whole number from 2 to 4,096, not 1."),
    ):
        page.get_by_label(label).fill(typed)
        page.keyboard.press("Enter")
        assert says in page.locator("#lengths [role=status]").inner_text()
        page.get_by_label(label).fill("")
    page.get_by_label("Row length").fill("10")
    page.get_by_label("Ranks").fill("2")
    page.keyboard.press("Enter")
    said = page.locator("#lengths").inner_text()
    assert "3 sequences fill 4 rows of 10 slots." in said and "No packing has fewer rows: this is proven." in said
    assert "1 sequence is longer than a row and is split, which makes 5 pieces." in said and "2 ranks wait" in said


def test_a_comma_that_can_be_read_in_two_ways_is_asked_about(visit):
    page = visit("index")
    page.get_by_role("combobox", name="Data").select_option("")
    page.get_by_label("Lengths in tokens").fill("1,024\n2,048")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="What does padding cost?").click()
    assert page.locator("#lengths [role=status]").inner_text() == "Is 1,024 one length, or are they 2?"
    page.get_by_role("button", name="2 lengths, 1 and 24").click()
    assert "4 sequences fill" in page.locator("#lengths").inner_text()
    page.get_by_role("button", name="What does padding cost?").click()
    page.get_by_role("button", name="One length, 1,024").click()
    assert "2 sequences fill 2 rows of 2,048 slots" in page.locator("#lengths").inner_text()


GIVEN = """([kind, text]) => {
  const data = new DataTransfer();
  if (kind === "paste") data.setData("text", text); else data.items.add(new File([text], "mine.txt"));
  const event = kind === "paste" ? new ClipboardEvent(kind, {clipboardData: data, bubbles: true, cancelable: true})
    : new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true});
  document.querySelector("h1").dispatchEvent(event);
}"""


def test_what_is_pasted_or_dropped_anywhere_on_the_page_is_taken(visit):
    page = visit("index")
    for kind, text, says in (("paste", "5 5 3", "3 sequences fill"), ("drop", "7\n9", "2 sequences fill")):
        page.get_by_role("combobox", name="Data").select_option("squad")
        page.evaluate(GIVEN, [kind, text])
        page.wait_for_function("said => document.querySelector('#lengths').innerText.includes(said)", arg=says)
        assert page.get_by_role("combobox", name="Data").input_value() == ""
    page.get_by_role("combobox", name="Data").select_option("squad")
    assert not page.get_by_label("Lengths in tokens").is_visible()
    page.get_by_role("button", name="Your own lengths").click()
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"


def test_a_result_has_an_address_and_a_picture(visit, address):
    page = visit("index")
    page.get_by_role("combobox", name="Data").select_option("")
    page.get_by_label("Lengths in tokens").fill("120 340 120 7")
    page.get_by_label("Row length").fill("512")
    page.keyboard.press("Enter")
    words = page.locator("#lengths [role=status]").inner_text()
    link = page.get_by_role("link", name="Link to this result").get_attribute("href")
    assert link == "#lengths=7.35-2.64&row=512"
    with page.expect_download() as started:
        page.get_by_role("button", name="Save it as a picture").click()
    assert Image.open(started.value.path()).size == (1200, 630)
    page.goto(f"{address}/game.html")
    page.goto(f"{address}/index.html{link}")
    assert page.locator("#lengths [role=status]").inner_text() == words
    for broken, says in (
        ("#set=<b>", "There is no data set <b>."),
        ("#lengths=7.-", "The address holds no lengths that can be read."),
        ("#lengths=0", "A length must be a whole number from 1 to 1,048,576, not 0."),
        ("#set=squad&row=x", "The row length must be a whole number from 1 to 1,048,576, not x."),
    ):
        page.goto(f"{address}/game.html")
        page.goto(f"{address}/index.html{broken}")
        assert page.locator("#lengths [role=status]").inner_text() == says


def test_a_file_of_a_million_lengths_stays_out_of_the_field(visit, tmp_path):
    page, lengths = visit("index"), np.random.default_rng(0).integers(1, 4000, 10**6)
    (tmp_path / "mine.txt").write_text("\n".join(map(str, lengths)))
    page.get_by_label("or a file").set_input_files(tmp_path / "mine.txt")
    page.wait_for_function("document.querySelector('#lengths').innerText.includes('1,000,000 sequences fill')")
    assert page.get_by_label("Lengths in tokens").input_value() == ""
    assert "too many different lengths for a link" in page.locator("#lengths").inner_text()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_of_a_million_lengths_is_read_at_once(visit, tmp_path, kind):
    """In processor time on a busy machine; what was slow took a minute."""
    page, lengths = visit("index"), np.random.default_rng(0).integers(1, 4000, 10**6).tolist()
    lines = (f'{{"id": {i}, "length": {n}}}' if kind == "jsonl" else f"{i},{n}" for i, n in enumerate(lengths))
    (tmp_path / f"mine.{kind}").write_text("id,length\n" * (kind == "csv") + "\n".join(lines))
    page.get_by_label("or a file").set_input_files(tmp_path / f"mine.{kind}")
    page.wait_for_function(
        "document.querySelector('#lengths').innerText.includes('1,000,000 sequences fill')", timeout=15_000
    )


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="holds something else than a site"):
        building.build(tmp_path, [])
    assert [path.name for path in Path(tmp_path).iterdir()] == ["mine"]


def test_where_a_figure_was_recorded_stands_below_it_and_pictures_have_a_size_and_open(tmp_path):
    (path,) = [path for name, path in notebooks().items() if name.startswith("05")]
    building.Sources(tmp_path).write([path])
    cells = nbformat.read(tmp_path / "notebooks" / path.name, as_version=4).cells
    pages = [output.get("data", {}).get("text/html", "") for cell in cells for output in cell.get("outputs", ())]
    after = [before for before, page in itertools.pairwise(pages) if '<p class="recorded">Recorded with' in page]
    assert after and all("<img " in before for before in after)
    images = re.findall("<img [^>]*>", " ".join(pages))
    assert all(re.search(r' width="\d+".* height="\d+"', image) for image in images)
    assert len(re.findall(r'<a href="([^"]+)"><img [^>]* src="\1"></a>', " ".join(pages))) == len(images) > 2


def test_hosted_services_open_copies_that_install_packlib(site, tmp_path):
    """What is in them, and that they run, `tests/project/test_wheel.py` looks at."""
    page = (site[0] / "notebooks" / "02_greedy_packing.html").read_text(encoding="utf-8")
    for service in ("colab.research.google.com/github/someone/packing/blob", "mybinder.org/v2/gh/someone/packing"):
        assert re.search(rf'"https://{service}/gh-pages.*hosted/02_greedy_packing\.ipynb"', page)
    assert (site[0] / "hosted" / "02_greedy_packing.ipynb").exists()
    wanted = [Requirement(line) for line in (site[0] / "binder" / "requirements.txt").read_text().splitlines()[1:]]
    assert [one.name for one in wanted] == ["torch", "packlib"] and str(wanted[0].specifier).endswith("+cpu")
    assert "notebook" in wanted[1].extras and "lab" not in wanted[1].extras
    building.Sources(tmp_path / "b").write([notebooks()["02_greedy_packing"]])
    assert "colab" not in (tmp_path / "b" / "notebooks" / "02_greedy_packing.ipynb").read_text(encoding="utf-8")
    assert not (tmp_path / "b" / "_extra" / "hosted").exists()
    with pytest.raises(ValueError, match="repository must be a name at GitHub, such as owner/name, not 'a b'"):
        building.Sources(tmp_path / "c", "a b")
