"""What counting tokens reaches on the texts of each experiment, recorded in data/runs/baselines.csv: seconds.

    python -m tests.experiments.baselines

"modules" are the rows of bytes of `curriculum`'s "length", "texts" the single texts of its "comparison" and "rates"
(both as seed 0 has them). "functions" are those of Python's library that fit into 256 bytes, and "docstrings" the texts
of `pretraining`. "documents" are those of `documents`, and "documents, later" leaves out the first 64 bytes of each
held-out one.
"""

import numpy as np

from packlib.batches import TokenStore
from packlib.ragged import ranges
from packlib.workbook.chapters.shared.baselines import Neighbors, bigram_loss, neighbors, unigram_loss
from tests.benchmarks import table
from tests.experiments import documents
from tests.experiments.batchings import batches
from tests.experiments.curriculum import LENGTH, PLANNED, held_out_rows
from tests.experiments.pretraining import docstrings, split
from tests.experiments.recording import path_of
from tests.experiments.sources import function_stores, module_rows

VOCABULARY, BYTES = 4000, 256


def texts(store, size: int) -> Neighbors:
    """The tokens that a causal model predicts in packs of these texts; all of them in one batch."""
    batch = next(batches("packed", store, 0, LENGTH, size))
    return neighbors(batch.input_ids.numpy(), batch.segment_ids.numpy())


def within(texts: list[np.ndarray], first: int = 0) -> Neighbors:
    """The tokens of each text with those before them, where the one before has place `first` or a later one."""
    lengths = np.array([len(text) for text in texts])
    places = ranges(np.zeros_like(lengths), lengths)
    segments = np.where(places >= first, np.repeat(np.arange(len(texts)) + 1, lengths), 0)
    return neighbors(np.concatenate(texts)[None], segments[None])


def alone(stores: tuple[TokenStore, TokenStore]) -> tuple[Neighbors, Neighbors, int]:
    """The case of bytes that are counted and predicted within each text."""
    counted, predicted = (within(np.split(store.input_ids, store.offsets[1:-1])) for store in stores)
    return counted, predicted, BYTES


def cases() -> dict[str, tuple[Neighbors, Neighbors, int]]:
    """By kind of text: what is counted, what is predicted, and the size of the vocabulary."""
    train, held_out = split()
    planned = PLANNED["rates"]
    some = train.take(np.random.default_rng(0).permutation(len(train))[:planned])
    rows, test = module_rows(LENGTH, 64 * LENGTH)
    rows = rows[np.random.default_rng(0).permutation(len(rows))[: PLANNED["length"]]]
    whole, single = documents.documents()
    return {
        "modules": (neighbors(rows.numpy()), neighbors(held_out_rows(test).numpy()), BYTES),
        "texts": (texts(some, planned), texts(held_out, 320), VOCABULARY),
        "functions": alone(function_stores(256)),
        "docstrings": alone(docstrings()),
        "documents": (within(whole), within(single), BYTES),
        "documents, later": (within(whole), within(single, documents.LATER), BYTES),
    }


def main() -> None:
    found = []
    for name, (text, test, vocabulary) in cases().items():
        for baseline, loss in (("unigram", unigram_loss), ("bigram", bigram_loss)):
            value = loss(text, test, vocabulary)
            found.append({"text": name, "baseline": baseline, "counted": len(text[1]), "held_out": len(test[1]),
                          "loss": f"{value:.6g}"})  # fmt: skip
    table.show(found)
    command, path = "python -m tests.experiments.baselines", path_of("baselines")
    table.record("baselines", found, command, packages=("torch",), path=path)


if __name__ == "__main__":
    main()
