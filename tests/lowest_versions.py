"""The lowest version of each package that pyproject.toml allows, as constraints for pip.

    python -m tests.lowest_versions >lowest.txt
    make test-library CONSTRAINTS=lowest.txt

tests the library with them, in a fresh clone. What they need in turn is left to pip. Nothing need be installed.
"""

import re
import tomllib
from itertools import chain
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest_versions() -> list[str]:
    """A line `name==version` for each package of pyproject.toml.

    Raises:
        ValueError: if a package has no lowest version, or more conditions than that.
    """
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    lowest = []
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        found = re.fullmatch(r"([\w-]+)(?:>=|==)([\d.]+)", line)
        if not found:
            raise ValueError(f"pyproject.toml must give the lowest version of a package alone, not {line!r}.")
        lowest.append(f"{found[1]}=={found[2]}")
    return lowest


if __name__ == "__main__":
    print(*lowest_versions(), sep="\n")
