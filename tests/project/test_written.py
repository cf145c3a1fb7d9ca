"""What README, docstrings and glossary say works: commands and examples run as they stand, and names are there."""

import contextlib
import doctest
import importlib
import io
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import packbook
import packlib
from packbook.parameters import parameters_of
from packbook.publish.talk import talk
from packbook.publish.talk_figures import speed_ups
from packbook.publish.website import building
from packbook.run.running import notebooks
from packlib.lengths import available, load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.S)
    return found


def test_the_report_says_what_the_readme_shows(tmp_path):
    setup, command = block("sh").splitlines()
    assert setup == "make setup TORCH=cpu"
    program, *arguments = command.split()
    assert program == ".venv/bin/packlib" and arguments[-1] == "report"
    arguments[-1] = str(tmp_path / "report")
    run = [sys.executable, "-m", "packlib", *arguments]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert set(block("text").splitlines()) <= set(done.stdout.splitlines())
    assert (tmp_path / "report" / "report.html").exists()


def test_the_python_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(block("python"), {})
    assert "8,135,727 packs" in said.getvalue() and "[[3, 3, 3, 3, 3, 3, 4, 4]" in said.getvalue()
    padded, packed = packlib.load("wikipedia").num_sequences, 8_135_727
    assert f"{padded / 1e6:.1f} million rows | {packed / 1e6:.2f} million rows of at most four texts" in README
    assert "at most 0 packs above the best" in said.getvalue()


def test_the_same_data_has_the_same_numbers_on_front_page_readme_and_talk():
    speed = speed_ups()
    for name, rows in (("WordNet", 128), ("Wikipedia", 512)):
        (line,) = re.findall(rf"\| BERT on {name}, rows of {rows}, one CPU core \| 1 × \| ([\d.]+) × the", README)
        assert line == f"{speed[name.lower()]:.1f}"
    slides = {slide.name: slide for slide in talk()}
    assert slides["speed-up"].heading.startswith(f"{speed['wordnet']:.1f} times")
    assert f"{speed['wikipedia']:.1f}" in slides["speed-up"].notes
    benchmarks = (ROOT / "data" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert f"factor 1.99 | | padded, useful tokens a second | {speed['wikipedia']:.1f} |" in benchmarks
    measured = [load(name) for name in ("wordnet", "wordnet-pairs", "docstrings", "squad", "wikipedia")]
    most = max(one.padding_fraction for one in measured)
    assert f"is up to {100 * most:.0f} % padding." in README
    assert f"to {100 * most:.0f} % padding" in slides["five-histograms"].heading
    assert "Half of a padded Wikipedia batch is padding" in README
    assert round(load("wikipedia").padding_fraction, 2) == 0.5
    sets = json.loads(building.data_sets_script().removeprefix("const DATA_SETS = ").rstrip(";\n"))
    front, fewest = sets["wikipedia"]["best"], 8_135_727  # rows; the second by the test above, four texts in each
    assert f"{front / 1e6:.2f}" == f"{fewest / 1e6:.2f}"
    assert f"| {front / 1e6:.2f} million rows of at most four" in README


def test_the_first_screens_say_how_many_notebooks_there_are():
    for page in ("README.md", "CHANGELOG.md", "notebooks/packbook/publish/website/index.md"):
        said = re.findall(r"(\d+) notebooks", (ROOT / page).read_text(encoding="utf-8"))
        assert said == [str(len(notebooks()))], page


def test_papermill_runs_the_line_of_the_readme():
    (words,) = re.findall("`.venv/bin/(papermill [^`]*)`", README)
    _, notebook, _, _, name, value = words.split()
    parameters = parameters_of(Path(notebook).stem)
    assert name in parameters and (ROOT / notebook).exists() and value in available()


def test_the_pages_and_the_code_of_a_report_import_from_packlib_alone():
    """Where the tools are is for those who change them."""
    pages = [ROOT / name for name in ("README.md", "packlib/USING.md", "packlib/tools/rows/README.md")]
    texts = [path.read_text(encoding="utf-8") for path in [*pages, *ROOT.glob("packlib/**/*.jinja")]]
    rooms = re.findall(r"^(?:from|import) +(packlib\S*)", "\n".join(texts), re.M)
    assert len(rooms) > 10 and set(rooms) == {"packlib"}


def test_an_example_takes_from_packlib_what_stands_there_and_not_from_the_tools():
    for name, test in EXAMPLES.items():
        code = "".join(example.source for example in test.examples)
        for names in re.findall(r"from packlib\.tools\S* import (.*)", code):
            assert not set(re.findall(r"\w+", names)) & set(packlib.__all__), name


def examples():
    """The examples of all modules that have some, each with nothing but what it imports."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in (packlib, packbook)]
    for module in itertools.chain(*found):
        if ">>> " in Path(module.module_finder.find_spec(module.name).origin).read_text(encoding="utf-8"):
            found = finder.find(importlib.import_module(module.name), globs={})
            yield from (test for test in found if test.examples)


EXAMPLES = {test.name: test for test in examples()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    said = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(EXAMPLES[name], out=said.append)
    assert not said, "".join(said)


def names_in_use() -> set[str]:
    """All words in the files of the library, and in the code of the notebooks."""
    files = [*ROOT.glob("packlib/**/*.py"), *ROOT.glob("notebooks/packbook/**/*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    for path in ROOT.glob("notebooks/**/*.ipynb"):
        texts += [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return set(re.findall(r"\w+", " ".join(texts)))


def test_a_name_in_the_glossary_is_one_of_the_library_or_told_as_another():
    """The first name in the last column is ours, where it is code; what comes after the semicolon is not."""
    ours, terms = names_in_use(), set()
    for line in (ROOT / "notebooks/GLOSSARY.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| term", "|---")):
            term, meaning, names = (cell.strip() for cell in line.strip("|").split("|"))
            assert term and meaning and term not in terms, line
            terms.add(term)
            for name in re.findall(r"`([A-Za-z_.]+)`", names.split(";")[0].split(", as in")[0]):
                assert set(name.split(".")) <= ours, f"{name} of {term} is no name of packlib"
