"""Learners' copies of the notebooks: without outputs, so that nothing is given away, and never overwritten.

The pages that a notebook links to, such as the glossary, lie beside the copies, always as they are now.

`python -m packbook.run.copies notebooks lab` is part of `make lab`.
"""

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat

from packlib.files import write_text


def make_copies(source: Path, target: Path) -> list[str]:
    """Copy each notebook below `source` that is not below `target` yet, the code cells without outputs.

    A copy notes a digest of what it was made of. If the notebook has changed since, a new copy is put next to the
    learner's: "name (new).ipynb", then "name (new 2).ipynb".

    A page of Markdown in `source` that a notebook there links to is copied, too, and replaced by the page as it is now.

    Returns:
        A sentence for each notebook that was put beside an older copy.
    """
    offers: list[str] = []
    pages: set[str] = set()
    for path in sorted([*source.glob("*.ipynb"), *source.glob("solutions/*.ipynb")]):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)
            elif cell.cell_type == "markdown" and path.parent == source:
                pages |= set(re.findall(r"\]\((\w+\.md)\b", cell.source))  # links like [words](PAGE.md)
        digest = hashlib.sha256(nbformat.writes(notebook).encode()).hexdigest()
        notebook.metadata["packlib"] = {"made_of": digest}
        first_copy = target / path.relative_to(source)
        for version in itertools.count():
            copy = _version_of(first_copy, version)
            if not copy.exists():
                write_text(copy, nbformat.writes(notebook) + "\n")
                if version:
                    offers.append(f"{path.stem} has changed: your copy stays, the new one is {copy}.")
                break
            if _made_of(copy) == digest:  # an up-to-date copy is there
                break
    for page in sorted(pages):
        write_text(target / page, (source / page).read_text(encoding="utf-8"))
    return offers


def _version_of(copy: Path, version: int) -> Path:
    """Return the path of a later version of a copy: 0 is the copy, 1 "name (new).ipynb", 2 "name (new 2).ipynb"."""
    if version == 0:
        return copy
    number = f" {version}" if version > 1 else ""
    return copy.with_name(f"{copy.stem} (new{number}).ipynb")


def _made_of(copy: Path) -> str | None:
    """Return the digest of what a copy was made of, which it notes; None if the learner's file has no such note."""
    try:
        return json.loads(copy.read_text(encoding="utf-8"))["metadata"]["packlib"]["made_of"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def main(folders: Iterable[str]) -> None:
    """Make copies of the notebooks in the first folder in the second one, and print which are new versions."""
    source, target = map(Path, folders)
    for offer in make_copies(source, target):
        print(offer)


if __name__ == "__main__":
    main(sys.argv[1:])
