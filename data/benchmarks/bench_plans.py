"""Plans for real and drawn lengths of fine-tuning: the fast methods, `auto` and `optimal`, with CPU seconds.

`python data/record.py plans real` packs the lengths of Azure's chats and code in rows of 2,048 to 16,384
tokens, without a depth limit and at most 8 sequences a pack. `python data/record.py plans drawn` does so for 20,000 and
100,000 log-normal lengths with medians of 180, 600 and 2,500. No limit of time is set: `optimal` ends by its steps.
"""

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.table import record_parts, timed
from packlib.lengths import LengthHistogram, data_path, load
from packlib.packing import plan

ROWS, DEPTHS = (2048, 4096, 8192, 16_384), (None, 8)
METHODS = ("lpfhp", "exact_filling", "auto", "optimal")


def line(name: str, lengths: np.ndarray, top: int, depth: int | None) -> dict:
    """Return the packs above the best bound, and CPU seconds, of each method for these lengths, cut to the row."""
    histogram = LengthHistogram.from_lengths(np.minimum(lengths, top), top)
    made = {method: timed(partial(plan, histogram, method=method, max_sequences_per_pack=depth)) for method in METHODS}
    bound = max(found.lower_bound for found, _ in made.values())
    row = {"lengths": name, "rows": top, "depth": depth or "none", "bound": bound}
    for method, (found, seconds) in made.items():
        row |= {f"{method} above": found.num_packs - bound, f"{method} CPU s": f"{seconds:.3f}"}
    return row | {"auto took": made["auto"][0].method}


def real() -> Iterator[dict]:
    for name in ("chats", "code"):
        lengths = load(data_path("lengths", f"azure-{name}.csv")).expand()
        for top, depth in itertools.product(ROWS, DEPTHS):
            yield line(f"Azure {name}", lengths, top, depth)


def drawn() -> Iterator[dict]:
    for number, median, top in itertools.product((20_000, 100_000), (180, 600, 2500), ROWS):
        lengths = np.random.default_rng(median + top).lognormal(np.log(median), 1, number)
        lengths = np.clip(np.rint(lengths), 1, top).astype(int)
        for depth in DEPTHS:
            yield line(f"{number:,} log-normal, median {median:,}", lengths, top, depth)


def main(*named: str) -> None:
    record_parts("plans", named, {"real": real, "drawn": drawn}, ("numpy", "scipy", "highspy"))
