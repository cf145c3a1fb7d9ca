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

    A copy notes what it was made of. If that has changed, a new copy is put beside the learner's: "name (new).ipynb",
    then "name (new 2).ipynb".

    A page of Markdown in `source` that a notebook there links to is copied, too, and replaced by the page as it is now.

    Returns:
        A sentence for each notebook that was put beside an older copy.
    """
    offers, pages = [], set()
    for path in sorted([*source.glob("*.ipynb"), *source.glob("solutions/*.ipynb")]):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)
            elif cell.cell_type == "markdown" and path.parent == source:
                pages |= set(re.findall(r"\]\((\w+\.md)\b", cell.source))
        made_of = hashlib.sha256(nbformat.writes(notebook).encode()).hexdigest()
        notebook.metadata["packlib"] = {"made_of": made_of}
        old = target / path.relative_to(source)
        for number in itertools.count():
            new_name = f"{path.stem} (new{f' {number}' if number > 1 else ''}).ipynb"
            copy = old.with_name(new_name) if number else old
            if not copy.exists():
                write_text(copy, nbformat.writes(notebook) + "\n")
                if number:
                    offers.append(f"{path.stem} has changed: your copy stays, the new one is {copy}.")
                break
            if _made_of(copy) == made_of:
                break
    for page in sorted(pages):
        write_text(target / page, (source / page).read_text(encoding="utf-8"))
    return offers


def _made_of(copy: Path) -> str | None:
    """Return a copy's note; None if a learner's file cannot be read or notes nothing."""
    try:
        return json.loads(copy.read_text(encoding="utf-8"))["metadata"]["packlib"]["made_of"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def main(folders: Iterable[str]) -> None:
    """Make the copies, and say what is new."""
    for offer in make_copies(*map(Path, folders)):
        print(offer)


if __name__ == "__main__":
    main(sys.argv[1:])
