"""Which tokens are trained on, counted so that what a cut loses of them is known for every row length at once."""

from dataclasses import dataclass, field

import numpy as np

from packlib.lengths.overlong import CutRule


@dataclass
class Labels:
    """The labels of the sequences of a data set. A label is a token that the model is trained to predict.

    The first token of a sequence is predicted from nothing, so it is no label, nor is the first of a further piece;
    but it is one where a masked model predicts it.

    Attributes:
        by_position: how many sequences have a label at each position, from 0 up.
        causal: how many of these are none where a piece begins with them.
        by_length: how many labels the sequences of each length have together.
        firsts: how many sequences have their first label at each position.
    """

    by_position: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    causal: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    by_length: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    firsts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, lengths: np.ndarray, trained: np.ndarray, masked: np.ndarray) -> None:
        """Count the labels of the next sequences.

        Args:
            lengths: tokens of each sequence, shape (sequences,).
            trained: which tokens are trained on, the sequences laid end to end; bool, shape (tokens,).
            masked: which of them a masked model predicts, of the same shape.
        """
        begins = np.cumsum(lengths) - lengths
        trained = trained.copy()
        trained[begins] &= masked[begins]
        labeled = np.flatnonzero(trained)
        sequences = np.searchsorted(begins, labeled, side="right") - 1
        positions = labeled - begins[sequences]
        has_label, first_labels = np.unique(sequences, return_index=True)
        labels_of = np.bincount(sequences, minlength=len(lengths))
        self.by_position = _sum(self.by_position, np.bincount(positions))
        self.causal = _sum(self.causal, np.bincount(positions[~masked[labeled]]))
        self.by_length = _sum(self.by_length, np.bincount(lengths, labels_of).astype(np.int64))
        self.firsts = _sum(self.firsts, np.bincount(positions[first_labels], minlength=int(has_label.size > 0)))

    @property
    def number(self) -> int:
        """All labels of the sequences as they are."""
        return int(self.by_position.sum())

    def kept(self, max_length: int, overlong: CutRule) -> int:
        """Count labels that are left where sequences longer than `max_length` tokens are cut by the rule `overlong`."""
        if overlong == "drop":
            return int(self.by_length[: max_length + 1].sum())
        if overlong == "truncate":
            return int(self.by_position[:max_length].sum())
        return self.number - int(self.causal[::max_length].sum())

    def emptied(self, max_length: int, overlong: CutRule) -> int | None:
        """Count sequences that had a label and have none left after "truncate"; None for another rule."""
        return int(self.firsts[max_length:].sum()) if overlong == "truncate" else None


def _sum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Add two arrays of counts, the shorter of which is taken to go on with zeros."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
