"""What counting tokens reaches on the texts of each experiment, recorded in data/runs/baselines.csv: seconds.

    python data/record.py baselines

"modules" are the rows of bytes of `curriculum`'s "length", as seed 0 has them, "functions" the functions of its
"comparison" and "rates", and "docstrings" the texts of `pretraining`. "documents" are those of `documents`, byte by
byte, and "documents, later" leaves out the first 64 bytes of each held-out one.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.table import record
from packbook.shared.counted_text import Neighbors, bigram_loss, neighbors, unigram_loss
from packlib.batches import TokenStore
from packlib.packing.ragged import ranges
from runs import documents
from runs.curriculum import LENGTH, PLANNED, TEXT_LENGTH, held_out_rows
from runs.pretraining import docstrings
from runs.recording import path_of
from runs.sources import function_stores, module_rows

BYTES = 256


def within(texts: list[np.ndarray], first: int = 0) -> Neighbors:
    """Return the tokens of each text with those before them, where the one before has place `first` or a later one."""
    lengths = np.array([len(text) for text in texts])
    places = ranges(np.zeros_like(lengths), lengths)
    segments = np.where(places >= first, np.repeat(np.arange(len(texts)) + 1, lengths), 0)
    return neighbors(np.concatenate(texts)[None], segments[None])


def alone(stores: tuple[TokenStore, TokenStore]) -> tuple[Neighbors, Neighbors]:
    """Return the case of bytes that are counted and predicted within each text."""
    counted, predicted = (within(np.split(store.input_ids, store.offsets[1:-1])) for store in stores)
    return counted, predicted


def cases() -> dict[str, tuple[Neighbors, Neighbors]]:
    """Return, by kind of text, what is counted, and what is predicted."""
    rows, test = module_rows(LENGTH, 64 * LENGTH)
    rows = rows[np.random.default_rng(0).permutation(len(rows))[: PLANNED["length"]]]
    whole, single = documents.documents()
    return {
        "modules": (neighbors(rows.numpy()), neighbors(held_out_rows(test).numpy())),
        "functions": alone(function_stores(TEXT_LENGTH)),
        "docstrings": alone(docstrings()),
        "documents": (within(whole), within(single)),
        "documents, later": (within(whole), within(single, documents.LATER)),
    }


def measured() -> Iterator[dict]:
    for name, (text, test) in cases().items():
        for baseline, loss in (("unigram", unigram_loss), ("bigram", bigram_loss)):
            yield {
                "text": name,
                "baseline": baseline,
                "counted": len(text[1]),
                "held_out": len(test[1]),
                "loss": f"{loss(text, test, BYTES):.6g}",
            }


def main() -> None:
    record(path_of("baselines"), measured(), "python data/record.py baselines", ("torch",))
