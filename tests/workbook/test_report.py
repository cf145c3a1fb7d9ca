"""`packlib report`: an engineer's file of lengths becomes a page, figures, and JSON that agree with each other."""

import json
import re
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import nbformat
import numpy as np
import pytest

from packlib import cli
from packlib.advice import about_memory, lengths_for
from packlib.advice.layers import about_attention, about_places
from packlib.advice.memory import about_positions
from packlib.advice.waits import about_waiting
from packlib.lengths import LengthHistogram, load
from packlib.markup import one_line
from packlib.packing import PackingPlan, assign, plan
from packlib.training import Recipe
from packlib.workbook.report import LESSON, NOTEBOOK, page, report
from packlib.workbook.results import RESULTS_FOLDER
from packlib.workbook.running import notebooks
from tests.hostile import FILE_NAME, Elements


@pytest.fixture
def idle(tmp_path, monkeypatch):
    monkeypatch.setattr("packlib.workbook.report.run_notebook", lambda *_, **__: pytest.fail("must not run"))
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("5\n7\n300\n")
    Path("broken.txt").write_text("5\nseven\n")
    Path("taken").touch()
    Recipe(8, 1e-3, 100, packing_factor=2.0).to_json("packed.json")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mine.txt", "--max-length", "0"], "max_length must be from 1 to 1048576, not 0."),
        (["mine.txt", "--max-sequences-per-pack", "0"], "max_sequences_per_pack must be from 1 to 1048576, not 0."),
        (["mine.txt", "--batch-size", "0"], "batch_size must be from 1 to 1048576, not 0."),
        (["mine.txt", "--max-length", "4", "--overlong", "drop"], "All 3 sequences of mine are longer than 4"),
        (["mine.txt", "--recipe", "none.json"], "There is no file"),
        (["mine.txt", "--recipe", "packed.json"], "is packed already, with factor 2"),
        (["mine.txt", "--column", "size"], "not 'size'"),
        (["mine.txt", "--out", "taken"], "is a file; name a folder."),
        (["broken.txt"], "broken.txt, line 2: expected a whole number, not 'seven'."),
        (["my.txt"], "There is no file my.txt"),
        (["squad", "--max-length", "9", "--overlong", "drop"], "All 88,641 sequences of squad are longer than 9"),
        (["wikipedai"], "did you mean 'wikipedia'"),
    ],
)
def test_what_cannot_be_reported_is_refused_before_anything_runs(idle, capsys, arguments, says):
    before = sorted(idle.iterdir())
    assert cli.main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("packlib: ") and says in said.err and said.err.count("\n") == 1 and not said.out
    assert sorted(idle.iterdir()) == before


def test_the_lesson_leaves_a_report_that_stands_alone():
    cells = nbformat.read(notebooks()[NOTEBOOK], as_version=4).cells
    kept = [cell for cell in cells if LESSON not in cell.metadata.get("tags", ())]
    told = "\n".join(cell.source for cell in kept if cell.cell_type == "markdown")
    assert not re.search(r"guess|exercise|notebook|explorer|\*\*\w.*\?\*\*", told, re.I), "that is for learners"
    assert not re.search(r"^(guess|reveal|check)\b", "\n".join(cell.source for cell in kept), re.M)
    assert len(re.findall(r"^## ", told, re.M)) >= 7


def test_the_page_opens_with_the_advice_and_shows_no_code():
    output = nbformat.v4.new_output("stream", text="an output")
    cells = [
        nbformat.v4.new_markdown_cell("## Something else"),
        nbformat.v4.new_code_cell("secret = 1", outputs=[output]),
    ]
    advice = {"data": {"name": "a<b"}, "advice": ["Pack.", "Mind."]}
    advice["code"] = {"one": "plan = 'x' < 3", "two": "train(plan)"}
    said = page(
        nbformat.v4.new_notebook(cells=cells), advice, {"max_length": 7, "recipe": None}, "packlib report 'a<b'"
    )
    words = Elements(said).text
    for shown in (
        f"packlib {version('packlib')}",
        time.strftime("%Y-%m-"),
        "packlib report 'a<b'",
        "max_length",
        "none",
    ):
        assert shown in words
    assert all(name in words and text in words for name, text in advice["code"].items())
    assert words.index("Mind.") < words.index("How it was made")
    assert "size: A4" in said and said.rindex("@media screen and (prefers-color-scheme: dark)") > said.rindex(
        "--jp-ui-font-color1: rgba"
    )
    assert not Elements(said).faults()
    assert "<title>Packing report: a&lt;b</title>" in said and "secret" not in said and "an output" in said
    assert said.index("<li>Pack.</li>") < said.index("<li>Mind.</li>") < said.index("Something else")


@pytest.mark.parametrize("name", ["../../outside", "/outside", "a/b", "..", "", "x" * 80, "\U0001f4e6" * 80])
def test_a_name_is_no_path(tmp_path, monkeypatch, name):
    async def run_notebook(path, values, environment, **_):
        counted = Path(values["dataset"])
        assert counted.parent.parent == tmp_path / "a" / "out" and counted.is_file()
        advice = {"data": {"name": load(counted).name}, "advice": [], "code": {}}
        (counted.parent / "advice.json").write_text(json.dumps(advice))
        return nbformat.v4.new_notebook()

    monkeypatch.setattr("packlib.workbook.report.run_notebook", run_notebook)
    report(LengthHistogram([0, 1], name=name), {}, tmp_path / "a" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert sorted(path.name for path in (tmp_path / "a").rglob("*")) == ["advice.json", "out", "report.html"]
    said = (tmp_path / "a" / "out" / "report.html").read_text()
    assert name[:40] in Elements(said).text


def test_what_is_known_of_the_lengths_reaches_the_notebook(tmp_path, monkeypatch):
    whole = LengthHistogram([0, 1, 5, 2], kind="synthetic", source="a formula", truncated=2, dropped=3)

    async def run_notebook(path, values, environment, **_):
        histogram, read = lengths_for(values["dataset"], values["max_length"], "truncate")
        assert read.num_tokens == whole.num_tokens and histogram == whole and repr(histogram) == repr(whole)
        assert (histogram.kind, histogram.source) == ("synthetic", "a formula")
        folder = Path(environment[RESULTS_FOLDER])
        (folder / "advice.json").write_text('{"data": {"name": "a"}, "advice": ["Pack."], "code": {}}')
        return nbformat.v4.new_notebook()

    monkeypatch.setattr("packlib.workbook.report.run_notebook", run_notebook)
    advice, made = report(whole, {}, tmp_path / "out")
    assert advice["advice"] == ["Pack."] and [path.name for path in made] == ["advice.json", "report.html"]


def test_memory_and_waiting_of_a_model_stand_in_the_page_and_in_the_json(tmp_path, monkeypatch):
    lengths, recipe = LengthHistogram([0, 40, 50, 20]), Recipe(5, 1e-3, 1000, replicas=2)
    packed = plan(lengths)

    async def run_notebook(path, values, environment, **_):
        found = {
            "data": {"name": "a", "max_length": 3},
            "advice": ["Pack.", about_attention(packed), about_places(packed), about_waiting(packed, recipe)],
            "code": {},
            "recipe": {"after": asdict(recipe)},
        }
        folder = Path(environment[RESULTS_FOLDER])
        (folder / "advice.json").write_text(json.dumps(found))
        packed.to_json(folder / "plan.json")
        return nbformat.v4.new_notebook()

    monkeypatch.setattr("packlib.workbook.report.run_notebook", run_notebook)
    advice, _ = report(lengths, {}, tmp_path, model="100M")
    assert advice == json.loads((tmp_path / "advice.json").read_text())
    own = [about(packed, "100M") for about in (about_attention, about_places)]
    own += [about_waiting(packed, recipe, "100M"), about_memory("100M", 3, 5)]
    assert advice["advice"] == ["Pack.", *own] and "Llama" not in " ".join(own)
    page = Elements((tmp_path / "report.html").read_text()).text
    assert all(sentence in page for sentence in advice["advice"])
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 9}
    (tmp_path / "config.json").write_text(json.dumps(sizes | {"max_position_embeddings": 2}))
    advice, _ = report(lengths, {}, tmp_path / "out", model=str(tmp_path / "config.json"))
    assert advice["advice"][-1] == about_positions(str(tmp_path / "config.json"), 3) != ""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report on 2,000 lengths of which some are over 48, with a recipe; from a file with a hostile name."""
    folder = tmp_path_factory.mktemp("report") / "{x} a{0}"
    folder.mkdir()
    lengths = np.random.default_rng(0).integers(1, 60, 2000)
    np.save(folder / f"{FILE_NAME}.npy", lengths)
    Recipe(16, 1e-3, 100_000, gradient_accumulation_steps=8).to_json(folder / "recipe.json")
    arguments = ["--max-length", "48", "--overlong", "drop", "--max-sequences-per-pack", "4", "--no-progress"]
    arguments += ["--recipe", str(folder / "recipe.json"), "--out", str(folder / "out")]
    assert cli.main(["report", str(folder / f"{FILE_NAME}.npy"), *arguments]) == 0
    return folder / "out", lengths


@pytest.mark.slow
def test_the_files_are_there_and_nothing_else(made):
    out, _ = made
    names = ("buckets", "depths", "lengths", "methods", "padding-now", "speed-up")
    figures = [f"figures/{name}.{kind}" for name in names for kind in ("png", "svg")]
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == ["advice.json", *figures, "plan.json", "report.html"]
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_the_plan_packs_the_lengths_that_were_given(made):
    out, lengths = made
    plan = PackingPlan.from_json(out / "plan.json")
    assert plan.histogram == LengthHistogram.from_lengths(lengths, 48, "drop") and plan.deepest <= 4
    packs = assign(plan, lengths)
    assert sorted(packs.sample_ids.tolist()) == np.flatnonzero(lengths <= 48).tolist()


@pytest.mark.slow
def test_the_advice_agrees_with_the_plan_and_the_data(made):
    out, lengths = made
    advice, plan = json.loads((out / "advice.json").read_text()), PackingPlan.from_json(out / "plan.json")
    assert advice["data"]["name"] == one_line(FILE_NAME) and advice["plan"]["packs"] == plan.num_packs
    over = lengths[lengths > 48]
    assert (advice["data"]["dropped"], advice["data"]["tokens_lost"]) == (len(over), over.sum())
    assert f"{len(over)} sequences ({100 * len(over) / 2000:.1f} %) are longer than 48" in advice["advice"][1]
    assert advice["plan"]["depth"] <= 4 and not advice["recipe"]["example"]
    assert advice["recipe"]["before"]["micro_batch"] == 16


@pytest.mark.slow
def test_the_page_says_it_all_without_code_or_network(made):
    out, _ = made
    said = (out / "report.html").read_text()
    words = Elements(said).text
    for sentence in json.loads((out / "advice.json").read_text())["advice"]:
        assert sentence in words
    assert "hl-ipython3" not in said and "draw_lengths" not in words
    images = [attributes for tag, attributes in Elements(said).tags if tag == "img"]
    assert len(images) == 6 and all(len(image["alt"].split()) >= 5 for image in images)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', said)
    assert not Elements(said).faults() and "<math" not in said and one_line(FILE_NAME) in words
