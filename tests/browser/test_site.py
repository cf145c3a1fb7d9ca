"""The site as its readers meet it: served over http, read by axe, played with the keyboard. It is built once."""

import itertools
import os
import random
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.workbook.running import notebooks
from packlib.workbook.website import building

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = ["index", "game", "to/notebooks", "notebooks/02_greedy_packing", "api/packing"]
PAGES += ["_modules/packlib/lengths/synthetic"]  # a source
if os.environ.get("PACKLIB_ALL"):
    PAGES += ["notebooks/GLOSSARY", "CONTRIBUTING", "CHANGELOG", "packlib/rows/README", "data/benchmarks/README"]
    PAGES += sorted({f"notebooks/{name}" for name in notebooks()} - {*PAGES})
    PAGES += [f"api/{room}" for room in building.ROOMS if room != "packing"]
FIRST = 500_000  # bytes that a reader waits for before the first figure


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, modules of JavaScript among them, and says nothing."""

    def guess_type(self, path):
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, and what Sphinx warned of."""
    folder = tmp_path_factory.mktemp("site") / "site"
    return folder, building.build(folder, building.all_notebooks(), settings=4)


@pytest.fixture(scope="module")
def address(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site[0])))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def visit(chromium, address):
    """Open a page by its name; errors on the console and requests that leave the machine end up in `page.said`."""
    with chromium.new_context(
        viewport={"width": 1366, "height": 900}, color_scheme="dark", reduced_motion="reduce"
    ) as context:

        def open_page(name):
            page = context.new_page()
            page.said = []
            page.on("pageerror", lambda error: page.said.append(str(error)))
            page.on("console", lambda line: line.type == "error" and page.said.append(line.text))
            page.on("response", lambda answer: answer.status >= 400 and page.said.append(answer.url))
            page.on("request", lambda ask: ask.url.startswith((address, "data:")) or page.said.append(ask.url))
            page.goto(f"{address}/{name}.html", wait_until="networkidle")
            page.wait_for_function("document.getAnimations().length === 0")  # colors on their way have no contrast
            return page

        yield open_page


def test_sphinx_has_nothing_to_warn_of(site):
    assert site[1] == []


def test_no_page_asks_for_anything_beyond_the_site(site):
    pages = sorted(page for page in site[0].rglob("*.html") if "_static" not in page.parts)
    assert len(pages) > 60
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", text):
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


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_needs_nothing_else(visit, name):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(name)
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.reload(wait_until="networkidle")
        page.wait_for_function("document.getAnimations().length === 0")
        found = Axe().run(page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
        serious = {
            rule["id"]: rule["nodes"][0]["html"][:300] for rule in found if rule["impact"] in ("serious", "critical")
        }
        assert serious == {} and page.said == [], scheme
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.set_viewport_size({"width": 390, "height": 844})
    narrow = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide and not narrow
    page.close()


def test_an_explorer_moves_without_a_kernel(visit):
    page = visit("notebooks/02_greedy_packing")
    image = page.locator("figure.frames img")
    before = image.get_attribute("src"), image.get_attribute("alt")
    page.locator("figure.frames input").first.focus()
    page.keyboard.press("End")
    after = image.get_attribute("src"), image.get_attribute("alt")
    assert before[0] != after[0] and before[1] != after[1]
    assert page.locator("figure.frames [role=status]").inner_text() == after[1]
    assert page.evaluate("document.querySelector('figure.frames img').complete")
    page.close()


def test_answers_are_folded(visit):
    page = visit("notebooks/02_greedy_packing")
    answers = page.locator("details:has(> summary:text('Show the answer'))")
    assert answers.count() >= 8 and not answers.first.locator("p").is_visible()
    answers.first.locator("summary").click()
    assert "5 packs" in answers.first.locator("p").inner_text()
    page.close()


def test_search_finds_a_chapter(visit):
    page = visit("search")
    page.goto(f"{page.url}?q=next-fit", wait_until="load")
    page.wait_for_selector("#search-results a[href*='02_greedy_packing']")  # they come one after the other
    assert page.said == []
    page.close()


LOSES = {  # packs of SPFHP, of LPFHP, and the fewest
    "Eight sequences": (5, 4, 4),
    "Four threes": (4, 2, 2),
    "The longest pack first": (2, 3, 2),
    "Nobody looks ahead": (3, 3, 2),
    "Tokens are not everything": (4, 4, 4),
    "Twelve for four": (8, 5, 4),
    "Fifteen for five": (10, 6, 5),
}
SOLVE = """async puzzles => {
  const game = await import("/_static/game.mjs");
  return puzzles.map(([lengths, slots]) => {
    const best = game.fewest(lengths, slots);
    return {rules: [game.spfhp(lengths, slots).length, game.lpfhp(lengths, slots).length, best.packs.length],
            packs: best.packs, proven: best.proven, prices: [...game.prices(lengths, slots)]};
  });
}"""


def planned(lengths, slots):
    histogram = LengthHistogram.from_lengths(lengths, slots)
    return [plan(histogram, method=method).num_packs for method in ("spfhp", "lpfhp", "optimal")]


def test_the_game_agrees_with_the_library(visit):
    page = visit("game")
    levels = page.evaluate("import('/_static/game.mjs').then(game => game.LEVELS)")
    assert {level["name"]: tuple(planned(level["lengths"], level["slots"])) for level in levels} == LOSES
    rng, puzzles = random.Random(0), [[level["lengths"], level["slots"]] for level in levels]
    for _ in range(80):
        slots = rng.randint(5, 40)
        puzzles.append([[rng.randint(1, slots) for _ in range(rng.randint(1, 14))], slots])
    puzzles += page.evaluate(
        "import('/_static/game.mjs').then(game => [...Array(40).keys()].map(s => [game.deal(s), 24]))"
    )
    for (lengths, slots), found in zip(puzzles, page.evaluate(SOLVE, puzzles), strict=True):
        assert found["proven"] and found["rules"] == planned(lengths, slots), (lengths, slots)
        assert sorted(itertools.chain(*found["packs"])) == sorted(lengths) and max(map(sum, found["packs"])) <= slots
        best = np.zeros(slots + 1)  # an unbounded knapsack: at least what any pack of these sequences is worth
        worth = dict(found["prices"])
        for space in range(1, slots + 1):
            best[space] = max([best[space - 1], *(best[space - n] + worth[n] for n in worth if n <= space)])
        copies = {length: lengths.count(length) for length in worth}
        if all(copies[n] * n >= slots for n in worth):  # else a pattern cannot repeat a length so often
            assert best[slots] <= 1 + 1e-9
        assert sum(worth[length] for length in lengths) <= found["rules"][2] + 1e-6
    page.close()


def test_the_game_is_played_with_the_keyboard(visit):
    page = visit("game")
    said = page.locator(".pack-game [role=status]")
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
    assert "no pack can be worth more than 100" in said.inner_text()
    page.get_by_role("button", name="Take 3 out of pack 2").click()
    assert "3 is on the table again." in said.inner_text()
    page.keyboard.press("0")
    page.keyboard.press("Enter")  # the focus is on what leads to the next level
    assert "Level 3 of 7" in page.locator(".pack-game h2").inner_text()
    page.keyboard.press("0")  # and now among the sequences
    assert page.evaluate("document.activeElement.textContent") == "5" and "6 is in pack 1" in said.inner_text()
    help = page.get_by_role("button", name="Hint")
    help.click()
    help.click()
    assert "One of the packs in the best packing found holds 6 + 2 + 2." in said.inner_text()
    assert page.said == []
    page.close()


@pytest.mark.parametrize(
    "typed, says",
    [
        ("6, 5, 3, 2, 2, 2", "6 sequences, packs of 10 slots"),
        ("<img src=x onerror=alert(1)>", "A length must be from 1 to 10, not <img."),
        ("", "Type 1 to 20 lengths, such as 6, 5, 3."),
    ],
)
def test_own_lengths_are_taken_or_refused(visit, typed, says):
    page = visit("game")
    page.get_by_label("Lengths").fill(typed)
    page.get_by_label("Lengths").press("Enter")
    assert says in page.locator(".pack-game [role=status]").inner_text()
    assert page.said == []
    page.close()


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="holds something else than a site"):
        building.build(tmp_path, [])
    assert [path.name for path in Path(tmp_path).iterdir()] == ["mine"]


def test_links_to_hosted_services_need_a_repository(tmp_path):
    (path,) = [path for name, path in notebooks().items() if name.startswith("02")]
    building.Sources(tmp_path / "a", "someone/packing").write([path])
    text = (tmp_path / "a" / "notebooks" / path.name).read_text(encoding="utf-8")
    assert f"https://colab.research.google.com/github/someone/packing/blob/main/notebooks/{path.name}" in text
    building.Sources(tmp_path / "b").write([path])
    assert "colab" not in (tmp_path / "b" / "notebooks" / path.name).read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="repository must be a name at GitHub, such as owner/name, not 'a b'"):
        building.Sources(tmp_path / "c", "a b")
