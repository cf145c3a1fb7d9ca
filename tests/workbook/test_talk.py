"""The talk can be given as it is: every slide is there, makes a claim, and the speaker knows what to say."""

import re
import subprocess
import sys

import pytest

from packlib.workbook.slides import deck
from packlib.workbook.talk import talk

WORDS_A_MINUTE = 130


def spoken(slide):
    return len(re.sub(r"<[^>]*>", " ", slide.notes).split())


def test_it_is_a_talk_of_half_an_hour():
    slides = talk()
    assert 20 <= len(slides) <= 30 and slides[0].kind == "title"
    assert all(spoken(slide) >= 12 for slide in slides)
    minutes = sum(map(spoken, slides)) / WORDS_A_MINUTE + 0.6 * sum(slide.kind == "figure" for slide in slides)
    assert 18 <= minutes <= 32  # reading a picture aloud takes its time beside the words
    claims = [slide.heading for slide in slides]
    assert len(set(claims)) == len(claims) and all(len(claim.split()) >= 2 for claim in claims)
    alts = [re.search('<img alt="([^"]+)"', slide.body) for slide in slides if slide.kind == "figure"]
    assert all(alts) and len(alts) >= 15
    page = deck(slides, "Somebody")
    assert not re.search(r'(?:src|<link[^>]*href)="(?!data:)', page) and "Somebody" in page


@pytest.mark.parametrize(
    "entry, says",
    [
        ('notebook = "02_greedy_packing"\nfigure = "none"', "figure must be "),
        ('notebook = "99_none"\nfigure = "none"', "notebook must be "),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, entry, says):
    script = tmp_path / "talk.toml"
    script.write_text(f'title = "T"\nsubtitle = "S"\nnotes = "N"\n[[slide]]\nnotes = "n"\n{entry}\n')
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


def test_a_bad_place_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "packlib.workbook.talk", str(tmp_path / "file" / "x.html"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("packlib: ") and done.stderr.count("\n") == 1
