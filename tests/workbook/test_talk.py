"""The talk can be given as it is: every slide is there, makes a claim, and the speaker knows what to say."""

import base64
import re

import pytest

from packlib.workbook.figures import new_figure, svg
from packlib.workbook.slides import deck, headed
from packlib.workbook.talk import talk


def test_every_slide_makes_a_claim_of_its_own_and_fetches_nothing():
    slides = talk(address="https://example.org/packing")
    claims = [slide.heading for slide in slides]
    assert slides[-1].body.count("https://example.org/packing") == 2, "the address, and what it leads to"
    assert not any(re.search("[{}]", slide.heading + slide.notes) for slide in slides), "a number is missing"
    assert slides[0].kind == "title" and len(set(claims)) == len(claims) and all(slide.notes for slide in slides)
    alts = [re.search('<img alt="([^"]+)"', slide.body) for slide in slides if slide.kind == "figure"]
    assert alts and all(alts)
    (checked,) = [slide.body for slide in slides if "failed  " in slide.body]
    failed = ["isolation from earlier sequences", "isolation from later sequences", "positions", "same as alone"]
    assert re.findall(r"failed +([^\n<]+)", checked) == failed, "what the check finds in a collator with faults"
    page = deck(slides, "Somebody")
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "Somebody" in page


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
        talk(script(tmp_path, f'notes = "n"\nnotebook = "{notebook}"\nfigure = "none"\n'))


def test_numbers_are_those_that_the_figure_says(tmp_path):
    entry = 'notebook = "00_tour"\nfigure = "packed"\nclaim = "{n} rows"\nnotes = "{n}!"\n'
    _, slide = talk(script(tmp_path, entry + 'numbers = { n = "they take ([0-9]+) rows, 3" }'))
    assert re.fullmatch("[0-9]+ rows", slide.heading) and slide.heading.split()[0] in slide.notes
    with pytest.raises(ValueError, match="The figure 'packed' does not say 'n', looked for as 'nobody takes"):
        talk(script(tmp_path, entry + 'numbers = { n = "nobody takes ([0-9]+)" }'))


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
