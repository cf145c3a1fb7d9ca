"""The talk can be given as it is: every slide is there, makes a claim, and the speaker knows what to say."""

import re

import pytest

from packlib.workbook.slides import deck
from packlib.workbook.talk import talk


def test_every_slide_makes_a_claim_of_its_own_and_fetches_nothing():
    slides = talk()
    claims = [slide.heading for slide in slides]
    assert slides[0].kind == "title" and len(set(claims)) == len(claims) and all(slide.notes for slide in slides)
    alts = [re.search('<img alt="([^"]+)"', slide.body) for slide in slides if slide.kind == "figure"]
    assert alts and all(alts)
    page = deck(slides, "Somebody")
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "Somebody" in page


@pytest.mark.parametrize(
    "notebook, says", [("02_greedy_packing", "figure must be "), ("99_none", "notebook must be ")]
)
def test_what_is_not_there_is_refused(tmp_path, notebook, says):
    script = tmp_path / "talk.toml"
    entry = f'[[slide]]\nnotes = "n"\nnotebook = "{notebook}"\nfigure = "none"\n'
    script.write_text(f'title = "T"\nsubtitle = "S"\nnotes = "N"\n{entry}')
    with pytest.raises(ValueError, match=says):
        talk(script)


def test_a_slide_of_words_is_markdown_and_a_claim_is_text(tmp_path):
    script = tmp_path / "talk.toml"
    script.write_text(
        'title = "A < B"\nsubtitle = "S"\nnotes = "N"\n[[slide]]\nsection = "One"\nnotes = "n"\n'
        '[[slide]]\nclaim = "<b>"\ntext = "- a\\n- b"\nnotes = "*n*"\n'
    )
    title, section, words = talk(script)
    assert title.body == "<h1>A &lt; B</h1>\n<p>S</p>" and section.kind == "section"
    assert words.body.startswith("<h2>&lt;b&gt;</h2>") and "<li>a</li>" in words.body
    assert "<em>n</em>" in words.notes and words.section == "One"
