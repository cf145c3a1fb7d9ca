"""The glossary names what the library offers."""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def names_in_use() -> set[str]:
    """All words in the files of the library, and in the code of the notebooks."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("packlib/**/*.py")]
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
