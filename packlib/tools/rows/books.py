"""The books of packing: the sequences, tokens and labels of a data set, and those of its packs.

A label is a token that the model is trained to predict. The first token of a sequence is no label, since nothing
predicts it; only a masked model may have one there.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from packlib.arguments import percent
from packlib.packing.documents import CUTS


@dataclass
class Amounts:
    """Numbers of sequences, of their tokens, of their labels, and of the sequences `without_label`."""

    sequences: int = 0
    tokens: int = 0
    labels: int = 0
    without_label: int = 0

    def add(self, lengths: np.ndarray, label_counts: np.ndarray) -> None:
        """Add sequences, each with its number of tokens and its number of labels."""
        self.sequences += len(lengths)
        self.tokens += int(lengths.sum())
        self.labels += int(label_counts.sum())
        self.without_label += int(np.count_nonzero(label_counts == 0))

    def __iadd__(self, other: "Amounts") -> "Amounts":
        """Add other amounts to these."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    def as_dict(self, labeled: bool) -> dict[str, int | None]:
        """Return the amounts by name; None for those that are unknown without labels."""
        amounts: dict[str, int | None] = dict(asdict(self))
        return amounts if labeled else amounts | {"labels": None, "without_label": None}


@dataclass
class Books:
    """Amounts in a data set, and in its packs.

    Attributes:
        data: amounts in the data set.
        packed: amounts in the packs.
        labels_kept_by_rule: how many labels each rule for sequences that are too long keeps.
        left_out: number of sequences (or parts of split ones) that were left out, since they have no label.
        labeled: whether there are labels at all.
        packs_without_label: number of such packs, 0 until packs are made.
    """

    data: Amounts = field(default_factory=Amounts)
    packed: Amounts = field(default_factory=Amounts)
    labels_kept_by_rule: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CUTS, 0))
    left_out: int = 0
    labeled: bool = True
    packs_without_label: int = 0

    def add(self, other: "Books") -> None:
        """Add the books of what another process has read; neither has packs yet."""
        self.data += other.data
        self.packed += other.packed
        self.left_out += other.left_out
        for rule, labels in other.labels_kept_by_rule.items():
            self.labels_kept_by_rule[rule] += labels

    def as_dict(self) -> dict[str, Any]:
        """Return the books as JSON has them; None for what is unknown without labels."""
        books: dict[str, Any] = {"data": self.data.as_dict(self.labeled), "packed": self.packed.as_dict(self.labeled)}
        about_labels = {
            "labels_kept_by_rule": self.labels_kept_by_rule,
            "packs_without_label": self.packs_without_label,
            "left_out_without_label": self.left_out,
        }
        return books | (about_labels if self.labeled else dict.fromkeys(about_labels))


def sentences(books: Mapping[str, Any], packs: int, overlong: int) -> list[str]:
    """Return the books as plain sentences.

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
    """Return a part of a total in words, such as "1,234 of 5,678 tokens (21.7 %)"."""
    return f"{part:,} of {total:,} {noun} ({percent(part / total if total else 0.0)})"
