"""Drawings of the site's explorers on a phone, in a page that holds nothing else: no site is built for them."""

from pathlib import Path

import pytest

from packbook.n15_fine_tuning.lesson import SPLITS, WeightsExplorer
from packbook.publish import website

pytestmark = pytest.mark.browser

STATIC = Path(website.__file__).parent / "static"
BEYOND_ITS_BAR = """svg => {
  const bars = [...svg.querySelectorAll("rect")].map(bar => bar.getBoundingClientRect());
  const names = [...svg.querySelectorAll("text.on-first, text.on-second")];
  const inside = (box, bar) => bar.left + 2 <= box.left && box.right <= bar.right - 2 && bar.top <= box.top + 4
    && box.bottom <= bar.bottom + 4;
  return [names.length,
    names.filter(name => !bars.some(bar => inside(name.getBoundingClientRect(), bar))).map(name => name.textContent)];
}"""


@pytest.fixture
def drawing(chromium):
    """A function that draws chapter 15's explorer as wide as a page shows it, and returns the picture."""
    with chromium.new_context(viewport={"width": 800, "height": 600}) as context:
        page, said = context.new_page(), []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_content('<figure class="explorer"><div class="picture"></div></figure>')
        page.add_style_tag(path=STATIC / "site.css")
        page.add_script_tag(path=STATIC / "drawings.js")
        data = WeightsExplorer().data()

        def draw(width, length, first):
            page.evaluate(
                """([data, values, width]) => {
                  const { svg } = Drawings.WeightsExplorer(data, values, width);
                  svg.setAttribute("style", `width: ${width}px; font-family: DejaVu Sans`);
                  document.querySelector(".picture").replaceChildren(svg);
                }""",
                [data, {"length": length, "first": first, "constant": 72}, width],
            )
            return page.locator("svg")

        yield draw
        assert said == []


@pytest.mark.parametrize("width", [290, 340, 366, 700])
def test_what_stands_in_a_bar_leaves_room_at_both_ends(drawing, width):
    for length in (1, 5, 12, 27, 40):
        for first in SPLITS:
            number, beyond = drawing(width, length, first).evaluate(BEYOND_ITS_BAR)
            assert number >= 10 and beyond == [], (length, first)


def test_no_line_begins_with_the_sign_of_percent(drawing):
    for width in range(280, 380, 4):
        lines = drawing(width, 12, "A alone").locator("text.title tspan").all_text_contents()
        assert not any(line.startswith("%") for line in lines), width
