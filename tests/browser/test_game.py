"""The game's search and its undo, in a page that holds nothing else: no site is built for them."""

import re
from pathlib import Path

import pytest

from packbook.publish import website
from packlib.packing import plan

pytestmark = pytest.mark.browser

STATIC = Path(website.__file__).parent / "static"
HARD = [182, 96, 140, 120, 147, 159, 120, 192, 167, 159, 130, 146, 150, 110, 195, 164, 134, 197, 176, 153]  # in 512


@pytest.fixture
def game(chromium):
    """A page with the game."""
    with chromium.new_context(reduced_motion="reduce") as context:
        page, said = context.new_page(), []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_content('<div id="game"></div>')
        for script in ("packing.js", "game.js"):
            page.add_script_tag(path=STATIC / script)
        page.evaluate("PackingGame.mount(document.querySelector('#game'))")
        yield page
        assert said == []


def fewest(page, lengths, slots, *patience):
    found = page.evaluate("given => Packing.fewest(...given)", [lengths, slots, *patience])
    return len(found["packs"]), found["proven"]


def test_a_search_that_is_cut_short_proves_nothing_unless_it_met_the_bound(game):
    found, proven = fewest(game, HARD, 512)
    assert plan(HARD, 512).num_packs < found and not proven, "there is a packing with fewer packs"
    assert fewest(game, [5, 4, 4, 3, 2, 2], 10) == (2, True)
    assert fewest(game, [5, 4, 4, 3, 2, 2], 10, 0) == (3, False), "LPFHP fills as many; nothing was searched"
    assert fewest(game, [3, 3, 3, 3], 10, 0) == (2, True), "LPFHP meets the bound"


def test_the_game_says_that_its_search_was_cut_short(game):
    game.get_by_label("Lengths").fill(" ".join(map(str, HARD)))
    game.get_by_label("Slots").fill("512")
    game.get_by_role("button", name="Play these").click()
    for _ in HARD:
        game.keyboard.press("0")
    said = game.locator("[role=status]").inner_text()
    assert "The best that the search found is 7; it was cut short, so fewer may be possible." in said
    assert "No packing has fewer packs" not in said and game.get_by_text("least found").is_visible()


def test_undo_gives_back_the_packs_as_they_were(game):
    packs = game.get_by_role("list", name="Packs", exact=True).get_by_role("listitem")

    def shown():
        return [pack.get_by_role("button", name="Take").all_inner_texts() for pack in packs.all()]

    before = []
    game.get_by_role("button", name="Next level").click()  # four threes, packs of ten
    for pack in (0, 1, 0, 2):  # 0: a new one
        before.append(shown())
        game.keyboard.press(str(pack))
    game.get_by_role("button", name="Take 3 out of pack 1").first.click()
    assert shown() == [["3"], ["3", "3"]]
    before.append([["3", "3"], ["3", "3"]])
    for expected in reversed(before):
        game.get_by_role("button", name="Undo").click()
        assert shown() == expected
    assert game.locator(".pg-table .pg-tile").count() == 4
    assert game.get_by_role("button", name="Undo").is_disabled()


def luminance(color):
    """The relative luminance of a color such as "rgb(0, 114, 178)", as WCAG defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_the_chosen_tile_stands_out_on_dark_pages_and_on_light_ones(game):
    look = "tile => (style => [style.backgroundColor, style.color, style.outlineColor])(getComputedStyle(tile))"
    fill, letters, edge = game.locator(".pg-tile[aria-pressed=true]").evaluate(look)
    others, _, _ = game.locator(".pg-tile[aria-pressed=false]").first.evaluate(look)
    assert contrast(fill, letters) >= 7 and contrast(fill, others) >= 3
    assert contrast(fill, "rgb(20, 24, 30)") >= 3, "a dark page"
    assert contrast(edge, "rgb(255, 255, 255)") >= 3, "a light page"


def test_the_rules_half_of_the_stage_says_what_comes_until_it_has_a_pack(game):
    hint = game.locator(".pg-rule").get_by_text("It places a sequence with each of yours.")
    assert hint.count() == 1 and hint.is_visible()
    game.keyboard.press("0")
    assert hint.count() == 0 and game.locator(".pg-rule li").count() == 1
