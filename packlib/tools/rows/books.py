"""The books of packing: the sequences, tokens and labels of a data set, and those of its packs.

A label is a token that the model is trained to predict. The first token of a sequence is none, since nothing predicts
it, but where labels are those of a masked model.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from packlib.arguments import percent
from packlib.packing.documents import CUTS


@dataclass
class Amounts:
    """Counts of sequences, their tokens and their labels.

    Attributes:
        without_label: sequences without a label.
    """

    sequences: int = 0
    tokens: int = 0
    labels: int = 0
    without_label: int = 0

    def add(self, lengths: np.ndarray, labels: np.ndarray) -> None:
        """Count sequences, by the tokens and the labels of each."""
        self.sequences += len(lengths)
        self.tokens += int(lengths.sum())
        self.labels += int(labels.sum())
        self.without_label += int(np.count_nonzero(labels == 0))

    def __iadd__(self, other: "Amounts") -> "Amounts":
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    def as_dict(self, labeled: bool) -> dict[str, int | None]:
        """Return the amounts by name; None for those that are unknown without labels."""
        amounts: dict[str, int | None] = dict(asdict(self))
        return amounts if labeled else amounts | {"labels": None, "without_label": None}


@dataclass
class Books:
    """Counts of a data set, and of what its packs have of it.

    Attributes:
        data: of the data set.
        packed: of the packs.
        kept_by_rule: how many labels each rule for sequences that are too long keeps.
        left_out: sequences (or parts of split ones) that were left out, since they have no label.
        labeled: whether there are labels at all.
        packs_without_label: of the packs, once they are made.
    """

    data: Amounts = field(default_factory=Amounts)
    packed: Amounts = field(default_factory=Amounts)
    kept_by_rule: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CUTS, 0))
    left_out: int = 0
    labeled: bool = True
    packs_without_label: int = 0

    def add(self, other: "Books") -> None:
        """Count what another process has read."""
        self.data += other.data
        self.packed += other.packed
        self.left_out += other.left_out
        for rule, labels in other.kept_by_rule.items():
            self.kept_by_rule[rule] += labels

    def as_dict(self) -> dict[str, Any]:
        """Return the books as JSON has them; None for what is unknown without labels."""
        known = {
            "labels_kept_by_rule": self.kept_by_rule,
            "packs_without_label": self.packs_without_label,
            "left_out_without_label": self.left_out,
        }
        books: dict[str, Any] = {"data": self.data.as_dict(self.labeled), "packed": self.packed.as_dict(self.labeled)}
        return books | (known if self.labeled else dict.fromkeys(known))


def sentences(books: Mapping[str, Any], packs: int, overlong: int) -> list[str]:
    """Write the books as plain sentences.

    Args:
        books: as `Books.as_dict` returns them.
        packs: how many packs were made.
        overlong: how many sequences were too long.
    """
    data, packed, labels_by_rule = books["data"], books["packed"], books["labels_kept_by_rule"]
    lines = []
    if overlong:
        words = _share(packed["tokens"], data["tokens"], "tokens")
        if labels_by_rule is not None:
            words += f" and {_share(packed['labels'], data['labels'], 'labels')}"
        lines.append(f"The packs keep {words}.")
        if labels_by_rule is not None and data["labels"]:
            shares = ", ".join(f"{rule} {percent(labels / data['labels'])}" for rule, labels in labels_by_rule.items())
            lines.append(f"Labels that each rule of --overlong keeps: {shares}.")
    elif labels_by_rule is not None:
        words = _share(packed["labels"], packed["tokens"], "tokens")
        lines.append(f"{words} are labels, which a model must predict.")
    if packed["without_label"]:
        words = f"{packed['without_label']:,} of the {packed['sequences']:,} packed sequences and "
        words += f"{books['packs_without_label']:,} of the {packs:,} packs have no label and train on nothing"
        if overlong:
            words += f" ({data['without_label']:,} sequences had none before the cut)"
        lines.append(f"{words}: --drop-unlabeled leaves such sequences out.")
    if books["left_out_without_label"]:
        lines.append(f"{books['left_out_without_label']:,} sequences without a label were left out.")
    return lines


def _share(part: int, total: int, noun: str) -> str:
    return f"{part:,} of {total:,} {noun} ({percent(part / total if total else 0.0)})"
