"""Count the lines of code: `python -m tests.lines`.

Empty lines, comments and docstrings do not count: words are free, code is what readers have to carry. The limits are
what we hold ourselves to; tests/project/test_lines.py sees that no part grows beyond its own.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {  # the parts of packlib, and how many lines of code each may have
    "library": 5920,  # the rooms from lengths to training, and the files beside them
    "work": 700,  # balanced work and whole documents, which stand beside packing
    "bridges": 2440,
    "advisor": None,
    "workbook": 1400,  # without the chapters, and what shows the workbook elsewhere
    "site": 420,  # the site, the game and the talk
    "chapters": None,
}
# files in the rooms that count apart
WORK = ("work", "balancing", "balancing_loops", "random_waiting", "context_parallel", "schedule_sampler", "documents")
STILL = {"library": 6839, "workbook": 1758}  # above their limits today; these may only fall


def lines_of_code(source: str) -> int:
    """Lines that hold code: with something on them that is neither a comment nor a docstring."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate((line.strip() for line in source.splitlines()), start=1)
    return sum(bool(line) and not line.startswith("#") and at not in documented for at, line in lines)


def part_of(path: Path) -> str:
    """Which part a file belongs to, by its path in packlib."""
    room = path.parts[0]
    if room == "workbook" and "chapters" in path.parts:
        return "chapters"
    if room == "workbook" and ("website" in path.parts or path.name in ("game.py", "talk.py")):
        return "site"
    if path.stem in WORK:
        return "work"
    return room if room in LIMITS else "library"


def count(folder: Path = ROOT / "packlib") -> Counter:
    """Lines of code by part."""
    counted: Counter = Counter(dict.fromkeys(LIMITS, 0))
    for path in folder.rglob("*.py"):
        counted[part_of(path.relative_to(folder))] += lines_of_code(path.read_text(encoding="utf-8"))
    return counted


def main() -> int:
    """Print a line for each part; 1 if one is above its limit."""
    counted = count()
    above = [part for part, limit in LIMITS.items() if limit and counted[part] > limit]
    for part, limit in LIMITS.items():
        may = f" of {limit:,}{', too many' * (part in above)}" if limit else ""
        print(f"{part:10}{counted[part]:6,}{may}")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
