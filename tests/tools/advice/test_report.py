"""`packlib report`: an engineer's file of lengths becomes one page and JSON that agree with each other."""

import json
import re
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from packlib.arguments import one_line
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan
from packlib.tools import cli
from packlib.tools.advice import advise, words
from packlib.tools.advice.page import page
from packlib.training import Recipe
from tests.hostile import FILE_NAME, HOSTILE, Elements


@pytest.fixture
def idle(tmp_path, monkeypatch):
    monkeypatch.setattr("packlib.tools.advice.advising.try_lengths", lambda *_: pytest.fail("must not run"))
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("5\n7\n300\n")
    Path("broken.txt").write_text("5\nseven\n")
    Path("taken").touch()
    return tmp_path


@pytest.mark.parametrize(("arguments", "says"), [
    (["mine.txt", "--model", "9B"], "did you mean '8B'"),
    (["mine.txt", "--recipe", "none.json"], "There is no file"),
    (["mine.txt", "--column", "size"], "no column is named 'size'"),
    (["mine.txt", "--out", "taken"], "is a file; name a folder."),
    (["broken.txt"], "broken.txt, line 2: expected a whole number, not 'seven'."),
    (["my.txt"], "There is no file my.txt"),
    (["squad", "--max-length", "9", "--overlong", "drop"], "All 88,641 sequences of squad are longer than 9"),
    (["wikipedai"], "did you mean 'wikipedia'"),
])  # fmt: skip
def test_what_cannot_be_reported_is_refused_before_anything_is_made(idle, capsys, arguments, says):
    before = sorted(idle.iterdir())
    assert cli.main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("packlib: ") and says in said.err and said.err.count("\n") == 1 and not said.out
    assert sorted(idle.iterdir()) == before


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report on 2,000 lengths of which some are over 48, with a recipe; from a file with a hostile name."""
    folder = tmp_path_factory.mktemp("report") / "{x} a{0}"
    folder.mkdir()
    lengths = np.random.default_rng(0).integers(1, 60, 2000)
    np.save(folder / f"{FILE_NAME}.npy", lengths)
    Recipe(16, 1e-3, 100_000, gradient_accumulation_steps=8).save(folder / "recipe.json")
    arguments = ["--max-length", "48", "--overlong", "drop", "--max-sequences-per-pack", "4", "--keep-max-length"]
    arguments += ["--recipe", str(folder / "recipe.json"), "--out", str(folder / "out")]
    assert cli.main(["report", str(folder / f"{FILE_NAME}.npy"), *arguments]) == 0
    return folder / "out", lengths


def test_the_plan_packs_the_lengths_that_were_given_and_the_advice_agrees_with_it(made):
    out, lengths = made
    assert sorted(path.name for path in out.iterdir()) == ["advice.json", "plan.json", "report.html"]
    assert not [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
    advice, plan = json.loads((out / "advice.json").read_text()), PackingPlan.load(out / "plan.json")
    expected = LengthHistogram.from_lengths(lengths, 48, "drop", name=FILE_NAME, source=plan.histogram.source)
    assert plan.histogram == expected and plan.deepest <= 4
    assert sorted(plan.assign(lengths).sample_ids.tolist()) == np.flatnonzero(lengths <= 48).tolist()
    assert advice["data"]["name"] == one_line(FILE_NAME) and advice["plan"]["packs"] == plan.num_packs
    over = lengths[lengths > 48]
    said = f"{len(over)} sequences of 2,000 ({100 * len(over) / 2000:.1f} %) are longer than 48, and "
    said += f"{over.sum():,} tokens"
    assert said in advice["decisions"][0]["reason"]  # more than 2 % are lost, so this comes first
    assert advice["plan"]["depth"] == 4 and advice["recipe"]["after"]["learning_rate"] == 1e-3
    assert advice["update"]["before"]["micro_batch"] == 16


def test_the_page_says_it_all_without_script_image_or_network(made):
    out, _ = made
    said = (out / "report.html").read_text()
    words, advice = Elements(said).text, json.loads((out / "advice.json").read_text())
    sentences = [text for decision in advice["decisions"] for text in decision.values()]
    for text in (*sentences, *advice["notes"], advice["loss"] and advice["loss"]["said"]):
        assert not text or text.replace(" %", "\N{NO-BREAK SPACE}%") in words  # a narrow page breaks lines elsewhere
    words = words.replace("\N{NO-BREAK SPACE}", " ")
    for decision in advice["decisions"]:
        assert all(text in words for text in decision.values())
    assert all(text in words for text in (*advice["notes"], *advice["code"].values()))
    assert one_line(FILE_NAME) in words and "--keep-max-length" in words
    assert f"packlib {version('packlib')}" in words and time.strftime("%Y-%m-") in words
    assert not Elements(said).faults() and not {"script", "img", "link", "iframe"} & Elements(said).names
    assert not re.search(r'(?:src|href)="', said) and "default-src 'none'" in said
    assert "size: A4" in said and "prefers-color-scheme: dark" in said
    above, fold = said.split('<details class="fold">')  # the decisions and nothing else stand above
    assert above.count("<dt>") == 5 and "<table" not in above and "<svg" not in above
    assert above.count("estimate") == 1 and "<table" in fold and "<svg" in fold


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_is_text_in_the_page(text):
    whole = LengthHistogram.from_lengths([3, 5, 8], name=text, source=text)
    said = page(advise(whole), command=text)
    assert not Elements(said).faults() and text in Elements(said).text
    assert Elements(said).names == Elements(page(advise([3, 5, 8]), command="x")).names


def test_numbers_in_words():
    shares = [words.share_of(share) for share in (0, 0.00004, 0.00006, 1 / 3, 0.9994, 0.99997, 1, 12.5)]
    assert shares == ["0.0 %", "under 0.01 %", "0.01 %", "33.3 %", "99.94 %", "over 99.99 %", "100.0 %", "1,250.0 %"]
    assert [words.signed(off) for off in (0.031, -0.002, -0.00004, 2.445)] == ["+3.1 %", "−0.20 %", "±0 %", "× 3.4"]
    pairs = (200, 100), (689, 200), (199, 100), (99.8, 100.0), (100.004, 100.0), (7, 7), (100_001, 100_000)
    same = "the same number of"
    more = [words.compared(value, base, "packs").removesuffix(" packs") for value, base in pairs]
    said = ["2.0 times as many", "3.4 times as many", "99.0 % more", "0.20 % fewer", same, same, "under 0.01 % more"]
    assert more == said
    counted = [
        words.plural(1, "batch"),
        words.plural(2, "batch"),
        words.plural(2000, "pack"),
        words.plural(2, "forward pass"),
    ]
    assert counted == ["1 batch", "2 batches", "2,000 packs", "2 forward passes"]
    large = [words.large(number) for number in (999_999, 18_520_000, 1e9, 2.5e12)]
    assert large == ["999,999", "18.5 million", "1 billion", "2.5 trillion"]
    assert (words.gigabytes(79.46e9), words.gigabytes(3_210_000)) == ("79.5 GB", "0.00321 GB")


def reason_of_longer(said):
    return next(one["reason"] for one in said["decisions"] if one["about"] == "Longer sequences")


def test_scripts_get_the_advice_as_json_and_a_source_is_a_second_file(tmp_path, capsys):
    lengths = np.random.default_rng(1).integers(1, 900, 500)
    np.save(tmp_path / "before.npy", lengths)
    np.save(tmp_path / "after.npy", np.minimum(lengths, 300))
    arguments = ["report", str(tmp_path / "after.npy"), "--out", str(tmp_path / "out"), "--json"]
    assert cli.main(arguments) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone == json.loads((tmp_path / "out" / "advice.json").read_text())
    assert "may have been cut before" in reason_of_longer(alone) and alone["source"] is None
    assert cli.main([*arguments, "--replace", "--source", str(tmp_path / "before.npy")]) == 0
    weighed = json.loads(capsys.readouterr().out)
    assert weighed["source"]["lost"] == np.maximum(lengths - 300, 0).sum()
    assert "may have been" not in reason_of_longer(weighed)
    words = Elements((tmp_path / "out" / "report.html").read_text()).text
    assert reason_of_longer(weighed) in words.replace("\N{NO-BREAK SPACE}", " ")
