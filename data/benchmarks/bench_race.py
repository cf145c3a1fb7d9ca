"""The race of notebook 00, with the clock of this processor: padded in two ways, packed, and packed without a mask.

`python data/record.py race` writes data/benchmarks/race.csv: each way trains the notebook's model on the same
sentences, with its default parameters and three seeds, on one core. Sentences have the lengths of the notebook's texts.
"""

from collections.abc import Iterator

import torch

from benchmarks.table import record
from packbook.n00_tour.runs import BATCH, MOST, WAYS, Race, lay_out
from packbook.n00_tour.texts import choose_texts
from packbook.shared.two_words import small_bert_of_words

UPDATES, TEXTS, SLOTS = 120, 1_280, 128  # of the notebook: updates, texts, and slots of a row for these texts


def train(race: Race, way: str, seed: int) -> tuple[int, int]:
    """Return one run; the rows and slots of all its updates."""
    model, rows, slots = small_bert_of_words(seed), 0, 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for sentences in race.sentences(way, model):
        batch = lay_out(way, sentences, race.slots, seed)
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rows, slots = rows + len(batch["input_ids"]), slots + batch["input_ids"].numel()
    return rows, slots


def runs() -> Iterator[dict]:
    torch.set_num_threads(1)
    train(Race([16], 16, 2, 0, watched=False), "packed", 0)  # what happens once, happens before the clock runs
    for seed in range(3):
        _, lengths, _ = choose_texts("wordnet", TEXTS, SLOTS, seed)
        race = Race(lengths, MOST, UPDATES, seed, every=UPDATES, watched=False)
        for way in WAYS:
            rows, slots = train(race, way, seed)
            _, seconds, right = race.points[way][-1]
            yield {
                "run": way,
                "seed": seed,
                "sentences in a row": f"{BATCH * UPDATES / rows:.2f}",
                "slots of an update": f"{slots / UPDATES:.0f}",
                "CPU s": f"{seconds:.2f}",
                "right": f"{right:.3f}",
            }


def main() -> None:
    record("race.csv", runs(), "python data/record.py race", ("torch", "transformers"))
