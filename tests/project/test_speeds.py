"""What README.md and BENCHMARKS.md say of speed stands in the recorded tables."""

import csv
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NNLS = "SciPy's NNLS, 22,102 columns"
#: By the words that begin a row of the pages: the table, the work and the peer there ("" for any).
RECORDED = {
    "`lpfhp`, Wikipedia 512": [("packing", "lpfhp, Wikipedia 512", "")],
    "16,279,552 lengths to packs, `lpfhp`": [("packing", "16,279,552 lengths to packs, lpfhp", "")],
    "the same with a seed": [("packing", "16,279,552 lengths to packs, lpfhp, with a seed", "")],
    "16,279,552 lengths to packs, `optimal`": [("packing", "16,279,552 lengths to packs, optimal", "")],
    "`optimal`, Wikipedia 512, depth 3": [("packing", "optimal, Wikipedia 512, depth 3", NNLS)],
    "`optimal`, Wikipedia 512, no limit": [("packing", "optimal, Wikipedia 512, depth unlimited", NNLS)],
    "`optimal`, log-normal": [
        ("packing", f"optimal, log-normal {top}, depth unlimited", NNLS) for top in ("2,048", "8,192")
    ],
    "`optimal`, 294 plans": [
        ("packing", f"optimal, Wikipedia and SQuAD, shipped and 20 draws each, 7 depths: the {which}", NNLS)
        for which in ("median", "slowest")
    ],
    "`optimal`, 54 cases": [("packing", "optimal, slowest of 13 cases of 1 M sequences, rows of 4,096", "")],
    "1,000,000 rows of length": [
        ("sorting", "1,000,000 × 2 rows, length and sample id", peer)
        for peer in ("np.lexsort and rows taken", "Python's sorted, lists")
    ],
}  # fmt: skip


def rows_of(page: str) -> list[list[str]]:
    """The cells of the page's rows on speed: work, time, peer, ratio."""
    text = (ROOT / page).read_text(encoding="utf-8")
    table = text.split("| work | time | against | times faster |\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def table(name: str) -> list[dict[str, str]]:
    lines = (ROOT / "data" / "benchmarks" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(lines[2:]))


def recorded(name: str, work: str, peer: str) -> dict[str, str]:
    (row,) = [r for r in table(name) if r["work"] == work and peer in r["peer"]]
    return row


def same(said: str, value: float) -> bool:
    """Whether a number on the page is the recorded one, to the digits that are given."""
    digits = len(said.partition(".")[2])
    return abs(float(said) - value) <= 0.51 * 10**-digits


@pytest.mark.parametrize("page", ["README.md", "BENCHMARKS.md"])
def test_speeds_are_those_recorded(page):
    checked = 0
    for work, time, _, ratio in rows_of(page):
        for begin, places in RECORDED.items():
            if not work.startswith(begin):
                continue
            found = [recorded(*place) for place in places]
            unit = 1000 if time.endswith("ms") else 1
            times, ratios = re.findall(r"[\d.]+", time), re.findall(r"[\d.]+", ratio)
            assert len(times) in (1, len(found)), work
            assert len(ratios) == len(found), work
            assert all(same(n, unit * float(row["seconds"])) for n, row in zip(times, found, strict=False)), work
            assert all(same(n, float(row["times faster"])) for n, row in zip(ratios, found, strict=True)), work
            checked += 1
    assert checked >= 5


def test_the_sum_of_long_cases():
    """54 cases: what the page says of their slowest and their largest gap."""
    long = [r for r in table("packing") if r["work"].startswith("optimal, slowest") and "limit" not in r["work"]]
    (row,) = [r for r in rows_of("BENCHMARKS.md") if "54 cases" in r[0]]
    assert sum(int(re.search(r"of (\d+) cases", r["work"])[1]) for r in long) == 54
    gap = max(float(re.search(r"([\d.]+)%", r["found"])[1]) for r in long)
    assert f"at most {gap:.3f} % above" in row[0]
    assert same(re.search(r"[\d.]+", row[1])[0], max(float(r["seconds"]) for r in long))


def test_which_method_rests_on_all_draws():
    """What the page says of long rows and of hard histograms is the whole range of what was recorded."""
    page = " ".join((ROOT / "BENCHMARKS.md").read_text(encoding="utf-8").split())
    rows, hard = table("packing_draws"), table("packing_slack")
    limited = [row for row in rows if row["depth"] != "none"]
    free = [row for row in rows if row["depth"] == "none"]

    def above(rows: list[dict[str, str]], column: str, bound: str = "best bound") -> float:
        """The most percent more packs, of all rows."""
        return max(100 * (int(row[column]) / int(row[bound]) - 1) for row in rows)

    assert above(rows, "optimal in T") <= 0.1 and above(rows, "optimal in T / 10", "its bound") <= 1
    assert f"two distributions, three draws each, {len(rows)} plans" in page
    assert f"up to {math.ceil(100 * above(free, 'lpfhp')) / 100:.2f} % on the long rows" in page
    greedy, even = math.ceil(above(limited, "lpfhp")), math.ceil(100 * above(limited, "lpt")) / 100
    assert f"In the {len(limited)} plans for long rows that have a depth limit" in page
    assert f"`lpfhp` takes up to {greedy} % more packs than are proven to be needed, `lpt` up to {even:.2f} %" in page
    longest = {
        top: max(float(row["CPU seconds"]) for row in hard if row["max_length"] == top) for top in ("512", "1024")
    }
    assert all(row["packs"] == row["bound"] for row in hard) and f"{len(hard)} histograms that were made hard" in page
    assert f"up to {math.ceil(longest['1024'])} seconds where rows have 1,024 tokens" in page and longest["512"] < 10
    assert f"at most {math.ceil(max(float(row['seconds']) for row in rows))} seconds" in page
