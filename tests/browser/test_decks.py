"""Every slide of every deck at 1920 × 1080: nothing cut off, letters that can be read, keys that lead through."""

from pathlib import Path

import nbformat
import pytest

from packlib.workbook.slides import deck

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
READABLE = 22  # pixels, of 1080

MEASURE = """readable => {
  const text = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("section")].map(slide => {
    const frame = slide.getBoundingClientRect(), faults = [];
    for (const part of slide.querySelectorAll("*")) {
      const box = part.getBoundingClientRect();
      const size = parseFloat(getComputedStyle(part).fontSize);
      if (part.closest("math, svg") && part.tagName !== "svg" && part.tagName !== "math") continue;
      if (box.width && (box.left < frame.left || box.right > frame.right + 1
          || box.top < frame.top || box.bottom > frame.bottom + 1)) faults.push(part.tagName + " is cut off");
      if (text(part) && size < readable) faults.push(`${size} px: ${part.textContent.slice(0, 40)}`);
      if (part.tagName === "IMG" && !(part.alt && part.naturalWidth)) faults.push("a picture without words or bytes");
    }
    const body = slide.querySelector(".body"), below = slide.querySelector("header").getBoundingClientRect().bottom;
    if ([...body.children].some(part => part.getBoundingClientRect().top < below)) faults.push("over the header");
    if (body.scrollHeight > body.clientHeight || body.scrollWidth > body.clientWidth) faults.push("too full");
    return [slide.ariaLabel, faults];
  });
}"""

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(chromium):
    """A page without a network, as in a lecture hall."""
    with chromium.new_context(viewport={"width": 1920, "height": 1080}, offline=True) as context:
        yield context.new_page()


def faults_of(page, path, text):
    """Open a deck; what is wrong, by slide."""
    path.write_text(text, encoding="utf-8")
    page.goto(path.as_uri(), wait_until="load")
    return {label: faults for label, faults in page.evaluate(MEASURE, READABLE) if faults}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_slide_fits_and_can_be_read(page, tmp_path, path):
    errors, requests = [], []
    page.on("pageerror", lambda error: errors.append(error))
    page.on("request", lambda request: requests.append(request.url))
    text = deck(nbformat.read(path, as_version=4))
    faults = faults_of(page, tmp_path / "deck.html", text)
    assert not faults
    shown = page.locator("section.on")
    number = page.locator("section").count()
    for key, place in (
        ("ArrowRight", 2),
        ("Space", 3),
        ("ArrowLeft", 2),
        ("End", number),
        ("ArrowRight", number),
        ("Home", 1),
    ):
        page.keyboard.press(key)
        assert shown.get_attribute("aria-label").startswith(f"{place} of {number}: ")
    page.get_by_label("Next slide").click()
    assert shown.get_attribute("aria-label").startswith("2 of") and page.url.endswith("#2")
    assert not errors and not [url for url in requests if not url.startswith(("file:", "data:"))]


def test_the_measure_sees_what_is_cut_off_or_small(page, tmp_path):
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_markdown_cell("## Much\n\n" + "word " * 800)]
    small = {"text/html": '<span style="font-size: 12px">word</span> <img\nsrc="x">'}
    cells.append(nbformat.v4.new_markdown_cell("## Small"))
    cells.append(nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", small)]))
    faults = faults_of(page, tmp_path / "deck.html", deck(nbformat.v4.new_notebook(cells=cells)))
    assert "too full" in faults["2 of 3: Much"] and "P is cut off" in faults["2 of 3: Much"]
    assert faults["3 of 3: Small"] == ["12 px: word", "a picture without words or bytes"]
